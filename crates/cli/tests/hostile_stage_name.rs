//! A study, or the volume it works on, tries to lead the agent out of the volume.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_lab::store::images::Images;
use lab::Lab;
use support::can_mount;

/// One stage of each kind that makes files below its name.
const STUDY: &str = r#"
name = "hostile"
title = "A name that is a path"
question = "Does a name lead out of the volume?"
seed = 3

[volume]
kind = "loop"
size = "64MiB"

[file_system]
kind = "ext4"

[[stage]]
kind = "age"
name = "NAME"
stop.operations = 300
[stage.workload]
kind = "drift"
slots = 60
file_size = { kind = "fixed", size = "16KiB" }
"#;

/// A directory that nobody named: everything below it with its content.
fn everything(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                found.insert(entry.path(), Vec::new());
                waiting.push(entry.path());
            } else {
                found.insert(entry.path(), fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

fn victim(lab: &Lab) -> PathBuf {
    let victim = lab.scratch.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("precious"), b"nobody named this").unwrap();
    victim
}

#[test]
fn a_stage_name_is_no_path() {
    let lab = Lab::new("");
    let victim = victim(&lab);
    let before = everything(&victim);
    let absolute = victim.to_str().unwrap();
    for name in [absolute, "../../victim", "../../../victim", "..", ".", "a/b", "", "Age", "a b", "a\\u0000"]
    {
        let study = STUDY.replace("NAME", name);
        fs::write(lab.scratch.path().join("study.toml"), study).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_fsage"));
        let checked =
            check.args(["study", "check"]).arg(lab.scratch.path().join("study.toml")).output().unwrap();
        let stderr = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{name}: {stderr}");
        for part in ["study.toml:16", "lower-case letters, digits and dashes", "hint: "] {
            assert!(stderr.contains(part), "{name}: no `{part}` in {stderr}");
        }
        if can_mount() {
            assert_eq!(lab.run(&[]).0, Some(2), "{name}");
        }
        assert_eq!(everything(&victim), before, "{name}");
        lab.nothing_left();
    }
}

#[test]
fn a_name_that_the_matrix_or_the_command_line_sets_is_no_path_either() {
    let lab = Lab::new(&STUDY.replace("NAME", "age"));
    let victim = victim(&lab);
    let before = everything(&victim);
    for set in [
        r#"stage.age.name="../../victim""#,
        r#"matrix."stage.age.name"=["../../victim", "x"]"#,
        r#"matrix."stage.0.name"=["../../victim"]"#,
    ] {
        let (code, stderr) = lab.run(&[set]);
        assert_eq!(code, Some(2), "{set}: {stderr}");
        assert_eq!(everything(&victim), before, "{set}");
    }
    lab.nothing_left();
}

/// The directory is the user's own choice; what is in it may be anybody's.
#[test]
fn a_link_in_place_of_a_threads_directory_is_refused() {
    let lab = Lab::new("");
    let (work, victim) = (lab.scratch.path().join("work"), lab.scratch.path().join("victim"));
    fs::create_dir(&work).unwrap();
    fs::create_dir(&victim).unwrap();
    std::os::unix::fs::symlink(&victim, work.join("t01")).unwrap();
    let mut age = Command::new(env!("CARGO_BIN_EXE_fsage"));
    age.arg("age").arg(&work).args(["--threads", "2", "--operations", "100", "--set", "slots=20"]);
    let aged = age.env("FSAGE_AGENT", support::agent()).output().unwrap();
    let stderr = String::from_utf8_lossy(&aged.stderr);
    assert!(everything(&victim).is_empty(), "{stderr}");
    assert_eq!(aged.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("t01 exists and is not a directory") && stderr.contains("symbolic link"),
        "{stderr}"
    );
}

/// A store with an image, as one may be handed by somebody else.
const IMAGE: &str = r#"
name = "planted"
title = "A link in an image"
question = "Is a link in an image followed?"
seed = 3

[volume]
kind = "loop"
size = "64MiB"

[file_system]
kind = "ext4"

[[stage]]
kind = "age"
stop.operations = 300
[stage.workload]
kind = "drift"
slots = 60
file_size = { kind = "fixed", size = "16KiB" }

[[stage]]
kind = "image"

[[stage]]
kind = "measure"
measures = [{ kind = "create", files = 5 }, { kind = "append", file_share = 1.0 }, { kind = "delete", file_share = 1.0 }]
"#;

/// Restores the only image of a store, lets `change` work on its tree and puts it back under its old name,
/// record and all.
fn tamper(lab: &Lab, change: impl FnOnce(&Path)) {
    let images = Images::of(&lab.store());
    let mut record = images.list().remove(0);
    let volume = lab.scratch.path().join("volume");
    let fsage = |arguments: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.arg("image").args(arguments).env("FSAGE_AGENT", support::agent());
        command.env("FSAGE_RUNTIME_DIR", lab.scratch.path().join("run"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let image = images.path(&record.key);
    fsage(&[Path::new("restore"), &image, &volume]);
    let point = lab.scratch.path().join("point");
    fs::create_dir(&point).unwrap();
    let mounted = Command::new("mount").args(["-o", "loop"]).args([&volume, &point]).status().unwrap();
    assert!(mounted.success());
    change(&point);
    assert!(Command::new("umount").arg(&point).status().unwrap().success());
    fs::remove_file(&image).unwrap();
    fsage(&[Path::new("save"), &volume, &image]);
    record.file_bytes = fs::metadata(&image).unwrap().len();
    images.keep(&record).unwrap();
    fs::remove_dir_all(lab.store().join("trials")).unwrap();
}

#[test]
fn a_link_planted_in_an_image_is_refused_and_not_followed() {
    if !can_mount() {
        return;
    }
    for planted in ["age", "age/t00"] {
        let lab = Lab::new(IMAGE);
        let (code, stderr) = lab.run(&[]);
        assert_eq!(code, Some(0), "{stderr}");
        let victim = victim(&lab);
        let before = everything(&victim);
        tamper(&lab, |point| {
            fs::remove_dir_all(point.join(planted)).unwrap();
            std::os::unix::fs::symlink(&victim, point.join(planted)).unwrap();
        });
        let (code, stderr) = lab.run(&[]);
        assert_eq!(everything(&victim), before, "{planted}: {stderr}");
        if planted == "age" {
            assert_eq!(code, Some(4), "{stderr}");
            assert!(stderr.contains("symbolic link"), "{stderr}");
        }
        lab.nothing_left();
    }
}
