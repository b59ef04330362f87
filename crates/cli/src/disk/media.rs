//! `fsage disk media`: the media there are.

use std::fmt::Write as _;

use clap::Args;
use fsage_model::medium::{MediumSpec, presets};
use fsage_model::problem::{EXIT_OK, Problem};
use serde_json::json;

use crate::terminal::Terminal;
use fsage_lab::medium_file;

/// Arguments of `fsage disk media`.
#[derive(Debug, Args)]
#[command(after_help = "\
Set parameters after the name of the medium: `--medium hdd-7200,rpm=5400`, or in a study
`volume = { medium = { preset = \"hdd-7200\", rpm = 5400 }, size = \"8GiB\" }`. Instead of the name, the path of a medium file can be
given, such as `fsage device fit` writes.")]
pub struct MediaArgs {
    /// Show every parameter of this medium
    #[arg(value_name = "MEDIUM")]
    pub medium: Option<String>,
}

pub(super) fn run(args: &MediaArgs, terminal: &Terminal) -> Result<u8, Problem> {
    match &args.medium {
        Some(medium) => one(medium, terminal)?,
        None => all(terminal)?,
    }
    Ok(EXIT_OK)
}

fn all(terminal: &Terminal) -> Result<(), Problem> {
    if terminal.json {
        let rows: Vec<_> = presets()
            .iter()
            .map(|preset| {
                let parameters = MediumSpec::named(preset.name).map(|spec| spec.parameters()).unwrap_or_default();
                json!({
                    "name": preset.name, "summary": preset.summary, "source": preset.source, "parameters": parameters,
                })
            })
            .collect();
        return terminal.json(&rows);
    }
    let width = presets().iter().map(|preset| preset.name.len()).max().unwrap_or(0);
    let mut lines = String::new();
    for preset in presets() {
        let _ = writeln!(lines, "{:<width$}  {}", terminal.bold(preset.name), preset.summary);
    }
    terminal.result(&lines)
}

fn one(medium: &str, terminal: &Terminal) -> Result<(), Problem> {
    let spec = medium_file::from_flag(medium)?;
    let (preset, parameters) = (spec.preset(), spec.parameters());
    if terminal.json {
        return terminal.json(&json!({
            "name": preset.name, "summary": preset.summary, "source": preset.source, "parameters": parameters,
        }));
    }
    let mut lines = format!("{}: {}\n", terminal.bold(&spec.to_string()), preset.summary);
    if !preset.source.is_empty() {
        let _ = writeln!(lines, "{}", terminal.dim(preset.source));
    }
    let key = parameters.iter().map(|parameter| parameter.key.len()).max().unwrap_or(0);
    let value = parameters.iter().map(|parameter| parameter.value.len()).max().unwrap_or(0);
    for parameter in &parameters {
        let unit = if parameter.unit == "1" { "" } else { parameter.unit };
        let _ = writeln!(
            lines,
            "  {:<key$}  {:>value$} {unit:<4} {}",
            parameter.key, parameter.value, parameter.summary
        );
    }
    terminal.result(&lines)
}
