//! `mdadm`: arrays of the kernel's driver for several devices.

use std::path::{Path, PathBuf};

use fsage_model::size::Bytes;

use super::{Invocation, MAKING_LAYER, Program};

/// The program.
pub static PROGRAM: Program = Program::new("mdadm", MAKING_LAYER);

/// Makes an array of devices that hold zeros, which are in step with each other. `policy` is the option that says
/// how it is brought back in step after a crash.
#[must_use]
pub fn create(name: &str, level: u8, chunk: Bytes, policy: &str, devices: &[&Path]) -> Invocation {
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
        words.push(policy.to_owned());
    }
    words.push(format!("--raid-devices={}", devices.len()));
    words.extend(devices.iter().map(|path| path.display().to_string()));
    PROGRAM.invoke(words)
}

/// Puts an array together again of these devices, which may not be all. `force`: also one that was in use when others were
/// lost, whose parity may be wrong.
#[must_use]
pub fn assemble(name: &str, devices: &[&Path], force: bool) -> Invocation {
    let node = node(name).display().to_string();
    let mut words = ["--assemble", &node, "--run", "--homehost=any"].map(str::to_owned).to_vec();
    words.extend(force.then(|| "--force".to_owned()));
    words.extend(devices.iter().map(|path| path.display().to_string()));
    PROGRAM.invoke(words)
}

/// Where it is.
#[must_use]
pub fn node(name: &str) -> PathBuf {
    Path::new("/dev/md").join(name)
}
