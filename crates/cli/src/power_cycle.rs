//! `fsage power-cycle`: power cuts of a real board or guest.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use fsage_analysis::power_cycle::{ConfigurationResult, Life, PowerCycleResult};
use fsage_lab::power_cycle::{self, Ending, LocalBoard, Plan, Watch};
use fsage_model::escape;
use fsage_model::power_cycle::{CutDamage, CycleOutcome, CycleRecord, Progress, Turn};
use fsage_model::problem::{EXIT_DAMAGE, EXIT_FAILED, EXIT_INTERNAL, EXIT_OK, Problem};
use fsage_model::quantity::as_f64;
use fsage_sys::signal::{Flags, Signal};

use super::terminal::Terminal;
use super::text;

/// Shortest time between two lines about cycles that survived.
const SAY: Duration = Duration::from_secs(5);

/// Lives that are listed one by one; of more, the first and the last.
const LISTED_LIVES: usize = 12;

/// Signals that end a run, with the power of the board on.
const ENDS: [Signal; 4] = [Signal::Interrupt, Signal::Terminate, Signal::Hangup, Signal::Quit];

/// Arguments of `fsage power-cycle`.
#[derive(Debug, Args)]
#[command(after_help = "\
FILE describes the board in TOML: commands that cut its power, check and mount its file system, start a load on
it, and verify what the load acknowledged with lines `ack TEXT`. They run as the user who runs fsage. See
docs/power-cycle.md.

The same command resumes a run, also after a reboot of this host: recorded cycles are not repeated. Each run
begins with a cut that does not count. Ctrl-C ends a run and leaves the board powered on.

Exit code 0: no damage so far; 5: damage was found; 4: a command failed, the power was not cut, a cycle is
undecided, or the run was ended early.

Examples:
  fsage power-cycle board.toml
  fsage power-cycle board.toml --cycles 2000
  fsage power-cycle board.toml --report")]
pub struct PowerCycleArgs {
    /// File that describes the board
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Folder of records; it has a subfolder for each board, by its name
    #[arg(long, value_name = "FOLDER", default_value = "store")]
    pub store: PathBuf,
    /// Cycles per configuration, instead of the number in the file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub cycles: Option<u64>,
    /// Print what is recorded; do not cut power
    #[arg(long)]
    pub report: bool,
}

/// Does it.
pub(crate) fn run(args: &PowerCycleArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let mut plan = Plan::load(&args.file)?;
    if let Some(cycles) = args.cycles {
        plan.spec.cycles = cycles;
    }
    let ending = if args.report { Ending::Complete } else { cycle(&plan, args, terminal)? };
    let cycles = power_cycle::read(&plan, &args.store)?;
    let is_complete = Progress::of(&cycles).next(&plan.spec).is_none();
    let result = PowerCycleResult::of(&plan.spec, is_complete, cycles);
    if terminal.json {
        terminal.json(&result)?;
    } else {
        terminal.result(&words(&result))?;
    }
    let is_open = ending == Ending::Interrupted || result.undecided() > 0;
    Ok(match result.damaged() {
        0 if is_open => EXIT_FAILED,
        0 => EXIT_OK,
        _ => EXIT_DAMAGE,
    })
}

fn cycle(plan: &Plan, args: &PowerCycleArgs, terminal: &Terminal) -> Result<Ending, Problem> {
    plan.find_programs()?;
    let flags = Flags::install(&ENDS)
        .map_err(|error| Problem::new(EXIT_INTERNAL, "cannot listen to signals").because(&error))?;
    let is_over = || ENDS.iter().any(|signal| flags.is_set(*signal));
    let mut board = LocalBoard::new(&plan.folder, &is_over);
    let mut said = Said { terminal: *terminal, at: None };
    Ok(power_cycle::run(plan, &args.store, &mut board, &mut said)?)
}

/// Says what comes of cycles: what is damaged at once, the rest every few seconds.
struct Said {
    terminal: Terminal,
    at: Option<Instant>,
}

impl Watch for Said {
    fn prepared(&mut self, turn: &Turn) {
        self.terminal.note(&format!("{}: prepares file system {}", turn.configuration, turn.life));
    }

    fn recorded(&mut self, cycle: &CycleRecord) {
        let is_due = self.at.is_none_or(|at| at.elapsed() >= SAY);
        if is_due || cycle.outcome != CycleOutcome::Survived {
            self.at = Some(Instant::now());
            let outcome = outcome(&cycle.outcome);
            let is_repaired = cycle.repaired && cycle.outcome == CycleOutcome::Survived;
            let repaired = if is_repaired { " after a repair" } else { "" };
            self.terminal.note(&format!(
                "{} {}, cut {}: {outcome}{repaired}",
                cycle.configuration, cycle.life, cycle.cycle
            ));
        }
    }

    fn left(&mut self, pid: u32) {
        self.terminal
            .note(&format!("the load could not be ended on this host (pid {pid}) and is still running"));
    }
}

fn outcome(outcome: &CycleOutcome) -> String {
    match outcome {
        CycleOutcome::Survived => "survived".to_owned(),
        CycleOutcome::Damage { found_by, reason, .. } => {
            format!("damage found by {}: {}", found_by.name(), escape::line(reason))
        }
        CycleOutcome::Undecided { step, reason } => {
            format!("undecided at {}: {}", escape::line(step), escape::line(reason))
        }
    }
}

fn words(result: &PowerCycleResult) -> String {
    let cycles: u64 = result.configurations.iter().map(|own| own.cycles).sum();
    let state = if result.complete { "complete" } else { "not complete" };
    let mut words =
        format!("{}: {}, {state}\n", result.name, text::plural(cycles, "power cut", "power cuts"));
    for own in &result.configurations {
        words.push_str(&configuration(own));
    }
    words
}

fn configuration(own: &ConfigurationResult) -> String {
    let decided = own.survived + own.damaged();
    let mut words = format!("\n{}: {} of {decided} decided power cuts survived", own.name, own.survived);
    words.push_str(if own.repaired > 0 { ", " } else { "\n" });
    if own.repaired > 0 {
        let _ = writeln!(words, "{} of them after a repair", own.repaired);
    }
    let [low, high] = own.damage_per_cut_95.map(|end| 100.0 * end);
    if let Some(mean) = own.mean_cuts_to_damage {
        let kinds: Vec<String> = CutDamage::ALL
            .iter()
            .filter_map(|kind| own.damage.get(kind).map(|count| format!("{} {count}", kind.name())))
            .collect();
        let _ = writeln!(words, "  damage found by: {}", kinds.join(", "));
        let _ = writeln!(
            words,
            "  damage in {} of {decided}: {:.3} % of cuts (95 %: {low:.3} to {high:.3} %), {mean:.1} cuts to the first on \
             average",
            own.damaged(),
            100.0 * own.damage_per_cut
        );
    } else if decided > 0 {
        let _ = writeln!(words, "  damage in none of {decided}: in at most {high:.3} % of cuts (95 %)");
    }
    for (count, what) in [
        (own.undecided, "undecided: a command timed out or gave no verdict"),
        (own.unacknowledged, "of the decided cuts without an acknowledged line"),
        (own.idle, "not counted: cut when the load had ended, so that nothing was written then"),
        (own.idle_damaged, "of these with damage"),
        (
            own.resumed,
            "found damaged after a cut that does not count: of a resumed run, or after an undecided cycle",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(words, "  {count} {what}");
        }
    }
    if own.acknowledged == 0 && own.cycles > 0 {
        words.push_str("  the load acknowledged nothing (no line `ack TEXT`): nothing had to survive\n");
    }
    words + &lives(&own.lives) + &times(own)
}

fn lives(lives: &[Life]) -> String {
    let mut words = String::new();
    let gap = lives.len().saturating_sub(LISTED_LIVES);
    for (place, life) in lives.iter().enumerate() {
        let half = LISTED_LIVES / 2;
        if gap > 0 && place >= half && place < half + gap {
            if place == half {
                let _ = writeln!(words, "  … {gap} more");
            }
            continue;
        }
        let survived = text::plural(life.survived, "power cut", "power cuts");
        let end = life.end.as_ref().map_or_else(|| "no damage so far".to_owned(), outcome);
        let _ = writeln!(words, "  file system {} survived {survived}, then: {end}", life.life);
    }
    words
}

/// The table of the paper: seconds of each step.
fn times(own: &ConfigurationResult) -> String {
    if own.times.is_empty() {
        return String::new();
    }
    let head = ["s", "min", "max", "mean", "median", "count"].map(str::to_owned).to_vec();
    let second = |ns: u64| format!("{:.3}", as_f64(ns) / 1e9);
    let row = |times: &fsage_model::crash::TimeSummary| {
        let cells = [times.min_ns, times.max_ns, times.mean_ns, times.median_ns].map(second);
        [std::slice::from_ref(&times.step), &cells[..], &[times.count.to_string()]].concat()
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(own.times.iter().map(row)).collect();
    text::table(&rows, 2)
}
