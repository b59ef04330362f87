//! A page without a list of sections, in the report's style: everything is in the one file.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("assets/report.css");

/// Tables have no buttons here: no script runs.
const PLAIN: &str = ".table-box .buttons{display:none}";

/// The page as HTML text: its title, styles of its own, what stands in it, and what stands below.
#[must_use]
pub fn page(title: &str, style: &str, content: &Markup, footer: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · fsage" }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PLAIN) (PreEscaped(style)) }
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
