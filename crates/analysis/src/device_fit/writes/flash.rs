//! The write buffer of flash, what drains it, what a flush does, and the cache of one bit a cell.

use fsage_model::medium::ssd;
use fsage_model::number::{bytes, percent};
use fsage_model::quantity::{as_f64, to_u64};

use super::sequence::{Buffer, Cliff, NO_BUFFER, Sequence, Written, ends, of_few, slows_down, spread};
use crate::device_fit::plan::Subject;
use crate::device_fit::{Fit, FitError, Origin, Parameter, resample};
use crate::stats::quantile::median;

/// Most relative spread (quartiles) of single writes that is accepted.
const MOST_SPREAD: f64 = 0.5;

/// Adds what writes show of a drive of flash.
///
/// # Errors
/// Single writes vary too much.
pub(super) fn refine(
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
