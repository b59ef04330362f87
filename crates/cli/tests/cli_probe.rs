//! `fsage device probe`: on a modelled card with delayed replies, on one in model time, on a loop device, on saved output.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::Scratch;

/// A runtime folder of its own, in which disks are by name; all of them go with it.
struct Disks {
    scratch: Scratch,
}

impl Disks {
    fn new() -> Option<Self> {
        (support::can_mount() && support::can_serve_disks()).then(|| Self { scratch: Scratch::new() })
    }

    fn output(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fsage"))
            .args(words)
            .env("FSAGE_AGENT", support::agent())
            .env("FSAGE_RUNTIME_DIR", self.scratch.path().join("runtime"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.output(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        let names =
            std::fs::read_dir(self.scratch.path().join("runtime/disks")).into_iter().flatten().flatten();
        for name in names {
            let _ = self.output(&["disk", "down", &name.file_name().to_string_lossy()]);
        }
    }
}

fn boundaries(report: &Value) -> Vec<u64> {
    let all = report["answer"]["boundaries"].as_array().unwrap_or_else(|| panic!("{report}"));
    all.iter().map(|one| one["bytes"].as_u64().unwrap()).collect()
}

#[test]
fn a_modelled_card_has_the_geometry_it_was_given_and_is_not_written_to() {
    let Some(disks) = Disks::new() else { return };
    for (name, time) in [("real", "real"), ("model", "model")] {
        let up =
            ["disk", "up", name, "--size", "2GiB", "--medium", "sd", "--time", time, "--block-bytes", "512"];
        let record = disks.json(&up);
        let report = disks.json(&["device", "probe", record["device"].as_str().unwrap()]);
        let geometry = [8 << 10, 16 << 10, 4 << 20];
        if time == "model" {
            assert_eq!(boundaries(&report), geometry, "{report}");
            assert_eq!(report["answer"]["page_bytes"], 8 << 10);
            assert_eq!(report["answer"]["unit_bytes"], 4 << 20);
            assert_eq!(report["answer"]["erase_block_bytes"], Value::Null, "nothing confirms it");
        } else if report["answer"] != Value::Null {
            // Replies come as late as the host is busy, which hides what costs little; what is found is right.
            assert!(boundaries(&report).iter().all(|found| geometry.contains(found)), "{report}");
        }
        let stat = disks.json(&["disk", "stat", name]);
        let counters = stat["counters"].as_array().unwrap();
        let writes = counters.iter().find(|counter| counter["name"] == "writes").unwrap();
        assert_eq!(writes["value"], 0.0, "{stat}");
    }
}

#[test]
fn memory_behind_a_disk_shows_no_geometry_and_says_so() {
    let Some(disks) = Disks::new() else { return };
    let record = disks.json(&["disk", "up", "plain", "--size", "1GiB", "--medium", "ram"]);
    let device = record["device"].as_str().unwrap();
    let report = disks.json(&["device", "probe", device, "--triples", "30"]);
    assert_eq!(
        (&report["answer"], &report["no_answer"]["reason"]),
        (&Value::Null, &"flat".into()),
        "{report}"
    );
    assert_eq!(report["rules"].as_array().unwrap().len(), 3);
    let text = disks.output(&["device", "probe", device, "--triples", "30"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("no answer: crossing a boundary costs the same at every alignment"), "{text}");
    assert!(text.contains("The kernel says:"), "{text}");
    let few = disks.output(&["device", "probe", device, "--triples", "5"]);
    let said = String::from_utf8(few.stderr).unwrap();
    assert!(few.status.code() == Some(2) && said.contains("not between 30 and 10000"), "{said}");
}

#[test]
fn what_is_no_device_is_refused() {
    let Some(disks) = Disks::new() else { return };
    let output = disks.output(&["device", "probe", "/dev/null"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("is no block device"), "{said}");
}

#[test]
fn saved_output_is_judged_by_the_rules_alone() {
    let Some(disks) = Disks::new() else { return };
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../analysis/tests/data/flashbench/readme.txt");
    let report = disks.json(&["device", "probe", "--from", file.to_str().unwrap()]);
    assert_eq!(report["no_answer"]["reason"], "too-few");
    assert_eq!(report["rules"][1]["boundaries_bytes"], serde_json::json!([16384, 4_194_304]));
    let output = disks.output(&["device", "probe", "--from", "/etc/passwd"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("no line of `flashbench -a`"), "{said}");
}
