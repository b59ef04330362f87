//! How long `fsage --help` takes, from fork to exit, against a program that does nothing (`true`).
//!
//! Usage: `startup_bench [FSAGE]` (default: `fsage` beside this program). Runs alternate, so that drift of
//! the host falls on both; the median of 200 runs each is printed, with the least.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Runs of each program.
const RUNS: usize = 200;
/// What `fsage --help` may take.
const LIMIT: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let program = std::env::args_os().nth(1).map_or_else(beside, PathBuf::from);
    let mut help = Vec::with_capacity(RUNS);
    let mut nothing = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let (Some(a), Some(b)) = (run(&program, &["--help"]), run(Path::new("true"), &[])) else {
            println!("cannot run {}", program.display());
            return ExitCode::FAILURE;
        };
        help.push(a);
        nothing.push(b);
    }
    println!("| program | median ms | least ms |\n| --- | --- | --- |");
    let median = row("fsage --help", &mut help);
    row("true", &mut nothing);
    println!("\nlimit {} ms: {}", LIMIT.as_millis(), if median < LIMIT { "met" } else { "NOT MET" });
    if median < LIMIT { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn beside() -> PathBuf {
    std::env::current_exe().map_or_else(|_| PathBuf::from("fsage"), |path| path.with_file_name("fsage"))
}

fn run(program: &Path, arguments: &[&str]) -> Option<Duration> {
    let start = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok()?.success().then(|| start.elapsed())
}

fn row(name: &str, times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    let median = times[times.len() / 2];
    println!("| {name} | {:.2} | {:.2} |", median.as_secs_f64() * 1e3, times[0].as_secs_f64() * 1e3);
    median
}
