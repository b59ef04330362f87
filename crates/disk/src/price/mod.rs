//! What the requests of a log would take on another medium, without running the kernel again.
//!
//! The log is run through the model of the medium as a **closed loop**: a request is asked when what it
//! waited for on the recorded disk is answered by the medium that is priced, and so much later as it came
//! after that answer. Requests that came together come together. What waited for what follows from the disk's
//! clock in the log (`segment`): after a moment at which the disk was idle, a request waits for all before
//! it; otherwise for the request that was answered last when it came.
//!
//! **A log of a virtual disk** consists of batches, and the next one comes when the last answer of the one
//! before is given (the queueing rule of [`crate::media`]). Its times on the recorded medium are repeated to
//! the nanosecond if the log began with the disk, no fault slowed requests, and rests of the medium are
//! marked ([`OwnMark::Rest`]).
//!
//! **What it gets wrong.** The requests are those recorded: a file system or a load that would ask something
//! else because answers come sooner or later (write-back by time, read-ahead, who wins a race) is not seen.
//! Where a device had a queue of its own, a request that two others could have triggered waits for the wrong
//! one if these change places; and one that joins requests in service is served behind them, so a hard disk
//! chooses only among requests that came together. What lay on the medium before the log began is unknown:
//! it is as new.
//!
//! Memory: one segment, which of a log of a virtual disk is one batch. Time: that of the model and of reading
//! the log.

mod class;
mod latency;
mod reads;
mod segment;
mod sum;
mod vary;

pub use class::check as check_class;
pub use reads::{PricedRead, serial_reads};
pub use sum::{Deviation, Interval, KindTimes, Priced};
pub use vary::{Variation, Varied, variations};

use fsage_model::problem::{EXIT_DAMAGE, EXIT_USAGE, Explain};

use self::segment::Segment;
use self::sum::{Moment, Sums};
use crate::log::own::OwnMark;
use crate::log::stream::{Item, Source};
use crate::log::{Entry, LogError};
use crate::media::Model;

/// Latest time in a log: 36 years. What lies beyond is damaged, and would overflow a model's clock.
const LATEST_NS: u64 = 1 << 60;

/// Why a log has no price.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It is of a disk that looks different to the kernel.
    #[error(
        "a log of `{recorded}` cannot be priced on `{wanted}`: the one is {}, the other is {}",
        class(*recorded_turns),
        class(!*recorded_turns)
    )]
    Class {
        /// The medium recorded.
        recorded: String,
        /// The medium asked for.
        wanted: String,
        /// Whether the first turns.
        recorded_turns: bool,
    },
    /// A time that no disk has.
    #[error("entry {number} was served at {time_ns} ns, which is not a time of the disk")]
    Time {
        /// The entry.
        number: u64,
        /// Its time.
        time_ns: u64,
    },
    /// Of a drive with partitions.
    #[error("the log is of a drive with the partitions {partitions}, and only one volume can be priced")]
    Partitions {
        /// As flags name them.
        partitions: String,
    },
    /// Requests without a pause, or marks, that do not fit into memory.
    #[error("the log has too many {what} up to entry {number}: at most {most}")]
    Many {
        /// What of.
        what: &'static str,
        /// The entry.
        number: u64,
        /// How many may be.
        most: usize,
    },
    /// Nothing to price.
    #[error("the log holds no requests")]
    Empty,
}

/// Most requests of one segment, which is in memory as a whole: some 128 bytes each.
const MOST_WITHOUT_PAUSE: usize = 16_000_000;

/// Most marks: each is an interval of the answer.
const MOST_MARKS: usize = 100_000;

const fn class(turns: bool) -> &'static str {
    if turns { "rotational" } else { "not rotational" }
}

impl Explain for PriceError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Log(source) => source.exit_code(),
            Self::Class { .. } | Self::Partitions { .. } | Self::Many { .. } | Self::Empty => EXIT_USAGE,
            Self::Time { .. } => EXIT_DAMAGE,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Log(source) => source.hint(),
            Self::Class { wanted, .. } => Some(format!(
                "file systems place data by it, so the requests would be others: record a log on a disk of `{wanted}` or of a medium of its class"
            )),
            Self::Partitions { .. } => Some(
                "run the load on that medium: `fsage disk up NAME --medium MEDIUM --partition …`".to_owned(),
            ),
            Self::Many { .. } => {
                Some("save a shorter part of the log: `fsage disk log save --help`".to_owned())
            }
            Self::Time { .. } => Some("save or convert the log again".to_owned()),
            Self::Empty => Some("start the log before the requests of interest".to_owned()),
        }
    }
}

/// The medium that a log says it was recorded on, as a flag names it; reads `source` up to the first request.
///
/// # Errors
/// Those of the source.
pub fn recorded_medium(source: &mut dyn Source) -> Result<Option<String>, LogError> {
    let mut data = Vec::new();
    while let Some(Item::Mark(mark)) = source.next_item(&mut data)? {
        if let Some(OwnMark::Medium(medium)) = OwnMark::read(&mark.name) {
            return Ok(Some(medium.to_owned()));
        }
    }
    Ok(None)
}

/// Runs the requests of `source`, from its beginning, through `medium`, which is new.
///
/// # Errors
/// Those of the source; a time that no disk has; no requests; too many without a pause, or marks.
pub fn price(source: &mut dyn Source, medium: &mut impl Model) -> Result<Priced, PriceError> {
    let mut pricer =
        Pricer { medium, segment: Segment::default(), sums: Sums::new(), rests: false, marks: Vec::new() };
    let (mut data, mut number, mut marks) = (Vec::new(), 0, 0);
    while let Some(item) = source.next_item(&mut data)? {
        match item {
            Item::Entry(entry) => {
                if let Some(time_ns) = [entry.issued_ns, entry.done_ns].into_iter().find(|ns| *ns > LATEST_NS)
                {
                    return Err(PriceError::Time { number, time_ns });
                }
                pricer.entry(&entry);
                if pricer.segment.asked().len() > MOST_WITHOUT_PAUSE {
                    return Err(PriceError::Many {
                        what: "requests without a pause",
                        number,
                        most: MOST_WITHOUT_PAUSE,
                    });
                }
                number += 1;
            }
            Item::Mark(mark) => {
                if let Some(OwnMark::Partitions(partitions)) = OwnMark::read(&mark.name) {
                    return Err(PriceError::Partitions { partitions: partitions.to_owned() });
                }
                if marks == MOST_MARKS {
                    return Err(PriceError::Many { what: "marks", number, most: MOST_MARKS });
                }
                marks += 1;
                pricer.mark(mark.name);
            }
        }
    }
    pricer.serve();
    if number == 0 {
        return Err(PriceError::Empty);
    }
    Ok(pricer.sums.finish(pricer.medium.counters()))
}

struct Pricer<'a, M> {
    medium: &'a mut M,
    segment: Segment,
    sums: Sums,
    /// The medium is brought to rest before the next segment.
    rests: bool,
    /// Marks of the user in the segment, each with the requests of the segment before it.
    marks: Vec<(usize, String)>,
}

impl<M: Model> Pricer<'_, M> {
    fn entry(&mut self, entry: &Entry) {
        if !self.segment.includes(entry) {
            self.serve();
        }
        self.segment.push(entry);
    }

    fn mark(&mut self, name: String) {
        match OwnMark::read(&name) {
            Some(OwnMark::Medium(_) | OwnMark::Partitions(_)) => {}
            Some(OwnMark::Rest) => {
                self.serve();
                self.rests = true;
            }
            None => self.marks.push((self.segment.asked().len(), name)),
        }
    }

    /// Serves what was collected, and adds it up with its marks.
    fn serve(&mut self) {
        if !self.segment.is_empty() {
            let start_ns = self.start_ns();
            self.segment.serve(self.medium, start_ns);
        }
        let mut marks = self.marks.drain(..).peekable();
        for (number, asked) in self.segment.asked().iter().enumerate() {
            while let Some((_, name)) = marks.next_if(|(position, _)| *position <= number) {
                self.sums.mark(&name);
            }
            self.sums.add(asked);
        }
        for (_, name) in marks {
            self.sums.mark(&name);
        }
        self.segment.clear();
    }

    /// When the segment begins on the medium: so long after everything before it as it did when recorded, or
    /// when the medium has come to rest.
    fn start_ns(&mut self) -> u64 {
        let issued_ns = self.segment.issued_ns();
        let rests = std::mem::take(&mut self.rests);
        if !self.sums.has_begun() {
            self.sums.begin(Moment { recorded_ns: issued_ns, priced_ns: issued_ns });
            return issued_ns;
        }
        let Moment { recorded_ns, priced_ns } = self.sums.now;
        if rests {
            let rested_ns = self.medium.rest(priced_ns).max(priced_ns);
            self.sums.rested(Moment { recorded_ns: issued_ns, priced_ns: rested_ns });
            return rested_ns;
        }
        priced_ns.saturating_add(issued_ns.saturating_sub(recorded_ns))
    }
}

#[cfg(test)]
mod tests;
