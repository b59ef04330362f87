//! Power cuts of a real board or guest, over weeks (docs/power-cycle.md): check and repair the file system, verify
//! the data, mount, start the load, cut the power after a random time.
//!
//! Invariants:
//! - A run begins with a cut that no cycle counts. So whatever an interrupted run left on the board is gone, and a
//!   `power_off` that does not cut is noticed before anything is prepared.
//! - A cycle is recorded when it is over; one that was not recorded is done again, and has the same random time.
//! - What was read of the load before `power_off` is started has to survive; what comes later is not asked for.
//! - Damage that was found is recorded before the run ends for another reason.
//! - However a run ends, but by `kill -9`, the power of the board is on.

mod board;
mod error;
mod inspect;
mod local;
mod plan;
mod record;

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use fsage_model::crash::{ACKNOWLEDGES, LONGEST_ACKNOWLEDGEMENT, MOST_ACKNOWLEDGED_BYTES};
use fsage_model::power_cycle::{CommandSpec, CycleOutcome, CycleRecord, StepTimes, Turn};

pub use board::{Board, Ran, Step, Working};
pub use error::PowerCycleError;
pub use local::LocalBoard;
pub use plan::Plan;
use plan::seconds;
pub use record::{Record, read};

use crate::time::now_rfc3339;

/// Pause between two tries of `boot_id`.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How a run ended that met no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every configuration has its cycles or has stopped.
    Complete,
    /// The user ended it.
    Interrupted,
}

/// What is reported while it runs.
pub trait Watch {
    /// A board gets a new file system.
    fn prepared(&mut self, turn: &Turn);

    /// A cycle is recorded.
    fn recorded(&mut self, cycle: &CycleRecord);

    /// The load could not be ended on this host, and was left.
    fn left(&mut self, pid: u32);
}

/// Runs a board's cycles, from where its record ends.
///
/// # Errors
/// A command that has to work does not, the power is not cut, or the record cannot be written.
pub fn run(
    plan: &Plan,
    store: &Path,
    board: &mut dyn Board,
    watch: &mut dyn Watch,
) -> Result<Ending, PowerCycleError> {
    let record = Record::open(plan, store)?;
    let mut run = Run { plan, record, board, watch, off: None };
    let outcome = run.cycles();
    run.end_load();
    // Whatever happened: nobody stands by to switch it on.
    let on = run.off.take().map_or(Ok(()), |commands| run.power(&commands.power_on, "power_on"));
    match outcome {
        Ok(()) => on.map(|()| Ending::Complete),
        Err(PowerCycleError::Interrupted) => on.map(|()| Ending::Interrupted),
        Err(error) => Err(error),
    }
}

struct Run<'a> {
    plan: &'a Plan,
    record: Record,
    board: &'a mut dyn Board,
    watch: &'a mut dyn Watch,
    /// The commands that switch the power on, while it is off.
    off: Option<CommandSpec>,
}

/// What the load did before a cut.
#[derive(Debug, Default)]
struct Worked {
    /// The newest lines that it acknowledged.
    lines: VecDeque<String>,
    bytes: usize,
    /// How many it acknowledged.
    count: u64,
    /// It had ended by itself.
    idle: bool,
}

impl Worked {
    fn line(&mut self, line: &[u8]) -> Result<(), PowerCycleError> {
        let Some(text) = line.strip_prefix(ACKNOWLEDGES.as_bytes()) else { return Ok(()) };
        if text.len() > LONGEST_ACKNOWLEDGEMENT {
            return Err(PowerCycleError::LongLine { bytes: LONGEST_ACKNOWLEDGEMENT });
        }
        let text = str::from_utf8(text).map_err(|_| PowerCycleError::NotText)?;
        self.count += 1;
        self.bytes += text.len() + 1;
        self.lines.push_back(text.to_owned());
        while self.bytes > MOST_ACKNOWLEDGED_BYTES {
            self.bytes -= self.lines.pop_front().map_or(self.bytes, |line| line.len() + 1);
        }
        Ok(())
    }
}

impl Run<'_> {
    fn cycles(&mut self) -> Result<(), PowerCycleError> {
        let Some(first) = self.next() else { return Ok(()) };
        if let Some(other) = self.record.prepared_since(&self.plan.spec).filter(|_| first.cycle > 1) {
            return Err(PowerCycleError::Prepared { configuration: other.to_owned() });
        }
        let mut boot_id = self.first_cut(&self.plan.commands(&first))?;
        // After the first cut, and after a command that may still run on the board.
        let mut is_fresh = true;
        while let Some(turn) = self.next() {
            self.not_over()?;
            let commands = self.plan.commands(&turn);
            if turn.cycle == 1 {
                self.prepare(&turn, &commands)?;
            } else if is_fresh && self.resume(&turn, &commands, &boot_id)? {
                self.cut_undecided(&commands, &mut boot_id)?;
                continue;
            }
            self.cycle(&turn, &commands, &mut boot_id)?;
            is_fresh = self.cut_undecided(&commands, &mut boot_id)?;
        }
        Ok(())
    }

    /// Cuts what an undecided command may have left running on the board; whether the last record is undecided.
    fn cut_undecided(
        &mut self,
        commands: &CommandSpec,
        boot_id: &mut String,
    ) -> Result<bool, PowerCycleError> {
        let is_undecided = self.record.progress().is_undecided();
        if is_undecided && self.next().is_some() {
            *boot_id = self.cut(commands, Some(boot_id))?.0;
        }
        Ok(is_undecided)
    }

    fn next(&self) -> Option<Turn> {
        self.record.progress().next(&self.plan.spec)
    }

    /// Records a cycle, and only then fails as its inspection did.
    fn add(&mut self, cycle: CycleRecord, failed: Option<PowerCycleError>) -> Result<(), PowerCycleError> {
        self.record.add(&cycle)?;
        self.watch.recorded(&cycle);
        failed.map_or(Ok(()), Err)
    }

    fn end_load(&mut self) {
        if let Some(pid) = self.board.end_load() {
            self.watch.left(pid);
        }
    }

    fn not_over(&self) -> Result<(), PowerCycleError> {
        if self.board.is_over() { Err(PowerCycleError::Interrupted) } else { Ok(()) }
    }

    /// The cut that a run begins with. A board that is off has no boot id before.
    fn first_cut(&mut self, commands: &CommandSpec) -> Result<String, PowerCycleError> {
        let limit = seconds(self.plan.spec.timeout.command_s);
        let before = self.board.run(step("boot_id", &commands.boot_id, limit))?;
        let before = Some(before).filter(|ran| ran.status == Some(0) && !ran.first_line.is_empty());
        Ok(self.cut(commands, before.map(|ran| ran.first_line).as_deref())?.0)
    }

    /// Makes the file system of a life, and lets the commands judge it while nothing can be wrong with it.
    fn prepare(&mut self, turn: &Turn, commands: &CommandSpec) -> Result<(), PowerCycleError> {
        self.leave(commands)?;
        self.record.begin(turn)?;
        if !commands.prepare.is_empty() {
            self.watch.prepared(turn);
            self.must(step("prepare", &commands.prepare, seconds(self.plan.spec.timeout.check_s)))?;
        }
        let found = self.inspect(turn, commands, 0)?;
        match found.outcome {
            CycleOutcome::Survived => Ok(()),
            CycleOutcome::Damage { found_by, reason, .. } => {
                Err(PowerCycleError::Unfit { step: found_by.name().to_owned(), reason })
            }
            CycleOutcome::Undecided { step, reason } => Err(PowerCycleError::Unfit { step, reason }),
        }
    }

    /// Inspects a life that goes on after a cut that no cycle counts; whether it has ended by that. What a cycle
    /// acknowledged that was cut and not recorded has to be there, too.
    fn resume(
        &mut self,
        turn: &Turn,
        commands: &CommandSpec,
        boot_id: &str,
    ) -> Result<bool, PowerCycleError> {
        self.leave(commands)?;
        let length = self.record.whole_lines(turn)?;
        let found = self.inspect(turn, commands, length)?;
        match &found.outcome {
            CycleOutcome::Survived => {
                // The cycle is done again, and so are its lines.
                self.record.acknowledge(turn, &[])?;
                return Ok(false);
            }
            // Undecided twice: a new file system is the only way on.
            CycleOutcome::Undecided { .. }
                if self.record.progress().is_undecided() && !commands.prepare.is_empty() => {}
            CycleOutcome::Undecided { step, reason } => {
                return Err(PowerCycleError::Undecided { step: step.clone(), reason: reason.clone() });
            }
            CycleOutcome::Damage { .. } => {}
        }
        let cycle = CycleRecord {
            outcome: found.outcome,
            repaired: found.repaired,
            times: found.times,
            resumed: true,
            boot_id: boot_id.to_owned(),
            acknowledged_bytes: length,
            ..self.blank(turn)
        };
        self.add(cycle, found.failed)?;
        Ok(true)
    }

    fn blank(&self, turn: &Turn) -> CycleRecord {
        CycleRecord {
            configuration: turn.configuration.clone(),
            life: turn.life,
            cycle: turn.cycle,
            at: now_rfc3339(),
            cut_after_ns: 0,
            outcome: CycleOutcome::Survived,
            repaired: false,
            idle: false,
            resumed: false,
            acknowledged: 0,
            acknowledged_bytes: 0,
            boot_id: String::new(),
            times: StepTimes::default(),
        }
    }

    /// Unmounts what may be mounted: the board may mount by itself when it boots.
    fn leave(&mut self, commands: &CommandSpec) -> Result<(), PowerCycleError> {
        let limit = seconds(self.plan.spec.timeout.command_s);
        self.board.run(step("unmount", &commands.unmount, limit)).map(drop)
    }

    /// One cycle, recorded; the file system is clean and not mounted before.
    fn cycle(
        &mut self,
        turn: &Turn,
        commands: &CommandSpec,
        boot_id: &mut String,
    ) -> Result<(), PowerCycleError> {
        self.must(step("mount", &commands.mount, seconds(self.plan.spec.timeout.command_s)))?;
        let cut_after = self.plan.cut_after(turn);
        let worked = self.work(commands, cut_after)?;
        let (id, boot_ns) = self.cut(commands, Some(boot_id))?;
        *boot_id = id;
        let lines: Vec<String> = worked.lines.into();
        let length = self.record.acknowledge(turn, &lines)?;
        self.leave(commands)?;
        let found = self.inspect(turn, commands, length)?;
        let cycle = CycleRecord {
            cut_after_ns: nanoseconds(cut_after),
            outcome: found.outcome,
            repaired: found.repaired,
            idle: worked.idle,
            acknowledged: worked.count,
            acknowledged_bytes: length,
            boot_id: boot_id.clone(),
            times: StepTimes { boot_ns: Some(boot_ns), ..found.times },
            ..self.blank(turn)
        };
        self.add(cycle, found.failed)
    }

    /// Lets the load run until the power is to be cut.
    fn work(&mut self, commands: &CommandSpec, time: Duration) -> Result<Worked, PowerCycleError> {
        let mut worked = Worked::default();
        let started = self.board.now();
        match self.board.work(&commands.load, time, &mut |line| worked.line(line))? {
            Working::Runs => {}
            Working::Ended { status: 0, .. } => {
                worked.idle = true;
                let rest = (started + time).saturating_sub(self.board.now());
                self.board.pause(rest);
            }
            Working::Ended { status, said } => {
                return Err(PowerCycleError::Failed { step: "load", status, said });
            }
        }
        Ok(worked)
    }

    /// Cuts the power and gives it back; the new boot id, and nanoseconds until the board answered.
    fn cut(
        &mut self,
        commands: &CommandSpec,
        before: Option<&str>,
    ) -> Result<(String, u64), PowerCycleError> {
        self.off = Some(commands.clone());
        self.power(&commands.power_off, "power_off")?;
        self.end_load();
        self.board.pause(seconds(self.plan.spec.off_for_s));
        let started = self.board.now();
        // One that failed is tried once more at the end of the run.
        self.power(&commands.power_on, "power_on")?;
        self.off = None;
        let boot_id = self.boot(commands, started)?;
        if before == Some(&*boot_id) {
            return Err(PowerCycleError::NotCut { boot_id });
        }
        Ok((boot_id, nanoseconds(self.board.now().saturating_sub(started))))
    }

    fn power(&mut self, argv: &[String], key: &'static str) -> Result<(), PowerCycleError> {
        let limit = seconds(self.plan.spec.timeout.command_s);
        self.must(Step { stoppable: false, ..step(key, argv, limit) })
    }

    /// Waits until the board answers.
    fn boot(&mut self, commands: &CommandSpec, started: Duration) -> Result<String, PowerCycleError> {
        let limits = &self.plan.spec.timeout;
        let end = started + seconds(limits.boot_s);
        let mut said = "`boot_id` did not end".to_owned();
        loop {
            self.not_over()?;
            let rest = end.saturating_sub(self.board.now());
            if rest.is_zero() {
                return Err(PowerCycleError::NoBoot { seconds: limits.boot_s, said });
            }
            let limit = rest.min(seconds(limits.command_s));
            let ran = self.board.run(step("boot_id", &commands.boot_id, limit))?;
            if ran.status == Some(0) && !ran.first_line.is_empty() {
                return Ok(ran.first_line);
            }
            said = ran.last_line;
            self.board.pause(TRY_AGAIN);
        }
    }

    /// Runs a command that has to work.
    fn must(&mut self, step: Step<'_>) -> Result<(), PowerCycleError> {
        let (key, limit) = (step.key, step.limit);
        let ran = self.board.run(step)?;
        match ran.status {
            Some(0) => Ok(()),
            Some(status) => Err(PowerCycleError::Failed { step: key, status, said: ran.last_line }),
            None => Err(match ran.left {
                Some(pid) => PowerCycleError::Stuck { step: key, pid },
                None => PowerCycleError::Late { step: key, seconds: limit.as_secs_f64() },
            }),
        }
    }
}

fn step<'a>(key: &'static str, argv: &'a [String], limit: Duration) -> Step<'a> {
    Step { key, argv, input: None, limit, stoppable: true }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
