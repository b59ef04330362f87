//! A priced log as tables for a terminal.

use fsage_disk::price::{KindTimes, Priced};
use fsage_model::quantity::{as_f64, share};

use super::{Percent, PricedLog, PricedMedium, PricedValue, PricedVariation};
use crate::text;

/// Counters that say why a medium takes what it takes; JSON has all.
const COUNTERS: [&str; 6] =
    ["seeks", "cache_hits", "cached_writes", "write_amplification", "gc_moves", "erases"];

/// Where a figure does not exist.
const NONE: &str = "–";

/// All there is to say of a log.
pub(super) fn log(log: &PricedLog, vary: Option<Percent>) -> String {
    let check = &log.check;
    let mut lines = format!(
        "{}: {} recorded on {}\n",
        log.name,
        text::plural(check.requests, "request", "requests"),
        log.recorded_on
    );
    if check.without_time > 0 {
        let requests = text::plural(check.without_time, "request", "requests");
        lines.push_str(&format!("{requests} that the disk refused or ignored take no time\n"));
    }
    if check.begin_ns > 0 {
        lines.push_str(&format!(
            "the log begins at {} of the disk's clock: the media start as new there, whatever was written before\n",
            text::duration(as_f64(check.begin_ns))
        ));
    }
    lines.push('\n');
    lines.push_str(&media(log));
    lines.push_str(&format!("\n{}\n", checked(log)));
    lines.push_str(&intervals(log));
    for medium in &log.media {
        lines.push_str(&counters(medium));
    }
    if let Some(percent) = vary {
        for medium in &log.media {
            lines.push_str(&tornado(medium, percent));
        }
    }
    lines
}

fn cells(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

/// One row per medium, below that of the record.
fn media(log: &PricedLog) -> String {
    let heading = [
        "model time",
        "time",
        "÷ recorded",
        "read mean",
        "p99",
        "write mean",
        "p99",
        "flush mean",
        "discard mean",
    ];
    let check = &log.check;
    let recorded = |kind: &KindTimes| mean(kind.recorded_ns, kind.requests);
    let mut rows = vec![
        cells(&heading),
        vec![
            "recorded".to_owned(),
            text::duration(as_f64(check.recorded_ns)),
            "1.000".to_owned(),
            recorded(&check.read),
            NONE.to_owned(),
            recorded(&check.write),
            NONE.to_owned(),
            recorded(&check.flush),
            recorded(&check.discard),
        ],
    ];
    if log.media.iter().all(|medium| medium.medium != log.recorded_on) {
        rows.push(row(&log.recorded_on, check));
    }
    rows.extend(log.media.iter().map(|medium| row(&medium.medium, &medium.priced)));
    text::table(&rows, 0)
}

fn row(medium: &str, priced: &Priced) -> Vec<String> {
    let of = |kind: &KindTimes| mean(kind.sum_ns, kind.requests);
    let p99 = |kind: &KindTimes| match kind.requests {
        0 => NONE.to_owned(),
        _ => text::duration(as_f64(kind.p99_ns)),
    };
    vec![
        medium.to_owned(),
        text::duration(as_f64(priced.total_ns)),
        ratio(super::ratio(priced.total_ns, priced.recorded_ns)),
        of(&priced.read),
        p99(&priced.read),
        of(&priced.write),
        p99(&priced.write),
        of(&priced.flush),
        of(&priced.discard),
    ]
}

fn mean(sum_ns: u64, requests: u64) -> String {
    if requests == 0 { NONE.to_owned() } else { text::duration(share(sum_ns, requests)) }
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.3}"))
}

/// How well the medium recorded is repeated.
fn checked(log: &PricedLog) -> String {
    let check = &log.check;
    if check.deviation.requests == 0 {
        return format!("check: {} repeats every recorded time to the nanosecond", log.recorded_on);
    }
    let by = match super::ratio(check.total_ns, check.recorded_ns) {
        Some(ratio) => format!("{:+.2} % of the whole time", (ratio - 1.0) * 100.0),
        None => "the recorded time is 0".to_owned(),
    };
    format!(
        "check: {} does not repeat the recorded times: {by}; {} of {} answers differ, by {} at most",
        log.recorded_on,
        text::count(check.deviation.requests),
        text::count(check.requests),
        text::duration(as_f64(check.deviation.largest_ns)),
    )
}

/// What lies between the user's marks, on every medium.
fn intervals(log: &PricedLog) -> String {
    if log.check.intervals.is_empty() {
        return String::new();
    }
    let mut heading = cells(&["from mark", "requests", "recorded"]);
    heading.extend(log.media.iter().flat_map(|medium| [medium.medium.clone(), "÷ recorded".to_owned()]));
    let mut rows = vec![heading];
    for (number, interval) in log.check.intervals.iter().enumerate() {
        let mut row = vec![
            interval.mark.clone().unwrap_or_else(|| "(begin)".to_owned()),
            text::count(interval.requests),
            text::duration(as_f64(interval.recorded_ns)),
        ];
        for medium in &log.media {
            let total_ns = medium.priced.intervals.get(number).map_or(0, |interval| interval.total_ns);
            row.push(text::duration(as_f64(total_ns)));
            row.push(ratio(super::ratio(total_ns, interval.recorded_ns)));
        }
        rows.push(row);
    }
    format!("\n{}", text::table(&rows, 0))
}

fn counters(medium: &PricedMedium) -> String {
    let found: Vec<String> = COUNTERS
        .iter()
        .filter_map(|name| medium.priced.counters.iter().find(|counter| counter.name == *name))
        .map(|counter| {
            let value = match counter.state {
                true => format!("{:.2}", counter.value),
                false => text::count(fsage_model::quantity::to_u64(counter.value)),
            };
            format!("{} {value}", counter.name)
        })
        .collect();
    if found.is_empty() { String::new() } else { format!("{}: {}\n", medium.medium, found.join(", ")) }
}

/// Parameters by how far their two times lie apart, the widest first.
fn tornado(medium: &PricedMedium, percent: Percent) -> String {
    if medium.variations.is_empty() {
        return format!("\n{} has no numeric parameters\n", medium.medium);
    }
    let mut variations: Vec<&PricedVariation> = medium.variations.iter().collect();
    let width = |variation: &PricedVariation| {
        let [low, high] = [&variation.low, &variation.high].map(|side| side.ratio.unwrap_or(1.0));
        (low - 1.0).abs().max((high - 1.0).abs()).max((high - low).abs())
    };
    variations.sort_by(|one, other| width(other).total_cmp(&width(one)));
    let Percent(percent) = percent;
    let mut rows = vec![vec![
        format!("{}: time ÷ {}", medium.medium, text::duration(as_f64(medium.priced.total_ns))),
        "value".to_owned(),
        String::new(),
        format!("−{percent} %"),
        format!("+{percent} %"),
    ]];
    for variation in variations {
        rows.push(vec![
            variation.key.to_owned(),
            variation.value.to_string(),
            if variation.unit == "1" { String::new() } else { variation.unit.to_owned() },
            side(&variation.low),
            side(&variation.high),
        ]);
    }
    let mut lines = format!("\n{}", text::table(&rows, 0));
    let sides = medium.variations.iter().flat_map(|one| [(one.key, &one.low), (one.key, &one.high)]);
    for (key, side) in sides {
        if let Some(why) = &side.refused {
            lines.push_str(&format!("{key} = {}: {why}\n", side.value));
        }
    }
    lines
}

fn side(side: &PricedValue) -> String {
    if side.refused.is_some() { "refused".to_owned() } else { ratio(side.ratio) }
}
