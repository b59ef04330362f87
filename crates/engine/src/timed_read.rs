//! Reads of a block device or a file that are timed one by one, past the page cache: by wall-clock time, or by the disk's own on a
//! virtual disk in model time. Nothing is written: it is opened for reading alone.
//!
//! A run at depth `q` has `q` threads with one read each, as the kernel's block layer sees no difference to a queue of one thread.
//! Known error: a thread that is woken adds its own latency, some 10 µs on an idle host, to every read.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use fsage_model::timed_read::{BlockRange, ReadRun, ReadSpec, ReadTimes, Readable, RunTimes};
use fsage_sys::aligned::AlignedBuffer;
use rustix::fs::OFlags;

use crate::disk::{Clock, VirtualDisk};
use crate::geometry::{Opened, Progress};
use crate::host::HostError;
use crate::load::Control;

/// What there is to be read.
///
/// # Errors
/// It is neither a block device nor a file without holes, or cannot be opened past the page cache.
pub fn hints(path: &Path) -> Result<Readable, HostError> {
    // What it is comes first: the kernel refuses direct I/O of what is no device with a word that explains nothing.
    Opened::any(path, OFlags::empty())?;
    let opened = Opened::any(path, OFlags::DIRECT)?;
    let disk = VirtualDisk::of_device(&opened.path);
    let keeps_model_time = opened.clock()?.is_model();
    Ok(Readable {
        hints: opened.hints()?,
        is_file: opened.is_file,
        is_virtual: disk.is_some(),
        keeps_model_time,
    })
}

/// Does the reads of `spec`, run after run.
///
/// # Errors
/// It is no such device or file, or cannot be read; `spec` does not fit it; [`HostError::Ended`] when the end is asked.
pub fn time(
    path: &Path,
    spec: &ReadSpec,
    control: &Control,
    progress: Progress<'_>,
) -> Result<ReadTimes, HostError> {
    let opened = Opened::any(path, OFlags::DIRECT)?;
    let hints = opened.hints()?;
    spec.check(hints.size_bytes, hints.sector_bytes)
        .map_err(|error| HostError::Senseless { what: format!("{}: {error}", opened.path.display()) })?;
    let clock = opened.clock()?;
    let reader = Reader { opened: &opened, start_ns: clock.now_ns(), clock, control };
    let (mut times, mut done) = (ReadTimes::default(), 0);
    let all = u64::try_from(spec.count()).unwrap_or(u64::MAX);
    for run in &spec.runs {
        let mut count = |reads: u64| progress(done + reads, all);
        times.runs.push(reader.run(run, &mut count)?);
        done += u64::try_from(run.reads.len()).unwrap_or(0);
        times.read_bytes += run.reads.iter().map(|read| u64::from(read.length_bytes)).sum::<u64>();
    }
    Ok(times)
}

struct Reader<'a> {
    opened: &'a Opened,
    clock: Clock,
    start_ns: u64,
    control: &'a Control,
}

impl Reader<'_> {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.start_ns)
    }

    fn run(&self, run: &ReadRun, progress: &mut dyn FnMut(u64)) -> Result<RunTimes, HostError> {
        if run.depth <= 1 { self.serial(&run.reads, progress) } else { self.parallel(run, progress) }
    }

    fn is_over(&self) -> bool {
        self.control.is_asked() && !self.control.wait(&|| false)
    }

    fn read(&self, buffer: &mut AlignedBuffer, read: BlockRange) -> Result<(u64, u64), HostError> {
        let length = usize::try_from(read.length_bytes).unwrap_or(usize::MAX).min(buffer.len());
        let asked_ns = self.now_ns();
        self.opened
            .file
            .read_exact_at(&mut buffer[..length], read.offset_bytes)
            .map_err(|error| HostError::file("read", &self.opened.path)(error))?;
        Ok((asked_ns, self.now_ns()))
    }

    fn serial(&self, reads: &[BlockRange], progress: &mut dyn FnMut(u64)) -> Result<RunTimes, HostError> {
        let mut buffer = AlignedBuffer::new(largest(reads));
        let mut times = RunTimes::default();
        for (done, read) in (1..).zip(reads) {
            if self.is_over() {
                return Err(HostError::Ended { what: "timing reads" });
            }
            let (asked_ns, answered_ns) = self.read(&mut buffer, *read)?;
            times.asked_ns.push(asked_ns);
            times.answered_ns.push(answered_ns);
            progress(done);
        }
        Ok(times)
    }

    fn parallel(&self, run: &ReadRun, progress: &mut dyn FnMut(u64)) -> Result<RunTimes, HostError> {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let done = AtomicU64::new(0);
        let worker = || {
            let mut buffer = AlignedBuffer::new(largest(&run.reads));
            let mut taken = Vec::new();
            while !failed.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(read) = run.reads.get(number) else { break };
                let result = if self.is_over() {
                    Err(HostError::Ended { what: "timing reads" })
                } else {
                    self.read(&mut buffer, *read)
                };
                match result {
                    Ok(times) => taken.push((number, times)),
                    Err(error) => {
                        failed.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(taken)
        };
        let count = run.reads.len();
        let mut times = RunTimes { asked_ns: vec![0; count], answered_ns: vec![0; count] };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..run.depth).map(|_| scope.spawn(worker)).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                progress(done.load(Ordering::Relaxed));
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            for worker in workers {
                let taken = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                for (number, (asked_ns, answered_ns)) in taken {
                    (times.asked_ns[number], times.answered_ns[number]) = (asked_ns, answered_ns);
                }
            }
            Ok(())
        })?;
        Ok(times)
    }
}

fn largest(reads: &[BlockRange]) -> usize {
    reads.iter().map(|read| usize::try_from(read.length_bytes).unwrap_or(0)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with all of its blocks, on a file system with direct I/O.
    fn file(bytes: usize) -> Option<tempfile::NamedTempFile> {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        std::fs::write(file.path(), vec![7; bytes]).unwrap();
        file.as_file().sync_all().unwrap();
        let is_direct = Opened::any(file.path(), OFlags::DIRECT).is_ok();
        if !is_direct {
            crate::skip::skip("the file system of the source has no direct I/O");
        }
        is_direct.then_some(file)
    }

    #[test]
    fn every_read_has_its_times_at_every_depth() {
        let Some(file) = file(1 << 20) else { return };
        let readable = hints(file.path()).unwrap();
        assert!(readable.is_file && !readable.is_virtual && readable.hints.size_bytes == 1 << 20);
        let reads: Vec<BlockRange> = (0..64).map(|n| BlockRange::new(n * 8192, 4096)).collect();
        let run = |depth| ReadRun { depth, reads: reads.clone() };
        let spec = ReadSpec { runs: vec![run(1), run(4), run(1)] };
        let mut seen = Vec::new();
        let times =
            time(file.path(), &spec, &Control::new(), &mut |done, all| seen.push((done, all))).unwrap();
        assert_eq!((times.read_bytes, times.runs.len()), (3 * 64 * 4096, 3));
        for run in &times.runs {
            assert!(run.asked_ns.len() == 64 && run.answered_ns.len() == 64);
            assert!(run.asked_ns.iter().zip(&run.answered_ns).all(|(asked, answered)| asked < answered));
        }
        let serial = &times.runs[2];
        assert!(serial.answered_ns.iter().zip(&serial.asked_ns[1..]).all(|(before, asked)| before <= asked));
        assert!(times.runs[1].elapsed_ns() > 0 && seen.last() == Some(&(192, 192)), "{:?}", seen.last());
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_an_end_is_an_end() {
        assert!(matches!(hints(Path::new("/dev/null")), Err(HostError::Senseless { .. })));
        assert!(hints(Path::new("/")).is_err());
        let Some(file) = file(1 << 16) else { return };
        let spec = |offset| ReadSpec { runs: vec![ReadRun::serial(vec![BlockRange::new(offset, 4096)])] };
        let refused = time(file.path(), &spec(1 << 16), &Control::new(), &mut |_, _| {});
        assert!(matches!(refused, Err(HostError::Senseless { .. })), "{refused:?}");
        let stopped = Control::new();
        stopped.stop();
        for depth in [1, 4] {
            let spec = ReadSpec { runs: vec![ReadRun { depth, ..spec(0).runs[0].clone() }] };
            let ended = time(file.path(), &spec, &stopped, &mut |_, _| {});
            assert!(matches!(ended, Err(HostError::Ended { .. })), "{ended:?}");
        }
        file.as_file().set_len(1 << 20).unwrap();
        let holes = hints(file.path());
        assert!(matches!(&holes, Err(HostError::Senseless { what }) if what.contains("holes")), "{holes:?}");
    }
}
