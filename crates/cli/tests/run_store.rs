//! Stores: what is complete stays, what is damaged is said and set aside, nothing is mixed.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod sample_store;

use std::path::Path;

use fsage_lab::plan::plan;
use fsage_lab::store::{Store, StoreError};
use fsage_lab::study::{Consent, Overrides, Study, load};
use fsage_model::problem::Explain;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use sample_store::sample;

fn aging(set: &[&str]) -> Study {
    let set = set.iter().map(|s| (*s).to_owned()).collect();
    load(Path::new("aging"), &Overrides { preset: Some("quick".into()), set }, Consent::Given).unwrap()
}

#[test]
fn what_was_written_is_read_back_in_the_order_of_the_plan() {
    let directory = tempfile::tempdir().unwrap();
    let root = sample(directory.path(), 2);
    let store = Store::open(&root).unwrap();
    let (trials, damaged) = store.read_trials();
    assert!(damaged.is_empty());
    let planned: Vec<&String> = store.plan().trials.iter().map(|t| &t.id).collect();
    assert_eq!(trials.iter().map(|t| &t.id).collect::<Vec<_>>(), planned);
    assert_eq!(trials.len(), 30);
    assert_eq!(std::fs::read_to_string(root.join("study.toml")).unwrap(), aging(&[]).text);
}

#[test]
fn probes_are_a_table_of_buckets() {
    let directory = tempfile::tempdir().unwrap();
    let root = sample(directory.path(), 1);
    let store = Store::open(&root).unwrap();
    let trial = &store.trials()[0];
    let path = store.trial_directory(&trial.id).join("probes.parquet");
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let free: i64 = rows
        .iter()
        .filter(|r| r.get_int(1).unwrap() == 39 && r.get_string(8).unwrap() == "free_space")
        .map(|r| r.get_long(10).unwrap())
        .sum();
    let probes = trial.stages[0].probes();
    assert_eq!(u64::try_from(free).unwrap(), probes[39].free_space.as_ref().unwrap().extents);
    assert_eq!(rows[0].get_string(0).unwrap(), "age");
    assert_eq!(rows[0].get_long(7).unwrap(), 50_000_000);
    // Every row says of which trial it is, so that many files are one table.
    for row in &rows {
        let last: Vec<(&String, String)> =
            row.get_column_iter().skip(12).map(|(name, value)| (name, value.to_string())).collect();
        assert_eq!(last.len(), 1 + trial.factors.len());
        assert_eq!((last[0].0.as_str(), last[0].1.trim_matches('"')), ("trial", trial.id.as_str()));
        for ((name, value), (path, factor)) in last[1..].iter().zip(&trial.factors) {
            assert_eq!(*name, &format!("factor.{path}"));
            let factor = factor.as_str().map_or_else(|| factor.to_string(), str::to_owned);
            assert_eq!(value.trim_matches('"'), factor);
        }
    }
}

#[test]
fn a_damaged_record_is_reported_set_aside_and_not_complete() {
    let directory = tempfile::tempdir().unwrap();
    let root = sample(directory.path(), 1);
    let store = Store::open(&root).unwrap();
    let id = store.plan().trials[2].id.clone();
    let path = store.trial_directory(&id).join("trial.json");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let (trials, damaged) = store.read_trials();
    assert_eq!(trials.len(), 14);
    assert_eq!(damaged.len(), 1);
    assert!(damaged[0].reason.contains("in the middle"), "{}", damaged[0].reason);
    let study = aging(&[]);
    let writer = Store::create(&root, &plan(&study), &study.text).unwrap();
    writer.set_aside(&damaged[0]).unwrap();
    assert!(path.with_extension("json.damaged").exists());
    assert!(writer.damaged().is_empty());
    assert_eq!(writer.trials().len(), 14);
}

#[test]
fn records_that_are_not_ours_are_damage() {
    let directory = tempfile::tempdir().unwrap();
    let root = sample(directory.path(), 1);
    let store = Store::open(&root).unwrap();
    let ids: Vec<String> = store.plan().trials.iter().map(|t| t.id.clone()).collect();
    let record = |id: &String| store.trial_directory(id).join("trial.json");
    std::fs::copy(record(&ids[0]), record(&ids[1])).unwrap();
    std::fs::write(record(&ids[2]), b"\0\0\0\0").unwrap();
    let ours = format!("\"version\":{}", fsage_model::record::STORE_VERSION);
    let newer = std::fs::read_to_string(record(&ids[3])).unwrap().replacen(&ours, "\"version\":99", 1);
    std::fs::write(record(&ids[3]), newer).unwrap();
    let damaged = store.damaged();
    assert_eq!(damaged.len(), 3);
    assert!(damaged[0].reason.contains(&ids[0]));
    assert!(damaged[2].reason.contains("version 99"));
}

#[test]
fn a_store_grows_but_does_not_mix() {
    let directory = tempfile::tempdir().unwrap();
    let root = sample(directory.path(), 1);
    let create = |set: &[&str]| {
        let study = aging(set);
        Store::create(&root, &plan(&study), &study.text)
    };
    assert_eq!(create(&["repeats=3"]).unwrap().trials().len(), 15);
    let error = create(&["volume.size=2GiB"]).unwrap_err();
    assert!(matches!(error, StoreError::OtherStudy { .. }), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(matches!(create(&["name=other"]), Err(StoreError::OtherStudy { .. })));
}

#[test]
fn a_folder_of_other_things_is_not_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("thesis.doc"), "mine").unwrap();
    let study = aging(&[]);
    let error = Store::create(directory.path(), &plan(&study), &study.text).unwrap_err();
    assert!(error.to_string().contains("thesis.doc"), "{error}");
    assert!(matches!(Store::open(directory.path()), Err(StoreError::NotAStore { .. })));
}

#[test]
fn a_store_in_use_says_by_whom() {
    let directory = tempfile::tempdir().unwrap();
    let study = aging(&[]);
    let first = Store::create(directory.path(), &plan(&study), &study.text).unwrap();
    let error = Store::create(directory.path(), &plan(&study), &study.text).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    drop(first);
}

#[test]
fn a_newer_store_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let root = sample(directory.path(), 1);
    std::fs::write(root.join("plan.json"), "{\"version\": 99}").unwrap();
    assert!(matches!(Store::open(&root), Err(StoreError::Version { found: 99, .. })));
    std::fs::write(root.join("plan.json"), "{\"ver").unwrap();
    assert!(matches!(Store::open(&root), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_damaged_plan_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let study = aging(&[]);
    drop(Store::create(directory.path(), &plan(&study), &study.text).unwrap());
    std::fs::write(directory.path().join("plan.json"), "{\"ver").unwrap();
    drop(Store::create(directory.path(), &plan(&study), &study.text).unwrap());
    assert!(Store::open(directory.path()).is_ok());
    assert_eq!(std::fs::read_to_string(directory.path().join("plan.json.damaged")).unwrap(), "{\"ver");
}
