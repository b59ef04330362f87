//! A drive without platters (SSD, eMMC, a card of class A2) from its reads.
//!
//! A small read takes the controller's time, a latency, the read of a page by its die, the channel and the interface. Which part is
//! which follows from other reads:
//! - the same read again is answered from the die's register (or a cache), without the page: the difference is the page's read;
//! - a read of a whole page against a small one: the difference is the channel;
//! - sequential reads: the interface, or whatever limits them;
//! - random reads over depths: the controller and the dies ([`queue`]).
//!
//! Not to be seen by reading: everything about writes, pages and blocks, the map of the translation layer. What a look-up
//! of the map costs is within the page's read (`map_cache_bytes = 0`). An empty drive answers without its flash: it shows
//! its controller alone.

use fsage_model::medium::ssd::Parameters;
use fsage_model::number::percent;
use fsage_model::quantity::{as_f64, to_u64};

use super::plan::{Kind, PAGE, Subject, Timed};
use super::queue::{self, Parallel};
use super::{DepthRate, Fit, FitError, Parameter, ZoneRate, resample};
use crate::stats::quantile::{count, mean, median, quantile};

/// Most relative spread (quartiles) of small reads that is accepted.
const MOST_SPREAD: f64 = 0.5;

/// Where a read again takes more than this share of the first, it shows nothing of the page.
const LEAST_GAIN: f64 = 0.9;

/// A read that takes so many times longer than the median has waited for something else.
const OUTLYING: f64 = 8.0;

/// What the serial reads say, in ns.
#[derive(Debug)]
struct Serial {
    small_ns: Vec<f64>,
    again_ns: Vec<f64>,
    page_ns: Vec<f64>,
    /// Bytes of a page's read more than of a small one.
    more_bytes: f64,
    streams: Vec<Stream>,
}

/// Sequential reads at a place.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// Share of the bytes in front of it.
    place: f64,
    bytes_per_s: f64,
    depth: u32,
}

/// The parts of a small read, in ns.
#[derive(Debug, Clone, Copy)]
struct Parts {
    /// All of it.
    single: f64,
    /// The page's read; nothing where reading again shows none.
    page: Option<f64>,
    channel: f64,
    interface: f64,
}

/// The parameters of a drive; what `runs` do not show is as in `preset`.
///
/// # Errors
/// Times that vary too much.
pub fn fit(subject: &Subject, runs: &[Timed<'_>], preset: &Parameters) -> Result<Fit, FitError> {
    let serial = serial(subject, runs)?;
    let unlike = FitError::Unlike { kind: "a drive without platters", why: "its reads take no time" };
    let single = median(&serial.small_ns).filter(|ns| *ns > 0.0).ok_or_else(|| unlike.clone())?;
    let (rates, rate) = best(&serial.streams).ok_or(unlike)?;
    let channel = channel_ns(&serial);
    let small = f64::from(subject.small());
    let parts = Parts {
        single,
        page: median(&serial.again_ns)
            .filter(|again| *again < LEAST_GAIN * single)
            .map(|again| single - again),
        channel: channel
            .map_or(small * 1e9 / as_f64(preset.channel_bytes_per_s), |ns| ns * small / serial.more_bytes),
        interface: small * 1e9 / rate,
    };
    let depths = depth_rates(runs);
    let die_ns = parts.page.map(|page| page + parts.channel);
    let parallel = queue::fit(&depths, single, die_ns);
    let mut parameters =
        vec![Parameter::derived("capacity_bytes", subject.size_bytes, "the size of the device")];
    parameters.push(interface(&rates, rate));
    parameters.push(match channel {
        Some(ns) => channel_parameter(&serial, ns),
        None => Parameter::assumed(
            "channel_bytes_per_s",
            preset.channel_bytes_per_s,
            "a page's read takes no longer than a small one",
        ),
    });
    parameters.extend(times(&serial, &parts, parallel.as_ref(), preset));
    let least = channel.map_or(1, |ns| busy_channels(rate, serial.more_bytes * 1e9 / ns));
    parameters.extend(parallelism(parallel.as_ref(), preset, least, !depths.is_empty()));
    parameters.push(Parameter::assumed(
        "map_cache_bytes",
        0,
        "what a look-up of the map costs is within the page's read",
    ));
    let notes = notes(&parts, parallel.as_ref());
    Ok(Fit { parameters, zones: zones(&serial.streams, rate), depths, notes })
}

fn serial(subject: &Subject, runs: &[Timed<'_>]) -> Result<Serial, FitError> {
    let of = |kind: Kind| runs.iter().filter(move |run| run.kind == kind);
    let small_ns: Vec<f64> = of(Kind::Random { depth: 1 }).flat_map(Timed::taken).collect();
    let quartiles = [0.25, 0.5, 0.75].map(|q| quantile(&small_ns, q).unwrap_or(0.0));
    let spread = (quartiles[2] - quartiles[0]) / quartiles[1].max(1.0);
    if spread > MOST_SPREAD {
        return Err(FitError::Noise { what: "small reads at random places", spread, most: MOST_SPREAD });
    }
    let place = |run: &Timed<'_>| {
        as_f64(run.reads.first().map_or(0, |read| read.offset_bytes)) / as_f64(subject.size_bytes)
    };
    let stream = |run: &Timed<'_>| match run.kind {
        Kind::Sequential { depth } => {
            Some(Stream { place: place(run), bytes_per_s: run.stream_rate()?, depth })
        }
        _ => None,
    };
    let page = PAGE.max(subject.sector_bytes);
    Ok(Serial {
        again_ns: of(Kind::Again).filter_map(|run| run.taken().get(1).copied()).collect(),
        page_ns: of(Kind::Page).flat_map(Timed::taken).collect(),
        more_bytes: f64::from(page - subject.small()),
        streams: runs.iter().filter_map(stream).collect(),
        small_ns,
    })
}

/// Rates of the depth at which sequential reads are fastest, and their median.
fn best(streams: &[Stream]) -> Option<(Vec<f64>, f64)> {
    let mut depths: Vec<u32> = streams.iter().map(|stream| stream.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    let of = |depth: u32| {
        let rates: Vec<f64> =
            streams.iter().filter(|stream| stream.depth == depth).map(|stream| stream.bytes_per_s).collect();
        median(&rates).map(|middle| (rates, middle))
    };
    depths.into_iter().filter_map(of).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// By how much a page's read takes longer than a small one; nothing where that is within the noise.
fn channel_ns(serial: &Serial) -> Option<f64> {
    if serial.more_bytes <= 0.0 {
        return None;
    }
    let more_ns = median(&serial.page_ns)? - median(&serial.small_ns)?;
    let error = |samples: &[f64]| {
        let width = quantile(samples, 0.75).unwrap_or(0.0) - quantile(samples, 0.25).unwrap_or(0.0);
        // Standard error of a median: 1.2533 σ ÷ √n, with σ = width of the quartiles ÷ 1.349.
        0.93 * width / count(samples.len()).max(1.0).sqrt()
    };
    let noise = error(&serial.page_ns).hypot(error(&serial.small_ns));
    let rate = serial.more_bytes * 1e9 / more_ns;
    (more_ns > 3.0 * noise && (1e6..=1e11).contains(&rate)).then_some(more_ns)
}

fn channel_parameter(serial: &Serial, more_ns: f64) -> Parameter {
    let base_ns = median(&serial.small_ns).unwrap_or(0.0);
    let rate = |ns: f64| serial.more_bytes * 1e9 / (ns - base_ns).max(1.0);
    let (low, high) = resample::interval(&serial.page_ns, base_ns + more_ns, median);
    let how =
        format!("{} reads of a page against {} small ones", serial.page_ns.len(), serial.small_ns.len());
    let value = to_u64(rate(base_ns + more_ns)).clamp(1_000_000, 100_000_000_000);
    Parameter::measured("channel_bytes_per_s", value, (rate(high), rate(low)), how)
}

fn interface(rates: &[f64], rate: f64) -> Parameter {
    let limits = resample::interval(rates, rate, median);
    let how = format!("median of {} sequences of reads of 1 MiB", rates.len());
    Parameter::measured("interface_bytes_per_s", to_u64(rate).clamp(1_000_000, 100_000_000_000), limits, how)
}

/// The times of a read's parts. They add up to the read.
fn times(serial: &Serial, parts: &Parts, parallel: Option<&Parallel>, preset: &Parameters) -> Vec<Parameter> {
    let Parts { single, channel, interface, .. } = *parts;
    let rest = (single - channel - interface).max(0.0);
    let own = as_f64(preset.command_ns + preset.read_ns + preset.read_latency_ns).max(1.0);
    let command = parallel.map_or_else(
        || (as_f64(preset.command_ns) / own * rest).min(as_f64(preset.command_ns)),
        |parallel| parallel.drive.command_ns.min(rest),
    );
    // What reading again showed is known better than what the controller takes, which the dies' limit may hide.
    let (page, command) = match (parts.page, parallel) {
        (Some(page), _) => (page.clamp(0.0, rest), command.min((rest - page).max(0.0))),
        (None, Some(parallel)) => ((parallel.drive.die_ns - channel).clamp(0.0, rest - command), command),
        (None, None) => ((as_f64(preset.read_ns) / own * rest).clamp(0.0, rest - command), command),
    };
    let latency = rest - command - page;
    let (low, high) = resample::interval(&serial.small_ns, single, median);
    let limits = |ns: f64| (ns * low / single, ns * high / single);
    let commands = parallel.map_or((command, command), |parallel| parallel.command_ns);
    // What the controller takes less, something else takes.
    let left = (
        (latency - (commands.1 - command).max(0.0) + low - single).max(0.0),
        latency + (command - commands.0).max(0.0) + high - single,
    );
    let ratio = as_f64(preset.slc_read_ns) / as_f64(preset.read_ns.max(1));
    let by_depth = parallel.map(|parallel| {
        let dies = parallel.dies;
        format!(
            "random reads over depths, within {} of the simulated ones, {} to {} dies",
            percent(parallel.deviation),
            dies.0,
            dies.1
        )
    });
    let part = |key, ns: f64, limits: (f64, f64), how: Option<String>| match how {
        Some(how) => Parameter::measured(key, to_u64(ns), limits, how),
        None => Parameter::assumed(key, to_u64(ns), "the preset's share of what a small read takes"),
    };
    let again =
        format!("{} small reads against {} of the same again", serial.small_ns.len(), serial.again_ns.len());
    vec![
        part("command_ns", command, commands, by_depth),
        match (parts.page, parallel) {
            (None, Some(_)) => Parameter::assumed(
                "read_ns",
                to_u64(page),
                "0.4, 0.6 or 0.8 of what a small read takes, whichever fits the rates over depths best",
            ),
            (known, _) => part("read_ns", page, limits(page), known.map(|_| again)),
        },
        Parameter::assumed("slc_read_ns", to_u64(page * ratio), "the preset's relation to read_ns"),
        Parameter::measured(
            "read_latency_ns",
            to_u64(latency).min(10_000_000),
            left,
            format!("what is left of {} small reads, with what the host takes", serial.small_ns.len()),
        ),
    ]
}

/// How many channels sequential reads keep busy, a tenth less counting as all of one.
fn busy_channels(bytes_per_s: f64, channel_bytes_per_s: f64) -> u64 {
    to_u64((bytes_per_s / channel_bytes_per_s.max(1.0) - 0.1).ceil()).clamp(1, 64)
}

/// Channels and dies. Which dies share a channel reads do not tell: as many channels as the preset has, or as sequential reads
/// need (`least`).
fn parallelism(parallel: Option<&Parallel>, preset: &Parameters, least: u64, tried: bool) -> Vec<Parameter> {
    let Some(parallel) = parallel else {
        let how = if tried { "too few depths" } else { "the depth of reads was not measured" };
        return vec![
            Parameter::assumed("channels", preset.channels.max(least), how),
            Parameter::assumed("dies_per_channel", preset.dies_per_channel, how),
        ];
    };
    // Where the controller is the limit, many numbers of dies fit as well: the preset's is one that the flash of such drives has.
    let own = preset.channels * preset.dies_per_channel;
    let fits = u64::from(parallel.dies.0)..=u64::from(parallel.dies.1);
    let dies = if fits.contains(&own) { own } else { u64::from(parallel.drive.dies.max(1)) };
    let mut channels = preset.channels.max(least).min(dies).clamp(1, 64);
    while !dies.is_multiple_of(channels) || dies / channels > 64 {
        channels = if dies / channels > 64 { channels + 1 } else { channels - 1 };
    }
    let each = dies / channels;
    let limits =
        (f64::from(parallel.dies.0) / as_f64(channels), f64::from(parallel.dies.1) / as_f64(channels));
    let how = format!(
        "{dies} dies by random reads over depths, the preset's number if that fits, on its channels as far as that goes"
    );
    vec![
        Parameter::assumed(
            "channels",
            channels,
            "as many of the preset's, or of those that sequential reads need, as the dies divide into",
        ),
        Parameter::measured("dies_per_channel", each, limits, how),
    ]
}

fn notes(parts: &Parts, parallel: Option<&Parallel>) -> Vec<String> {
    let mut notes = Vec::new();
    if parts.page.is_none() {
        notes.push(
            "reading a place again takes as long as before: either nothing holds a page, or the flash was never written and \
             is not read at all"
                .to_owned(),
        );
    }
    if let Some(parallel) = parallel.filter(|parallel| parallel.deviation > 0.15) {
        notes.push(format!(
            "random reads over depths deviate by {} from those of the fitted dies",
            percent(parallel.deviation)
        ));
    }
    notes
}

fn zones(streams: &[Stream], rate: f64) -> Vec<ZoneRate> {
    let mut sorted = streams.to_vec();
    sorted.sort_by(|a, b| a.place.total_cmp(&b.place));
    let zone = |Stream { place, bytes_per_s, .. }| ZoneRate { place, bytes_per_s, fitted_bytes_per_s: rate };
    sorted.into_iter().map(zone).collect()
}

/// Random reads per second by depth; nothing unless more than one depth was timed.
pub(super) fn depth_rates(runs: &[Timed<'_>]) -> Vec<DepthRate> {
    let depth = |run: &Timed<'_>| if let Kind::Random { depth } = run.kind { Some(depth) } else { None };
    let mut depths: Vec<u32> = runs.iter().filter_map(depth).collect();
    depths.sort_unstable();
    depths.dedup();
    if depths.len() < 2 {
        return Vec::new();
    }
    // By Little's law, from how long the reads take: without the few that waited for something else, and without the
    // begin and the end of a run, when not all readers are under way.
    let rate = |run: &Timed<'_>| {
        let taken = run.taken();
        let most = OUTLYING * median(&taken).unwrap_or(0.0);
        let usual: Vec<f64> = taken.into_iter().filter(|ns| *ns <= most).collect();
        f64::from(depth(run).unwrap_or(1)) * 1e9 / mean(&usual).unwrap_or(0.0).max(1.0)
    };
    let of = |wanted: u32| {
        let rates: Vec<f64> = runs.iter().filter(|run| depth(run) == Some(wanted)).map(rate).collect();
        DepthRate { depth: wanted, reads_per_s: mean(&rates).unwrap_or(0.0) }
    };
    depths.into_iter().map(of).collect()
}
