//! The frame every chart has: title, one sentence on how to read it, controls, the plot, a note and the
//! buttons that save its data. The script of the same name under `assets/` draws it.

use maud::{Markup, html};

/// A chart. `kind` names the drawing function, `id` is unique on the page.
pub struct Figure<'a> {
    pub id: &'a str,
    pub kind: &'a str,
    pub title: &'a str,
    /// Completes "How to read this: …".
    pub how_to_read: &'a str,
    pub controls: Markup,
    /// What must be known about this chart's data; may be empty.
    pub note: &'a str,
}

/// Frame of a chart.
pub fn figure(figure: &Figure<'_>) -> Markup {
    html! {
        figure.chart id=(figure.id) data-chart=(figure.kind) {
            figcaption {
                h3 { (figure.title) }
                p.how { b { "How to read this: " } (figure.how_to_read) }
            }
            div.controls {
                (figure.controls)
                button.csv type="button" data-csv-chart { "CSV" }
            }
            // Not an image: the library puts buttons into it.
            div.plot role="group" aria-label=(format!("{}. {}", figure.title, figure.how_to_read)) {}
            noscript { p.note { "This chart needs JavaScript; the tables below hold its numbers." } }
            p.note { (figure.note) }
        }
    }
}

/// A group of exclusive buttons; the first is chosen at the start.
pub fn choice(name: &str, label: &str, options: &[(String, String)]) -> Markup {
    html! {
        span.choice role="group" aria-label=(label) {
            span.choice-label { (label) }
            @for (i, (value, text)) in options.iter().enumerate() {
                button type="button" data-choice=(name) data-value=(value) aria-pressed=(i == 0) { (text) }
            }
        }
    }
}

/// A drop-down list; `chosen` is the index shown at the start.
pub fn select(name: &str, label: &str, options: &[(String, String)], chosen: usize) -> Markup {
    html! {
        label.select {
            span { (label) }
            select data-select=(name) {
                @for (i, (value, text)) in options.iter().enumerate() {
                    option value=(value) selected[i == chosen] { (text) }
                }
            }
        }
    }
}

/// Pairs of value and text from fixed words.
pub fn options(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(value, text)| ((*value).to_owned(), (*text).to_owned())).collect()
}
