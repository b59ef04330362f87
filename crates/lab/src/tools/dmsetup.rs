//! `dmsetup` (LVM2): devices of the device mapper.

use super::{Invocation, MAKING_LAYER, Program};

/// The program.
pub static PROGRAM: Program = Program::new("dmsetup", MAKING_LAYER);

/// Makes a device of one line of a table.
#[must_use]
pub fn create(name: &str, table: &str) -> Invocation {
    PROGRAM.invoke(["create", name, "--table", table].map(str::to_owned).to_vec())
}

/// Makes a device of several lines.
#[must_use]
pub fn create_lines(name: &str, lines: &[String]) -> Invocation {
    let concise = format!("{name},,,rw,{}", lines.join(","));
    PROGRAM.invoke(vec!["create".to_owned(), "--concise".to_owned(), concise])
}

/// Tells a device's target something.
#[must_use]
pub fn message(name: &str, text: &str) -> Invocation {
    PROGRAM.invoke(["message", name, "0", text].map(str::to_owned).to_vec())
}
