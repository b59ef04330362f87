//! Saving and restoring images against their rivals, on aged volumes made for it.
//!
//! `image_bench [GIB] [ROUNDS] [FILE SYSTEM…]` (default 8, 3, ext4 xfs btrfs) needs root, zstd, the file
//! systems' own tools, and four times the volume's size below /var/tmp (`--quick`: 1 GiB, 2 rounds). Each
//! volume is aged by `fsage age` in fast mode at 80 % and written in full. Then all rivals take turns; ratios
//! are formed within a round. `image_bench bare read|write VOLUME RUNS` is what it runs as a child: the used
//! blocks, one request of at most 1 MiB after the other, as `dd` with `direct` would.
//!
//! Memory is the sum of the peaks of a rival's processes, inspected every few milliseconds in /proc.

#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsage_bench::spread::spread;
use fsage_engine::image::used_runs;
use fsage_model::quantity::as_f64;
use fsage_sys::aligned::AlignedBuffer;
use rustix::fs::{Advice, OFlags, fadvise};

/// Bytes of a request of the bare loop.
const REQUEST: usize = 1 << 20;

fn main() -> io::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [bare, way, volume, runs] = &arguments[..]
        && bare == "bare"
    {
        return bare_loop(way == "write", Path::new(volume), Path::new(runs));
    }
    let quick = arguments.iter().any(|word| word == "--quick");
    arguments.retain(|word| word != "--quick");
    let number = |index: usize, default: u64| {
        arguments.get(index).map_or(Ok(default), |text| text.parse()).map_err(io::Error::other)
    };
    let gib = number(0, if quick { 1 } else { 8 })?;
    let rounds = number(1, if quick { 2 } else { 3 })?;
    let chosen = arguments.get(2..).unwrap_or_default();
    for kind in ["ext4", "xfs", "btrfs"] {
        if chosen.is_empty() || chosen.iter().any(|name| name == kind) {
            Bench::new(kind, gib)?.run(rounds)?;
        }
    }
    Ok(())
}

/// Reads or writes the runs that a file names (`first count` a line), in order, past the page cache.
fn bare_loop(write: bool, volume: &Path, runs: &Path) -> io::Result<()> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).write(write).custom_flags(direct).open(volume)?;
    let mut buffer = AlignedBuffer::new(REQUEST);
    buffer.fill(0x55);
    for line in fs::read_to_string(runs)?.lines() {
        let mut words = line.split(' ').map(|word| word.parse::<u64>().map_err(io::Error::other));
        let (Some(first), Some(count)) = (words.next(), words.next()) else { continue };
        let (mut offset, mut left) = (first? * 4096, count? * 4096);
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(REQUEST).min(REQUEST);
            if write {
                file.write_all_at(&buffer[..length], offset)?;
            } else {
                file.read_exact_at(&mut buffer[..length], offset)?;
            }
            offset += length as u64;
            left -= length as u64;
        }
    }
    if write { file.sync_all() } else { Ok(()) }
}

/// One file system's volume and what lies beside it; gone when dropped.
struct Bench {
    kind: &'static str,
    folder: PathBuf,
    used_bytes: u64,
}

/// One run of a rival.
#[derive(Clone)]
struct Sample {
    seconds: f64,
    peak_bytes: u64,
    result_bytes: u64,
}

/// A rival: its name, what a shell runs, what it is measured against, and which file is its result.
struct Rival {
    name: &'static str,
    script: String,
    result: Option<&'static str>,
    reads: bool,
}

impl Bench {
    fn new(kind: &'static str, gib: u64) -> io::Result<Self> {
        let folder = PathBuf::from(format!("/var/tmp/fsage-image-bench-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let bench = Self { kind, folder, used_bytes: 0 };
        fs::create_dir(bench.folder.join("mount"))?;
        bench.shell(&format!("truncate -s {gib}G volume"))?;
        let mkfs = match kind {
            "ext4" => "mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0",
            "xfs" => "mkfs.xfs -q",
            _ => "mkfs.btrfs -q",
        };
        bench.shell(&format!("{mkfs} volume && mount -o loop volume mount && mkdir mount/aged"))?;
        let aged = bench.shell(&format!(
            "{} age mount/aged --quiet --write-mode fast --set utilisation.kind=hold --set utilisation.target=0.8 \
             --until extents_per_file=1.5 --until volume_overwrites=1 --seconds 300 --seed 1; code=$?; umount mount; exit $code",
            bench.program("fsage")
        ));
        aged?;
        Ok(bench)
    }

    fn program(&self, name: &str) -> String {
        let own = std::env::current_exe().unwrap_or_default();
        own.with_file_name(name).display().to_string()
    }

    fn shell(&self, script: &str) -> io::Result<()> {
        let output = Command::new("sh").args(["-c", script]).current_dir(&self.folder).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("{script}: {}", String::from_utf8_lossy(&output.stderr))))
    }

    fn run(&mut self, rounds: u64) -> io::Result<()> {
        let fsage = self.program("fsage");
        self.shell(&format!("{fsage} image save volume image --quiet"))?;
        let runs = used_runs(&self.folder.join("image")).map_err(io::Error::other)?;
        self.used_bytes = runs.iter().map(|(_, count)| count * 4096).sum();
        let lines: Vec<String> = runs.iter().map(|(first, count)| format!("{first} {count}")).collect();
        fs::write(self.folder.join("runs"), lines.join("\n"))?;
        let rivals = self.rivals();
        let mut samples = vec![Vec::new(); rivals.len()];
        for round in 0..=rounds {
            for (rival, own) in rivals.iter().zip(&mut samples) {
                let sample = self.measure(rival)?;
                // The first round warms up.
                if round > 0 {
                    own.push(sample);
                }
            }
        }
        self.print(&rivals, &samples, runs.len())
    }

    fn rivals(&self) -> Vec<Rival> {
        let (fsage, own) = (self.program("fsage"), self.program("image_bench"));
        let rival = |name, script: String, result, reads| Rival { name, script, result, reads };
        let metadata = match self.kind {
            // The raw form: the other has no directories and no journal.
            "ext4" => "rm -f meta; e2image -r volume meta 2>/dev/null && zstd -qf meta -o meta.zst",
            "xfs" => "xfs_metadump -o volume meta && zstd -qf meta -o meta.zst",
            _ => "btrfs-image -c0 -t2 volume meta && zstd -qf meta -o meta.zst",
        };
        let mut rivals = vec![
            rival("reading the used blocks", format!("{own} bare read volume runs"), None, true),
            rival(
                "**fsage image save**",
                format!("{fsage} image save volume image --quiet >/dev/null"),
                Some("image"),
                true,
            ),
            rival("its own metadata tool, zstd", metadata.to_owned(), Some("meta.zst"), true),
            rival(
                "dd, zstd -T0",
                "dd if=volume bs=1M iflag=direct status=none | zstd -qfT0 -o dd.zst".to_owned(),
                Some("dd.zst"),
                true,
            ),
        ];
        if self.kind == "ext4" {
            let script =
                "rm -f raw; e2image -ra volume raw >/dev/null && zstd -qfT0 raw -o raw.zst; rm -f raw";
            rivals.push(rival("e2image -ra, zstd -T0", script.to_owned(), Some("raw.zst"), true));
        }
        let fresh = "rm -f copy; truncate -r volume copy";
        rivals.push(rival(
            "writing the used blocks",
            format!("{fresh}; {own} bare write copy runs"),
            None,
            false,
        ));
        let restore = format!("rm -f copy; {fsage} image restore image copy --quiet >/dev/null");
        rivals.push(rival("**fsage image restore**", restore, None, false));
        rivals
    }

    fn measure(&self, rival: &Rival) -> io::Result<Sample> {
        // What is in the page cache would be read for nothing.
        let volume = File::open(self.folder.join("volume"))?;
        volume.sync_all()?;
        fadvise(&volume, 0, None, Advice::DontNeed).map_err(io::Error::from)?;
        drop(volume);
        let started = Instant::now();
        let mut child = Command::new("sh")
            .args(["-c", &rival.script])
            .current_dir(&self.folder)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()?;
        let mut peaks = std::collections::BTreeMap::new();
        let status = loop {
            peaks_below(child.id(), &mut peaks);
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(3));
        };
        let seconds = started.elapsed().as_secs_f64();
        if !status.success() {
            return Err(io::Error::other(format!("{}: {status}", rival.script)));
        }
        let result = rival.result.map(|name| fs::metadata(self.folder.join(name))).transpose()?;
        Ok(Sample {
            seconds,
            peak_bytes: peaks.values().sum(),
            result_bytes: result.map_or(0, |file| file.len()),
        })
    }

    fn print(&self, rivals: &[Rival], samples: &[Vec<Sample>], runs: usize) -> io::Result<()> {
        let mut out = io::stdout();
        writeln!(
            out,
            "{}: {:.0} MiB in use, in {runs} runs; {} rounds in turns; median (min..max)\n",
            self.kind,
            mib(self.used_bytes),
            samples.first().map_or(0, Vec::len)
        )?;
        writeln!(out, "| {} | seconds | ÷ bare | result, MiB | of what is in use | peak MiB |", self.kind)?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
        for (rival, own) in rivals.iter().zip(samples) {
            let bare =
                rivals.iter().position(|other| other.reads == rival.reads && other.name.ends_with("blocks"));
            let bare = bare.and_then(|index| samples.get(index)).map_or(&[][..], Vec::as_slice);
            let seconds = spread(own.iter().map(|sample| sample.seconds).collect(), 2);
            let ratio = spread(
                own.iter().zip(bare).map(|(one, other)| one.seconds / other.seconds.max(1e-9)).collect(),
                2,
            );
            let size = own.last().map_or(0, |sample| sample.result_bytes);
            let (size, part) = match size {
                0 => ("–".to_owned(), "–".to_owned()),
                size => (
                    format!("{:.1}", mib(size)),
                    format!("{:.2} %", 100.0 * as_f64(size) / as_f64(self.used_bytes)),
                ),
            };
            let peak = own.iter().map(|sample| sample.peak_bytes).max().unwrap_or(0);
            writeln!(out, "| {} | {seconds} | {ratio} | {size} | {part} | {:.0} |", rival.name, mib(peak))?;
        }
        writeln!(out)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.shell("umount mount 2>/dev/null");
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn mib(bytes: u64) -> f64 {
    as_f64(bytes) / 1_048_576.0
}

/// The peak of every process of a tree so far.
fn peaks_below(pid: u32, peaks: &mut std::collections::BTreeMap<u32, u64>) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    if let Some(kib) = kib {
        let own = peaks.entry(pid).or_insert(0);
        *own = (*own).max(kib * 1024);
    }
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
    for thread in threads.flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
            peaks_below(child, peaks);
        }
    }
}
