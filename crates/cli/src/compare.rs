//! `fsage compare`: whether two sides differ, as a table, a page, JSON or an exit code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use fsage_model::escape;
use fsage_model::problem::{EXIT_CANNOT_TELL, EXIT_GATE, EXIT_OK, Problem};
use fsage_model::warning::WarningKind;
use serde::Serialize;

use super::terminal::Terminal;
use super::{report, text};
use fsage_analysis::compare::gate::{Fired, Gate, Outcome, outcomes};
use fsage_analysis::compare::{Comparison, Finding, Options, Selection, Side, compare, page};
use fsage_analysis::report::text::{counted, in_unit};
use fsage_lab::store::Store;

const AFTER_HELP: &str = "\
A side is a store, or STORE:KEY=VALUE,KEY=VALUE for the trials of it that have these factors or settings.
A gate fires (exit code 6) when the interval of the ratio B / A, corrected for the number of gated metrics,
lies beyond its limit. One that names several metrics ignores those that improved. Exit code 7: no gate
fired, but at least one is inconclusive, because its interval contains the limit.
Example: fsage compare old/aging new/aging --fail-if 'latency.read.mean_ns > 1.10'";

/// Arguments of `fsage compare`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CompareArgs {
    /// Baseline, such as store/aging:file_system.kind=ext4
    #[arg(value_name = "A")]
    pub a: String,
    /// Side that is reported as slower or faster than A
    #[arg(value_name = "B")]
    pub b: String,
    /// Compare only metrics of this name; `*` stands for any text (may be repeated)
    #[arg(long, value_name = "GLOB")]
    pub metric: Vec<String>,
    /// Exit with 6 when a metric's ratio B / A passes a limit, such as 'latency.read > 1.10', and with 7 if
    /// its interval contains the limit (may be repeated)
    #[arg(long, value_name = "EXPR")]
    pub fail_if: Vec<String>,
    /// Also write the comparison as one HTML file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What `fsage compare --json` prints.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    /// Gates that fired.
    fired: Vec<&'a Fired>,
    /// Every gate, with what makes it fire.
    gates: &'a [Outcome],
}

/// Compares.
pub(crate) fn run(args: &CompareArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let gates: Vec<Gate> = args.fail_if.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let (a, b) = (side(&args.a)?, side(&args.b)?);
    let comparison = compare(&a, &b, &Options { metrics: args.metric.clone(), ..Options::default() })?;
    let gates = outcomes(&gates, &comparison)?;
    let fired: Vec<&Fired> = gates.iter().flat_map(|gate| &gate.fired).collect();
    if let Some(path) = &args.output {
        report::save("page", path, page(&comparison).as_bytes())?;
    }
    if terminal.json {
        terminal.json(&Shown { comparison: &comparison, fired: fired.clone(), gates: &gates })?;
    } else {
        terminal.result(&shown(&comparison, terminal))?;
    }
    for note in &comparison.notes {
        terminal.warn(note);
    }
    for outcome in &gates {
        outcome.warnings().iter().for_each(|warning| terminal.warn(warning));
        if let Some(power) = outcome.power() {
            terminal.note(&power);
        }
    }
    for Fired { gate, metric, context, ratio, .. } in &fired {
        let place = if context.is_empty() { String::new() } else { format!(" ({context})") };
        terminal.note(&format!("gate `{gate}` fired: {metric}{place} is at {ratio:.4}"));
    }
    Ok(exit_code(&gates))
}

/// What the gates come to: one that fired counts before one that is inconclusive.
fn exit_code(gates: &[Outcome]) -> u8 {
    if gates.iter().any(|gate| !gate.fired.is_empty()) {
        EXIT_GATE
    } else if gates.iter().any(|gate| !gate.tested) {
        EXIT_CANNOT_TELL
    } else {
        EXIT_OK
    }
}

/// Reads what a side selects.
///
/// # Errors
/// The store cannot be read, a key is none of its, or nothing is selected.
pub fn side(text: &str) -> Result<Side, Problem> {
    let selection = Selection::parse(text)?;
    let (records, notes) = Store::open(selection.path)?.complete_trials();
    Ok(selection.side(records, notes)?)
}

fn shown(comparison: &Comparison, terminal: &Terminal) -> String {
    let mut out = String::new();
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        let warnings: Vec<String> =
            side.warnings.iter().map(|(kind, number)| format!(", {number} × {kind}")).collect();
        let trials = counted(side.trials, "trial");
        let line = format!("{}  ({trials}{})", side.selection, warnings.concat());
        out.push_str(&format!("{name}  {}\n", escape::line(&line)));
    }
    let kinds: BTreeSet<&WarningKind> =
        comparison.a.warnings.keys().chain(comparison.b.warnings.keys()).collect();
    for kind in kinds {
        out.push_str(&format!("   {}: {}\n", escape::line(kind.as_str()), kind.meaning()));
    }
    out.push('\n');
    let places = comparison.rows.iter().any(|row| !row.context.is_empty());
    let heading: Vec<String> = ["metric", "where", "A", "B", "n"]
        .into_iter()
        .filter(|name| places || *name != "where")
        .map(str::to_owned)
        .collect();
    let table: Vec<Vec<String>> = comparison
        .rows
        .iter()
        .map(|row| {
            let value = |value: f64| in_unit(value, &row.unit);
            let n = format!("{}/{}", row.n_a, row.n_b);
            let place = places.then(|| row.context.clone());
            let name = std::iter::once(row.metric.clone()).chain(place);
            name.chain([value(row.mean_a), value(row.mean_b), n]).collect()
        })
        .collect();
    let lines = text::table(&[vec![heading], table].concat(), 0);
    let width = lines.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    for (number, line) in lines.lines().enumerate() {
        let pad = " ".repeat(width - line.chars().count());
        let Some(row) = number.checked_sub(1).and_then(|number| comparison.rows.get(number)) else {
            out.push_str(&format!("{line}{pad}  B against A\n"));
            continue;
        };
        let reported = escape::line(&row.words);
        let words = match row.finding {
            Finding::Worse => terminal.paint("1;31", &reported),
            Finding::Better => terminal.paint("1;32", &reported),
            Finding::Differs => terminal.bold(&reported),
            Finding::NoEvidence | Finding::NotComparable => terminal.dim(&reported),
        };
        let mut remarks = row.remarks();
        if let (Some(word), true) = (row.magnitude, row.finding != Finding::NoEvidence) {
            let delta = row.cliffs_delta.unwrap_or_default();
            let effect = format!("Cliff's delta {delta:+.2}, {word}");
            remarks = if remarks.is_empty() { effect } else { format!("{effect}; {remarks}") };
        }
        let remarks = if remarks.is_empty() { String::new() } else { format!("  ({remarks})") };
        out.push_str(&format!("{line}{pad}  {words}{}\n", terminal.dim(&remarks)));
    }
    out
}
