//! Replay of a trace against a bare loop of the same system calls.
//!
//! `replay_bench [ROUNDS] [OPERATIONS]` (default 7, 250000) needs root and 5 GiB below the temporary
//! directory (`TMPDIR`). Fresh 2 GiB ext4 for each run; the trace lies on the file system of the temporary
//! directory and is dropped from the page cache before each run. The rivals take turns, in another order each
//! round, and ratios are formed within a round, so that what else the machine does hits all alike.
//! `replay_bench task …` is what it runs as a child.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_bench::{mix, spread::spread, volume::Ext4};
use fsage_engine::load::{self, Control, LoadSink, NoSink};
use fsage_engine::replay::run_with;
use fsage_model::load::{Probe, Tick};
use fsage_model::quantity::{as_f64, share};
use fsage_model::replay::ReplayOptions;
use fsage_model::warning::Warning;
use serde::{Deserialize, Serialize};

/// Least share of the bare loop's operations per second.
const LEAST: f64 = 0.90;

const RIVALS: [(&str, &str); 3] = [
    ("bare", "bare loop of the same system calls"),
    ("replay", "replay, trace on disk, cold"),
    ("state", "the same, recording its progress (as `fsage replay` does)"),
];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [task, kind, trace, directory] = &arguments[..]
        && task == "task"
    {
        return run_task(kind, Path::new(trace), Path::new(directory));
    }
    let number = |index: usize, default: u64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let rounds = number(0, 7).map_err(io::Error::other)?;
    let operations = number(1, 250_000).map_err(io::Error::other)?;
    // For its user alone: nobody can put a link in the place of the trace.
    let own = tempfile::Builder::new().prefix("fsage-replay-bench-").tempdir()?;
    let trace = own.path().join("trace.parquet");
    record(&trace, operations)?;
    compare(&trace, rounds, operations)
}

/// What a run of either rival took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Report {
    operations: u64,
    elapsed_ns: u64,
    cpu_user_ns: u64,
    cpu_sys_ns: u64,
}

impl Report {
    fn rate(&self) -> f64 {
        as_f64(self.operations) / as_f64(self.elapsed_ns) * 1e9
    }

    fn each_us(&self, total_ns: u64) -> f64 {
        share(total_ns, self.operations) / 1000.0
    }
}

/// Keeps the trace of a load.
struct Kept(File, io::Result<()>);

impl LoadSink for Kept {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, _: Probe) {}
    fn progress(&mut self, _: u64, _: u64, _: Option<f64>, _: &str) {}
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, chunk: &[u8]) {
        if self.1.is_ok() {
            self.1 = self.0.write_all(chunk);
        }
    }
}

fn record(trace: &Path, operations: u64) -> io::Result<()> {
    let volume = Ext4::new(&folder(), 2 << 30)?;
    let mut kept = Kept(File::create(trace)?, Ok(()));
    load::run(&mix::load(&volume.directory(), operations, true), &Control::new(), &mut kept)
        .map_err(io::Error::other)?;
    kept.1?;
    kept.0.sync_all()
}

fn run_task(kind: &str, trace: &Path, directory: &Path) -> io::Result<()> {
    let state = (kind == "state").then(|| directory.join(".fsage-replay"));
    let options = ReplayOptions { state, ..ReplayOptions::default() };
    let result =
        run_with(trace, directory, &options, &Control::new(), &mut NoSink).map_err(io::Error::other)?;
    if !result.load.failed.is_empty() {
        return Err(io::Error::other(format!("operations failed: {:?}", result.load.failed)));
    }
    let report = Report {
        operations: result.load.operations,
        elapsed_ns: result.load.elapsed_ns,
        cpu_user_ns: result.load.cpu_user_ns,
        cpu_sys_ns: result.load.cpu_sys_ns,
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("fsage-bench-{}", std::process::id()))
}

/// Runs one rival on a fresh volume.
fn measure(rival: &str, trace: &Path, operations: u64) -> io::Result<Report> {
    let volume = Ext4::new(&folder(), 2 << 30)?;
    rustix::fs::fadvise(File::open(trace)?, 0, None, rustix::fs::Advice::DontNeed)?;
    let own = std::env::current_exe()?;
    let mut command = if rival == "bare" {
        let mut command = Command::new(own.with_file_name("bare_loop"));
        command.arg(volume.directory()).arg(operations.to_string());
        command
    } else {
        let mut command = Command::new(own);
        command.args(["task", rival]).arg(trace).arg(volume.directory());
        command
    };
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{rival}: {}", String::from_utf8_lossy(&output.stderr))));
    }
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

fn compare(trace: &Path, rounds: u64, operations: u64) -> io::Result<()> {
    let mut reports: [Vec<Report>; 3] = Default::default();
    // The first run of all warms the machine up and is not counted.
    measure("bare", trace, operations)?;
    for round in 0..rounds {
        for turn in 0..RIVALS.len() {
            let rival = (turn + usize::try_from(round).unwrap_or(0)) % RIVALS.len();
            let rival = if round % 2 == 0 { rival } else { RIVALS.len() - 1 - rival };
            reports[rival].push(measure(RIVALS[rival].0, trace, operations)?);
        }
    }
    let mut out = io::stdout();
    writeln!(
        out,
        "{operations} operations on a fresh 2 GiB ext4, {rounds} rounds in turns; median (min..max)\n"
    )?;
    writeln!(
        out,
        "| | operations/s | ÷ bare | user µs − bare | CPU, bare ÷ own |\n| --- | --- | --- | --- | --- |"
    )?;
    let bare = reports[0].clone();
    let mut missed = Vec::new();
    for (place, ((_, title), own)) in RIVALS.iter().zip(&reports).enumerate() {
        let pairs = || own.iter().zip(&bare);
        let mut ratios: Vec<f64> = pairs().map(|(own, bare)| own.rate() / bare.rate()).collect();
        let user = |report: &Report| report.each_us(report.cpu_user_ns);
        let all = |report: &Report| report.cpu_user_ns + report.cpu_sys_ns;
        writeln!(
            out,
            "| {title} | {} | {} | {} | {} |",
            spread(own.iter().map(Report::rate).collect(), 0),
            spread(ratios.clone(), 2),
            spread(pairs().map(|(own, bare)| user(own) - user(bare)).collect(), 2),
            spread(pairs().map(|(own, bare)| share(all(bare), all(own))).collect(), 2),
        )?;
        ratios.sort_by(f64::total_cmp);
        let median = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
        if place > 0 && median < LEAST {
            missed.push(format!("{title}: {median:.2} of the bare loop, not {LEAST}"));
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(io::Error::other(missed.join("; "))) }
}
