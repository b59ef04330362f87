//! Searches for options: the gain of each, the path of the search, and the confirmation.

use fsage_model::search::{Configuration, Fate, MeasuredBlock, Method};
use fsage_model::study::ScoreSpec;
use maud::{Markup, html};
use serde_json::Value;

use super::{Content, Section};
use crate::report::answer::{OptionGain, Tuned, signed};
use crate::report::figure::{Figure, figure, select};
use crate::report::search::{Searched, all};
use crate::report::search_workload::{self, ByWorkload, Merits, run_counts};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, metric, percent, significant};

pub(super) const SECTION: Section =
    Section { id: "search", title: "Option search", script: include_str!("../assets/search.js"), render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let found = all(content.view);
    if found.is_empty() {
        return None;
    }
    let gains: Vec<Row> = found.iter().flat_map(gain_rows).collect();
    let blocks: Vec<Row> = found.iter().flat_map(block_rows).collect();
    let runs: Vec<Row> = found.iter().flat_map(run_rows).collect();
    let greedy = found.iter().any(|one| one.path.method == Method::Greedy);
    Some(html! {
        @for one in &found {
            @let (before, finding) = Tuned::new(one).parts();
            p.lead { (before) b { (finding) } "." }
            @if !one.refused.is_empty() {
                p { "Left out, because they fail on this host on their own: " (one.refused.join(", ")) "." }
            }
            @if !one.unfit.is_empty() {
                p {
                    "Left out, because the study requires that a power cut is survived, and with these it may lose synced data or leave a file system that needs repair: "
                    (one.unfit.join(", ")) "."
                }
            }
        }
        (table("search-gains", "Gain per option", &gain_columns(), &gains))
        p.note {
            "A gain is the effect of setting the option, averaged over the settings of the others, by least squares over all runs of the search; 95\u{202f}% "
            "intervals, not adjusted for the number of options. The probability that the search keeps any option without a gain is 5\u{202f}% at "
            "most. Gains of kept options are slightly too large (selection bias). The "
            "confirmation, on runs that had no part in the choice, has no such bias; its 90\u{202f}% interval is above 0 exactly where the "
            "one-sided test at 5\u{202f}% confirms it. "
            "An option was dropped when it was unlikely to show the least gain that matters. Gains say nothing about safety: options that write or flush less may lose "
            "more in a power cut. "
            "Writes are those of the first ageing stage, per operation, by the same least squares. "
            @if greedy { "A greedy search compares single runs: its gains are mostly noise, and nothing confirms them. " }
            (counted_by(&found))
        }
        @if let Some(map) = heat_map(content.searches) { (map) }
        @if let Some(merits) = merits(&found) { (merits) }
        (table("search-blocks", "Search path: blocks in run order", &block_columns(), &blocks))
        details {
            summary { (counted(runs.len(), "run")) " of the search" }
            (table("search-runs", "Each run against the mean of its block", &run_columns(), &runs))
        }
    })
}

/// Gains by option and workload; one search at a time.
fn heat_map(found: &[ByWorkload]) -> Option<Markup> {
    let named = found.iter().enumerate().map(|(index, one)| (index.to_string(), one.place.clone()));
    let places: Vec<(String, String)> = named.collect();
    (!places.is_empty()).then(|| {
        figure(&Figure {
            id: "search-workload-chart",
            kind: "search_workloads",
            title: "Gain of each option by workload",
            how_to_read: "each cell is the gain of an option (row) in one workload (column); blue is faster, red is slower, and bold \
                          numbers have 95 % intervals that exclude 0. The search decides by the score named above; a workload may not be in it.",
            controls: select("place", "search", &places, 0),
            note: "Gains are from the same runs and the same least squares as those in the table, with the score of one workload alone. \
                   Intervals are not adjusted for the number of cells: without any gain, one cell in twenty is bold on average. Cells share runs, so false ones come \
                   together; the row of a control shows how many to expect. Gains of kept options are slightly too large, as in the table.",
        })
    })
}

/// The configurations with the largest merit; none without loads of fio.
fn merits(found: &[Searched]) -> Option<Markup> {
    let rows: Vec<Row> = found.iter().flat_map(merit_rows).collect();
    (!rows.is_empty()).then(|| {
        html! {
            (table("search-merits", "Largest merit by workload", &merit_columns(), &rows))
            p.note {
                "Merit after CE Workgroup of the Linux Foundation, Flash file system tuning methodology, 2013, which does not state its unit; 1,000 times the "
                "natural logarithm of the bandwidth in KB/s, as the mean over the points of a workload, reproduces its printed numbers; a workload that reads and writes has the sum of both "
                "directions, and the first rows of each search have the sum over the workloads of fio. One point is 0.1\u{202f}%. "
                "Differences between blocks are removed. Merit has no interval, the best of many configurations has selection bias, and those with few runs "
                "have most of it: use the gains and the confirmation to decide."
            }
        }
    })
}

fn merit_columns() -> Vec<Column> {
    vec![
        Column::text("workload"),
        Column::text("where"),
        Column::number("rank", ""),
        Column::text("options"),
        Column::number("merit", ""),
        Column::number("runs", ""),
    ]
}

fn merit_rows(one: &Searched) -> Vec<Row> {
    let runs = run_counts(one);
    let base = one.space.label(Configuration::BASE);
    let mut rows = Vec::new();
    for Merits { ranking, base: own } in search_workload::merits(one) {
        let workload = ranking.workload.clone().unwrap_or_else(|| "all of fio".to_owned());
        let row = |rank: Cell, options: &str, merit: f64| {
            let runs = u32::try_from(runs.get(options).copied().unwrap_or(0)).unwrap_or(0);
            Row {
                cells: vec![
                    Cell::text(workload.clone()),
                    Cell::text(one.place.clone()).class("label"),
                    rank,
                    Cell::text(options.to_owned()),
                    Cell::number(significant(merit.round()), merit),
                    Cell::number(runs.to_string(), f64::from(runs)),
                ],
                group: one.place.clone(),
                class: "",
            }
        };
        for (rank, (options, merit)) in (1_u32..).zip(&ranking.places) {
            rows.push(row(Cell::number(rank.to_string(), f64::from(rank)), options, *merit));
        }
        let is_ranked = ranking.places.iter().any(|(options, _)| *options == base);
        rows.extend(own.filter(|_| !is_ranked).map(|merit| row(Cell::none(), &base, merit)));
    }
    rows
}

/// What runs are compared by.
fn counted_by(found: &[Searched]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for one in found {
        let model = if one.is_model { ", by the model's clock" } else { "" };
        // Without a score of its own, a study has every point of every workload in it.
        let points = one.workloads.iter().flat_map(|workload| &workload.metrics);
        let text = if points.eq(one.parts.iter().map(|part| &part.metric)) {
            let names: Vec<String> = one.workloads.iter().map(|workload| metric(&workload.name)).collect();
            format!(
                "Runs are compared by the mean of logarithms of {}{model}; each workload has the same weight.",
                names.join(", ")
            )
        } else {
            let parts: Vec<String> = one.parts.iter().map(part).collect();
            format!("Runs are compared by the weighted mean of logarithms of {}{model}.", parts.join(", "))
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(" ")
}

fn part(part: &ScoreSpec) -> String {
    let name = metric(&part.metric);
    if (part.weight - 1.0).abs() < 1e-9 {
        name
    } else {
        format!("{name} (weight {})", significant(part.weight))
    }
}

fn gain_columns() -> Vec<Column> {
    vec![
        Column::text("option"),
        Column::text("where"),
        Column::text("sets"),
        Column::number("gain", ""),
        Column::text("interval"),
        Column::number("writes", "× without it"),
        Column::text("outcome"),
        Column::text("decided after"),
    ]
}

fn gain_rows(one: &Searched) -> Vec<Row> {
    let tuned = Tuned::new(one);
    tuned.options.iter().map(|option| gain_row(one, option)).collect()
}

fn gain_row(one: &Searched, option: &OptionGain) -> Row {
    let settings = one.settings.get(&option.name).into_iter().flatten();
    let sets: Vec<String> = settings.map(|(path, value)| format!("{path} = {}", text(value))).collect();
    let sets = if sets.is_empty() { "nothing: a control".to_owned() } else { sets.join(", ") };
    let index = one.space.options.iter().position(|name| *name == option.name);
    let fate = index.map(|index| one.path.findings[index].fate);
    let after = match fate {
        Some(Fate::Kept { runs } | Fate::Futile { runs }) => counted(runs, "run"),
        _ => String::new(),
    };
    Row {
        cells: vec![
            Cell::text(option.name.clone()),
            Cell::text(one.place.clone()).class("label"),
            Cell::text(sets),
            Cell::maybe(option.gain, signed),
            Cell::text(option.interval().unwrap_or_default()),
            option.written.map_or_else(Cell::none, |written| Cell::number(written.text(), written.value)),
            Cell::text(option.fate.clone()),
            Cell::text(after),
        ],
        group: one.place.clone(),
        class: if option.is_kept { "" } else { "grey" },
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn block_columns() -> Vec<Column> {
    vec![
        Column::text("block"),
        Column::text("where"),
        Column::text("purpose"),
        Column::number("runs", ""),
        Column::text("options varied"),
        Column::number("spread of the runs", ""),
    ]
}

fn block_rows(one: &Searched) -> Vec<Row> {
    let row = |(number, block): (usize, &MeasuredBlock)| {
        let all = block.runs.iter().fold(Configuration::BASE, |all, run| {
            run.run.configuration.options().fold(all, Configuration::with)
        });
        let scores = || block.runs.iter().map(|run| run.score);
        let spread = scores().fold(f64::MIN, f64::max) - scores().fold(f64::MAX, f64::min);
        Row {
            cells: vec![
                Cell::text(format!("{}", number + 1)),
                Cell::text(one.place.clone()).class("label"),
                Cell::text(block.purpose.name()),
                Cell::number(
                    block.runs.len().to_string(),
                    f64::from(u32::try_from(block.runs.len()).unwrap_or(0)),
                ),
                Cell::text(one.space.label(all)),
                Cell::number(percent(spread.exp_m1()), spread.exp_m1()),
            ],
            group: one.place.clone(),
            class: "",
        }
    };
    one.path.blocks.iter().enumerate().map(row).collect()
}

fn run_columns() -> Vec<Column> {
    vec![
        Column::text("block"),
        Column::text("where"),
        Column::text("options"),
        Column::number("against the mean of its block", ""),
    ]
}

fn run_rows(one: &Searched) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, block) in one.path.blocks.iter().enumerate() {
        let count = f64::from(u32::try_from(block.runs.len()).unwrap_or(1));
        let mean = block.runs.iter().map(|run| run.score).sum::<f64>() / count;
        for run in &block.runs {
            let share = (run.score - mean).exp_m1();
            rows.push(Row {
                cells: vec![
                    Cell::text(format!("{}", number + 1)),
                    Cell::text(one.place.clone()).class("label"),
                    Cell::text(one.space.label(run.run.configuration)),
                    Cell::number(signed(share), share),
                ],
                group: one.place.clone(),
                class: "",
            });
        }
    }
    rows
}
