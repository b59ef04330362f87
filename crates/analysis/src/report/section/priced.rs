//! What the requests of trials would take on other media, computed from their logs.

use std::collections::BTreeSet;

use fsage_model::quantity::{as_f64, share};
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::factor;
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{in_unit, ratio, words};
use crate::report::view::Trial;

pub(super) const SECTION: Section =
    Section { id: "priced", title: "Priced on other media", script: "", render };

/// One part of one volume of trials that differ in their repeat alone, on one medium.
#[derive(Debug, PartialEq)]
struct Line {
    part: String,
    file_system: String,
    context: String,
    recorded_on: String,
    medium: String,
    trials: u64,
    recorded_ns: u64,
    total_ns: u64,
    /// By how much an answer is off at most where the medium recorded is priced, of any trial.
    off_ns: u64,
}

fn render(content: &Content<'_>) -> Option<Markup> {
    let mut lines: Vec<Line> = Vec::new();
    for trial in &content.view.trials {
        add(trial, &mut lines);
    }
    if lines.is_empty() {
        return None;
    }
    let rows: Vec<Row> = lines.iter().map(row).collect();
    Some(html! {
        p.lead {
            "These times are " b { "priced, not measured" } ": the requests recorded on the medium of the trial were replayed through the model of another "
            "medium, each after the requests that it depends on completed there. Requests that the kernel would issue differently on that medium are not modelled."
        }
        (table("priced-table", "Recorded requests on other media, mean over the repeats", &columns(), &rows))
        p.note {
            "The error is that of pricing the recorded medium, whose times are known: the largest deviation of a completion from its recorded time, in "
            "any trial. Against a second run on the other medium the error is larger for loads with think time: the tables in docs/disk.md, "
            "“Price again”, give it for each kind of load. The models themselves are off by as much as docs/media.md says."
        }
    })
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("part"),
        Column::text("file system"),
        Column::text("trials"),
        Column::text("recorded on"),
        Column::text("priced on"),
        Column::number("recorded", "ns"),
        Column::number("priced", "ns"),
        Column::number("priced ÷ recorded", ""),
        Column::text("error on the recorded medium"),
    ]
}

fn row(line: &Line) -> Row {
    let (recorded, total) = (as_f64(line.recorded_ns / line.trials), as_f64(line.total_ns / line.trials));
    let times = share(line.total_ns, line.recorded_ns);
    let trials = match (line.context.as_str(), line.trials) {
        ("", 1) => "1 trial".to_owned(),
        ("", count) => format!("{count} repeats"),
        (context, 1) => context.to_owned(),
        (context, count) => format!("{context}, {count} repeats"),
    };
    let error = match line.off_ns {
        0 => "none".to_owned(),
        off => format!("up to {}", in_unit(as_f64(off), "ns")),
    };
    Row {
        cells: vec![
            Cell::text(words(&line.part)),
            Cell::text(line.file_system.clone()),
            Cell::text(trials).class("label"),
            Cell::text(line.recorded_on.clone()),
            Cell::text(line.medium.clone()),
            Cell::number(in_unit(recorded, "model ns"), recorded),
            Cell::number(in_unit(total, "model ns"), total),
            Cell::number(ratio(times), times),
            Cell::text(error),
        ],
        group: line.part.clone(),
        class: "",
    }
}

/// Adds the parts of a trial in which requests took time, to those of its other repeats where there are any.
fn add(trial: &Trial, lines: &mut Vec<Line>) {
    let without = BTreeSet::from([factor::FILE_SYSTEM]);
    let context = factor::context(&trial.factors, &without);
    for log in &trial.priced {
        let volume = volume(&log.file);
        for on in &log.media {
            for part in on.parts.iter().filter(|part| part.recorded_ns > 0 && is_shown(&part.mark)) {
                let name =
                    if volume.is_empty() { part.mark.clone() } else { format!("{}, {volume}", part.mark) };
                let same = |line: &&mut Line| {
                    (&line.part, &line.file_system, &line.context, &line.recorded_on, &line.medium)
                        == (&name, &trial.file_system, &context, &log.recorded_on, &on.medium)
                };
                let (recorded_ns, total_ns) = (part.recorded_ns, part.total_ns);
                match lines.iter_mut().find(same) {
                    Some(line) => {
                        line.trials += 1;
                        line.recorded_ns = line.recorded_ns.saturating_add(recorded_ns);
                        line.total_ns = line.total_ns.saturating_add(total_ns);
                        line.off_ns = line.off_ns.max(log.largest_ns);
                    }
                    None => lines.push(Line {
                        part: name,
                        file_system: trial.file_system.clone(),
                        context: context.clone(),
                        recorded_on: log.recorded_on.clone(),
                        medium: on.medium.clone(),
                        trials: 1,
                        recorded_ns,
                        total_ns,
                        off_ns: log.largest_ns,
                    }),
                }
            }
        }
    }
}

/// What comes before the first mark and between measures is the lab's own work.
fn is_shown(mark: &str) -> bool {
    !mark.is_empty() && !mark.starts_with("after ")
}

/// The volume that a log's file is of; empty for the trial's own.
fn volume(file: &str) -> &str {
    file.strip_prefix("requests")
        .and_then(|name| name.strip_suffix(".log"))
        .unwrap_or(file)
        .trim_start_matches('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_of_the_volumes_that_their_files_name() {
        for (file, wanted) in [
            ("requests.log", ""),
            ("requests-lockstep-empty.log", "lockstep-empty"),
            ("requests.2.log", ".2"),
        ] {
            assert_eq!(volume(file), wanted);
        }
        assert!(is_shown("measure grep") && !is_shown("after measure grep") && !is_shown(""));
    }

    #[test]
    fn a_row_says_mean_ratio_and_error() {
        let line = Line {
            part: "measure grep".to_owned(),
            file_system: "ext4".to_owned(),
            context: "state aged".to_owned(),
            recorded_on: "hdd-7200".to_owned(),
            medium: "smr".to_owned(),
            trials: 2,
            recorded_ns: 4_000_000,
            total_ns: 10_000_000,
            off_ns: 0,
        };
        let cells = |line: &Line| {
            let text = table("t", "t", &columns(), &[row(line)]).into_string();
            ["state aged, 2 repeats", "2.00", "5.00", "×2.5", "none", "smr"]
                .map(|wanted| text.contains(wanted))
        };
        assert_eq!(cells(&line), [true; 6]);
        let off = table("t", "t", &columns(), &[row(&Line { off_ns: 1500, ..line })]).into_string();
        assert!(off.contains("up to 1.5"), "{off}");
    }
}
