//! Rates and latencies of fio's points on each file system, and against the bare device.

use maud::{Markup, html};

use super::{Content, Section, scaling};
use crate::report::device::{Measured, all};
use crate::report::figure::{Figure, choice, figure, options, select};
use crate::report::percentile::Percentiles;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{in_unit, interval, percent, significant, whole_bytes};
use crate::stats::Estimate;

pub(super) const SECTION: Section = Section {
    id: "device",
    title: "fio rates and latency",
    script: include_str!("../assets/device.js"),
    render,
};

fn render(content: &Content<'_>) -> Option<Markup> {
    let found = all(content.view);
    if found.is_empty() {
        return None;
    }
    let bare = found.iter().any(|one| one.share.is_some());
    let mut loads: Vec<(String, String)> = Vec::new();
    for load in found.iter().map(|one| one.point.load()) {
        if !loads.iter().any(|(known, _)| *known == load) {
            loads.push((load.clone(), load));
        }
    }
    let shown: &[(&str, &str)] =
        &[("share", "% of the bare device"), ("iops", "operations/s"), ("bandwidth", "MB/s")];
    let shown = if bare { shown } else { &shown[1..] };
    let mut over = vec![("bs", "block size"), ("depth", "depth"), ("jobs", "jobs"), ("files", "files")];
    if found.iter().any(|one| one.point.memory.is_some()) {
        over.push(("memory", "memory limit"));
    }
    Some(html! {
        (figure(&Figure {
            id: "device-chart",
            kind: "device",
            title: "fio rates",
            how_to_read: "a mark is one point on one file system, the bar its interval over repeats; choose the load, what is shown, and \
                          over which parameter. Both axes are logarithmic. The line at 100 % is the bare device: the distance below it is the \
                          overhead of the file system. Panels differ in the other parameters.",
            controls: html! {
                (select("load", "load", &loads, 0))
                (choice("show", "show", &options(shown)))
                (choice("over", "over", &options(&over)))
            },
            note: "The rate of a point that reached steady state is that of the steady window; of others that of fio's reports from the second on until its jobs \
                   stop asking, or, without enough of these, of the whole time after the ramp.",
        }))
        (figure(&Figure {
            id: "device-latency-chart",
            kind: "device_latency",
            title: "Latency against operations per second",
            how_to_read: "each line joins the points of one file system and block size from the lowest to the highest load (depth times jobs); where it \
                          turns upwards the device is saturated, and more requests only wait longer. Both axes are logarithmic.",
            controls: select("load", "load", &loads, 0),
            note: "Latency is fio's lat (submission and completion), the mean over reads and writes.",
        }))
        @if let Some(chart) = percentiles(content.percentiles) { (chart) }
        @if let Some(fits) = scaling::fits(content) { (fits) }
        (table("device-table", "fio points", &columns(has_clock(&found)), &rows(content, &found)))
    })
}

/// The frame of the percentile curves; none where no record has any.
fn percentiles(found: &Percentiles) -> Option<Markup> {
    let (loads, sizes) = (found.loads(), found.sizes());
    let sizes: Vec<(String, String)> =
        sizes.into_iter().map(|bs| (bs.to_string(), whole_bytes(bs))).collect();
    let band = "The shaded band is the interval over repeats at each percentile by itself, not of the curve as a whole.";
    let note = if found.has_intervals() { band } else { "" };
    (!loads.is_empty()).then(|| {
        figure(&Figure {
            id: "device-percentile-chart",
            kind: "device_percentiles",
            title: "Latency by percentile",
            how_to_read: "each line is the latency distribution of one point on one file system. Both axes are logarithmic; the \
                          horizontal axis gives every further nine the same width, so it shows the tail. A line that turns upwards has a \
                          long tail. Panels differ in depth, jobs, files and memory limit.",
            controls: html! {
                (select("load", "load", &loads, 0))
                (select("bs", "block size", &sizes, 0))
            },
            note: &format!(
                "Latency is fio's lat (submission and completion), accurate to 1/128; of several repeats the geometric mean at \
                 each percentile. A line ends where fewer than one operation lies beyond. {note}"
            ),
        })
    })
}

/// Whether any point has a share by the drive's own clock.
fn has_clock(found: &[Measured]) -> bool {
    found.iter().any(|one| one.drive_share.is_some())
}

fn columns(has_clock: bool) -> Vec<Column> {
    let by_clock = has_clock.then(|| Column::number("share by the drive's own clock", ""));
    let all = vec![
        Column::text("point"),
        Column::text("file system"),
        Column::text("trials"),
        Column::number("operations per second", "1/s"),
        Column::number("share of the bare device", ""),
        Column::text("interval"),
        Column::number("requests in flight at the device", ""),
        Column::number("mean latency", "ns"),
        Column::number("median", "ns"),
        Column::number("99th percentile", "ns"),
        Column::number("99.9th percentile", "ns"),
        Column::number("CPU time of fio per operation", "ns"),
        Column::number("CPU time of the host per operation", "ns"),
        Column::text("reached steady state"),
        Column::text("warnings"),
    ];
    all.into_iter().chain(by_clock).collect()
}

fn rows(content: &Content<'_>, found: &[Measured]) -> Vec<Row> {
    let has_clock = has_clock(found);
    found.iter().map(|one| row(content, one, has_clock)).collect()
}

fn row(content: &Content<'_>, one: &Measured, has_clock: bool) -> Row {
    let file_system = content.view.file_systems.get(one.file_system).cloned().unwrap_or_default();
    let name = one.point.to_string();
    let repeats = if one.iops.n == 1 { "1 trial".to_owned() } else { format!("{} repeats", one.iops.n) };
    let trials = if one.context.is_empty() { repeats } else { format!("{}, {repeats}", one.context) };
    let time = |value: Option<f64>| Cell::maybe(value, |ns| in_unit(ns, "ns"));
    let by_clock = has_clock.then(|| {
        let text = |share: &Estimate| format!("{} ({})", percent(share.value), interval(share, percent));
        match &one.drive_share {
            Some(share) => Cell::number(text(share), share.value),
            None => Cell::none(),
        }
    });
    Row {
        cells: [
            Cell::text(name.clone()),
            Cell::text(file_system),
            Cell::text(trials).class("label"),
            Cell::number(significant(one.iops.value), one.iops.value),
            Cell::maybe(one.share.as_ref().map(|share| share.value), percent),
            Cell::text(one.share.as_ref().map_or_else(String::new, |share| interval(share, percent))),
            Cell::maybe(one.in_flight, significant),
            time(one.mean_ns),
            time(one.p50_ns),
            time(one.p99_ns),
            time(one.p999_ns),
            time(one.cpu_ns),
            time(one.host_cpu_ns),
            Cell::text(format!("{} of {}", one.steady.0, one.steady.1)),
            Cell::text(one.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        ]
        .into_iter()
        .chain(by_clock)
        .collect(),
        group: one.point.load(),
        class: "",
    }
}
