//! Stage two on this host: images, copies and measures of real, small volumes.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use fsage_lab::store::Store;
use fsage_lab::store::images::Images;
use fsage_model::record::{StageRecord, TrialRecord, TrialStatus};
use lab::Lab;
use support::can_mount;

const STUDY: &str = include_str!("data/states.toml");

fn factor<'a>(trial: &'a TrialRecord, path: &str) -> &'a str {
    trial.factors[path].as_str().unwrap()
}

fn metric(trial: &TrialRecord, name: &str) -> Option<f64> {
    trial.metrics.iter().find(|metric| metric.name == name)?.samples.first().copied()
}

#[test]
fn every_state_is_what_it_says_and_images_are_shared() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(STUDY);
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    assert_eq!(trials.len(), 9);
    assert!(trials.iter().all(|t| t.status == TrialStatus::Complete && t.check == "clean"), "{stderr}");
    // One image a file system; one of the two trials that use it made it.
    let images = Images::of(&lab.store()).list();
    assert_eq!(images.len(), 3);
    // What copies passed through is not kept.
    assert_eq!(std::fs::read_dir(lab.store().join("images")).unwrap().count(), 2 * images.len());
    let mut made: BTreeMap<&str, Vec<bool>> = BTreeMap::new();
    for trial in &trials {
        for stage in &trial.stages {
            if let StageRecord::Image { made: here, .. } = stage {
                made.entry(factor(trial, "file_system.kind")).or_default().push(*here);
            }
        }
    }
    assert!(made.values().all(|list| list.len() == 2 && list.iter().filter(|here| **here).count() == 1));
    for trial in &trials {
        let aged = trial.stages.iter().any(|stage| stage.load().is_some());
        // The copy went through an image as the original did.
        let copied =
            trial.stages.iter().any(|stage| matches!(stage, StageRecord::Copy { restored: true, .. }));
        let state = factor(trial, "state");
        assert_eq!((aged, copied), (state != "fresh", state == "unaged"), "{state}");
        // A fresh file system has nothing to read; ageing belongs to the trial that measured the aged volume.
        assert_eq!(metric(trial, "grep").is_some(), state != "fresh");
        assert_eq!(metric(trial, "age.elapsed_s").is_some(), state == "aged");
        assert!(metric(trial, "create").is_some_and(|cost| cost > 0.0), "{state}");
        // Where files lay is known whether the trial aged them itself or took the image; of a copy, where the
        // copy's lay.
        let places = Store::open(&lab.store()).unwrap().places(&trial.id).unwrap();
        let stages: Vec<String> =
            places.into_iter().flat_map(|record| record.volumes).map(|kept| kept.stage).collect();
        let expected: &[&str] = match state {
            "aged" => &["age"],
            "unaged" => &["copy"],
            _ => &[],
        };
        assert_eq!(stages, expected, "{state}");
    }
    // The page compares the states; with one repeat what differs is said of this run alone.
    let page = lab.report();
    for words in ["age-cost-table", "layout-cost-chart", "aged ÷ unaged", "aged ÷ fresh", "none with repeats"]
    {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn a_copy_has_the_same_files_in_fewer_pieces() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(STUDY);
    let (code, stderr) =
        lab.run(&["matrix.state=[\"aged\", \"unaged\"]", "matrix.\"file_system.kind\"=[\"ext4\"]"]);
    assert_eq!(code, Some(0), "{stderr}");
    let trials = lab.trials();
    let of = |state: &str| trials.iter().find(|trial| factor(trial, "state") == state).unwrap();
    let (aged, unaged) = (of("aged"), of("unaged"));
    assert!(metric(aged, "layout.extents_per_file") > metric(unaged, "layout.extents_per_file"));
    let files = |trial: &TrialRecord| {
        trial.stages.iter().find_map(|stage| match stage {
            StageRecord::Measure { before, .. } => Some((before.files, before.directories)),
            _ => None,
        })
    };
    assert_eq!(files(aged), files(unaged));
}

#[test]
fn a_damaged_image_fails_its_trial_and_a_missing_record_makes_it_anew() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(STUDY);
    let only = |state: &str| format!("matrix.state=[\"{state}\"]");
    let ext4 = "matrix.\"file_system.kind\"=[\"ext4\"]";
    assert_eq!(lab.run(&[&only("aged"), ext4]).0, Some(0));
    let images = Images::of(&lab.store());
    let key = images.list()[0].key.clone();
    let mut bytes = std::fs::read(images.path(&key)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(images.path(&key), &bytes).unwrap();
    let both = "matrix.state=[\"aged\", \"unaged\"]";
    let (code, stderr) = lab.run(&[both, ext4]);
    assert_eq!(code, Some(5), "{stderr}");
    lab.nothing_left();
    // Its record removed, it counts as never made.
    images.remove(&key).unwrap();
    let (code, stderr) = lab.run(&[both, ext4]);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let keys: BTreeSet<String> = images.list().into_iter().map(|record| record.key).collect();
    assert_eq!(keys, BTreeSet::from([key]));
}
