//! One trace on every file system of this kernel, on a volume that it nearly fills and on one that it leaves
//! nearly empty: the end is the recorded one, byte for byte.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod cli_support;

use cli_support::{Mounted, fsage, root, skip};

/// Program and arguments, and the size at which the trace nearly fills it.
const FILE_SYSTEMS: [(&[&str], &str); 4] = [
    (&["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "400M"),
    (&["mkfs.xfs", "-q"], "460M"),
    (&["mkfs.btrfs", "-q", "-m", "single"], "464M"),
    (&["mkfs.ext2", "-q"], "384M"),
];

/// A size that the trace leaves nearly empty. Sparse.
const LARGE: &str = "4G";

#[test]
fn one_trace_ends_alike_on_every_file_system_full_and_empty() {
    if !root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.parquet");
    let trace = trace.to_str().unwrap();
    // Too many files for the volume: what finds no room fails, and is left out by every replay.
    let first = Mounted::ext4("384M");
    let directory = first.join("recorded");
    std::fs::create_dir(&directory).unwrap();
    let mut age =
        vec!["age", &directory, "--json", "--threads", "2", "--operations", "16000", "--trace", trace];
    age.extend(["--set", "slots=8000", "--set", "directories.count=40", "--set", "fill_until=1"]);
    age.extend([
        "--set",
        "file_size.kind=uniform",
        "--set",
        "file_size.min=1",
        "--set",
        "file_size.max=160KiB",
    ]);
    let recorded = fsage(&age).result();
    assert!(recorded["failed"]["ENOSPC"].as_u64().unwrap() > 100, "{recorded}");
    drop(first);
    let mut tried = 0;
    for (mkfs, small) in FILE_SYSTEMS {
        let found =
            std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|path| path.join(mkfs[0]).exists());
        if !found {
            skip(format!("{} is not installed", mkfs[0]));
            continue;
        }
        for size in [small, LARGE] {
            let volume = Mounted::of(mkfs, size);
            let directory = volume.join("again");
            std::fs::create_dir(&directory).unwrap();
            let replayed = fsage(&["replay", trace, &directory, "--verify", "--json"]).result();
            let where_ = format!("{} of {size}: {replayed}", mkfs[0]);
            assert_eq!(replayed["digest"], recorded["digest"], "{where_}");
            assert_eq!(replayed["replay"]["recorded_digest"], recorded["digest"], "{where_}");
            for key in ["files", "live_bytes"] {
                assert_eq!(replayed[key], recorded[key], "{where_}");
            }
            assert_eq!(replayed["replay"]["verified"]["bad_blocks"], serde_json::json!({}), "{where_}");
            let used = volume.used();
            assert!(if size == LARGE { used < 0.15 } else { used > 0.75 }, "{used} in use: {where_}");
            tried += 1;
        }
    }
    assert!(tried >= 4, "only {tried} volumes");
}
