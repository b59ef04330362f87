//! The network block device against its rivals: the same client, fio's nbd engine (libnbd), on a Unix socket.
//!
//! `nbd_bench [ROUNDS] [SECONDS]` (default 5 and 3; `--quick`: 2 and 1) needs fio with that engine, nbdkit
//! and qemu-nbd. In each round every server is started again on 512 MiB of memory (qemu-nbd: a file in
//! /dev/shm), written once in full so that no first touch of memory is measured, and asked the same things;
//! which one comes first changes with the round. Ratios are formed within a round.
//! `nbd_bench serve SOCKET [log]` is what it runs as its own server: the disk with all that requests go
//! through, on a medium that costs no time, with `log` recording them.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsage_bench::spread::spread;
use fsage_disk::disk::{Disk, DiskOptions};
use fsage_disk::export::Gate;
use fsage_disk::export::nbd::Server;
use fsage_disk::media::ram::Ram;
use fsage_model::disk::DiskTime;

const SIZE_BYTES: u64 = 512 << 20;
const SIZE: &str = "512m";

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [task, socket, rest @ ..] = &arguments[..]
        && task == "serve"
    {
        return serve(Path::new(socket), rest.iter().any(|word| word == "log"));
    }
    let quick = arguments.iter().any(|word| word == "--quick");
    let numbers: Vec<u32> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    let rounds = numbers.first().copied().unwrap_or(if quick { 2 } else { 5 });
    let seconds = numbers.get(1).copied().unwrap_or(if quick { 1 } else { 3 });
    let folder = PathBuf::from(format!("/dev/shm/nbd_bench.{}", std::process::id()));
    fs::create_dir(&folder)?;
    let found = measure(&folder, rounds, seconds);
    fs::remove_dir_all(&folder)?;
    print(&found?, rounds, seconds)
}

/// Serves until the standard input ends.
fn serve(socket: &Path, log: bool) -> io::Result<()> {
    let mut disk = Disk::new(&DiskOptions::new(SIZE_BYTES), Box::new(Ram)).map_err(io::Error::other)?;
    if log {
        disk.start_log();
    }
    let gate = Arc::new(Gate::new(disk, DiskTime::Model));
    let server = Server::start(socket, "disk", gate).map_err(io::Error::other)?;
    io::stdin().read_to_end(&mut Vec::new())?;
    drop(server);
    Ok(())
}

/// Who serves.
#[derive(Clone, Copy, PartialEq)]
enum Rival {
    Own,
    OwnWithLog,
    Nbdkit,
    QemuNbd,
}

const RIVALS: [Rival; 4] = [Rival::Own, Rival::OwnWithLog, Rival::Nbdkit, Rival::QemuNbd];

impl Rival {
    const fn name(self) -> &'static str {
        match self {
            Self::Own => "**fsage**",
            Self::OwnWithLog => "**fsage**, recording",
            Self::Nbdkit => "nbdkit memory",
            Self::QemuNbd => "qemu-nbd",
        }
    }

    /// The program in the foreground.
    fn command(self, folder: &Path) -> io::Result<Command> {
        let socket = folder.join("socket");
        let mut command = match self {
            Self::Own | Self::OwnWithLog => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("serve").arg(socket).args((self == Self::OwnWithLog).then_some("log"));
                command
            }
            Self::Nbdkit => {
                let mut command = Command::new("nbdkit");
                command
                    .args(["--foreground", "--exit-with-parent", "--unix"])
                    .arg(socket)
                    .args(["memory", SIZE]);
                command
            }
            Self::QemuNbd => {
                let image = folder.join("image");
                File::create(&image)?.set_len(SIZE_BYTES)?;
                let mut command = Command::new("qemu-nbd");
                command.args([
                    "--persistent",
                    "--shared=8",
                    "--format=raw",
                    "--cache=writeback",
                    "--discard=unmap",
                ]);
                command.arg("--socket").arg(socket).arg(image);
                command
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        Ok(command)
    }
}

/// A server that runs. Ended when dropped.
struct Running {
    child: Child,
    uri: String,
}

impl Running {
    fn start(rival: Rival, folder: &Path) -> io::Result<Self> {
        let socket = folder.join("socket");
        let child = rival.command(folder)?.spawn()?;
        let running = Self { child, uri: format!("nbd+unix:///?socket={}", socket.display()) };
        let started = Instant::now();
        while !socket.exists() {
            if started.elapsed() > Duration::from_secs(20) {
                return Err(io::Error::other(format!("{} does not start", rival.name())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(running)
    }

    fn fio(&self, arguments: &[&str]) -> io::Result<serde_json::Value> {
        let mut command = Command::new("fio");
        command.args(["--name=bench", "--ioengine=nbd", "--size", SIZE, "--output-format=json"]);
        let output = command.arg(format!("--uri={}", self.uri)).args(arguments).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr)));
        }
        // The engine says hello first.
        let begin = output.stdout.iter().position(|byte| *byte == b'{').unwrap_or(0);
        serde_json::from_slice(&output.stdout[begin..]).map_err(io::Error::other)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is asked.
struct Case {
    name: &'static str,
    direction: &'static str,
    arguments: [&'static str; 3],
}

const CASES: [Case; 4] = [
    Case {
        name: "4 KiB random read, depth 32",
        direction: "read",
        arguments: ["--rw=randread", "--bs=4k", "--iodepth=32"],
    },
    Case {
        name: "4 KiB random write, depth 32",
        direction: "write",
        arguments: ["--rw=randwrite", "--bs=4k", "--iodepth=32"],
    },
    Case {
        name: "1 MiB read, depth 8",
        direction: "read",
        arguments: ["--rw=read", "--bs=1m", "--iodepth=8"],
    },
    Case {
        name: "1 MiB write, depth 8",
        direction: "write",
        arguments: ["--rw=write", "--bs=1m", "--iodepth=8"],
    },
];

/// MiB/s of each round, by rival and case.
type Found = [[Vec<f64>; CASES.len()]; RIVALS.len()];

fn measure(folder: &Path, rounds: u32, seconds: u32) -> io::Result<Found> {
    let mut found = Found::default();
    let runtime = format!("--runtime={seconds}");
    for round in 0..rounds {
        for turn in 0..RIVALS.len() {
            let number = (turn + usize::try_from(round).unwrap_or(0)) % RIVALS.len();
            let running = Running::start(RIVALS[number], folder)?;
            running.fio(&["--rw=write", "--bs=1m", "--iodepth=8"])?;
            for (case, rates) in CASES.iter().zip(&mut found[number]) {
                let timed = ["--time_based", "--norandommap", &runtime];
                let report = running.fio(&[&case.arguments[..], &timed].concat())?;
                let bytes = report["jobs"][0][case.direction]["bw_bytes"].as_f64().unwrap_or(0.0);
                rates.push(bytes / f64::from(1 << 20));
            }
            drop(running);
            let _ = fs::remove_file(folder.join("socket"));
        }
    }
    Ok(found)
}

fn print(found: &Found, rounds: u32, seconds: u32) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{SIZE} in memory, {seconds} s each, {rounds} rounds in turns; median (min..max)\n")?;
    writeln!(out, "| request | server | MiB/s | ÷ nbdkit | ÷ qemu-nbd |")?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    for (number, case) in CASES.iter().enumerate() {
        for (rival, rates) in RIVALS.iter().zip(found) {
            let ratio = |other: usize| {
                let pairs = rates[number].iter().zip(&found[other][number]);
                spread(pairs.map(|(own, other)| own / other).collect(), 2)
            };
            let rate = spread(rates[number].clone(), 0);
            writeln!(out, "| {} | {} | {rate} | {} | {} |", case.name, rival.name(), ratio(2), ratio(3))?;
        }
    }
    Ok(())
}
