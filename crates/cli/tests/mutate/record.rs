//! Records of trials: a store that was downloaded is read and shown.

use std::path::PathBuf;

use fsage_analysis::report::{ReportOptions, render};
use fsage_lab::plan::plan;
use fsage_lab::store::Reader;
use fsage_lab::store::Store;
use fsage_lab::study::{Consent, Overrides, load};
use serde_json::Value;

use super::test_directory::TestDirectory;
use super::{Format, bytes};
use crate::dice::Dice;

/// A page takes far longer than reading: one is made of so many records.
const PAGES: u64 = 40;

pub struct Records {
    record: Value,
    plan: Value,
    path: PathBuf,
    outside: String,
    number: u64,
}

impl Records {
    pub fn new(test_directory: &TestDirectory) -> Self {
        let root = test_directory.path("inside/store");
        let set = vec!["repeats=1".to_owned(), "matrix={}".to_owned()];
        let study = load("aging".as_ref(), &Overrides { preset: Some("quick".into()), set }, Consent::Given)
            .or_else(|_| {
                load(
                    "aging".as_ref(),
                    &Overrides { preset: Some("quick".into()), set: Vec::new() },
                    Consent::Given,
                )
            })
            .unwrap();
        let mut plan = plan(&study);
        plan.trials.truncate(1);
        let trial = plan.trials[0].clone();
        let writer = Store::create(&root, &plan, &study.text).unwrap();
        let spec = serde_json::to_value(&study.cells[trial.cell].spec).unwrap();
        let record = crate::sample_store::record(&trial, spec);
        writer.begin(&trial.id).unwrap().finish(&record, 1_767_225_600).unwrap();
        let path = root.join("trials").join(&trial.id).join("trial.json");
        let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        shorten(&mut record);
        let plan = serde_json::from_slice(&std::fs::read(root.join("plan.json")).unwrap()).unwrap();
        Self { record, plan, path, outside: test_directory.sentinels(), number: 0 }
    }
}

/// Long lists say the same again and again.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.truncate(6);
            items.iter_mut().for_each(shorten);
        }
        Value::Object(entries) => entries.values_mut().for_each(shorten),
        _ => {}
    }
}

impl Format for Records {
    /// One in eight is of the plan: then its first byte is not that of JSON.
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8> {
        let of_plan = dice.one_in(8);
        let mut value = if of_plan { self.plan.clone() } else { self.record.clone() };
        bytes::json(dice, &mut value, &self.outside);
        let mut mutant = serde_json::to_vec(&value).unwrap();
        if dice.one_in(5) {
            let times = 1 + dice.below(4);
            bytes::bytes(dice, &mut mutant, times);
        }
        if of_plan {
            mutant.insert(0, b'P');
        }
        mutant
    }

    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String> {
        let root = test_directory.path("inside/store");
        let (path, bytes, whole) = match bytes.split_first() {
            Some((b'P', rest)) => (root.join("plan.json"), rest, &self.plan),
            _ => (self.path.clone(), bytes, &self.record),
        };
        std::fs::write(&path, bytes).unwrap();
        let read = Store::open(&root).map(|store| store.read_trials());
        let accepted = matches!(&read, Ok((trials, damaged)) if !trials.is_empty() && damaged.is_empty());
        let mut shown = Ok(accepted);
        self.number += 1;
        if accepted && self.number.is_multiple_of(PAGES) {
            let page = Reader::open(&root).map_or_else(
                |_| String::new(),
                |records| render(&records, &ReportOptions::default()).unwrap_or_default(),
            );
            // What a name says must not be what the page does.
            if page.contains("<script>hostile()") || page.contains("<!--<script>") {
                shown = Err("the page has a name of the record as markup".to_owned());
            }
        }
        std::fs::write(&path, serde_json::to_vec(whole).unwrap()).unwrap();
        shown
    }
}
