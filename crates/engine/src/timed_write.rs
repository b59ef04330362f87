//! Writes to a block device that are timed one by one, past the page cache: by wall-clock time, or by the disk's own on a virtual
//! disk in model time. What the device held is lost. While a request is under way nobody can mount or claim it; between two requests
//! somebody could, and the next is refused then only for as long as they do.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use fsage_model::protocol::DeviceIdentity;
use fsage_model::timed_read::RunTimes;
use fsage_model::timed_write::{WriteRun, WriteSpec, WriteTimes, WrittenRun};
use fsage_sys::aligned::AlignedBuffer;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::disk::Clock;
use crate::geometry::{Opened, Progress};
use crate::host::signature::{HEAD_BYTES, TAIL_BYTES};
use crate::host::{HostError, block, held};
use crate::load::Control;

/// Bytes that are cleared at a time.
const CLEAR_BYTES: usize = 1 << 20;

/// Bytes at both ends that are read again: most file systems and tables have their first block in the first.
const LOOK_BYTES: usize = 128 << 10;

/// Bytes that are never written twice: a drive that looks for repeated data compares blocks of this size or more.
const UNLIKE_BYTES: usize = 4096;

/// How often a rest looks whether the end is asked.
const LOOK: Duration = Duration::from_millis(20);

/// Does the writes of `spec`, run after run, if the device still is the one of `identity`.
///
/// # Errors
/// It is another, is in use, or cannot be written; `spec` does not fit it; [`HostError::Ended`] when the end is asked.
pub fn time(
    device: &Path,
    identity: &DeviceIdentity,
    spec: &WriteSpec,
    control: &Control,
    progress: Progress<'_>,
) -> Result<WriteTimes, HostError> {
    let opened = Opened::to_write(device)?;
    held::same(&opened.path, identity, &block::identity(&opened.file, &opened.path)?)?;
    let hints = opened.hints()?;
    spec.check(hints.size_bytes, hints.sector_bytes)
        .map_err(|error| HostError::Senseless { what: format!("{}: {error}", opened.path.display()) })?;
    held::quiet_udev(&opened.file, &opened.path)?;
    let clock = opened.clock()?;
    let start_ns = clock.now_ns();
    let data = Xoshiro256PlusPlus::seed_from_u64(spec.seed);
    let mut writer = Writer { opened: &opened, clock, start_ns, data, control };
    writer.go_on()?;
    if spec.clear_ends {
        clear_ends(&opened, hints.size_bytes)?;
    } else {
        check_ends(&opened, hints.size_bytes)?;
    }
    let (mut times, mut done) = (WriteTimes::default(), 0);
    let all = u64::try_from(spec.count()).unwrap_or(u64::MAX);
    for run in &spec.runs {
        times.runs.push(writer.run(run, &mut || {
            done += 1;
            progress(done, all);
        })?);
        times.written_bytes += run.writes.iter().map(|write| u64::from(write.length_bytes)).sum::<u64>();
    }
    Ok(times)
}

struct Writer<'a> {
    opened: &'a Opened,
    clock: Clock,
    start_ns: u64,
    data: Xoshiro256PlusPlus,
    control: &'a Control,
}

impl Writer<'_> {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.start_ns)
    }

    fn go_on(&self) -> Result<(), HostError> {
        if self.control.is_asked() && !self.control.wait(&|| false) {
            return Err(HostError::Ended { what: "timing writes" });
        }
        Ok(())
    }

    fn rest(&self, rest_ns: u64) -> Result<(), HostError> {
        let (started, rest) = (Instant::now(), Duration::from_nanos(rest_ns));
        while let Some(left) = rest.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) {
            self.go_on()?;
            std::thread::sleep(left.min(LOOK));
        }
        Ok(())
    }

    fn run(&mut self, run: &WriteRun, done: &mut dyn FnMut()) -> Result<WrittenRun, HostError> {
        let bytes = |length: u32| usize::try_from(length).unwrap_or(0);
        let lengths = run.writes.iter().map(|write| bytes(write.length_bytes));
        let mut buffer = AlignedBuffer::new(lengths.max().unwrap_or(0));
        // Random throughout, and then what makes the next write another one: filling all of it again takes as long as a fast drive.
        self.data.fill_bytes(&mut buffer);
        self.rest(run.rest_ns)?;
        let mut times = RunTimes::default();
        for write in &run.writes {
            self.go_on()?;
            let block = &mut buffer[..bytes(write.length_bytes)];
            for part in block.chunks_mut(UNLIKE_BYTES) {
                let stamp = self.data.next_u64().to_le_bytes();
                let length = stamp.len().min(part.len());
                part[..length].copy_from_slice(&stamp[..length]);
            }
            times.asked_ns.push(self.now_ns());
            self.opened.file.write_all_at(block, write.offset_bytes).map_err(self.failed())?;
            times.answered_ns.push(self.now_ns());
            done();
        }
        self.opened.file.sync_data().map_err(self.failed())?;
        Ok(WrittenRun { times, flushed_ns: self.now_ns() })
    }

    fn failed(&self) -> impl FnOnce(std::io::Error) -> HostError {
        HostError::file("write", &self.opened.path)
    }
}

/// Refuses a device at whose ends somebody wrote something since they were cleared: between two requests it can be mounted.
fn check_ends(opened: &Opened, size_bytes: u64) -> Result<(), HostError> {
    let mut buffer = AlignedBuffer::new(LOOK_BYTES);
    let length = buffer.len().min(usize::try_from(size_bytes).unwrap_or(usize::MAX));
    for at in [0, size_bytes - length as u64] {
        opened
            .file
            .read_exact_at(&mut buffer[..length], at)
            .map_err(HostError::file("read", &opened.path))?;
        if buffer[..length].iter().any(|byte| *byte != 0) {
            let what = "something was written to it since both of its ends were cleared".to_owned();
            return Err(HostError::Replaced { device: opened.path.clone(), what });
        }
    }
    Ok(())
}

/// Writes zeros where the safety rules look for somebody's data.
fn clear_ends(opened: &Opened, size_bytes: u64) -> Result<(), HostError> {
    let zeros = AlignedBuffer::new(CLEAR_BYTES);
    let (head, tail) = (HEAD_BYTES as u64, size_bytes.saturating_sub(TAIL_BYTES as u64));
    for (from, to) in [(0, head.min(size_bytes)), (tail, size_bytes)] {
        let mut at = from;
        while at < to {
            let length = usize::try_from(to - at).unwrap_or(usize::MAX).min(CLEAR_BYTES);
            opened.file.write_all_at(&zeros[..length], at).map_err(HostError::file("clear", &opened.path))?;
            at += length as u64;
        }
    }
    opened.file.sync_data().map_err(HostError::file("clear", &opened.path))
}

#[cfg(test)]
mod tests {
    use fsage_model::timed_read::BlockRange;

    use super::*;

    #[test]
    fn what_is_no_block_device_is_not_written() {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        std::fs::write(file.path(), vec![7; 8192]).unwrap();
        let spec = WriteSpec {
            runs: vec![WriteRun::at_once(vec![BlockRange::new(0, 4096)])],
            seed: 1,
            clear_ends: true,
        };
        let control = Control::new();
        for path in [Path::new("/dev/null"), Path::new("/dev/no-such"), Path::new("/"), file.path()] {
            let refused = time(path, &DeviceIdentity::default(), &spec, &control, &mut |_, _| {});
            assert!(
                matches!(refused, Err(HostError::Senseless { .. } | HostError::File { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(std::fs::read(file.path()).unwrap(), vec![7; 8192]);
    }
}
