//! A page without a list of sections, in the report's style: everything is in the one file.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("assets/report.css");

/// Tables have no buttons here: no script runs.
const PLAIN: &str = ".table-box .buttons{display:none}";

/// What the head of every page begins with. Whatever a text of a store made of itself, the browser asks no
/// server for anything, sends no form and takes no other base for links: `scripts` is all that a page with
/// scripts allows beside. `blob:` and `data:` are pictures that the chart library saves.
pub(super) fn head(title: &str, scripts: &str) -> Markup {
    let policy = format!(
        "default-src 'none'; {scripts}style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; base-uri 'none'"
    );
    html! {
        meta charset="utf-8";
        meta http-equiv="Content-Security-Policy" content=(policy);
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " · fsage" }
        link rel="icon" href="data:,";
        style { (PreEscaped(STYLE)) }
    }
}

/// The page as HTML text: its title, styles of its own, what stands in it, and what stands below.
#[must_use]
pub fn page(title: &str, style: &str, content: &Markup, footer: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(title, ""))
                style { (PLAIN) (PreEscaped(style)) }
            }
            body.alone {
                main {
                    (content)
                    footer { "Made by fsage " (env!("CARGO_PKG_VERSION")) ". " (footer) }
                }
            }
        }
    };
    page.into_string()
}
