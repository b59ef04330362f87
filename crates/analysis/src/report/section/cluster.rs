//! Several hosts on one volume.

use fsage_model::metric;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::bar::choices;
use crate::report::cluster::{MEASURES, Shared, all, marks, trials};
use crate::report::figure::{Figure, figure, select};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{bytes, in_unit, interval, percent, significant};

pub(super) const SECTION: Section = Section {
    id: "cluster",
    title: "Hosts that share a volume",
    script: include_str!("../assets/cluster.js"),
    render,
};

fn render(content: &Content<'_>) -> Option<Markup> {
    let found = all(content.view);
    if found.is_empty() {
        return None;
    }
    let shown = marks(content.view);
    let measures = choices(&MEASURES, shown.iter().map(|mark| &mark.bar));
    let mut loads: Vec<(String, String)> = found.iter().map(|one| (one.load(), one.load())).collect();
    loads.dedup();
    let rows: Vec<Row> = found.iter().map(|one| row(content, one)).collect();
    let confidence = percent(content.view.confidence);
    Some(html! {
        (figure(&Figure {
            id: "cluster-chart",
            kind: "cluster",
            title: "Time of the drive per operation on the same files and on disjoint ones, and what else an operation costs",
            how_to_read: "a bar is the estimate over the trials, the line its interval. Bars of one file system differ in which files the hosts used, and in the \
                          number of hosts. Where both are equally long, sharing files takes no more of what is measured.",
            controls: html! {
                (select("load", "load", &loads, 0))
                (select("measure", "measure", &measures, 0))
            },
            note: "",
        }))
        (table("cluster-table", &format!("Points, with {confidence} intervals"), &columns(), &rows))
        p.note {
            "The time of the drive is its model's, per operation of any host. It is no rate that hosts reach: requests of two hosts are never in the drive "
            "together, a host that waits for a lock sends no requests, and processors are not in it. Disjoint files are those that no other host uses. Packets are what the hosts send each other, per operation. "
            "Overlap is the share of the time in which all hosts worked."
        }
    })
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("point"),
        Column::text("file system"),
        Column::text("files"),
        Column::text("trials"),
        Column::number("time of the drive per operation", "ns"),
        Column::text("interval"),
        Column::number("same files ÷ disjoint files", ""),
        Column::text("interval"),
        Column::number("packets per operation", ""),
        Column::number("bytes of packets per operation", "bytes"),
        Column::number("flushes per operation", ""),
        Column::number("bytes at the devices ÷ bytes asked for", ""),
        Column::number("requests in flight", ""),
        Column::number("overlap", ""),
        Column::text("warnings"),
    ]
}

fn row(content: &Content<'_>, one: &Shared<'_>) -> Row {
    let confidence = content.view.confidence;
    let value = |number: &str| one.level(number, confidence).map(|found| found.value);
    let (time, ratio) = (one.level(metric::DRIVE_NS, confidence), one.over_disjoint(confidence));
    let warnings = one.warnings();
    Row {
        cells: vec![
            Cell::text(one.point.to_string()),
            Cell::text(one.file_system.to_owned()),
            Cell::text(one.files()),
            Cell::text(trials(one)).class("label"),
            Cell::maybe(time.as_ref().map(|found| found.value), |ns| in_unit(ns, "ns")),
            Cell::text(
                time.as_ref().map_or_else(String::new, |found| interval(found, |ns| in_unit(ns, "ns"))),
            ),
            Cell::maybe(ratio.as_ref().map(|found| found.value), significant),
            Cell::text(ratio.as_ref().map_or_else(String::new, |found| interval(found, significant))),
            Cell::maybe(value(metric::PACKETS), significant),
            Cell::maybe(value(metric::PACKET_BYTES), bytes),
            Cell::maybe(value(metric::FLUSHES), significant),
            Cell::maybe(value(metric::BYTES_OVER_ASKED), significant),
            Cell::maybe(value(metric::IN_FLIGHT), significant),
            Cell::maybe(value(metric::OVERLAP), percent),
            Cell::text(warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        ],
        group: one.load(),
        class: "",
    }
}
