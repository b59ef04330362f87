//! `fsage device probe`: the geometry of a flash device, from the times of reads, and on request of writes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use fsage_analysis::geometry::boundary::Boundary;
use fsage_analysis::geometry::rules::{self, RuleAnswer};
use fsage_analysis::geometry::{Geometry, NoAnswer, Row, TRIPLES, enough, flashbench, judge, page, rows};
use fsage_model::geometry::{BoundarySpec, BoundaryTimes, DeviceHints};
use fsage_model::problem::{EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::protocol::call;
use fsage_model::size::Bytes;
use serde::Serialize;

use super::open_units::{self, OpenReport};
use super::{erased, unreadable};
use crate::progress::Progress;
use crate::report::save;
use crate::session;
use crate::terminal::Terminal;
use crate::text;
use fsage_lab::target::Incoming;

/// Arguments of `fsage device probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads two blocks before, across and after boundaries of every power of two, in random order and at random places, bypassing
the page cache, and reports at which alignments crossing costs more, or \"no answer\" and why. The published rules are shown
for comparison. Nothing is written, except with --open-units: everything on DEVICE is lost then. See docs/probe.md.

Examples:
  sudo fsage device probe /dev/mmcblk0
  sudo fsage device probe /dev/disk/by-id/mmc-… --open-units --erase /dev/disk/by-id/mmc-…
  fsage device probe --from flashbench.txt")]
pub struct ProbeArgs {
    /// Block device: a disk, a card or a partition
    #[arg(value_name = "DEVICE", required_unless_present = "from")]
    pub device: Option<PathBuf>,
    /// Judge the saved output of `flashbench -a` instead of a device
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "triples", "block_size", "seed"])]
    pub from: Option<PathBuf>,
    /// Number of boundaries per alignment [default: 128, and up to 896 more while there are steps that are not certain]
    #[arg(long, value_name = "N")]
    pub triples: Option<u32>,
    /// Size of each of the two blocks [default: two sectors]
    #[arg(long, value_name = "SIZE")]
    pub block_size: Option<Bytes>,
    /// Random seed of places and order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Then write to several allocation units in turn, and report how many keep their speed; needs --erase
    #[arg(long, conflicts_with = "from")]
    pub open_units: bool,
    /// Size of an allocation unit [default: the largest alignment that is found, or what the card reports]
    #[arg(long, value_name = "SIZE", requires = "open_units")]
    pub unit_size: Option<Bytes>,
    /// Most units that are written in turn
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(2..=64),
        requires = "open_units"
    )]
    pub most_units: u32,
    /// Allow the contents of DEVICE to be erased; PATH repeats DEVICE, and `PATH=UUID` also allows erasing
    /// the file system or partition table of that UUID on it
    #[arg(long, value_name = "PATH[=UUID]", requires = "open_units")]
    pub erase: Vec<String>,
    /// Also write what was measured as one HTML file; an existing file is replaced
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What `fsage device probe --json` prints.
#[derive(Debug, Serialize)]
struct ProbeReport {
    /// The device; null for saved output.
    device: Option<PathBuf>,
    /// The saved output.
    from: Option<PathBuf>,
    /// Bytes of a block; null for saved output.
    block_bytes: Option<u32>,
    /// Random seed; null for saved output.
    seed: Option<u64>,
    /// Bytes that were read.
    read_bytes: u64,
    /// What was measured, the smallest alignment first.
    rows: Vec<ReportRow>,
    /// Our answer; null when there is none.
    answer: Option<Answer>,
    /// Why there is none; null when there is one.
    no_answer: Option<NoAnswer>,
    /// The published rules.
    rules: Vec<RuleAnswer>,
    /// What the kernel says; null for saved output.
    kernel: Option<DeviceHints>,
    /// Units that can be written in turn; null where that was not asked.
    open_units: Option<OpenReport>,
}

/// One alignment.
#[derive(Debug, Serialize)]
struct ReportRow {
    /// The alignment.
    align_bytes: u64,
    /// Boundaries that were read.
    triples: usize,
    /// Median of the times that cross no boundary.
    read_ns: f64,
    /// Median of what crossing costs more.
    difference_ns: f64,
}

/// The answer.
#[derive(Debug, Serialize)]
struct Answer {
    /// Alignments at which crossing costs more.
    boundaries: Vec<Boundary>,
    /// Share of resamples with the same boundaries.
    agreeing: f64,
    /// The smallest boundary below 128 KiB.
    page_bytes: Option<u64>,
    /// The largest boundary of 128 KiB or more.
    unit_bytes: Option<u64>,
    /// That, where the kernel gives the same as the card's preferred erase size.
    erase_block_bytes: Option<u64>,
}

/// Does it.
pub(super) fn run(args: &ProbeArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let (report, rows) = match (&args.device, &args.from) {
        (Some(device), _) => measured(device, args, terminal)?,
        (None, Some(file)) => saved(file)?,
        (None, None) => {
            return Err(Problem::new(EXIT_USAGE, "no device is given").hint("name a block device"));
        }
    };
    // Neither is lost where the other cannot be written.
    let saved = match &args.output {
        Some(path) => save("page", path, page(&report, &rows).as_bytes()),
        None => Ok(()),
    };
    if terminal.json {
        terminal.json(&report)?;
    } else {
        terminal.result(&words(&report, |name| terminal.bold(name)))?;
    }
    saved?;
    Ok(report.open_units.as_ref().map_or(EXIT_OK, |open| open.exit_code))
}

/// The page, with the same words as the terminal.
fn page(report: &ProbeReport, rows: &[Row]) -> String {
    let geometry = report
        .answer
        .as_ref()
        .map(|answer| Geometry { boundaries: answer.boundaries.clone(), agreeing: answer.agreeing });
    page::page(&page::Content {
        name: &name(report),
        rows,
        geometry: geometry.as_ref(),
        words: &words(report, |text| text.to_owned()),
        rules: &report.rules,
        open: report.open_units.as_ref().and_then(|open| open.answers.as_ref()),
    })
}

/// The device, or the file.
fn name(report: &ProbeReport) -> String {
    let subject = report.device.as_ref().or(report.from.as_ref());
    subject.map(|path| path.display().to_string()).unwrap_or_default()
}

type Measured = (ProbeReport, Vec<Row>);

fn measured(device: &Path, args: &ProbeArgs, terminal: &Terminal) -> Result<Measured, Problem> {
    // What may not be erased is known before anything is read.
    let volume = args.open_units.then(|| erased::volume(device, &args.erase)).transpose()?;
    let hints = session::ask(call::DeviceHints { device: device.to_path_buf() })
        .map_err(|problem| unreadable(device, problem))?;
    // What does not fit is no block either.
    let block = args.block_size.map(|size| u32::try_from(size.0).unwrap_or(u32::MAX));
    let of = |triples, seed| BoundarySpec::new(hints.size_bytes, hints.sector_bytes, block, triples, seed);
    let spec = of(args.triples.unwrap_or(TRIPLES), args.seed).map_err(|error| {
        Problem::new(EXIT_USAGE, format!("{} cannot be probed", device.display()))
            .because(&error)
            .hint(error.hint())
    })?;
    if args.open_units {
        // A size that no unit has is known before anything is read, too.
        open_units::units(&hints, None, args)?;
    }
    let mut times = boundaries(device, &spec, terminal)?;
    if args.triples.is_none() {
        let more = |triples, round| {
            let spec = of(triples, args.seed.wrapping_add(round)).ok();
            spec.map(|spec| boundaries(device, &spec, terminal)).transpose()
        };
        times = enough(times, more)?;
    }
    let rows = rows(&times);
    let mut report = ProbeReport {
        device: Some(device.to_path_buf()),
        block_bytes: Some(spec.block_bytes),
        seed: Some(spec.seed),
        read_bytes: times.read_bytes,
        ..report(&rows, Some(hints.clone()))
    };
    if let Some(volume) = &volume {
        let found = report.answer.as_ref().and_then(|answer| answer.unit_bytes);
        let found = (device, &hints, found.or(hints.preferred_erase_bytes));
        report.open_units = Some(open_units::after_reads(found, volume, args, terminal));
    }
    Ok((report, rows))
}

fn boundaries(device: &Path, spec: &BoundarySpec, terminal: &Terminal) -> Result<BoundaryTimes, Problem> {
    let mut progress = Progress::new(terminal);
    if terminal.live {
        progress.stage(&format!("probing {}", device.display()));
    }
    let call = call::ReadBoundaries { device: device.to_path_buf(), spec: spec.clone() };
    let times = session::ask_interruptible(call, false, terminal, &mut |incoming| {
        if let Incoming::Event(event) = incoming {
            progress.event(&event);
        }
    });
    progress.finish();
    times
}

fn saved(file: &Path) -> Result<Measured, Problem> {
    let failed = || format!("cannot read {}", file.display());
    let text = fsage_sys::input::read_text(file, flashbench::MOST_BYTES)
        .map_err(|error| Problem::new(EXIT_USAGE, failed()).because(&error))?;
    let mut found = flashbench::parse(&text)
        .map_err(|error| Problem::new(EXIT_USAGE, failed()).because(&error).hint(error.hint()))?;
    found.sort_by_key(|row| row.align_bytes);
    Ok((ProbeReport { from: Some(file.to_path_buf()), ..report(&found, None) }, found))
}

fn report(rows: &[Row], kernel: Option<DeviceHints>) -> ProbeReport {
    let values: Vec<(u64, f64)> = rows.iter().map(|row| (row.align_bytes, row.difference_ns())).collect();
    let (answer, no_answer) = match judge(rows) {
        Ok(geometry) => (Some(answer(geometry, kernel.as_ref())), None),
        Err(reason) => (None, Some(reason)),
    };
    let row = |row: &Row| ReportRow {
        align_bytes: row.align_bytes,
        triples: row.differences_ns.len(),
        read_ns: row.read_ns,
        difference_ns: row.difference_ns(),
    };
    ProbeReport {
        device: None,
        from: None,
        block_bytes: None,
        seed: None,
        read_bytes: 0,
        rows: rows.iter().map(row).collect(),
        answer,
        no_answer,
        rules: rules::all(&values),
        kernel,
        open_units: None,
    }
}

fn answer(geometry: Geometry, kernel: Option<&DeviceHints>) -> Answer {
    let (page_bytes, unit_bytes) = (geometry.page_bytes(), geometry.unit_bytes());
    let preferred = kernel.and_then(|kernel| kernel.preferred_erase_bytes);
    let Geometry { boundaries, agreeing } = geometry;
    let erase_block_bytes = unit_bytes.filter(|bytes| preferred == Some(*bytes));
    Answer { boundaries, agreeing, page_bytes, unit_bytes, erase_block_bytes }
}

fn words(report: &ProbeReport, heading: impl Fn(&str) -> String) -> String {
    let mut words = format!("{}\n\n", heading(&name(report)));
    let micro = |ns: f64| format!("{:.1} µs", ns / 1000.0);
    let mut table = vec![["alignment", "boundaries", "read", "more across"].map(str::to_owned).to_vec()];
    table.extend(report.rows.iter().map(|row| {
        let (align, triples) = (Bytes(row.align_bytes).to_string(), row.triples.to_string());
        vec![align, triples, micro(row.read_ns), micro(row.difference_ns)]
    }));
    words.push_str(&text::table(&table, 2));
    words.push('\n');
    if let Some(answer) = &report.answer {
        for one in &answer.boundaries {
            let (bytes, step) = (Bytes(one.bytes), micro(one.step_ns));
            let _ =
                writeln!(words, "read-cost boundary at {bytes}: {step} more than below (p = {:.1e})", one.p);
        }
        let _ = writeln!(words, "{:.0} % of resamples agree", 100.0 * answer.agreeing);
        words.push_str(&meaning(answer));
    }
    if let Some(reason) = &report.no_answer {
        let _ = writeln!(words, "no answer: {reason}\nhint: {}", reason.hint());
    }
    words.push_str("\nPublished rules, which always answer and have no confidence:\n");
    let list = |bytes: &[u64]| {
        let all: Vec<String> = bytes.iter().map(|one| Bytes(*one).to_string()).collect();
        all.join(" and ")
    };
    let rows: Vec<Vec<String>> =
        report.rules.iter().map(|rule| vec![rule.rule.to_owned(), list(&rule.boundaries_bytes)]).collect();
    words.push_str(&text::table(&rows, 2));
    if let Some(kernel) = &report.kernel {
        words.push_str("\nThe kernel says:\n");
        words.push_str(&text::table(&kernel_rows(kernel), 2));
    }
    if let Some(open) = &report.open_units {
        words.push_str(&open_units::words(open));
    }
    words
}

/// What the boundaries may be.
fn meaning(answer: &Answer) -> String {
    let mut words = String::new();
    if let Some(bytes) = answer.page_bytes {
        let _ = writeln!(words, "probably the page: {}", Bytes(bytes));
    }
    match (answer.erase_block_bytes, answer.unit_bytes) {
        (Some(bytes), _) => {
            let _ = writeln!(
                words,
                "erase block: {} (the kernel's preferred erase size is the same)",
                Bytes(bytes)
            );
        }
        (None, Some(bytes)) => {
            let _ = writeln!(words, "possibly the erase block: {} (nothing else confirms it)", Bytes(bytes));
        }
        (None, None) => {}
    }
    words
}

fn kernel_rows(kernel: &DeviceHints) -> Vec<Vec<String>> {
    let known = |bytes: u64| if bytes == 0 { "–".to_owned() } else { Bytes(bytes).to_string() };
    let mut rows = vec![
        ("size", known(kernel.size_bytes)),
        ("logical sector", known(u64::from(kernel.sector_bytes))),
        ("physical sector", known(kernel.physical_sector_bytes)),
        ("minimum_io_size", known(kernel.minimum_io_bytes)),
        ("optimal_io_size", known(kernel.optimal_io_bytes)),
        ("discard_granularity", known(kernel.discard_granularity_bytes)),
        ("rotational", if kernel.rotational { "yes" } else { "no" }.to_owned()),
    ];
    if kernel.start_bytes > 0 {
        rows.push(("begins on its disk at", known(kernel.start_bytes)));
    }
    if let Some(card) = &kernel.card {
        rows.push(("card", card.clone()));
        rows.push(("erase_size", known(kernel.erase_bytes.unwrap_or(0))));
        rows.push(("preferred_erase_size", known(kernel.preferred_erase_bytes.unwrap_or(0))));
    }
    rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}
