//! What real devices say of their own wear: over the whole study, and around each stage.

use fsage_model::quantity::as_f64;
use fsage_model::wear::{StageWear, WearChange, WearDifference, WearKind, WearReading, changes};
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, grouped, whole_bytes};
use crate::report::view::Trial;

pub(super) const SECTION: Section =
    Section { id: "device-wear", title: "Device wear counters", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let mut trials: Vec<&Trial> = content.view.trials.iter().filter(|trial| !trial.wear.is_empty()).collect();
    trials.sort_by(|one, other| one.started.cmp(&other.started));
    if trials.is_empty() {
        return None;
    }
    let all = whole_study(&trials);
    let stages: Vec<Row> =
        trials.iter().flat_map(|trial| trial.wear.iter().flat_map(|wear| stage(trial, wear))).collect();
    Some(html! {
        p.lead {
            "The counters are the device's own. Each counts in steps, given in the tables: if a counter did not change, the difference is less than one step; if it changed by few, ± is the uncertainty. "
            b { "No change of the rated life used does not mean no wear." }
            " A step of 1 % of a drive rated for 600 TB is 6 TB. Counters are those of the whole disk and include other writers."
        }
        @if !all.is_empty() {
            (table("device-wear-study", "Before the first trial and after the last", &columns("device", "trials"), &all))
        }
        @if !stages.is_empty() {
            (table("device-wear-stages", "Before and after each stage", &columns("trial", "stage"), &stages))
        }
        @for (device, missing) in missing(&trials) {
            p.note { "No counters of " (device) ": " (missing) "." }
        }
    })
}

fn columns(first: &str, second: &str) -> Vec<Column> {
    vec![
        Column::text(first),
        Column::text(second),
        Column::text("counter"),
        Column::text("source name"),
        Column::number("before", ""),
        Column::number("after", ""),
        Column::number("difference", ""),
        Column::number("step", ""),
    ]
}

/// Each device from its first reading to its last.
fn whole_study(trials: &[&Trial]) -> Vec<Row> {
    let readings = |trial: &Trial| {
        let all = trial.wear.iter().flat_map(|wear| [&wear.before, &wear.after]);
        all.filter(|reading| !reading.counters.is_empty()).cloned().collect::<Vec<WearReading>>()
    };
    let mut devices: Vec<(WearReading, WearReading, usize)> = Vec::new();
    for trial in trials {
        let mut is_first = true;
        for reading in readings(trial) {
            match devices.iter_mut().find(|(first, ..)| first.is_of_same(&reading)) {
                Some((_, last, count)) => {
                    *last = reading;
                    *count += usize::from(is_first);
                }
                None => devices.push((reading.clone(), reading, 1)),
            }
            is_first = false;
        }
    }
    let rows = devices.iter().flat_map(|(first, last, count)| {
        let name = named(last);
        let count = counted(*count, "trial");
        changes(first, last)
            .iter()
            .map(|change| row([name.clone(), count.clone()], change))
            .collect::<Vec<_>>()
    });
    rows.collect()
}

/// The name that it had last, with its serial number.
fn named(reading: &WearReading) -> String {
    let device = reading.device.display();
    if reading.serial.is_empty() { device.to_string() } else { format!("{device} ({})", reading.serial) }
}

fn stage(trial: &Trial, wear: &StageWear) -> Vec<Row> {
    let names = || [trial.label.clone(), wear.stage.clone()];
    changes(&wear.before, &wear.after).iter().map(|change| row(names(), change)).collect()
}

fn row([first, second]: [String; 2], change: &WearChange) -> Row {
    let kind = change.kind;
    let cell = |value: Option<u64>| {
        value.map_or_else(Cell::none, |value| Cell::number(level(kind, value, change.step), as_f64(value)))
    };
    let difference = match change.difference() {
        WearDifference::By(moved) => Cell::number(moved_by(kind, moved, change.step), as_f64(moved)),
        WearDifference::BelowStep(step) => Cell::text(format!("less than {}", amount(kind, step))),
        WearDifference::Backwards => Cell::text("decreased: reset, or another device"),
        WearDifference::Unpaired => Cell::text("read once"),
    };
    Row {
        cells: vec![
            Cell::text(first.clone()),
            Cell::text(second),
            Cell::text(kind.name()),
            Cell::text(change.name.clone()),
            cell(change.before),
            cell(change.after),
            difference,
            Cell::number(amount(kind, change.step), as_f64(change.step)),
        ],
        group: first,
        class: "",
    }
}

/// How much a counter moved, with its step where that is much of it: at each end up to a step may be missing.
fn moved_by(kind: WearKind, moved: u64, step: u64) -> String {
    /// Steps from which on one of them is little.
    const MANY: u64 = 100;
    let amount_of = amount(kind, moved);
    let is_exact =
        matches!(kind, WearKind::MediaErrors | WearKind::SpareState) || moved / step.max(1) >= MANY;
    if is_exact { amount_of } else { format!("{amount_of} ± {}", amount(kind, step)) }
}

/// A value of a counter; one of wide steps is a range.
fn level(kind: WearKind, value: u64, step: u64) -> String {
    match kind {
        WearKind::SpareState => match value {
            1 => "normal".to_owned(),
            2 => "most used up".to_owned(),
            3 => "nearly all used up".to_owned(),
            other => grouped(other),
        },
        WearKind::Used if step > 1 && value < 100 => format!("{value} to {} %", value.saturating_add(step)),
        WearKind::Used if step > 1 => format!("{value} % or more"),
        _ => amount(kind, value),
    }
}

fn amount(kind: WearKind, value: u64) -> String {
    match kind.unit() {
        "bytes" => whole_bytes(value),
        "%" => format!("{} %", grouped(value)),
        _ => grouped(value),
    }
}

/// Devices that said nothing, with the reason, each once.
fn missing(trials: &[&Trial]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for reading in trials.iter().flat_map(|trial| &trial.wear).map(|wear| &wear.before) {
        let one = (reading.device.display().to_string(), reading.missing.clone());
        if !reading.missing.is_empty() && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use fsage_model::wear::WearCounter;

    use super::*;

    fn reading(kind: WearKind, value: u64, step: u64) -> WearReading {
        let counters = vec![WearCounter { kind, name: "<b>x".to_owned(), value, step }];
        WearReading { device: "/dev/sdq".into(), counters, ..WearReading::default() }
    }

    fn shown(kind: WearKind, before: u64, after: u64, step: u64) -> String {
        let changes = changes(&reading(kind, before, step), &reading(kind, after, step));
        let rows = [row(["/dev/sdq".to_owned(), "fio".to_owned()], &changes[0])];
        table("t", "t", &columns("device", "stage"), &rows).into_string()
    }

    #[test]
    fn a_counter_that_did_not_move_is_below_its_step_and_not_zero() {
        let page = shown(WearKind::Used, 4, 4, 1);
        assert!(page.contains("less than 1 %") && !page.contains("0 %<"), "{page}");
        let page = shown(WearKind::HostWritten, 512_000_000, 512_000_000, 512_000);
        assert!(page.contains("less than 500 KiB"), "{page}");
        assert!(page.contains("&lt;b&gt;x") && !page.contains("<b>x"), "names are escaped: {page}");
    }

    #[test]
    fn a_difference_of_few_steps_has_them_beside_it() {
        assert_eq!(moved_by(WearKind::Used, 1, 1), "1 % ± 1 %");
        assert_eq!(moved_by(WearKind::HostWritten, 99 << 20, 1 << 20), "99 MiB ± 1 MiB");
        assert_eq!(moved_by(WearKind::HostWritten, 100 << 20, 1 << 20), "100 MiB");
        assert_eq!(moved_by(WearKind::MediaErrors, 2, 1), "2");
    }

    #[test]
    fn a_disk_is_named_with_its_serial_number() {
        let of = |device: &str, value: u64| WearReading {
            device: device.into(),
            serial: "S1".to_owned(),
            ..reading(WearKind::HostWritten, value, 1)
        };
        assert_eq!(named(&of("/dev/sdb", 2)), "/dev/sdb (S1)");
        assert_eq!(named(&reading(WearKind::HostWritten, 1, 1)), "/dev/sdq");
    }

    #[test]
    fn wide_steps_are_ranges_and_what_went_back_has_no_number() {
        assert!(shown(WearKind::Used, 10, 20, 10).contains("10 to 20 %"));
        assert_eq!(level(WearKind::Used, 100, 10), "100 % or more");
        assert_eq!(level(WearKind::SpareState, 2, 1), "most used up");
        assert!(shown(WearKind::HostWritten, 5, 3, 1).contains("decreased"));
        assert!(shown(WearKind::MediaErrors, 0, u64::MAX, 1).contains("18,446,744,073,709,551,615"));
    }
}
