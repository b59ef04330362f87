//! The `precondition` stage: the device is written from end to end, then at random until its rate is steady.
//!
//! It runs after the volume was taken, behind the same rules as mkfs, and before mkfs. The ends of the device, which
//! tell whose it is, stay as they are. fio, its words and the rule for the steady state are those of the stage `fio`.

use std::path::Path;
use std::time::{Duration, Instant};

use fsage_model::fio::{DeviceCounts, FioEnd, FioRun};
use fsage_model::precondition::{Pass, PreconditionRecord};
use fsage_model::protocol::{BlockFacts, Event, HostFacts};
use fsage_model::quantity::{as_f64, share, to_u64};
use fsage_model::record::StageRecord;
use fsage_model::size::Bytes;
use fsage_model::study::{PreconditionStage, VolumeSpec};
use fsage_model::warning::{Warning, WarningKind};

use super::fio::{GRACE, SLOWEST, check_depth, check_engines, check_fio, figures};
use super::{Stage, StageContext};
use crate::filesystem::FileSystem;
use crate::run::error::TrialError;
use crate::run::fio::FioError;
use crate::run::fio::ask::{self, Limits, line};
use crate::run::fio::job::{FioTarget, Place, Times};
use crate::run::observer::RunEvent;
use crate::run::trial_volume::TrialVolume;
use crate::store::preconditioned::{self, Preconditioned};
use crate::target::Incoming;
use crate::time;
use crate::tools::fio::PROGRAM;

/// Blocks of the sequential passes.
const PASS_BLOCK: u64 = 1 << 20;

impl Stage for PreconditionStage {
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let known = self.basis(place.facts(), context);
        let needed = self.needed(place.facts());
        let found = known.as_ref().and_then(|basis| Preconditioned::of(context.root).find(basis));
        let record = match found {
            Some(record) if is_done(&record, needed) => {
                let by = record.taken_from.as_deref().unwrap_or_default();
                context.step(&self.name, "");
                context
                    .folder
                    .log(&format!("the device was preconditioned by trial {by} at {}", record.made));
                record
            }
            earlier => {
                let record = self.precondition(place, earlier.as_ref(), context)?;
                if let Some(basis) = known {
                    let trial = context.planned.id.clone();
                    Preconditioned::of(context.root).keep(basis, &trial, &record)?;
                }
                record
            }
        };
        not_steady(self, &record, needed).into_iter().for_each(|warning| context.warn(warning));
        context.done.push(StageRecord::Precondition(Box::new(record)));
        Ok(())
    }

    fn describe(&self, device: &Path, seed: u64) -> Vec<String> {
        let place = place_of(device, PASS_BLOCK);
        let passes = (0..self.fills).map(|_| line(place.layout(true, seed)));
        let random = line(place.words(&self.point(), self.times(), seed));
        [ask::SIZES.to_owned()].into_iter().chain(passes).chain([random]).collect()
    }

    fn is_before_mkfs(&self) -> bool {
        true
    }

    fn check_host(&self, _: &FileSystem, facts: &HostFacts) -> Result<(), TrialError> {
        check_fio(facts)
    }
}

/// Private steps of the stage.
trait Steps {
    fn basis(&self, device: &BlockFacts, context: &StageContext<'_>) -> Option<serde_json::Value>;
    fn needed(&self, device: &BlockFacts) -> u64;
    fn times(&self) -> Times;
    fn precondition(
        &self,
        place: &TrialVolume,
        earlier: Option<&PreconditionRecord>,
        context: &mut StageContext<'_>,
    ) -> Result<PreconditionRecord, TrialError>;
}

impl Steps for PreconditionStage {
    /// What it is kept by in the store. Only of a real device: others are made for each trial.
    fn basis(&self, device: &BlockFacts, context: &StageContext<'_>) -> Option<serde_json::Value> {
        // With more time what was not steady goes on.
        let anonymous =
            Self { name: String::new(), when: Vec::new(), runtime: 0.0, round: None, ..self.clone() };
        let parameters = serde_json::to_value(&anonymous).ok()?;
        let is_real = matches!(context.spec.volume, VolumeSpec::Device { .. });
        is_real.then(|| preconditioned::basis(device, &parameters)).flatten()
    }

    /// Bytes to write at random before a rate can be steady: none to a disk without flash, to which they make no difference.
    fn needed(&self, device: &BlockFacts) -> u64 {
        if device.rotational { 0 } else { Self::bytes(device.size_bytes) }
    }

    fn times(&self) -> Times {
        Times { runtime_ms: to_u64(self.runtime * 1e3), ramp_ms: 0 }
    }

    /// With `earlier`, whose random writes were not steady, these go on, without passes.
    fn precondition(
        &self,
        place: &TrialVolume,
        earlier: Option<&PreconditionRecord>,
        context: &mut StageContext<'_>,
    ) -> Result<PreconditionRecord, TrialError> {
        let clock = Instant::now();
        let point = self.point();
        check_engines(&[point.ioengine], context)?;
        check_depth(std::slice::from_ref(&point), place.device(), context)?;
        let bytes = Self::bytes(place.facts().size_bytes);
        if bytes < self.bs.0.max(PASS_BLOCK) {
            let available_bytes = place.facts().size_bytes;
            return Err(FioError::Room { needed_bytes: self.bs.0.max(PASS_BLOCK), available_bytes }.into());
        }
        let area = place_of(place.device(), bytes);
        let mut run = Run { stage: self, place, counted: Some(DeviceCounts::default()) };
        let (mut passes, earlier_bytes) = match earlier {
            Some(earlier) => (earlier.passes.clone(), earlier.random_bytes()),
            None => (Vec::new(), 0),
        };
        let fills = if earlier.is_some() { 0 } else { self.fills };
        for number in 1..=fills {
            context.interrupted()?;
            passes.push(run.pass(number, &area, context)?);
        }
        context.interrupted()?;
        // Further writes go to other places.
        let seed = context.planned.seed.wrapping_add(earlier_bytes);
        let words = area.words(&point, self.times(), seed);
        let limit = GRACE + Duration::from_secs_f64(self.runtime);
        let round_ms = to_u64(self.round_s() * 1e3).max(1);
        let longest = Longest::Nanoseconds(to_u64(self.runtime * 1e9));
        // Until about as much was written as there is, flash has free blocks, and is as fast as it will not stay. In the pause since
        // an earlier trial it may have collected some.
        let needed = self.needed(place.facts());
        let left = needed.saturating_sub(earlier_bytes).max(needed / 10);
        let limits = Limits { limit, round_ms, steady_from: Some(left), memory: None };
        let wrote = run.fio("random writes", words, (limits, longest), context)?;
        let told = figures("random writes", &wrote)?;
        Ok(PreconditionRecord {
            name: self.name.clone(),
            version: context.facts.tools.get(PROGRAM.name).cloned().unwrap_or_default(),
            made: time::now_rfc3339(),
            taken_from: None,
            continues: earlier.and_then(|earlier| earlier.taken_from.clone()),
            earlier_bytes,
            passes,
            end: if wrote.ended_steady { FioEnd::Steady } else { FioEnd::Time },
            write: told.write,
            runtime_ns: told.runtime_ns,
            samples: wrote.samples,
            device: run.counted,
            elapsed_ns: u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX),
        })
    }
}

/// When a run of fio is over.
#[derive(Debug, Clone, Copy)]
enum Longest {
    /// After so many operations.
    Operations(u64),
    /// After so long, at the latest.
    Nanoseconds(u64),
}

/// The stage on its device.
struct Run<'a> {
    stage: &'a PreconditionStage,
    place: &'a TrialVolume,
    /// What the block device counted so far; nothing where the kernel did not say once.
    counted: Option<DeviceCounts>,
}

impl Run<'_> {
    /// Writes the device from end to end.
    fn pass(
        &mut self,
        number: u32,
        area: &Place,
        context: &mut StageContext<'_>,
    ) -> Result<Pass, TrialError> {
        let name = format!("pass {number} of {}", self.stage.fills);
        let words = area.layout(true, context.planned.seed);
        let limit = GRACE + Duration::from_secs(area.bytes() / SLOWEST);
        let longest = Longest::Operations(area.bytes() / PASS_BLOCK);
        let limits = Limits { limit, round_ms: 1000, steady_from: None, memory: None };
        let run = self.fio(&name, words, (limits, longest), context)?;
        let told = figures(&name, &run)?;
        if told.write.bytes != area.bytes() {
            let (written_bytes, wanted_bytes) = (told.write.bytes, area.bytes());
            return Err(FioError::Laid { written_bytes, wanted_bytes }.into());
        }
        Ok(Pass { bytes: told.write.bytes, runtime_ns: told.runtime_ns })
    }

    fn fio(
        &mut self,
        name: &str,
        argv: Vec<String>,
        (limits, longest): (Limits, Longest),
        context: &mut StageContext<'_>,
    ) -> Result<FioRun, TrialError> {
        let stage = self.stage.name.as_str();
        let event = |incoming: &Incoming| progress(stage, name, longest, incoming);
        let run = ask::ask((stage, self.place.device()), argv, limits, event, context)?;
        self.counted = self.counted.zip(run.device).map(|(sum, more)| sum.plus(&more));
        Ok(run)
    }
}

/// How far a run is.
fn progress(stage: &str, name: &str, longest: Longest, incoming: &Incoming) -> Option<RunEvent> {
    let Incoming::Event(Event::Progress { operations, elapsed_ns, .. }) = incoming else { return None };
    let done = match longest {
        Longest::Operations(all) => share(*operations, all),
        Longest::Nanoseconds(all) => share(*elapsed_ns, all),
    };
    let done = done.clamp(0.0, 1.0);
    let elapsed_s = as_f64(*elapsed_ns) / 1e9;
    Some(RunEvent::Progress {
        stage: stage.to_owned(),
        operations: *operations,
        elapsed_ns: *elapsed_ns,
        share: Some(done),
        rate: share(*operations, *elapsed_ns) * 1e9,
        eta_s: (done > 0.0).then(|| elapsed_s * (1.0 - done) / done),
        note: name.to_owned(),
    })
}

/// All of a device but its ends, as one stretch.
fn place_of(device: &Path, bytes: u64) -> Place {
    Place {
        first: 0,
        step: 1,
        target: FioTarget::Device(device.display().to_string()),
        files: 1,
        each_bytes: bytes,
        writers: None,
    }
}

/// Whether a device is in its steady state, by the rule as it is now.
fn is_done(record: &PreconditionRecord, bytes: u64) -> bool {
    record.is_steady() && record.random_bytes() >= bytes
}

fn not_steady(stage: &PreconditionStage, record: &PreconditionRecord, bytes: u64) -> Option<Warning> {
    let message = || {
        let (name, runtime, wrote) = (&stage.name, stage.runtime, record.random_bytes());
        if wrote < bytes {
            let (wrote, bytes) = (Bytes(wrote), Bytes(bytes));
            return format!(
                "stage {name}: {wrote} were written at random, at last for {runtime} s: less than the {bytes} of the device, and not steady"
            );
        }
        format!("stage {name}: random writes were not steady after {runtime} s")
    };
    (!record.is_steady()).then(|| Warning { kind: WarningKind::NotSteady, message: message() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_fill_as_often_as_asked_and_leave_the_ends_alone() {
        let stage: PreconditionStage = serde_json::from_str(r#"{"fills": 3, "runtime": 20}"#).unwrap();
        let said = stage.describe(Path::new("/dev/sdx"), 7);
        let (sizes, lines) = said.split_first().unwrap();
        assert!(lines.len() == 4 && sizes.starts_with("# sizes follow"), "{said:?}");
        assert!(lines[..3].iter().all(|line| line.contains("--rw=write")), "{lines:?}");
        assert!(lines[3].contains("--rw=randwrite") && lines[3].contains("--runtime=20000ms"), "{lines:?}");
        for line in lines {
            let named = line.contains("--filename=/dev/sdx") && line.contains("--offset=4194304");
            assert!(named && line.contains("--allow_file_create=0"), "{line}");
        }
        assert!(Stage::is_before_mkfs(&stage));
    }

    #[test]
    fn progress_is_by_bytes_of_a_pass_and_by_time_of_random_writes() {
        let incoming = Incoming::Event(Event::Progress {
            operations: 25,
            elapsed_ns: 5_000_000_000,
            share: None,
            note: String::new(),
        });
        let of = |longest| match progress("s", "n", longest, &incoming) {
            Some(RunEvent::Progress { share, eta_s, .. }) => (share, eta_s),
            other => unreachable!("{other:?}"),
        };
        assert_eq!(of(Longest::Operations(100)), (Some(0.25), Some(15.0)));
        assert_eq!(of(Longest::Nanoseconds(10_000_000_000)), (Some(0.5), Some(5.0)));
        assert_eq!(of(Longest::Operations(0)).0, Some(0.0));
    }
}
