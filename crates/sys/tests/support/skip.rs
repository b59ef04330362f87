//! A test that cannot run must not look like one that passed: the harness swallows what a passing test
//! prints. The tests of every crate use this one file.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test may panic and say why it is skipped")]

use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;

/// Says that this test, or a part of it, cannot run and why: prints it, and appends a line to the file that
/// the environment variable `FSAGE_SKIPS` names. `make test` counts those lines.
pub fn skip(why: impl Display) {
    let program = std::env::current_exe().unwrap();
    let program = program.file_stem().unwrap().to_string_lossy();
    // Cargo appends a hash to the name of a test program.
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    // The harness names each test's thread after the test.
    let thread = std::thread::current();
    let line = format!("{program}::{}: {why}\n", thread.name().unwrap_or("?"));
    print!("skipped: {line}");
    if let Some(path) = std::env::var_os("FSAGE_SKIPS") {
        // One write, so that tests of other processes do not mix theirs in.
        File::options().append(true).create(true).open(path).unwrap().write_all(line.as_bytes()).unwrap();
    }
}
