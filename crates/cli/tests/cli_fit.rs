//! `fsage device fit` on modelled drives with delayed replies, and what it refuses.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use fsage_model::medium::MediumSpec;
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
            .current_dir(self.scratch.path())
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

    /// A disk of that medium, and its device.
    fn up(&self, name: &str, size: &str, medium: &str, time: &str) -> String {
        let record = self.json(&["disk", "up", name, "--size", size, "--medium", medium, "--time", time]);
        record["device"].as_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
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

/// The fitted value of a parameter ÷ the drive's.
fn ratio(report: &Value, medium: &str, key: &str) -> f64 {
    let own = medium.parse::<MediumSpec>().unwrap().parameters();
    let own: f64 = own.iter().find(|one| one.key == key).unwrap().value.parse().unwrap();
    let parameters = report["parameters"].as_array().unwrap();
    let fitted =
        parameters.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("no {key}: {report:#}"));
    fitted["value"].as_str().unwrap().parse::<f64>().unwrap() / own
}

fn all_near(report: &Value, medium: &str, keys: &[&str]) {
    let ratios: Vec<(&str, f64)> = keys.iter().map(|key| (*key, ratio(report, medium, key))).collect();
    println!("{medium}: {ratios:?}, held out {}", report["held_out"]);
    assert!(ratios.iter().all(|(_, ratio)| (ratio - 1.0).abs() <= 0.1), "{ratios:?}: {report:#}");
}

fn writes(disks: &Disks, name: &str) -> f64 {
    let stat = disks.json(&["disk", "stat", name]);
    let counters = stat["counters"].as_array().unwrap();
    counters.iter().find(|counter| counter["name"] == "writes").unwrap()["value"].as_f64().unwrap()
}

fn capacity(medium: &str) -> String {
    let capacity = medium.parse::<MediumSpec>().unwrap().resolved().unwrap().capacity_bytes().unwrap();
    (capacity / 4096 * 4096).to_string()
}

#[test]
fn a_disk_with_delayed_replies_is_recovered_and_its_file_is_a_medium() {
    let Some(disks) = Disks::new() else { return };
    let (medium, size) = ("hdd-7200", capacity("hdd-7200"));
    let device = disks.up("drive", &size, medium, "real");
    let report = disks.json(&["device", "fit", &device, "-o", "mine.toml", "--reads", "250"]);
    assert_eq!((report["class"].as_str(), report["preset"].as_str()), (Some("hdd"), Some("hdd-7200")));
    let keys = ["rpm", "outer_track_bytes", "inner_track_bytes", "average_seek_ns", "full_stroke_ns"];
    all_near(&report, medium, &keys);
    let error = &report["held_out"];
    assert!(
        error["mean"].as_f64().unwrap() < 0.5 && error["total"].as_f64().unwrap().abs() < 0.15,
        "{error}"
    );
    assert_eq!(writes(&disks, "drive"), 0.0);
    // The file says where every value comes from.
    let text = std::fs::read_to_string(disks.path("mine.toml")).unwrap();
    for said in
        ["preset = \"hdd-7200\"", "# measured, ", "# derived: ", "#   surfaces = 4", "90th percentile"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    for parameter in medium.parse::<MediumSpec>().unwrap().parameters() {
        assert!(text.contains(&format!("{} = ", parameter.key)), "{}: {text}", parameter.key);
    }
    // It is a medium wherever one is named.
    let shown = disks.json(&["disk", "media", "mine.toml"]);
    assert_eq!(shown["name"], "hdd-7200");
    disks.up("again", &size, "mine.toml", "model");
    let study =
        include_str!("../../../studies/digest.toml").replace("kind = \"loop\"\n", "medium = \"mine.toml\"\n");
    std::fs::write(disks.path("study.toml"), study).unwrap();
    let checked = disks.output(&["study", "check", "study.toml"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn an_ssd_with_delayed_replies_is_recovered() {
    let Some(disks) = Disks::new() else { return };
    // So slow that what the host adds is little of it.
    let medium = "ssd-consumer,capacity_bytes=2147483648,condition=filled,read_ns=6000000,slc_read_ns=6000000,\
                  channel_bytes_per_s=20000000,interface_bytes_per_s=20000000";
    let device = disks.up("drive", "2GiB", medium, "real");
    let report =
        disks.json(&["device", "fit", &device, "-o", "mine.toml", "--reads", "200", "--class", "ssd"]);
    all_near(&report, medium, &["capacity_bytes", "read_ns", "channel_bytes_per_s", "interface_bytes_per_s"]);
    let error = &report["held_out"];
    assert!(error["mean"].as_f64().unwrap() < 0.15 && error["p90"].as_f64().unwrap() < 0.3, "{error}");
    assert_eq!(writes(&disks, "drive"), 0.0);
    assert!(report["depths"].as_array().unwrap().is_empty(), "a virtual disk has batches, and no queue");
    let text = std::fs::read_to_string(disks.path("mine.toml")).unwrap();
    assert!(text.contains("virtual disk of fsage") && text.contains("#   program_ns = 700000"), "{text}");
    disks.up("again", "2GiB", "mine.toml", "model");
}

#[test]
fn what_cannot_be_fitted_is_refused_and_nothing_is_lost() {
    let Some(disks) = Disks::new() else { return };
    let device = disks.up("small", "300MiB", "ssd,condition=filled", "model");
    std::fs::write(disks.path("old.toml"), "kept").unwrap();
    std::fs::write(disks.path("holes"), "").unwrap();
    let holes = std::fs::File::options().write(true).open(disks.path("holes")).unwrap();
    holes.set_len(1 << 30).unwrap();
    for (words, code, said) in [
        (&["/dev/null", "-o", "new.toml"][..], 2, "is no block device"),
        (&[".", "-o", "new.toml"], 2, "is no block device"),
        (&["/dev/no-such", "-o", "new.toml"], 4, "cannot find device"),
        (&["holes", "-o", "new.toml"], 2, "is a file with holes"),
        (&[&device, "-o", "old.toml"], 2, "exists and is kept"),
        (&[&device, "-o", "new.medium"], 2, "end it with `.toml`"),
        (&[&device, "-o", "no/such/new.toml"], 2, "cannot write the medium"),
        (&[&device, "-o", "new.toml", "--class", "hdd"], 2, "at least 1GiB are needed"),
        (&[&device, "-o", "new.toml", "--reads", "5"], 2, "5 reads are not between 100 and 20000"),
        (&[&device, "-o", "new.toml", "--class", "ssd", "--preset", "hdd-7200"], 2, "is none of an SSD"),
        (&[&device, "-o", "new.toml", "--class", "hdd", "--preset", "sd"], 2, "is none of a hard disk"),
        (&[&device, "-o", "new.toml", "--preset", "ssd-consumerr"], 2, "did you mean `ssd-consumer`?"),
    ] {
        let output = disks.output(&[&["device", "fit"], words].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        let right = output.status.code() == Some(code) && error.contains(said);
        assert!(right, "{words:?}: {:?} {error}", output.status);
        assert!(!disks.path("new.toml").exists(), "{words:?}");
    }
    assert_eq!(std::fs::read_to_string(disks.path("old.toml")).unwrap(), "kept");
    // In model time the times are the model's, to the nanosecond.
    let report =
        disks.json(&["device", "fit", &device, "-o", "new.toml", "--class", "ssd", "--preset", "ssd"]);
    all_near(&report, "ssd", &["read_ns", "channel_bytes_per_s"]);
    assert!(disks.path("new.toml").exists());
}
