//! Prints the tables of `docs/media.md`, what the models do beside what is published, and what a request
//! costs the host; `-- --write docs/images` also writes the plots there.

#![allow(clippy::print_stdout, clippy::panic, reason = "an example that prints")]
#![allow(dead_code, reason = "the rig serves the tests too")]

#[path = "../../tests/media_rig/mod.rs"]
mod media_rig;
mod plot;
mod svg;

use std::path::{Path, PathBuf};
use std::time::Instant;

use fsage_disk::request::Operation;
use fsage_model::medium::presets;
use media_rig::flashbench::{README_RATES, open_units};
use media_rig::{Bench, Figure, HDD_SHEETS, SSD_SHEETS, cliff, float, hdd_figures, ssd_figures};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let write = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => None,
        (Some("--write"), Some(folder)) => Some(PathBuf::from(folder)),
        _ => panic!("usage: media [--write FOLDER]"),
    };
    for sheet in &HDD_SHEETS {
        table(sheet.preset, &hdd_figures(sheet), &["random 4 KiB reads, depth 1"]);
    }
    for sheet in &SSD_SHEETS {
        table(sheet.preset, &ssd_figures(sheet), &[]);
    }
    table("sd", &sd_figures(), &[]);
    cliffs();
    costs();
    write.as_deref().map_or(Ok(()), plots)
}

fn plots(folder: &Path) -> std::io::Result<()> {
    for (name, chart) in plot::all() {
        std::fs::write(folder.join(name), chart.svg())?;
        println!("{}", folder.join(name).display());
    }
    Ok(())
}

/// The names of the README's rows.
const SD_ROWS: [&str; 10] = [
    "2 units in turn, 4 MiB each",
    "2 units in turn, 2 MiB each",
    "2 units in turn, 1 MiB each",
    "2 units in turn, 512 KiB each",
    "2 units in turn, 256 KiB each",
    "3 units in turn, 4 MiB each",
    "3 units in turn, 2 MiB each",
    "3 units in turn, 1 MiB each",
    "3 units in turn, 512 KiB each",
    "3 units in turn, 256 KiB each",
];

fn sd_figures() -> Vec<Figure> {
    let row = |(name, (units, block, published)): (&'static str, (u64, u64, f64))| Figure {
        name,
        unit: "MiB/s",
        modelled: open_units("sd", 4 << 20, block, units, true) / f64::from(1 << 20),
        published: Some(published),
    };
    SD_ROWS.into_iter().zip(README_RATES).map(row).collect()
}

/// Write cliffs and what a rest does to them: SSDs as drives of 16 GiB, all else in proportion.
fn cliffs() {
    println!(
        "\n| | before | until | behind | after a rest | until |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    );
    for name in ["ssd-consumer", "nvme-tlc", "nvme-qlc"] {
        let sheet = SSD_SHEETS.iter().find(|sheet| sheet.preset == name);
        let Some(found) = sheet.map(|sheet| cliff::ssd(sheet, 16 << 30, 0)) else { continue };
        println!(
            "| {name}, sequential (MB/s; % of the drive) | {:.0} | {:.1} % | {:.0} | {:.0} | {:.1} % |",
            found.before / 1e6,
            100.0 * found.until / float(16 << 30),
            found.behind / 1e6,
            found.rested / 1e6,
            100.0 * found.rested_until / float(16 << 30),
        );
    }
    let found = cliff::shingled("smr,bands=written", 400_000);
    println!(
        "| smr, random 4 KiB (1/s; writes) | {:.0} | {:.0} | {:.2} | {:.0} | {:.0} |",
        found.before, found.until, found.behind, found.rested, found.rested_until,
    );
    println!(
        "\nsmr: a band is cleaned in {:.2} s; read {:?} B/s",
        cliff::band_clean_s(),
        cliff::shingled_read()
    );
}

/// A table of figures. Those in `predicted` follow from other parameters; all other published ones are what the preset's
/// parameters were set or calibrated to.
fn table(name: &str, figures: &[Figure], predicted: &[&str]) {
    println!("\n| {name} | model | published | deviation | origin |\n| --- | ---: | ---: | ---: | --- |");
    for figure in figures {
        let number = |v: f64| if v >= 1000.0 { svg::number(v.round()) } else { format!("{v:.2}") };
        let published = figure.published.map_or_else(|| "–".to_owned(), number);
        let deviation = figure.deviation().map_or_else(|| "–".to_owned(), |d| format!("{:+.1} %", 100.0 * d));
        let origin = match figure.published {
            None => "–",
            Some(_) if predicted.contains(&figure.name) => "predicted",
            Some(_) => "fitted",
        };
        println!(
            "| {} ({}) | {} | {published} | {deviation} | {origin} |",
            figure.name,
            figure.unit,
            number(figure.modelled)
        );
    }
}

/// Time this thread was on a processor, in nanoseconds; of the wall where the kernel does not say.
fn host_ns(begun: Instant) -> u64 {
    let on_processor = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    on_processor
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// What the host pays for a request: processor time of 200,000 random ones of 4 KiB, each alone; an SSD is
/// full and written at random before.
fn costs() {
    println!("\n| host time for 4 KiB at random (ns) | read | write |\n| --- | ---: | ---: |");
    for preset in presets() {
        let mut bench = Bench::new(preset.name, 4 << 30);
        let count = 200_000;
        if SSD_SHEETS.iter().any(|sheet| sheet.preset == preset.name) || preset.name.starts_with("ssd") {
            bench.sequential(Operation::Write, 0, 4 << 30, 128 << 10, 32);
            bench.kept(Operation::Write, 4096, 32, 500_000);
        }
        let mut cost = |operation| {
            let (begun, before_ns) = (Instant::now(), host_ns(Instant::now()));
            bench.random(operation, 4096, 1, count);
            float(host_ns(begun).saturating_sub(before_ns)) / float(count)
        };
        println!("| {} | {:.0} | {:.0} |", preset.name, cost(Operation::Read), cost(Operation::Write));
    }
}
