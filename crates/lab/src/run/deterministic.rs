//! What a trial in model time takes from the host: a processor, and with `deterministic = true` what makes its
//! model time come out the same again.
//!
//! Agent, disk servers and the kernel's workers of a trial share one processor: a request that wakes a sleeping
//! one takes several times as long, and no number is by that clock.
//!
//! A virtual disk's clock is exact to the sequence of requests; what makes two sequences differ is the
//! kernel: its timers go by wall-clock time, and its workers race on several processors. While a deterministic
//! trial runs, nothing is written back because time has passed. Where the wall's clock is what is measured,
//! the host stays as it is.
//!
//! Every setting is leased before it is changed. What the host refuses is a warning with the trial.

use std::path::Path;

use fsage_model::filesystem;
use fsage_model::protocol::call;
use fsage_model::study::StudySpec;
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;

use super::error::TrialError;
use super::stage::StageContext;
use crate::filesystem::FileSystem;
use crate::filesystem::deterministic::Kernel;
use crate::lease::LeaseId;
use crate::lease::setting::{self, Outcome};

/// Which processors workers that are bound to none run on, as a mask.
const WORKERS: &str = "/sys/devices/virtual/workqueue/cpumask";

/// How far from the processor where its work was asked for a worker that is bound to none may run, and the value
/// for "there" (Linux 6.6 and later, workqueue.rst "Affinity Scopes").
const SCOPE: (&str, &str) = ("/sys/module/workqueue/parameters/default_affinity_scope", "cpu");

/// Settings that put the kernel's timers off, and to what.
const TIMERS: &[(&str, &str)] = &[
    // Nothing is written back for its age, only when asked for or when memory is short.
    ("/proc/sys/vm/dirty_writeback_centisecs", "0"),
];

/// The timers that a trial's file system goes by; others' stay as they are.
fn timers(spec: &StudySpec) -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = filesystem::by_name(&spec.file_system.kind).map_or(&[][..], |row| row.timers);
    TIMERS.iter().chain(own).copied()
}

/// Settings that were changed.
#[derive(Debug, Default)]
pub(super) struct DeterministicSettings {
    taken: Vec<LeaseId>,
}

/// Whether the study asks for it, and the trial's times are a virtual disk's own.
pub(super) fn applies(spec: &StudySpec) -> bool {
    spec.deterministic && spec.volume.is_model_time()
}

/// The file system of a trial, with what it needs besides on a volume in model time under a kernel of this
/// release.
pub(super) fn file_system(spec: &StudySpec, resolved: &FileSystem, seed: u64, kernel: &str) -> FileSystem {
    let own = if applies(spec) { resolved.deterministic(seed, Kernel::of(kernel)) } else { resolved.clone() };
    // What one trial drops from the host's caches, another beside it would have to read again.
    if spec.volume.is_model_time() { own.forgotten_alone() } else { own }
}

/// What [`DeterministicSettings::take`] would do, as a shell would read it.
pub(super) fn describe(spec: &StudySpec) -> Vec<String> {
    if !spec.volume.is_model_time() {
        return Vec::new();
    }
    let pin = "taskset --all-tasks --cpu-list --pid LAST AGENT".to_owned();
    let mut lines = vec![pin, format!("echo MASK >{WORKERS}")];
    if applies(spec) {
        lines.extend(timers(spec).map(|(path, value)| format!("echo {value} >{path}")));
    }
    lines
}

impl DeterministicSettings {
    /// Takes what is needed, where the trial's volume keeps model time.
    pub(super) fn take(context: &mut StageContext<'_>) -> Result<Self, TrialError> {
        let mut deterministic = Self::default();
        if !context.spec.volume.is_model_time() {
            return Ok(deterministic);
        }
        match context.session.call(call::Pin { to: context.processors.own }) {
            Ok(cpu) => {
                let agent = context.session.identity().pid;
                context
                    .command("deterministic", &format!("taskset --all-tasks --cpu-list --pid {cpu} {agent}"));
                deterministic.keep_workers(cpu, context)?;
            }
            Err(error) if context.session.is_lost() => return Err(error.into()),
            Err(_) => less(context, "the agent cannot be kept on one processor"),
        }
        let held = timers(context.spec).filter(|_| applies(context.spec));
        for (path, value) in held.collect::<Vec<_>>() {
            if !deterministic.set(path, |_| value.to_owned(), context)? {
                less(context, &format!("this host has no {path}"));
            }
        }
        Ok(deterministic)
    }

    /// Keeps the kernel's workers on the trial's processor; with trials beside it, on all of theirs, and each near
    /// the task that queued its work.
    fn keep_workers(&mut self, cpu: u32, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let all = context.processors.all.clone();
        let processors = if all.is_empty() { vec![cpu] } else { all };
        if !self.set(WORKERS, |old| mask(old, &processors), context)? {
            less(context, &format!("this host has no {WORKERS}"));
        }
        let (path, value) = SCOPE;
        if processors.len() > 1 && !self.set(path, |_| value.to_owned(), context)? {
            less(context, &format!("its workers may run on the processor of the trial beside it: no {path}"));
        }
        Ok(())
    }

    /// Changes a setting; whether this host has it.
    fn set(
        &mut self,
        path: &str,
        value: impl Fn(&str) -> String,
        context: &mut StageContext<'_>,
    ) -> Result<bool, TrialError> {
        let mut new = String::new();
        let chosen = |old: &str| {
            new = value(old);
            new.clone()
        };
        let outcome = setting::set(context.session, context.journal, Path::new(path), chosen)?;
        let line = format!("echo {new} >{path}");
        match outcome {
            None => return Ok(false),
            Some(Outcome::Kept) => {}
            Some(Outcome::Set(id)) => {
                self.taken.push(id);
                context.command("deterministic", &line);
            }
            Some(Outcome::Refused) => less(context, &format!("this host refuses `{line}`")),
        }
        Ok(true)
    }

    /// Gives everything back.
    pub(super) fn release(self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        for id in self.taken.into_iter().rev() {
            context.release(Some(id))?;
        }
        Ok(())
    }
}

/// Says that model time may not come out the same again.
fn less(context: &mut StageContext<'_>, why: &str) {
    let message = format!("model time is less repeatable here: {why}");
    context.warn(Warning { kind: WarningKind::NotDeterministic, message });
}

/// A mask of these processors as the kernel writes it: in groups of 32 bits, as wide and as many as those of
/// `like`.
fn mask(like: &str, processors: &[u32]) -> String {
    let groups: Vec<&str> = like.split(',').collect();
    let mut from = u32::try_from(groups.len()).unwrap_or(1) * 32;
    let written = groups.iter().map(|group| {
        from -= 32;
        let here = processors.iter().filter_map(|cpu| cpu.checked_sub(from)).filter(|bit| *bit < 32);
        let bits = here.fold(0, |bits, bit| bits | 1_u32 << bit);
        format!("{bits:0width$x}", width = group.len())
    });
    written.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_look_like_the_kernels() {
        assert_eq!(mask("3", &[1]), "2");
        assert_eq!(mask("ff", &[7]), "80");
        assert_eq!(mask("ff", &[7, 6, 0]), "c1");
        assert_eq!(mask("ffffffff,ffffffff", &[33]), "00000002,00000000");
        assert_eq!(mask("ffffffff,ffffffff", &[33, 31]), "00000002,80000000");
        assert_eq!(mask("f,ffffffff", &[31]), "0,80000000");
    }
}
