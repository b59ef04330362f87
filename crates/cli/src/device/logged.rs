//! Reads of a recorded log, timed on a device: what a fitted model is compared with beside random reads.

use std::path::{Path, PathBuf};

use fsage_analysis::device_fit::held_out::HeldOut;
use fsage_analysis::device_fit::plan::{Kind, Plan, Planned, Subject};
use fsage_disk::log::LogError;
use fsage_disk::log::convert::{self, FileError, Options};
use fsage_disk::log::stream::{Item, Source};
use fsage_disk::request::Operation;
use fsage_model::problem::{EXIT_USAGE, Problem};
use fsage_model::timed_read::{BlockRange, ReadRun};
use serde::Serialize;

/// Most reads of a log that are timed: some 20 s of a hard disk if they are small.
const MOST_READS: usize = 2_000;

/// Bytes after which no further read is taken: some 10 s of a hard disk.
const MOST_BYTES: u64 = 1 << 30;

/// The first reads of a log that a device can do.
#[derive(Debug)]
pub(super) struct Logged {
    /// The log.
    pub log: PathBuf,
    /// Its reads, one after the other.
    pub plan: Plan,
    /// Reads between them that the device cannot do: beyond its end, not in whole sectors, or too long.
    pub left_out: u64,
}

/// How far the model is from the reads of a log.
#[derive(Debug, Serialize)]
pub(super) struct LoggedError {
    /// The log.
    pub log: PathBuf,
    /// Reads between them that the device cannot do.
    pub left_out: u64,
    /// The error.
    #[serde(flatten)]
    pub error: HeldOut,
}

/// The first reads of `log` that the device can do; what else is in the log is passed over.
pub(super) fn reads(log: &Path, device: &Path, subject: &Subject) -> Result<Logged, Problem> {
    let unread = |source| FileError::Read { path: log.to_owned(), source };
    let (reads, left_out) =
        first_reads(&mut convert::open(log, &Options::default())?, subject).map_err(unread)?;
    if reads.is_empty() {
        let message = format!("{} can do none of the reads in {}", device.display(), log.display());
        return Err(Problem::new(EXIT_USAGE, message).hint(
            "give a log with reads, recorded on a device that is not larger (`fsage disk log show` lists its requests)",
        ));
    }
    let runs = vec![Planned { kind: Kind::HeldOut, run: ReadRun::serial(reads) }];
    Ok(Logged { log: log.to_owned(), plan: Plan { runs }, left_out })
}

fn first_reads(source: &mut dyn Source, subject: &Subject) -> Result<(Vec<BlockRange>, u64), LogError> {
    let (mut reads, mut left_out, mut bytes, mut data) = (Vec::new(), 0, 0, Vec::new());
    while reads.len() < MOST_READS
        && bytes < MOST_BYTES
        && let Some(item) = source.next_item(&mut data)?
    {
        let Item::Entry(entry) = item else { continue };
        if entry.request.operation != Operation::Read {
            continue;
        }
        let length = u32::try_from(entry.request.length_bytes).unwrap_or(u32::MAX);
        let read = BlockRange::new(entry.request.offset_bytes, length);
        if read.fits(subject.size_bytes, subject.sector_bytes) {
            bytes += u64::from(length);
            reads.push(read);
        } else {
            left_out += 1;
        }
    }
    Ok((reads, left_out))
}

#[cfg(test)]
mod tests {
    use fsage_disk::log::stream::{LogSource, NoContents};
    use fsage_disk::log::{Entry, Geometry, Log};
    use fsage_disk::request::Request;

    use super::*;

    fn log(requests: &[(Operation, u64, u64)]) -> Log {
        let mut log = Log::new(Geometry { size_bytes: 1 << 40, block_bytes: 512 });
        for (operation, offset, length) in requests {
            log.push(&Entry::new(Request::new(*operation, *offset, *length)));
        }
        log
    }

    fn found(log: &Log) -> (Vec<BlockRange>, u64) {
        let subject = Subject { size_bytes: 1 << 30, sector_bytes: 4096, reads: 800, depths: true, seed: 1 };
        first_reads(&mut LogSource::new(log, NoContents), &subject).unwrap()
    }

    #[test]
    fn only_reads_that_the_device_can_do_are_taken_in_their_order() {
        let own = log(&[
            (Operation::Read, 8192, 4096),
            (Operation::Write, 0, 4096),
            (Operation::Read, 512, 4096),
            (Operation::Read, 4096, 65_536),
            (Operation::Read, 1 << 30, 4096),
            (Operation::Read, (1 << 30) - 4096, 8192),
            (Operation::Read, 0, 1 << 30),
            (Operation::Flush, 0, 0),
            (Operation::Read, 8192, 4096),
        ]);
        let wanted =
            [(8192, 4096), (4096, 65_536), (8192, 4096)].map(|(at, length)| BlockRange::new(at, length));
        assert_eq!(found(&own), (wanted.to_vec(), 4));
    }

    #[test]
    fn a_long_log_is_read_to_as_many_as_are_timed() {
        let reads: Vec<_> = (0..3_000).map(|n| (Operation::Read, 4096 * n, 4096)).collect();
        assert_eq!(found(&log(&reads)).0.len(), MOST_READS);
        let large: Vec<_> = (0..100).map(|n| (Operation::Read, n << 20, 16 << 20)).collect();
        assert_eq!(found(&log(&large)).0.len(), 64);
        assert!(found(&log(&[(Operation::Write, 0, 4096)])).0.is_empty());
    }
}
