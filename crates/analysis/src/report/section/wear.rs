//! How long flash lasts under daily use.

use fsage_model::metric;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::bar::choices;
use crate::report::figure::{Figure, figure, select};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{bytes, counted, in_unit, interval, percent, significant};
use crate::report::wear::{MEASURES, Used, all, bars};
use crate::stats::Estimate;

pub(super) const SECTION: Section =
    Section { id: "wear", title: "Wear and lifetime", script: include_str!("../assets/wear.js"), render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let found = all(content.view);
    if found.is_empty() {
        return None;
    }
    let rows: Vec<Row> = found.iter().map(|one| row(content, one)).collect();
    let confidence = percent(content.view.confidence);
    let shown = bars(content.view);
    let measures = choices(&MEASURES, &shown);
    Some(html! {
        (figure(&Figure {
            id: "wear-chart",
            kind: "wear",
            title: "Daily use by file system and options",
            how_to_read: "a bar is the estimate over the trials (of ratios the geometric mean), the line its interval. Choose a measure: less wear and more speed need \
                          not be the same option.",
            controls: select("measure", "measure", &measures, 0),
            note: "",
        }))
        (table("wear", &format!("Daily use, with {confidence} intervals"), &columns(), &rows))
        p.note {
            "A cycle is one program/erase cycle of all of the drive's flash: programs of garbage collection, padding and the map are included, those of the SLC cache are not. "
            "Where a drive collected hardly any garbage, its write amplification is not known, and there are no cycles. "
            "Lifetime is the number of cycles that the study says the flash is rated for, divided by the cycles per year of this use; it assumes perfect wear "
            "levelling and constant use. Wear spread is the number of erases of the most worn block ÷ the mean of all blocks, since the drive was made. Intervals cover the spread of repeats of this use, not other use or the drive's rating. "
            "Where a stage takes more cycles than the previous one with the same use, the drive has not reached its steady state. Whether two rows differ is tested in the comparisons below, not shown by their order here."
        }
    })
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("file system"),
        Column::text("stage"),
        Column::text("trials"),
        Column::number("written to the device per day", "bytes"),
        Column::number("write amplification of the drive", ""),
        Column::number("cycles per year", ""),
        Column::text("interval"),
        Column::number("lifetime", "years"),
        Column::text("interval"),
        Column::number("wear spread", ""),
        Column::number("mean time per operation", "ns"),
    ]
}

fn row(content: &Content<'_>, one: &Used<'_>) -> Row {
    let estimate = |name: &str| one.level(name, content.view.confidence);
    let value = |name: &str| estimate(name).map(|found| found.value);
    let (cycles, lifetime) = (estimate(metric::WEAR_CYCLES), estimate(metric::LIFETIME_YEARS));
    let repeats = counted(one.trials.len(), "trial");
    // Not every trial collects enough garbage to know them.
    let all = estimate(metric::WRITTEN_PER_DAY).map_or(0, |found| found.units);
    let known = |found: &Estimate| match found.units {
        some if some < all => format!("{} ({})", interval(found, significant), counted(some, "trial")),
        _ => interval(found, significant),
    };
    let spread = value(metric::ERASES_MAX).zip(value(metric::ERASES_MEAN).filter(|mean| *mean > 0.0));
    Row {
        cells: vec![
            Cell::text(one.file_system.to_owned()),
            Cell::text(one.prefix.trim_end_matches('.').to_owned()),
            Cell::text(if one.context.is_empty() { repeats } else { format!("{}, {repeats}", one.context) })
                .class("label"),
            Cell::maybe(value(metric::WRITTEN_PER_DAY), bytes),
            Cell::maybe(value(metric::DRIVE_AMPLIFICATION), significant),
            Cell::maybe(cycles.as_ref().map(|found| found.value), significant),
            Cell::text(cycles.as_ref().map_or_else(String::new, known)),
            Cell::maybe(lifetime.as_ref().map(|found| found.value), significant),
            Cell::text(lifetime.as_ref().map_or_else(String::new, known)),
            Cell::maybe(spread.map(|(most, mean)| most / mean), significant),
            Cell::maybe(value(metric::OPERATION_NS), |ns| in_unit(ns, "ns")),
        ],
        group: one.file_system.to_owned(),
        class: "",
    }
}
