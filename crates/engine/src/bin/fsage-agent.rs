//! The agent: works on the target, beside the file system under test. The lab starts it; it speaks frames
//! on its standard input and output ([`fsage_model::protocol`]).

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's own words, before it serves")]

use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use fsage_engine::agent;

const HELP: &str = "\
fsage-agent works beside the file system under test. `fsage` starts it and speaks with it over its
standard input and output; it is not for interactive use.

Usage: fsage-agent [--version | --help | --wait-until NANOSECONDS]

With --wait-until it only waits until so many nanoseconds after the epoch: what is to begin on
several hosts at the same time.

It needs root to attach loop devices, mount, and change settings. It ends when its input ends.
Exit codes: 0 its input ended, 1 invalid input, 2 wrong use.";

fn main() -> ExitCode {
    fsage_sys::process::keep_absolute_path();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().map(|argument| argument.to_string_lossy()).as_deref() {
        Some("--version" | "-V") => println!("fsage-agent {}", env!("CARGO_PKG_VERSION")),
        Some("--help" | "-h") => println!("{HELP}"),
        Some("--wait-until") => {
            let moment = arguments.get(1).and_then(|moment| moment.to_str()?.parse().ok());
            let Some(moment) = moment else {
                eprintln!("error: --wait-until needs a number of nanoseconds\nhint: fsage-agent --help");
                return ExitCode::from(2);
            };
            wait_until(moment);
        }
        Some(other) => {
            eprintln!("error: unknown argument {other}\nhint: fsage-agent --help");
            return ExitCode::from(2);
        }
        None if std::io::stdin().is_terminal() || std::io::stdout().is_terminal() => {
            eprintln!(
                "error: fsage-agent is not started by hand\nhint: use `fsage run` or `fsage age`; they start it"
            );
            return ExitCode::from(2);
        }
        None => return serve(),
    }
    ExitCode::SUCCESS
}

/// Waits until so many nanoseconds after the epoch, an hour at most.
fn wait_until(moment_ns: u64) {
    const LONGEST: Duration = Duration::from_secs(3600);
    let left = Duration::from_nanos(moment_ns.saturating_sub(fsage_sys::clock::real_ns()));
    std::thread::sleep(left.min(LONGEST));
}

fn serve() -> ExitCode {
    fsage_sys::memory_limit::limit();
    let input = BufReader::with_capacity(64 << 10, std::io::stdin());
    // Not through `Stdout`: it would flush at every line end within a chunk.
    let output = match std::io::stdout().as_fd().try_clone_to_owned() {
        Ok(output) => BufWriter::with_capacity(64 << 10, File::from(output)),
        Err(error) => {
            eprintln!("error: no standard output: {error}");
            return ExitCode::FAILURE;
        }
    };
    match agent::serve(input, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            eprintln!("error: {error}\ncaused by: {cause}");
            ExitCode::FAILURE
        }
    }
}
