//! `fsage device probe`: on a modelled card with delayed replies, on one in model time, on a loop device, on saved output.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

#[path = "support/disks.rs"]
mod disks;
mod support;

use std::path::PathBuf;

use disks::Disks;
use serde_json::Value;

fn boundaries(report: &Value) -> Vec<u64> {
    let all = report["answer"]["boundaries"].as_array().unwrap_or_else(|| panic!("{report}"));
    all.iter().map(|one| one["bytes"].as_u64().unwrap()).collect()
}

#[test]
fn a_modelled_card_has_the_geometry_it_was_given_and_is_not_written_to() {
    let Some(disks) = Disks::new() else { return };
    for (name, time) in [("real", "real"), ("model", "model")] {
        let device =
            disks.up(name, &["--size", "2GiB", "--medium", "sd", "--time", time, "--block-bytes", "512"]);
        let report = disks.json(&["device", "probe", &device]);
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
        assert_eq!(disks.writes(name), 0.0);
    }
}

#[test]
fn memory_behind_a_disk_shows_no_geometry_and_says_so() {
    let Some(disks) = Disks::new() else { return };
    let device = disks.up("plain", &["--size", "1GiB", "--medium", "ram"]);
    let device = device.as_str();
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
    assert!(output.status.code() == Some(2) && said.contains("is not a block device"), "{said}");
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
