//! What is left after a cut: check and repair, mount, verify, unmount, each timed.

use std::fs::File;
use std::time::Duration;

use fsage_model::power_cycle::{CommandSpec, CutDamage, CycleOutcome, StepTimes, Turn};

use super::board::{Ran, Step};
use super::plan::seconds;
use super::{PowerCycleError, Run, nanoseconds};

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub outcome: CycleOutcome,
    pub repaired: bool,
    pub times: StepTimes,
    /// What went wrong once damage had been found: the run ends, after the damage is recorded.
    pub failed: Option<PowerCycleError>,
}

/// What a command says of the file system.
enum Verdict {
    Good,
    Repaired,
    Bad(i32),
    Unknown(String),
}

impl Run<'_> {
    /// Inspects the file system of a turn, whose acknowledged lines end at `length` of their file. It is not mounted
    /// before, and after this only where unmounting is undecided.
    ///
    /// # Errors
    /// A command cannot be run, the user ends the run, or it cannot be unmounted.
    pub(super) fn inspect(
        &mut self,
        turn: &Turn,
        commands: &CommandSpec,
        length: u64,
    ) -> Result<Found, PowerCycleError> {
        let limits = &self.plan.spec.timeout;
        let (long, short) = (seconds(limits.check_s), seconds(limits.command_s));
        let mut found = Found {
            outcome: CycleOutcome::Survived,
            repaired: false,
            times: StepTimes::default(),
            failed: None,
        };

        let (verdict, ran) = self.ask("check", &commands.check, None, long)?;
        found.times.check_ns = time(&ran);
        found.repaired = matches!(verdict, Verdict::Repaired);
        found.outcome = outcome(verdict, CutDamage::Check, &ran);
        if found.outcome != CycleOutcome::Survived {
            return Ok(found);
        }

        let (verdict, ran) = self.ask("mount", &commands.mount, None, short)?;
        found.times.mount_ns = time(&ran);
        found.outcome = outcome(verdict, CutDamage::Mount, &ran);
        if found.outcome != CycleOutcome::Survived {
            return Ok(found);
        }

        let lines = self.record.acknowledged(turn, length)?;
        let (verdict, ran) = self.ask("verify", &commands.verify, Some(lines), long)?;
        found.times.verify_ns = time(&ran);
        found.outcome = outcome(verdict, CutDamage::Verify, &ran);

        let (verdict, ran) = match self.ask("unmount", &commands.unmount, None, short) {
            Err(error) if matches!(found.outcome, CycleOutcome::Damage { .. }) => {
                found.failed = Some(error);
                return Ok(found);
            }
            asked => asked?,
        };
        match verdict {
            Verdict::Good | Verdict::Repaired => found.times.unmount_ns = time(&ran),
            // What was found before says more.
            _ if found.outcome != CycleOutcome::Survived => {}
            Verdict::Unknown(reason) => {
                found.outcome = CycleOutcome::Undecided { step: "unmount".to_owned(), reason };
            }
            Verdict::Bad(status) => {
                let said = ran.last_line;
                return Err(PowerCycleError::Failed { step: "unmount", status, said });
            }
        }
        Ok(found)
    }

    fn ask(
        &mut self,
        key: &'static str,
        argv: &[String],
        input: Option<File>,
        limit: Duration,
    ) -> Result<(Verdict, Ran), PowerCycleError> {
        let ran = self.board.run(Step { key, argv, input, limit, stoppable: true })?;
        let spec = &self.plan.spec;
        let verdict = match ran.status {
            Some(0) => Verdict::Good,
            Some(status) if key == "check" && spec.check_repaired.contains(&status) => Verdict::Repaired,
            Some(status) if spec.undecided.says_nothing(key, status) => {
                Verdict::Unknown(format!("status {status}: {}", ran.last_line))
            }
            // A signal on this host is none of the board's.
            Some(status) if ran.by_signal => Verdict::Unknown(format!("signal {}", status - 128)),
            Some(status) => Verdict::Bad(status),
            None => Verdict::Unknown(ran.left.map_or_else(
                || format!("it did not end within {} s", limit.as_secs_f64()),
                |pid| format!("it could not be ended (pid {pid})"),
            )),
        };
        Ok((verdict, ran))
    }
}

fn outcome(verdict: Verdict, found_by: CutDamage, ran: &Ran) -> CycleOutcome {
    match verdict {
        Verdict::Good | Verdict::Repaired => CycleOutcome::Survived,
        Verdict::Unknown(reason) => CycleOutcome::Undecided { step: found_by.name().to_owned(), reason },
        Verdict::Bad(status) => {
            let said = &ran.last_line;
            let reason = if said.is_empty() { format!("exit status {status}") } else { said.clone() };
            CycleOutcome::Damage { found_by, status, reason }
        }
    }
}

/// How long a command took that ended by itself.
fn time(ran: &Ran) -> Option<u64> {
    ran.status.map(|_| nanoseconds(ran.elapsed))
}
