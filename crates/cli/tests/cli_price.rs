//! `fsage price`: logs in files, made here without a kernel.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::fs::File;
use std::path::{Path, PathBuf};

use cli_support::{Run, fsage};
use fsage_disk::disk::{Disk, DiskOptions};
use fsage_disk::log::file::Writer;
use fsage_disk::log::stream::copy;
use fsage_disk::media::Resolve as _;
use fsage_disk::request::{Data, Operation, Request, Transfer};
use fsage_model::medium::MediumSpec;
use serde_json::Value;

/// A number that looks like chance: places at equal distances would be in step with the platters.
fn scattered(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// The log of a disk of this medium that was read and written in batches, with two marks.
fn recorded(folder: &Path, name: &str, medium: &str, named: bool) -> PathBuf {
    let spec: MediumSpec = medium.parse().unwrap();
    let model = spec.resolve(1 << 30).unwrap();
    let mut disk = Disk::new(&DiskOptions::new(1 << 30), Box::new(model)).unwrap();
    if named {
        disk.name_medium(spec.to_string());
    }
    disk.start_log();
    for round in 0..300_u64 {
        if round == 100 || round == 200 {
            disk.mark(if round == 100 { "age" } else { "grep" }).unwrap();
            disk.rest();
        }
        let place = |n: u64| scattered(round * 3 + n) % 262_000 * 4096;
        let (mut one, mut other) = ([0; 4096], [0; 4096]);
        let read = |n| Request::new(Operation::Read, place(n), 4096);
        disk.submit(&mut [
            Transfer::new(read(0), Data::In(&mut one)),
            Transfer::new(Request::new(Operation::Write, place(1), 4096), Data::Out(&[7; 4096])),
            Transfer::new(read(2), Data::In(&mut other)),
        ]);
        if round % 10 == 0 {
            disk.submit(&mut [Transfer::new(Request::new(Operation::Flush, 0, 0), Data::None)]);
        }
    }
    let path = folder.join(name);
    let geometry = disk.log().unwrap().geometry();
    let writer = Writer::new(File::create(&path).unwrap(), geometry, 7).unwrap();
    copy(&mut disk.log_source().unwrap(), writer).unwrap();
    path
}

fn price(log: &Path, words: &[&str]) -> Run {
    let log = log.display().to_string();
    fsage(&[&["price", &log], words].concat())
}

fn json(log: &Path, words: &[&str]) -> Value {
    let run = price(log, &[words, &["--json"]].concat());
    run.result()
}

#[test]
fn a_log_is_checked_on_its_own_medium_and_priced_on_others() {
    let folder = tempfile::tempdir().unwrap();
    let log = recorded(folder.path(), "requests.log", "hdd-7200", true);
    let found = json(&log, &["--medium", "hdd-10k", "--medium", "hdd-7200,rpm=5400"]);
    let found = &found[0];
    assert_eq!((found["recorded_on"].as_str(), found["trial"].as_str()), (Some("hdd-7200"), None));
    assert_eq!(found["check"]["deviation"], serde_json::json!({"requests": 0, "largest_ns": 0}));
    assert_eq!(found["check"]["requests"], 930);
    let ratio = |n: usize| found["media"][n]["ratio"].as_f64().unwrap();
    assert!(ratio(0) < 0.9 && ratio(1) > 1.05, "{} {}", ratio(0), ratio(1));
    let intervals = found["media"][0]["priced"]["intervals"].as_array().unwrap();
    let names: Vec<_> = intervals.iter().map(|one| one["mark"].as_str()).collect();
    assert_eq!(names, [None, Some("age"), Some("grep")]);

    let run = price(&log, &["--medium", "hdd-10k"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    for wanted in [
        "930 requests recorded on hdd-7200",
        "check: hdd-7200 repeats every recorded time to the nanosecond",
        "÷ recorded",
        "hdd-10k: seeks ",
    ] {
        assert!(run.stdout.contains(wanted), "{wanted}: {}", run.stdout);
    }
}

#[test]
fn parameters_are_varied_and_the_one_that_matters_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let log = recorded(folder.path(), "requests.log", "hdd-7200", true);
    let found = json(&log, &["--vary", "20%"]);
    let medium = &found[0]["media"][0];
    assert_eq!((medium["medium"].as_str(), medium["ratio"].as_f64()), (Some("hdd-7200"), Some(1.0)));
    let variations = medium["variations"].as_array().unwrap();
    let of = |key: &str| variations.iter().find(|one| one["key"] == key).unwrap();
    let ratio = |key: &str, side: &str| of(key)[side]["ratio"].as_f64().unwrap();
    assert_eq!(
        (of("rpm")["low"]["value"].as_u64(), of("rpm")["high"]["value"].as_u64()),
        (Some(5760), Some(8640))
    );
    assert!(ratio("rpm", "low") > 1.02 && ratio("rpm", "high") < 0.99, "{}", of("rpm"));
    // 1 GiB is read at random: the reach of the arm matters, the size of the buffer hardly does.
    let reach = |key| (ratio(key, "high") - ratio(key, "low")).abs();
    assert!(reach("rpm") > 5.0 * reach("read_cache_bytes"));
    let run = price(&log, &["--vary", "20%"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let table: Vec<&str> = run.stdout.lines().skip_while(|line| !line.contains("−20 %")).collect();
    let row = |key: &str| table.iter().position(|line| line.starts_with(key)).unwrap();
    assert!(row("rpm") < row("read_cache_bytes"), "{}", run.stdout);
}

#[test]
fn what_cannot_be_priced_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, medium, named| recorded(folder.path(), name, medium, named);
    let (named, unnamed) =
        (log("named", "ssd-consumer,capacity_bytes=1073741824", true), log("unnamed", "hdd-7200", false));
    let refused = |log: &Path, words: &[&str], code: i32, wanted: &[&str]| {
        let run = price(log, words);
        assert_eq!(run.code, code, "{words:?}: {}", run.text());
        for wanted in wanted {
            assert!(run.stderr.contains(wanted), "{wanted}: {}", run.stderr);
        }
    };
    refused(
        &named,
        &["--medium", "hdd-7200"],
        2,
        &["the one is not rotational, the other is rotational", "hint: "],
    );
    refused(&named, &["--medium", "hdd-720"], 2, &["did you mean `hdd-7200`?"]);
    refused(&named, &[], 2, &["--medium"]);
    refused(&named, &["--vary", "120%"], 2, &["write it as 20%"]);
    refused(&unnamed, &["--medium", "hdd-10k"], 2, &["does not name the medium", "--recorded-on"]);
    let told = json(&unnamed, &["--medium", "hdd-10k", "--recorded-on", "hdd-7200"]);
    assert_eq!(told[0]["check"]["deviation"]["requests"], 0);
    let whole = std::fs::read(&named).unwrap();
    let cut = folder.path().join("cut");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    refused(&cut, &["--medium", "ssd"], 5, &["it is truncated"]);
    let mut newer = whole;
    newer[8] = 9;
    std::fs::write(&cut, &newer).unwrap();
    refused(&cut, &["--medium", "ssd"], 2, &["has version 9", "hint: "]);
    refused(folder.path(), &["--medium", "ssd"], 2, &["neither a log nor a store"]);
    refused(Path::new("/nowhere/log"), &["--medium", "ssd"], 4, &["cannot open /nowhere/log"]);
    // A format without times says nothing of what waited for what.
    let foreign = folder.path().join("foreign");
    let converted = fsage(&[
        "disk",
        "log",
        "convert",
        named.to_str().unwrap(),
        foreign.to_str().unwrap(),
        "--to",
        "dm-log-writes",
    ]);
    assert_eq!(converted.code, 0, "{}", converted.stderr);
    refused(&foreign, &["--medium", "ssd"], 2, &["has no times", "fsage disk replay"]);
}
