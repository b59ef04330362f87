//! The volume beside the tree that it was to become like.

use fsage_model::fit::Fit;
use fsage_model::load::LoadResult;
use fsage_model::profile::{DISTANCE_NEAR, ONE_EXTENT_NEAR, Profile, USED_NEAR, rows, size_distance};
use fsage_model::quantity::{as_f64, share, sum};
use maud::{Markup, html};
use serde_json::Value;

use super::{Content, Section};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{bytes, grouped, percent, significant, whole_bytes};
use crate::report::view::Trial;

/// Rows of lower or upper bound, items, bytes.
type Sizes = [(u64, u64, u64)];

pub(super) const SECTION: Section =
    Section { id: "like", title: "Similarity to the original", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    let trials = view.trials.iter().zip(&view.evidence).enumerate();
    let parts: Vec<Markup> = trials
        .filter_map(|(n, (trial, evidence))| {
            let (stage, profile) = profile_of(&evidence.spec)?;
            Some(part(n, trial, &stage, &profile))
        })
        .flatten()
        .collect();
    if parts.is_empty() {
        return None;
    }
    Some(html! {
        p.lead { "The original is a real tree, known by its profile only; the volume was aged to resemble it. Near means: use within "
            (percent(USED_NEAR)) " of the volume, file sizes at most " (DISTANCE_NEAR) " apart (Kolmogorov–Smirnov distance, at bounds a \
            quarter apart), share of files in one extent within " (percent(ONE_EXTENT_NEAR)) ". The other rows are for comparison only." }
        @for part in &parts { (part) }
    })
}

/// The last stage with a profile that it was to be like, by its name.
fn profile_of(spec: &Value) -> Option<(String, Profile)> {
    let stages = spec.get("stage")?.as_array()?;
    let found = stages.iter().rev().find_map(|stage| Some((stage, stage.pointer("/workload/like/profile")?)));
    let (stage, profile) = found?;
    let name = stage.get("name").or_else(|| stage.get("kind")).and_then(Value::as_str)?;
    Some((name.to_owned(), serde_json::from_value(profile.clone()).ok()?))
}

fn part(number: usize, trial: &Trial, stage: &str, profile: &Profile) -> Option<Markup> {
    let age = trial.ages.iter().find(|age| age.stage == stage).or_else(|| trial.ages.last())?;
    let (used, total_bytes) = (age.used?, age.total_bytes?);
    let fit = Fit::new(profile, total_bytes, 1);
    let columns = [
        Column::text("measure"),
        Column::number("original", ""),
        Column::number("volume", ""),
        Column::text("near"),
    ];
    let caption = format!("{}: original and volume", age.label);
    let distribution = [
        Column::text("distribution"),
        Column::number("up to", "bytes"),
        Column::number("original", "share"),
        Column::number("volume", "share"),
    ];
    let left_out = (fit.left_out > 0).then(|| {
        format!(
            "{} of the original's {} files are larger than {}, a 64th of this volume, and were left out.",
            grouped(fit.left_out),
            grouped(profile.files.count),
            whole_bytes(fit.largest_bytes)
        )
    });
    Some(html! {
        (table(&format!("like-{number}"), &caption, &columns, &figures(profile, &fit, &age.result, used)))
        @if let Some(text) = left_out { p.note { (text) } }
        details {
            summary { "Distributions" }
            (table(&format!("like-sizes-{number}"), "Shares by size", &distribution, &sizes(profile, &fit, &age.result)))
        }
    })
}

fn figures(profile: &Profile, fit: &Fit, result: &LoadResult, used: f64) -> Vec<Row> {
    let layout = &result.layout;
    let detail = layout.detail.as_deref().cloned().unwrap_or_default();
    let distance = size_distance(&detail.sizes, &fit.sizes);
    let near = |good: bool| Cell::text(if good { "yes" } else { "no" });
    let shares = |value: f64| Cell::number(percent((value * 1000.0).round() / 1000.0), value);
    let number = |value: f64| Cell::number(significant(value), value);
    let count = |value: u64| Cell::number(grouped(value), as_f64(value));
    let size = |value: Option<u64>| Cell::maybe(value.map(as_f64), bytes);
    let (files, directories) = (&profile.files, &profile.directories);
    let free = (profile.free_space.as_ref(), result.free_space.as_ref());
    let row = |name: &str, one: Cell, other: Cell, near: Cell| {
        Row::from(vec![Cell::text(name).class("label"), one, other, near])
    };
    let plain = |name: &str, one: Cell, other: Cell| row(name, one, other, Cell::none());
    let one_extent = (layout.one_extent_share - files.one_extent_share).abs() <= ONE_EXTENT_NEAR;
    vec![
        row("in use", shares(fit.used_share), shares(used), near((used - fit.used_share).abs() <= USED_NEAR)),
        row(
            "file sizes, distance",
            Cell::none(),
            Cell::number(format!("{distance:.3}"), distance),
            near(distance <= DISTANCE_NEAR),
        ),
        row(
            "files in one extent",
            shares(files.one_extent_share),
            shares(layout.one_extent_share),
            near(one_extent),
        ),
        plain("extents per file", number(files.extents_per_file), number(layout.extents_per_file)),
        plain("layout score", number(files.layout_score), number(layout.layout_score)),
        plain("files", count(files.count), count(layout.files)),
        plain(
            "mean file size",
            size(files.bytes.checked_div(files.count)),
            size(layout.size_bytes.checked_div(layout.files)),
        ),
        plain("directories", count(directories.count), count(layout.directories)),
        plain(
            "files per directory",
            number(share(files.count, directories.count)),
            number(share(layout.files, layout.directories)),
        ),
        plain(
            "deepest directory, levels",
            count(deepest(&directories.depths)),
            count(deepest(&detail.depths)),
        ),
        plain(
            "subdirectories per directory with any",
            number(fan_out(&directories.subdirectories, directories.count)),
            number(fan_out(&detail.subdirectories, layout.directories)),
        ),
        plain(
            "median free extent",
            size(free.0.map(|free| free.median_bytes)),
            size(free.1.map(|free| free.median_bytes)),
        ),
        plain(
            "largest free extent",
            size(free.0.map(|free| free.largest_bytes)),
            size(free.1.map(|free| free.largest_bytes)),
        ),
    ]
}

fn deepest(depths: &[(u64, u64)]) -> u64 {
    depths.last().map_or(0, |row| row.0)
}

/// Directories below the top for each directory that has any.
fn fan_out(rows: &[(u64, u64)], directories: u64) -> f64 {
    let parents = sum(rows.iter().filter(|row| row.0 > 0).map(|row| &row.1));
    share(directories.saturating_sub(1), parents)
}

/// Files, used extents and free extents by powers of two.
fn sizes(profile: &Profile, fit: &Fit, result: &LoadResult) -> Vec<Row> {
    let layout = &result.layout;
    let detail = layout.detail.as_deref().map_or(&[][..], |detail| &detail.sizes[..]);
    let none: &Sizes = &[];
    let free = profile.free_space.as_ref().map_or(none, |free| &free.sizes[..]);
    let our_free = result.free_space.as_ref().map(|free| rows(&free.histogram)).unwrap_or_default();
    let mut all = compare("files", &upper(&fit.sizes), &upper(detail));
    all.extend(compare(
        "used extents",
        &lower(&profile.used_extents.sizes),
        &lower(&rows(&layout.extent_histogram)),
    ));
    all.extend(compare("bytes in free extents", &in_bytes(free), &in_bytes(&our_free)));
    all
}

/// Power of two that bounds a row from above, and what it counts.
fn upper(rows: &Sizes) -> Vec<(u64, u64)> {
    rows.iter().map(|row| (row.0.checked_next_power_of_two().unwrap_or(u64::MAX), row.1)).collect()
}

fn lower(rows: &Sizes) -> Vec<(u64, u64)> {
    rows.iter().map(|row| (row.0.saturating_mul(2), row.1)).collect()
}

fn in_bytes(rows: &Sizes) -> Vec<(u64, u64)> {
    rows.iter().map(|row| (row.0.saturating_mul(2), row.2)).collect()
}

fn compare(what: &str, original: &[(u64, u64)], volume: &[(u64, u64)]) -> Vec<Row> {
    let total = |rows: &[(u64, u64)]| sum(rows.iter().map(|row| &row.1));
    let at =
        |rows: &[(u64, u64)], bound: u64| sum(rows.iter().filter(|row| row.0 == bound).map(|row| &row.1));
    let bounds: std::collections::BTreeSet<u64> = original.iter().chain(volume).map(|row| row.0).collect();
    let cell = |rows: &[(u64, u64)], bound: u64| {
        let value = share(at(rows, bound), total(rows));
        Cell::number(percent((value * 1000.0).round() / 1000.0), value)
    };
    let row = |bound: u64| {
        Row::from(vec![
            Cell::text(what),
            Cell::number(whole_bytes(bound), as_f64(bound)),
            cell(original, bound),
            cell(volume, bound),
        ])
    };
    bounds.into_iter().map(row).collect()
}
