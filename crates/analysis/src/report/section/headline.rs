//! The answer, in the words in which `fsage run` ends.

use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use std::collections::BTreeSet;

use super::{Content, Section};
use crate::report::answer::{Answer, LINES, Survived};
use crate::report::figure::{Figure, figure};
use crate::report::text::{bytes, counted, grouped};
use crate::report::view::{Age, Clocks, Trial, View};

pub(super) const SECTION: Section =
    Section { id: "summary", title: "Answer", script: include_str!("../assets/answer.js"), render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    if view.trials.is_empty() {
        return Some(html! {
            p.empty { "No trial is complete yet; only the setup and the warnings are shown. "
                "Run the study again: complete trials are kept." }
        });
    }
    let answer = content.answer;
    Some(html! {
        (sentences(answer))
        (counts(answer))
        @if !answer.chart.is_empty() { (chart(content)) }
        ul.findings {
            li { (scope(view)) }
            @if let Some(line) = clocks(view) { li { (line) } }
            li { (digests(view)) }
        }
    })
}

fn sentences(answer: &Answer) -> Markup {
    html! {
        @if !answer.tuned.is_empty() {
            ul.answer {
                @for one in &answer.tuned {
                    @let (before, found) = one.parts();
                    li { (before) b { (found) } "." }
                }
            }
        }
        @if !answer.survival.is_empty() { (survival(&answer.survival)) }
        @if !(answer.survival.is_empty() && answer.tuned.is_empty()) && answer.sentences.is_empty() {
            @if !answer.method.is_empty() { p.empty { (answer.method) } }
        } @else if answer.sentences.is_empty() && !answer.method.is_empty() {
            p.empty { (answer.method) }
        } @else if answer.sentences.is_empty() {
            p.empty { "This study compares no two states of a file system, so there is no slowdown to report; its measurements are below." }
        } @else {
            ul.answer {
                @for sentence in &answer.sentences {
                    @let [before, found, after] = sentence.parts();
                    li { (before) b { (found) } (after) }
                }
            }
        }
    }
}

/// As many as the terminal has lines; the others open.
fn survival(all: &[Survived]) -> Markup {
    let list = |some: &[Survived]| {
        html! {
            ul.answer {
                @for one in some {
                    @let (before, found) = one.parts();
                    li { (before) b { (found) } "." }
                }
            }
        }
    };
    let (first, rest) = all.split_at(all.len().min(LINES));
    html! {
        (list(first))
        @if !rest.is_empty() {
            details {
                summary { (format!("{} more configurations", rest.len())) }
                (list(rest))
            }
        }
    }
}

fn chart(content: &Content<'_>) -> Markup {
    figure(&Figure {
        id: "answer-chart",
        kind: "answer",
        title: &content.view.timed("Slowdown by measure"),
        how_to_read: "a mark is one measure on one file system, the bar its interval; right of the line at 1 is slower, left of it faster. \
                      Hollow marks: no evidence of a difference, or in this run only.",
        controls: html! {},
        note: &content.answer.method,
    })
}

/// Verdicts, controls and warnings, counted: on the first screen, before the chart.
fn counts(answer: &Answer) -> Markup {
    html! {
        @if let Some(line) = answer.verdict_line() {
            p.counts { (line) " " a href="#claims" { "Verdicts" } }
        }
        @if let Some(controls) = &answer.controls {
            p.counts { (controls.line()) " " a href="#controls" { "Control results" } }
        }
        @if let Some(line) = answer.warning_line() {
            p.counts { (line) " " a href="#warnings" { "Explanations" } }
        }
    }
}

/// The sign that a trial has warnings, leading to them.
pub fn flags(trial: &Trial) -> Markup {
    html! {
        @if let Some(words) = kinds(trial) {
            " " a.flag href="#warnings" title=(words) aria-label=(format!("warnings: {words}")) { "⚠" }
        }
    }
}

/// The same where it cannot lead anywhere, because it is in something that opens.
pub fn flagged(trial: &Trial) -> Markup {
    html! {
        @if let Some(words) = kinds(trial) {
            " " span.flag role="img" title=(words) aria-label=(format!("warnings: {words}")) { "⚠" }
        }
    }
}

/// The kinds of a trial's warnings; nothing where it has none.
fn kinds(trial: &Trial) -> Option<String> {
    let kinds: BTreeSet<&str> = trial.warnings.iter().map(|warning| warning.kind.as_str()).collect();
    (!kinds.is_empty()).then(|| kinds.into_iter().collect::<Vec<_>>().join(", "))
}

fn scope(view: &View) -> String {
    // A run that several trials continue from was done once.
    let mut seen = BTreeSet::new();
    let (mut operations, mut written) = (0_u64, 0.0);
    for (_, age) in view.ages() {
        if age.run.as_ref().is_none_or(|run| seen.insert((run, &age.stage))) {
            operations = operations.saturating_add(age.result.operations);
            written += as_f64(age.result.bytes_written);
        }
    }
    // What followers did is what the leader did: recognised by what the operations were.
    for stage in view.trials.iter().filter_map(|trial| trial.lockstep.as_ref()) {
        operations = operations.saturating_add(stage.rounds.last().map_or(0, |round| round.operations));
        let leader = stage.rounds.iter().filter_map(|round| round.volumes.first());
        written += leader.map(|volume| as_f64(volume.write.bytes_written)).sum::<f64>();
    }
    let planned = view.study.planned.len();
    let complete = view.complete();
    let of = if planned > complete {
        format!(" of {} planned", grouped(planned.try_into().unwrap_or(0)))
    } else {
        String::new()
    };
    // Only loads that age a volume count theirs.
    let did = if operations > 0 {
        format!(": {} operations, {} written", grouped(operations), bytes(written))
    } else {
        String::new()
    };
    format!("{}{of} complete on {}{did}.", counted(complete, "trial"), view.file_systems.join(", "))
}

/// What the times are, where they are not the wall's.
fn clocks(view: &View) -> Option<Markup> {
    let which = match view.clocks() {
        Clocks::Wall => return None,
        Clocks::Model => "All times are",
        Clocks::Mixed => "Times on virtual media are",
    };
    if view.is_serial() {
        return Some(html! {
            (which) " " b { "model time with CPU time" } " (" code { "cpu = \"serial\"" } "): the device model's time for the same requests plus "
            "the CPU time of the load's system calls on this host, without overlap. The CPU time is measured and differs from run to run, as the "
            "table “Device time and counters” shows. "
            a href="#medium" { "Breakdown" } "."
        });
    }
    Some(html! {
        (which) " " b { "model time" } ": the device model's time for the same requests. It depends on the sequence of requests only, not on "
        "the host's CPU time or noise. "
        a href="#medium" { "Breakdown" } "."
    })
}

/// Whether the logical trees agree where they must.
fn digests(view: &View) -> Markup {
    use std::collections::BTreeMap;
    let mut groups: BTreeMap<(usize, u32), Vec<&Age>> = BTreeMap::new();
    for (trial, age) in view.ages() {
        groups.entry((age.panel, trial.repeat)).or_default().push(age);
    }
    let mut excused = 0;
    let mut different = Vec::new();
    let mut compared = 0;
    for group in groups.values().filter(|group| group.len() > 1) {
        let ages = || group.iter();
        if ages().any(|age| !age.result.digest_caveats.is_empty()) {
            excused += 1;
            continue;
        }
        compared += 1;
        let first = ages().next().map(|age| &age.result.digest);
        if ages().any(|age| Some(&age.result.digest) != first) {
            different.push(group.iter().map(|age| age.label.clone()).collect::<Vec<_>>().join(", "));
        }
    }
    html! {
        @if !different.is_empty() {
            strong.bad { "The logical trees differ although they must not: " } (different.join("; ")) ". "
        } @else if compared > 0 {
            "Every file system ended with the same logical tree (digests agree in " (counted(compared, "group")) "). "
        } @else if excused == 0 {
            "There are no two trials whose logical trees must agree. "
        }
        @if excused > 0 {
            "In " (counted(excused, "group")) " the trees need not agree (see " a href="#layout" { "digests" } "), "
            "because running out of space or a utilisation target changed the operations."
        }
    }
}
