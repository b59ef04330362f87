//! The executor against a bare loop of the same system calls, and ageing by each write mode.
//!
//! `ageing_bench [ROUNDS] [OPERATIONS] [SECONDS]` (default 7, 250000, 60) needs root and 9 GiB below the
//! temporary directory (`TMPDIR`). First table: fresh 2 GiB ext4 for each run; the rivals take turns, in
//! another order each round, and ratios are formed within a round, so that what else the machine does hits
//! all alike. Second table: fresh 4 GiB ext4 held at 72 %, until 2.0 extents per file and half of the files in
//! more than one. `ageing_bench task …` is what it runs as a child, so that CPU time is the rival's alone.

#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_bench::{mix, volume::Ext4};
use fsage_engine::load::{Control, NoSink, run};
use fsage_model::load::{AgeTarget, LoadResult, LoadSpec, StopReason, StopSpec, WriteMode};
use fsage_model::operation::OperationKind as K;
use fsage_model::quantity::{as_f64, share};
use fsage_model::size::Bytes;
use fsage_model::workload::{DirectorySpec, DriftSpec, SizeSpec, UtilisationSpec, WorkloadSpec};
use fsage_sys::clock;
use serde::{Deserialize, Serialize};

/// Least share of the bare loop's operations per second: with histograms, with trace too.
const LEAST: [f64; 2] = [0.90, 0.85];

/// Most user CPU an operation beyond the bare loop's, µs.
const MOST_USER_US: f64 = 1.5;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [task, kind, directory, operations] = &arguments[..]
        && task == "task"
    {
        return run_task(kind, Path::new(directory), operations.parse().map_err(io::Error::other)?);
    }
    let number = |index: usize, default: u64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let rounds = number(0, 7).map_err(io::Error::other)?;
    let operations = number(1, 250_000).map_err(io::Error::other)?;
    let seconds = number(2, 60).map_err(io::Error::other)?;
    let mut missed = Vec::new();
    if rounds > 0 {
        missed.extend(compare(rounds, operations)?);
    }
    if seconds > 0 {
        missed.extend(age(as_f64(seconds))?);
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other(missed.join("; "))),
    }
}

/// What a run of either rival took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Report {
    operations: u64,
    elapsed_ns: u64,
    cpu_user_ns: u64,
    cpu_sys_ns: u64,
    /// User CPU of the whole process: recorder and trace writer too.
    #[serde(default)]
    process_user_ns: u64,
}

impl Report {
    fn rate(&self) -> f64 {
        as_f64(self.operations) / as_f64(self.elapsed_ns) * 1e9
    }

    fn each_us(&self, total_ns: u64) -> f64 {
        share(total_ns, self.operations) / 1000.0
    }
}

fn run_task(kind: &str, directory: &Path, operations: u64) -> io::Result<()> {
    let spec = mix::load(directory, operations, kind == "trace");
    let before = clock::process_cpu();
    let result = run(&spec, &Control::new(), &mut NoSink).map_err(io::Error::other)?;
    let after = clock::process_cpu();
    if !result.failed.is_empty() {
        return Err(io::Error::other(format!("operations failed: {:?}", result.failed)));
    }
    let report = Report {
        operations: result.operations,
        elapsed_ns: result.elapsed_ns,
        cpu_user_ns: result.cpu_user_ns,
        cpu_sys_ns: result.cpu_sys_ns,
        process_user_ns: after.user_ns - before.user_ns,
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)
}

const RIVALS: [(&str, &str); 3] = [
    ("bare", "bare loop of the same system calls"),
    ("load", "fsage: histograms, self-describing data"),
    ("trace", "fsage: the same and trace"),
];

/// Runs one rival on a fresh volume.
fn measure(rival: &str, operations: u64) -> io::Result<Report> {
    let volume = Ext4::new(&folder(), 2 << 30)?;
    let own = std::env::current_exe()?;
    let mut command = match rival {
        "bare" => Command::new(own.with_file_name("bare_loop")),
        _ => {
            let mut command = Command::new(own);
            command.args(["task", rival]);
            command
        }
    };
    let output = command.arg(volume.directory()).arg(operations.to_string()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{rival}: {}", String::from_utf8_lossy(&output.stderr))));
    }
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("fsage-bench-{}", std::process::id()))
}

fn compare(rounds: u64, operations: u64) -> io::Result<Vec<String>> {
    let mut reports: [Vec<Report>; 3] = Default::default();
    // The first run of all warms the machine up and is not counted.
    measure("bare", operations)?;
    for round in 0..rounds {
        for turn in 0..RIVALS.len() {
            let rival = (turn + usize::try_from(round).unwrap_or(0)) % RIVALS.len();
            let rival = if round % 2 == 0 { rival } else { RIVALS.len() - 1 - rival };
            reports[rival].push(measure(RIVALS[rival].0, operations)?);
        }
    }
    let mut out = io::stdout();
    writeln!(
        out,
        "{operations} operations on a fresh 2 GiB ext4, {rounds} rounds in turns; median (min..max)\n"
    )?;
    writeln!(
        out,
        "| | operations/s | ÷ bare | user µs | user µs − bare | user µs of the whole process − bare | sys µs |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
    let bare = reports[0].clone();
    let mut missed = Vec::new();
    for (place, ((_, title), own)) in RIVALS.iter().zip(&reports).enumerate() {
        let pairs = || own.iter().zip(&bare);
        let ratio = Spread::of(pairs().map(|(own, bare)| own.rate() / bare.rate()));
        let user = |report: &Report| report.each_us(report.cpu_user_ns);
        let more = Spread::of(pairs().map(|(own, bare)| user(own) - user(bare)));
        let process = Spread::of(pairs().map(|(own, bare)| own.each_us(own.process_user_ns) - user(bare)));
        // What remains of the ratio when nothing waits for a CPU or a disk that others keep busy.
        let cpu = Spread::of(pairs().map(|(own, bare)| {
            let all = |report: &Report| report.cpu_sys_ns + report.process_user_ns.max(report.cpu_user_ns);
            share(all(bare), all(own))
        }));
        let rate = Spread::of(own.iter().map(Report::rate));
        writeln!(
            out,
            "| {title} | {rate:.0} | {ratio:.2} | {:.2} | {more:.2} | {} | {:.2} | {cpu:.2} |",
            Spread::of(own.iter().map(user)),
            if place == 0 { "–".to_owned() } else { format!("{process:.2}") },
            Spread::of(own.iter().map(|report| report.each_us(report.cpu_sys_ns))),
        )?;
        if place > 0 && ratio.median < LEAST[place - 1] {
            missed.push(format!("{title}: {:.2} of the bare loop, not {}", ratio.median, LEAST[place - 1]));
        }
        if place == 1 && more.median > MOST_USER_US {
            missed.push(format!("{title}: {:.2} µs more user CPU, not {MOST_USER_US}", more.median));
        }
    }
    writeln!(out)?;
    Ok(missed)
}

/// Median, smallest and largest.
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        Self { median: at(values.len() / 2), least: at(0), most: at(values.len().saturating_sub(1)) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} ({:.digits$}..{:.digits$})", self.median, self.least, self.most)
    }
}

/// A mix that ages fast: files that grow in many small steps, near a fixed fullness. What counts is appends a
/// file: with as many creates as appends fast mode never gets beyond 1.9 extents per file and 42 %.
fn fast_ageing(directory: &Path, mode: WriteMode, seconds: f64) -> LoadSpec {
    let drift = DriftSpec {
        slots: 200_000,
        weights: [(K::Create, 3.0), (K::Append, 12.0), (K::Truncate, 4.0), (K::Delete, 3.0)].into(),
        file_size: SizeSpec::Lognormal { mu: 10.4, sigma: 1.2, min: Bytes(4 << 10), max: Bytes(4 << 20) },
        io_size: SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(64 << 10) },
        directories: DirectorySpec { count: 200, fan_out: 20, depth: 2 },
        utilisation: Some(UtilisationSpec::Hold { target: 0.72 }),
        ..DriftSpec::default()
    };
    let age = AgeTarget { extents_per_file: Some(2.0), fragmented_share: Some(0.5), ..AgeTarget::default() };
    LoadSpec {
        workload: WorkloadSpec::Drift(drift),
        directory: directory.to_owned(),
        threads: 2,
        seed: 1,
        stop: StopSpec { seconds: Some(seconds), age: Some(age), ..StopSpec::default() },
        write_mode: mode,
        probe_every: 50_000,
        probe_share: None,
        probe_layout: true,
        trim: false,
        trace: false,
        deterministic: false,
        pace: None,
        continues: false,
    }
}

fn age(seconds: f64) -> io::Result<Vec<String>> {
    let mut out = io::stdout();
    writeln!(
        out,
        "Fresh 4 GiB ext4 held at 72 %, until 2.0 extents/file and half of the files fragmented (at most {seconds} s)\n"
    )?;
    writeln!(
        out,
        "| write mode | reached | seconds (wall) | operations | device MiB before writing in place | total | extents/file | fragmented | free extents | largest MiB | use |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
    let mut missed = Vec::new();
    for (name, mode) in
        [("buffered", WriteMode::Buffered), ("direct", WriteMode::Direct), ("fast", WriteMode::Fast)]
    {
        let volume = Ext4::new(&folder(), 4 << 30)?;
        let start = clock::raw_ns();
        let mut uses = Uses::default();
        let result = run(&fast_ageing(&volume.directory(), mode, seconds), &Control::new(), &mut uses)
            .map_err(io::Error::other)?;
        writeln!(out, "| {name} | {} |", row(&result, clock::raw_ns() - start, uses.last))?;
        let before = result.device_bytes_before_materialise.unwrap_or(0);
        if mode != WriteMode::Direct && result.stopped_by != StopReason::Age {
            missed.push(format!("{name}: not aged within {seconds} s"));
        }
        if mode == WriteMode::Fast && before >= 1100 << 20 {
            missed.push(format!("fast: {} MiB written before materialising", before >> 20));
        }
    }
    Ok(missed)
}

fn row(result: &LoadResult, wall_ns: u64, used: f64) -> String {
    let mebibytes = |bytes: Option<u64>| bytes.map_or("–".to_owned(), |bytes| (bytes >> 20).to_string());
    let layout = &result.layout;
    let free = result.free_space.as_ref();
    format!(
        "{} | {:.1} ({:.1}) | {} | {} | {} | {:.2} | {:.0} % | {} | {} | {:.1} %",
        if result.stopped_by == StopReason::Age { "yes" } else { "no" },
        as_f64(result.elapsed_ns) / 1e9,
        as_f64(wall_ns) / 1e9,
        result.operations,
        mebibytes(result.device_bytes_before_materialise),
        mebibytes(result.device_bytes_written),
        layout.extents_per_file,
        (1.0 - layout.one_extent_share) * 100.0,
        free.map_or(0, |free| free.extents),
        mebibytes(free.map(|free| free.largest_bytes)),
        used * 100.0,
    )
}

/// Keeps the use that the last probe saw.
#[derive(Default)]
struct Uses {
    last: f64,
}

impl fsage_engine::load::LoadSink for Uses {
    fn tick(&mut self, _: fsage_model::load::Tick) {}
    fn probe(&mut self, probe: fsage_model::load::Probe) {
        self.last = share(probe.used_bytes, probe.total_bytes);
        if std::env::var_os("FSAGE_BENCH_PROBES").is_some() {
            let layout = probe.layout.unwrap_or_default();
            let fragmented = 1.0 - layout.one_extent_share;
            let _ = writeln!(
                io::stderr(),
                "{} operations, {:.1} s: use {:.3}, {} files, {:.2} extents/file, {fragmented:.2} fragmented, device {} MiB",
                probe.operations,
                as_f64(probe.elapsed_ns) / 1e9,
                self.last,
                probe.files,
                layout.extents_per_file,
                probe.device_bytes_written.unwrap_or(0) >> 20,
            );
        }
    }
    fn progress(&mut self, _: u64, _: u64, _: Option<f64>, _: &str) {}
    fn warning(&mut self, _: fsage_model::warning::Warning) {}
    fn trace_chunk(&mut self, _: &[u8]) {}
}
