//! `fsage disk` as people use it: a disk that stays, its counters, log, snapshots and faults, and what is
//! said when it cannot be.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why")]

mod support;

use std::path::{Path, PathBuf};
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

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn output(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fsage"))
            .args(words)
            .current_dir(self.scratch.path())
            .env("FSAGE_AGENT", support::agent())
            .env("FSAGE_RUNTIME_DIR", self.path("runtime"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let text = self.run(&[words, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}\n{text}"))
    }

    /// The exit code and what was said.
    fn refused(&self, words: &[&str]) -> (i32, String) {
        let output = self.output(words);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn up(&self, words: &[&str]) -> Value {
        self.json(&[&["disk", "up"], words].concat())
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        // A test that failed may have left it mounted, and what is in use is not taken down.
        let _ = fsage_sys::mount::unmount(&self.path("point"));
        let names = std::fs::read_dir(self.path("runtime/disks")).into_iter().flatten().flatten();
        for name in names {
            let _ = self.output(&["disk", "down", &name.file_name().to_string_lossy()]);
        }
    }
}

fn shell(script: &str, device: &Path, point: &Path) -> bool {
    let status = Command::new("sh").args(["-c", script, "sh"]).arg(device).arg(point).status().unwrap();
    status.success()
}

fn device(record: &Value) -> PathBuf {
    PathBuf::from(record["device"].as_str().unwrap())
}

/// Seconds on a disk's clock.
fn elapsed_s(stat: &Value) -> f64 {
    stat["elapsed_ns"].as_f64().unwrap() / 1e9
}

/// Flushes that a disk counted.
fn flushes(stat: &Value) -> f64 {
    let counters = stat["counters"].as_array().unwrap();
    counters.iter().find(|counter| counter["name"] == "flushes").unwrap()["value"].as_f64().unwrap()
}

#[test]
fn a_journal_without_its_disk_goes_when_the_disk_is_taken_down_again() {
    let Some(disks) = Disks::new() else { return };
    disks.up(&["gone", "--size", "64MiB", "--medium", "ram"]);
    let journals = || -> Vec<PathBuf> {
        let entries =
            std::fs::read_dir(disks.path("runtime/state")).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
    };
    let [journal] = &journals()[..] else { panic!("{:?}", journals()) };
    let taken = std::fs::read(journal).unwrap();
    disks.run(&["disk", "down", "gone"]);
    assert_eq!(journals(), [] as [PathBuf; 0]);
    // As a kill between the last release and the end leaves it.
    std::fs::write(journal, taken).unwrap();
    std::fs::set_permissions(journal, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let (code, said) = disks.refused(&["disk", "down", "gone"]);
    assert!(code == 2 && said.contains("there is no disk `gone`"), "{said}");
    assert_eq!(journals(), [] as [PathBuf; 0]);
}

#[test]
fn a_disk_stays_until_it_is_taken_down_and_counts_what_it_does() {
    let Some(disks) = Disks::new() else { return };
    let record = disks.up(&["old", "--size", "256MiB", "--medium", "hdd-7200", "--log"]);
    assert_eq!((record["medium"].as_str(), record["time"].as_str()), (Some("hdd-7200"), Some("model")));
    let (disk, point) = (device(&record), disks.path("point"));
    std::fs::create_dir(&point).unwrap();
    let fill = "mkfs.ext4 -q -b 4096 \"$1\" && mount \"$1\" \"$2\" && seq 1 200000 > \"$2/numbers\" && sync \"$2/numbers\"";
    assert!(shell(fill, &disk, &point));
    let listed = disks.json(&["disk", "ls"]);
    assert_eq!((listed[0]["name"].as_str(), listed[0]["state"].as_str()), (Some("old"), Some("up")));
    let stat = disks.json(&["disk", "stat", "old"]);
    assert!(stat["elapsed_ns"].as_u64().unwrap() > 1_000_000, "{stat}");
    // In use, and another of its name.
    let (code, said) = disks.refused(&["disk", "down", "old"]);
    assert!(
        code == 2 && said.contains("is in use: mounted at") && said.contains("hint: unmount it"),
        "{said}"
    );
    let (code, said) = disks.refused(&["disk", "up", "old", "--size", "1GiB"]);
    assert!(code == 2 && said.contains("the disk `old` already exists"), "{said}");
    let (code, said) = disks.refused(&["disk", "snapshot", "revert", "old", "1"]);
    assert!(code == 2 && said.contains("is in use"), "{said}");
    // One that is up is nothing to clean.
    assert_eq!(disks.run(&["clean"]), "nothing to clean\n");
    assert!(shell("umount \"$2\"", &disk, &point));
    disks.run(&["disk", "down", "old"]);
    assert_eq!(disks.json(&["disk", "ls"]), serde_json::json!([]));
    assert!(disks.scratch.left_behind().is_empty());
    assert!(!disks.path("runtime/disks/old").exists());
}

/// A read takes the model's 12 ms and more; without a lead it would take longer by the way through loop device and FUSE.
#[test]
fn replies_are_given_earlier_by_the_way_to_the_server() {
    let Some(disks) = Disks::new() else { return };
    let record = disks.up(&["timed", "--size", "256MiB", "--medium", "hdd-7200", "--time", "real"]);
    let _ = disks.up(&["model", "--size", "256MiB", "--medium", "hdd-7200"]);
    let counter = |name: &str, wanted: &str| {
        let stat = disks.json(&["disk", "stat", name]);
        let counters = stat["counters"].as_array().unwrap();
        let found = counters.iter().find(|counter| counter["name"] == wanted);
        found.map(|counter| counter["value"].as_f64().unwrap())
    };
    let lead_ns = counter("timed", "lead_ns").unwrap();
    assert!((1_000.0..=1_000_000.0).contains(&lead_ns), "{lead_ns}");
    assert_eq!(counter("model", "lead_ns"), None);
    // One after the other: never faster than the model, which says how long it was at work.
    let before = disks.json(&["disk", "stat", "timed"])["elapsed_ns"].as_u64().unwrap();
    let started = std::time::Instant::now();
    let read = r#"for block in 60000 1000 40000 20000 50000 3000; do dd if="$1" of=/dev/null bs=4096 count=1 skip=$block iflag=direct status=none; done"#;
    assert!(shell(read, &device(&record), Path::new("/")));
    let took_ns = started.elapsed().as_nanos();
    let after = disks.json(&["disk", "stat", "timed"])["elapsed_ns"].as_u64().unwrap();
    let model_ns = u128::from(after - before);
    assert!(model_ns > 6_000_000 && took_ns + 1_000_000 >= model_ns, "{took_ns} for {model_ns}");
    assert!(counter("timed", "delayed_replies").unwrap() >= 6.0);
    for name in ["timed", "model"] {
        disks.run(&["disk", "down", name]);
    }
    assert!(disks.scratch.left_behind().is_empty());
}

#[test]
fn partitions_of_one_drive_are_devices_that_share_its_head_and_its_counters() {
    let Some(disks) = Disks::new() else { return };
    let words = [
        "shared",
        "--medium",
        "hdd-7200",
        "--partition",
        "64MiB",
        "--partition",
        "128MiB@inner",
        "--partition=32MiB",
    ];
    let record = disks.up(&words);
    let partitions = record["partitions"].as_array().unwrap().clone();
    let devices: Vec<PathBuf> = partitions.iter().map(device).collect();
    assert_eq!((devices.len(), &devices[0]), (3, &device(&record)));
    assert_eq!(record["size_bytes"].as_u64(), Some(224 << 20));
    for (device, size) in devices.iter().zip([64_u64, 128, 32]) {
        let name = device.file_name().unwrap().to_str().unwrap();
        let sectors = std::fs::read_to_string(format!("/sys/block/{name}/size")).unwrap();
        assert_eq!(sectors.trim().parse::<u64>().unwrap() * 512, size << 20);
    }
    // Each holds what was written to it, up to its end.
    for (number, device) in devices.iter().enumerate() {
        let fill = format!(
            "yes {number} | dd of=\"$1\" bs=1M iflag=fullblock oflag=direct 2>&1 | grep -q 'No space'"
        );
        assert!(shell(&fill, device, Path::new("/")), "{number}");
    }
    let before = disks.json(&["disk", "stat", "shared"]);
    for (number, device) in devices.iter().enumerate() {
        let same = format!("test \"$(dd if=\"$1\" bs=1M iflag=direct status=none | sort -u)\" = {number}");
        assert!(shell(&same, device, Path::new("/")), "{number}");
    }
    let after = disks.json(&["disk", "stat", "shared"]);
    assert!(elapsed_s(&after) - elapsed_s(&before) > 224.0 / 200.0, "{before} {after}");
    // From the outer edge to the inner one and back: the head is one.
    let read = "dd if=\"$1\" of=/dev/null bs=4k count=1 skip=64 iflag=direct status=none";
    let seeks = |stat: &Value| {
        let counters = stat["counters"].as_array().unwrap();
        counters.iter().find(|counter| counter["name"] == "seek_ns").unwrap()["value"].as_f64().unwrap()
    };
    for device in [&devices[0], &devices[1], &devices[0]] {
        assert!(shell(read, device, Path::new("/")));
    }
    let moved = disks.json(&["disk", "stat", "shared"]);
    assert!(seeks(&moved) - seeks(&after) > 10e6, "{after} {moved}");
    let listed = disks.run(&["disk", "ls"]);
    assert!(listed.lines().count() == 3 && listed.contains("at inner"), "{listed}");
    let point = disks.path("point");
    std::fs::create_dir(&point).unwrap();
    assert!(shell("mkfs.ext4 -q \"$1\" && mount \"$1\" \"$2\"", &devices[1], &point));
    let (code, said) = disks.refused(&["disk", "down", "shared"]);
    assert!(code == 2 && said.contains("is in use: mounted at"), "{said}");
    assert!(shell("umount \"$2\"", &devices[1], &point));
    disks.run(&["disk", "down", "shared"]);
    assert!(disks.scratch.left_behind().is_empty());
    assert!(devices.iter().all(|device| {
        let name = device.file_name().unwrap().to_str().unwrap();
        let backing = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        !backing.is_ok_and(|file| Path::new(file.trim()).starts_with(disks.scratch.path()))
    }));
}

#[test]
fn partitions_that_a_drive_cannot_have_are_refused() {
    let Some(disks) = Disks::new() else { return };
    for (words, wanted) in [
        (&["--partition", "1GiB@outer", "--partition", "1GiB@512MiB"][..], "overlaps the one of 1GiB at 0"),
        (&["--partition", "600GiB"], "no room for a partition of 600GiB"),
        (&["--partition", "1GiB@middle"], "`middle` is not a position"),
        (&["--partition", "1GiB", "--size", "1GiB"], "cannot be used with"),
        (&["--partition", "4096"], "multiple of 1MiB"),
    ] {
        let (code, said) = disks.refused(&[&["disk", "up", "no", "--medium", "hdd-7200"], words].concat());
        assert!(code == 2 && said.contains(wanted), "{words:?}: {said}");
    }
    assert_eq!(disks.json(&["disk", "ls"]), serde_json::json!([]));
}

/// A journal is committed every five seconds of the disk's clock, of which many pass in one of the wall's. A call of `sync` by any program of
/// this host has every file system commit, the one with the long interval too, so counts beside such a call say nothing.
#[test]
fn the_kernels_timers_go_by_the_disks_clock() {
    let Some(disks) = Disks::new() else { return };
    std::fs::create_dir(disks.path("point")).unwrap();
    let mut tried = Vec::new();
    while tried.len() < 3 {
        let (rare, _) = aged_flushes(&disks, "commit=3600");
        let (regular, seconds) = aged_flushes(&disks, "rw");
        assert!(seconds > 25.0, "too few seconds of model time to tell: {seconds}");
        tried.push((rare, regular, seconds));
        if regular >= rare + (seconds / 5.0).floor() - 2.0 {
            return;
        }
    }
    panic!("flushes with the long interval, with the usual one, seconds: {tried:?}");
}

/// Flushes and seconds of a disk while an ext4 with these mount options is aged on it. A volume that the load nearly fills would commit for the
/// room that deleted files had, hundreds of times.
fn aged_flushes(disks: &Disks, options: &str) -> (f64, f64) {
    let point = disks.path("point");
    let disk = device(&disks.up(&["timed", "--size", "2GiB", "--medium", "hdd-7200"]));
    let make = format!(
        "mkfs.ext4 -q \"$1\" && mount -o {options} \"$1\" \"$2\" && mkdir \"$2/w\" && sync -f \"$2\""
    );
    assert!(shell(&make, &disk, &point));
    let before = disks.json(&["disk", "stat", "timed"]);
    let folder = point.join("w");
    let age = ["age", folder.to_str().unwrap(), "--write-mode", "direct", "--operations", "10000"];
    let reads = ["file_size.max=8MiB", "weights.random_read=30", "weights.read=10"];
    let set: Vec<&str> = reads.iter().flat_map(|set| ["--set", set]).collect();
    disks.run(&[&age[..], &set].concat());
    let after = disks.json(&["disk", "stat", "timed"]);
    assert!(shell("umount \"$2\"", &disk, &point));
    disks.run(&["disk", "down", "timed"]);
    (flushes(&after) - flushes(&before), elapsed_s(&after) - elapsed_s(&before))
}

#[test]
fn a_log_is_replayed_on_a_model_and_on_another_disk() {
    let Some(disks) = Disks::new() else { return };
    let disk = device(&disks.up(&["first", "--size", "64MiB", "--log"]));
    let work = "dd if=/dev/zero of=\"$1\" bs=64k count=16 seek=160 oflag=direct conv=fsync status=none && \
                dd if=\"$1\" of=/dev/null bs=64k count=8 skip=700 iflag=direct status=none";
    assert!(shell(work, &disk, &disk));
    disks.run(&["disk", "log", "save", "first", "ours", "--without-data"]);
    disks.run(&["disk", "log", "convert", "ours", "text", "--to", "blkparse"]);
    disks.up(&["second", "--size", "64MiB", "--log"]);
    let (mut modelled, recorded) = (Vec::new(), disks.json(&["disk", "log", "summary", "ours"]));
    for log in ["ours", "text"] {
        let alone = disks.json(&["disk", "replay", log, "--model", "hdd-7200", "--size", "64MiB"]);
        let queued =
            disks.json(&["disk", "replay", log, "--model", "hdd-7200", "--size", "64MiB", "--iodepth", "16"]);
        for replayed in [&alone, &queued] {
            for kind in ["reads", "writes"] {
                for what in ["requests", "bytes"] {
                    assert_eq!(
                        replayed["summary"][kind][what], recorded["summary"][kind][what],
                        "{log}: {kind} {what}"
                    );
                }
            }
        }
        modelled.push(model_ns(&alone));
        disks.run(&["disk", "log", "start", "second"]);
        let onto = disks.json(&["disk", "replay", log, "--onto", "second"]);
        assert_eq!(onto["summary"]["writes"]["bytes"], recorded["summary"]["writes"]["bytes"]);
        let arrived = disks.json(&["disk", "log", "summary", "second"]);
        assert_eq!(arrived["summary"]["writes"]["bytes"], recorded["summary"]["writes"]["bytes"]);
        // Anyone who inspects a device that was written reads of it as well.
        let reads = |summary: &Value| summary["summary"]["reads"]["requests"].as_u64().unwrap();
        assert!(reads(&arrived) >= reads(&recorded), "{arrived}");
    }
    assert_eq!(modelled[0], modelled[1], "the same requests take the same time, whatever the format");
    // Without the beginning and the end of the device, which are read to see what is on it: the order that is the shortest at each step
    // is not always the shortest as a whole.
    disks.run(&["disk", "log", "convert", "ours", "own", "--to", "fsage", "--bytes", "9MiB..45MiB"]);
    let replayed = |depth| {
        disks.json(&["disk", "replay", "own", "--model", "hdd-7200", "--size", "64MiB", "--iodepth", depth])
    };
    let (alone, queued) = (replayed("1"), replayed("16"));
    assert_eq!(alone["summary"]["reads"]["bytes"], 8 * 65536, "{alone}");
    assert_eq!(alone["summary"]["writes"]["bytes"], 16 * 65536, "{alone}");
    assert!(model_ns(&alone) >= model_ns(&queued) && model_ns(&queued) > 1_000_000, "{alone}\n{queued}");
    let (code, said) = disks.refused(&["disk", "replay", "ours"]);
    assert!(code == 2 && said.contains("--model"), "{said}");
    let (code, said) = disks.refused(&["disk", "replay", "ours", "--onto", "nobody"]);
    assert!(code != 0 && said.contains("nobody"), "{said}");
}

fn model_ns(replayed: &Value) -> u64 {
    replayed["summary"]["model_ns"].as_u64().unwrap()
}

#[test]
fn its_log_is_shown_filtered_summed_up_and_converted() {
    let Some(disks) = Disks::new() else { return };
    let disk = device(&disks.up(&["logged", "--size", "64MiB", "--medium", "ssd"]));
    let (code, said) = disks.refused(&["disk", "log", "summary", "logged"]);
    assert!(code == 2 && said.contains("keeps no log") && said.contains("hint: start the log"), "{said}");
    disks.run(&["disk", "log", "start", "logged"]);
    let write = "dd if=/dev/zero of=\"$1\" bs=64k count=16 seek=4 oflag=direct conv=fsync status=none";
    assert!(shell(write, &disk, &disk));
    disks.run(&["disk", "log", "mark", "logged", "half way"]);
    assert!(shell("dd if=\"$1\" of=/dev/null bs=1M count=2 iflag=direct status=none", &disk, &disk));
    let summary = disks.json(&["disk", "log", "summary", "logged"]);
    let writes = &summary["summary"]["writes"];
    assert_eq!((writes["requests"].as_u64(), writes["bytes"].as_u64()), (Some(16), Some(1 << 20)));
    assert_eq!(writes["layout_score"].as_f64(), Some(1.0));
    assert!(disks.run(&["disk", "log", "summary", "logged"]).contains("written, by place"));
    let shown =
        disks.run(&["disk", "log", "show", "logged", "--operation", "write", "--bytes", "320KiB..448KiB"]);
    assert_eq!(shown.lines().count(), 1 + 2, "{shown}");
    let rows = disks.run(&["disk", "log", "show", "logged", "--json", "--limit", "3"]);
    assert_eq!(rows.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 3);
    let saved = disks.json(&["disk", "log", "save", "logged", "requests.log"]);
    // The user's, and the one that names the medium.
    assert_eq!(saved["marks"], 2);
    let (code, said) = disks.refused(&["disk", "log", "save", "logged", "requests.log"]);
    assert!(code == 2 && said.contains("hint: name a file that does not exist"), "{said}");
    for (format, left_out) in [("dm-log-writes", true), ("blkparse", false), ("fsage", false)] {
        let converted = disks.json(&["disk", "log", "convert", "requests.log", "other.log", "--to", format]);
        assert_eq!(converted["reads_left_out"].as_u64().unwrap() > 0, left_out, "{format}: {converted}");
        let again = disks.json(&["disk", "log", "summary", "./other.log"]);
        assert_eq!(again["summary"]["writes"]["bytes"], writes["bytes"], "{format}");
    }
    // A disk has its name first; its file is meant by a path.
    std::fs::write(disks.path("logged"), "not a log").unwrap();
    let of_the_disk = disks.output(&["disk", "log", "show", "logged"]);
    let said = String::from_utf8_lossy(&of_the_disk.stderr).into_owned();
    assert!(of_the_disk.status.success() && said.contains("the file is ./logged"), "{said}");
    assert_ne!(disks.refused(&["disk", "log", "show", "./logged"]).0, 0);
    let (code, said) = disks.refused(&["disk", "log", "show", "./other.log", "--bytes", "9..3"]);
    assert!(code == 2 && said.contains("`--bytes 9..3` is not a range"), "{said}");
    let whole = std::fs::read(disks.path("requests.log")).unwrap();
    std::fs::write(disks.path("cut.log"), &whole[..whole.len() / 2]).unwrap();
    let (code, said) = disks.refused(&["disk", "log", "show", "./cut.log"]);
    assert!(code == 5 && said.contains("it is truncated"), "{code} {said}");
}

#[test]
fn snapshots_and_faults_come_and_go() {
    let Some(disks) = Disks::new() else { return };
    let disk = device(&disks.up(&["kept", "--size", "16MiB"]));
    let write = |text: &str| {
        let script =
            format!("yes {text} | dd of=\"$1\" bs=4k count=1 oflag=direct iflag=fullblock status=none");
        assert!(shell(&script, &disk, &disk));
    };
    let read = || {
        let script = "dd if=\"$1\" bs=4k count=1 iflag=direct status=none | head -c 3";
        let output = Command::new("sh").args(["-c", script, "sh"]).arg(&disk).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    write("one");
    let number = disks.json(&["disk", "snapshot", "take", "kept"])["snapshot"].as_u64().unwrap().to_string();
    write("two");
    assert_eq!(read(), "two");
    disks.run(&["disk", "snapshot", "revert", "kept", &number]);
    assert_eq!(read(), "one");
    disks.run(&["disk", "fault", "set", "kept", r#"{"read_error": [{"rate": 1.0}]}"#]);
    assert_eq!(read(), "");
    disks.run(&["disk", "fault", "clear", "kept"]);
    assert_eq!(read(), "one");
    disks.run(&["disk", "snapshot", "delete", "kept", &number]);
    let (code, said) = disks.refused(&["disk", "snapshot", "revert", "kept", &number]);
    assert!(code != 0 && said.contains("no snapshot"), "{said}");
    let (code, said) = disks.refused(&["disk", "fault", "set", "kept", r#"{"read_eror": []}"#]);
    assert!(code == 2 && said.contains("read_eror"), "{said}");
}

#[test]
fn one_whose_server_was_killed_is_dead_and_goes() {
    let Some(disks) = Disks::new() else { return };
    let record = disks.up(&["gone", "--size", "64MiB", "--nbd"]);
    let pid: Value =
        serde_json::from_slice(&std::fs::read(disks.path("runtime/disks/gone/served/pid")).unwrap()).unwrap();
    let pid = pid["pid"].as_u64().unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let dead = || disks.json(&["disk", "ls"])[0]["state"] == "dead";
    let started = std::time::Instant::now();
    while !dead() {
        assert!(started.elapsed().as_secs() < 20, "still up");
    }
    let (code, said) = disks.refused(&["disk", "stat", "gone"]);
    assert!(code == 4 && said.contains("hint: `fsage disk down gone`"), "{said}");
    assert!(device(&record).exists());
    disks.run(&["disk", "down", "gone"]);
    assert!(disks.scratch.left_behind().is_empty() && !disks.path("runtime/disks/gone").exists());
}

#[test]
fn what_cannot_be_is_refused_with_a_way_out() {
    let Some(disks) = Disks::new() else { return };
    for (words, code, wanted) in [
        (&["disk", "up", "a/b", "--size", "1GiB"][..], 2, "cannot be the name of a disk"),
        (&["disk", "up", "a", "--size", "17TiB"], 2, "must be from"),
        (&["disk", "up", "a", "--size", "1GiB", "--medium", "hdd-720"], 2, "did you mean `hdd-7200`?"),
        (&["disk", "up", "a", "--size", "1GiB", "--medium", "hdd-7200,rpm=1"], 2, "rpm = 1 is not between"),
        (&["disk", "up", "a", "--size", "1GiB", "--faults", "{"], 2, "is not a list of faults"),
        (&["disk", "up", "a", "--size", "1GiB", "--memory", "many"], 2, "--memory"),
        (&["disk", "down", "nobody"], 2, "there is no disk `nobody`"),
        (&["disk", "log", "show", "/nowhere/log"], 4, "cannot open /nowhere/log"),
        (&["disk", "media", "hdd-720"], 2, "did you mean `hdd-7200`?"),
    ] {
        let (found, said) = disks.refused(words);
        assert!(found == code && said.contains(wanted), "{words:?}: {found}: {said}");
    }
    assert!(disks.run(&["disk", "media"]).lines().count() >= 9);
    assert!(disks.run(&["disk", "media", "hdd-7200"]).contains("rpm"));
}
