//! A guest that has booted waits for a line of its host's before it is ready: until then its state can be saved, and any number of guests can start
//! from it. The line has what must not be the same in all of these: the time, and random numbers.

use std::fs::File;
use std::io::{self, BufRead, Read as _, Write};
use std::os::fd::AsFd as _;
use std::time::SystemTime;

use fsage_sys::entropy::{self, SEED};
use rustix::time::{ClockId, Timespec, clock_settime};
use serde::{Deserialize, Serialize};

/// How the lines begin by which a guest says how far it is.
pub(super) const MARK: &str = "fsage-";

/// The line in which a guest says that it has booted and waits, without its beginning.
pub(super) const WAITS: &str = "waits";

/// Bytes of the line that it waits for, at most.
const LINE_BYTES: u64 = 4096;

/// What a guest that waits is given.
#[derive(Debug, Serialize, Deserialize)]
struct Waking {
    /// Nanoseconds since the epoch.
    now_ns: u64,
    /// Random numbers, as many as [`SEED`].
    seed: Vec<u8>,
}

/// Ends the wait of the guest that reads `input`.
///
/// # Errors
/// It is gone, or there are no random numbers.
pub(super) fn wake(input: &mut dyn Write) -> io::Result<()> {
    let mut seed = vec![0; SEED];
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(io::Error::other)?;
    let waking = Waking { now_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), seed };
    let mut line = serde_json::to_vec(&waking)?;
    line.push(b'\n');
    input.write_all(&line)?;
    input.flush()
}

/// Waits in a guest, then sets its clock and its random numbers.
///
/// # Errors
/// The host is gone, or gives something else.
pub fn wait(input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "{MARK}{WAITS}")?;
    output.flush()?;
    let mut line = Vec::new();
    input.take(LINE_BYTES).read_until(b'\n', &mut line)?;
    let (now, seed) = read(&line)?;
    clock_settime(ClockId::Realtime, now)?;
    let random = File::options().write(true).open("/dev/random")?;
    entropy::seed(random.as_fd(), seed).map_err(io::Error::other)?;
    entropy::renew(random.as_fd()).map_err(io::Error::other)
}

/// What the line of the host says.
fn read(line: &[u8]) -> io::Result<(Timespec, [u8; SEED])> {
    const NS: u64 = 1_000_000_000;
    let Waking { now_ns, seed } = serde_json::from_slice(line)?;
    let seed = seed.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let (seconds, nanoseconds) = (now_ns / NS, now_ns % NS);
    Ok((Timespec { tv_sec: seconds.cast_signed(), tv_nsec: nanoseconds.cast_signed() }, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_guest_gets_the_time_and_random_numbers_of_its_own() {
        let line = || {
            let mut line = Vec::new();
            wake(&mut line).unwrap();
            assert!(line.ends_with(b"\n") && (line.len() as u64) < LINE_BYTES);
            read(&line).unwrap()
        };
        let ((first, one), (second, other)) = (line(), line());
        assert_ne!(one, other);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert!(second >= first && now.as_secs().abs_diff(second.tv_sec.cast_unsigned()) < 60);
    }

    #[test]
    fn other_lines_are_refused() {
        for bad in ["", "x\n", r#"{"now_ns":1,"seed":[1,2]}"#] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        let mut output = Vec::new();
        assert!(wait(&mut io::BufReader::new(&b"x\n"[..]), &mut output).is_err());
        assert_eq!(output, b"fsage-waits\n");
    }
}
