//! A fitted device model in words: for the terminal, and as a medium file.

use std::fmt::Write as _;

use fsage_analysis::device_fit::held_out::HeldOut;
use fsage_analysis::device_fit::{Origin, Parameter};
use fsage_lab::medium_file::{self, Entry};
use fsage_model::medium::MediumSpec;
use fsage_model::number::{bytes, grouped, percent, significant};
use fsage_model::quantity::to_u64;
use fsage_model::size::Bytes;
use fsage_model::timed_read::Readable;

use super::fit::{Class, FitReport};
use crate::terminal::Terminal;
use crate::text;

/// What the user should know before the measurement.
pub(super) fn cautions(readable: &Readable) -> Vec<&'static str> {
    let mut found = Vec::new();
    if readable.hints.start_bytes > 0 {
        found.push("this is a partition: the model is that of a drive of its size; give the whole disk to model the disk");
    }
    if readable.is_file {
        found.push("this is a file: its times are those of the file system and the device below");
    }
    found
}

/// A number without decimals that nobody measured.
fn whole(value: f64) -> String {
    if value.is_finite() { grouped(to_u64(value)) } else { "more".to_owned() }
}

/// Where a value comes from, in one line.
fn origin(parameter: &Parameter) -> String {
    match parameter.origin {
        Origin::Measured { low, high } if low == high => format!("measured: {}", parameter.how),
        Origin::Measured { low, high } => {
            format!("measured, {} to {}: {}", whole(low), whole(high), parameter.how)
        }
        Origin::Derived => format!("derived: {}", parameter.how),
        Origin::Assumed => format!("assumed: {}", parameter.how),
    }
}

/// The value of a preset's parameter as it is written in a study.
fn of_preset<'a>(preset: &'a [fsage_model::medium::Parameter], key: &str) -> Option<&'a str> {
    preset.iter().find(|one| one.key == key).map(|one| one.value.as_str())
}

/// The medium file. Every parameter is in it: as a key, or where it is simply the preset's, as a comment.
pub(super) fn file(report: &FitReport, preset: &MediumSpec) -> String {
    let parameters = preset.parameters();
    let is_own = |one: &&Parameter| {
        one.origin != Origin::Assumed || of_preset(&parameters, one.key) != Some(one.value.as_str())
    };
    let own: Vec<&Parameter> = report.fit.parameters.iter().filter(is_own).collect();
    let entry = |one: &&Parameter| Entry { key: one.key, value: one.value.clone(), comment: origin(one) };
    let entries: Vec<Entry> = own.iter().map(entry).collect();
    let mut text = medium_file::to_toml(&head(report), report.preset, &entries);
    let _ = writeln!(text, "\n# Assumed from the preset {}:", report.preset);
    for one in parameters.iter().filter(|one| own.iter().all(|own| own.key != one.key)) {
        let how = report.fit.parameters.iter().find(|fitted| fitted.key == one.key);
        let how = how.map(|fitted| format!(" ({})", fitted.how)).unwrap_or_default();
        let _ = writeln!(text, "#   {} = {}{how}", one.key, one.value);
    }
    text
}

fn head(report: &FitReport) -> Vec<String> {
    let class = match report.class {
        Class::Hdd => "hard disk",
        Class::Ssd => "SSD",
        Class::Card => "card or eMMC",
    };
    let mut lines = vec![
        format!(
            "Device model of {}, a {class} of {}, fitted by `fsage device fit` {} to the times of its {} (seed {}).",
            report.device.display(),
            Bytes(report.readable.hints.size_bytes),
            env!("CARGO_PKG_VERSION"),
            if report.is_of_writes { "reads and writes" } else { "reads" },
            report.seed
        ),
        "Measured values have a 95 % interval. Times include what the host takes for a read.".to_owned(),
    ];
    if report.is_of_writes {
        lines.push("The intervals of write_cache_bytes and of program times are from the least to the greatest of few sequences.".to_owned());
    }
    if report.readable.is_virtual {
        lines.push("The device is a virtual disk of fsage: a model, not a drive.".to_owned());
    }
    lines.extend(held_out(report));
    lines.extend(report.fit.notes.iter().map(|note| format!("Note: {note}.")));
    lines
}

fn held_out(report: &FitReport) -> Vec<String> {
    let mut lines = errors(&report.held_out, "that were not used for the fit").to_vec();
    if let Some(logged) = &report.log {
        let of = format!("of the log {}, one after the other", logged.log.display());
        lines.extend(errors(&logged.error, &of));
        if logged.left_out > 0 {
            lines.push(format!(
                "{} reads between them were left out: beyond the device's end, not in whole sectors, or too long.",
                grouped(logged.left_out)
            ));
        }
    }
    if report.class == Class::Hdd {
        lines.push(
            "Per read, the model uses the mean over the rotational position, which is unknown: most of the error comes from that."
                .to_owned(),
        );
    }
    lines
}

/// The error against so many reads, which are those `of` something.
fn errors(error: &HeldOut, of: &str) -> [String; 2] {
    let sign = if error.total < 0.0 { "shorter" } else { "longer" };
    [
        format!(
            "Error against {} reads {of}: mean {} per read, 90th percentile {}.",
            error.reads,
            percent(error.mean),
            percent(error.p90)
        ),
        format!(
            "All of them together take {} {sign} by the model; the sorted times differ by {} on average.",
            percent(error.total.abs()),
            percent(error.distribution)
        ),
    ]
}

/// The result on a terminal.
pub(super) fn words(report: &FitReport, terminal: &Terminal) -> String {
    let name = report.device.display().to_string();
    let mut words = format!("{}\n\n", terminal.bold(&name));
    let mut rows = vec![["parameter", "value", "from", "to"].map(str::to_owned).to_vec()];
    for one in &report.fit.parameters {
        let value = one.value.parse().map_or_else(|_| one.value.clone(), grouped);
        let (low, high) = match one.origin {
            Origin::Measured { low, high } => (whole(low), whole(high)),
            Origin::Derived => ("derived".to_owned(), String::new()),
            Origin::Assumed => ("assumed".to_owned(), String::new()),
        };
        rows.push(vec![one.key.to_owned(), value, low, high]);
    }
    words.push_str(&text::table(&rows, 2));
    let _ = writeln!(words, "  the rest is that of the preset {}\n", report.preset);
    words.push_str("Sequential reads, by place:\n");
    let mut rows = vec![["place", "measured", "model"].map(str::to_owned).to_vec()];
    rows.extend(report.fit.zones.iter().map(|zone| {
        let rate = |bytes_per_s: f64| format!("{} MB/s", significant(bytes_per_s / 1e6));
        vec![
            percent((100.0 * zone.place).round() / 100.0),
            rate(zone.bytes_per_s),
            rate(zone.fitted_bytes_per_s),
        ]
    }));
    words.push_str(&text::table(&rows, 2));
    if !report.fit.depths.is_empty() {
        words.push_str("\nRandom reads, by depth:\n");
        let row = |one: &fsage_analysis::device_fit::DepthRate| {
            vec![one.depth.to_string(), format!("{}/s", significant(one.reads_per_s))]
        };
        words.push_str(&text::table(&report.fit.depths.iter().map(row).collect::<Vec<_>>(), 2));
    }
    words.push('\n');
    for line in held_out(report).iter().chain(&report.fit.notes) {
        let _ = writeln!(words, "{line}");
    }
    let read = bytes(fsage_model::quantity::as_f64(report.read_bytes));
    let written = match report.written_bytes {
        Some(0) => "nothing".to_owned(),
        Some(written) => bytes(fsage_model::quantity::as_f64(written)),
        None => "an unknown amount".to_owned(),
    };
    let _ = writeln!(words, "{read} read, {written} written to the device\n{}", report.output.display());
    words
}
