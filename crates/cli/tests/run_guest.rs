//! Trials in guests: QEMU with a kernel of the distribution, which this host's tests fetch.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod dice;
mod guest_rig;
mod lab;
mod support;
#[path = "storm/victim.rs"]
mod victim;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_lab::store::Store;
use fsage_model::record::{StageRecord, TrialStatus};
use guest_rig::cache;
use support::wait_for;

const STUDY: &str = r#"
name = "guest"
title = "In a guest"
question = "Is the tree the same?"
seed = 7
[volume]
medium = "ssd"
size = "320MiB"
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 1_500
verify = true
trace = true
workload = { kind = "drift", slots = 300, file_size = { kind = "uniform", min = "1KiB", max = "64KiB" } }
[matrix]
"file_system.kind" = ["ext4", "f2fs"]
[driver.f2fs]
mkfs = ["mkfs.f2fs", "-f", "-l", "fsage", "{device}"]
fsck = ["fsck.f2fs", "--dry-run", "{device}"]
package = "f2fs-tools"
"#;

const GUEST: &str = r#"target={ kind = "guest", kernel = "6.1" }"#;
const EXT4: &str = r#"matrix.file_system.kind=["ext4"]"#;

/// A study and its store.
struct Rig {
    lab: lab::Lab,
    cache: &'static Path,
}

impl Rig {
    fn new() -> Option<Self> {
        Some(Self { cache: cache()?, lab: lab::Lab::new(STUDY) })
    }

    fn command(&self, set: &[&str]) -> Command {
        self.lab.command_in_guests(self.cache, set)
    }

    fn run(&self, set: &[&str]) -> (Option<i32>, String) {
        lab::ended(self.command(set))
    }

    /// The logs of all trials.
    fn logs(&self) -> String {
        let log = |trial: &fsage_model::record::TrialRecord| {
            std::fs::read_to_string(self.lab.store().join("trials").join(&trial.id).join("log.txt")).unwrap()
        };
        self.lab.trials().iter().map(log).collect()
    }

    /// The logical trees by file system; every trial is complete.
    fn digests(&self) -> BTreeMap<String, String> {
        let digest = |trial: &fsage_model::record::TrialRecord| {
            assert_eq!(trial.status, TrialStatus::Complete, "{}", trial.error);
            let StageRecord::Age { result, .. } = &trial.stages[0] else { panic!("the stage ages") };
            (trial.factors["file_system.kind"].as_str().unwrap().to_owned(), result.digest.clone())
        };
        Store::open(&self.lab.store()).unwrap().trials().iter().map(digest).collect()
    }
}

/// This moment, as records have it.
fn now() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    fsage_lab::time::rfc3339(now.as_secs())
}

#[test]
fn a_file_system_that_this_kernel_lacks_leaves_the_same_tree_in_a_guest() {
    let (Some(rig), Some(here)) = (Rig::new(), Rig::new()) else { return };
    let (code, stderr) = here.run(&[EXT4]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stderr) = rig.run(&[GUEST]);
    assert_eq!(code, Some(0), "{stderr}");
    let digests = rig.digests();
    assert_eq!(digests.keys().collect::<Vec<_>>(), ["ext4", "f2fs"]);
    assert!(digests.values().all(|digest| *digest == here.digests()["ext4"]), "{digests:?}");
    let trials = rig.lab.trials();
    assert!(trials.iter().all(|trial| trial.host.kernel.starts_with("6.1.")), "{:?}", trials[0].host.kernel);
    assert!(trials.iter().all(|trial| trial.check.contains("clean")));
    let trace = rig.lab.store().join("trials").join(&trials[0].id).join("trace.parquet");
    assert!(trace.metadata().unwrap().len() > 0);
    // The first of them has how their guest was started.
    let logs = rig.logs();
    assert_eq!(logs.matches(", round trip of a message ").count(), 1, "{logs}");
    rig.lab.nothing_left();
}

/// Guests that start from one state are given the time and random numbers when they do; one that cannot start from it boots.
#[test]
fn guests_start_from_a_saved_state_and_boot_where_it_is_damaged() {
    /// A number of the kernel's that no other boot has, in the error of the trial.
    const RANDOM: &str = r#"driver.f2fs.mkfs=["sh", "-c", "read id </proc/sys/kernel/random/uuid; echo random: $id >&2; exit 1 # {device}"]"#;
    let Some(cache) = cache() else { return };
    let scratch = tempfile::tempdir().unwrap();
    // Emulated: there are no states of others. A cache of its own, with the same kernels.
    std::fs::write(scratch.path().join("no-kvm"), "").unwrap();
    std::os::unix::fs::symlink(cache.join("kernels"), scratch.path().join("kernels")).unwrap();
    let states = || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(scratch.path().join("guests")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    // The error of the trial, how its guest was started, and what was reported.
    let run = || {
        let other = Rig::new().unwrap();
        let before = now();
        let mut command = other.command(&[GUEST, r#"matrix.file_system.kind=["f2fs"]"#, RANDOM]);
        command.env("FSAGE_CACHE_DIR", scratch.path()).env("FSAGE_RUNTIME_DIR", scratch.path());
        let (code, stderr) = lab::ended(command);
        assert_eq!(code, Some(4), "{stderr}");
        let trial = other.lab.trials().remove(0);
        assert!(before <= trial.started && trial.started <= now(), "{} {before}", trial.started);
        other.lab.nothing_left();
        // What was printed comes after the command itself.
        let random: String =
            trial.error.rsplit("random: ").next().unwrap_or_default().chars().take(36).collect();
        assert_eq!(random.matches('-').count(), 4, "{}", trial.error);
        (random, other.logs(), stderr)
    };
    let (first, second) = (run(), run());
    for (_, logs, stderr) in [&first, &second] {
        assert!(
            logs.contains("started from a saved state in ") && !stderr.contains("is booted"),
            "{logs}{stderr}"
        );
    }
    assert_eq!([&first, &second].map(|run| run.1.contains(", booted and saved in ")), [true, false]);
    assert_ne!(first.0, second.0);
    let found = states();
    assert_eq!(found.len(), 1, "{found:?}");
    std::fs::write(found[0].join("machine"), "no such state").unwrap();
    let (_, logs, stderr) = run();
    assert!(stderr.contains("is booted, not started from a saved state: "), "{stderr}");
    assert!(logs.contains(", booted in "), "{logs}");
    assert!(states().is_empty());
}

/// A repository whose commits "build" kernels of the distribution: btrfs of 6.12 writes half as often again as that of 6.1 for this load (both
/// measured here, in model time).
#[test]
fn the_first_commit_of_a_tree_that_is_slower_is_found() {
    let Some(rig) = Rig::new() else { return };
    if !guest_rig::fetch(rig.cache, "6.12") {
        return;
    }
    let scratch = rig.lab.scratch.path();
    let (tree, out) = (scratch.join("tree"), scratch.join("bisect"));
    std::fs::create_dir(&tree).unwrap();
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&tree).args(["-c", "user.name=n", "-c", "user.email=e"]).args(words);
        assert!(command.output().unwrap().status.success(), "{words:?}");
    };
    git(&["init", "--quiet"]);
    for (number, kernel) in ["6.1.", "6.1.", "none", "6.12.", "6.12."].into_iter().enumerate() {
        std::fs::write(tree.join("kernel"), format!("{kernel}\n{number}\n")).unwrap();
        git(&["add", "kernel"]);
        git(&["commit", "--quiet", "-m", &format!("commit {number}")]);
    }
    let kernels = rig.cache.join("kernels");
    let build = format!(
        r#"set -e; from=$(ls -d {0}/$(head -n 1 kernel)*); release=${{from##*/}}; mkdir -p include/config lib/modules; \
           rm -rf lib/modules/*; ln -s $from/modules lib/modules/$release; ln -s $from/vmlinux vmlinux; \
           echo $release > include/config/kernel.release"#,
        kernels.display()
    );
    let bisect = |bad: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.env("FSAGE_AGENT", support::agent()).env("FSAGE_CACHE_DIR", rig.cache);
        command.args(["--json", "bisect"]).arg(scratch.join("study.toml"));
        command.args(["--fail-if", "age.disk_writes > 1.2"]);
        command.arg("--tree").arg(&tree).args(["--good", "HEAD~4", "--bad", bad, "--build", &build]);
        command.arg("--store").arg(&out).arg("--allow-commands");
        let kind = r#"matrix.file_system.kind=["btrfs"]"#;
        for set in ["deterministic=true", "repeats=3", "volume.size=\"512MiB\"", kind] {
            command.args(["--set", set]);
        }
        let Output { status, stdout, stderr } = command.output().unwrap();
        let said = String::from_utf8_lossy(&stderr).into_owned();
        (status.code(), serde_json::from_slice::<serde_json::Value>(&stdout).unwrap_or_default(), said)
    };
    let (code, found, said) = bisect("HEAD");
    assert_eq!(code, Some(0), "{said}");
    let ends_with =
        |value: &serde_json::Value, end: &str| value.as_str().is_some_and(|text| text.ends_with(end));
    assert!(ends_with(&found["first_bad"], "commit 3"), "{found:#}");
    assert!(ends_with(&found["good"], "commit 1"), "{found:#}");
    assert!(ends_with(&found["skipped"][0][0], "commit 2"), "{found:#}");
    assert!(found["change"][0].as_str().is_some_and(|text| text.contains("more by")), "{found:#}");
    assert!(!out.join("tree").exists());
    // Again it knows all trials; one that is as the first is not bad.
    let (code, _, said) = bisect("HEAD~3");
    assert!(code == Some(2) && said.contains("is not bad"), "{said}");
    rig.lab.nothing_left();
}

/// Layers that this kernel may lack: each is made, carries a file system and is taken down again, or its trial fails. Drives that work side by side
/// are faster than one after the other.
#[test]
fn layers_between_drives_and_a_file_system_leave_the_same_tree() {
    let Some(rig) = Rig::new() else { return };
    for program in ["/usr/sbin/dmsetup", "/usr/sbin/mdadm", "/usr/sbin/lvm"] {
        if !Path::new(program).exists() {
            support::skip(format!("stacks need {program}"));
            return;
        }
    }
    let (code, stderr) = rig.run(&[GUEST, EXT4, "volume.drives=4", "volume.size=\"128MiB\"", STACKS]);
    assert_eq!(code, Some(0), "{stderr}");
    let trials = rig.lab.trials();
    assert_eq!(trials.len(), 5);
    let mut digests = std::collections::BTreeSet::new();
    for trial in &trials {
        assert_eq!(trial.status, TrialStatus::Complete, "{:?}: {}", trial.factors, trial.error);
        assert!(trial.check.contains("clean"), "{:?}", trial.factors);
        let StageRecord::Age { result, .. } = &trial.stages[0] else { panic!("the stage ages") };
        digests.insert(result.digest.clone());
        assert!(result.disk.as_ref().is_some_and(|used| used.elapsed_ns > 0), "{:?}", trial.factors);
    }
    assert_eq!(digests.len(), 1);
    rig.lab.nothing_left();
}

/// A cache is a drive of another medium beside the slow one, on the same clock.
#[test]
fn a_fast_drive_takes_what_is_written_first() {
    let Some(rig) = Rig::new() else { return };
    if !Path::new("/usr/sbin/dmsetup").exists() {
        support::skip("stacks need /usr/sbin/dmsetup");
        return;
    }
    let fast = r#"volume.fast={ medium = "ssd", size = "128MiB" }"#;
    let slow = r#"volume.medium="hdd-7200""#;
    let caches = r#"matrix."volume.stack"=[[{ kind = "cache" }], [{ kind = "writecache" }]]"#;
    let (code, stderr) = rig.run(&[GUEST, EXT4, slow, fast, caches]);
    assert_eq!(code, Some(0), "{stderr}");
    let trials = rig.lab.trials();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        assert_eq!(trial.status, TrialStatus::Complete, "{:?}: {}", trial.factors, trial.error);
        let StageRecord::Age { result, .. } = &trial.stages[0] else { panic!("the stage ages") };
        let used = result.disk.as_ref().unwrap();
        // Counters of both media: a head that moves, and flash that is written.
        assert!(used.counter("seek_ns").is_some(), "{:?}", used.counters);
        assert!(
            used.counter("fast_host_write_bytes").is_some_and(|bytes| bytes > 0.0),
            "{:?}",
            used.counters
        );
    }
    rig.lab.nothing_left();
}

/// With room for all that the drives hold, which a load fills before it begins.
const LARGE_GUEST: &str = r#"target={ kind = "guest", kernel = "6.1", memory = "2GiB" }"#;

const CUTS: &str = r#"
name = "cuts"
title = "Power cuts below a stack"
question = "What survives?"
seed = 7
[volume]
medium = "ram"
size = "48MiB"
drives = 3
[file_system]
kind = "ext4"
[[stage]]
kind = "power-cuts"
load = "append"
length = 40
states = 8
check_every = 4
seed = 11
"#;

/// Each layer is put together again on what the drives hold after a cut; a mirror without the drive that was lost with the power.
/// That this finds what a stack loses is shown by `scripts/write-hole`, which takes minutes.
#[test]
fn power_cuts_below_a_stack_lose_nothing() {
    let (Some(cache), lab) = (cache(), lab::Lab::new(CUTS)) else { return };
    for program in ["/usr/sbin/dmsetup", "/usr/sbin/mdadm", "/usr/sbin/lvm"] {
        if !Path::new(program).exists() {
            support::skip(format!("stacks need {program}"));
            return;
        }
    }
    let rig = Rig { cache, lab };
    let (code, stderr) =
        rig.run(&[LARGE_GUEST, r#"volume.stack=[{ kind = "lvm", stripe = "1MiB" }, { kind = "thin" }]"#]);
    assert_eq!(code, Some(0), "{stderr}");
    let mirror = r#"volume.stack=[{ kind = "raid", level = 1 }, { kind = "crypt" }]"#;
    let degraded = Rig { cache, lab: lab::Lab::new(CUTS) };
    let (code, stderr) = degraded.run(&[LARGE_GUEST, mirror, "stage.power-cuts.failed_drive=1"]);
    assert_eq!(code, Some(0), "{stderr}");
    for (rig, stack, failed) in [(&rig, ["lvm", "thin"], None), (&degraded, ["raid 1", "crypt"], Some(1))] {
        let trials = rig.lab.trials();
        assert_eq!(trials[0].status, TrialStatus::Complete, "{}", trials[0].error);
        let StageRecord::PowerCuts(record) = &trials[0].stages[0] else { panic!("the stage cuts") };
        let report = &record.report;
        assert_eq!((report.tried, report.ok), (8, 8), "{:?}", report.failing);
        assert_eq!((&report.stack[..], report.failed_drive), (&stack.map(str::to_owned)[..], failed));
        assert!(report.checked > 0 && report.coverage.flushes > 0, "{report:?}");
    }
    rig.lab.nothing_left();
    degraded.lab.nothing_left();
}

const STACKS: &str = r#"matrix."volume.stack"=[
    [{ kind = "linear" }],
    [{ kind = "striped", chunk = "1MiB" }, { kind = "crypt" }],
    [{ kind = "raid", level = 5 }],
    [{ kind = "lvm", stripe = "1MiB" }, { kind = "thin" }],
    [{ kind = "raid", level = 10 }],
]"#;

/// The processes of guests.
fn machines(mark: &Path) -> Vec<u32> {
    let ours = victim::ours(mark).into_iter();
    ours.filter(|one| one.name.starts_with("qemu")).map(|one| one.pid).collect()
}

/// The process of the guest, as soon as it has a trial.
fn working(rig: &Rig, mark: &Path) -> u32 {
    let log = || {
        let trials = std::fs::read_dir(rig.lab.store().join("trials")).ok()?;
        let path = trials.flatten().next()?.path().join("log.txt");
        std::fs::read_to_string(path).ok()
    };
    let begun = std::time::Instant::now();
    while log().is_none_or(|log| !log.contains("on guest")) {
        assert!(begun.elapsed().as_secs() < 150, "no trial began");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let found = machines(mark);
    assert_eq!(found.len(), 1);
    found[0]
}

#[test]
fn a_guest_that_is_killed_fails_its_trial_and_the_study_resumes() {
    let Some(rig) = Rig::new() else { return };
    let mark = rig.lab.scratch.path().join("runtime");
    let mut run = rig.command(&[GUEST, EXT4]);
    run.env("FSAGE_RUNTIME_DIR", &mark).stdout(Stdio::null()).stderr(Stdio::piped());
    let run = run.spawn().unwrap();
    victim::kill(working(&rig, &mark));
    let Output { status, stderr, .. } = run.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(4), "{stderr}");
    assert!(rig.lab.trials()[0].error.contains("was lost during trial"), "{}", rig.lab.trials()[0].error);
    wait_for("the guest to be gone", || machines(&mark).is_empty());
    let (code, stderr) = rig.run(&[GUEST, EXT4]);
    assert_eq!(code, Some(0), "{stderr}");
    rig.lab.nothing_left();
}

/// A file system that is made by a command that crashes the kernel.
#[test]
fn a_guest_that_panics_fails_its_trial_with_what_its_kernel_said() {
    let Some(rig) = Rig::new() else { return };
    let crash = r#"driver.f2fs.mkfs=["sh", "-c", "echo c >/proc/sysrq-trigger # {device}"]"#;
    let (code, stderr) = rig.run(&[GUEST, crash]);
    assert_eq!(code, Some(4), "{stderr}");
    let trials = rig.lab.trials();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        if trial.factors["file_system.kind"] == "f2fs" {
            assert_eq!(trial.status, TrialStatus::Failed);
            assert!(trial.error.contains("Kernel panic - not syncing: sysrq"), "{}", trial.error);
        } else {
            assert_eq!(trial.status, TrialStatus::Complete, "{}", trial.error);
        }
    }
    rig.lab.nothing_left();
}

/// QEMU is stopped, so that nothing comes from the guest, and nothing says that it ended.
#[test]
fn a_guest_that_hangs_fails_its_trial() {
    let Some(rig) = Rig::new() else { return };
    let mark = rig.lab.scratch.path().join("runtime");
    let mut run = rig.command(&[GUEST, EXT4, "stage.age.stop.operations=2_000_000"]);
    run.env("FSAGE_RUNTIME_DIR", &mark).stdout(Stdio::null()).stderr(Stdio::piped());
    let run = run.spawn().unwrap();
    let machine = working(&rig, &mark);
    assert!(Command::new("kill").args(["-STOP", &machine.to_string()]).status().unwrap().success());
    let Output { status, stderr, .. } = run.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(4), "{stderr}");
    let error = &rig.lab.trials()[0].error;
    assert!(
        error.contains("was lost during trial") && error.contains("nothing was heard for 30 s"),
        "{error}"
    );
    wait_for("the guest to be gone", || machines(&mark).is_empty());
    rig.lab.nothing_left();
}

#[test]
fn what_a_guest_lacks_is_named_before_anything_is_made() {
    let Some(rig) = Rig::new() else { return };
    let tree = rig.lab.scratch.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let tree = format!(r#"target={{ kind = "guest", kernel = "{}" }}"#, tree.display());
    let other = r#"driver.f2fs.mount_type="nosuchfs""#;
    let program = r#"driver.f2fs.mkfs=["mkfs.nowhere", "{device}"]"#;
    let kernel = r#"target={ kind = "guest", kernel = "2.4" }"#;
    let small = r#"target={ kind = "guest", memory = "64MiB" }"#;
    let arm = r#"target={ kind = "guest", kernel = "6.1", architecture = "aarch64" }"#;
    let many = r#"target={ kind = "guest", architecture = "aarch64", cpus = 9 }"#;
    let vax = r#"target={ kind = "guest", kernel = "6.1", architecture = "vax" }"#;
    for (set, code, says) in [
        (vec![kernel], 3, ["no kernel `2.4`", "fsage kernel fetch 2.4"]),
        (
            vec![arm],
            3,
            ["no kernel `6.1` for aarch64 guests", "fsage kernel fetch 6.1 --architecture aarch64"],
        ),
        (vec![vax], 2, ["vax", "aarch64"]),
        (vec![many], 2, ["9 processors", "at most 8"]),
        (vec![GUEST, other], 3, ["no module `nosuchfs`", "fsage kernel list"]),
        (vec![GUEST, program], 3, ["`mkfs.nowhere`", "install"]),
        (vec![tree.as_str()], 2, ["lacks vmlinux", "make vmlinux"]),
        (vec![GUEST, r#"stage.age.stop.seconds=1"#], 2, ["the emulator's", "stop.seconds"]),
        (vec![small], 2, ["64", "at least 256MiB"]),
    ] {
        let (ended, stderr) = rig.run(&set);
        assert_eq!(ended, Some(code), "{stderr}");
        for text in says {
            assert!(stderr.contains(text), "{text}: {stderr}");
        }
        assert!(!rig.lab.store().exists(), "nothing was to be made: {stderr}");
    }
}

#[test]
fn wall_clock_times_of_an_emulated_machine_are_refused() {
    let Some(rig) = Rig::new() else { return };
    let (code, stderr) = rig.run(&[GUEST, EXT4, r#"volume={ kind = "loop", size = "320MiB" }"#]);
    if code == Some(0) {
        // This host's processor runs guests: their times are its own.
        assert!(Path::new("/dev/kvm").exists(), "{stderr}");
        return;
    }
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("the emulator's") && stderr.contains("time = \"model\""), "{stderr}");
    assert!(!rig.lab.store().exists());
}

#[test]
fn kernels_are_listed_and_those_that_are_not_there_are_refused() {
    let Some(cache) = cache() else { return };
    let fsage = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_fsage")).args(words).env("FSAGE_CACHE_DIR", cache).output().unwrap()
    };
    let listed = String::from_utf8(fsage(&["kernel", "list"]).stdout).unwrap();
    assert!(listed.starts_with("6.1.0-"), "{listed}");
    let missing = fsage(&["kernel", "fetch", "2.4"]);
    let stderr = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no kernel 2.4 (it has ") && stderr.contains("6.1.0-"), "{stderr}");
    let own = std::env::consts::ARCH;
    for (words, says) in [
        (vec!["kernel", "fetch", "6.1", "--architecture", "vax"], "known architectures: x86_64, aarch64"),
        (vec!["kernel", "fetch", "6.1", "--package", "fio"], "--architecture"),
        (
            vec!["kernel", "fetch", "6.1", "--architecture", own, "--package", "fio"],
            "install the package here",
        ),
        (vec!["kernel", "list", "--architecture", "aarch64"], "--available"),
        (
            vec!["kernel", "fetch", "--architecture", "aarch64", "--package=-o"],
            "is not the name of a package",
        ),
    ] {
        let refused = fsage(&words);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains(says), "{words:?}: {stderr}");
    }
}

/// A loop file in the guest's memory: what counts are the instructions of the kernel and of the load.
const VIRTUAL: [&str; 3] = [
    r#"target={ kind = "guest", kernel = "6.1", time = "virtual" }"#,
    r#"volume={ kind = "loop", size = "320MiB", direct_io = false }"#,
    EXT4,
];

/// Every sample of every metric, by name.
fn samples(rig: &Rig) -> BTreeMap<String, Vec<f64>> {
    let trials = rig.lab.trials();
    assert_eq!((trials.len(), trials[0].status), (1, TrialStatus::Complete), "{}", trials[0].error);
    trials[0].metrics.iter().map(|metric| (metric.name.clone(), metric.samples.clone())).collect()
}

#[test]
fn durations_in_virtual_time_are_the_same_to_the_nanosecond_on_a_busy_host() {
    let (Some(quiet), Some(busy)) = (Rig::new(), Rig::new()) else { return };
    let (code, stderr) = quiet.run(&VIRTUAL);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains("the clock of"), "{stderr}");
    let stop = AtomicBool::new(false);
    let (code, stderr) = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let ended = busy.run(&VIRTUAL);
        stop.store(true, Ordering::Relaxed);
        ended
    });
    assert_eq!(code, Some(0), "{stderr}");
    let (first, second) = (samples(&quiet), samples(&busy));
    assert!(first.values().flatten().any(|value| value.fract() != 0.0 || *value > 1e6), "something is timed");
    assert_eq!(first, second);
    assert!(
        quiet.lab.trials()[0].started.starts_with("20") && !quiet.lab.trials()[0].started.starts_with("2024")
    );
    quiet.lab.nothing_left();
}

#[test]
fn a_trial_in_virtual_time_can_be_given_up_and_has_one_processor() {
    let Some(rig) = Rig::new() else { return };
    let two = VIRTUAL[0].replace("time =", "cpus = 2, time =");
    let (code, stderr) = rig.run(&[&two, VIRTUAL[1], EXT4]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("one processor"), "{stderr}");
    let mark = rig.lab.scratch.path().join("runtime");
    let mut run = rig.command(&[&VIRTUAL[..], &["stage.age.stop.operations=5_000_000"]].concat());
    let mut run =
        run.env("FSAGE_RUNTIME_DIR", &mark).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let machines = || victim::ours(&mark).iter().filter(|one| one.name.starts_with("qemu")).count();
    wait_for("a guest", || machines() == 1);
    let pid = rustix::process::Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    wait_for("the guest to be gone", || machines() == 0);
    assert!(rig.lab.trials().is_empty());
    rig.lab.nothing_left();
}
