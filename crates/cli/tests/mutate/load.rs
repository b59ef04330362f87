//! Profiles and recorded histories: an accepted one is aged after, below a directory and nowhere else.

use std::path::Path;

use fsage_engine::load::{self, NoSink};
use fsage_lab::profile::Named;
use fsage_model::fit::Fit;
use fsage_model::load::LoadSpec;
use fsage_model::workload::WorkloadSpec;
use serde_json::{Value, json};

use super::test_directory::{TestDirectory, limited};
use super::{Format, bytes};
use crate::dice::Dice;

/// Operations of each load.
const OPERATIONS: u64 = 40;

/// A small load of any workload.
pub fn spec(directory: &Path, workload: WorkloadSpec, operations: u64) -> LoadSpec {
    let text = json!({
        "workload": workload, "directory": directory, "threads": 1, "seed": 3,
        "stop": { "operations": operations, "seconds": 1.0 },
    });
    serde_json::from_value(text).unwrap()
}

pub fn drift() -> WorkloadSpec {
    let text = json!({
        "kind": "drift", "slots": 30,
        "file_size": { "kind": "uniform", "min": 1, "max": 16384 },
        "directories": { "count": 6, "fan_out": 3, "depth": 2 },
    });
    serde_json::from_value(text).unwrap()
}

/// Runs a few operations of it; whether it was taken.
pub fn age(workload: WorkloadSpec, test_directory: &TestDirectory) -> bool {
    let directory = test_directory.work();
    limited(|control| load::run(&spec(&directory, workload, OPERATIONS), control, &mut NoSink)).is_ok()
}

/// Profiles of trees.
pub struct Profiles {
    text: &'static str,
}

impl Profiles {
    pub fn new() -> Self {
        Self { text: include_str!("../../../../studies/profiles/debian-usr.toml") }
    }
}

impl Format for Profiles {
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8> {
        if dice.one_in(3) {
            return bytes::text(dice, self.text, "/nowhere/outside");
        }
        // Figures that stand by themselves: lists have to add up to their totals.
        let mut lines: Vec<String> = self.text.lines().map(str::to_owned).collect();
        let single = |line: &String| line.contains(" = ") && !line.contains('[');
        let places: Vec<usize> = (0..lines.len()).filter(|at| single(&lines[*at])).collect();
        for _ in 0..=dice.below(2) {
            let at = *dice.of(&places);
            let (key, _) = self.text.lines().nth(at).unwrap().split_once(" = ").unwrap();
            lines[at] = format!("{key} = {}", bytes::figure(dice));
        }
        (lines.join("\n") + "\n").into_bytes()
    }

    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String> {
        let path = test_directory.path("inside/profile.toml");
        std::fs::write(&path, bytes).unwrap();
        let Ok(profile) = fsage_lab::profile::read(&path) else { return Ok(false) };
        for volume_bytes in [1 << 16, 1 << 30, 1 << 50] {
            let fit = Fit::new(&profile, volume_bytes, 1);
            if !(0.0..=1.0).contains(&fit.used_share) || fit.files == 0 {
                return Err(format!("a profile makes {fit:?}"));
            }
        }
        let mut workload = json!({ "kind": "drift", "like": "profile.toml" });
        let embedded = fsage_lab::profile::embed(Some(&Named::File(path)), &mut workload, &[]);
        embedded.map_err(|error| format!("it is read, but not embedded: {error}"))?;
        let Ok(workload) = serde_json::from_value(workload) else { return Ok(false) };
        // The tree of a large profile is as large as the volume under it: only some are made.
        if bytes.len().is_multiple_of(16) {
            age(workload, test_directory);
        }
        Ok(true)
    }
}

/// Histories of trees, as listings become and agents get them.
pub struct Listings {
    history: Value,
}

impl Listings {
    pub fn new() -> Self {
        let history = json!({
            "kind": "recorded",
            "directories": [0, 1, 1, 0, 4],
            "paths": [0, 1, 2, 3, 4, 5, 5, 0],
            "commits": [
                { "written": [[0, 4096], [1, 100], [2, 70_000], [3, 1], [4, 9000]], "removed": [] },
                { "written": [[0, 5000], [5, 12]], "removed": [3] },
                { "written": [[6, 300], [7, 65_536], [3, 17]], "removed": [0, 5] },
                { "written": [[2, 1]], "removed": [1, 6] },
            ],
        });
        Self { history }
    }
}

impl Format for Listings {
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8> {
        let mut history = self.history.clone();
        bytes::json(dice, &mut history, "/nowhere/outside");
        let mut mutant = serde_json::to_vec(&history).unwrap();
        if dice.one_in(6) {
            let times = 1 + dice.below(3);
            bytes::bytes(dice, &mut mutant, times);
        }
        mutant
    }

    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String> {
        let Ok(history) = serde_json::from_slice::<Value>(bytes) else { return Ok(false) };
        let mut taken = false;
        for workload in [
            json!({ "kind": "snapshots", "history": history }),
            json!({ "kind": "git", "history": history, "fill": 0.0001, "steps": 3 }),
        ] {
            let Ok(workload) = serde_json::from_value(workload) else { continue };
            taken |= age(workload, test_directory);
        }
        Ok(taken)
    }
}
