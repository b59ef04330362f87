//! How fast traces are written, read, exported and imported.
//!
//! `trace_bench [OPERATIONS] [ROUNDS]` (default 2000000, 5) makes a trace of the benches' mix without a file
//! system below the temporary directory (`TMPDIR`), and works on it round after round. Limit: a million
//! operations per second decoded.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use fsage_bench::{mix, spread::spread};
use fsage_engine::export::{Format, export};
use fsage_engine::import::{ImportOptions, Program, import};
use fsage_engine::trace::{self, Preamble, Record, TraceWriter};
use fsage_engine::workload::{Feedback, ResolveContext, Workload, resolve};
use fsage_model::operation::Outcome;
use fsage_model::quantity::as_f64;
use fsage_sys::clock;

/// Least operations per second read from a trace.
const LEAST: f64 = 1e6;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let operations = number(0, 2_000_000).map_err(io::Error::other)?;
    let rounds = number(1, 5).map_err(io::Error::other)?;
    let folder = std::env::temp_dir().join(format!("fsage-trace-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let done = compare(&folder, operations, rounds);
    std::fs::remove_dir_all(&folder)?;
    done
}

/// Nanoseconds that something takes.
fn timed(what: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let start = clock::raw_ns();
    what()?;
    Ok(as_f64(clock::raw_ns() - start))
}

fn compare(folder: &Path, operations: u64, rounds: u64) -> io::Result<()> {
    let (rows, preamble) = rows(operations)?;
    let path = |name: &str| folder.join(name);
    let (trace, csv, again) = (path("trace"), path("csv"), path("again"));
    let mut rates: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        let ns = [
            timed(|| write(&trace, &rows, &preamble))?,
            timed(|| read(&trace, operations))?,
            timed(|| write_csv(&trace, &csv))?,
            timed(|| {
                let done = import(Program::Csv, &csv, &again, &ImportOptions::default());
                done.map(|_| ()).map_err(io::Error::other)
            })?,
        ];
        for (rates, ns) in rates.iter_mut().zip(ns) {
            rates.push(as_f64(operations) / ns * 1e3);
        }
    }
    let mut out = io::stdout();
    let bytes = as_f64(std::fs::metadata(&trace)?.len()) / as_f64(operations);
    writeln!(
        out,
        "{operations} operations, {rounds} rounds, {bytes:.1} bytes per operation; median (min..max)\n"
    )?;
    writeln!(out, "| | million operations/s |\n| --- | --- |")?;
    let names =
        ["written as Parquet", "**read from Parquet**", "exported as CSV", "imported from CSV (read twice)"];
    let decoded = rates[1].iter().copied().fold(0.0, f64::max) * 1e6;
    for (name, rates) in names.iter().zip(rates) {
        writeln!(out, "| {name} | {} |", spread(rates, 2))?;
    }
    if decoded < LEAST {
        return Err(io::Error::other(format!("{decoded:.0} operations per second decoded, not {LEAST:.0}")));
    }
    Ok(())
}

fn rows(operations: u64) -> io::Result<(Vec<Record>, Preamble)> {
    let spec = mix::load(&PathBuf::from("/nowhere"), operations, true);
    let context = ResolveContext { volume_bytes: 0, write_mode: spec.write_mode };
    let mut workload = resolve(&spec.workload, 0, 1, spec.seed, &context).map_err(io::Error::other)?;
    let preamble = Preamble::of_load(spec, vec![workload.initial_directories()]);
    let (mut rows, mut sequence, mut start_ns) = (Vec::new(), 0, 0);
    while sequence < operations {
        let Some(operation) = workload.next(&Feedback::default()) else { continue };
        // Latencies of no pattern, as real ones have.
        let latency_ns = 9000 + (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51);
        let outcome = Outcome { errno: 0, latency_ns };
        workload.completed(&operation, &outcome);
        rows.push(Record { thread: 0, sequence, operation, outcome, start_ns });
        sequence += 1;
        start_ns += latency_ns + 400;
    }
    Ok((rows, preamble))
}

fn write(path: &Path, rows: &[Record], preamble: &Preamble) -> io::Result<()> {
    let file = BufWriter::new(File::create(path)?);
    let mut writer = TraceWriter::new(file, preamble).map_err(io::Error::other)?;
    for batch in rows.chunks(1024) {
        writer.extend(batch).map_err(io::Error::other)?;
    }
    writer.finish(&[]).map_err(io::Error::other)
}

fn read(path: &Path, operations: u64) -> io::Result<()> {
    let mut count = 0;
    for record in trace::read(path).map_err(io::Error::other)? {
        record.map_err(io::Error::other)?;
        count += 1;
    }
    if count == operations { Ok(()) } else { Err(io::Error::other("rows are missing")) }
}

fn write_csv(path: &Path, csv: &Path) -> io::Result<()> {
    let reader = trace::read(path).map_err(io::Error::other)?;
    let mut out = BufWriter::new(File::create(csv)?);
    export(reader, Format::Csv, "", &mut out, csv).map_err(io::Error::other)?;
    Ok(())
}
