//! The page around the sections: head, title, navigation, scripts. Everything is in the file itself.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::alone::head;
use super::island::embedded;
use super::section::{ALL, Content};

/// plotly.js in two parts, as published (`assets/plotly/README.md`); the second, which is packed (gzip, base64),
/// draws the 3-D surface only.
const PLOTLY: &str = include_str!("assets/plotly/plotly-cartesian.min.js");
const PLOTLY_3D: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly-gl3d.gz.base64"));
const PLOTLY_LICENCE: &str = include_str!("assets/plotly/LICENSE");
/// What every page has; sections add their own.
const SCRIPTS: [&str; 2] = [include_str!("assets/page.js"), include_str!("assets/chart.js")];

/// The whole page. `island` is the charts' data as JSON.
pub fn page(content: &Content<'_>, island: &str) -> String {
    let scripts: Vec<&str> = SCRIPTS.into_iter().chain(ALL.iter().map(|section| section.script)).collect();
    let scripts = scripts.join("\n");
    let sections: Vec<_> =
        ALL.iter().filter_map(|section| Some((section, (section.render)(content)?))).collect();
    let view = content.view;
    let spec = view.study.spec.as_ref();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(view.title(), "script-src 'unsafe-inline'; "))
                meta name="generator" content=(concat!("fsage ", env!("CARGO_PKG_VERSION")));
                script { (PreEscaped("document.documentElement.classList.add('js');try{const t=localStorage.getItem('fsage-theme');if(t)document.documentElement.dataset.theme=t}catch(e){}")) }
            }
            body {
                a.skip href="#summary" { "Skip to the results" }
                nav #nav aria-label="Sections" {
                    div.brand { "fsage" }
                    div.links { @for (section, _) in &sections { a href=(format!("#{}", section.id)) { (section.title) } } }
                    button #theme type="button" aria-label="Light or dark" { "◐" }
                }
                main {
                    header {
                        h1 { (view.title()) }
                        @if let Some(spec) = spec {
                            p.question { (spec.question) }
                            @if !spec.citation.is_empty() { p.citation { "Method: " (spec.citation) } }
                        }
                        (state(content))
                    }
                    @for (section, markup) in &sections {
                        section id=(section.id) aria-labelledby=(format!("{}-title", section.id)) {
                            h2 id=(format!("{}-title", section.id)) { (section.title) }
                            (markup)
                        }
                    }
                    footer { "Made by fsage " (env!("CARGO_PKG_VERSION")) ". Everything on this page is in this one file." }
                }
                script #data type="application/json" { (PreEscaped(embedded(island))) }
                (PreEscaped(format!("<!-- plotly.js\n\n{PLOTLY_LICENCE}-->")))
                script { (PreEscaped(PLOTLY)) }
                // Packed until a chart needs it (`fsage.solid`).
                script #plotly-3d type="text/plain" { (PreEscaped(PLOTLY_3D)) }
                script { (PreEscaped(scripts)) }
            }
        }
    };
    page.into_string()
}

/// What is missing, at the top where nobody can overlook it.
fn state(content: &Content<'_>) -> Markup {
    let view = content.view;
    let planned = view.study.planned.len();
    html! {
        @if !view.failed.is_empty() || !view.notes.is_empty() || planned > view.complete() {
            p.state role="status" {
                "This run is incomplete: " (view.complete()) " complete"
                @if planned > 0 { " of " (planned) }
                @if !view.failed.is_empty() { ", " (view.failed.len()) " failed" }
                @if !view.notes.is_empty() { ", " (view.notes.len()) " other " (if view.notes.len() == 1 { "note" } else { "notes" }) }
                ". " a href="#warnings" { "Details" }
            }
        }
    }
}
