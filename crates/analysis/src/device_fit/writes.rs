//! What the writes of a device show: the time of one into an empty buffer, what a flush costs, how much the buffer holds, how fast
//! it drains, and where a long sequence becomes slower.
//!
//! - **Single writes**, each flushed: into the buffer the time of a write; of a hard disk, write and flush together are the way to the
//!   place, on average the average seek and half a turn (and, on drives that write a map at every flush, that).
//! - **Sequences** after a rest, each flushed at its end. At first the buffer takes what arrives. When it is full, what is
//!   taken is what drains: from then on bytes over time are a line of that rate, whose value at the beginning is what the buffer
//!   holds, less what drains later than the first byte came. A sequence shows that only if its writes become slower once, and
//!   not again; sequences have to agree. Otherwise nothing is said.
//! - **Cliff.** The drain's rate falls for good: a cache of one bit a cell is full; or the drive has begun to collect garbage, or is hot.
//!   So what follows from it is called derived.
//!
//! Taken from the preset: how large a page is, how many planes a die has, how its cache is folded, and that a disk begins to write when
//! its buffer is half full. Intervals are from the least to the greatest of few sequences, and have what is not known of dies and of the
//! disk's beginning in them.

use fsage_model::medium::{Parameters, hdd, ssd};
use fsage_model::number::{bytes, percent};
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::timed_read::BlockRange;
use fsage_model::timed_write::{WriteRun, WriteTimes, WrittenRun};

use super::plan::{PIECE, Subject};
use super::{Fit, FitError, Origin, Parameter, resample};
use crate::stats::quantile::{count, mean, median, quantile};

/// Single writes.
const SINGLES: u32 = 120;
/// Sequences of each kind.
const SEQUENCES: u64 = 4;
/// Bytes of each write of a short sequence, which shows small buffers.
const FINE: u32 = 64 << 10;
/// Bytes of a short sequence.
const SHORT_BYTES: u64 = 64 << 20;
/// Bytes of all long sequences.
pub const BYTES: std::ops::RangeInclusive<u64> = 256 << 20..=512 << 30;
/// Rest before a sequence: buffers drain, and no drive that is known begins to tidy up.
const REST_NS: u64 = 500_000_000;
/// Fewest writes of a window that a sequence is looked at through, and most windows.
const WINDOW: usize = 4;
const WINDOWS: usize = 128;
/// How much slower writes have to become for a bend.
const BEND: f64 = 1.1;
/// How far the rates of both halves behind the bend may be apart.
const STEADY: f64 = 0.1;
/// How far what a sequence shows may be from the median of all.
const AGREEING: f64 = 0.15;
/// Fewest writes of a window of which a rate is taken to find a cliff, and most windows.
const CLIFF_WINDOW: usize = 8;
const CLIFF_WINDOWS: usize = 512;
/// A rate that falls below this share of the one before has fallen off the cliff.
const CLIFF: f64 = 0.75;
/// Most relative spread (quartiles) of single writes that is accepted.
const MOST_SPREAD: f64 = 0.5;

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One small write.
    Single,
    /// A short sequence of small pieces.
    Fine,
    /// A long sequence of large pieces.
    Long,
}

/// All writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritePlan {
    /// In the order in which they are done: single ones first, because what follows may fill a cache.
    pub runs: Vec<(Kind, Vec<BlockRange>)>,
}

/// The writes that show what reads do not: some `bytes` in long sequences, none of them in the first `head_bytes` or the last
/// `tail_bytes`.
///
/// # Errors
/// Too small a device for sequences of that length.
pub fn plan(
    subject: Subject,
    bytes: u64,
    (head_bytes, tail_bytes): (u64, u64),
) -> Result<WritePlan, FitError> {
    let long_bytes = bytes / SEQUENCES / u64::from(PIECE) * u64::from(PIECE);
    let room_bytes = subject.size_bytes.saturating_sub(head_bytes + tail_bytes);
    let least_bytes = (2 * long_bytes).max(2 * SHORT_BYTES);
    if room_bytes < least_bytes {
        let least_bytes = least_bytes + head_bytes + tail_bytes;
        return Err(FitError::Room { size_bytes: subject.size_bytes, least_bytes });
    }
    let mut dice = subject.dice(0x7772_6974);
    let mut place = |bytes: u64, align: u32| {
        let last = (head_bytes + room_bytes).saturating_sub(bytes);
        dice.place(head_bytes, last, u64::from(align))
    };
    let mut runs = Vec::new();
    for _ in 0..SINGLES {
        let small = subject.small();
        runs.push((Kind::Single, vec![BlockRange::new(place(small.into(), small), small)]));
    }
    for (kind, piece, length) in [(Kind::Fine, FINE, SHORT_BYTES), (Kind::Long, PIECE, long_bytes)] {
        for _ in 0..SEQUENCES {
            let (start, step) = (place(length, PIECE), u64::from(piece));
            runs.push((kind, (0..length / step).map(|n| BlockRange::new(start + n * step, piece)).collect()));
        }
    }
    Ok(WritePlan { runs })
}

impl WritePlan {
    /// What the agent is asked for.
    #[must_use]
    pub fn runs(&self) -> Vec<WriteRun> {
        let run = |(kind, writes): &(Kind, Vec<BlockRange>)| WriteRun {
            rest_ns: if *kind == Kind::Single { 0 } else { REST_NS },
            writes: writes.clone(),
        };
        self.runs.iter().map(run).collect()
    }

    /// Each run with its times.
    fn with<'a>(&'a self, times: &'a WriteTimes) -> Result<Vec<Written<'a>>, FitError> {
        let fits = self.runs.len() == times.runs.len()
            && self.runs.iter().zip(&times.runs).all(|((_, writes), run)| {
                run.times.asked_ns.len() == writes.len() && run.times.answered_ns.len() == writes.len()
            });
        if !fits {
            return Err(FitError::Runs { found: times.runs.len(), planned: self.runs.len() });
        }
        let written = |((kind, writes), run): (&'a (Kind, Vec<BlockRange>), &'a WrittenRun)| Written {
            kind: *kind,
            writes,
            run,
        };
        Ok(self.runs.iter().zip(&times.runs).map(written).collect())
    }
}

/// A run with its times.
#[derive(Debug, Clone, Copy)]
struct Written<'a> {
    kind: Kind,
    writes: &'a [BlockRange],
    run: &'a WrittenRun,
}

impl Written<'_> {
    fn asked_ns(&self) -> u64 {
        self.run.times.asked_ns.first().copied().unwrap_or(0)
    }

    fn answered_ns(&self) -> u64 {
        self.run.times.answered_ns.last().copied().unwrap_or(0)
    }

    /// From the first question to the last answer.
    fn taken_ns(&self) -> f64 {
        as_f64(self.answered_ns().saturating_sub(self.asked_ns()))
    }

    /// From the last answer on.
    fn flush_ns(&self) -> f64 {
        as_f64(self.run.flushed_ns.saturating_sub(self.answered_ns()))
    }

    /// From the first question to the end of the flush.
    fn durable_ns(&self) -> f64 {
        as_f64(self.run.flushed_ns.saturating_sub(self.asked_ns()))
    }

    /// How long each write took, from the answer before.
    fn steps_ns(&self) -> Vec<f64> {
        let answered = &self.run.times.answered_ns;
        let before = std::iter::once(self.asked_ns()).chain(answered.iter().copied());
        before.zip(answered).map(|(before, after)| as_f64(after.saturating_sub(before))).collect()
    }

    /// What the sequence shows, if its writes become slower once.
    fn sequence(&self) -> Option<Sequence> {
        let piece = f64::from(self.writes.first()?.length_bytes);
        let steps = self.steps_ns();
        let window = WINDOW.max(steps.len().div_ceil(WINDOWS));
        let windows: Vec<f64> = steps.chunks_exact(window).map(|steps| steps.iter().sum()).collect();
        let bend = bend(&windows)?;
        // The window behind it may have some of both.
        let from = (bend + 1) * window;
        let (before, tail) = steps.split_at_checked(from).filter(|(_, tail)| tail.len() >= 2 * window)?;
        let halves = tail.split_at(tail.len() / 2);
        let rate = |steps: &[f64]| piece * count(steps.len()) * 1e9 / steps.iter().sum::<f64>().max(1.0);
        let (first, second) = (rate(halves.0), rate(halves.1));
        let drain = rate(tail);
        let is_steady = (first - second).abs() <= STEADY * drain;
        let bytes = piece * count(before.len());
        let fill = piece * count(window) * 1e9 / median(&windows[..bend])?.max(1.0);
        is_steady.then(|| Sequence {
            piece,
            rate: drain,
            fill,
            held_bytes: bytes - drain * before.iter().sum::<f64>() / 1e9,
            bend_bytes: piece * count((bend + 1) * window),
            first_ns: steps.first().copied().unwrap_or(0.0),
            flush_ns: self.flush_ns(),
        })
    }
}

/// The number of windows before writes become slower: the two halves whose medians leave least (least absolute deviations,
/// which late answers do not move), where there are two windows before and a quarter of all behind.
fn bend(windows: &[f64]) -> Option<usize> {
    let left = |windows: &[f64]| {
        let middle = median(windows).unwrap_or(0.0);
        windows.iter().map(|one| (one - middle).abs()).sum::<f64>()
    };
    let last = windows.len().checked_sub(windows.len().div_ceil(4).max(2))?;
    let cost = |at: usize| left(&windows[..at]) + left(&windows[at..]);
    let best = (2..=last).min_by(|a, b| cost(*a).total_cmp(&cost(*b)))?;
    let (before, after) = (median(&windows[..best])?, median(&windows[best..])?);
    (after >= BEND * before).then_some(best)
}

/// What a sequence shows.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    /// Bytes of each write.
    piece: f64,
    /// Bytes per second behind the bend.
    rate: f64,
    /// Bytes per second before it.
    fill: f64,
    /// Bytes that were taken more than the rate explains.
    held_bytes: f64,
    /// Bytes that were taken up to the bend, at most.
    bend_bytes: f64,
    /// What the first write took.
    first_ns: f64,
    flush_ns: f64,
}

/// The buffer and what drains it.
#[derive(Debug)]
struct Buffer {
    sequences: Vec<Sequence>,
    /// Bytes per second.
    rate: f64,
}

/// Adds to a fit what writes show; what they do not show stays as it is.
///
/// # Errors
/// The times are not those of the plan, or vary too much.
pub fn refine(
    fit: &mut Fit,
    subject: &Subject,
    plan: &WritePlan,
    times: &WriteTimes,
    preset: &Parameters,
) -> Result<(), FitError> {
    let runs = plan.with(times)?;
    let of = |kind: Kind| runs.iter().filter(move |run| run.kind == kind);
    let singles: Vec<&Written<'_>> = of(Kind::Single).collect();
    let cliff = cliff(&runs);
    // Behind a cliff another rate drains the buffer.
    let before = cliff.map_or(usize::MAX, |cliff| cliff.sequences);
    let buffer = |kind: Kind, most: usize| {
        let runs: Vec<&Written<'_>> = of(kind).take(most).collect();
        buffer(&runs)
    };
    // The finer the pieces, the more exactly a small buffer shows; a large one shows in long sequences only.
    match preset {
        Parameters::Hdd(preset) => {
            disk(fit, &singles, buffer(Kind::Long, usize::MAX).as_ref(), preset);
            Ok(())
        }
        Parameters::Ssd(preset) => {
            let found = buffer(Kind::Fine, usize::MAX).or_else(|| buffer(Kind::Long, before));
            flash(fit, subject, &singles, (found.as_ref(), cliff), preset)
        }
        _ => Ok(()),
    }
}

/// What most sequences show: those near the median of all, if these are more than half. A late answer near the bend spoils one.
fn buffer(runs: &[&Written<'_>]) -> Option<Buffer> {
    let mut sequences: Vec<Sequence> = runs.iter().filter_map(|run| run.sequence()).collect();
    let middle = median(&sequences.iter().map(|one| one.held_bytes).collect::<Vec<_>>())?;
    sequences
        .retain(|one| one.held_bytes > one.piece && (one.held_bytes - middle).abs() <= AGREEING * middle);
    let rate = median(&sequences.iter().map(|one| one.rate).collect::<Vec<_>>())?;
    (2 * sequences.len() > runs.len()).then_some(Buffer { sequences, rate })
}

/// Where the rate falls for good.
#[derive(Debug, Clone, Copy)]
struct Cliff {
    /// Bytes that all writes had brought by then.
    bytes: f64,
    /// Long sequences that ended before it.
    sequences: usize,
    /// Bytes per second behind it.
    rate: f64,
}

/// Rates over the long sequences, window by window: the bytes that were written before, the sequence, and bytes per second.
fn windows(runs: &[Written<'_>]) -> Vec<(f64, usize, f64)> {
    let writes = runs.iter().filter(|run| run.kind == Kind::Long).map(|run| run.writes.len()).sum::<usize>();
    let window = CLIFF_WINDOW.max(writes.div_ceil(CLIFF_WINDOWS));
    let mut written = 0.0;
    let mut found = Vec::new();
    let mut sequence = 0;
    for run in runs {
        let answered = &run.run.times.answered_ns;
        let mut begin_ns = run.asked_ns();
        for (index, writes) in run.writes.chunks(window).enumerate() {
            let bytes: f64 = writes.iter().map(|write| f64::from(write.length_bytes)).sum();
            let end_ns = answered[index * window + writes.len() - 1];
            if run.kind == Kind::Long {
                found.push((written, sequence, bytes * 1e9 / as_f64(end_ns.saturating_sub(begin_ns).max(1))));
            }
            written += bytes;
            begin_ns = end_ns;
        }
        sequence += usize::from(run.kind == Kind::Long);
    }
    found
}

/// The first window from which on nearly all are slower than those before.
fn cliff(runs: &[Written<'_>]) -> Option<Cliff> {
    let windows = windows(runs);
    let rates: Vec<f64> = windows.iter().map(|window| window.2).collect();
    let least = windows.len().div_ceil(8);
    (least..windows.len().saturating_sub(least)).find_map(|index| {
        let before = median(&rates[..index])?;
        let is_slow = |rate: f64| rate < CLIFF * before;
        let later = &rates[index..];
        let slow = later.iter().filter(|rate| is_slow(**rate)).count();
        let is_cliff = is_slow(rates[index]) && 10 * slow >= 9 * later.len();
        let (bytes, sequences, _) = windows[index];
        is_cliff.then_some(Cliff { bytes, sequences, rate: median(later)? })
    })
}

/// A parameter of few sequences: the median, from the least to the greatest, or derived of fewer than three.
fn of_few(key: &'static str, values: &[f64], (low, high): (f64, f64), how: String) -> Parameter {
    let value = to_u64(median(values).unwrap_or(0.0));
    if values.len() < 3 {
        return Parameter::derived(key, value, how);
    }
    Parameter::measured(key, value, (low.max(0.0), high.max(0.0)), how)
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)))
}

fn slows_down(buffer: &Buffer) -> String {
    format!(
        "{} sequences of writes take so much before they slow down to {:.1} MB/s",
        buffer.sequences.len(),
        buffer.rate / 1e6
    )
}

fn spread(samples: &[f64]) -> f64 {
    let [low, middle, high] = [0.25, 0.5, 0.75].map(|q| quantile(samples, q).unwrap_or(0.0));
    (high - low) / middle.max(1.0)
}

fn disk(fit: &mut Fit, singles: &[&Written<'_>], buffer: Option<&Buffer>, preset: &hdd::Parameters) {
    let number = |fit: &Fit, key: &str, preset: u64| as_f64(fit.number(key).unwrap_or(preset));
    let turn_ns = 60e9 / number(fit, "rpm", preset.rpm).max(1.0);
    let command_ns = number(fit, "command_ns", preset.command_ns);
    let read_ns = number(fit, "average_seek_ns", preset.average_seek_ns);
    let ways: Vec<f64> =
        singles.iter().map(|one| one.durable_ns() - turn_ns / 2.0 - 2.0 * command_ns).collect();
    let seek_ns = mean(&ways).unwrap_or(0.0);
    if seek_ns < read_ns / 2.0 {
        fit.notes.push(
            "a write with its flush takes less than a seek: the flush does not reach the platters, so write seeks are the preset's"
                .to_owned(),
        );
    } else {
        write_seeks(fit, &ways, seek_ns, read_ns);
    }
    let middle = |ns: Vec<f64>| median(&ns).unwrap_or(0.0);
    let taken_ns = middle(singles.iter().map(|one| one.taken_ns()).collect());
    let flush_ns = middle(singles.iter().map(|one| one.flush_ns()).collect());
    let is_through = taken_ns > turn_ns / 4.0 && flush_ns < taken_ns / 4.0;
    match buffer {
        _ if is_through => {
            let how = "a write takes as long as one with its flush";
            fit.put(Parameter::measured("write_cache_bytes", 0, (0.0, 0.0), how));
        }
        Some(buffer) => fit.put(disk_cache(buffer, seek_ns.max(read_ns) + turn_ns / 2.0)),
        None => fit.notes.push(NO_BUFFER.to_owned()),
    }
}

/// Nothing was found.
const NO_BUFFER: &str = "too few sequences of writes become slower, once and at the same place: write buffer and drain are the preset's";

/// What an average write needs more than an average read is added to all seeks.
fn write_seeks(fit: &mut Fit, ways: &[f64], seek_ns: f64, read_ns: f64) {
    let more_ns = (seek_ns - read_ns).max(0.0);
    for (key, read) in
        [("track_to_track_write_ns", "track_to_track_ns"), ("full_stroke_write_ns", "full_stroke_ns")]
    {
        if let Some(read_ns) = fit.number(read) {
            let how = "the read's, and what an average write needs more";
            fit.put(Parameter::assumed(key, read_ns + to_u64(more_ns), how));
        }
    }
    let limits = resample::interval(ways, seek_ns, mean);
    let how = format!("mean of {} writes with a flush each, less half a turn", ways.len());
    let limits = (limits.0.max(read_ns), limits.1.max(read_ns));
    fit.put(Parameter::measured("average_seek_write_ns", to_u64(read_ns + more_ns), limits, how));
}

/// The buffer of a disk, which begins to write when it is half full: `way_ns` later the first byte is on the platters. When it begins
/// is not known of a drive, so the interval is from at once to when the buffer is full.
fn disk_cache(buffer: &Buffer, way_ns: f64) -> Parameter {
    let held = |one: &Sequence| one.held_bytes + one.rate * way_ns / 1e9 + one.piece / 2.0;
    let sizes: Vec<f64> = buffer
        .sequences
        .iter()
        .map(|one| held(one) / (1.0 - (one.rate / one.fill).min(0.99) / 2.0))
        .collect();
    let least = ends(&buffer.sequences.iter().map(held).collect::<Vec<_>>()).0;
    let most = ends(&buffer.sequences.iter().map(|one| one.bend_bytes).collect::<Vec<_>>()).1;
    let highest = ends(&sizes).1;
    of_few("write_cache_bytes", &sizes, (least, most.max(highest)), slows_down(buffer))
}

fn flash(
    fit: &mut Fit,
    subject: &Subject,
    singles: &[&Written<'_>],
    (buffer, cliff): (Option<&Buffer>, Option<Cliff>),
    preset: &ssd::Parameters,
) -> Result<(), FitError> {
    let single_ns: Vec<f64> = singles.iter().map(|one| one.taken_ns()).collect();
    let spread = spread(&single_ns);
    if spread > MOST_SPREAD {
        return Err(FitError::Noise { what: "single writes", spread, most: MOST_SPREAD });
    }
    for parameter in single(fit, subject, &single_ns, preset) {
        fit.put(parameter);
    }
    let Some(buffer) = buffer else {
        fit.notes.push(NO_BUFFER.to_owned());
        if let Some(cliff) = cliff {
            fit.notes.push(format!(
                "writes became slower for good behind {}, which no parameter tells without the drain before it",
                bytes(cliff.bytes)
            ));
        }
        return Ok(());
    };
    let dies = Dies::of(fit, preset);
    let rates: Vec<f64> = buffer.sequences.iter().map(|one| one.rate).collect();
    let (low, high) = ends(&rates);
    let how =
        format!("{:.1} MB/s of writes to {} dies, with the preset's pages", buffer.rate / 1e6, dies.count);
    let program = |rate: &f64| dies.program_ns(dies.count, *rate);
    let limits = (dies.program_ns(dies.least, high), dies.program_ns(dies.most, low));
    let key = if preset.slc_permille > 0 { "slc_program_ns" } else { "program_ns" };
    fit.put(of_few(key, &rates.iter().map(program).collect::<Vec<_>>(), limits, how));
    let cache = flash_cache(buffer, &dies);
    let drain_ns = cache.value.parse::<f64>().unwrap_or(0.0) * 1e9 / buffer.rate;
    fit.put(cache);
    fit.put(flushes(buffer, drain_ns, preset));
    if let Some(cliff) = cliff.filter(|_| preset.slc_permille == 0) {
        fit.notes.push(format!(
            "writes became slower for good behind {}, {:.1} MB/s; the preset has no cache of one bit a cell to which that could be put",
            bytes(cliff.bytes),
            cliff.rate / 1e6
        ));
    }
    if let Some(cliff) = cliff.filter(|_| preset.slc_permille > 0) {
        let slc_ns = dies.program_ns(dies.count, buffer.rate);
        for parameter in after_cliff(subject, cliff, (&dies, slc_ns), preset) {
            fit.put(parameter);
        }
        fit.notes.push(
            "writes became slower for good: taken for a full cache of one bit a cell; collecting garbage or heat would look the same"
                .to_owned(),
        );
    }
    Ok(())
}

/// The buffer of flash. Dies finish at different times, so that on average half a group of each but one is on its way, and each
/// begins when its first group is full.
fn flash_cache(buffer: &Buffer, dies: &Dies) -> Parameter {
    let size = |one: &Sequence, dies_count: u64| {
        let underway = as_f64(dies_count - 1) * dies.group_bytes / 2.0;
        one.held_bytes + underway * (1.0 + one.rate / one.fill) + one.rate * one.first_ns / 1e9
    };
    let of = |count: u64| -> Vec<f64> { buffer.sequences.iter().map(|one| size(one, count)).collect() };
    let piece = buffer.sequences.first().map_or(0.0, |one| one.piece);
    let limits = (ends(&of(dies.least)).0 - piece, ends(&of(dies.most)).1 + piece);
    of_few("write_cache_bytes", &of(dies.count), limits, slows_down(buffer))
}

/// A single write: what the controller takes one after the other is as in the preset, the rest runs beside other writes.
fn single(fit: &Fit, subject: &Subject, single_ns: &[f64], preset: &ssd::Parameters) -> [Parameter; 2] {
    let middle = median(single_ns).unwrap_or(0.0);
    let interface = as_f64(fit.number("interface_bytes_per_s").unwrap_or(preset.interface_bytes_per_s));
    let transfer_ns = f64::from(subject.small()) * 1e9 / interface.max(1.0);
    let command_ns = as_f64(preset.write_command_ns).min((middle - transfer_ns).max(0.0));
    let (low, high) = resample::interval(single_ns, middle, median);
    let rest = |ns: f64| (ns - transfer_ns - command_ns).max(0.0);
    let how = format!("what is left of {} writes, with what the host takes", single_ns.len());
    [
        Parameter::assumed(
            "write_command_ns",
            to_u64(command_ns),
            "the preset's, at most what a write takes",
        ),
        Parameter::measured(
            "write_latency_ns",
            to_u64(rest(middle)).min(10_000_000),
            (rest(low), rest(high)),
            how,
        ),
    ]
}

/// What writes in parallel.
#[derive(Debug, Clone, Copy)]
struct Dies {
    count: u64,
    /// As few and as many as reads allow.
    least: u64,
    most: u64,
    /// Bytes that a die programs at once.
    group_bytes: f64,
    /// What they take on the channel.
    bus_ns: f64,
}

impl Dies {
    fn of(fit: &Fit, preset: &ssd::Parameters) -> Self {
        let number = |key: &str, preset: u64| fit.number(key).unwrap_or(preset).max(1);
        let (channels, each) =
            (number("channels", preset.channels), number("dies_per_channel", preset.dies_per_channel));
        let known = fit.parameters.iter().find(|one| one.key == "dies_per_channel");
        let limits = match known.map(|one| &one.origin) {
            Some(Origin::Measured { low, high }) => (*low, *high),
            _ => (as_f64(each), as_f64(each)),
        };
        let all = |each: f64| to_u64((as_f64(channels) * each).round()).max(1);
        let group_bytes = as_f64(preset.planes * preset.page_bytes);
        Self {
            count: channels * each,
            least: all(limits.0).min(channels * each),
            most: all(limits.1).max(channels * each),
            group_bytes,
            bus_ns: group_bytes * 1e9 / as_f64(number("channel_bytes_per_s", preset.channel_bytes_per_s)),
        }
    }

    /// From one program of a die to its next, where so many of them together write so fast.
    fn cycle_ns(&self, count: u64, bytes_per_s: f64) -> f64 {
        as_f64(count) * self.group_bytes * 1e9 / bytes_per_s.max(1.0)
    }

    fn program_ns(&self, count: u64, bytes_per_s: f64) -> f64 {
        (self.cycle_ns(count, bytes_per_s) - self.bus_ns).max(0.0)
    }
}

/// Whether a flush waits for what the buffer holds.
fn flushes(buffer: &Buffer, drain_ns: f64, preset: &ssd::Parameters) -> Parameter {
    let flush_ns = median(&buffer.sequences.iter().map(|one| one.flush_ns).collect::<Vec<_>>());
    let share = flush_ns.unwrap_or(0.0) / drain_ns.max(1.0);
    let how = format!("a flush of a full buffer takes {} of what the buffer takes to drain", percent(share));
    let text = |flushes| match flushes {
        ssd::Flushes::Programmed => "programmed",
        ssd::Flushes::Protected => "protected",
    };
    let (value, origin) = if share > 0.5 {
        (text(ssd::Flushes::Programmed), Origin::Derived)
    } else if share < 0.2 {
        (text(ssd::Flushes::Protected), Origin::Derived)
    } else {
        (text(preset.flushes), Origin::Assumed)
    };
    Parameter { key: "flushes", value: value.to_owned(), origin, how }
}

/// The cache of one bit a cell, and what is behind it. Where it is emptied beside the host's writes, a die programs one bit a cell for
/// the host, and reads and programs what leaves the cache.
fn after_cliff(
    subject: &Subject,
    cliff: Cliff,
    (dies, slc_program_ns): (&Dies, f64),
    preset: &ssd::Parameters,
) -> [Parameter; 3] {
    let value = to_u64(cliff.bytes * 1000.0 / as_f64(subject.size_bytes)).clamp(1, 500);
    let least = preset.slc_least_permille * value / preset.slc_permille.max(1);
    let program_ns = match preset.folding {
        ssd::Folding::Idle => dies.program_ns(dies.count, cliff.rate),
        ssd::Folding::Beside => {
            let others_ns = 3.0 * dies.bus_ns + as_f64(preset.slc_read_ns) + slc_program_ns;
            (dies.cycle_ns(dies.count, cliff.rate) - others_ns).max(0.0)
        }
    };
    let size = format!("writes slow down to {:.1} MB/s behind {}", cliff.rate / 1e6, bytes(cliff.bytes));
    let how = format!("{size}, with the preset's folding");
    [
        Parameter::derived("slc_permille", value, size),
        Parameter::assumed("slc_least_permille", least.min(value), "the preset's share of slc_permille"),
        Parameter::derived("program_ns", to_u64(program_ns), how),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject { size_bytes: 2 << 30, sector_bytes: 512, reads: 200, depths: false, seed: 5 }
    }

    #[test]
    fn ends_of_the_device_are_left_alone() {
        let ends = (4 << 20, 1 << 20);
        let plan = plan(subject(), 512 << 20, ends).unwrap();
        for write in plan.runs.iter().flat_map(|(_, writes)| writes) {
            assert!(write.fits(2 << 30, 512), "{write:?}");
            assert!(write.offset_bytes >= ends.0 && write.end_bytes() <= (2 << 30) - ends.1, "{write:?}");
        }
        let long = plan.runs.iter().filter(|(kind, _)| *kind == Kind::Long);
        let bytes: u64 = long.flat_map(|(_, writes)| writes).map(|write| u64::from(write.length_bytes)).sum();
        assert_eq!(bytes, 512 << 20);
        let small = Subject { size_bytes: 260 << 20, ..subject() };
        assert!(matches!(super::plan(small, 1 << 30, ends), Err(FitError::Room { .. })));
    }

    /// A sequence into a buffer of so many bytes that fills with one rate and drains with another; every `late`th answer is 3 ms late.
    fn sequence(buffer: f64, fill: f64, drain: f64, late: usize) -> Option<Sequence> {
        let writes: Vec<BlockRange> = (0..256).map(|n| BlockRange::new(n << 20, 1 << 20)).collect();
        let (mut now, mut held, mut run) = (0.0_f64, 0.0_f64, WrittenRun::default());
        for (index, write) in writes.iter().enumerate() {
            run.times.asked_ns.push(to_u64(now));
            let length = f64::from(write.length_bytes);
            let waits = ((held + length - buffer) / drain).max(0.0);
            let takes = waits.max(length / fill) + if index % late == late - 1 { 0.003 } else { 0.0 };
            held = (held + length - takes * drain).max(0.0);
            now += takes * 1e9;
            run.times.answered_ns.push(to_u64(now));
        }
        run.flushed_ns = to_u64(now + held / drain * 1e9);
        Written { kind: Kind::Long, writes: &writes, run: &run }.sequence()
    }

    #[test]
    fn a_bend_shows_the_buffer_and_none_shows_nothing() {
        for late in [10_000, 40] {
            let found = sequence(64e6, 300e6, 150e6, late).unwrap();
            assert!((found.held_bytes / 64e6 - 1.0).abs() < 0.05, "{found:?}");
            assert!((found.rate / 150e6 - 1.0).abs() < 0.02 && found.flush_ns > 0.3e9, "{found:?}");
            assert!((found.fill / 300e6 - 1.0).abs() < 0.02, "{found:?}");
            assert!(sequence(64e6, 100e6, 150e6, late).is_none(), "what drains faster than it fills");
        }
        // It is full at the very end: nothing is known of the rate behind it.
        assert!(sequence(120e6, 300e6, 150e6, 10_000).is_none());
    }

    #[test]
    fn windows_that_become_slower_have_one_bend() {
        let mut windows = vec![10.0; 20];
        windows.extend(vec![15.0; 20]);
        (windows[3], windows[30]) = (90.0, 70.0);
        assert_eq!(bend(&windows), Some(20));
        assert_eq!(bend(&[10.0; 40]), None);
        windows.reverse();
        assert_eq!(bend(&windows), None, "they become faster");
        assert_eq!(bend(&[10.0, 20.0]), None);
    }
}
