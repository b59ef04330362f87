//! Studies as tasks of a real Slurm cluster, both of whose nodes are this host.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod dice;
mod lab;
mod slurm_rig;
mod support;
#[path = "storm/victim.rs"]
mod victim;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

use fsage_model::record::{StageRecord, TrialRecord, TrialStatus};
use lab::Lab;
use serde_json::Value;
use slurm_rig::Cluster;

const STUDY: &str = include_str!("data/tiny.toml");
/// Long enough for something to happen in the middle.
const LONG: &str = "stage.age.stop.operations=15_000";
const EXT4: &str = r#"matrix.file_system.kind=["ext4"]"#;
const DISK: &str = r#"volume={kind="disk", medium="ssd", size="320MiB"}"#;

fn rig() -> Option<(Lab, Cluster)> {
    if !support::can_mount() || !support::can_serve_disks() {
        return None;
    }
    Some((Lab::new(STUDY), Cluster::new()?))
}

/// Loop files on the node's own disk.
fn local(lab: &Lab) -> String {
    let folder = lab.scratch.path().join("local");
    std::fs::create_dir_all(&folder).unwrap();
    format!(r#"volume={{kind="loop", size="320MiB", directory="{}"}}"#, folder.display())
}

/// `fsage run --fleet slurm` with these options.
fn submit(lab: &Lab, cluster: &Cluster, set: &[&str], words: &[&str]) -> Output {
    let mut command = cluster.with(lab.command(set));
    command.args(["--fleet", "slurm"]).args(words).output().unwrap()
}

fn submitted(lab: &Lab, cluster: &Cluster, set: &[&str], words: &[&str]) -> Value {
    let output = submit(lab, cluster, set, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `fsage fleet`: what it prints as JSON.
fn fleet(lab: &Lab, cluster: &Cluster, what: &str) -> Value {
    let mut command = cluster.with(Command::new(env!("CARGO_BIN_EXE_fsage")));
    let output = command.args(["fleet", what, "--json"]).arg(lab.store()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The logical trees by file system and repeat.
fn digests(trials: &[TrialRecord]) -> BTreeMap<(String, u32), String> {
    let digest = |trial: &TrialRecord| {
        assert_eq!(trial.status, TrialStatus::Complete, "{}", trial.error);
        let kind = trial.factors["file_system.kind"].as_str().unwrap().to_owned();
        let StageRecord::Age { result, .. } = &trial.stages[0] else { panic!("the stage ages") };
        ((kind, trial.repeat), result.digest.clone())
    };
    trials.iter().map(digest).collect()
}

fn nothing_left(lab: &Lab, cluster: &Cluster) {
    lab.nothing_left();
    cluster.wait("what tasks took", |cluster| {
        let living = victim::ours(&cluster.mark());
        !living.iter().any(|process| process.name.starts_with("fsage"))
    });
}

/// Names of nodes that tasks of the last status were begun on.
fn nodes(status: &Value) -> BTreeSet<String> {
    let tasks = status["tasks"].as_array().unwrap().iter();
    let nodes = tasks.flat_map(|task| task["nodes"].as_array().unwrap());
    nodes.map(|node| node.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_study_runs_unchanged_on_a_cluster_and_leaves_the_same_trees() {
    let Some((lab, cluster)) = rig() else { return };
    let here = Lab::new(STUDY);
    let (code, stderr) = here.run(&["repeats=2"]);
    assert_eq!(code, Some(0), "{stderr}");
    let set = [local(&lab), "repeats=2".to_owned()];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let given = submitted(&lab, &cluster, &set, &[]);
    assert_eq!((&given["tasks"], &given["trials"]), (&2.into(), &6.into()), "{given}");
    // Each task has a node to itself.
    let asked = cluster.slurm(&["scontrol", "show", "job", given["job"].as_str().unwrap()]);
    assert!(String::from_utf8_lossy(&asked.stdout).contains("OverSubscribe=NO"));
    // A second submission would do the same again.
    let output = submit(&lab, &cluster, &set, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("still in Slurm's queue") && stderr.contains("fleet cancel"), "{stderr}");
    cluster.drained();
    let status = fleet(&lab, &cluster, "status");
    assert_eq!((&status["collected"], &status["trials"]), (&0.into(), &6.into()), "{status}");
    assert_eq!(nodes(&status).len(), 2, "{status}");
    assert!(status["tasks"].as_array().unwrap().iter().all(|task| task["state"] == "complete"), "{status}");
    let collected = fleet(&lab, &cluster, "collect");
    assert_eq!((&collected["taken"], &collected["removed"]), (&6.into(), &true.into()), "{collected}");
    assert_eq!(digests(&lab.trials()), digests(&here.trials()));
    // The same files as here.
    for (there, own) in lab.trials().iter().zip(here.trials().iter()) {
        let names = |lab: &Lab, id: &str| {
            let folder = std::fs::read_dir(lab.store().join("trials").join(id)).unwrap();
            folder.map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>()
        };
        assert_eq!(names(&lab, &there.id), names(&here, &own.id));
    }
    assert!(!lab.store().join("fleet").exists(), "what tasks left is gone");
    assert!(lab.report().contains("tiny"));
    let given = submitted(&lab, &cluster, &set, &[]);
    assert_eq!((&given["job"], &given["complete"]), (&Value::Null, &6.into()), "nothing is left to be done");
    nothing_left(&lab, &cluster);
}

#[test]
fn trials_in_model_time_are_tasks_of_their_own_and_killed_ones_go_on_elsewhere() {
    let Some((lab, cluster)) = rig() else { return };
    let here = Lab::new(STUDY);
    let set = [DISK, LONG];
    let (code, stderr) = here.run(&set);
    assert_eq!(code, Some(0), "{stderr}");
    let given = submitted(&lab, &cluster, &set, &["--per-task", "trial"]);
    assert_eq!((&given["tasks"], &given["trials"]), (&3.into(), &3.into()), "{given}");
    let runs = |name: &'static str| {
        move |cluster: &Cluster| victim::ours(&cluster.mark()).iter().any(|process| process.name == name)
    };
    cluster.wait("a disk", runs("fsage-disk"));
    // One is begun again by Slurm, one is killed with all that is its own and fails.
    let job = given["job"].as_str().unwrap();
    assert!(cluster.slurm(&["scontrol", "requeue", &format!("{job}_0")]).status.success());
    let second = |cluster: &Cluster| victim::with(&cluster.mark(), "SLURM_ARRAY_TASK_ID=1");
    cluster.wait("the second task's agent", |cluster| {
        second(cluster).iter().any(|process| process.name == "fsage-agent")
    });
    for process in second(&cluster) {
        if process.name.starts_with("fsage") {
            victim::kill(process.pid);
        }
    }
    cluster.drained();
    let ended = fleet(&lab, &cluster, "status");
    let incomplete =
        |status: &Value| status["tasks"].as_array().unwrap().iter().any(|task| task["state"] == "ended");
    assert!(incomplete(&ended), "{ended}");
    // The same command again gives the rest to the fleet, and takes what is complete.
    let again = submitted(&lab, &cluster, &set, &["--per-task", "trial"]);
    assert!(again["tasks"].as_u64().unwrap() >= 1 && again["tasks"].as_u64() < Some(4), "{again}");
    cluster.drained();
    let collected = fleet(&lab, &cluster, "collect");
    assert_eq!((&collected["complete"], &collected["trials"]), (&3.into(), &3.into()), "{collected}");
    assert_eq!(digests(&lab.trials()), digests(&here.trials()));
    // What the killed ones had is released by what came after them on their node, or by this.
    cluster.clean();
    nothing_left(&lab, &cluster);
    cluster.nothing_mounted();
}

#[test]
fn a_task_that_outlives_its_node_and_its_second_start_end_in_one_good_trial() {
    let Some((lab, mut cluster)) = rig() else { return };
    let local = local(&lab);
    let set = [EXT4, "stage.age.stop.operations=300_000", &local];
    submitted(&lab, &cluster, &set, &[]);
    let agent = |cluster: &Cluster| victim::ours(&cluster.mark()).iter().any(|it| it.name == "fsage-agent");
    cluster.wait("an agent", agent);
    let first = cluster.queue("%N").first().cloned().unwrap();
    let first = slurm_rig::NODES.into_iter().find(|node| *node == first).unwrap();
    cluster.kill(first);
    let down = format!("nodename={first}");
    assert!(cluster.slurm(&["scontrol", "update", &down, "state=down", "reason=test"]).status.success());
    assert!(agent(&cluster), "the first start goes on");
    // Slurm takes the node for dead and begins the task on the other one, while the first goes on.
    cluster.wait("the second start", |cluster| {
        let other = cluster.queue("%T|%N");
        other.iter().any(|task| task.starts_with("RUNNING|") && !task.ends_with(first))
    });
    cluster.drained();
    let status = fleet(&lab, &cluster, "status");
    assert_eq!(nodes(&status).len(), 2, "{status}");
    // Slurm has forgotten the first start, which may still be at it.
    let complete = |node: &str| {
        let trials = std::fs::read_dir(lab.store().join("fleet/1").join(format!("0-{node}")).join("trials"));
        trials.unwrap().flatten().any(|trial| trial.path().join("trial.json").exists())
    };
    cluster.wait("both starts", |_| slurm_rig::NODES.iter().all(|node| complete(node)));
    let collected = fleet(&lab, &cluster, "collect");
    assert_eq!((&collected["complete"], &collected["taken"]), (&1.into(), &1.into()), "{collected}");
    let trials = lab.trials();
    assert_eq!((trials.len(), trials[0].status), (1, TrialStatus::Complete));
    nothing_left(&lab, &cluster);
}

#[test]
fn a_cancelled_fleet_releases_everything_and_can_be_resumed() {
    let Some((lab, cluster)) = rig() else { return };
    let local = local(&lab);
    let long = [EXT4, "repeats=3", "stage.age.stop.operations=5_000_000", &local];
    submitted(&lab, &cluster, &long, &[]);
    cluster.wait("a mount", |cluster| {
        let mark = lab.scratch.left_behind();
        mark.iter().any(|left| left.starts_with("mount")) && !cluster.queue("%T").is_empty()
    });
    assert_eq!(fleet(&lab, &cluster, "cancel")["cancelled"], 3);
    cluster.drained();
    nothing_left(&lab, &cluster);
    let status = fleet(&lab, &cluster, "status");
    assert!(status["tasks"].as_array().unwrap().iter().all(|task| task["state"] == "ended"), "{status}");
    assert_eq!(fleet(&lab, &cluster, "collect")["taken"], 0);
    // The same command again begins what is not complete, here with fewer repeats to do.
    let given = submitted(&lab, &cluster, &long, &[]);
    assert_eq!((&given["tasks"], &given["complete"]), (&3.into(), &0.into()), "{given}");
    fleet(&lab, &cluster, "cancel");
    cluster.drained();
    nothing_left(&lab, &cluster);
}

#[test]
fn what_cannot_be_given_to_a_fleet_is_refused_with_the_next_step() {
    let Some((lab, cluster)) = rig() else { return };
    let refused = |set: &[&str], words: &[&str], code: i32, says: &[&str]| {
        let output = submit(&lab, &cluster, set, words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        for text in says {
            assert!(stderr.contains(text), "{text}: {stderr}");
        }
    };
    let local = local(&lab);
    refused(&[&local], &["--per-task", "trial"], 2, &["loop file", "--per-task repeat"]);
    refused(&[], &[], 2, &["which all nodes share", "volume.directory"]);
    refused(&[&local], &["--sbatch=--array=0-9"], 2, &["--array=0-9", "leave it out"]);
    refused(&[r#"target={kind="ssh", host="board"}"#], &[], 2, &["runs on board", "leave --fleet out"]);
    refused(&[EXT4, &local], &["--partition", "nowhere"], 4, &["sbatch", "partition"]);
    refused(&["volume.medium=\"nothing\""], &[], 2, &["nothing"]);
    // Without a cluster, and without Slurm.
    let mut command = cluster.with(lab.command(&[EXT4, &local]));
    let output = command.args(["--fleet", "slurm"]).env("PATH", "/nowhere").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("apt-get install slurm-client"), "{stderr}");
    // Another folder, and a store that no fleet has.
    for words in [["fleet", "status", "/nonexistent"], ["fleet", "collect", "/nonexistent"]] {
        let output = lab.fsage(&words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("was not submitted to a fleet"), "{stderr}");
    }
    // A task by hand.
    let output = lab.fsage(&["fleet", "task", "/nonexistent"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("SLURM_ARRAY_TASK_ID"), "{stderr}");
    // A dry run says what would be submitted, and makes nothing more than there is.
    let output = submit(&lab, &cluster, &[EXT4, &local], &["--dry-run", "--sbatch=--time=60"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("sbatch --parsable") && text.contains("--time=60"), "{text}");
    assert!(cluster.queue("%T").is_empty());
}
