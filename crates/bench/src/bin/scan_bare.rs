//! What the scan and the free-space map are measured against: the same system calls in a bare loop, one
//! thread, one buffer, nothing kept but sums.
//!
//! `scan_bare walk DIR`: getdents64, openat, FIEMAP, close. `scan_bare walk-stat DIR`: fstat as well, without
//! which neither sizes nor hard links are known. `scan_bare fsmap DIR`: one GETFSMAP pass, summing up free
//! space. The result is one JSON line.

#![forbid(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use fsage_sys::{clock, fiemap, fsmap};
use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, fstat, openat};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(task), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::other("usage: scan_bare walk|walk-stat|fsmap DIR"));
    };
    let start_ns = clock::raw_ns();
    let (items, bytes) = match task.as_str() {
        "walk" | "walk-stat" => {
            let mut walk =
                Walk { reader: fiemap::Reader::new(), stats: task == "walk-stat", extents: 0, bytes: 0 };
            let root = openat(CWD, &path, DIRECTORY, Mode::empty())?;
            walk.directory(&root)?;
            (walk.extents, walk.bytes)
        }
        "fsmap" => free_space(File::open(&path)?.as_fd())?,
        other => return Err(io::Error::other(format!("unknown task {other:?}"))),
    };
    let elapsed_ns = clock::raw_ns() - start_ns;
    let peak = clock::process_usage().peak_resident_bytes;
    writeln!(
        io::stdout(),
        r#"{{"items":{items},"bytes":{bytes},"elapsed_ns":{elapsed_ns},"peak_resident_bytes":{peak}}}"#
    )
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Walk {
    reader: fiemap::Reader,
    stats: bool,
    extents: u64,
    bytes: u64,
}

impl Walk {
    fn directory(&mut self, fd: &OwnedFd) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
        let mut entries = RawDir::new(fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            match entry.file_type() {
                FileType::RegularFile => self.file(fd, entry.file_name())?,
                FileType::Directory if !matches!(entry.file_name().to_bytes(), b"." | b"..") => {
                    self.directory(&openat(fd, entry.file_name(), DIRECTORY, Mode::empty())?)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, directory: &OwnedFd, name: &CStr) -> io::Result<()> {
        let fd = openat(directory, name, FILE, Mode::empty())?;
        if self.stats {
            self.bytes += u64::try_from(fstat(&fd)?.st_size).unwrap_or(0);
        }
        self.reader.visit(fd.as_fd(), |_| self.extents += 1).map_err(io::Error::other)
    }
}

fn free_space(fd: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let (mut extents, mut bytes) = (0, 0);
    let visited = fsmap::visit(fd, |record| {
        if record.is_free() {
            extents += 1;
            bytes += record.length;
        }
    });
    visited.map(|()| (extents, bytes)).map_err(io::Error::other)
}
