//! `mdadm`: arrays of the kernel's driver for several devices.

use std::path::{Path, PathBuf};

use fsage_model::size::Bytes;

use super::{Invocation, MAKING_LAYER, Program};

/// The program.
pub static PROGRAM: Program = Program::new("mdadm", MAKING_LAYER);

/// Makes an array of devices that hold zeros, which are in step with each other.
#[must_use]
pub fn create(name: &str, level: u8, chunk: Bytes, bitmap: bool, devices: &[&Path]) -> Invocation {
    let node = node(name).display().to_string();
    let mut words =
        ["--create", &node, "--run", "--metadata=1.2", "--homehost=any"].map(str::to_owned).to_vec();
    words.push(format!("--name={name}"));
    words.push(format!("--level={level}"));
    if level != 1 {
        words.push(format!("--chunk={}", chunk.0 >> 10));
    }
    if level != 0 {
        words.push("--assume-clean".to_owned());
        words.push(format!("--bitmap={}", if bitmap { "internal" } else { "none" }));
    }
    words.push(format!("--raid-devices={}", devices.len()));
    words.extend(devices.iter().map(|path| path.display().to_string()));
    PROGRAM.invoke(words)
}

/// Where it is.
#[must_use]
pub fn node(name: &str) -> PathBuf {
    Path::new("/dev/md").join(name)
}
