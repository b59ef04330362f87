//! A short workload that somebody wrote down: the operations of a load, one per line, as reports print them.
//!
//! ```text
//! # what is there before, synced
//! mkdir two
//! create c
//! ---
//! create two/d
//! fsync two/
//! ```

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CrashOperation;
use crate::size::Bytes;

/// Line between what is there before and the load.
pub const SCRIPT_BEGINS: &str = "---";
/// Most operations.
const MOST_OPERATIONS: usize = 10_000;
/// Most bytes of a file, and the largest offset in one.
pub const LARGEST_SCRIPTED_FILE_BYTES: u64 = 1 << 20;
/// Longest path, in bytes.
const LONGEST_PATH: usize = 200;

/// What is done before power is lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrashScript {
    /// What is there, and synced, before the load.
    pub base: Vec<CrashOperation>,
    /// The load.
    pub operations: Vec<CrashOperation>,
}

/// Why a text is no script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct CrashScriptError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl FromStr for CrashScript {
    type Err = CrashScriptError;

    fn from_str(text: &str) -> Result<Self, CrashScriptError> {
        let mut script = Self::default();
        let mut before = Vec::new();
        let (mut begun, mut last) = (false, 1);
        for (line, text) in (1..).zip(text.lines()) {
            last = line;
            let failed = |what: String| CrashScriptError { line, what };
            let text = text.split('#').next().unwrap_or_default().trim();
            if text == SCRIPT_BEGINS {
                if std::mem::replace(&mut begun, true) {
                    return Err(failed(format!("a second `{SCRIPT_BEGINS}`")));
                }
                before = std::mem::take(&mut script.operations);
            } else if !text.is_empty() {
                script.operations.push(text.parse().map_err(failed)?);
                if script.operations.len() + before.len() > MOST_OPERATIONS {
                    return Err(failed(format!("more than {MOST_OPERATIONS} operations")));
                }
            }
        }
        script.base = before;
        if script.operations.is_empty() {
            let what = "no operation that power could be lost after".to_owned();
            return Err(CrashScriptError { line: last, what });
        }
        Ok(script)
    }
}

impl FromStr for CrashOperation {
    type Err = String;

    /// What its `Display` prints, sizes also with a unit (`write a 0+4KiB`).
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        let path = |number: usize| words.get(number).map_or_else(|| Err(String::new()), |word| path(word));
        let range = || words.get(1).map_or_else(|| Err(String::new()), |word| range(word));
        let size = || words.get(1).map_or_else(|| Err(String::new()), |word| bytes(word));
        let read = || -> Result<(Self, usize), String> {
            Ok(match name {
                "create" => (Self::Create { path: path(0)? }, 1),
                "write" | "write-direct" | "write-mapped" | "punch" => (ranged(name, path(0)?, range()?), 2),
                "write-out" => (Self::WriteOut { path: path(0)? }, 1),
                "allocate" => (Self::Allocate { path: path(0)?, size_bytes: size()? }, 2),
                "truncate" => (Self::Truncate { path: path(0)?, size_bytes: size()? }, 2),
                "rename" => (Self::Rename { from: path(0)?, to: path(1)? }, 2),
                "exchange" => (Self::Exchange { from: path(0)?, to: path(1)? }, 2),
                "link" => (Self::Link { from: path(0)?, to: path(1)? }, 2),
                "link-unnamed" => match range()? {
                    (0, length_bytes) => (Self::LinkUnnamed { path: path(0)?, length_bytes }, 2),
                    _ => return Err("a new file is written from 0 on".to_owned()),
                },
                "unlink" => (Self::Unlink { path: path(0)? }, 1),
                "mkdir" => (Self::Mkdir { path: path(0)? }, 1),
                "setxattr" => (Self::SetAttribute { path: path(0)? }, 1),
                "removexattr" => (Self::RemoveAttribute { path: path(0)? }, 1),
                "rmdir" => (Self::Rmdir { path: path(0)? }, 1),
                "fsync" if words == ["."] => (Self::FsyncDirectory { path: String::new() }, 1),
                "fsync" => match words.first().and_then(|word| word.strip_suffix('/')) {
                    Some(directory) => (Self::FsyncDirectory { path: self::path(directory)? }, 1),
                    None => (Self::Fsync { path: path(0)? }, 1),
                },
                "fdatasync" => (Self::Fdatasync { path: path(0)? }, 1),
                "syncfs" | "sync" => (Self::Sync, 0),
                _ => return Err(format!("`{name}` is not an operation (docs/power.md lists them)")),
            })
        };
        match read() {
            Ok((operation, count)) if count == words.len() => Ok(operation),
            Err(what) if !what.is_empty() => Err(what),
            _ => Err(format!("`{text}` has too few or too many words")),
        }
    }
}

/// The operations with a file and a range of it.
fn ranged(name: &str, path: String, (offset_bytes, length_bytes): (u64, u64)) -> CrashOperation {
    match name {
        "write" => CrashOperation::Write { path, offset_bytes, length_bytes },
        "write-direct" => CrashOperation::DirectWrite { path, offset_bytes, length_bytes },
        "write-mapped" => CrashOperation::MappedWrite { path, offset_bytes, length_bytes },
        _ => CrashOperation::Punch { path, offset_bytes, length_bytes },
    }
}

/// A path below the load's directory.
fn path(word: &str) -> Result<String, String> {
    let is_fine = |part: &str| !part.is_empty() && part != "." && part != "..";
    if word.len() > LONGEST_PATH || !word.split('/').all(is_fine) || word.contains(char::is_control) {
        return Err(format!(
            "`{word}` is not a path below the load's directory, of at most {LONGEST_PATH} bytes"
        ));
    }
    Ok(word.to_owned())
}

fn bytes(word: &str) -> Result<u64, String> {
    let Bytes(bytes) = word.parse().map_err(|_| format!("`{word}` is not a size"))?;
    if bytes > LARGEST_SCRIPTED_FILE_BYTES {
        return Err(format!(
            "`{word}` is larger than the largest file, {}",
            Bytes(LARGEST_SCRIPTED_FILE_BYTES)
        ));
    }
    Ok(bytes)
}

/// `OFFSET+LENGTH`.
fn range(word: &str) -> Result<(u64, u64), String> {
    let (offset, length) = word.split_once('+').ok_or_else(|| format!("`{word}` is not OFFSET+LENGTH"))?;
    let (offset, length) = (bytes(offset)?, bytes(length)?);
    bytes(&(offset + length).to_string())?;
    Ok((offset, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: &str = "\
create a
write a 0+5000
write-direct a 4096+4096
write-mapped a 0+4096
write-out a
punch a 4096+4096
allocate a 16384
truncate a 0
rename a one/b
exchange one/b c
link-unnamed d 0+100
link d e
unlink d
mkdir one
rmdir one
setxattr a
removexattr a
fsync a
fsync one/
fsync .
fdatasync a
syncfs";

    #[test]
    fn every_operation_is_read_as_it_is_printed() {
        let script: CrashScript = EVERY.parse().unwrap();
        let printed: Vec<String> = script.operations.iter().map(ToString::to_string).collect();
        assert_eq!(printed.join("\n"), EVERY);
        assert_eq!(script.base, []);
    }

    #[test]
    fn what_is_there_before_comes_before_the_dashes() {
        let script: CrashScript =
            "# a file\n\ncreate a # empty\n---\nwrite a 4KiB+1KiB\nsync\n".parse().unwrap();
        assert_eq!(script.base, [CrashOperation::Create { path: "a".to_owned() }]);
        let write = CrashOperation::Write { path: "a".to_owned(), offset_bytes: 4096, length_bytes: 1024 };
        assert_eq!(script.operations, [write, CrashOperation::Sync]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let refused = |text: &str, line: usize, what: &str| {
            let error = text.parse::<CrashScript>().unwrap_err();
            assert!(error.line == line && error.what.contains(what), "{text}: {error}");
        };
        refused("", 1, "no operation");
        refused("create a\n---\n", 2, "no operation");
        refused("create a\n---\nsync\n---", 4, "second");
        refused("sync\nremove a", 2, "`remove` is not an operation");
        refused("create", 1, "too few");
        refused("create a b", 1, "too many");
        refused("create /etc/passwd", 1, "not a path");
        refused("create ../a", 1, "not a path");
        refused("create a//b", 1, "not a path");
        refused("fsync /", 1, "not a path");
        refused("write a 5000", 1, "OFFSET+LENGTH");
        refused("write a 0+x", 1, "not a size");
        refused("write a 0+2MiB", 1, "larger");
        refused("write a 1MiB+4KiB", 1, "larger");
        refused("link-unnamed a 4096+100", 1, "from 0 on");
        refused("truncate a 18446744073709551615", 1, "larger");
        refused(&"sync\n".repeat(10_001), 10_001, "more than 10000");
    }
}
