//! What a study measured of the fixes that `fsage explain` suggests: nothing is said that no store has.

use std::fmt::Write as _;
use std::path::Path;

use fsage_analysis::report::ReportOptions;
use fsage_analysis::report::remedy::{Helped, Remedied, in_words, measured};
use fsage_analysis::report::text::{bytes, counted, in_unit};
use fsage_lab::store::Reader;
use fsage_model::escape;
use fsage_model::explanation::Explanation;
use fsage_model::problem::{EXIT_USAGE, Problem};
use serde::Serialize;

/// What `fsage explain PATH --measured STORE --json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Shown<'a> {
    /// What was found.
    #[serde(flatten)]
    pub(super) explanation: &'a Explanation,
    /// What was measured of remedies on this file system.
    pub(super) measured: &'a [Measured],
}

/// A remedy and what it did to a measure.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    /// The method (`defragment`).
    method: String,
    /// File system, medium and other factors in words.
    place: String,
    /// The measure.
    measure: String,
    /// Complete trials.
    trials: usize,
    /// After it ÷ after nothing was done.
    against_control: Option<Ratio>,
    /// The same after further use.
    later: Option<Ratio>,
    /// Seconds by the device's clock; of a device model where `unit` says so.
    elapsed_s: Option<f64>,
    /// Unit of `elapsed_s`.
    unit: String,
    /// Bytes written to the device.
    written_bytes: Option<f64>,
    #[serde(skip)]
    text: String,
}

/// A ratio with its interval.
#[derive(Debug, Serialize)]
struct Ratio {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

/// The remedies of a store.
///
/// # Errors
/// It is no store, or its trials have no remedy.
pub(super) fn read(path: &Path) -> Result<Vec<Remedied>, Problem> {
    let store = Reader::open(path)?;
    let remedies = measured(&store, &ReportOptions::default())?;
    if remedies.is_empty() {
        let message = format!("no complete trial of {} measured a remedy", path.display());
        return Err(Problem::new(EXIT_USAGE, message).hint("run `fsage run remedies`, and name its store"));
    }
    Ok(remedies)
}

/// Those of a file system, without the control.
pub(super) fn on(remedies: Vec<Remedied>, file_system: &str) -> Vec<Measured> {
    let wanted = remedies.iter().filter(|one| one.file_system == file_system && one.method != "none");
    wanted.flat_map(|one| one.measures.iter().filter_map(move |helped| told(one, helped))).collect()
}

fn told(one: &Remedied, helped: &Helped) -> Option<Measured> {
    let control = helped.against_control.as_ref()?;
    let ratio = |estimate: &fsage_analysis::stats::Estimate| Ratio {
        value: estimate.value,
        low: estimate.interval.map(|interval| interval.low),
        high: estimate.interval.map(|interval| interval.high),
    };
    let mut text = format!("{} of what it is without", in_words(control));
    if let Some(later) = &helped.later {
        let _ = write!(text, "; after further use {}", in_words(later));
    }
    let cost = &one.cost;
    let time = cost.elapsed.as_ref().map(|(seconds, unit)| in_unit(*seconds, unit));
    let written = cost.written_bytes.map(|written| format!("{} written", bytes(written)));
    let cost: Vec<String> = time.into_iter().chain(written).collect();
    if !cost.is_empty() {
        let _ = write!(text, "; it took {}", cost.join(", "));
    }
    Some(Measured {
        method: one.method.clone(),
        place: one.place.clone(),
        measure: helped.measure.clone(),
        trials: one.trials,
        against_control: Some(ratio(control)),
        later: helped.later.as_ref().map(ratio),
        elapsed_s: one.cost.elapsed.as_ref().map(|(seconds, _)| *seconds),
        unit: one.cost.elapsed.as_ref().map(|(_, unit)| unit.clone()).unwrap_or_default(),
        written_bytes: one.cost.written_bytes,
        text,
    })
}

/// What was measured, in words.
pub(super) fn show(remedies: &[Measured], file_system: &str) -> String {
    let mut out = String::from("\nMeasured fixes\n");
    if remedies.is_empty() {
        let _ = writeln!(
            out,
            "  the store has none on {} with a control to compare it with",
            escape::line(file_system)
        );
    }
    for Measured { method, place, measure, trials, text, .. } in remedies {
        let place = escape::line(place);
        let trials = counted(*trials, "trial");
        let _ = writeln!(out, "  {method} on {place}: {measure} takes {text} ({trials})");
    }
    out
}
