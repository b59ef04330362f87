//! The programs that are sent to another host.

use std::path::{Path, PathBuf};

use fsage_engine::host::tool::look_up;

use super::{TargetError, local};

/// The programs that a target needs beside the one that answers there.
pub const OTHERS: [&str; 2] = ["fsage-agent", "fsage-disk"];

/// The program `name` for processors of `machine` (`uname -m`), without what only debuggers read.
///
/// # Errors
/// There is none for this machine beside this one, or it cannot be read.
pub fn for_machine(name: &str, machine: &str) -> Result<Vec<u8>, TargetError> {
    let path = find(name, machine)?;
    let bytes = std::fs::read(&path).map_err(|source| TargetError::Start { path, source })?;
    Ok(loadable(bytes))
}

fn find(name: &str, machine: &str) -> Result<PathBuf, TargetError> {
    if machine != std::env::consts::ARCH {
        let named = format!("{name}-{machine}");
        return look_up(&named).ok_or(TargetError::Machine { program: named, machine: machine.to_owned() });
    }
    match name {
        "fsage" => std::env::current_exe().map_err(|source| TargetError::Start { path: name.into(), source }),
        "fsage-agent" => local::find(),
        _ => look_up(name).ok_or_else(|| TargetError::Missing { looked: vec![Path::new(name).to_owned()] }),
    }
}

/// A program of 64 bits (ELF, Tool Interface Standard 1.2, and System V ABI, chapter 4) without its sections, which
/// nobody needs to run it: debug information is most of them. Anything else is left as it is.
fn loadable(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = end_of_segments(&bytes) {
        bytes.truncate(end);
        // e_shoff; then e_shnum and e_shstrndx.
        bytes[40..48].fill(0);
        bytes[60..64].fill(0);
    }
    bytes
}

/// The first byte after what its program headers name.
fn end_of_segments(bytes: &[u8]) -> Option<usize> {
    let number = |at: usize, count: usize| {
        let field = bytes.get(at..at.checked_add(count)?)?;
        let value = field.iter().rev().fold(0_u64, |value, byte| (value << 8) | u64::from(*byte));
        usize::try_from(value).ok()
    };
    // Little-endian, 64 bits.
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut end = table.checked_add(size.checked_mul(count)?)?.max(64);
    for index in 0..count {
        let header = table + size * index;
        end = end.max(number(header + 8, 8)?.checked_add(number(header + 32, 8)?)?);
    }
    (end <= bytes.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_without_its_sections_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let size = whole.len();
        let sent = loadable(whole);
        assert!(sent.len() < size, "{} of {size}", sent.len());
        std::fs::write(&path, &sent).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        // A child of another test, between its fork and its exec, may still have the file open for writing.
        let output = loop {
            match Command::new(&path).arg("--list").output() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                output => break output.unwrap(),
            }
        };
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("a_program_without_its_sections_runs"));
    }

    #[test]
    fn what_is_no_such_program_is_left_alone() {
        for bytes in [
            &b""[..],
            b"#!/bin/sh\n",
            b"\x7fELF\x02\x01",
            &[b"\x7fELF\x02\x01".as_slice(), &[255; 90]].concat(),
        ] {
            assert_eq!(loadable(bytes.to_vec()), bytes);
        }
    }

    #[test]
    fn another_machine_needs_programs_of_its_own() {
        let error = for_machine("fsage", "pdp11").unwrap_err().to_string();
        assert!(error.contains("fsage-pdp11"), "{error}");
    }
}
