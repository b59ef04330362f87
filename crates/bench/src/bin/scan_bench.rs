//! Layout scan and free-space map against their rivals, warm, on a loop volume made for it.
//!
//! `scan_bench [FILES] [ROUNDS]` (default 200000 and 7) needs root. For ext4 and xfs each it makes a volume
//! with that many files in directories of 200, with holes in the free space, runs all rivals once to warm the
//! caches and then in turns, and prints a table. Ratios are formed within a round, so that what else the
//! machine does hits both sides alike. `scan_bench task …` is what it runs as a child.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fsage_bench::spread::spread;
use fsage_engine::layout::{ScanOptions, free_space, scan};
use fsage_model::quantity::as_f64;
use fsage_sys::{clock, loopdev, mount};
use rustix::fs::{FallocateFlags, fallocate};
use serde::{Deserialize, Serialize};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [task, kind, path, rest @ ..] = &arguments[..]
        && task == "task"
    {
        return run_task(kind, Path::new(path), rest);
    }
    let number = |index: usize, default: usize| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let files = number(0, 200_000).map_err(io::Error::other)?;
    let rounds: usize = number(1, 7).map_err(io::Error::other)?;
    let mut out = io::stdout();
    writeln!(out, "{files} files, warm, {rounds} rounds in turns; median (min..max)\n")?;
    writeln!(out, "| file system | task | wall, ms | wall ÷ bare | CPU ÷ bare | peak MiB |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
    for kind in ["ext4", "xfs"] {
        let volume = Volume::new(kind, files)?;
        for group in groups(&volume.point)? {
            for row in measure(&group, rounds)? {
                writeln!(out, "| {kind} | {row} |")?;
            }
        }
    }
    Ok(())
}

/// What a child reports on its standard output.
#[derive(Serialize, Deserialize)]
struct TaskReport {
    items: u64,
    bytes: u64,
    elapsed_ns: u64,
    peak_resident_bytes: u64,
}

fn run_task(kind: &str, path: &Path, rest: &[String]) -> io::Result<()> {
    let start_ns = clock::raw_ns();
    let (items, bytes) = if kind == "scan" {
        let threads = rest.first().and_then(|text| text.parse().ok()).unwrap_or(0);
        let summary =
            scan(path, &ScanOptions { threads, one_file_system: true }).map_err(io::Error::other)?;
        (summary.extents, summary.mapped_bytes)
    } else {
        let free = free_space(path).map_err(io::Error::other)?;
        (free.extents, free.bytes)
    };
    let elapsed_ns = clock::raw_ns() - start_ns;
    let peak_resident_bytes = clock::process_usage().peak_resident_bytes;
    let report = TaskReport { items, bytes, elapsed_ns, peak_resident_bytes };
    writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)
}

/// Something to measure: the first of a group is what the others are divided by.
struct Rival {
    name: &'static str,
    argv: Vec<String>,
    /// Take the time that the task itself reports, without starting a process.
    inner: bool,
}

fn groups(point: &Path) -> io::Result<[Vec<Rival>; 2]> {
    let own = std::env::current_exe()?;
    let bare = own.with_file_name("scan_bare");
    if !bare.exists() {
        return Err(io::Error::other("scan_bare is missing: cargo build --release -p fsage-bench --bins"));
    }
    let (own, bare, point) = (text(&own), text(&bare), text(point));
    let rival = |name, inner, pinned: bool, argv: &[&str]| {
        let pin: &[&str] = if pinned { &["taskset", "-c", "1"] } else { &[] };
        Rival { name, inner, argv: pin.iter().chain(argv).map(|word| (*word).to_owned()).collect() }
    };
    let pipe = format!("find '{point}' -xdev -type f -print0 | xargs -0 filefrag -v > /dev/null");
    let walks = vec![
        rival("bare walk, 1 core", false, true, &[&bare, "walk", &point]),
        rival("bare walk with fstat, 1 core", false, true, &[&bare, "walk-stat", &point]),
        rival("scan, 1 thread, 1 core", false, true, &[&own, "task", "scan", &point, "1"]),
        rival("scan, 2 threads", false, false, &[&own, "task", "scan", &point, "2"]),
        rival("find, xargs filefrag -v, 1 core", false, true, &["sh", "-c", &pipe]),
        rival("find, xargs filefrag -v", false, false, &["sh", "-c", &pipe]),
    ];
    let maps = vec![
        rival("bare GETFSMAP pass", true, true, &[&bare, "fsmap", &point]),
        rival("free-space map", true, true, &[&own, "task", "free", &point]),
    ];
    Ok([walks, maps])
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[derive(Clone, Copy)]
struct Sample {
    wall_ns: u64,
    cpu_ns: u64,
    peak_bytes: u64,
}

/// A table row for each rival, without the file system.
fn measure(group: &[Rival], rounds: usize) -> io::Result<Vec<String>> {
    for rival in group {
        run(rival)?;
    }
    let mut samples: Vec<Vec<Sample>> = group.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        // Each round starts with another rival, so that none always follows the same one.
        for turn in 0..group.len() {
            let index = (round + turn) % group.len();
            samples[index].push(run(&group[index])?);
        }
    }
    let rows = group.iter().zip(&samples).map(|(rival, own)| {
        let ratio = |value: fn(&Sample) -> u64| {
            let pairs = own.iter().zip(&samples[0]);
            spread(pairs.map(|(own, bare)| as_f64(value(own)) / as_f64(value(bare))).collect(), 2)
        };
        let wall = spread(own.iter().map(|sample| as_f64(sample.wall_ns) / 1e6).collect(), 1);
        let peak = own.iter().map(|sample| sample.peak_bytes).max().unwrap_or(0);
        let peak = if peak == 0 { "–".to_owned() } else { format!("{:.1}", as_f64(peak) / 1_048_576.0) };
        let (walls, cpus) = (ratio(|sample| sample.wall_ns), ratio(|sample| sample.cpu_ns));
        format!("{} | {wall} | {walls} | {cpus} | {peak}", rival.name)
    });
    Ok(rows.collect())
}

fn run(rival: &Rival) -> io::Result<Sample> {
    let cpu_ns = || {
        let cpu = clock::children_usage().cpu;
        cpu.user_ns + cpu.sys_ns
    };
    let (start_ns, start_cpu_ns) = (clock::raw_ns(), cpu_ns());
    let output = Command::new(&rival.argv[0]).args(&rival.argv[1..]).stderr(Stdio::inherit()).output()?;
    let (wall_ns, cpu_ns) = (clock::raw_ns() - start_ns, cpu_ns() - start_cpu_ns);
    if !output.status.success() {
        return Err(io::Error::other(format!("{:?}: {}", rival.argv, output.status)));
    }
    let report: Option<TaskReport> = serde_json::from_slice(&output.stdout).ok();
    let inner_ns = report.as_ref().filter(|_| rival.inner).map(|report| report.elapsed_ns);
    let peak_bytes = report.map_or(0, |report| report.peak_resident_bytes);
    Ok(Sample { wall_ns: inner_ns.unwrap_or(wall_ns), cpu_ns, peak_bytes })
}

/// A mounted file system full of files on a sparse file; gone when dropped.
struct Volume {
    folder: PathBuf,
    device: Option<PathBuf>,
    point: PathBuf,
}

impl Volume {
    fn new(kind: &str, files: usize) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("scan-bench-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let mut volume = Self { point: folder.join("mount"), folder, device: None };
        let file = volume.folder.join("volume");
        // 16 KiB a file is twice what they take on average, and what mkfs.ext4 makes an inode for.
        let size = u64::try_from(files).map_err(io::Error::other)? * 32 * 1024 + (1 << 30);
        File::create(&file)?.set_len(size & !4095)?;
        let options =
            loopdev::AttachOptions { file, offset: 0, size: 0, sector_bytes: 4096, direct_io: true };
        let device = loopdev::attach(&options).map_err(io::Error::other)?;
        let options: &[&str] = match kind {
            "ext4" => &["-F", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"],
            _ => &["-q", "-f", "-K"],
        };
        let made = Command::new(format!("mkfs.{kind}")).args(options).arg(&device).status();
        volume.device = Some(device.clone());
        if !made?.success() {
            return Err(io::Error::other(format!("mkfs.{kind} failed")));
        }
        fs::create_dir(&volume.point)?;
        mount::mount(&device, &volume.point, kind, &["noatime".to_owned()]).map_err(io::Error::other)?;
        volume.fill(files)?;
        Ok(volume)
    }

    /// Makes a quarter more files than asked for and deletes every fifth, which leaves holes. Space is only
    /// allocated: what is measured never inspects the data.
    fn fill(&self, files: usize) -> io::Result<()> {
        let total = files + files / 4;
        let folder = |index: usize| self.point.join(format!("d{:05}", index / 250));
        for index in 0..total {
            let folder = folder(index);
            if index % 250 == 0 {
                fs::create_dir(&folder)?;
            }
            let blocks = u64::try_from(1 + index * 7919 % 4).map_err(io::Error::other)?;
            let file = File::create(folder.join(format!("f{index:08x}")))?;
            fallocate(&file, FallocateFlags::empty(), 0, blocks * 4096)?;
        }
        for index in (0..total).filter(|index| index % 5 == 2) {
            fs::remove_file(folder(index).join(format!("f{index:08x}")))?;
        }
        rustix::fs::syncfs(File::open(&self.point)?)?;
        Ok(())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Best effort: each step is tried whatever became of the one before.
        drop(mount::unmount(&self.point));
        if let Some(device) = &self.device {
            drop(loopdev::detach(device));
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}
