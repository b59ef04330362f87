//! An agent on this host, as a child process.

use std::ffi::OsString;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use fsage_engine::host::tool::own_folders;

use super::TargetError;
use super::child::Child;
use super::session::{Owner, Session};

pub(super) fn start() -> Result<Session, TargetError> {
    let (child, stdin, stdout) = Child::start(find()?, Vec::new())?;
    let output: Box<dyn Write + Send> = Box::new(BufWriter::new(stdin));
    let input: Box<dyn Read + Send> = Box::new(BufReader::with_capacity(256 << 10, stdout));
    Session::greet(output, input, Owner::Process(child))
}

/// `$FSAGE_AGENT`, or beside the running executable ([`own_folders`]).
pub(super) fn find() -> Result<PathBuf, TargetError> {
    let mut looked = Vec::new();
    if let Some(named) = std::env::var_os("FSAGE_AGENT").filter(|named| *named != OsString::new()) {
        looked.push(PathBuf::from(named));
    } else if let Ok(executable) = std::env::current_exe() {
        looked.extend(own_folders(&executable).into_iter().map(|folder| folder.join("fsage-agent")));
    }
    match looked.iter().find(|path| path.is_file()) {
        Some(found) => Ok(found.clone()),
        None => Err(TargetError::Missing { looked }),
    }
}
