//! An agent of another guest, at the other end of a serial port of this one.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use super::session::{Owner, Session};
use super::{READY, TargetError};

/// How long the other guest may take until its agent answers: it boots meanwhile, on a host that may be busy.
const BOOTS: Duration = Duration::from_secs(180);

/// How long an agent may say nothing while it is asked for something: fio tells of itself every second.
const SILENT: Duration = Duration::from_secs(900);

/// How long a port is waited for before its other end is looked for again.
const LOOK: Duration = Duration::from_secs(1);

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
        let is_it = |path: PathBuf| {
            std::fs::read_to_string(path.join("name")).is_ok_and(|found| found.trim() == name)
        };
        if let Some(entry) = entries.find(|entry| is_it(entry.path())) {
            let path = Path::new("/dev").join(entry.file_name());
            if path.exists() {
                return Ok(path);
            }
        }
        if begun.elapsed() > APPEARS {
            return Err(ErrorKind::NotFound.into());
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
            return Err(ErrorKind::TimedOut.into());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(file)
}

fn waited(file: &File, events: PollFlags, longest: Duration) -> std::io::Result<PollFlags> {
    let mut fds = [PollFd::new(file, events)];
    let longest =
        Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
    poll(&mut fds, Some(&longest))?;
    Ok(fds[0].revents())
}

/// Takes up the agent of guest number `number`.
pub(super) fn start(number: u32) -> Result<Session, TargetError> {
    let connected = || {
        let file = open(&port(&port_of(number))?)?;
        await_ready(&file)?;
        fcntl_setfl(&file, OFlags::NONBLOCK)?;
        Ok((Port(file.try_clone()?), Port(file)))
    };
    let (output, input) = connected().map_err(|error: std::io::Error| TargetError::Lost {
        request: "hello".to_owned(),
        status: format!("guest {} did not boot", number + 1),
        last: error.to_string(),
        stderr: String::new(),
    })?;
    let output: Box<dyn Write + Send> = Box::new(BufWriter::new(output));
    let input: Box<dyn Read + Send> = Box::new(BufReader::with_capacity(256 << 10, input));
    Session::greet(output, input, Owner::Guest(number))
}

/// A port whose other end may go away: who writes to such a one waits for ever, unless the port does not block (Linux,
/// `drivers/char/virtio_console.c`).
struct Port(File);

impl Write for Port {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if waited(&self.0, PollFlags::OUT, LOOK)?.contains(PollFlags::HUP) {
                        return Err(ErrorKind::BrokenPipe.into());
                    }
                }
                outcome => return outcome,
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Read for Port {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let deadline = Instant::now() + SILENT;
        loop {
            match self.0.read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    waited(&self.0, PollFlags::IN, LOOK)?;
                    if Instant::now() > deadline {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                outcome => return outcome,
            }
        }
    }
}

/// Reads up to the line in which the other guest says that its agent comes next.
fn await_ready(mut file: &File) -> std::io::Result<()> {
    let deadline = Instant::now() + BOOTS;
    let mut line = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        if !waited(file, PollFlags::IN, left.min(Duration::from_secs(1)))?.contains(PollFlags::IN) {
            continue;
        }
        let mut byte = [0];
        if file.read(&mut byte)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if byte != *b"\n" {
            line.push(byte[0]);
        } else if std::mem::take(&mut line) == READY.as_bytes() {
            return Ok(());
        }
    }
}
