//! Layout at the end, and digests of the logical trees.

use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::headline::flags;
use super::{Content, Section};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{grouped, percent, significant, whole_bytes};
use crate::report::view::{Age, Trial};

pub(super) const SECTION: Section = Section { id: "layout", title: "Layout", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let ages: Vec<(&Trial, &Age)> = content.view.ages().collect();
    if ages.is_empty() {
        return None;
    }
    let columns = [
        Column::text("trial"),
        Column::number("in use", ""),
        Column::number("files", ""),
        Column::number("extents", ""),
        Column::number("extents/file", ""),
        Column::number("in one extent", ""),
        Column::number("layout score", ""),
        Column::number("free extents", ""),
        Column::number("median free", "bytes"),
        Column::number("largest free", "bytes"),
        Column::text("check"),
    ];
    let rows: Vec<Row> = ages.iter().map(|(trial, age)| layout_row(trial, age)).collect();
    let digest_columns =
        [Column::text("trial"), Column::text("digest"), Column::text("need not agree because")];
    let digests: Vec<Row> = ages.iter().map(|(_, age)| digest_row(age)).collect();
    Some(html! {
        p.lead { "A file in one extent is contiguous. The layout score is the share of blocks that directly follow "
            "the previous block of their file (1: all of them; Smith & Seltzer 1997)." }
        (table("layout-table", "Layout after ageing", &columns, &rows))
        @for (_, age) in &ages {
            @if let Some(short) = age.short_of_target() {
                p.note.short { b { (age.label) } ": " (short) "." }
            }
        }
        (table("digest-table", "Digests of the logical trees: equal means the same files with the same data", &digest_columns, &digests))
    })
}

fn layout_row(trial: &Trial, age: &Age) -> Row {
    let layout = &age.result.layout;
    let free = age.result.free_space.as_ref();
    let count = |value: u64| Cell::number(grouped(value), as_f64(value));
    let size = |value: Option<u64>| Cell::maybe(value.map(as_f64), crate::report::text::bytes);
    let share = |value: f64| Cell::number(percent((value * 1000.0).round() / 1000.0), value);
    let name = html! { (age.label) (flags(trial)) };
    Row::from(vec![
        Cell::markup(&name, age.label.clone()).class("label"),
        age.used.map_or_else(Cell::none, share),
        count(layout.files),
        count(layout.extents),
        Cell::number(significant(layout.extents_per_file), layout.extents_per_file),
        share(layout.one_extent_share),
        Cell::number(format!("{:.3}", layout.layout_score), layout.layout_score),
        free.map_or_else(Cell::none, |free| count(free.extents)),
        size(free.map(|free| free.median_bytes)),
        size(free.map(|free| free.largest_bytes)),
        Cell::text(trial.check.clone()).class("small"),
    ])
}

fn digest_row(age: &Age) -> Row {
    let result = &age.result;
    let digest = html! { code { (result.digest) } };
    let why = if result.digest_caveats.is_empty() {
        format!("– (must agree; {} files, {})", grouped(result.files), whole_bytes(result.live_bytes))
    } else {
        result.digest_caveats.join("; ")
    };
    Row::from(vec![
        Cell::text(age.label.clone()).class("label"),
        Cell::markup(&digest, result.digest.clone()),
        Cell::text(why).class("small"),
    ])
}
