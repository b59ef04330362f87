//! The write buffer and the write seeks of a hard disk.

use fsage_model::medium::hdd;
use fsage_model::quantity::{as_f64, to_u64};

use super::sequence::{Buffer, NO_BUFFER, Sequence, Written, ends, of_few, slows_down};
use crate::device_fit::{Fit, Parameter, resample};
use crate::stats::quantile::{mean, median};

/// Adds what writes show of a disk.
pub(super) fn refine(
    fit: &mut Fit,
    singles: &[&Written<'_>],
    buffer: Option<&Buffer>,
    preset: &hdd::Parameters,
) {
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
