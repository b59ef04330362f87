//! A hard disk from its reads.
//!
//! - **Turn.** Small reads, each in front of the one before: the next place has just passed when it is asked for, so from answer to
//!   answer the platters turn once, less the length of a read. On a drive that reads what passes while it waits, that place
//!   is in the buffer already; then the turn follows from the spread of the waits after seeks, and is rounded to a speed that is sold.
//! - **Tracks.** Rates of sequential reads at places over the whole disk ([`track`]).
//! - **Overhead and interface.** The same read again, small and large: from the buffer, without the platters.
//! - **Seeks.** [`seek`].
//! - **Buffer.** How far behind a sequence data is still held, and after how many reads elsewhere.
//!
//! Not to be seen by reading, or not distinguished: surfaces, switches of head and cylinder, zones, where the seek curve becomes straight,
//! everything about writes. Tracks are so long that the sustained rate is right with the preset's switches.

use fsage_model::medium::hdd::Parameters;
use fsage_model::number::duration;
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::size::Bytes;

use super::plan::{Kind, LARGE, Subject, Timed};
use super::seek::{Curve, Sample};
use super::track::RateLine;
use super::{DepthRate, Fit, FitError, Origin, Parameter, ZoneRate, resample, seek, ssd, track};
use crate::stats::quantile::{count, median, quantile};

/// Most relative spread of the turns and of the rates that is accepted.
const MOST_SPREAD: f64 = 0.15;

/// A fast disk turns once in 4 ms: what is shorter came from the buffer.
const SHORTEST_TURN_NS: f64 = 3e6;

/// A slow one turns once in 16.7 ms.
const LONGEST_TURN_NS: f64 = 25e6;

/// Speeds of disks that are sold, revolutions per minute.
const SPEEDS: [f64; 7] = [4200.0, 5400.0, 5640.0, 5900.0, 7200.0, 10_000.0, 15_000.0];

/// A gain of a queue below this is none.
const LEAST_GAIN: f64 = 1.15;

/// What was measured before the seeks.
#[derive(Debug)]
struct Basics {
    turn_ns: Option<f64>,
    turns: Vec<f64>,
    line: RateLine,
    samples: Vec<track::Sample>,
    /// Overhead and interface; nothing where reading again costs as much as before.
    buffer: Option<Buffer>,
    command_ns: f64,
    interface_bytes_per_s: f64,
}

#[derive(Debug)]
struct Buffer {
    small_ns: Vec<f64>,
    large_ns: Vec<f64>,
}

/// The parameters of a disk; what `runs` do not show is as in `preset`.
///
/// # Errors
/// Times that vary too much, or that no disk has.
pub fn fit(subject: &Subject, runs: &[Timed<'_>], preset: &Parameters) -> Result<Fit, FitError> {
    let basics = basics(subject, runs, preset)?;
    let samples = seeks(subject, runs, &basics);
    let knee = as_f64(preset.seek_knee_permille) / 1000.0;
    let few = FitError::Unlike { kind: "a hard disk", why: "no seek takes longer than another" };
    let found = seek::fit(&samples, knee, basics.turn_ns).ok_or_else(|| few.clone())?;
    let turn_ns = basics.turn_ns.unwrap_or_else(|| nearest_speed(found.turn_ns));
    if !(SHORTEST_TURN_NS..=LONGEST_TURN_NS).contains(&turn_ns) {
        return Err(few);
    }
    let curve = seek::fit(&samples, knee, Some(turn_ns)).ok_or(few)?.curve;
    let mut notes = Vec::new();
    let mut parameters = vec![rotation(&basics, turn_ns, found.turn_ns)];
    parameters.extend(tracks(subject, &basics, preset, turn_ns));
    parameters.extend(seek_parameters(&samples, &curve, preset, turn_ns, stroke(&parameters)));
    parameters.extend(electronics(&basics, &mut notes));
    let threshold_ns = basics.buffer.as_ref().map(|buffer| hit_limit_ns(&buffer.small_ns, turn_ns));
    parameters.extend(
        threshold_ns.map(|limit| cache(runs, preset, limit, basics.turn_ns.is_none())).unwrap_or_default(),
    );
    let depths = ssd::depth_rates(runs);
    parameters.extend(queue(&depths, preset));
    Ok(Fit { parameters, zones: zones(&basics), depths, notes })
}

fn basics(subject: &Subject, runs: &[Timed<'_>], preset: &Parameters) -> Result<Basics, FitError> {
    let middle = |run: &Timed<'_>| {
        let from = run.reads.first().map_or(0, |read| read.offset_bytes);
        let to = run.reads.last().map_or(0, |read| read.end_bytes());
        as_f64(from.midpoint(to)) / as_f64(subject.size_bytes)
    };
    let sequential = runs.iter().filter(|run| run.kind == Kind::Sequential { depth: 1 });
    let samples: Vec<track::Sample> =
        sequential.filter_map(|run| Some((middle(run), run.stream_rate()?))).collect();
    let unlike = FitError::Unlike { kind: "a hard disk", why: "sequential reads have no rate" };
    let line = track::fit(&samples).ok_or(unlike)?;
    let spread = track::spread(&line, &samples);
    if spread > MOST_SPREAD {
        return Err(FitError::Noise { what: "rates of sequential reads", spread, most: MOST_SPREAD });
    }
    let turns = turns(subject, runs, &line);
    // Reads that pass while the head waits are held: most of the intervals are no turns then.
    let whole: Vec<f64> = turns.iter().copied().filter(|ns| *ns >= SHORTEST_TURN_NS).collect();
    let turn_ns = median(&whole).filter(|_| 2 * whole.len() > turns.len());
    if let Some(turn_ns) = turn_ns {
        let middle = [quantile(&whole, 0.25), quantile(&whole, 0.75)].map(|ns| ns.unwrap_or(turn_ns));
        let spread = (middle[1] - middle[0]) / turn_ns;
        if spread > MOST_SPREAD {
            return Err(FitError::Noise { what: "turns of the platters", spread, most: MOST_SPREAD });
        }
    }
    let buffer = again(runs, turn_ns.unwrap_or(SHORTEST_TURN_NS));
    let interface_bytes_per_s = buffer
        .as_ref()
        .and_then(|buffer| interface(&buffer.small_ns, &buffer.large_ns, subject.small()))
        .unwrap_or_else(|| as_f64(preset.interface_bytes_per_s));
    let small_ns = f64::from(subject.small()) * 1e9 / interface_bytes_per_s;
    let command_ns = buffer
        .as_ref()
        .and_then(|buffer| median(&buffer.small_ns))
        .map_or_else(|| as_f64(preset.command_ns), |ns| (ns - small_ns).max(0.0));
    Ok(Basics { turn_ns, turns: whole, line, samples, buffer, command_ns, interface_bytes_per_s })
}

/// From answer to answer of reads that go backwards, and what the platters turn in the length of a read.
fn turns(subject: &Subject, runs: &[Timed<'_>], line: &RateLine) -> Vec<f64> {
    let own_ns = f64::from(subject.small()) * 1e9 / line.outer;
    let backward = runs.iter().filter(|run| run.kind == Kind::Backward);
    let intervals = backward.flat_map(|run| run.times.answered_ns.windows(2));
    intervals.map(|pair| as_f64(pair[1].saturating_sub(pair[0])) + own_ns).collect()
}

/// Times of reads that were read before; nothing unless most of them are far shorter than a turn.
fn again(runs: &[Timed<'_>], turn_ns: f64) -> Option<Buffer> {
    let again = || runs.iter().filter(|run| run.kind == Kind::Again).map(Timed::taken);
    let small_ns: Vec<f64> = again().filter_map(|taken| taken.get(1).copied()).collect();
    let large_ns: Vec<f64> = again().filter_map(|taken| taken.get(3).copied()).collect();
    let is_short = median(&small_ns)? < turn_ns / 3.0;
    is_short.then_some(Buffer { small_ns, large_ns })
}

/// Bytes per second by which a large read from the buffer takes longer than a small one.
fn interface(small_ns: &[f64], large_ns: &[f64], small: u32) -> Option<f64> {
    let more_ns = median(large_ns)? - median(small_ns)?;
    let rate = f64::from(LARGE - small) * 1e9 / more_ns;
    (more_ns > 0.0 && (1e6..=1e11).contains(&rate)).then_some(rate)
}

/// Distance and time of each read after a seek, without overhead and transfer.
fn seeks(subject: &Subject, runs: &[Timed<'_>], basics: &Basics) -> Vec<Sample> {
    let cylinder = |offset: u64| basics.line.cylinder(as_f64(offset) / as_f64(subject.size_bytes));
    let bytes = f64::from(subject.small());
    let mut samples = Vec::new();
    let kinds = |run: &&Timed<'_>| matches!(run.kind, Kind::Seek | Kind::Random { depth: 1 });
    for run in runs.iter().filter(kinds) {
        let taken = run.taken();
        for (pair, taken_ns) in run.reads.windows(2).zip(taken.iter().skip(1)) {
            let (from, to) = (cylinder(pair[0].end_bytes()), cylinder(pair[1].offset_bytes));
            let transfer_ns = bytes * 1e9 * (1.0 / basics.line.at(to) + 1.0 / basics.interface_bytes_per_s);
            samples.push(((to - from).abs(), taken_ns - basics.command_ns - transfer_ns));
        }
    }
    samples
}

fn nearest_speed(turn_ns: f64) -> f64 {
    let speed = 60e9 / turn_ns;
    let off = |known: &f64| (known / speed - 1.0).abs();
    SPEEDS
        .into_iter()
        .min_by(|a, b| off(a).total_cmp(&off(b)))
        .filter(|known| off(known) < 0.15)
        .map_or(turn_ns, |known| 60e9 / known)
}

fn rotation(basics: &Basics, turn_ns: f64, spread_ns: f64) -> Parameter {
    let rpm = |ns: f64| 60e9 / ns.max(1.0);
    if basics.turn_ns.is_some() {
        let (low, high) = resample::interval(&basics.turns, turn_ns, median);
        let how = format!("median of {} turns between reads that go backwards", basics.turns.len());
        return Parameter::measured("rpm", to_u64(rpm(turn_ns)), (rpm(high), rpm(low)), how);
    }
    let how = format!(
        "the speed nearest to the spread of the waits, {}: the drive holds what passes, and shows no turns",
        duration(spread_ns)
    );
    Parameter::derived("rpm", to_u64(rpm(turn_ns)), how)
}

fn number(parameters: &[Parameter], key: &str) -> u64 {
    parameters.iter().find(|one| one.key == key).and_then(|one| one.value.parse().ok()).unwrap_or(0)
}

/// One track as a share of the stroke.
fn stroke(parameters: &[Parameter]) -> f64 {
    1.0 / as_f64(number(parameters, "cylinders").max(2) - 1)
}

fn tracks(subject: &Subject, basics: &Basics, preset: &Parameters, turn_ns: f64) -> Vec<Parameter> {
    let surfaces = preset.surfaces.max(1);
    let switch_ns =
        as_f64((surfaces - 1) * preset.head_switch_ns + preset.cylinder_switch_ns) / as_f64(surfaces);
    let bytes = |line: &RateLine| track::tracks(line, preset.zones, turn_ns, switch_ns);
    let (outer, inner) = bytes(&basics.line);
    let limits = track::intervals(&basics.samples, &basics.line);
    let (least, most) = (
        bytes(&RateLine { outer: limits[0].0, inner: limits[1].0 }),
        bytes(&RateLine { outer: limits[0].1, inner: limits[1].1 }),
    );
    let clamp = |bytes: f64| to_u64(bytes).clamp(4096, 64_000_000);
    let (outer, inner) = (clamp(outer), clamp(inner));
    let mut fitted =
        Parameters { outer_track_bytes: outer, inner_track_bytes: inner.min(outer), ..preset.clone() };
    fitted.cylinders = cylinders(&fitted, subject.size_bytes);
    let how = |edge: &str, rate: f64| {
        format!(
            "sequential reads, {:.1} MB/s at the {edge} edge, with the preset's switches of tracks",
            rate / 1e6
        )
    };
    vec![
        Parameter::measured("outer_track_bytes", outer, (least.0, most.0), how("outer", basics.line.outer)),
        Parameter::measured(
            "inner_track_bytes",
            fitted.inner_track_bytes,
            (least.1, most.1),
            how("inner", basics.line.inner),
        ),
        Parameter::derived(
            "cylinders",
            fitted.cylinders,
            format!("so many hold {} on the preset's {surfaces} surfaces", Bytes(subject.size_bytes)),
        ),
    ]
}

/// Fewest cylinders whose disk holds so much.
fn cylinders(parameters: &Parameters, size_bytes: u64) -> u64 {
    let holds =
        |cylinders: u64| Parameters { cylinders, ..parameters.clone() }.capacity_bytes() >= size_bytes;
    let (mut low, mut high) = (parameters.zones.max(16), 16_000_000);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

fn seek_parameters(
    samples: &[Sample],
    curve: &Curve,
    preset: &Parameters,
    turn_ns: f64,
    track: f64,
) -> Vec<Parameter> {
    let limits = seek::intervals(samples, curve, Some(turn_ns));
    // A microsecond more, so that no rounding bends the curve below nothing.
    let whole = |ns: f64| to_u64(ns) + 1000;
    let (next, average, full) = (whole(curve.at(track)), whole(curve.average()), whole(curve.at(1.0)));
    let how = format!("curve through {} reads after seeks, with the preset's knee", samples.len());
    let more = [
        preset.track_to_track_write_ns.saturating_sub(preset.track_to_track_ns),
        preset.average_seek_write_ns.saturating_sub(preset.average_seek_ns),
        preset.full_stroke_write_ns.saturating_sub(preset.full_stroke_ns),
    ];
    let points = [next + more[0], average + more[1], full + more[2]];
    let (points, written) = if Curve::through(points.map(as_f64), track, curve.knee).is_some() {
        (points, "the read's, and what the preset needs more before a write")
    } else {
        // The preset's differences do not suit this curve: one for all of it does.
        (
            [next, average, full].map(|ns| ns + more[1]),
            "the read's, and what the preset needs more on average",
        )
    };
    let steep = curve.at(track) - curve.start;
    vec![
        Parameter::measured("track_to_track_ns", next, (limits[0].0 + steep, limits[0].1 + steep), &*how),
        Parameter::measured("average_seek_ns", average, limits[1], &*how),
        Parameter::measured("full_stroke_ns", full, limits[2], how),
        Parameter::assumed("track_to_track_write_ns", points[0], written),
        Parameter::assumed("average_seek_write_ns", points[1], written),
        Parameter::assumed("full_stroke_write_ns", points[2], written),
    ]
}

fn electronics(basics: &Basics, notes: &mut Vec<String>) -> Vec<Parameter> {
    let mut found = Vec::new();
    match &basics.buffer {
        None => {
            notes.push(
                "reading a place again takes as long as before: the drive has no read buffer".to_owned(),
            );
            let how = "reading a place again takes as long as before";
            found.push(Parameter::measured("read_cache_bytes", 0, (0.0, 0.0), how));
        }
        Some(buffer) => {
            let own_ns = median(&buffer.small_ns).unwrap_or(0.0) - basics.command_ns;
            let (low, high) = resample::interval(&buffer.small_ns, basics.command_ns, median);
            let how = format!(
                "median of {} reads from the buffer, with what the host takes",
                buffer.small_ns.len()
            );
            let limits = ((low - own_ns).max(0.0), high - own_ns);
            found.push(Parameter::measured(
                "command_ns",
                to_u64(basics.command_ns).min(10_000_000),
                limits,
                how,
            ));
            found.extend(interface_parameter(buffer, basics));
        }
    }
    if basics.turn_ns.is_none() {
        let how = "places in front of a read are in the buffer after it";
        let value = "reads".to_owned();
        found.push(Parameter { key: "arrival", value, origin: Origin::Derived, how: how.to_owned() });
    }
    found
}

fn interface_parameter(buffer: &Buffer, basics: &Basics) -> Option<Parameter> {
    let small = f64::from(super::plan::SMALL);
    let bytes = f64::from(LARGE) - small;
    let base_ns = median(&buffer.small_ns)?;
    let more_ns = median(&buffer.large_ns)? - base_ns;
    if more_ns <= 0.0 {
        return None;
    }
    let rate = |ns: f64| bytes * 1e9 / (ns - base_ns).max(1.0);
    let (low, high) = resample::interval(&buffer.large_ns, base_ns + more_ns, median);
    let how = "a large read from the buffer against a small one".to_owned();
    let value = to_u64(basics.interface_bytes_per_s).clamp(1_000_000, 100_000_000_000);
    Some(Parameter::measured("interface_bytes_per_s", value, (rate(high), rate(low)), how))
}

/// What is shorter came from the buffer. A read from the platters is as short by chance alone, one in twenty or fewer.
fn hit_limit_ns(small_ns: &[f64], turn_ns: f64) -> f64 {
    let typical = median(small_ns).unwrap_or(0.0);
    (2.0 * typical).max(typical + 0.03 * turn_ns).min(typical + 0.06 * turn_ns)
}

/// How far behind a sequence data is held, and of how many places. A disk that reads what passes under its waiting head holds that too,
/// for every other place in a segment of its own: the wait begins on either side of the start of a track, on average as often.
fn cache(runs: &[Timed<'_>], preset: &Parameters, limit_ns: f64, reads_on_arrival: bool) -> Vec<Parameter> {
    let hit = |run: &Timed<'_>| run.taken().last().is_some_and(|ns| *ns <= limit_ns);
    // The largest of which most tries were held, before the first of which they were not: by chance one try may look held, or late.
    let largest = |of: &dyn Fn(Kind) -> Option<u64>| -> Option<(u64, u64)> {
        let mut tries: Vec<(u64, bool)> =
            runs.iter().filter_map(|run| Some((of(run.kind)?, hit(run)))).collect();
        tries.sort_unstable();
        let (mut held, mut not) = (None, None);
        for same in tries.chunk_by(|a, b| a.0 == b.0) {
            if 2 * same.iter().filter(|(_, hit)| *hit).count() > same.len() {
                held = Some(same[0].0);
            } else {
                not = Some(same[0].0);
                break;
            }
        }
        Some((held?, not.unwrap_or(u64::MAX)))
    };
    let behind = largest(&|kind| if let Kind::Behind { bytes } = kind { Some(bytes) } else { None });
    let places =
        largest(&|kind| if let Kind::Places { count } = kind { Some(u64::from(count)) } else { None });
    let bounds =
        |(held, not): (u64, u64)| (as_f64(held), if not == u64::MAX { f64::INFINITY } else { as_f64(not) });
    let mut found = Vec::new();
    let segments = match places {
        Some((held, _)) if reads_on_arrival => (held * 3 / 2).next_power_of_two(),
        Some((held, _)) => held,
        None => preset.read_segments,
    };
    if let Some(places) = places {
        let (each, how) = if reads_on_arrival {
            (1.5, "the first of two thirds as many places is still held, with what passes before each")
        } else {
            (1.0, "the first of so many places is still held")
        };
        let (low, high) = bounds(places);
        found.push(Parameter::measured("read_segments", segments, (low * each, high * each), how));
    }
    if let Some(behind) = behind {
        let each = as_f64(segments);
        let (low, high) = bounds(behind);
        let how =
            format!("{} behind a sequence are still held, on each of {segments} segments", Bytes(behind.0));
        let bytes = behind.0.saturating_mul(segments);
        found.push(Parameter::measured("read_cache_bytes", bytes, (low * each, high * each), how));
    }
    found
}

fn queue(depths: &[DepthRate], preset: &Parameters) -> Option<Parameter> {
    let (first, last) = (depths.first()?, depths.last()?);
    let gain = last.reads_per_s / first.reads_per_s.max(f64::MIN_POSITIVE);
    let how = format!("reads {} at a time are {gain:.2} times as many as one at a time", last.depth);
    Some(if gain < LEAST_GAIN {
        Parameter::measured("queue_depth", 1, (1.0, 1.0), how)
    } else {
        Parameter::assumed("queue_depth", preset.queue_depth, how)
    })
}

fn zones(basics: &Basics) -> Vec<ZoneRate> {
    let mut samples = basics.samples.clone();
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Two repeats lie beside each other.
    let near = |a: &track::Sample, b: &track::Sample| b.0 - a.0 < 0.02;
    let rates = samples.chunk_by(near).map(|same| {
        let rates: Vec<f64> = same.iter().map(|sample| sample.1).collect();
        let place = same.iter().map(|sample| sample.0).sum::<f64>() / count(same.len());
        (place, median(&rates).unwrap_or(0.0))
    });
    rates
        .map(|(place, rate)| ZoneRate {
            place,
            bytes_per_s: rate,
            fitted_bytes_per_s: basics.line.at(basics.line.cylinder(place)),
        })
        .collect()
}
