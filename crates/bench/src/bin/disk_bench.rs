//! A virtual disk against a loop device on a file in tmpfs: the same requests by fio, in turns.
//!
//! `disk_bench [ROUNDS] [SIZE_MIB]` (default 7 and 512; `--quick`: 2 rounds) needs root, FUSE, fio and about
//! ten times the size of free memory. All block devices are loop devices with direct I/O, sectors of 4096
//! bytes and requests of at most 1 MiB. The disks are of the medium `ram`; what fio writes is random and new
//! for every request (`refill_buffers`), so that every block is kept as it is. Each rival is written in full
//! beforehand, and the servers have touched memory for what recording adds: first touch of memory is not what
//! is measured. A log is begun before a measurement and dropped after it. Who comes first changes with the
//! round, and ratios are formed within a round.
//!
//! Beside the rate stands the processor time that the server spends on a request, in the kernel too: what
//! else runs on the machine changes it the least. A server that only copies between the requests and one piece of
//! memory, over the same transport, shows what the way to a server in user space costs by itself.
//!
//! `disk_bench serve FOLDER automatic|copy|device SIZE RESERVE` is what it runs as the server: a disk behind a gate,
//! mounted and served as `fsage-disk` does it. It reads `log` and `end` from its standard input and answers
//! each with a line.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fsage_bench::served::{SECTOR_BYTES, attach};
use fsage_bench::spread::spread;
use fsage_disk::disk::{Disk, DiskOptions};
use fsage_disk::export::fuse::{Choice, Heartbeat, Session};
use fsage_disk::export::{Backend, Gate};
use fsage_disk::media::ram::Ram;
use fsage_disk::request::{Data, Transfer};
use fsage_disk::store::StoreOptions;
use fsage_model::disk::DiskTime;
use fsage_sys::{loopdev, mount};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [task, folder, transport, size, reserve] = &arguments[..]
        && task == "serve"
    {
        let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
        return serve(Path::new(folder), transport, number(size)?, number(reserve)?);
    }
    let quick = arguments.iter().any(|word| word == "--quick");
    let numbers: Vec<u64> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    let rounds = numbers.first().copied().unwrap_or(if quick { 2 } else { 7 });
    let size_mib = numbers.get(1).copied().unwrap_or(512);
    let folder = PathBuf::from(format!("/var/tmp/fsage-disk-bench-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let found = measure(&folder, rounds, size_mib);
    fs::remove_dir_all(&folder)?;
    print(&found?, rounds, size_mib)
}

/// Serves a disk until the standard input ends.
fn serve(folder: &Path, transport: &str, size_bytes: u64, reserve_bytes: u64) -> io::Result<()> {
    let store = StoreOptions { reserve_bytes, ..StoreOptions::default() };
    let options = DiskOptions { store, ..DiskOptions::new(size_bytes) };
    let choice = if transport == "device" { Choice::Device } else { Choice::Automatic };
    if transport == "copy" {
        return serve_from(folder, choice, Flat::new(size_bytes), |_, _| true);
    }
    let disk = Disk::new(&options, Box::new(Ram)).map_err(io::Error::other)?;
    serve_from(folder, choice, disk, |disk, line| {
        if line == "log" {
            disk.start_log();
            true
        } else {
            disk.end_log()
        }
    })
}

/// Mounts `backend`, serves it, and answers each line of the standard input by what `command` says.
fn serve_from<B: Backend + 'static>(
    folder: &Path,
    choice: Choice,
    backend: B,
    command: impl Fn(&mut B, &str) -> bool,
) -> io::Result<()> {
    let gate = Arc::new(Gate::new(backend, DiskTime::Model));
    let point = folder.join("mount");
    fs::create_dir(&point)?;
    let session = Session::mount(&point, choice, &folder.join("record")).map_err(io::Error::other)?;
    let session = Arc::new(session);
    let (served, its_gate) = (Arc::clone(&session), Arc::clone(&gate));
    let serving = std::thread::spawn(move || served.serve(&its_gate, &Heartbeat::default()));
    let mut out = io::stdout();
    writeln!(out, "{:?} {}", session.transport(), session.file().display())?;
    for line in io::stdin().lines() {
        let line = line?;
        writeln!(out, "{}", gate.with(|backend| command(backend, &line)))?;
    }
    let abort = session.abort_handle();
    if mount::unmount(&point).is_err() {
        let _ = abort.map(|abort| abort.abort());
        let _ = mount::unmount_lazily(&point);
    }
    serving.join().map_err(|_| io::Error::other("the server died"))?.map_err(io::Error::other)
}

/// Memory in one piece: no map, no clock, no pages, nothing recognised. What it does not reach, no disk behind this transport can.
struct Flat(Vec<u8>);

impl Flat {
    fn new(size_bytes: u64) -> Self {
        Self(vec![1; usize::try_from(size_bytes).unwrap_or(0)])
    }
}

impl Backend for Flat {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn block_bytes(&self) -> u32 {
        SECTOR_BYTES
    }

    fn submit(&mut self, transfers: &mut [Transfer<'_>]) {
        for transfer in transfers {
            let at = usize::try_from(transfer.request.offset_bytes).unwrap_or(usize::MAX);
            match &mut transfer.data {
                Data::In(data) => data.copy_from_slice(&self.0[at..at + data.len()]),
                Data::Out(data) => self.0[at..at + data.len()].copy_from_slice(data),
                Data::None => {}
            }
        }
    }
}

/// Who is asked.
#[derive(Clone, Copy, PartialEq)]
struct Rival {
    name: &'static str,
    /// Nothing: a file in tmpfs.
    transport: Option<&'static str>,
    log: bool,
    /// Without a log, in [`RIVALS`].
    same_without_log: Option<usize>,
}

const RIVALS: [Rival; 6] = [
    Rival { name: "loop on tmpfs", transport: None, log: false, same_without_log: None },
    Rival { name: "**fsage**, io_uring", transport: Some("automatic"), log: false, same_without_log: None },
    Rival { name: "… recording", transport: Some("automatic"), log: true, same_without_log: Some(1) },
    Rival {
        name: "a copy and nothing else, io_uring",
        transport: Some("copy"),
        log: false,
        same_without_log: None,
    },
    Rival { name: "**fsage**, /dev/fuse", transport: Some("device"), log: false, same_without_log: None },
    Rival { name: "… recording", transport: Some("device"), log: true, same_without_log: Some(4) },
];

/// What is asked, and how often the whole disk's size.
struct Case {
    name: &'static str,
    direction: &'static str,
    arguments: [&'static str; 3],
    times: u64,
}

const CASES: [Case; 4] = [
    Case {
        name: "4 KiB random write, depth 32",
        direction: "write",
        arguments: ["--rw=randwrite", "--bs=4k", "--iodepth=32"],
        times: 1,
    },
    Case {
        name: "4 KiB random read, depth 32",
        direction: "read",
        arguments: ["--rw=randread", "--bs=4k", "--iodepth=32"],
        times: 1,
    },
    Case {
        name: "1 MiB write, depth 8",
        direction: "write",
        arguments: ["--rw=write", "--bs=1m", "--iodepth=8"],
        times: 2,
    },
    Case {
        name: "1 MiB read, depth 8",
        direction: "read",
        arguments: ["--rw=read", "--bs=1m", "--iodepth=8"],
        times: 4,
    },
];

/// A block device that is asked; gone when dropped.
struct Device {
    path: PathBuf,
    folder: PathBuf,
    server: Option<(Child, BufReader<ChildStdout>)>,
}

impl Device {
    /// Brings one up and writes it in full.
    fn new(rival: Rival, folder: PathBuf, size_mib: u64) -> io::Result<Self> {
        fs::create_dir(&folder)?;
        let mut device = Self { path: PathBuf::new(), folder, server: None };
        let file = match rival.transport {
            None => device.tmpfs(size_mib)?,
            Some(transport) => {
                // A log holds the most after the case that writes twice the size.
                let reserve_mib = size_mib * if rival.log { 3 } else { 1 } + 16;
                device.start_server(transport, size_mib << 20, reserve_mib << 20)?
            }
        };
        device.path = attach(&file)?;
        device.fio(&["--rw=write", "--bs=1m", "--iodepth=8"], size_mib, 1)?;
        Ok(device)
    }

    fn tmpfs(&self, size_mib: u64) -> io::Result<PathBuf> {
        let size = format!("size={}m,noswap", size_mib + 16);
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&self.folder).status()?;
        if !mounted.success() {
            return Err(io::Error::other("cannot mount a tmpfs"));
        }
        let file = self.folder.join("file");
        File::create(&file)?.set_len(size_mib << 20)?;
        Ok(file)
    }

    fn start_server(&mut self, transport: &str, size: u64, reserve: u64) -> io::Result<PathBuf> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg(&self.folder).arg(transport).args([size, reserve].map(|n| n.to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().map(BufReader::new).ok_or_else(|| io::Error::other("no output"))?;
        self.server = Some((child, out));
        let line = self.hear()?;
        let (got, file) = line.split_once(' ').unwrap_or_default();
        if (got == "Device") != (transport == "device") {
            return Err(io::Error::other("this kernel has no FUSE over io_uring"));
        }
        Ok(PathBuf::from(file))
    }

    fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if let Some((_, out)) = &mut self.server {
            out.read_line(&mut line)?;
        }
        Ok(line.trim_end().to_owned())
    }

    /// Tells the server to begin a log, or to drop it.
    fn log(&mut self, word: &str) -> io::Result<()> {
        if let Some(input) = self.server.as_mut().and_then(|(child, _)| child.stdin.as_mut()) {
            writeln!(input, "{word}")?;
        }
        match self.hear()?.as_str() {
            "true" => Ok(()),
            other => Err(io::Error::other(format!("the server's answer to {word}: {other}"))),
        }
    }

    /// What fio reports.
    fn fio(&self, arguments: &[&str], size_mib: u64, times: u64) -> io::Result<serde_json::Value> {
        let mut command = Command::new("fio");
        command.args(["--name=bench", "--ioengine=io_uring", "--direct=1", "--thread", "--gtod_reduce=1"]);
        command.args(["--refill_buffers", "--norandommap", "--output-format=json"]);
        command.arg("--filename").arg(&self.path).arg(format!("--size={size_mib}m"));
        let output = command.arg(format!("--io_size={}m", size_mib * times)).args(arguments).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr)));
        }
        let begin = output.stdout.iter().position(|byte| *byte == b'{').unwrap_or(0);
        serde_json::from_slice(&output.stdout[begin..]).map_err(io::Error::other)
    }

    fn ask(&mut self, case: &Case, log: bool, size_mib: u64) -> io::Result<Sample> {
        if log {
            self.log("log")?;
        }
        let before = self.server_seconds();
        let report = self.fio(&case.arguments, size_mib, case.times)?;
        let seconds = self.server_seconds() - before;
        if log {
            self.log("end")?;
        }
        let figure = |name: &str| report["jobs"][0][case.direction][name].as_f64().unwrap_or(0.0);
        let rate_mib = figure("bw_bytes") / f64::from(1 << 20);
        Ok(Sample { rate_mib, request_us: seconds * 1e6 / figure("total_ios").max(1.0) })
    }

    /// Processor time of the server's threads so far.
    fn server_seconds(&self) -> f64 {
        let Some((child, _)) = &self.server else { return 0.0 };
        let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
        let times = threads.filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<f64>().ok()
        });
        times.sum::<f64>() / 1e9
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.path.is_absolute() {
            let _ = loopdev::detach(&self.path);
        }
        match self.server.take() {
            Some((mut child, _)) => {
                drop(child.stdin.take());
                let _ = child.wait();
            }
            None => {
                // The loop device lets go of the file a moment after it is detached.
                for _ in 0..100 {
                    if mount::unmount(&self.folder).is_ok() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

/// One measurement.
#[derive(Clone, Copy)]
struct Sample {
    rate_mib: f64,
    request_us: f64,
}

/// Of each round, by rival and case.
type Found = [[Vec<Sample>; CASES.len()]; RIVALS.len()];

fn measure(folder: &Path, rounds: u64, size_mib: u64) -> io::Result<Found> {
    let mut found = Found::default();
    let mut devices = Vec::new();
    for (number, rival) in RIVALS.iter().enumerate() {
        devices.push(Device::new(*rival, folder.join(number.to_string()), size_mib)?);
    }
    // The first round warms up.
    for round in 0..=rounds {
        for (number, case) in CASES.iter().enumerate() {
            for turn in 0..RIVALS.len() {
                let at = (turn + usize::try_from(round).unwrap_or(0)) % RIVALS.len();
                let sample = devices[at].ask(case, RIVALS[at].log, size_mib)?;
                if round > 0 {
                    found[at][number].push(sample);
                }
            }
        }
    }
    Ok(found)
}

fn print(found: &Found, rounds: u64, size_mib: u64) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{size_mib} MiB, {rounds} rounds in turns; median (min..max)\n")?;
    writeln!(
        out,
        "| request | device | MiB/s | ÷ loop on tmpfs | ÷ without recording | server CPU, µs per request | ÷ without recording |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
    for (number, case) in CASES.iter().enumerate() {
        for (rival, found_here) in RIVALS.iter().zip(found) {
            let own = &found_here[number];
            let ratio = |other: Option<usize>, figure: fn(&Sample) -> f64| {
                let pairs = other.map(|other| own.iter().zip(&found[other][number]));
                let ratios = pairs.into_iter().flatten().map(|(own, other)| figure(own) / figure(other));
                spread(ratios.collect(), 2)
            };
            let rate = |sample: &Sample| sample.rate_mib;
            let cost = |sample: &Sample| sample.request_us;
            let tmpfs = rival.transport.map(|_| 0);
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                case.name,
                rival.name,
                spread(own.iter().map(rate).collect(), 0),
                ratio(tmpfs, rate),
                ratio(rival.same_without_log, rate),
                if tmpfs.is_some() { spread(own.iter().map(cost).collect(), 1) } else { "–".to_owned() },
                ratio(rival.same_without_log, cost),
            )?;
        }
    }
    Ok(())
}
