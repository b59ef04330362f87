//! Stores that were written before are still read. `data/stores/format-3.tar.zst` has two that fsage 0.1.0
//! wrote when every reader still had records of its own: `kept` (ageing, image, copy and measures on a
//! virtual disk) and `kept-lockstep`. Beside it stand the numbers that its `fsage compare` gave. Neither is
//! ever written again; a later format gets files of its own.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use fsage::compare::side;
use fsage_analysis::compare::{Options, compare};
use fsage_analysis::report::{ReportOptions, render};
use fsage_lab::store::Reader;
use fsage_lab::store::Store;
use fsage_model::record::StageRecord;
use fsage_model::warning::WarningKind;

const STORES: &[u8] = include_bytes!("data/stores/format-3.tar.zst");
const COMPARED: &str = include_str!("data/stores/format-3-aged-unaged.txt");

/// Unpacks the stores.
fn stores() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let archive = zstd::decode_all(STORES).unwrap();
    let mut tar = Command::new("tar")
        .args(["--extract", "--no-same-owner", "--directory"])
        .arg(folder.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    tar.stdin.take().unwrap().write_all(&archive).unwrap();
    assert!(tar.wait().unwrap().success());
    folder
}

fn page(store: &Path) -> String {
    render(&Reader::open(store).unwrap(), &ReportOptions::default()).unwrap()
}

#[test]
fn records_keep_their_stages_and_warnings() {
    let folder = stores();
    let store = Store::open(&folder.path().join("kept")).unwrap();
    let (trials, damaged) = store.read_trials();
    assert_eq!((trials.len(), damaged.len()), (6, 0), "{damaged:?}");
    let aged = trials.iter().find(|trial| trial.factors["state"] == "aged").unwrap();
    let [
        StageRecord::Age { result, probes, .. },
        StageRecord::Image { .. },
        StageRecord::Measure { results, .. },
    ] = &aged.stages[..]
    else {
        panic!("{:?}", aged.stages)
    };
    assert_eq!((result.operations, probes.len(), results.len()), (400, 2, 2));
    assert_eq!(aged.metrics.len(), 131);
    let kinds: Vec<&WarningKind> = aged.warnings.iter().map(|warning| &warning.kind).collect();
    let wanted = [WarningKind::TooFewSamples, WarningKind::CacheTooLarge, WarningKind::FragmentationEstimate];
    assert_eq!(kinds, wanted.iter().collect::<Vec<_>>());
    assert!(store.places(&aged.id).unwrap().is_some());
}

#[test]
fn presets_are_read_under_the_name_that_they_had() {
    let folder = stores();
    let root = folder.path().join("kept");
    let plan = std::fs::read_to_string(root.join("plan.json")).unwrap();
    let with = plan
        .replace(r#""profile":null"#, r#""profile":"quick""#)
        .replace(r#""profile":{}"#, r#""profile":{"quick":{"repeats":2}}"#);
    assert_ne!(plan, with);
    std::fs::write(root.join("plan.json"), with).unwrap();
    let store = Store::open(&root).unwrap();
    let plan = store.plan();
    assert_eq!(plan.overrides.preset.as_deref(), Some("quick"));
    assert_eq!(plan.study.preset["quick"]["repeats"], 2);
    // A report without a plan reads the study's text.
    std::fs::remove_file(root.join("plan.json")).unwrap();
    let study = root.join("study.toml");
    let text = std::fs::read_to_string(&study).unwrap() + "\n[profile.quick]\nrepeats = 2\n";
    std::fs::write(&study, text).unwrap();
    let page = page(&root);
    let unread = page.find("the study cannot be understood");
    assert_eq!(unread.map(|at| &page[at..at + 200]), None);
}

#[test]
fn they_are_reported() {
    let folder = stores();
    let kept = page(&folder.path().join("kept"));
    for section in ["summary", "latency", "free-space", "layout", "warnings", "setup"] {
        assert!(kept.contains(&format!("<section id=\"{section}\"")), "{section} is missing");
    }
    assert!(kept.contains(&WarningKind::TooFewSamples.explanation()));
    assert!(!kept.contains("its record was left out"));
    let lockstep = page(&folder.path().join("kept-lockstep"));
    assert!(lockstep.contains("<section id=\"lockstep\""));
    assert!(!lockstep.contains("its record was left out"));
}

#[test]
fn they_are_compared_with_the_same_numbers_as_then() {
    let folder = stores();
    let side =
        |state: &str| side(&format!("{}:state={state}", folder.path().join("kept").display())).unwrap();
    let comparison = compare(&side("aged"), &side("unaged"), &Options::default()).unwrap();
    let found: BTreeMap<&str, (f64, f64)> =
        comparison.rows.iter().map(|row| (row.metric.as_str(), (row.mean_a, row.mean_b))).collect();
    let then: BTreeMap<&str, (f64, f64)> = COMPARED
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0], (words[1].parse().unwrap(), words[2].parse().unwrap()))
        })
        .collect();
    assert_eq!(found, then);
}
