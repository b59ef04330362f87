//! Prints the tables of `docs/media.md`: what the models do beside what is published.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "an example that prints")]
#![allow(dead_code, reason = "the rig serves the tests too")]

#[path = "../tests/media_rig/mod.rs"]
mod media_rig;

use media_rig::{Figure, HDD_SHEETS, SSD_SHEETS, hdd_figures, ssd_figures};

fn main() {
    for sheet in &HDD_SHEETS {
        table(sheet.preset, &hdd_figures(sheet));
    }
    for sheet in &SSD_SHEETS {
        table(sheet.preset, &ssd_figures(sheet));
    }
}

fn table(name: &str, figures: &[Figure]) {
    println!("\n| {name} | model | published | deviation |\n| --- | ---: | ---: | ---: |");
    for figure in figures {
        let number = |v: f64| if v >= 1000.0 { format!("{v:.0}") } else { format!("{v:.2}") };
        let published = figure.published.map_or_else(|| "–".to_owned(), number);
        let deviation = figure.deviation().map_or_else(|| "–".to_owned(), |d| format!("{:+.1} %", 100.0 * d));
        println!(
            "| {} ({}) | {} | {published} | {deviation} |",
            figure.name,
            figure.unit,
            number(figure.modelled)
        );
    }
}
