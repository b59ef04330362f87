//! `fsage export` on stores with made-up numbers: formats, order, errors, files that must not be written.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod sample_store;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{FSAGE, Run, fsage};
use fsage_lab::store::Store;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use sample_store::sample;
use serde_json::Value;

const FORMATS: [&str; 4] = ["csv", "parquet", "json", "openmetrics"];

fn export(store: &Path, format: &str, file: &Path) -> Run {
    let (store, file) = (store.to_str().unwrap(), file.to_str().unwrap());
    fsage(&["export", store, "--format", format, "-o", file])
}

/// Makes a store of 30 trials; gives it and its trials' ids in the order of the plan.
fn store(folder: &Path) -> (PathBuf, Vec<String>) {
    let root = sample(&folder.join("store"), 2);
    let ids = Store::open(&root).unwrap().plan().trials.iter().map(|trial| trial.id.clone()).collect();
    (root, ids)
}

fn rows(json: &str) -> Vec<Value> {
    serde_json::from_str(json).unwrap()
}

#[test]
fn every_sample_is_a_row_in_the_order_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (root, ids) = store(folder.path());
    let run = fsage(&["export", root.to_str().unwrap(), "--format", "json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stderr);
    let found = rows(&run.stdout);
    let store = Store::open(&root).unwrap();
    let trials = store.trials();
    let samples: usize =
        trials.iter().flat_map(|trial| &trial.metrics).map(|metric| metric.samples.len()).sum();
    assert_eq!(found.len(), samples);
    let mut order: Vec<&str> = found.iter().map(|row| row["trial"].as_str().unwrap()).collect();
    order.dedup();
    assert_eq!(order, ids);
    let one = found.iter().find(|row| row["trial"] == ids[20].as_str()).unwrap();
    let planned = &store.plan().trials[20];
    assert_eq!((&one["position"], &one["block"]), (&20.into(), &1.into()));
    assert_eq!((&one["repeat"], &one["seed"]), (&planned.repeat.into(), &planned.seed.into()));
    for (path, value) in &planned.factors {
        let exported = &one[format!("factor.{path}")];
        assert!(exported == value || exported.as_f64() == value.as_f64(), "{path}: {exported} {value}");
    }
    assert_eq!((&one["warnings"], &one["kernel"]), (&"cpu-bound".into(), &"0.0.0-made-up".into()));
    assert_eq!((&one["device_bytes"], &one["model_time"]), (&(1_i64 << 30).into(), &false.into()));
}

#[test]
fn each_format_has_the_same_bytes_each_time_and_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (root, _) = store(folder.path());
    let mut numbers = BTreeSet::new();
    for format in FORMATS {
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let run = export(&root, format, &one);
        assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{format}: {}", run.stderr);
        assert!(run.stderr.contains("rows of 30 trials"), "{}", run.stderr);
        let written = fsage(&[
            "export",
            root.to_str().unwrap(),
            "--format",
            format,
            "-o",
            two.to_str().unwrap(),
            "--json",
        ]);
        let written = written.result();
        assert_eq!((&written["trials"], &written["export_version"]), (&30.into(), &1.into()));
        let bytes = std::fs::read(&one).unwrap();
        assert_eq!(bytes, std::fs::read(&two).unwrap(), "{format}");
        let count = match format {
            "parquet" => {
                let file = SerializedFileReader::new(std::fs::File::open(&one).unwrap()).unwrap();
                usize::try_from(file.metadata().file_metadata().num_rows()).unwrap()
            }
            "json" => rows(&String::from_utf8(bytes).unwrap()).len(),
            "csv" => String::from_utf8(bytes).unwrap().lines().count() - 1,
            _ => String::from_utf8(bytes).unwrap().lines().filter(|l| l.starts_with("fsage_sample{")).count(),
        };
        assert_eq!(written["rows"], count);
        numbers.insert(count);
    }
    assert_eq!(numbers.len(), 1, "{numbers:?}");
}

#[test]
fn damage_is_an_error_that_leaves_no_file_and_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (root, ids) = store(folder.path());
    let record = |id: &String| root.join("trials").join(id).join("trial.json");
    let whole = std::fs::read(record(&ids[7])).unwrap();
    std::fs::write(record(&ids[7]), &whole[..whole.len() / 2]).unwrap();
    let failed = std::fs::read_to_string(record(&ids[3])).unwrap();
    std::fs::write(record(&ids[3]), failed.replacen("\"complete\"", "\"failed\"", 1)).unwrap();
    std::fs::remove_file(record(&ids[4])).unwrap();
    let file = folder.path().join("out.csv");
    std::fs::write(&file, "old").unwrap();
    let run = export(&root, "csv", &file);
    assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{run:?}");
    assert!(run.stderr.contains(&ids[7]) && run.stderr.contains("--allow-damaged"), "{}", run.stderr);
    assert_eq!(std::fs::read(&file).unwrap(), b"old", "the old file is kept");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    let (store, out) = (root.to_str().unwrap(), file.to_str().unwrap());
    let run = fsage(&["export", store, "--format", "csv", "-o", out, "--allow-damaged"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains(&format!("trial {} is left out", ids[7])), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("trial {} failed and is left out", ids[3])), "{}", run.stderr);
    let text = std::fs::read_to_string(&file).unwrap();
    let exported: BTreeSet<&String> = ids.iter().filter(|id| text.contains(id.as_str())).collect();
    assert_eq!(exported.len(), 27);
}

#[test]
fn an_empty_store_and_mistakes_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (root, ids) = store(folder.path());
    for id in &ids {
        std::fs::remove_file(root.join("trials").join(id).join("trial.json")).unwrap();
    }
    let file = folder.path().join("none.json");
    let run = export(&root, "json", &file);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.stderr.contains("has no complete trial to export") && run.stderr.contains("hint:"),
        "{run:?}"
    );
    assert!(!file.exists());
    let empty = fsage(&["export", root.to_str().unwrap(), "--format", "csv"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (2, ""), "no heading either");
    assert_eq!(export(folder.path(), "csv", &file).code, 2);
    let both = fsage(&["export", root.to_str().unwrap(), "--format", "csv", "--json"]);
    assert_eq!((both.code, both.stdout.as_str()), (2, ""));
    assert!(both.error_object()["hint"].as_str().unwrap().contains("-o FILE"), "{both:?}");
}

#[test]
fn it_writes_no_device_and_through_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let (root, _) = store(folder.path());
    let run = export(&root, "csv", Path::new("/dev/null"));
    assert_eq!(run.code, 4, "{run:?}");
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(
        &std::fs::metadata("/dev/null").unwrap().file_type()
    ));
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    std::fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let _ = export(&root, "csv", &link);
    assert_eq!(std::fs::read(&target).unwrap(), b"mine", "what a link names is not written to");
    let run = export(&root, "csv", &folder.path().join("none/out.csv"));
    assert_eq!(run.code, 4, "{run:?}");
}

#[test]
fn the_schema_is_the_published_one() {
    let run = fsage(&["export", "--schema"]);
    let published = include_str!("../../../docs/export.schema.json");
    assert_eq!(run.result(), serde_json::from_str::<Value>(published).unwrap());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let (root, _) = store(folder.path());
    for format in FORMATS {
        let line = format!("{FSAGE} export {} --format {format} | head -c 1 > /dev/null", root.display());
        let run = Run::of(Command::new("bash").args(["-o", "pipefail", "-c", &line]));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{format}: {run:?}");
    }
}

/// Nine hundred trials take no more memory than thirty: one is held at a time, whatever the format.
#[test]
fn memory_does_not_grow_with_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let (root, ids) = store(folder.path());
    let peak = |format: &str| -> u64 {
        let file = folder.path().join("out");
        let command =
            [FSAGE, "export", root.to_str().unwrap(), "--format", format, "-o", file.to_str().unwrap()];
        let script = "import resource, subprocess, sys\n\
                      subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL)\n\
                      print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
        let output = Command::new("python3").args(["-c", script]).args(command).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    if Command::new("python3").arg("--version").output().is_err() {
        cli_support::skip("no python3 to measure memory with");
        return;
    }
    let before: Vec<u64> = ["csv", "json"].map(peak).to_vec();
    // The same records again under other ids, without their stages: what is exported of them is all there.
    let mut plan: Value = serde_json::from_slice(&std::fs::read(root.join("plan.json")).unwrap()).unwrap();
    let trials = plan["trials"].as_array().unwrap().clone();
    for (trial, id) in trials.iter().zip(&ids) {
        let record = std::fs::read(root.join("trials").join(id).join("trial.json")).unwrap();
        let mut record: Value = serde_json::from_slice(&record).unwrap();
        record["stages"] = Value::Array(Vec::new());
        for copy in 1..30_u64 {
            let new = format!("{:016x}", u64::from_str_radix(id, 16).unwrap() ^ (copy << 40));
            record["id"] = new.as_str().into();
            let folder = root.join("trials").join(&new);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("trial.json"), record.to_string()).unwrap();
            let mut trial = trial.clone();
            trial["id"] = new.into();
            plan["trials"].as_array_mut().unwrap().push(trial);
        }
    }
    std::fs::write(root.join("plan.json"), plan.to_string()).unwrap();
    for (format, before) in ["csv", "json"].into_iter().zip(before) {
        let after = peak(format);
        // The plan itself is held: 900 trials of it take about one MiB.
        assert!(after < before + 8 * 1024, "{format}: {before} KiB for 30 trials, {after} KiB for 900");
    }
}
