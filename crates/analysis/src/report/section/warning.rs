//! Warnings of trials, failed trials, and what is wrong with the store.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::warning::WarningKind;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::text::counted;
use crate::report::view::Trial;

pub(super) const SECTION: Section = Section { id: "warnings", title: "Warnings", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    let warned: Vec<_> = view.trials.iter().filter(|trial| !trial.warnings.is_empty()).collect();
    Some(html! {
        @if warned.is_empty() && view.failed.is_empty() && view.notes.is_empty() {
            p { "None: no trial failed or has a warning, and every record was read." }
        }
        @if !view.failed.is_empty() {
            h3 { "Failed trials" }
            @for trial in &view.failed {
                div.notice.bad {
                    b { (trial.label) } " " code { (trial.id) }
                    pre tabindex="0" { (if trial.error.is_empty() { "no reason was recorded" } else { &trial.error }) }
                    @if !trial.commands.is_empty() {
                        details { summary { "Commands before the failure" } pre tabindex="0" { (trial.commands.join("\n")) } }
                    }
                }
            }
        }
        @if !view.notes.is_empty() {
            h3 { "Store" }
            @for note in &view.notes { div.notice { b { (note.subject) } ": " (note.message) "." } }
        }
        @if !warned.is_empty() {
            h3 { "Warnings" }
            p.lead { "Each kind with its cause and its effect on the numbers; unfold it for the trials." }
            @for (kind, trials) in kinds(&warned) { (one(kind, &trials, view.trials.len())) }
        }
    })
}

/// A trial's label with the messages of one kind.
type Messages<'a> = Vec<(&'a str, &'a str)>;

/// A kind with its trials: those with the same message are listed together.
fn one(kind: &WarningKind, found: &Messages<'_>, all: usize) -> Markup {
    let trials: BTreeSet<&str> = found.iter().map(|(label, _)| *label).collect();
    let mut messages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (label, message) in found {
        messages.entry(message).or_default().push(label);
    }
    html! {
        div.notice {
            p { b { code { (kind) } } " in " (trials.len()) " of " (counted(all, "trial")) ". " (kind.explanation()) }
            details {
                summary { (counted(found.len(), "warning")) }
                ul { @for (message, labels) in messages { li { (message) div.source { (labels.join("; ")) } } } }
            }
        }
    }
}

/// Kinds that occur, by name, with their messages in the order of the trials.
fn kinds<'a>(warned: &[&'a Trial]) -> BTreeMap<&'a WarningKind, Messages<'a>> {
    let mut kinds: BTreeMap<&WarningKind, Messages<'_>> = BTreeMap::new();
    for trial in warned {
        for warning in &trial.warnings {
            kinds.entry(&warning.kind).or_default().push((&trial.label, &warning.message));
        }
    }
    kinds
}
