//! `fsage device probe`: on a modelled card with delayed replies, on one in model time, on a loop device, on saved output; writes
//! only to what the command line names and identifies.

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
    let page = disks.output(&["device", "probe", "--from", file.to_str().unwrap(), "-o", "page.html"]);
    assert!(page.status.success(), "{page:?}");
    let html = std::fs::read_to_string(disks.path("page.html")).unwrap();
    let alignments = report["rows"].as_array().unwrap().len();
    assert_eq!(html.matches("<circle").count(), alignments);
    assert!(html.contains("no answer: ") && html.contains("three segments"), "{html}");
    let unwritten =
        disks.output(&["device", "probe", "--from", file.to_str().unwrap(), "-o", "no/such/page.html"]);
    assert!(unwritten.status.code() == Some(4) && !unwritten.stdout.is_empty(), "{unwritten:?}");
    let output = disks.output(&["device", "probe", "--from", "/etc/passwd"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("no line of `flashbench -a`"), "{said}");
}

/// Every byte of a file system that is there is kept until the command line gives it up by its identifier.
#[test]
fn units_are_written_in_turn_where_the_card_may_be_erased() {
    const UUID: &str = "5a1d3c1e-7a43-4b0e-9c57-0d5c4b1f2a77";
    let Some(disks) = Disks::new() else { return };
    let medium = "sd,open_units=3,order=any";
    let device = disks
        .up("card", &["--size", "512MiB", "--medium", medium, "--time", "model", "--block-bytes", "512"]);
    let made = std::process::Command::new("mkfs.ext4")
        .args(["-q", "-E", "nodiscard", "-U", UUID, &device])
        .status()
        .unwrap();
    assert!(made.success());
    let probe = ["device", "probe", device.as_str(), "--triples", "30", "--open-units"];
    let refused = |words: &[&str], said: &str| {
        let before = disks.writes("card");
        let output = disks.output(&[&probe, words].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() != Some(0) && error.contains(said), "{words:?}: {error}");
        assert!(disks.writes("card") <= before, "{words:?}");
    };
    refused(&[], "does not allow it to be erased");
    refused(&["--erase", &device], "kernel name");
    refused(&["--erase", &format!("{device}=12345678-0000-0000-0000-000000000000")], "identifies neither");
    let erase = format!("{device}={UUID}");
    refused(&["--erase", &erase, "--unit-size", "3KiB"], "units of 3KiB are no allocation units");
    refused(&["--erase", &erase, "--most-units", "65"], "65");
    let report = disks.json(&[&probe[..], &["--erase", &erase, "--most-units", "6"]].concat());
    let open = &report["open_units"];
    for order in ["linear", "random"] {
        assert_eq!(
            (&open["answers"][order]["answer"], &open["answers"][order]["units"]),
            (&"units".into(), &3.into()),
            "{open}"
        );
    }
    assert!(open["written_bytes"].as_u64().unwrap() > 0 && open["unit_bytes"] == 4 << 20, "{open}");
    // The file system is gone for good: the next test needs no word for it, but for the device.
    refused(&["--erase", &erase], "identifies neither");
    assert_eq!(disks.output(&["clean"]).stdout, b"nothing to clean\n");
}
