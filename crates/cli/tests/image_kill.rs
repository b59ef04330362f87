//! `kill -9` of saves and restores at random moments: no file looks complete that is not, and `fsage clean`
//! leaves nothing.

#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

mod cli_support;
mod dice;
mod image_rig;
#[path = "storm/victim.rs"]
mod victim;

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cli_support::root;
use dice::Dice;
use fsage_engine::host::{block, signature};
use image_rig::{Disk, Rig};

const KILLS: u64 = 20;
/// A busy machine is late with kills: as many are tried until enough came before the end.
const TRIES: u64 = 100;
const SEED: u64 = 3;

/// Kills the program, its agent, or both, `after` so long. Whether it was still there.
fn kill(mut child: Child, after: Duration, who: u64) -> bool {
    std::thread::sleep(after);
    let agent = victim::agent_of(child.id());
    if who != 1 {
        victim::kill(child.id());
    }
    if who != 0
        && let Some(agent) = agent
    {
        victim::kill(agent);
    }
    let status = child.wait().unwrap();
    // It dies with its parent, but in its own time.
    while agent.is_some_and(|agent| Path::new(&format!("/proc/{agent}/exe")).exists()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    !status.success()
}

fn spawn(rig: &Rig, arguments: &[&str]) -> Child {
    rig.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn clean(rig: &Rig) {
    let run = rig.fsage(&["clean"]);
    assert_eq!(run.code, 0, "{run:?}");
    rig.assert_nothing_left();
}

fn volume() -> Rig {
    let rig = Rig::new();
    rig.make("volume", "200M", &["mkfs.ext4", "-q", "-b", "4096"]);
    rig.age("volume", "1500");
    rig
}

/// Up to a bit more than a whole run takes.
fn moment(dice: &mut Dice, whole: Duration) -> Duration {
    whole * u32::try_from(dice.below(110)).unwrap() / 100
}

#[test]
fn no_killed_save_leaves_what_looks_like_an_image() {
    if !root() {
        return;
    }
    let rig = volume();
    let arguments = ["image", "save", &rig.text("volume"), &rig.text("image")];
    let started = Instant::now();
    let digest = rig.save("volume", "image")["digest"].clone();
    let whole = started.elapsed();
    let mut dice = Dice(SEED);
    let mut killed = 0;
    for n in 0..TRIES {
        if killed == KILLS {
            break;
        }
        let _ = std::fs::remove_file(rig.path("image"));
        killed += u64::from(kill(spawn(&rig, &arguments), moment(&mut dice, whole), n % 3));
        if rig.path("image").exists() {
            let complete = rig.fsage(&["image", "verify", &rig.text("image"), "--json"]).result();
            assert_eq!(complete["digest"], digest, "kill {n} of seed {SEED}");
        }
        clean(&rig);
    }
    assert_eq!(killed, KILLS, "of {TRIES} kills only so many came before the end");
    assert_eq!(rig.save("volume", "image")["digest"], digest);
}

#[test]
fn no_killed_restore_leaves_what_looks_like_a_file_system() {
    if !root() {
        return;
    }
    let rig = volume();
    rig.save("volume", "image");
    let started = Instant::now();
    rig.restore("image", "whole");
    let took = started.elapsed();
    let whole = std::fs::read(rig.path("whole")).unwrap();
    let mut dice = Dice(SEED);
    let mut killed = 0;
    let target = rig.text("target");
    for n in 0..TRIES {
        if killed == KILLS {
            break;
        }
        // One in two on a file system that is there already.
        let image = rig.text("image");
        let mut words = vec!["image", "restore", &image, &target];
        if n.is_multiple_of(2) {
            std::fs::copy(rig.path("volume"), &target).unwrap();
            words.extend(["--erase", &target]);
        } else {
            let _ = std::fs::remove_file(&target);
        }
        killed += u64::from(kill(spawn(&rig, &words), moment(&mut dice, took), n % 3));
        check(&rig, Path::new(&target), &whole, n);
        clean(&rig);
        check(&rig, Path::new(&target), &whole, n);
    }
    assert_eq!(killed, KILLS, "of {TRIES} kills only so many came before the end");
}

/// A loop device stands in for a real one.
#[test]
fn a_killed_restore_leaves_a_device_that_the_next_one_may_have() {
    if !root() {
        return;
    }
    let rig = Rig::new();
    rig.make("volume", "200M", &["mkfs.ext4", "-q", "-b", "4096", "-L", "fsage"]);
    rig.age("volume", "1500");
    let digest = rig.save("volume", "image")["digest"].clone();
    let disk = Disk::new(200);
    let link = disk.link.to_str().unwrap();
    // By its path alone: no serial number that would excuse what is on it.
    let image = rig.text("image");
    let arguments = ["image", "restore", &image, link, "--erase", link, "--json"];
    let started = Instant::now();
    rig.fsage(&arguments).result();
    let took = started.elapsed();
    let mut dice = Dice(SEED);
    let (mut killed, mut unfinished) = (0, 0);
    for n in 0..TRIES {
        if killed == KILLS {
            break;
        }
        killed += u64::from(kill(spawn(&rig, &arguments), moment(&mut dice, took), n % 3));
        clean(&rig);
        let facts = block::facts(&disk.device).unwrap();
        unfinished += u64::from(facts.signature == signature::UNFINISHED);
        let ours =
            facts.signature == signature::UNFINISHED || (facts.signature == "ext4" && facts.label == "fsage");
        assert!(ours, "kill {n} of seed {SEED} left {facts:?}");
    }
    assert_eq!(killed, KILLS, "of {TRIES} kills only so many came before the end");
    assert!(unfinished > 0, "no kill came between the first write and the last");
    rig.fsage(&arguments).result();
    let again = rig.fsage(&["image", "save", link, &rig.text("again"), "--json"]).result();
    assert_eq!(again["digest"], digest);
}

/// Untouched, unfinished, or whole.
fn check(rig: &Rig, target: &Path, whole: &[u8], n: u64) {
    let Ok(bytes) = std::fs::read(target) else { return };
    // Just made, or with the mark in its first block until everything else is there.
    let headless = bytes.iter().all(|byte| *byte == 0) || bytes.starts_with(&signature::unfinished_mark());
    let untouched = n.is_multiple_of(2) && bytes == std::fs::read(rig.path("volume")).unwrap();
    // Blocks that the image does not have keep what the target had, where it could not be discarded.
    let complete = bytes == whole;
    assert!(headless || untouched || complete, "kill {n} of seed {SEED} left something else");
}
