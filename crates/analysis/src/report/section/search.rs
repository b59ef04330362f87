//! Which options make it faster: what each gives, the path of the search, and the confirmation.

use fsage_model::search::{Configuration, Fate, MeasuredBlock, Method};
use fsage_model::study::ScoreSpec;
use maud::{Markup, html};
use serde_json::Value;

use super::{Content, Section};
use crate::report::answer::{OptionGain, Tuned, signed};
use crate::report::search::{Searched, all};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, metric, percent, significant};

pub(super) const SECTION: Section =
    Section { id: "search", title: "Which options make it faster", script: "", render };

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
                p { "Left out, because they fail by themselves on this host: " (one.refused.join(", ")) "." }
            }
            @if !one.unfit.is_empty() {
                p {
                    "Left out, because the study requires that a power cut is survived, and with these one may lose what was synced, or leave a file system that needs a repair: "
                    (one.unfit.join(", ")) "."
                }
            }
        }
        (table("search-gains", "What each option gives", &gain_columns(), &gains))
        p.note {
            "A gain is what setting the option adds, whatever the others are, by least squares over all runs of the search; 95\u{202f}% "
            "intervals, not adjusted for the number of options. That an option is kept is decided with a probability of 5\u{202f}% for any "
            "false one in the whole search. Gains of kept options are a little too large, because lucky ones are kept more often: the "
            "confirmation, on runs that had no part in the choice, is free of that; its 90\u{202f}% interval is above 0 exactly where the "
            "one-sided test at 5\u{202f}% confirms it. "
            "An option that was dropped was unlikely to show the least gain that matters. Gains say nothing of safety: options that write or flush less may lose "
            "more in a power cut. "
            "What is written is that of the first stage of ageing, for each operation, by the same least squares. "
            @if greedy { "A greedy search compares single runs: its gains are mostly noise, and nothing confirms them. " }
            (counted_by(&found))
        }
        (table("search-blocks", "The path: blocks in the order they ran", &block_columns(), &blocks))
        details {
            summary { (counted(runs.len(), "run")) " of the search" }
            (table("search-runs", "Each run against the mean of its block", &run_columns(), &runs))
        }
    })
}

/// What runs are compared by.
fn counted_by(found: &[Searched]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for one in found {
        let parts: Vec<String> = one.parts.iter().map(part).collect();
        let model = if one.is_model { ", by the model's clock" } else { "" };
        let text =
            format!("Runs are compared by the weighted mean of logarithms of {}{model}.", parts.join(", "));
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
        Column::text("options in play"),
        Column::number("spread of its runs", ""),
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
