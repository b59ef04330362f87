//! `fsage age`, `verify` and `replay` on a real ext4, driven as a user would.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::process::{Command, Stdio};

use cli_support::{FSAGE, Mounted, Run, fsage, root};

/// A small load.
const SMALL: [&str; 8] = [
    "--operations",
    "3000",
    "--set",
    "slots=300",
    "--set",
    "file_size.kind=fixed",
    "--set",
    "file_size.size=16KiB",
];

fn age(directory: &str, more: &[&str]) -> Run {
    fsage(&[&["age", directory, "--json"], &SMALL[..], more].concat())
}

fn made(path: String) -> String {
    std::fs::create_dir(&path).unwrap();
    path
}

#[test]
fn the_result_has_what_a_script_needs_and_the_seed_settles_it() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("256M");
    let first = age(&made(mounted.join("a")), &["--seed", "7"]).result();
    assert_eq!(first["operations"], 3000);
    assert_eq!(first["stopped_by"], "operations");
    for key in ["elapsed_ns", "bytes_written", "device_bytes_written"] {
        assert!(first[key].as_u64().is_some_and(|n| n > 0), "{key}: {first}");
    }
    // Kernels that account by ticks may find none of a short run in one of the two.
    let cpu = ["cpu_user_ns", "cpu_sys_ns"].map(|key| first[key].as_u64().expect("CPU time"));
    assert!(cpu.iter().sum::<u64>() > 0, "{first}");
    assert!(first["failed"].as_object().is_some_and(serde_json::Map::is_empty), "{first}");
    assert!(first["layout"]["files"].as_u64().is_some_and(|n| n > 0));
    assert_eq!(first["digest"].as_str().map(str::len), Some(32));

    let again = age(&made(mounted.join("b")), &["--seed", "7"]).result();
    let other = age(&made(mounted.join("c")), &["--seed", "8"]).result();
    assert_eq!(first["digest"], again["digest"]);
    assert_ne!(first["digest"], other["digest"]);
}

#[test]
fn sizes_that_the_volume_cannot_hold_are_refused_with_the_flag_that_helps() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("256M");
    let directory = made(mounted.join("a"));
    let refused = fsage(&["age", &directory, "--operations", "200"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("file_size.max = 1GiB is larger than the volume"), "{refused:?}");
    let hint = refused.stderr.lines().find(|line| line.starts_with("hint: ")).unwrap();
    let flags = hint.split('`').find(|part| part.starts_with("--set ")).unwrap();
    let words: Vec<&str> = flags.split(' ').collect();
    let taken = fsage(&[&["age", &directory, "--operations", "200"], &words[..]].concat());
    assert_eq!(taken.code, 0, "{hint}\n{taken:?}");
}

#[test]
fn a_directory_of_the_hosts_file_system_will_do() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let run = fsage(&[&["age", folder.path().to_str().unwrap()], &SMALL[..]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    for part in ["3,000 in", "create", "p99.9", "extents a file", "digest", "stopped by --operations"] {
        assert!(run.stdout.contains(part), "{part} is not in\n{}", run.stdout);
    }
    assert!(run.stderr.contains("ageing "), "one line a stage: {}", run.stderr);
    let quiet = tempfile::tempdir_in("/var/tmp").unwrap();
    let run = fsage(&[&["age", quiet.path().to_str().unwrap(), "--quiet"], &SMALL[..]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn what_was_aged_verifies_until_a_byte_is_changed() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("256M");
    let directory = made(mounted.join("a"));
    age(&directory, &[]).result();
    let right = fsage(&["verify", &directory, "--json"]);
    let result = right.result();
    assert!(result["good_blocks"].as_u64().is_some_and(|n| n > 0), "{result}");

    let victim = Run::of(Command::new("find").args([&directory, "-type", "f", "-size", "+7k"]));
    let victim = victim.stdout.lines().next().unwrap().to_owned();
    let mut bytes = std::fs::read(&victim).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&victim, bytes).unwrap();
    let wrong = fsage(&["verify", &directory]);
    assert_eq!(wrong.code, 5, "{wrong:?}");
    assert!(wrong.stdout.contains("damaged") && wrong.stdout.contains("at 4096"), "{}", wrong.stdout);
}

#[test]
fn a_file_that_lost_everything_is_damage_and_a_strangers_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let top = made(folder.path().join("t00").to_str().unwrap().to_owned());
    let verify = || fsage(&["verify", folder.path().to_str().unwrap()]);
    std::fs::write(folder.path().join("notes.txt"), "some text of somebody else").unwrap();
    assert_eq!(verify().code, 0);
    for lost in [vec![0; 4096], vec![0x55; 4096]] {
        std::fs::write(format!("{top}/f00000001"), lost).unwrap();
        let wrong = verify();
        assert_eq!(wrong.code, 5, "{wrong:?}");
        assert!(wrong.stdout.contains("damaged") && wrong.stdout.contains("t00/f00000001 at 0"), "{wrong:?}");
    }
}

#[test]
fn a_trace_replays_to_the_same_tree() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("256M");
    let trace = mounted.join("trace.parquet");
    let recorded = age(&made(mounted.join("a")), &["--trace", &trace, "--threads", "2"]).result();
    let replayed = fsage(&["replay", &trace, &made(mounted.join("b")), "--json"]).result();
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let again = fsage(&["replay", &trace, elsewhere.path().to_str().unwrap(), "--json"]).result();
    assert_eq!(replayed["digest"], again["digest"]);
    for key in ["digest", "operations", "files", "live_bytes", "succeeded"] {
        assert_eq!(recorded[key], replayed[key], "{key}");
    }
    let paced = fsage(&["replay", &trace, &made(mounted.join("p")), "--speed", "x50", "--verify"]);
    assert_eq!(paced.code, 0, "{paced:?}");
    for part in ["lateness", "checkpoints had the recorded digest", "0 wrong"] {
        assert!(paced.stdout.contains(part), "{part}: {}", paced.stdout);
    }

    let whole = std::fs::read(&trace).unwrap();
    std::fs::write(&trace, &whole[..whole.len() / 2]).unwrap();
    let cut = fsage(&["replay", &trace, &made(mounted.join("c"))]);
    assert_eq!(cut.code, 5, "{cut:?}");
    assert!(cut.stderr.starts_with("replaying ") && cut.stderr.contains("error:"), "{}", cut.stderr);
}

#[test]
fn interrupting_stops_cleanly_with_a_result() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut child = Command::new(FSAGE)
        .args(["age", folder.path().to_str().unwrap(), "--json", "--seconds", "300"])
        .args(["--set", "slots=100", "--set", "file_size.kind=fixed", "--set", "file_size.size=4KiB"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The load runs as soon as its first directory is there.
    while !folder.path().join("t00").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    for signal in ["-USR1", "-USR2", "-INT"] {
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["stopped_by"], "asked");
}

#[test]
fn a_full_volume_and_a_read_only_one_are_told_apart() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("64M");
    let filled = fsage(&[
        "age",
        &made(mounted.join("a")),
        "--json",
        "--until-full",
        "--operations",
        "1000000",
        "--set",
        "file_size.kind=fixed",
        "--set",
        "file_size.size=1MiB",
    ]);
    assert_eq!(filled.result()["stopped_by"], "full");
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(mounted.path()).status().unwrap();
    assert!(remounted.success());
    let run = fsage(&["age", &mounted.join(""), "--operations", "10"]);
    assert!(run.code >= 2, "{run:?}");
    assert!(run.stderr.to_lowercase().contains("read-only"), "{}", run.stderr);
}
