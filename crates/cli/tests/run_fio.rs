//! Points of fio on a loop file, on a file system and on the bare device: short, but with fio itself.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fsage_lab::store::Store;
use fsage_model::fio::{FioRecord, FioResult, LatencyAt};
use fsage_model::record::{StageRecord, TrialRecord, TrialStatus};
use fsage_model::warning::WarningKind;
use serde_json::Value;
use support::{Scratch, agent, skip};

const STUDY: &str = include_str!("data/points.toml");

/// Points of the study's stage.
const POINTS: usize = 6;

/// Points with the page cache begin without it, for the whole host: what has them runs one after the other.
static CACHE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Lab {
    scratch: Scratch,
}

impl Lab {
    /// `None`, and a word why, when this user cannot mount or there is no fio.
    fn new() -> Option<Self> {
        if !support::can_mount() {
            return None;
        }
        if Command::new("fio").arg("--version").stdout(Stdio::null()).status().is_err() {
            skip("needs fio");
            return None;
        }
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join("points.toml"), STUDY).unwrap();
        Some(Self { scratch })
    }

    fn store(&self) -> PathBuf {
        self.scratch.path().join("store")
    }

    fn command(&self, set: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.arg("run").arg(self.scratch.path().join("points.toml")).arg("--json");
        command.arg("--store").arg(self.store()).env("FSAGE_AGENT", agent());
        for set in set {
            command.arg("--set").arg(set);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, set: &[&str]) -> (Option<i32>, String) {
        let output = self.command(set).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn trials(&self) -> Vec<TrialRecord> {
        Store::open(&self.store()).unwrap().trials()
    }

    fn json(&self, trial: &TrialRecord, result: &FioResult) -> Value {
        let path = self.store().join("trials").join(&trial.id).join(&result.file);
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn nothing_left(&self) {
        assert_eq!(self.scratch.left_behind(), [] as [String; 0]);
        assert!(!self.store().join("volumes").exists() && !self.store().join("mounts").exists());
    }
}

fn fio(trial: &TrialRecord) -> &FioRecord {
    let found = trial.stages.iter().find_map(|stage| match stage {
        StageRecord::Fio(fio) => Some(&**fio),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn every_point_is_run_on_the_file_system_and_on_the_bare_device() {
    let Some(lab) = Lab::new() else { return };
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let record = fio(trial);
        let bare = trial.factors["file_system.kind"] == "bare";
        assert_eq!((trial.status, record.bare, record.bytes), (TrialStatus::Complete, bare, 64 << 20));
        assert_eq!(trial.check == "clean", !bare, "{}", trial.check);
        assert_eq!(record.results.len(), POINTS);
        assert!(bare != trial.commands.iter().any(|line| line.starts_with("mke2fs")));
        for result in &record.results {
            let name = result.point.to_string();
            let json = lab.json(trial, result);
            assert_eq!(json["jobs"][0]["read"]["total_ios"], result.read.operations, "{name}");
            percentiles(&json["jobs"][0]["read"]["lat_ns"], &result.read_percentiles);
            assert_eq!(result.write_percentiles.is_empty(), !result.point.rw.is_mixed(), "{name}");
            let log = lab.store().join("trials").join(&trial.id).join(&result.file).with_extension("hlog");
            assert!(std::fs::read_to_string(log).unwrap().contains("Tag=read,"), "{name}");
            for latency in ["clat_ns", "lat_ns"] {
                assert!(
                    json["jobs"][0]["read"][latency]["bins"].is_object(),
                    "the histogram is kept: {name}"
                );
            }
            assert!(
                result.iops() > 0.0 && result.mean_ns() > 0.0 && result.cpu_ns_per_operation() > 0.0,
                "{name}"
            );
            assert_eq!(result.write.operations > 0, result.point.rw.is_mixed(), "{name}");
            if result.point.rw.is_mixed() {
                let reads = fsage_model::quantity::share(result.read.operations, result.operations());
                assert!((0.6..0.8).contains(&reads), "{name}: {reads}");
            }
            let settled = result.settled.unwrap();
            assert!(settled.quiet && settled.elapsed_ns >= 10_000_000, "{name}: {settled:?}");
            let device = result.device.unwrap();
            assert!(device.read_bytes > 0 && !result.samples.is_empty(), "{name}");
            let metric = trial.metrics.iter().find(|metric| metric.name == format!("{name}.iops")).unwrap();
            // Both went through JSON, which may cost the last bit.
            assert!((metric.samples[0] / result.iops() - 1.0).abs() < 1e-12, "{name}: {:?}", metric.samples);
        }
    }
    // The same points on the same bytes: what one takes can be compared with what the other does.
    let works: Vec<_> = trials.iter().map(|trial| trial.metrics[0].work).collect();
    assert!(works[0].is_some() && works[0] == works[1], "{works:?}");
    let report = lab.scratch.path().join("report.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
    let made = command.arg("report").arg(lab.store()).arg("-o").arg(&report).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("fio rates and latency") && page.contains("randrw70-4k-libaio-d8-j1-f4"));
    assert!(page.contains("id=\"device-percentile-chart\"") && page.contains("randrw70, writes"));
}

/// The percentiles kept are those that fio says itself, but for what lies beyond the shortest and the longest.
fn percentiles(latency: &Value, kept: &[LatencyAt]) {
    let (min, max) = (latency["min"].as_f64().unwrap(), latency["max"].as_f64().unwrap());
    let compared = kept.iter().filter(|at| {
        let theirs = &latency["percentile"][format!("{:.6}", at.percent)];
        theirs
            .as_f64()
            .inspect(|theirs| assert_eq!(at.ns, theirs.max(min).min(max), "{} %", at.percent))
            .is_some()
    });
    assert!(compared.count() >= 10);
}

#[test]
fn a_job_file_of_ones_own_is_run_as_a_point_and_leaves_no_file() {
    let Some(lab) = Lab::new() else { return };
    let _alone = alone();
    let at = STUDY.find("rw = ").unwrap();
    let text =
        format!("{}job = \"own mix.fio\"\nsize = \"16MiB\"\nruntime = 1.0\nround = 0.2\n", &STUDY[..at]);
    std::fs::write(lab.scratch.path().join("points.toml"), text).unwrap();
    let job = "[global]\nioengine=psync\nfallocate=none\nsize={size}\n[reader]\nrw=randread\n[writer]\nrw=randwrite\nfsync=8\n";
    std::fs::write(lab.scratch.path().join("own mix.fio"), job).unwrap();
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    let record = fio(&trials[0]);
    let own = record.job.as_ref().unwrap();
    assert_eq!((own.point.as_str(), own.file.as_str()), ("job-own-mix", "fio/fio-job-own-mix.json"));
    assert!(own.read.operations > 0 && own.write.operations > 0 && record.results.is_empty(), "{own:?}");
    assert!(own.settled.unwrap().quiet && own.device.unwrap().written_bytes > 0, "{own:?}");
    let path = lab.store().join("trials").join(&trials[0].id).join(&own.file);
    let json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(json["jobs"].is_array());
    let metric = trials[0].metrics.iter().find(|metric| metric.name == "job-own-mix.iops").unwrap();
    assert!(metric.samples[0] > 0.0);
    // The job is part of the trial: another one is another trial, of which this store has none.
    std::fs::write(lab.scratch.path().join("own mix.fio"), job.replace("fsync=8", "fsync=9")).unwrap();
    let (code, stderr) = lab.run(&[]);
    assert!(code == Some(2) && stderr.contains("not in this run"), "{stderr}");
    std::fs::write(lab.scratch.path().join("own mix.fio"), job.replace("fsync=8", "filename=/dev/null"))
        .unwrap();
    let (code, stderr) = lab.run(&[]);
    assert!(code == Some(2) && stderr.contains("line 9"), "{stderr}");
}

const CONDITIONED: &str = r#"name = "points"
title = "Preconditioned loop files"
question = "q"
seed = 3
volume = { kind = "loop", size = "64MiB" }
[file_system]
kind = "ext4"
[file_system.options.ext4]
mkfs.discard = false
[[stage]]
kind = "precondition"
bs = "16KiB"
iodepth = 8
runtime = 3.0
round = 0.3
[[stage]]
kind = "fio"
rw = "randread"
size = "16MiB"
runtime = 0.5
[matrix]
"file_system.kind" = ["bare", "ext4"]
"#;

#[test]
fn a_volume_is_written_from_end_to_end_and_at_random_before_mkfs() {
    let Some(lab) = Lab::new() else { return };
    std::fs::write(lab.scratch.path().join("points.toml"), CONDITIONED).unwrap();
    let dry = lab.command(&[]).arg("--dry-run").output().unwrap();
    let said = String::from_utf8_lossy(&dry.stdout).into_owned() + &String::from_utf8_lossy(&dry.stderr);
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}: {said}"));
    assert!(at("--rw=randwrite") < at("mke2fs"), "{said}");
    let (code, stderr) = lab.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    for trial in lab.trials() {
        let done = trial.stages.iter().find_map(StageRecord::precondition).unwrap();
        let region = (64 - 5) << 20;
        assert_eq!(done.passes.iter().map(|pass| pass.bytes).collect::<Vec<_>>(), [region; 2]);
        assert!(done.write.operations > 0 && done.last_iops().unwrap() > 0.0 && done.taken_from.is_none());
        let device = done.device.unwrap();
        assert!(device.written_bytes >= 2 * region + done.write.bytes, "{device:?} {:?}", done.write);
        let position = |text: &str| trial.commands.iter().position(|line| line.contains(text));
        if trial.factors["file_system.kind"] == "ext4" {
            assert!(position("--rw=randwrite") < position("mke2fs"), "{:?}", trial.commands);
            assert_eq!(trial.check, "clean");
        }
        assert!(trial.wear.is_empty(), "a loop device has no counters");
        assert_eq!(fio(&trial).results.len(), 1);
    }
    // A loop file is another one each time.
    assert!(!lab.store().join("preconditioned.json").exists());
}

/// Starts a run with points of a second and waits until `number` of them are complete.
fn after_points(lab: &Lab, number: usize, set: &[&str]) -> std::process::Child {
    let mut child = lab.command(set).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let complete = || -> usize {
        let trials = std::fs::read_dir(lab.store().join("trials"));
        let folders = trials.into_iter().flatten().flatten().map(|trial| trial.path().join("fio"));
        let files = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("fio-randr") && name.ends_with(".json")).count()
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    while complete() < number {
        assert!(
            Instant::now() < deadline && child.try_wait().unwrap().is_none(),
            "no point was complete in time"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn a_killed_run_redoes_only_the_points_that_it_had_not_complete() {
    let Some(lab) = Lab::new() else { return };
    let _alone = alone();
    let set = ["matrix.file_system.kind=[\"ext4\"]", "stage.fio.steady=false"];
    let mut child = after_points(&lab, 3, &set);
    child.kill().unwrap();
    child.wait().unwrap();
    // One JSON is cut off as if it had been written without care: it does not count.
    let trial = std::fs::read_dir(lab.store().join("trials")).unwrap().next().unwrap().unwrap().path();
    let list: Value =
        serde_json::from_slice(&std::fs::read(trial.join("fio/fio-points.json")).unwrap()).unwrap();
    let complete = list["results"].as_array().unwrap().len();
    assert!((2..POINTS).contains(&complete), "{complete}");
    let cut = trial.join(list["results"][0]["file"].as_str().unwrap());
    let text = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &text[..text.len() / 2]).unwrap();
    let (code, stderr) = lab.run(&set);
    assert_eq!(code, Some(0), "{stderr}");
    lab.nothing_left();
    let trials = lab.trials();
    let results = &fio(&trials[0]).results;
    assert_eq!(results.len(), POINTS);
    assert_eq!(results.iter().filter(|result| result.kept).count(), complete - 1);
    assert!(results.iter().all(|result| lab.json(&trials[0], result)["jobs"].is_array()));
    assert!(!trial.join("fio/fio-points.json").exists());
}

#[test]
fn a_signal_ends_a_point_and_leaves_nothing() {
    let Some(lab) = Lab::new() else { return };
    let _alone = alone();
    let long = ["stage.fio.runtime=60.0", "stage.fio.steady=false"];
    ended_by_a_signal(&lab, &[&["matrix.file_system.kind=[\"ext4\"]"], &long[..]].concat());
    let limited = ["stage.fio.memory=\"64MiB\""];
    ended_by_a_signal(&lab, &[&LIMITED[..], &long[..], &limited[..]].concat());
}

fn ended_by_a_signal(lab: &Lab, set: &[&str]) {
    let mut child = lab.command(set).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let begun = || {
        let trials = std::fs::read_dir(lab.store().join("trials")).into_iter().flatten().flatten();
        let logs = trials.filter_map(|trial| std::fs::read_to_string(trial.path().join("log.txt")).ok());
        logs.into_iter().any(|log| log.contains("--name=randr"))
    };
    while !begun() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "no point began");
        std::thread::sleep(Duration::from_millis(20));
    }
    let started = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(started.elapsed() < Duration::from_secs(30), "the point was not run to its end");
    lab.nothing_left();
    assert_eq!(groups(child.id()), [] as [PathBuf; 0]);
    assert!(lab.trials().is_empty(), "the trial is not recorded");
    let _ = std::fs::remove_dir_all(lab.store());
}

#[test]
fn what_the_device_or_fio_cannot_do_is_refused_with_the_reason() {
    let Some(lab) = Lab::new() else { return };
    for (set, code, wanted) in [
        // The queue of a loop device has 128 places without a scheduler, 256 with one.
        (vec!["stage.fio.iodepth=1024", "stage.fio.ioengine=\"libaio\""], 4, "requests at once"),
        (
            vec!["stage.fio.size=\"250MiB\"", "matrix.file_system.kind=[\"ext4\"]"],
            4,
            "do not fit: the volume has",
        ),
        (vec!["stage.fio.size=\"254MiB\""], 2, "left free at both ends"),
        (vec!["stage.fio.files=1024", "stage.fio.bs=\"1MiB\""], 2, "less than one block"),
    ] {
        let (found, stderr) = lab.run(&set);
        assert_eq!(found, Some(code), "{set:?}: {stderr}");
        let said = if code == 2 {
            stderr
        } else {
            lab.trials().iter().map(|trial| trial.error.clone()).collect::<Vec<_>>().join("\n")
        };
        assert!(said.contains(wanted), "{set:?}: {said}");
        let _ = std::fs::remove_dir_all(lab.store());
    }
    lab.nothing_left();
}

/// A hard disk takes random writes into its cache, and needs a third of a second and more to write them out. Its server answers the flush
/// before a point at once (`export/gate.rs`), so that the first request of the point would wait for it.
#[test]
fn what_is_in_the_cache_of_a_modelled_drive_is_written_out_before_a_point() {
    let Some(lab) = Lab::new() else { return };
    let (code, stderr) = lab.run(&[
        r#"volume={ kind = "disk", medium = "hdd-7200", size = "256MiB", time = "real" }"#,
        r#"matrix.file_system.kind=["bare"]"#,
        r#"stage.fio.rw=["randwrite", "randread"]"#,
        r#"stage.fio.bs=["1MiB", "512KiB"]"#,
        r#"stage.fio.ioengine="libaio""#,
        "stage.fio.iodepth=32",
        "stage.fio.runtime=0.5",
        "stage.fio.steady=false",
    ]);
    assert_eq!(code, Some(0), "{stderr}");
    let trials = lab.trials();
    let results = &fio(&trials[0]).results;
    assert_eq!(results.len(), 4);
    let flushed: Vec<u64> = results.iter().filter_map(|result| Some(result.settled?.flush_ns)).collect();
    // A flush that nobody waits for takes some milliseconds.
    assert!(flushed.iter().any(|ns| *ns > 150_000_000), "no point waited for the cache: {flushed:?}");
    lab.nothing_left();
}

/// The example has a tunable, which a command sets after the mount: one that sets nothing would not be seen in the rates.
#[test]
fn a_described_file_system_is_made_mounted_and_tuned() {
    let Some(lab) = Lab::new() else { return };
    let example = include_str!("../../../docs/examples/described.toml");
    let noted = lab.scratch.path().join("tunable");
    let tuned = "echo 256 >/sys/fs/ext4/$(basename $0)/mb_stream_req";
    assert!(example.contains(tuned));
    let check = format!("{tuned}; cat /sys/fs/ext4/$(basename $0)/mb_stream_req >{}", noted.display());
    std::fs::write(lab.scratch.path().join("points.toml"), example.replace(tuned, &check)).unwrap();
    let set = [
        "repeats=1",
        "volume.size=\"128MiB\"",
        "stage.fio.bs=\"4KiB\"",
        "stage.fio.iodepth=8",
        "stage.fio.runtime=1.0",
        "stage.fio.round=0.2",
    ];
    let (code, stderr) = lab.run(&set);
    assert_eq!(code, Some(2), "it runs commands: {stderr}");
    assert!(stderr.contains("--allow-commands"), "{stderr}");
    let output = lab.command(&set).arg("--allow-commands").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(&noted).unwrap().trim(), "256");
    let trials = lab.trials();
    assert_eq!(trials.len(), 2);
    assert!(trials.iter().all(|trial| fio(trial).results.len() == 2));
    let own = trials.iter().find(|trial| trial.factors["file_system.kind"] == "tuned").unwrap();
    assert_eq!(own.check, "clean");
    assert!(own.commands.iter().any(|line| line.starts_with("mke2fs") && line.contains("-b 4096")));
    lab.nothing_left();
}

/// Control groups of fsage's that are there, at any depth; those of other tests are at work at the same time.
fn groups(of: u32) -> Vec<PathBuf> {
    fn below(folder: &Path, name: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(name) {
                    found.push(entry.path());
                }
                below(&entry.path(), name, found);
            }
        }
    }
    let mut found = Vec::new();
    below(Path::new("/sys/fs/cgroup"), &format!("fsage-{of}-"), &mut found);
    found
}

/// Waits until a run has made its control group; the run's process.
fn await_group(run: &mut std::process::Child) -> u32 {
    let pid = run.id();
    let deadline = Instant::now() + Duration::from_secs(60);
    while groups(pid).is_empty() {
        assert!(Instant::now() < deadline && run.try_wait().unwrap().is_none(), "no group was made");
        std::thread::sleep(Duration::from_millis(5));
    }
    pid
}

const LIMITED: [&str; 6] = [
    "matrix.file_system.kind=[\"ext4\"]",
    "stage.fio.rw=\"randread\"",
    "stage.fio.bs=\"64KiB\"",
    "stage.fio.ioengine=\"sync\"",
    "stage.fio.iodepth=1",
    "stage.fio.direct=false",
];

#[test]
fn memory_limits_the_page_cache_of_a_point() {
    let Some(lab) = Lab::new() else { return };
    let _alone = alone();
    let mut set = LIMITED.to_vec();
    set.extend([
        "stage.fio.memory=[\"40MiB\", \"256MiB\"]",
        "stage.fio.runtime=2.0",
        "stage.fio.steady=false",
    ]);
    let mut child = lab.command(&set).spawn().unwrap();
    let pid = await_group(&mut child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    lab.nothing_left();
    assert_eq!(groups(pid), [] as [PathBuf; 0]);
    let trials = lab.trials();
    let of = |name: &str| {
        let found = fio(&trials[0]).results.iter().find(|result| result.point.to_string() == name);
        found.unwrap_or_else(|| panic!("no point {name}"))
    };
    let small = of("randread-64k-sync-d1-j1-f4-buffered-m40m");
    let large = of("randread-64k-sync-d1-j1-f4-buffered-m256m");
    let (less, more) = (small.memory.unwrap(), large.memory.unwrap());
    assert_eq!((less.limit_bytes, more.limit_bytes), (40 << 20, 256 << 20));
    assert!((4 << 20..=40 << 20).contains(&less.cache_bytes), "{less:?}");
    assert!((60 << 20..=72 << 20).contains(&more.cache_bytes), "all files fit: {more:?}");
    assert_eq!((less.killed, more.killed), (0, 0));
    let read = |result: &FioResult| result.device.unwrap().read_bytes;
    assert!(small.iops() < large.iops(), "{} for {}", small.iops(), large.iops());
    let name = format!("{}.files_over_cache", large.point);
    let ratio = trials[0].metrics.iter().find(|metric| metric.name == name).unwrap().samples[0];
    assert!((0.25..=0.28).contains(&ratio), "{ratio}");
    // What fits was read before the point.
    assert!(read(large) < 1 << 20, "{}", read(large));
    let share = |result: &FioResult| {
        let name = format!("{}.device_share", result.point);
        trials[0].metrics.iter().find(|metric| metric.name == name).unwrap().samples[0]
    };
    assert!(share(large) < 0.01, "{}", share(large));
    // 64 MiB of files with some 30 MiB of cache, asked for at random.
    assert!((0.25..0.9).contains(&share(small)), "{}", share(small));
    let pressed = trials[0].warnings.iter().any(|warning| warning.kind == WarningKind::MemoryPressure);
    assert!(!pressed, "{:?}", trials[0].warnings);
}

#[test]
fn a_point_whose_page_cache_was_dropped_is_run_once_more() {
    let Some(lab) = Lab::new() else { return };
    let _alone = alone();
    let mut set = LIMITED.to_vec();
    set.extend(["stage.fio.memory=\"256MiB\"", "stage.fio.runtime=3.0", "stage.fio.steady=false"]);
    for often in [false, true] {
        let mut child = lab.command(&set).spawn().unwrap();
        await_group(&mut child);
        // In the middle of the point, or all the time.
        std::thread::sleep(Duration::from_millis(1500));
        std::fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
        while often && child.try_wait().unwrap().is_none() {
            std::fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lab.nothing_left();
        let trials = lab.trials();
        let result = &fio(&trials[0]).results[0];
        let read = result.device.unwrap().read_bytes;
        let runs = trials[0].commands.iter().filter(|line| line.contains("--name=randread")).count();
        assert_eq!(runs, 2, "{:?}", trials[0].commands);
        let dropped = result.warnings.iter().any(|warning| warning.kind == WarningKind::CachesDropped);
        assert_eq!((dropped, read > 32 << 20), (often, often), "{read} bytes: {:?}", result.warnings);
        std::fs::remove_dir_all(lab.store()).unwrap();
    }
}

#[test]
fn a_limit_that_is_too_low_for_fio_is_no_slow_point() {
    let Some(lab) = Lab::new() else { return };
    let _alone = alone();
    let mut set = LIMITED.to_vec();
    set[2] = "stage.fio.bs=\"4MiB\"";
    set.extend(["stage.fio.numjobs=32", "stage.fio.memory=\"32MiB\""]);
    let child = lab.command(&set).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(groups(pid), [] as [PathBuf; 0]);
    let error = &lab.trials()[0].error;
    assert!(error.contains("32MiB of memory is too little for it"), "{error}");
    lab.nothing_left();
    let _ = std::fs::remove_dir_all(lab.store());
    for (more, wanted) in [
        (vec!["stage.fio.direct=true", "stage.fio.memory=\"64MiB\""], "which no point uses"),
        (vec!["stage.fio.memory=\"16MiB\""], "16MiB is not in 32MiB to"),
    ] {
        let (code, stderr) = lab.run(&[LIMITED.to_vec(), more].concat());
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(wanted), "{stderr}");
    }
}

#[test]
fn the_control_group_of_a_killed_run_is_removed_by_the_next() {
    let Some(lab) = Lab::new() else { return };
    let _alone = alone();
    let mut set = LIMITED.to_vec();
    set.extend(["stage.fio.memory=\"64MiB\"", "stage.fio.runtime=1.0", "stage.fio.steady=false"]);
    let mut child = lab.command(&set).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = await_group(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, stderr) = lab.run(&set);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(groups(pid), [] as [PathBuf; 0]);
    lab.nothing_left();
}

#[test]
fn a_dry_run_says_every_point_and_touches_nothing() {
    let Some(lab) = Lab::new() else { return };
    let mut command = lab.command(&[]);
    let output = command.arg("--dry-run").output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("--name=layout") && said.contains("--name=randrw70-4k-libaio-d8-j1-f4"), "{said}");
    assert!(!lab.store().exists());
}
