//! `fsage profile` against trees whose numbers are known.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::fs;
use std::process::Command;

use cli_support::{Mounted, Run, copy_programs, fsage, root};

#[test]
fn the_profile_of_a_known_tree_is_exact_and_names_nothing() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("64M");
    let tree = mounted.join("secretive");
    fs::create_dir_all(format!("{tree}/secretive-a/secretive-b")).unwrap();
    fs::create_dir(format!("{tree}/secretive-c")).unwrap();
    for (name, size) in [("a/x", 0), ("a/y", 4096), ("a/z", 5000), ("a/secretive-b/w", 5001), ("c/v", 70_000)]
    {
        fs::write(format!("{tree}/secretive-{name}"), vec![7; size]).unwrap();
    }
    // A second name is no second file, but a name in its directory.
    fs::hard_link(format!("{tree}/secretive-a/y"), format!("{tree}/secretive-c/u")).unwrap();
    fsync(&mounted);

    let file = mounted.path().parent().unwrap().join("profile.toml");
    let run = fsage(&["profile", &tree, "-o", file.to_str().unwrap(), "--json"]);
    let profile = run.result();
    assert_eq!(profile["files"]["count"], 5);
    assert_eq!(profile["files"]["bytes"], 4096 + 5000 + 5001 + 70_000);
    let sizes = serde_json::json!([[0, 1, 0], [4096, 1, 4096], [5120, 2, 10_001], [81_920, 1, 70_000]]);
    assert_eq!(profile["files"]["sizes"], sizes);
    assert_eq!(
        (&profile["files"]["mapped"], &profile["files"]["one_extent_share"]),
        (&4.into(), &1.0.into())
    );
    assert_eq!(profile["files"]["extents"], serde_json::json!([[1, 4]]));
    assert_eq!(profile["directories"]["count"], 4);
    assert_eq!(profile["directories"]["depths"], serde_json::json!([[0, 1], [1, 2], [2, 1]]));
    assert_eq!(profile["directories"]["files"], serde_json::json!([[0, 1], [1, 1], [2, 1], [3, 1]]));
    assert_eq!(profile["directories"]["subdirectories"], serde_json::json!([[0, 2], [1, 1], [2, 1]]));
    assert_eq!(profile["source"]["file_system"], "ext4");
    assert_eq!(profile["free_space"]["method"], "getfsmap");

    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("secretive") && !text.contains(mounted.path().to_str().unwrap()), "{text}");
    let read: serde_json::Value =
        serde_json::to_value(toml::from_str::<toml::Table>(&text).unwrap()).unwrap();
    assert_eq!(read, profile, "the file and standard output say the same");
    assert_eq!(fsage(&["profile", &tree]).stdout, text, "and so does the TOML on standard output");
}

fn fsync(mounted: &Mounted) {
    assert!(Command::new("sync").arg("-f").arg(mounted.path()).status().unwrap().success());
}

#[test]
fn what_cannot_be_looked_at_is_counted_and_said() {
    if !root() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let open = |path: &std::path::Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o755);
    copy_programs(folder.path());
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("closed")).unwrap();
    fs::write(tree.join("closed/hidden"), "x").unwrap();
    fs::write(tree.join("seen"), "x").unwrap();
    open(&tree, 0o755);
    open(&tree.join("seen"), 0o644);
    open(&tree.join("closed"), 0o700);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let run = Run::of(command.arg(folder.path().join("fsage")).args(["profile", "--json"]).arg(&tree));
    let profile = run.result();
    assert_eq!((&profile["files"]["count"], &profile["files"]["unseen"]), (&1.into(), &1.into()));
    assert!(run.stderr.contains("1 file or directory could not be inspected"), "{run:?}");
}

#[test]
fn nothing_is_written_when_there_is_nothing_to_profile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.toml");
    fs::create_dir(folder.path().join("empty")).unwrap();
    let empty = folder.path().join("empty");
    let run = fsage(&["profile", empty.to_str().unwrap(), "-o", file.to_str().unwrap()]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("it has no regular files"), "{run:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no file, no temporary");
    let run = fsage(&["profile", "/etc", "-o", "/nonexistent/profile.toml"]);
    assert_eq!(run.code, 2, "{run:?}");
}

/// A volume of known make, and a fresh one aged until it is like it.
#[test]
fn a_fresh_volume_becomes_like_an_aged_one() {
    if !root() {
        return;
    }
    let (original, fresh) = (Mounted::ext4("256M"), Mounted::ext4("256M"));
    let flags = ["--write-mode", "fast", "--quiet"];
    let known = [
        "--operations=12000",
        "--set=slots=2000",
        "--set=utilisation={ kind = \"hold\", target = 0.6 }",
        "--set=file_size={ kind = \"lognormal\", mu = 9.5, sigma = 1.6, min = 100, max = \"2MiB\" }",
    ];
    let aged = fsage(&[&["age", &original.join("")][..], &flags, &known].concat());
    assert_eq!(aged.code, 0, "{aged:?}");
    let file = original.path().parent().unwrap().join("profile.toml");
    let of = |volume: &Mounted| fsage(&["profile", "--json", &volume.join("")]).result();
    let run = fsage(&["profile", &original.join(""), "-o", file.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run:?}");

    let like = format!("--set=like={}", file.display());
    let until = [like.as_str(), "--until", "near=true", "--operations=60000", "--probe-every=2000", "--json"];
    let result = fsage(&[&["age", &fresh.join("")][..], &flags, &until].concat()).result();
    assert_eq!(result["stopped_by"], "age", "{result}");

    let (wanted, found) = (of(&original), of(&fresh));
    let number = |of: &serde_json::Value| of.as_f64().unwrap();
    let used =
        |of: &serde_json::Value| number(&of["source"]["used_bytes"]) / number(&of["source"]["volume_bytes"]);
    assert!((used(&wanted) - used(&found)).abs() <= 0.01, "{} {}", used(&wanted), used(&found));
    let one_extent = |of: &serde_json::Value| number(&of["files"]["one_extent_share"]);
    assert!(one_extent(&wanted) < 0.9, "the original is fragmented: {}", one_extent(&wanted));
    assert!((one_extent(&wanted) - one_extent(&found)).abs() <= 0.02);
    let sizes = |of: &serde_json::Value| -> Vec<(u64, u64, u64)> {
        serde_json::from_value(of["files"]["sizes"].clone()).unwrap()
    };
    let distance = fsage_model::profile::size_distance(&sizes(&wanted), &sizes(&found));
    assert!(distance <= 0.05, "{distance}");
}

#[test]
fn to_be_near_takes_a_profile_and_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_str().unwrap();
    for (arguments, message) in [
        (&["--until", "near=true", "--operations", "10"][..], "workload.like names none"),
        (&["--operations", "10", "--set", "like=nowhere.toml"], "cannot read profile `nowhere.toml`"),
    ] {
        let run = fsage(&[&["age", directory][..], arguments].concat());
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains(message), "{run:?}");
    }
}
