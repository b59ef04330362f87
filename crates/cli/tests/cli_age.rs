//! `fsage age`, `verify` and `replay` on a real ext4, driven as a user would.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

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
    for part in ["3,000 in", "create", "p99.9", "extents per file", "digest", "stopped by --operations"] {
        assert!(run.stdout.contains(part), "{part} is not in\n{}", run.stdout);
    }
    assert!(run.stderr.contains("ageing "), "one line per stage: {}", run.stderr);
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

/// A load in fast mode on an ext4 of 3 GiB, of which it has reserved more than half.
struct Fast {
    mounted: Mounted,
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Fast {
    fn begin(more: &[&str]) -> Self {
        let mounted = Mounted::ext4("3G");
        let mut child = Command::new(FSAGE)
            .args(["age", &made(mounted.join("a")), "--write-mode", "fast", "--seconds", "300"])
            .args(["--set", "slots=200", "--set", "file_size.kind=fixed", "--set", "file_size.size=16MiB"])
            .args(["--set", "utilisation.kind=hold", "--set", "utilisation.target=0.6"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while mounted.used() < 0.55 {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::yield_now();
        }
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { mounted, child, stderr }
    }

    fn terminate(&self) {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
    }

    /// Waits until a line of standard error says this.
    fn said(&mut self, what: &str) {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "`{what}` is never said");
        }
    }

    /// Standard output, and what `fsage verify` says then.
    fn end(mut self) -> (String, Run) {
        // The rest, so that nobody waits for a reader.
        std::io::copy(&mut self.stderr, &mut std::io::sink()).unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        // Of what the page cache holds nothing is asked.
        (String::from_utf8(output.stdout).unwrap(), fsage(&["verify", &self.mounted.join("a")]))
    }
}

#[test]
fn a_fast_load_that_is_told_to_end_writes_its_data_in_place_first() {
    if !root() {
        return;
    }
    let mut fast = Fast::begin(&["--json"]);
    fast.terminate();
    fast.said("written in place first");
    fast.said("writing every live file in place");
    let (result, verified) = fast.end();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!((&result["stopped_by"], &result["materialised"]), (&"asked".into(), &true.into()));
    assert_eq!((&result["layout"]["unwritten_bytes"], verified.code), (&0.into(), 0), "{verified:?}");
    assert!(verified.stdout.contains("every block is correct"), "{verified:?}");
}

#[test]
fn a_fast_load_that_is_told_twice_says_that_its_data_is_not_there() {
    if !root() {
        return;
    }
    for json in [true, false] {
        let mut fast = Fast::begin(if json { &["--json"] } else { &[] });
        fast.terminate();
        fast.said("written in place first");
        fast.terminate();
        fast.said("giving up");
        let (result, verified) = fast.end();
        if json {
            let result: serde_json::Value = serde_json::from_str(&result).unwrap();
            assert_eq!((&result["stopped_by"], &result["materialised"]), (&"asked".into(), &false.into()));
            assert!(result["layout"]["unwritten_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{result}");
        } else {
            assert!(result.contains("not in place: space is reserved"), "{result}");
        }
        assert_eq!(verified.code, 5, "{verified:?}");
        for part in ["unwritten", "before it wrote the data; nothing was lost"] {
            assert!(verified.stdout.contains(part), "{part}: {verified:?}");
        }
    }
}

#[test]
fn a_load_that_ends_by_itself_says_so_and_probes_nothing_that_nobody_asked_for() {
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("256M");
    let fsfb = ["--workload", "fsfb", "--set", "target=0.2", "--set", "rounds=1"];
    let ended = fsage(&[&["age", &made(mounted.join("a"))], &fsfb[..]].concat());
    assert!(ended.stdout.contains("stopped at the end of the workload"), "{ended:?}");
    let again = fsage(&[&["age", &made(mounted.join("b")), "--json"], &fsfb[..]].concat()).result();
    assert_eq!(again["stopped_by"], "ended");
    let small = ["--set", "slots=300", "--set", "file_size.kind=fixed", "--set", "file_size.size=16KiB"];
    let until = ["--until", "volume_overwrites=0.3", "--json"];
    let aged = fsage(&[&["age", &made(mounted.join("c"))], &small[..], &until].concat()).result();
    assert_eq!((&aged["stopped_by"], &aged["probes"]), (&"age".into(), &1.into()));
}

#[test]
fn a_full_volume_says_whether_it_lacks_blocks_or_inodes() {
    if !root() {
        return;
    }
    let mounted = Mounted::of(&["mkfs.ext4", "-q", "-b", "4096", "-N", "512"], "64M");
    let small = [
        "--until-full",
        "--set",
        "slots=5000",
        "--set",
        "file_size.kind=fixed",
        "--set",
        "file_size.size=4KiB",
    ];
    let filled = fsage(&[&["age", &made(mounted.join("a"))], &small[..]].concat());
    assert_eq!(filled.code, 0, "{filled:?}");
    assert!(filled.stdout.contains("no free inode, though blocks are free"), "{filled:?}");
    assert!(filled.stderr.contains("mkfs.ext4 -i or -N"), "{filled:?}");
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
