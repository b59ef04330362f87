//! What a trial takes from the host so that its model time can be had again.
//!
//! A virtual disk's clock is exact to the sequence of requests; what makes two sequences differ is the
//! kernel: its timers go by the wall's clock, and its workers race on several processors. While a trial runs
//! whose volume keeps model time, the agent and all that it starts stay on one processor, workers that are
//! bound to none stay there too, and nothing is written back because time has passed. Only such trials are
//! held so: where the wall's clock is what is measured, the host stays as it is.
//!
//! Every setting is leased before it is changed. What the host refuses is a warning with the trial.

use std::path::Path;

use fsage_model::disk::DiskTime;
use fsage_model::filesystem;
use fsage_model::protocol::call;
use fsage_model::study::{StudySpec, VolumeSpec};
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

/// Whether the trial's times are a virtual disk's own.
pub(super) fn applies(spec: &StudySpec) -> bool {
    matches!(&spec.volume, VolumeSpec::Disk(disk) if disk.time == DiskTime::Model)
}

/// The file system of a trial, with what it needs besides on a volume in model time under a kernel of this
/// release.
pub(super) fn file_system(spec: &StudySpec, resolved: &FileSystem, seed: u64, kernel: &str) -> FileSystem {
    if applies(spec) { resolved.deterministic(seed, Kernel::of(kernel)) } else { resolved.clone() }
}

/// What [`DeterministicSettings::take`] would do, as a shell would read it.
pub(super) fn describe(spec: &StudySpec) -> Vec<String> {
    if !applies(spec) {
        return Vec::new();
    }
    let timers = timers(spec).map(|(path, value)| format!("echo {value} >{path}"));
    let pin = ["taskset --all-tasks --cpu-list --pid LAST AGENT".to_owned(), format!("echo MASK >{WORKERS}")];
    pin.into_iter().chain(timers).collect()
}

impl DeterministicSettings {
    /// Takes it, where the trial's volume keeps model time.
    pub(super) fn take(context: &mut StageContext<'_>) -> Result<Self, TrialError> {
        let mut deterministic = Self::default();
        if !applies(context.spec) {
            return Ok(deterministic);
        }
        match context.session.call(call::Pin) {
            Ok(cpu) => {
                let agent = context.session.identity().pid;
                context
                    .command("deterministic", &format!("taskset --all-tasks --cpu-list --pid {cpu} {agent}"));
                if !deterministic.set(WORKERS, |old| mask(old, cpu), context)? {
                    less(context, &format!("this host has no {WORKERS}"));
                }
            }
            Err(error) if context.session.is_lost() => return Err(error.into()),
            Err(_) => less(context, "the agent cannot be kept on one processor"),
        }
        for (path, value) in timers(context.spec) {
            if !deterministic.set(path, |_| value.to_owned(), context)? {
                less(context, &format!("this host has no {path} (yet)"));
            }
        }
        Ok(deterministic)
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
            Some(Outcome::Refused(id)) => {
                self.taken.push(id);
                less(context, &format!("this host refuses `{line}`"));
            }
        }
        Ok(true)
    }

    /// Gives everything back.
    pub(super) fn release(self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        for id in self.taken.into_iter().rev() {
            context.give_back(Some(id))?;
        }
        Ok(())
    }
}

/// Says that model time may not come out the same again.
fn less(context: &mut StageContext<'_>, why: &str) {
    let message = format!("model time is less repeatable here: {why}");
    context.warn(Warning { kind: WarningKind::LessSteady, message });
}

/// A mask of one processor as the kernel writes it: in groups of 32 bits, as wide and as many as those of
/// `like`.
fn mask(like: &str, cpu: u32) -> String {
    let groups: Vec<&str> = like.split(',').collect();
    let mut from = u32::try_from(groups.len()).unwrap_or(1) * 32;
    let written = groups.iter().map(|group| {
        from -= 32;
        let bits = cpu.checked_sub(from).filter(|bit| *bit < 32).map_or(0, |bit| 1_u32 << bit);
        format!("{bits:0width$x}", width = group.len())
    });
    written.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_look_like_the_kernels() {
        assert_eq!(mask("3", 1), "2");
        assert_eq!(mask("ff", 7), "80");
        assert_eq!(mask("ffffffff,ffffffff", 33), "00000002,00000000");
        assert_eq!(mask("f,ffffffff", 31), "0,80000000");
    }
}
