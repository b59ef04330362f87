//! Why: where the files lie and what free space is left, which is what ageing changes; and how the cost of
//! reading follows it. These are no findings: they say that ageing worked, and explain what it made slower.

use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::headline::flags;
use super::{Content, Section};
use crate::report::age_cost::points;
use crate::report::figure::{Figure, choice, figure, options, select};
use crate::report::text::{grouped, percent, significant, words};
use crate::report::view::{Age, Trial, View};

pub(super) const SECTION: Section =
    Section { id: "why", title: "Fragmentation", script: include_str!("../assets/layout_cost.js"), render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let cards = cards(content.view);
    let scatter = scatter(content);
    (cards.is_some() || scatter.is_some())
        .then(|| html! { (cards.unwrap_or_default()) (scatter.unwrap_or_default()) })
}

/// One card an ageing stage of a cell: the state after it.
fn cards(view: &View) -> Option<Markup> {
    let shown: Vec<(&Trial, &Age)> = view.ages().filter(|(trial, _)| trial.repeat == 0).take(12).collect();
    (!shown.is_empty()).then(|| html! {
        p.lead { "State after ageing, first repeat." }
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
    })
}

fn round_share(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

fn scatter(content: &Content<'_>) -> Option<Markup> {
    let points = points(content.view);
    let mut names: Vec<(String, String)> = Vec::new();
    for point in &points {
        if !names.iter().any(|(name, _)| *name == point.measure) {
            names.push((point.measure.clone(), words(&point.measure)));
        }
    }
    // The cold read of everything is what the score was made for.
    let chosen = names.iter().position(|(name, _)| name == "grep").unwrap_or(0);
    (!points.is_empty()).then(|| {
            figure(&Figure {
                id: "layout-cost-chart",
                kind: "layout_cost",
                title: "Measures by dynamic layout score",
                how_to_read: "each point is a trial: the further left, the fewer of the requested blocks were sequential; the higher, the longer \
                              the measure took. Points that rise to the left: fragmentation makes the measure slower; a flat cloud: it has \
                              no effect on this storage.",
                controls: html! {
                    (select("measure", "measure", &names, chosen))
                    (choice("scale", "y axis", &options(&[("linear", "linear"), ("log", "log")])))
                },
                note: "Dynamic layout score: the share of blocks requested from the device that directly follow the one requested before \
                       (Conway et al. 2017).",
            })
    })
}
