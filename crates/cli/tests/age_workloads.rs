//! Workloads that have a target hold it on real file systems: use of the volume is within 1 % of it in the
//! end, and every block is right.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod cli_support;

use std::process::Command;

use cli_support::{Mounted, fsage, root, skip};

/// Name, target, and what makes it fit a small volume.
const WORKLOADS: [(&str, f64, &[&str]); 5] = [
    ("fsfb", 0.9, &["--set", "directories=50", "--set", "rounds=2"]),
    (
        "interleaved-append",
        0.6,
        &[
            "--operations",
            "40000",
            "--set",
            "file_size.kind=uniform",
            "--set",
            "file_size.min=1KiB",
            "--set",
            "file_size.max=400KiB",
        ],
    ),
    (
        "mail",
        0.5,
        &[
            "--operations",
            "40000",
            "--set",
            "fsync=false",
            "--set",
            "message_size.kind=uniform",
            "--set",
            "message_size.min=400",
            "--set",
            "message_size.max=64KiB",
        ],
    ),
    ("histogram", 0.7, &["--set", "rounds=2"]),
    (
        "drift",
        0.8,
        &[
            "--operations",
            "40000",
            "--set",
            "slots=20000",
            "--set",
            "file_size.kind=uniform",
            "--set",
            "file_size.min=1KiB",
            "--set",
            "file_size.max=128KiB",
        ],
    ),
];

fn hold(mkfs: &[&str], size: &str) {
    if Command::new(mkfs[0]).arg("-V").output().is_err() {
        skip(format!("{} is not installed", mkfs[0]));
        return;
    }
    let volume = Mounted::of(mkfs, size);
    for (name, target, arguments) in WORKLOADS {
        let directory = volume.join(name);
        std::fs::create_dir(&directory).unwrap();
        let drift = name == "drift";
        let aim = format!("{}target={target}", if drift { "utilisation." } else { "" });
        let kind: &[&str] = if drift { &["--set", "utilisation.kind=hold"] } else { &[] };
        let age =
            [&["age", &directory, "--json", "--workload", name], kind, &["--set", &aim], arguments].concat();
        let result = fsage(&age).result();
        rustix::fs::syncfs(std::fs::File::open(&directory).unwrap()).unwrap();
        let used = volume.used();
        assert!((used - target).abs() <= 0.01, "{} of {}: {used}, not {target}: {result}", name, mkfs[0]);
        let verified = fsage(&["verify", &directory, "--json"]).result();
        assert_eq!(verified["bad_blocks"], serde_json::json!({}), "{name} of {}", mkfs[0]);
        std::fs::remove_dir_all(&directory).unwrap();
        rustix::fs::syncfs(std::fs::File::open(volume.path()).unwrap()).unwrap();
    }
}

#[test]
fn targets_are_held_on_ext4() {
    if root() {
        hold(&["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "512M");
    }
}

#[test]
fn targets_are_held_on_xfs() {
    if root() {
        hold(&["mkfs.xfs", "-q"], "512M");
    }
}
