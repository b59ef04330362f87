//! Every trial with its commands, so that it can be done again by hand.

use fsage_model::precondition::PreconditionRecord;
use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::headline::flagged;
use super::{Content, Section};
use crate::report::factor;
use crate::report::text::{nanoseconds, significant, whole_bytes};
use crate::report::view::Trial;

pub(super) const SECTION: Section =
    Section { id: "trials", title: "Trials and commands", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    if content.view.trials.is_empty() {
        return None;
    }
    Some(html! {
        p.lead { "All commands and settings of each trial, in order and in shell syntax." }
        @for trial in &content.view.trials { (details(trial)) }
    })
}

/// What was done to the device beforehand, in a sentence.
fn preconditioning(done: &PreconditionRecord) -> String {
    let passes = match done.passes.len() {
        1 => "1 sequential pass".to_owned(),
        many => format!("{many} sequential passes"),
    };
    let wrote = nanoseconds(as_f64(done.runtime_ns));
    let rate = done.last_iops().map_or_else(String::new, |iops| format!(" at {} /s", significant(iops)));
    let end = if done.is_steady() { "steady" } else { "not steady" };
    let by = done
        .taken_from
        .as_ref()
        .map_or_else(String::new, |trial| format!("; by trial {trial}, {}", done.made));
    let more = done.continues.as_ref().map_or_else(String::new, |trial| {
        format!("; continues trial {trial}, after {} at random", whole_bytes(done.earlier_bytes))
    });
    format!("{passes}, random writes {end} after {wrote}{rate}{more}{by}")
}

fn details(trial: &Trial) -> Markup {
    html! {
        details.trial {
            summary { (trial.label) (flagged(trial)) " " code { (trial.id) } }
            dl.facts {
                div { dt { "began" } dd { (trial.started) } }
                div { dt { "took" } dd { (nanoseconds(as_f64(trial.elapsed_ns))) } }
                div { dt { "seed" } dd { (trial.seed) } }
                div { dt { "check" } dd { (trial.check) } }
                @if let Some(done) = &trial.precondition {
                    div { dt { "preconditioning" } dd { (preconditioning(done)) } }
                }
                @for (path, value) in &trial.factors {
                    div { dt { (factor::name(path)) } dd { (factor::value(path, value)) } }
                }
            }
            @if !trial.commands.is_empty() { pre tabindex="0" { (trial.commands.join("\n")) } }
            @if let Some(layout) = trial.layout().filter(|layout| !layout.worst.is_empty()) {
                h4 { "Most fragmented files" }
                pre tabindex="0" {
                    @for file in layout.worst.iter().take(10) {
                        (format!("{:>8} extents {:>12}  {}\n", file.extents, whole_bytes(file.bytes), file.path))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::fio::{FioEnd, FioLatency, FioSample};
    use fsage_model::precondition::Pass;

    use super::*;

    #[test]
    fn preconditioning_says_whether_it_was_steady_and_who_did_it() {
        let done = PreconditionRecord {
            name: "precondition".to_owned(),
            version: String::new(),
            made: "2026-01-01T00:00:00Z".to_owned(),
            taken_from: None,
            continues: None,
            earlier_bytes: 0,
            passes: vec![Pass::default(); 2],
            end: FioEnd::Steady,
            write: FioLatency::default(),
            runtime_ns: 600_000_000_000,
            samples: vec![FioSample { at_ms: 0, interval_ms: 1000, operations: 500, bytes: 0 }],
            device: None,
            elapsed_ns: 0,
        };
        assert_eq!(
            preconditioning(&done),
            "2 sequential passes, random writes steady after 10 min 0 s at 500 /s"
        );
        let taken = PreconditionRecord {
            taken_from: Some("abc".to_owned()),
            end: FioEnd::Time,
            passes: vec![Pass::default()],
            samples: Vec::new(),
            ..done
        };
        let said = preconditioning(&taken);
        assert!(said.starts_with("1 sequential pass, random writes not steady after"), "{said}");
        assert!(said.ends_with("; by trial abc, 2026-01-01T00:00:00Z"), "{said}");
        let continued = PreconditionRecord {
            taken_from: None,
            continues: Some("abc".to_owned()),
            earlier_bytes: 1 << 30,
            ..taken
        };
        let said = preconditioning(&continued);
        assert!(said.ends_with("; continues trial abc, after 1 GiB at random"), "{said}");
    }
}
