//! Warnings of trials, failed trials, and what is wrong with the store.

use std::collections::BTreeSet;

use fsage_model::warning::WarningKind;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::view::Trial;

pub(super) const SECTION: Section = Section { id: "warnings", title: "Warnings", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    let warned: Vec<_> = view.trials.iter().filter(|trial| !trial.warnings.is_empty()).collect();
    Some(html! {
        @if warned.is_empty() && view.failed.is_empty() && view.notes.is_empty() {
            p { "None: no trial failed, none carries a warning, and every record could be read." }
        }
        @if !view.failed.is_empty() {
            h3 { "Failed trials" }
            @for trial in &view.failed {
                div.notice.bad {
                    b { (trial.label) } " " code { (trial.id) }
                    pre { (if trial.error.is_empty() { "no reason was recorded" } else { &trial.error }) }
                    @if !trial.commands.is_empty() {
                        details { summary { "Commands until it failed" } pre { (trial.commands.join("\n")) } }
                    }
                }
            }
        }
        @if !view.notes.is_empty() {
            h3 { "The store" }
            @for note in &view.notes { div.notice { b { (note.subject) } ": " (note.message) "." } }
        }
        @if !warned.is_empty() {
            h3 { "Warnings" }
            dl.glossary {
                @for kind in kinds(&warned) { dt { code { (kind) } } dd { (kind.explanation()) } }
            }
            @for trial in warned {
                div.notice {
                    b { (trial.label) }
                    ul { @for warning in &trial.warnings { li { code { (warning.kind) } " " (warning.message) } } }
                }
            }
        }
    })
}

/// Kinds that occur, by name.
fn kinds<'a>(warned: &[&'a Trial]) -> BTreeSet<&'a WarningKind> {
    warned.iter().flat_map(|trial| &trial.warnings).map(|warning| &warning.kind).collect()
}
