//! What is read may be anything: a pipe that nobody writes, a device without end, a link out of a store, a
//! plan that names other folders.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod sample;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cli_support::{FSAGE, Run};

/// Longest that a refusal may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs fsage within 4 GiB of addresses and [`PATIENCE`]. What takes longer or more has no end.
fn fsage(arguments: &[&str]) -> Run {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 4194304; exec \"$@\"", "sh", FSAGE]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{arguments:?} did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn fifo(path: &Path) -> String {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    path.to_str().unwrap().to_owned()
}

fn assert_refused(arguments: &[&str], what: &str) {
    let run = fsage(arguments);
    assert!(run.code != 0 && run.code != -1 && run.stderr.contains(what), "{arguments:?}: {run:?}");
    assert!(run.stderr.contains("name an ordinary file"), "no hint: {run:?}");
}

#[test]
fn a_pipe_is_not_waited_for_and_a_device_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = fifo(&folder.path().join("pipe"));
    let directory = folder.path().to_str().unwrap();
    for (file, what) in [(pipe.as_str(), "it is a pipe"), ("/dev/zero", "it is a device")] {
        for arguments in [
            &["run", file, "--dry-run"][..],
            &["image", "info", file],
            &["image", "verify", file],
            &["trace", "info", file],
            &["measure", "fio", directory, "--set", &format!("job=\"{file}\"")],
        ] {
            assert_refused(arguments, what);
        }
    }
    let workload = fifo(&folder.path().join("workload.toml"));
    assert_refused(&["age", directory, "--workload", &workload, "--operations", "1"], "it is a pipe");
}

#[test]
fn a_profile_is_a_small_ordinary_file() {
    let folder = tempfile::tempdir().unwrap();
    let study = folder.path().join("study.toml");
    let shipped = include_str!("../../../studies/like.toml");
    let profile = "profiles/debian-usr.toml";
    assert!(shipped.contains(profile));
    let pipe = fifo(&folder.path().join("pipe"));
    for file in [pipe.as_str(), "/dev/zero"] {
        std::fs::write(&study, shipped.replace(profile, file)).unwrap();
        assert_refused(
            &["run", study.to_str().unwrap(), "--dry-run", "--allow-commands"],
            "cannot read profile",
        );
    }
    let large = folder.path().join("large");
    std::fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    std::fs::write(&study, shipped.replace(profile, large.to_str().unwrap())).unwrap();
    let run = fsage(&["run", study.to_str().unwrap(), "--dry-run"]);
    assert!(run.code == 2 && run.stderr.contains("larger than"), "{run:?}");
}

#[test]
fn a_study_has_a_bounded_number_of_trials() {
    let seeds: Vec<String> = (0..200).map(|seed| seed.to_string()).collect();
    let matrix = format!("matrix.seed=[{}]", seeds.join(","));
    let run = fsage(&["run", "aging", "--dry-run", "--set", &matrix, "--set", "repeats=10000"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("at most 1,000,000"), "{run:?}");
}

/// A store with trials, and the folder that it is in.
fn store() -> (tempfile::TempDir, PathBuf, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let trials = sample::trials(sample::Size::QUICK);
    let store = folder.path().join("store");
    sample::write_store(&store, &trials);
    let ids = trials.into_iter().map(|trial| trial.id).collect();
    (folder, store, ids)
}

/// A store with a plan, and the folder that it is in.
fn kept_store() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("stores.tar");
    std::fs::write(&archive, zstd::decode_all(&include_bytes!("data/stores/format-3.tar.zst")[..]).unwrap())
        .unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--no-same-owner", "--directory"]).arg(folder.path()).arg("--file").arg(archive);
    assert!(tar.status().unwrap().success());
    let store = folder.path().join("kept");
    (folder, store)
}

/// Renders the report and says what its notes are.
fn report(store: &Path) -> String {
    let page = store.with_file_name("page.html");
    let run = fsage(&["report", store.to_str().unwrap(), "-o", page.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run:?}");
    std::fs::read_to_string(page).unwrap()
}

#[test]
fn records_that_are_links_pipes_or_devices_are_damaged_and_not_read() {
    let (folder, store, ids) = store();
    let record = |index: usize| store.join("trials").join(&ids[index]).join("trial.json");
    for index in 0..3 {
        std::fs::rename(record(index), folder.path().join(format!("{index}.json"))).unwrap();
    }
    symlink("/dev/zero", record(0)).unwrap();
    fifo(&record(1));
    symlink(folder.path().join("2.json"), record(2)).unwrap();
    // A whole folder elsewhere, with a good record.
    let (own, elsewhere) = (store.join("trials").join(&ids[3]), folder.path().join("elsewhere"));
    std::fs::rename(&own, &elsewhere).unwrap();
    symlink(&elsewhere, &own).unwrap();
    let page = report(&store);
    assert_eq!(page.matches("its record was left out: it is a symbolic link").count(), 3);
    assert_eq!(page.matches("its record was left out: it is a pipe").count(), 1);
}

#[test]
fn a_request_log_of_a_store_that_is_a_link_is_not_read() {
    let (folder, store) = kept_store();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "root:$y$hash:20000::::::\n").unwrap();
    let plan = std::fs::read_to_string(store.join("plan.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&plan).unwrap();
    for trial in value["trials"].as_array().unwrap() {
        let own = store.join("trials").join(trial["id"].as_str().unwrap());
        symlink(&secret, own.join("requests.log")).unwrap();
    }
    let named = ["price", store.to_str().unwrap(), "--medium", "hdd-10k", "--recorded-on", "hdd-7200"];
    let run = fsage(&named);
    assert_ne!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("symbolic link"), "{run:?}");
    assert!(!format!("{run:?}").contains("$y$"), "{run:?}");
}

#[test]
fn a_plan_cannot_name_what_is_outside_its_store() {
    let (folder, store) = kept_store();
    let plan = std::fs::read_to_string(store.join("plan.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let known = value["trials"][0]["id"].as_str().unwrap();
    std::fs::rename(store.join("trials").join(known), folder.path().join("outside")).unwrap();
    for id in ["../../outside", "/etc", "", ".", "ABCDEF0123456789", "0123456789abcdef0"] {
        std::fs::write(store.join("plan.json"), plan.replace(known, id)).unwrap();
        let text = store.to_str().unwrap();
        let run = fsage(&["compare", text, text]);
        assert_eq!(run.code, 5, "{id}: {run:?}");
        assert!(run.stderr.contains(&format!("`{id}` is not a trial id")), "{run:?}");
    }
    std::fs::remove_file(store.join("plan.json")).unwrap();
    symlink("/dev/zero", store.join("plan.json")).unwrap();
    let run = fsage(&["compare", store.to_str().unwrap(), store.to_str().unwrap()]);
    assert!(run.code > 0 && run.stderr.contains("symbolic link"), "{run:?}");
}

#[test]
fn a_disk_that_is_not_there_is_no_file_of_another_user() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spare");
    std::fs::write(&file, "secret of nobody\n").unwrap();
    let shown = |log: &str| {
        let output = Command::new(FSAGE)
            .args(["disk", "log", "show", log])
            .current_dir(folder.path())
            .env("FSAGE_RUNTIME_DIR", folder.path())
            .output();
        let output = output.unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(!shown("spare").contains("there is no disk"), "one's own file");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
    for _ in 0..2 {
        let refused = shown("spare");
        assert!(refused.contains("there is no disk spare") && refused.contains("./spare"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
        // A link of another user's is as little meant.
        std::fs::remove_file(&file).unwrap();
        symlink("/etc/hostname", &file).unwrap();
    }
    assert!(!shown("./spare").contains("there is no disk"), "what has a slash is named");
}
