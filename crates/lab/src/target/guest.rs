//! An agent of another guest, at the other end of a serial port of this one.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::session::Session;
use super::{READY, TargetError};

/// How long the other guest may take until its agent answers: it boots meanwhile, on a host that may be busy.
const BOOTS: Duration = Duration::from_secs(180);

/// How often the other end is looked for.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a port may take to appear.
const APPEARS: Duration = Duration::from_secs(10);

/// Name of the port of guest number `number` (from 1) at the first guest.
#[must_use]
pub fn port_of(number: u32) -> String {
    format!("fsage-host-{number}")
}

/// The serial port of that name, when it is there.
///
/// # Errors
/// It does not appear.
pub fn port(name: &str) -> std::io::Result<PathBuf> {
    let begun = Instant::now();
    loop {
        let ports = std::fs::read_dir("/sys/class/virtio-ports");
        let mut entries = ports.into_iter().flatten().flatten();
        let is_it = |path: PathBuf| std::fs::read_to_string(path.join("name")).is_ok_and(|found| found.trim() == name);
        if let Some(entry) = entries.find(|entry| is_it(entry.path())) {
            let path = Path::new("/dev").join(entry.file_name());
            if path.exists() {
                return Ok(path);
            }
        }
        if begun.elapsed() > APPEARS {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Opens a port and waits until somebody is at its other end: before, it reads as one that has ended
/// (Linux, `drivers/char/virtio_console.c`).
///
/// # Errors
/// It cannot be opened, or nobody comes.
pub fn open(path: &Path) -> std::io::Result<File> {
    let file = File::options().read(true).write(true).open(path)?;
    let deadline = Instant::now() + BOOTS;
    while waited(&file, PollFlags::OUT, Duration::ZERO)?.contains(PollFlags::HUP) {
        if Instant::now() > deadline {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(file)
}

fn waited(file: &File, events: PollFlags, longest: Duration) -> std::io::Result<PollFlags> {
    let mut fds = [PollFd::new(file, events)];
    let longest = Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
    poll(&mut fds, Some(&longest))?;
    Ok(fds[0].revents())
}

/// Takes up the agent of guest number `number`.
pub(super) fn start(number: u32) -> Result<Session, TargetError> {
    let name = port_of(number);
    let failed = |source| TargetError::Start { path: PathBuf::from(format!("guest {}", number + 1)), source };
    let file = port(&name).and_then(|path| open(&path)).map_err(failed)?;
    await_ready(&file).map_err(failed)?;
    let output: Box<dyn Write + Send> = Box::new(BufWriter::new(file.try_clone().map_err(failed)?));
    let input: Box<dyn Read + Send> = Box::new(BufReader::with_capacity(256 << 10, file));
    Session::greet(output, input, None)
}

/// Reads up to the line in which the other guest says that its agent comes next.
fn await_ready(mut file: &File) -> std::io::Result<()> {
    let deadline = Instant::now() + BOOTS;
    let mut line = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        if !waited(file, PollFlags::IN, left.min(Duration::from_secs(1)))?.contains(PollFlags::IN) {
            continue;
        }
        let mut byte = [0];
        if file.read(&mut byte)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if byte != *b"\n" {
            line.push(byte[0]);
        } else if std::mem::take(&mut line) == READY.as_bytes() {
            return Ok(());
        }
    }
}
