//! What was found and what was not, in plain words.

use std::collections::BTreeSet;

use fsage_model::metric;
use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::difference::{Difference, FALSE_DISCOVERIES, Finding};
use crate::report::text::{bytes, counted, grouped, metric, percent, ratio, significant};
use crate::report::view::{Age, Clocks, Trial, View};
use crate::stats::ClaimVerdict;

pub(super) const SECTION: Section = Section { id: "summary", title: "In short", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    if view.trials.is_empty() {
        return Some(html! {
            p.empty { "No trial is complete yet, so there is nothing to show but the setup and what went wrong. "
                "Run the study again: complete trials are kept." }
        });
    }
    Some(html! {
        (cards(view))
        ul.findings {
            li { (scope(view)) }
            @if let Some(line) = clocks(view) { li { (line) } }
            @if let Some(line) = discoveries(content) { li { (line) } }
            @for line in strongest(&content.differences.made) { li { (line) } }
            @if let Some(line) = unproven(content) { li.unproven { (line) } }
            @if let Some(line) = claims(content) { li { (line) } }
            li { (digests(view)) }
        }
    })
}

/// One card an ageing stage of a cell: the state after it.
fn cards(view: &View) -> Markup {
    let shown: Vec<(&Trial, &Age)> = view.ages().filter(|(trial, _)| trial.repeat == 0).take(12).collect();
    html! {
        div.cards {
            @for (trial, age) in shown {
                @let ink = view.ink(trial);
                div.card style=(format!("--ink:{};--ink-dark:{}", ink.light, ink.dark)) {
                    div.card-title { span.dot {} (age.label) (flags(trial)) }
                    dl {
                        div { dt { "extents per file" } dd { (significant(age.result.layout.extents_per_file)) } }
                        div { dt { "files in one extent" } dd { (percent(round_share(age.result.layout.one_extent_share))) } }
                        @if let Some(free) = &age.result.free_space {
                            div { dt { "free extents" } dd { (grouped(free.extents)) } }
                        }
                        @if let Some(create) = age.result.latency.get(&fsage_model::operation::OperationKind::Create) {
                            // By a disk's own clock, what stays in the page cache takes no time: most creates
                            // do.
                            @if trial.is_model() {
                                div { dt { "mean create" } dd { (trial.latency(create.mean_ns)) } }
                            } @else {
                                div { dt { "median create" } dd { (trial.latency(as_f64(create.p50_ns))) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn round_share(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

/// The sign that a trial has warnings, leading to them.
pub fn flags(trial: &Trial) -> Markup {
    html! {
        @if !trial.warnings.is_empty() {
            @let kinds: BTreeSet<&str> = trial.warnings.iter().map(|warning| warning.kind.as_str()).collect();
            @let words = kinds.into_iter().collect::<Vec<_>>().join(", ");
            " " a.flag href="#warnings" title=(words) aria-label=(format!("warnings: {words}")) { "⚠" }
        }
    }
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
    let complete = view.trials.len();
    let of = if planned > complete {
        format!(" of {} planned", grouped(planned.try_into().unwrap_or(0)))
    } else {
        String::new()
    };
    format!(
        "{}{of} complete on {}: {} operations, {} written by them.",
        counted(complete, "trial"),
        view.file_systems.join(", "),
        grouped(operations),
        bytes(written)
    )
}

/// What the times are, where they are not the wall's.
fn clocks(view: &View) -> Option<Markup> {
    let which = match view.clocks() {
        Clocks::Wall => return None,
        Clocks::Model => "All times are",
        Clocks::Mixed => "Times on virtual media are",
    };
    Some(html! {
        (which) " " b { "model time" } ": what the medium's model would have taken for the same requests. It is exact to the "
        "sequence of requests; the host's CPU time, and this machine's noise, are not in it. "
        a href="#medium" { "Where it went" } "."
    })
}

/// How many comparisons were made and what is left of them when that is taken into account.
fn discoveries(content: &Content<'_>) -> Option<String> {
    let made = &content.differences.made;
    let confidence = percent(content.view.bootstrap.confidence);
    let differ = made.iter().filter(|difference| difference.finding != Finding::NoEvidence).count();
    let survive = made.iter().filter(|difference| difference.survives).count();
    let number = |count: usize| grouped(u64::try_from(count).unwrap_or(u64::MAX));
    let end = if survive == 0 { "none is shown here." } else { "the clearest of those:" };
    (!made.is_empty()).then(|| {
        format!(
            "{} made: {} differ by their {confidence} interval, {} still do when so many are made (false \
             discovery rate {}, Benjamini–Hochberg); {end}",
            counted(made.len(), "comparison"),
            number(differ),
            number(survive),
            percent(FALSE_DISCOVERIES),
        )
    })
}

/// The clearest surviving differences of the means and of the layout: at most four, one per metric and factor.
fn strongest(differences: &[Difference]) -> Vec<Markup> {
    let clear = |difference: &&Difference| {
        let statistic = metric::latency_parts(&difference.metric).map(|(_, statistic)| statistic);
        difference.survives && statistic.is_none_or(|statistic| statistic == metric::MEAN_NS)
    };
    let distance = |difference: &Difference| {
        difference
            .estimate
            .interval
            .map_or(0.0, |interval| interval.low.ln().abs().min(interval.high.ln().abs()))
    };
    let mut found: Vec<&Difference> = differences.iter().filter(clear).collect();
    found.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    let mut seen = BTreeSet::new();
    found.retain(|difference| {
        let family = difference.metric.split('.').take(2).collect::<Vec<_>>().join(".");
        seen.insert((family, difference.factor.clone()))
    });
    found.into_iter().take(4).map(sentence).collect()
}

fn sentence(difference: &Difference) -> Markup {
    let interval = difference.estimate.interval;
    let context =
        if difference.context.is_empty() { String::new() } else { format!(" ({})", difference.context) };
    html! {
        b { (capital(&metric(&difference.metric))) } ", " (difference.sides) (context) ": "
        b { (ratio(difference.estimate.value)) }
        @if let Some(interval) = interval { " [" (significant(interval.low)) ", " (significant(interval.high)) "]" }
        @match difference.finding {
            Finding::Worse => { " – worse" }
            Finding::Better => { " – better" }
            Finding::Differs | Finding::NoEvidence => {}
        }
        ", " (difference.estimate.basis.describe()) "."
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn unproven(content: &Content<'_>) -> Option<String> {
    let all = content.differences.made.len();
    let unproven = content
        .differences
        .made
        .iter()
        .filter(|difference| difference.finding == Finding::NoEvidence)
        .count();
    let number = |count: usize| grouped(u64::try_from(count).unwrap_or(u64::MAX));
    (all > 0).then(|| {
        let confidence = content.view.bootstrap.confidence;
        format!(
            "Not found: {} of {} comparisons show no evidence of a difference at {} confidence. That is not \
             evidence of no difference; more repeats narrow the intervals.",
            number(unproven),
            number(all),
            percent(confidence)
        )
    })
}

fn claims(content: &Content<'_>) -> Option<Markup> {
    let count = |wanted: fn(&ClaimVerdict) -> bool| {
        content.judgements.iter().filter(|judgement| wanted(&judgement.verdict)).count()
    };
    let all = content.judgements.len();
    (all > 0).then(|| {
        html! {
            "Of " (counted(all, "published finding")) ", "
            b { (count(|v| matches!(v, ClaimVerdict::Holds))) " hold" } " here, "
            b { (count(|v| matches!(v, ClaimVerdict::DoesNot))) " do not" } ", "
            (count(|v| matches!(v, ClaimVerdict::NoEvidence { .. }))) " have no evidence either way and "
            (count(|v| matches!(v, ClaimVerdict::NotTested { .. }))) " could not be tested. "
            a href="#claims" { "Which and why" } "."
        }
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
            "because running out of space or holding a level of use steered the operations."
        }
    }
}
