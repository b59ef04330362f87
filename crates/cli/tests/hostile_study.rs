//! A study file is code: what of it would run as root is shown first, and runs only when told.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;

use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{FSAGE, Run, fsage, root};

const DRIVER: &str = r#"
[driver.mine]
mkfs = ["sh", "-c", "touch {flag}; exit 1", "{device}"]
fsck = ["sh", "-c", "touch {flag}", "{device}"]
mount_command = ["sh", "-c", "touch {flag}", "{device}", "{point}"]
after_mount = [["sh", "-c", "touch {flag}"]]
parameter = { flag = "FLAG" }
"#;

/// The shipped study with a driver of its own, and the file that its commands would make.
struct Study {
    folder: tempfile::TempDir,
    path: String,
    flag: PathBuf,
}

impl Study {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (path, flag) = (folder.path().join("study.toml"), folder.path().join("flag"));
        let shipped = include_str!("../../../studies/digest.toml");
        let driver = DRIVER.replace("FLAG", flag.to_str().unwrap());
        let kinds = "[\"ext4\", \"xfs\", \"btrfs\"]";
        assert!(shipped.contains(kinds));
        std::fs::write(&path, format!("{}\n{driver}", shipped.replace(kinds, "[\"mine\"]"))).unwrap();
        Self { path: path.to_str().unwrap().to_owned(), folder, flag }
    }

    fn run(&self, more: &[&str]) -> Run {
        let store = self.folder.path().join("store");
        let first = ["run", &self.path, "--quick", "--quiet", "--store", store.to_str().unwrap()];
        fsage(&[&first[..], more].concat())
    }
}

#[test]
fn commands_of_a_study_run_only_when_told() {
    if !root() {
        return;
    }
    let study = Study::new();
    let run = study.run(&[]);
    assert!(!study.flag.exists(), "a command of the study ran: {run:?}");
    assert_eq!(run.code, 2, "{run:?}");
    for command in ["sh -c 'touch ", "; exit 1' '{device}'", " '{device}' '{point}'"] {
        assert!(run.stderr.contains(command), "`{command}` is not shown: {run:?}");
    }
    assert!(run.stderr.contains("--allow-commands"), "{run:?}");
    assert!(!study.folder.path().join("store").exists(), "nothing is taken before");
    let dry = study.run(&["--dry-run"]);
    assert!(dry.code == 0 && dry.stdout.contains("only with --allow-commands: sh -c"), "{dry:?}");
    assert!(!study.flag.exists());
    let reported = study.run(&["--allow-commands"]);
    assert!(study.flag.exists(), "{reported:?}");
}

#[test]
fn paths_outside_of_a_studys_folder_need_consent() {
    if !root() {
        return;
    }
    let study = Study::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().join("volumes");
    let shipped = include_str!("../../../studies/digest.toml");
    let volume = "[volume]\n";
    assert!(shipped.contains(volume));
    let text = shipped.replace(volume, &format!("{volume}directory = \"{}\"\n", place.display()));
    std::fs::write(&study.path, text).unwrap();
    let run = study.run(&[]);
    assert!(run.code == 2 && run.stderr.contains(place.to_str().unwrap()), "{run:?}");
    assert!(run.stderr.contains("--allow-commands") && run.stderr.contains("--set"), "{run:?}");
    assert!(!place.exists() && !study.folder.path().join("store").exists(), "nothing is taken before");
    let dry = study.run(&["--dry-run"]);
    assert!(dry.code == 0 && dry.stdout.contains("# a path outside the study's folder"), "{dry:?}");
}

/// fsage quotes the line of a job file that it does not understand, and root may read what others may not.
#[test]
fn the_job_file_of_a_measure_needs_consent_too() {
    let study = Study::new();
    let shipped = include_str!("../../../studies/aging.toml");
    let job = "job = \"many-small-files\"";
    assert!(shipped.contains(job));
    std::fs::write(&study.path, shipped.replace(job, "job = \"/etc/shadow\"")).unwrap();
    let run = study.run(&[]);
    assert!(run.code == 2 && run.stderr.contains("/etc/shadow") && run.stderr.contains("--set"), "{run:?}");
    assert!(!study.folder.path().join("store").exists(), "nothing is taken before");
    // One beside the study is its own.
    let own = Path::new(&study.path).with_file_name("own.fio");
    std::fs::write(&own, "[a]\nrw=randread\nsize=1m\n").unwrap();
    std::fs::write(&study.path, shipped.replace(job, &format!("job = \"{}\"", own.display()))).unwrap();
    let dry = study.run(&["--dry-run"]);
    assert!(dry.code == 0 && !dry.stdout.contains("# a path outside"), "{dry:?}");
}

#[test]
fn a_study_of_ours_and_one_without_commands_need_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.toml");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/aging.toml"), &copy).unwrap();
    for study in ["aging", copy.to_str().unwrap()] {
        let run = fsage(&["run", study, "--quick", "--dry-run"]);
        assert!(run.code == 0 && !run.stdout.contains("--allow-commands"), "{run:?}");
    }
}

/// What lies in a folder called `studies` is listed though nobody named it.
#[test]
fn a_link_among_the_studies_is_not_followed_and_none_takes_a_shipped_name() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "root:hash\n").unwrap();
    std::fs::create_dir(folder.path().join("studies")).unwrap();
    std::os::unix::fs::symlink(&secret, folder.path().join("studies/x.toml")).unwrap();
    std::os::unix::fs::symlink(&secret, folder.path().join("aging")).unwrap();
    let run = |arguments: &[&str]| Run::of(Command::new(FSAGE).args(arguments).current_dir(folder.path()));
    for arguments in [&["study", "list"][..], &["study", "list", "--json"]] {
        let listed = run(arguments);
        assert!(listed.code == 0 && listed.stdout.contains("aging"), "{listed:?}");
        assert!(listed.stdout.contains("cannot read study studies/x.toml"), "{listed:?}");
        assert!(!listed.stdout.contains("hash") && !listed.stderr.contains("hash"), "{listed:?}");
    }
    if root() {
        let dry = run(&["run", "aging", "--quick", "--dry-run"]);
        assert!(dry.code == 0 && !dry.stderr.contains("hash"), "{dry:?}");
    }
}

/// A study of one stage more, which has a volume of its own.
fn with_volume(stage: &str) -> String {
    let queue = "queue = { iosched = { \"../../../../../../kernel/tracing/trace_pipe\" = 0 } }";
    format!(
        r#"
name = "queue"
title = "t"
question = "q"
state = "aged"
volume = {{ medium = "hdd-7200", size = "1GiB"{} }}
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 10
workload = {{ kind = "drift", slots = 50, file_size = {{ kind = "fixed", size = "8KiB" }} }}
[[stage]]
{}
"#,
        if stage.is_empty() { format!(", {queue}") } else { String::new() },
        if stage.is_empty() {
            "kind = \"measure\"\nmeasures = [{ kind = \"grep\" }]".to_owned()
        } else {
            stage.replace("QUEUE", queue)
        }
    )
}

#[test]
fn names_of_queue_settings_are_no_paths_in_any_volume_of_a_study() {
    let folder = tempfile::tempdir().unwrap();
    let volume = "{ medium = \"hdd-7200\", size = \"1GiB\", QUEUE }";
    let stages = [
        String::new(),
        format!("kind = \"copy\"\nvolume = {volume}"),
        format!("kind = \"remedy\"\nmethod = \"copy\"\nvolume = {volume}"),
        format!(
            "kind = \"lockstep\"\nevery = 5\nfollowers = {{ empty = {{ volume = {volume} }} }}\nmeasures = [{{ kind = \"grep\" }}]\nworkload = {{ kind = \"fsfb\", target = 0.6, rounds = 10 }}"
        ),
        format!(
            "kind = \"lockstep\"\nevery = 5\nunaged = {{ volume = {volume} }}\nfollowers = {{ empty = {{ size = \"2GiB\" }} }}\nmeasures = [{{ kind = \"grep\" }}]\nworkload = {{ kind = \"fsfb\", target = 0.6, rounds = 10 }}"
        ),
    ];
    for stage in stages {
        let path = folder.path().join("study.toml");
        std::fs::write(&path, with_volume(&stage)).unwrap();
        for command in [&["study", "check"][..], &["run", "--dry-run"]] {
            let run = fsage(&[command, &[path.to_str().unwrap()]].concat());
            assert_eq!(run.code, 2, "{stage}: {run:?}");
            assert!(run.stderr.contains("no scheduler has a parameter `../../"), "{stage}: {run:?}");
        }
    }
}
