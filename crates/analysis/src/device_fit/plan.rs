//! Which reads are timed. What a run is for is its [`Kind`]; the runs are in random order, so that what drifts falls on all of
//! them alike, and places are random.

use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::timed_read::{BlockRange, ReadRun, ReadSpec, ReadTimes, RunTimes};

use super::FitError;
use crate::dice::Dice;

/// Fewest and most random reads that are asked for.
pub const READS: std::ops::RangeInclusive<u32> = 100..=20_000;
/// Least size of a hard disk that is fitted: below, the places of the runs meet.
pub const LEAST_HDD_BYTES: u64 = 1 << 30;
/// The same of a drive without platters.
pub const LEAST_SSD_BYTES: u64 = 256 << 20;
/// Depths at which random reads of an SSD are timed.
pub const SSD_DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The same of a hard disk.
pub const HDD_DEPTHS: [u32; 3] = [1, 4, 16];

/// Bytes of a small read, on devices with sectors of up to that.
pub const SMALL: u32 = 4096;
/// Bytes of a read that the interface takes its time over.
pub const LARGE: u32 = 256 << 10;
/// Bytes of each of sequential reads.
pub const PIECE: u32 = 1 << 20;
/// Bytes of a page at least, within which two reads of SSDs differ by the time of the channel alone.
pub const PAGE: u32 = 16 << 10;

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Small reads, each in front of the one before: the platters turn once in between.
    Backward,
    /// Sequential reads at a place, one or so many at a time.
    Sequential {
        /// Reads at a time.
        depth: u32,
    },
    /// Small reads at random places.
    Random {
        /// Reads at a time.
        depth: u32,
    },
    /// Small reads after seeks over chosen distances.
    Seek,
    /// A read and the same again, small and large by turns.
    Again,
    /// Sequential reads, then their beginning again.
    Behind {
        /// Bytes of the sequence.
        bytes: u64,
    },
    /// Small reads at so many places, then the first again.
    Places {
        /// How many.
        count: u32,
    },
    /// Reads of a page at random places.
    Page,
    /// A mixture that is not used for the fit.
    HeldOut,
}

/// A run and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What for.
    pub kind: Kind,
    /// The reads.
    pub run: ReadRun,
}

/// All runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are done.
    pub runs: Vec<Planned>,
}

/// What a plan depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// Size of the device.
    pub size_bytes: u64,
    /// Its sector.
    pub sector_bytes: u32,
    /// About how many random reads.
    pub reads: u32,
    /// Whether reads at a depth above 1 are timed.
    pub depths: bool,
    /// Random seed.
    pub seed: u64,
}

impl Subject {
    fn check(&self, least_bytes: u64) -> Result<(), FitError> {
        if !READS.contains(&self.reads) {
            return Err(FitError::Reads { reads: self.reads, least: *READS.start(), most: *READS.end() });
        }
        if self.size_bytes < least_bytes {
            return Err(FitError::Small { size_bytes: self.size_bytes, least_bytes });
        }
        Ok(())
    }

    /// Bytes of a small read.
    #[must_use]
    pub fn small(&self) -> u32 {
        SMALL.max(self.sector_bytes)
    }

    /// Random choices of a plan.
    pub(super) fn dice(&self, salt: u64) -> Dice {
        Dice::new(self.seed ^ salt)
    }

    fn maker(&self, salt: u64) -> Maker {
        Maker { subject: *self, dice: self.dice(salt), runs: Vec::new() }
    }
}

impl Plan {
    /// What the agent is asked for.
    #[must_use]
    pub fn spec(&self) -> ReadSpec {
        ReadSpec { runs: self.runs.iter().map(|planned| planned.run.clone()).collect() }
    }

    /// Each run with its times.
    ///
    /// # Errors
    /// They are not those of this plan.
    pub fn with<'a>(&'a self, times: &'a ReadTimes) -> Result<Vec<Timed<'a>>, FitError> {
        let fits = self.runs.len() == times.runs.len()
            && self.runs.iter().zip(&times.runs).all(|(planned, times)| {
                let reads = planned.run.reads.len();
                times.asked_ns.len() == reads && times.answered_ns.len() == reads
            });
        if !fits {
            return Err(FitError::Runs { found: times.runs.len(), planned: self.runs.len() });
        }
        let timed = |(planned, times): (&'a Planned, &'a RunTimes)| Timed {
            kind: planned.kind,
            reads: &planned.run.reads,
            times,
        };
        Ok(self.runs.iter().zip(&times.runs).map(timed).collect())
    }
}

/// A run with its times.
#[derive(Debug, Clone, Copy)]
pub struct Timed<'a> {
    /// What it was for.
    pub kind: Kind,
    /// The reads.
    pub reads: &'a [BlockRange],
    /// As many.
    pub times: &'a RunTimes,
}

impl Timed<'_> {
    /// How long each read took, in ns.
    #[must_use]
    pub fn taken(&self) -> Vec<f64> {
        self.times.taken_ns().map(as_f64).collect()
    }

    /// Bytes per second from the first answer to the last, where the first read only began it; with several at a time from the
    /// first question, because at the first answer the others are partly done. `None` without time.
    #[must_use]
    pub fn stream_rate(&self) -> Option<f64> {
        let alone = !matches!(self.kind, Kind::Sequential { depth } if depth > 1);
        let begin = if alone { &self.times.answered_ns } else { &self.times.asked_ns };
        let (first, last) = (begin.iter().min()?, self.times.answered_ns.iter().max()?);
        let bytes: u64 =
            self.reads.iter().skip(usize::from(alone)).map(|read| u64::from(read.length_bytes)).sum();
        (last > first && bytes > 0).then(|| as_f64(bytes) * 1e9 / as_f64(last - first))
    }
}

struct Maker {
    subject: Subject,
    dice: Dice,
    runs: Vec<Planned>,
}

impl Maker {
    fn push(&mut self, kind: Kind, depth: u32, reads: Vec<BlockRange>) {
        self.runs.push(Planned { kind, run: ReadRun { depth, reads } });
    }

    /// A random place for so many bytes.
    fn place(&mut self, bytes: u64, align: u32) -> u64 {
        let last = self.subject.size_bytes.saturating_sub(bytes);
        self.dice.place(0, last, u64::from(align))
    }

    fn random(&mut self, length: u32) -> BlockRange {
        BlockRange::new(self.place(u64::from(length), length), length)
    }

    fn sequence(start: u64, length: u32, many: u64) -> Vec<BlockRange> {
        (0..many).map(|n| BlockRange::new(start + n * u64::from(length), length)).collect()
    }

    /// The reads in pieces of some 30, each a run, so that they lie between the others.
    fn pieces(&mut self, kind: Kind, reads: &[BlockRange]) {
        for piece in reads.chunks(30) {
            self.push(kind, 1, piece.to_vec());
        }
    }

    fn finish(mut self) -> Plan {
        self.dice.shuffle(&mut self.runs);
        Plan { runs: self.runs }
    }

    /// Small reads whose predecessors are so far away that all parts of the seek curve have some.
    fn seeks(&mut self, many: u32) {
        let (size, small) = (self.subject.size_bytes, u64::from(self.subject.small()));
        let mut reads = Vec::new();
        let mut at = self.place(small, self.subject.small());
        for _ in 0..many {
            let draw = self.dice.unit();
            at = if draw < 0.6 {
                self.place(small, self.subject.small())
            } else if draw < 0.8 {
                // A short way, of any order of magnitude from 1 MiB to a twentieth of the disk.
                let (least, most) = (as_f64(1 << 20), as_f64(size / 20));
                let way = to_u64(least * (most / least).powf(self.dice.unit())) / small * small;
                if at >= way && (self.dice.unit() < 0.5 || at + way + small > size) {
                    at - way
                } else {
                    at + way
                }
            } else {
                // To the other end.
                let end = size / 20;
                let from = if at < size / 2 { size - end - small } else { 0 };
                self.dice.place(from, from + end, small)
            };
            at = at.min(size - small) / small * small;
            reads.push(BlockRange::new(at, self.subject.small()));
        }
        self.pieces(Kind::Seek, &reads);
    }

    fn again(&mut self, many: u32, large: u32) {
        for _ in 0..many {
            let small = self.subject.small();
            let (a, b) = (self.random(small), self.random(large));
            self.push(Kind::Again, 1, vec![a, a, b, b]);
        }
    }

    fn depths(&mut self, depths: &[u32], many: u32) {
        let small = self.subject.small();
        // In two halves, which tell how much chance there is.
        for depth in depths.iter().chain(depths) {
            let reads = (0..(many / 2).max(2 * depth)).map(|_| self.random(small)).collect();
            self.push(Kind::Random { depth: *depth }, *depth, reads);
        }
    }
}

/// The reads that show the parameters of a hard disk.
///
/// # Errors
/// Too small a device, or a number of reads out of its range.
pub fn hdd(subject: Subject) -> Result<Plan, FitError> {
    subject.check(LEAST_HDD_BYTES)?;
    let mut maker = subject.maker(0x0068_6464);
    let (size, small) = (subject.size_bytes, u64::from(subject.small()));
    for _ in 0..4 {
        let from = maker.dice.place(size / 100, size / 20, small);
        let reads = (0..12).map(|n| BlockRange::new(from - n * small, subject.small())).collect();
        maker.push(Kind::Backward, 1, reads);
    }
    let (zones, piece) = (12, u64::from(PIECE));
    for zone in 0..zones {
        for repeat in 0..2 {
            let start = (size - 16 * piece) / (zones - 1) * zone / piece * piece + repeat * 8 * piece;
            maker.push(Kind::Sequential { depth: 1 }, 1, Maker::sequence(start, PIECE, 8));
        }
    }
    maker.seeks(subject.reads);
    maker.again(16, LARGE);
    for power in 18..=24 {
        for _ in 0..3 {
            let bytes = 1_u64 << power;
            let start = maker.place(bytes + piece, PIECE);
            let mut reads = Maker::sequence(start, LARGE, bytes / u64::from(LARGE));
            reads.push(BlockRange::new(start, subject.small()));
            maker.push(Kind::Behind { bytes }, 1, reads);
        }
    }
    for power in 1..=5 {
        for _ in 0..3 {
            let count = 1_u32 << power;
            let mut reads: Vec<BlockRange> = (0..count).map(|_| maker.random(subject.small())).collect();
            reads.push(reads[0]);
            maker.push(Kind::Places { count }, 1, reads);
        }
    }
    if subject.depths {
        maker.depths(&HDD_DEPTHS, subject.reads / 4);
    }
    Ok(maker.finish())
}

/// The reads that show the parameters of a drive without platters.
///
/// # Errors
/// Too small a device, or a number of reads out of its range.
pub fn ssd(subject: Subject) -> Result<Plan, FitError> {
    subject.check(LEAST_SSD_BYTES)?;
    let mut maker = subject.maker(0x0073_7364);
    let reads: Vec<BlockRange> = (0..subject.reads / 2).map(|_| maker.random(subject.small())).collect();
    maker.pieces(Kind::Random { depth: 1 }, &reads);
    maker.again(subject.reads / 16, PAGE.max(subject.sector_bytes));
    let page = PAGE.max(subject.sector_bytes);
    let reads: Vec<BlockRange> = (0..subject.reads / 4).map(|_| maker.random(page)).collect();
    maker.pieces(Kind::Page, &reads);
    let depths: &[u32] = if subject.depths { &[1, 8] } else { &[1] };
    for depth in depths {
        for _ in 0..4 {
            let start = maker.place(17 * u64::from(PIECE), PIECE);
            maker.push(Kind::Sequential { depth: *depth }, *depth, Maker::sequence(start, PIECE, 17));
        }
    }
    if subject.depths {
        maker.depths(&SSD_DEPTHS, subject.reads);
    }
    Ok(maker.finish())
}

/// Reads that are not used for the fit, one after the other: of 4 to 128 KiB, of which seven in ten are at random places, two near
/// the one before, and one follows it.
///
/// # Errors
/// Too small a device, or a number of reads out of its range.
pub fn held_out(subject: Subject) -> Result<Plan, FitError> {
    subject.check(LEAST_SSD_BYTES)?;
    let mut maker = subject.maker(0x6865_6c64);
    let (size, small) = (subject.size_bytes, u64::from(subject.small()));
    let mut reads: Vec<BlockRange> = Vec::new();
    for _ in 0..(subject.reads / 4).max(50) {
        let length = subject.small() << maker.dice.below(6);
        let last = reads.last().map_or(0, BlockRange::end_bytes);
        let most = size - u64::from(length);
        let draw = maker.dice.unit();
        let offset = if draw < 0.7 {
            maker.dice.place(0, most, small)
        } else if draw < 0.9 {
            let near = 32 << 20;
            maker.dice.place(last.saturating_sub(near).min(most), (last + near).min(most), small)
        } else {
            last.min(most) / small * small
        };
        reads.push(BlockRange::new(offset, length));
    }
    maker.push(Kind::HeldOut, 1, reads);
    Ok(maker.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(size_bytes: u64, sector_bytes: u32, seed: u64) -> Subject {
        Subject { size_bytes, sector_bytes, reads: 200, depths: true, seed }
    }

    #[test]
    fn every_read_lies_on_the_device_whatever_its_size() {
        for size in [1 << 30, (1 << 30) + 4096 * 7, 20_000_588_955_648, 3_000_001_536 / 4096 * 4096] {
            for (sector, seed) in [(512, 1), (4096, 2), (8192, 3)] {
                let size = size / u64::from(sector) * u64::from(sector);
                let subject = subject(size, sector, seed);
                for plan in [hdd(subject), ssd(subject), held_out(subject)] {
                    let plan = plan.unwrap();
                    assert_eq!(plan.spec().check(size, sector), Ok(()), "{size} {sector}");
                    assert!(plan.spec().count() >= 50);
                }
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_one_another() {
        let plans = |seed| [hdd, ssd, held_out].map(|plan| plan(subject(8 << 30, 512, seed)).unwrap());
        assert_eq!(plans(1), plans(1));
        for (one, other) in plans(1).iter().zip(&plans(2)) {
            assert_ne!(one, other);
        }
        let serial = Subject { depths: false, ..subject(8 << 30, 512, 1) };
        assert!(ssd(serial).unwrap().spec().runs.iter().all(|run| run.depth == 1));
    }

    #[test]
    fn what_cannot_be_fitted_is_refused_with_a_next_step() {
        use fsage_model::problem::{EXIT_USAGE, Explain as _};
        let few = Subject { reads: 20, ..subject(8 << 30, 512, 1) };
        for (error, said) in [
            (hdd(subject(100 << 20, 512, 1)).unwrap_err(), "100MiB is too small: at least 1GiB"),
            (ssd(subject(100 << 20, 512, 1)).unwrap_err(), "at least 256MiB"),
            (ssd(few).unwrap_err(), "20 reads are not between 100 and 20000"),
        ] {
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(error.exit_code(), EXIT_USAGE);
            assert!(error.hint().is_some());
        }
        let plan = ssd(subject(8 << 30, 512, 1)).unwrap();
        assert!(matches!(plan.with(&ReadTimes::default()), Err(FitError::Runs { found: 0, .. })));
    }
}
