//! A cluster of a test's own: Slurm with two nodes, both this host.

#![allow(dead_code, reason = "every test uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs::{File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Scratch, agent, free_port, skip};

/// Programs of the cluster, and the packages that have them.
const PROGRAMS: [(&str, &str); 4] = [
    ("/usr/sbin/slurmctld", "slurmctld"),
    ("/usr/sbin/slurmd", "slurmd"),
    ("/usr/sbin/munged", "munge"),
    ("/usr/bin/sbatch", "slurm-client"),
];

pub const NODES: [&str; 2] = ["n1", "n2"];

/// How long tasks may take altogether.
const LONGEST: Duration = Duration::from_secs(180);

/// The cluster; it ends with this value.
pub struct Cluster {
    scratch: Scratch,
    /// The key server, the controller and the nodes, by name.
    daemons: Vec<(&'static str, Child)>,
}

impl Cluster {
    /// `None`, and a word why, where a program is missing.
    pub fn new() -> Option<Self> {
        if let Some((_, package)) = PROGRAMS.iter().find(|(program, _)| !Path::new(program).is_file()) {
            skip(format!("no Slurm: install {package}"));
            return None;
        }
        let scratch = Scratch::new();
        let path = |name: &str| scratch.path().join(name);
        std::fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).unwrap();
        for name in ["state", "runtime"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::set_permissions(path(name), Permissions::from_mode(0o700)).unwrap();
        }
        let mut key = vec![0; 128];
        File::open("/dev/urandom").unwrap().read_exact(&mut key).unwrap();
        std::fs::write(path("key"), key).unwrap();
        std::fs::set_permissions(path("key"), Permissions::from_mode(0o600)).unwrap();
        std::fs::write(path("slurm.conf"), settings(scratch.path())).unwrap();
        // Each node has leases and locks of its own, as if it were another host.
        let prolog = format!(
            "#!/bin/sh\nmkdir -p -m 700 {0}-$SLURMD_NODENAME\necho export FSAGE_RUNTIME_DIR={0}-$SLURMD_NODENAME\n",
            path("runtime").display()
        );
        std::fs::write(path("prolog"), prolog).unwrap();
        std::fs::set_permissions(path("prolog"), Permissions::from_mode(0o755)).unwrap();
        let mut cluster = Self { scratch, daemons: Vec::new() };
        let key_server = ["--force", "--foreground", "--num-threads=2"].map(str::to_owned);
        let places =
            [("key-file", "key"), ("socket", "socket"), ("pid-file", "munged.pid"), ("seed-file", "seed")];
        let places = places.map(|(option, name)| format!("--{option}={}", cluster.path(name).display()));
        cluster.start("munged", "/usr/sbin/munged", &[&key_server[..], &places[..]].concat());
        cluster.wait("the key server", |cluster| cluster.path("socket").exists());
        cluster.start_controller();
        NODES.iter().for_each(|node| cluster.start_node(node));
        cluster.wait("the nodes", |cluster| cluster.idle() == NODES.len());
        Some(cluster)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// What marks processes of its nodes.
    pub fn mark(&self) -> PathBuf {
        self.path("runtime")
    }

    fn start(&mut self, name: &'static str, program: &str, arguments: &[String]) {
        let mut command = self.with(Command::new(program));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        fsage_sys::process::die_with_parent(&mut command);
        self.daemons.push((name, command.spawn().unwrap()));
    }

    pub fn start_controller(&mut self) {
        let file = self.path("slurm.conf").display().to_string();
        self.start("slurmctld", "/usr/sbin/slurmctld", &["-D".to_owned(), "-f".to_owned(), file]);
    }

    pub fn start_node(&mut self, node: &'static str) {
        let file = self.path("slurm.conf").display().to_string();
        let words = ["-D", "-N", node, "-f", &file].map(str::to_owned);
        self.start(node, "/usr/sbin/slurmd", &words);
    }

    /// Kills a daemon alone: what it started goes on.
    pub fn kill(&mut self, name: &str) {
        let at = self.daemons.iter().position(|(daemon, _)| *daemon == name).unwrap();
        let (_, mut child) = self.daemons.remove(at);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A command in the environment of the cluster.
    pub fn with(&self, mut command: Command) -> Command {
        command.env("SLURM_CONF", self.path("slurm.conf")).env("FSAGE_RUNTIME_DIR", self.mark());
        command
    }

    /// One of Slurm's commands.
    pub fn slurm(&self, words: &[&str]) -> Output {
        let mut command = self.with(Command::new(words[0]));
        command.args(&words[1..]).output().unwrap()
    }

    /// Lines that `squeue` prints of tasks, in this format.
    pub fn queue(&self, format: &str) -> Vec<String> {
        let output = self.slurm(&["squeue", "--noheader", "--array", "--format", format]);
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim().to_owned()).collect()
    }

    /// What an administrator of a cluster does: lets nodes that were taken for dead, and tasks that Slurm holds since it could
    /// not start them, go on.
    pub fn tend(&self) {
        for line in self.queue("%i|%r") {
            if let Some((task, reason)) = line.split_once('|')
                && reason.to_lowercase().contains("held")
            {
                // It may have gone on by itself.
                let _ = self.slurm(&["scontrol", "release", task]);
            }
        }
        let output = self.slurm(&["sinfo", "--noheader", "--Node", "--format=%N|%T"]);
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some((node, state)) = line.trim().split_once('|')
                && state.starts_with("down")
            {
                let _ = self.slurm(&["scontrol", "update", &format!("nodename={node}"), "state=resume"]);
            }
        }
    }

    fn idle(&self) -> usize {
        let output = self.slurm(&["sinfo", "--noheader", "--Node", "--format=%T"]);
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.trim() == "idle").count()
    }

    /// Waits until no task is in the queue.
    pub fn drained(&self) {
        self.wait("the tasks", |cluster| {
            cluster.tend();
            let output = cluster.slurm(&["squeue", "--noheader"]);
            output.status.success() && output.stdout.is_empty()
        });
    }

    pub fn wait(&self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + LONGEST;
        while !condition(self) {
            assert!(Instant::now() < deadline, "{what}: not in time; {}", self.words());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// `fsage clean` on each node, for what killed tasks left there and no later one released.
    pub fn clean(&self) {
        for node in NODES {
            let mut clean = Command::new(env!("CARGO_BIN_EXE_fsage"));
            let place = self.path(&format!("runtime-{node}"));
            clean.arg("clean").env("FSAGE_RUNTIME_DIR", place).env("FSAGE_AGENT", agent());
            let output = clean.output().unwrap();
            assert!(output.status.success(), "{node}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    /// No mount or loop device of a task is left in the cluster's folder.
    pub fn nothing_mounted(&self) {
        assert_eq!(self.scratch.left_behind(), [] as [String; 0]);
    }

    /// The end of what the daemons logged.
    fn words(&self) -> String {
        let queue = self.queue("%i|%T|%N|%r");
        let log = |name: &str| {
            let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(20).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        };
        let logs = ["slurmctld.log", "slurmd-n1.log", "slurmd-n2.log"].map(log).join("\n");
        format!("{queue:?}\n{logs}")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.slurm(&["scancel", "--user=root"]);
        for (_, child) in &mut self.daemons {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        // Daemons, their steps and tasks have the folder in their environment.
        crate::victim::sweep(&self.mark());
    }
}

/// The cluster's settings. Nodes are down 5 s after their daemon, and requeued tasks begin 5 s later.
fn settings(place: &Path) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap().to_owned();
    let at = place.display();
    let (controller, first, second) = (free_port(), free_port(), free_port());
    format!(
        "ClusterName=fsage\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={at}/socket,cred_expire=5\nCredType=cred/munge\n\
         StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool-%n\n\
         SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd-%n.pid\n\
         SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd-%n.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nReturnToService=2\nSlurmdTimeout=5\nKillWait=20\nTaskProlog={at}/prolog\n\
         NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=2 RealMemory=1000\n\
         NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=2 RealMemory=1000\n\
         PartitionName=test Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP\n"
    )
}
