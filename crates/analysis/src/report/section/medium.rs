//! Time of virtual media by component, and what they are made of.

use fsage_model::disk::WAITING;
use fsage_model::quantity::{as_f64, to_u64};
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::figure::{Figure, choice, figure, options, select};
use crate::report::medium::{Spending, all, media};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{bytes, grouped, in_unit, percent, significant, words};
use crate::report::view::Medium;

pub(super) const SECTION: Section =
    Section { id: "medium", title: "Device time", script: include_str!("../assets/medium.js"), render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    let spent = all(view);
    if spent.is_empty() {
        return None;
    }
    let mut parts: Vec<(String, String)> = Vec::new();
    for spending in &spent {
        if !parts.iter().any(|(name, _)| *name == spending.what) {
            parts.push((spending.what.clone(), words(&spending.what)));
        }
    }
    let model = view.trials.iter().any(crate::report::view::Trial::is_model);
    let rows: Vec<Row> = spent.iter().map(|spending| row(content, spending, model)).collect();
    Some(html! {
        (figure(&Figure {
            id: "medium-chart",
            kind: "medium",
            title: "Device time by component",
            how_to_read: "each bar is the device time of one part of a trial by component, the mean over its repeats; choose a part, and \
                          whether bars show shares or times. More seek and rotation in the aged bar than in the unaged one is the effect of \
                          fragmentation.",
            controls: html! {
                (select("part", "part", &parts, 0))
                (choice("show", "as", &options(&[("time", "time"), ("share", "share")])))
            },
            note: "Components can overlap (dies of an SSD, write-back of a cache), so a bar can be longer than the elapsed time, which is in \
                   the table. ± is the standard deviation of the CPU time over the repeats, as a share of it. Queue depth: mean number of \
                   requests at the disk while its clock ran.",
        }))
        (table("medium-table", "Device time and counters, mean over the repeats", &columns(), &rows))
        @for medium in media(view) { (parameters(medium)) }
    })
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("part"),
        Column::text("file system"),
        Column::text("medium"),
        Column::text("trials"),
        Column::number("time", "ns"),
        Column::number("CPU time", "ns"),
        Column::number("queue depth", ""),
        Column::text("largest components"),
        Column::number("written by the host", "bytes"),
        Column::number("read by the host", "bytes"),
        Column::number("written to flash", "bytes"),
        Column::number("write amplification", ""),
        Column::number("erases", ""),
        Column::number("seeks", ""),
    ]
}

fn row(content: &Content<'_>, spending: &Spending, model: bool) -> Row {
    let counter = |name: &str| spending.counters.get(name).copied();
    let in_bytes = |name: &str| Cell::maybe(counter(name), bytes);
    let count = |name: &str| Cell::maybe(counter(name), |value| grouped(to_u64(value)));
    let host = counter("host_write_bytes").filter(|host| *host > 0.0);
    let amplification = counter("flash_write_bytes").zip(host).map(|(flash, host)| flash / host);
    let depth =
        counter(WAITING).filter(|_| model && spending.elapsed_ns > 0.0).map(|ns| ns / spending.elapsed_ns);
    let unit = if model { "model ns" } else { "ns" };
    let file_system = content.view.file_systems.get(spending.file_system).cloned().unwrap_or_default();
    Row {
        cells: vec![
            Cell::text(words(&spending.what)),
            Cell::text(file_system),
            Cell::text(spending.medium.clone()),
            Cell::text(trials(spending)).class("label"),
            Cell::number(in_unit(spending.elapsed_ns, unit), spending.elapsed_ns),
            Cell::number(cpu(spending), spending.cpu_ns),
            Cell::maybe(depth, significant),
            Cell::text(most(spending)).class("label"),
            in_bytes("host_write_bytes"),
            in_bytes("host_read_bytes"),
            in_bytes("flash_write_bytes"),
            Cell::maybe(amplification, significant),
            count("erases"),
            count("seeks"),
        ],
        group: spending.what.clone(),
        class: "",
    }
}

/// The CPU time, whether it is in the model time, and how far repeats differ.
fn cpu(spending: &Spending) -> String {
    let time = in_unit(spending.cpu_ns, "ns");
    let noise = match spending.cpu_noise() {
        Some(noise) => format!(" ± {}", percent(noise)),
        None if spending.serial => " ± unknown (one trial)".to_owned(),
        None => String::new(),
    };
    let place = if spending.serial { ", included" } else { "" };
    format!("{time}{noise}{place}")
}

fn trials(spending: &Spending) -> String {
    let number = spending.trials;
    match (spending.context.as_str(), number) {
        ("", 1) => "1 trial".to_owned(),
        (context, 1) => context.to_owned(),
        ("", number) => format!("{number} repeats"),
        (context, number) => format!("{context}, {number} repeats"),
    }
}

/// The three largest components and their shares.
fn most(spending: &Spending) -> String {
    let sum: f64 = spending.parts.values().sum();
    let mut parts: Vec<(&String, f64)> = spending.parts.iter().map(|(name, value)| (name, *value)).collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let share = |value: f64| percent((value / sum * 100.0).round() / 100.0);
    let words: Vec<String> =
        parts.iter().take(3).map(|(name, value)| format!("{name} {}", share(*value))).collect();
    words.join(", ")
}

/// What a medium is made of.
fn parameters(medium: &Medium) -> Markup {
    let Some(spec) = &medium.spec else { return html! {} };
    let parameters = spec.parameters();
    let columns = [
        Column::text("parameter"),
        Column::number("value", ""),
        Column::text("unit"),
        Column::text("description"),
    ];
    let rows: Vec<Row> = parameters
        .iter()
        .map(|parameter| {
            let value = parameter.value.parse::<u64>().ok();
            let cell = value
                .map_or_else(|| Cell::text(parameter.value.clone()), |n| Cell::number(grouped(n), as_f64(n)));
            let unit = if parameter.unit == "1" { "" } else { parameter.unit };
            Row::from(vec![
                Cell::text(words(parameter.key)),
                cell,
                Cell::text(unit),
                Cell::text(parameter.summary),
            ])
        })
        .collect();
    let preset = spec.preset();
    html! {
        @if !rows.is_empty() {
            details {
                summary { "Device model " b { (medium.name) } ": " (preset.summary) }
                @if !preset.source.is_empty() { p.note { "Source: " (preset.source) } }
                (table(&format!("medium-{}", id(&medium.name)), &format!("Parameters of {}", medium.name), &columns, &rows))
            }
        }
    }
}

/// The name as an anchor.
fn id(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
