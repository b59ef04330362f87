//! `fsage device probe --open-units`: how many allocation units can be written in turn. What the device holds is lost.

use std::fmt::Write as _;
use std::path::Path;

use fsage_analysis::geometry::open::{self, Device, OpenLimit, OpenUnits, Order, Trial, Units, block_ns};
use fsage_engine::host::signature::{HEAD_BYTES, TAIL_BYTES};
use fsage_lab::volume::Volume;
use fsage_model::geometry::DeviceHints;
use fsage_model::problem::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::size::Bytes;
use fsage_model::timed_write::WriteRun;
use serde::Serialize;

use super::erased::{self, Writer};
use super::probe::ProbeArgs;
use crate::terminal::Terminal;

/// What the test says, for `--json`.
#[derive(Debug, Serialize)]
pub(super) struct OpenReport {
    /// Bytes of a unit; null where nothing tells it or there was no test.
    unit_bytes: Option<u64>,
    /// Bytes of a block; null without a test.
    block_bytes: Option<u32>,
    /// Bytes that were written; null without an answer: some may have been.
    written_bytes: Option<u64>,
    /// The answers; null without a test.
    pub answers: Option<OpenUnits>,
    /// Why there was no test; null where there was one.
    no_test: Option<String>,
    /// The next step then.
    hint: Option<String>,
    /// The exit code then.
    #[serde(skip)]
    pub exit_code: u8,
}

impl OpenReport {
    /// There was no test, and why.
    fn without(problem: &Problem) -> Self {
        Self {
            unit_bytes: None,
            block_bytes: None,
            written_bytes: None,
            answers: None,
            no_test: Some(problem.line()),
            hint: problem.hint.clone(),
            exit_code: problem.exit_code,
        }
    }
}

/// Where the device is written to. `unit_bytes`: what the reads or the card itself say; the command line's word comes first.
pub(super) fn units(
    hints: &DeviceHints,
    unit_bytes: Option<u64>,
    args: &ProbeArgs,
) -> Result<Option<Units>, Problem> {
    let Some(unit_bytes) = args.unit_size.map(|size| size.0).or(unit_bytes) else { return Ok(None) };
    let device = Device {
        size_bytes: hints.size_bytes,
        sector_bytes: hints.sector_bytes,
        start_bytes: hints.start_bytes,
        head_bytes: HEAD_BYTES as u64,
        tail_bytes: TAIL_BYTES as u64,
    };
    let units = Units::new(&device, unit_bytes, args.most_units, args.seed).map_err(|error| {
        Problem::new(EXIT_USAGE, "the open units cannot be tested").because(&error).hint(error.hint())
    })?;
    Ok(Some(units))
}

/// Tests the device.
fn measured(
    device: &Path,
    volume: &Volume,
    mut units: Units,
    args: &ProbeArgs,
    terminal: &Terminal,
) -> Result<OpenReport, Problem> {
    let (unit_bytes, block_bytes) = (Some(units.unit_bytes), Some(units.block_bytes));
    erased::held(volume, (device, args.seed), terminal, |writer| {
        let found = open::find(args.most_units, args.seed, &mut |trials| times(writer, &mut units, trials))?;
        Ok(OpenReport {
            unit_bytes,
            block_bytes,
            written_bytes: Some(writer.written_bytes),
            answers: Some(found),
            no_test: None,
            hint: None,
            exit_code: EXIT_OK,
        })
    })
}

fn times(writer: &mut Writer<'_>, units: &mut Units, trials: &[Trial]) -> Result<Vec<f64>, Problem> {
    let times = writer.time(trials.iter().map(|trial| WriteRun::at_once(units.writes(*trial))).collect())?;
    let block = trials.iter().zip(&times.runs).filter_map(|(trial, run)| block_ns(*trial, run));
    let blocks: Vec<f64> = block.collect();
    if blocks.len() == trials.len() {
        return Ok(blocks);
    }
    Err(Problem::new(EXIT_FAILED, "fewer writes were timed than were asked for")
        .hint("fsage and fsage-agent must be of the same version"))
}

/// The test after the reads; `found` is the unit that these or the card itself show. What keeps it from being done is part of the
/// report, so that what the reads showed is not lost.
pub(super) fn after_reads(
    (device, hints, found): (&Path, &DeviceHints, Option<u64>),
    volume: &Volume,
    args: &ProbeArgs,
    terminal: &Terminal,
) -> OpenReport {
    let unknown =
        || Problem::new(EXIT_FAILED, "nothing tells the size of a unit").hint("give it with `--unit-size`");
    let tested = units(hints, found, args)
        .and_then(|units| units.ok_or_else(unknown))
        .and_then(|units| measured(device, volume, units, args, terminal));
    tested.unwrap_or_else(|problem| OpenReport::without(&problem))
}

/// The answers in words.
pub(super) fn words(report: &OpenReport) -> String {
    let mut words = "\nUnits written in turn:\n".to_owned();
    let (Some(unit), Some(answers)) = (report.unit_bytes, &report.answers) else {
        let _ = writeln!(words, "not tested: {}", report.no_test.as_deref().unwrap_or_default());
        if let Some(hint) = &report.hint {
            let _ = writeln!(words, "hint: {hint}");
        }
        return words;
    };
    for (order, limit) in [(Order::Linear, &answers.linear), (Order::Random, &answers.random)] {
        let order = if order == Order::Linear { "blocks in order" } else { "blocks in random order" };
        let _ = writeln!(words, "  {order}: {}", in_words(limit, unit));
    }
    let block = report.block_bytes.unwrap_or(0).into();
    let written = Bytes(report.written_bytes.unwrap_or(0));
    let _ = writeln!(words, "  {written} written in blocks of {}", Bytes(block));
    words
}

fn in_words(limit: &OpenLimit, unit_bytes: u64) -> String {
    let unit = Bytes(unit_bytes);
    match *limit {
        OpenLimit::Units { units: 0, ratio, p } => {
            format!("not even one unit of {unit}: a block takes {ratio:.1} times as long (p = {p:.1e})")
        }
        OpenLimit::Units { units, ratio, p } => format!(
            "up to {units} units of {unit}; with one more, a block takes {ratio:.1} times as long (p = {p:.1e})"
        ),
        OpenLimit::NoLimit { tried, ratio } => {
            format!(
                "no limit up to {tried} units of {unit}: a block takes {ratio:.2} times as long as in one unit"
            )
        }
        OpenLimit::Gradual { tried, ratio } => format!(
            "no answer: a block takes longer the more units are written in turn, with {tried} of {unit} {ratio:.2} times as long as in one unit"
        ),
        OpenLimit::Unclear { ratio, .. } if !ratio.is_finite() => "no answer: blocks take no time".to_owned(),
        OpenLimit::Unclear { below: 0, above, ratio, p } => format!(
            "no answer: with {above} units of {unit}, a block takes {ratio:.2} times as long as in one unit in order (p = {p:.2})"
        ),
        OpenLimit::Unclear { below, above, ratio, p } => format!(
            "no answer: with {above} units of {unit}, a block takes {ratio:.2} times as long as with {below} (p = {p:.2})"
        ),
    }
}
