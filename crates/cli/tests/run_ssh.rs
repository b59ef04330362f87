//! Trials on another host, by a real SSH server on the loopback interface.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod dice;
mod lab;
mod ssh_rig;
mod support;
#[path = "storm/victim.rs"]
mod victim;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use fsage_model::record::{StageRecord, TrialRecord, TrialStatus};
use lab::Lab;
use ssh_rig::Server;

const STUDY: &str = include_str!("data/tiny.toml");
/// Long enough to be killed in the middle.
const LONG: &str = "stage.age.stop.operations=15_000";
const EXT4: &str = r#"matrix.file_system.kind=["ext4"]"#;

fn rig() -> Option<(Lab, Server)> {
    if !support::can_mount() {
        return None;
    }
    Some((Lab::new(STUDY), Server::new()?))
}

/// The logical trees by file system.
fn digests(trials: &[TrialRecord]) -> BTreeMap<String, String> {
    let digest = |trial: &TrialRecord| {
        assert_eq!(trial.status, TrialStatus::Complete, "{}", trial.error);
        let kind = trial.factors["file_system.kind"].as_str().unwrap().to_owned();
        let StageRecord::Age { result, .. } = &trial.stages[0] else { panic!("the stage ages") };
        (kind, result.digest.clone())
    };
    trials.iter().map(digest).collect()
}

#[test]
fn a_study_runs_unchanged_there_and_leaves_the_same_trees_and_files() {
    let Some((lab, server)) = rig() else { return };
    let here = Lab::new(STUDY);
    let (code, stderr) = here.run(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stderr) = lab.run(&[&server.target()]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(digests(&lab.trials()), digests(&here.trials()));
    let files = |lab: &Lab, trial: &TrialRecord| {
        let folder = lab.store().join("trials").join(&trial.id);
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    for (there, own) in lab.trials().iter().zip(here.trials().iter()) {
        assert_eq!(files(&lab, there), files(&here, own));
        assert!(!there.id.eq(&own.id), "another host is another trial");
        let log = lab.store().join("trials").join(&there.id).join("log.txt");
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("on root@127.0.0.1") && log.contains("complete"), "{log}");
    }
    lab.nothing_left();
    server.nothing_left();
    // Complete trials are kept.
    let output = lab.command(&[&server.target()]).arg("--json").output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["kept"], &summary["complete"]), (&3.into(), &0.into()), "{summary}");
}

#[test]
fn a_host_that_cannot_be_worked_on_is_named_before_anything_is_made() {
    let Some((lab, server)) = rig() else { return };
    std::fs::write(server.path("nobody"), "").unwrap();
    let elsewhere = server.target().replace(&format!("{}\"", server.places().display()), "/nowhere\"");
    let (before, after) =
        server.target().split_once("port = ").map(|(b, a)| (b.to_owned(), a.to_owned())).unwrap();
    // Port 1 has no server.
    let closed = format!("{before}port = 1,{}", after.split_once(',').unwrap().1);
    for (target, says) in [
        (server.target_with("user", "nobody"), ["Host key verification failed", "compare the key"]),
        (server.target_with("stranger", "known"), ["Permission denied", "`identity`"]),
        (elsewhere, ["mktemp", "`directory`"]),
        (closed, ["Connection refused", "by hand"]),
    ] {
        let (code, stderr) = lab.run(&[&target]);
        assert_eq!(code, Some(3), "{stderr}");
        for text in says {
            assert!(stderr.contains(text), "{text}: {stderr}");
        }
        assert!(!lab.store().exists(), "nothing was to be made: {stderr}");
    }
    server.nothing_left();
}

#[test]
fn a_study_may_not_choose_the_host_that_its_user_logs_in_to() {
    let Some((lab, server)) = rig() else { return };
    let text = format!("{}\n{STUDY}", server.target().replacen("target=", "target = ", 1));
    std::fs::write(lab.scratch.path().join("study.toml"), &text).unwrap();
    let (code, stderr) = lab.run(&[EXT4]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("ssh root@127.0.0.1") && stderr.contains("--allow-commands"), "{stderr}");
    // Nor by a factor, when something else of the target is given: the matrix is the study's last table.
    let text = format!("{text}\n\"target.host\" = [\"127.0.0.1\"]\n");
    std::fs::write(lab.scratch.path().join("study.toml"), text).unwrap();
    let (code, stderr) = lab.run(&["target.sudo=false"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("ssh root@127.0.0.1"), "{stderr}");
    let text = format!("{}\n{STUDY}", server.target().replacen("target=", "target = ", 1));
    std::fs::write(lab.scratch.path().join("study.toml"), text).unwrap();
    let status = lab.command(&[EXT4]).arg("--allow-commands").stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    server.nothing_left();
}

#[test]
fn what_a_failed_trial_said_there_is_said_here() {
    let Some((lab, server)) = rig() else { return };
    // Larger than what is free there.
    let (code, stderr) = lab.run(&[&server.target(), EXT4, "volume.size=\"900TiB\""]);
    assert_ne!(code, Some(0), "{stderr}");
    let trials = lab.trials();
    assert_eq!((trials.len(), trials[0].status), (1, TrialStatus::Failed), "{stderr}");
    // What the trial itself said, not that its connection was lost.
    let said = &trials[0].error;
    assert!(said.contains("cannot get the volume") && !said.contains("lost"), "{said}");
    assert!(stderr.contains("failed after"), "{stderr}");
    server.nothing_left();
    lab.nothing_left();
}

#[test]
fn an_interrupt_here_gives_up_the_trial_there() {
    let Some((lab, server)) = rig() else { return };
    let mut run = lab.command(&[&server.target(), EXT4, "stage.age.stop.operations=5_000_000"]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    support::wait_for("a trial there", || {
        !server.left().is_empty() && {
            let mounted = |line: &String| line.starts_with("mount ");
            server.left().iter().any(mounted)
        }
    });
    let pid = rustix::process::Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(lab.trials().is_empty(), "what was given up is no trial");
    server.nothing_left();
    lab.nothing_left();
}

/// The process that started another one.
fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Runs the study, kills those of `names` there after `after`, and runs it again.
fn killed(lab: &Lab, server: &Server, names: &[&str], after: Duration) {
    // One that lost its connection still releases what it had.
    support::wait_for("the last one to end", || victim::ours(&server.mark()).is_empty());
    let mut run = lab.command(&[&server.target(), EXT4, LONG]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    // Until it works there, and a while longer.
    let works = || victim::ours(&server.mark()).iter().any(|one| one.name == "fsage-agent");
    while !works() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(after);
    let there = victim::ours(&server.mark());
    let mut struck: Vec<u32> =
        there.iter().filter(|one| names.contains(&one.name.as_str())).map(|one| one.pid).collect();
    if names.contains(&"sshd") {
        struck.extend(there.iter().filter(|one| one.name == "fsage").filter_map(|one| parent(one.pid)));
    }
    if names.contains(&"here") {
        struck.push(run.id());
    }
    let alive = run.try_wait().unwrap().is_none();
    assert!(!struck.is_empty() && alive, "{names:?}: nobody was to be killed any more");
    struck.into_iter().for_each(victim::kill);
    run.wait().unwrap();
}

#[test]
fn whatever_is_killed_nothing_is_left_and_the_study_resumes() {
    let Some((lab, server)) = rig() else { return };
    let here = Lab::new(STUDY);
    let (code, stderr) = here.run(&[EXT4, LONG]);
    assert_eq!(code, Some(0), "{stderr}");
    for (number, names) in
        [&["fsage-agent"][..], &["fsage", "fsage-agent"], &["sshd"], &["here"], &["fsage"]].iter().enumerate()
    {
        let after = Duration::from_millis(20 + 40 * u64::try_from(number).unwrap());
        killed(&lab, &server, names, after);
    }
    let (code, stderr) = lab.run(&[&server.target(), EXT4, LONG]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(digests(&lab.trials()), digests(&here.trials()));
    assert!(stderr.contains("of a lost run"), "what was killed was released by others: {stderr}");
    server.nothing_left();
    lab.nothing_left();
}
