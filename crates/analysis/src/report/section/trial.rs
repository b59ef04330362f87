//! Every trial with its commands, so that it can be done again by hand.

use maud::{Markup, html};

use super::headline::flagged;
use super::{Content, Section};
use crate::report::factor;
use crate::report::text::nanoseconds;
use crate::report::view::Trial;

pub(super) const SECTION: Section =
    Section { id: "trials", title: "Trials and commands", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    if content.view.trials.is_empty() {
        return None;
    }
    Some(html! {
        p.lead { "Every command and setting of each trial in order, as a shell would read them." }
        @for trial in &content.view.trials { (details(trial)) }
    })
}

fn details(trial: &Trial) -> Markup {
    html! {
        details.trial {
            summary { (trial.label) (flagged(trial)) " " code { (trial.id) } }
            dl.facts {
                div { dt { "began" } dd { (trial.started) } }
                div { dt { "took" } dd { (nanoseconds(fsage_model::quantity::as_f64(trial.elapsed_ns))) } }
                div { dt { "seed" } dd { (trial.seed) } }
                div { dt { "check" } dd { (trial.check) } }
                @for (path, value) in &trial.factors {
                    div { dt { (factor::name(path)) } dd { (factor::value(path, value)) } }
                }
            }
            @if !trial.commands.is_empty() { pre tabindex="0" { (trial.commands.join("\n")) } }
            @if let Some(layout) = trial.layout().filter(|layout| !layout.worst.is_empty()) {
                h4 { "Most fragmented files" }
                pre tabindex="0" {
                    @for file in layout.worst.iter().take(10) {
                        (format!("{:>8} extents {:>12}  {}\n", file.extents, crate::report::text::whole_bytes(file.bytes), file.path))
                    }
                }
            }
        }
    }
}
