//! The `lockstep` stage: one workload on several volumes, and an inspection of all of them every so many
//! rounds.
//!
//! At a look every volume is mounted afresh before each measure; which volume comes first goes round, so that
//! none has an advantage of its place. The copy is made again for every look and released after it.

use std::path::Path;

use fsage_model::load::out_of_space;
use fsage_model::lockstep::{LockstepResult, LockstepSpec, Round};
use fsage_model::measure::MeasureResult;
use fsage_model::number::grouped;
use fsage_model::protocol::call;
use fsage_model::quantity::as_f64;
use fsage_model::record::{Look, StageRecord, VolumeLook};
use fsage_model::study::{FollowerSpec, LockstepStage, UNAGED, VolumeSpec};
use fsage_model::warning::Warning;
use fsage_model::warning::{CPU_BOUND, WarningKind};

use super::places::Volume;
use super::{Stage, StageContext, copy, measure};
use crate::run::error::TrialError;
use crate::run::trial_volume::TrialVolume;

/// Share of the operations from which on a warning says that they found no room.
const SHORT: f64 = 0.001;

/// So many are nothing to tell of: a filling ends with some that find none.
const FEW: u64 = 32;

impl Stage for LockstepStage {
    /// Runs the rounds, looks, checks every volume, and gives the followers back.
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let mut followers = Vec::new();
        for (name, follower) in &self.followers {
            followers.push(take(self, name, follower, context)?);
        }
        begin(self, place, &followers, context)?;
        let last = self.rounds().unwrap_or(0);
        let mut record = Record::default();
        for until in looks(self.every, last) {
            let result = advance(self, until, context)?;
            record.failed.clone_from(&result.failed);
            record.rounds.extend(result.rounds);
            let round = record.rounds.last().map_or(0, |round| round.round);
            let at = Moment { round, last: result.finished || until == last };
            let volumes = look(self, at, place, &mut followers, context)?;
            record.looks.push(Look { round, digest: result.digest.clone(), volumes });
            record.digest = result.digest;
            if result.finished {
                break;
            }
        }
        end(self, place, &followers, context)?;
        warn_of_cpu(self, &record.rounds, context);
        if let Some(message) = no_room(self, &record.rounds, &record.failed) {
            context.warn(Warning { kind: WarningKind::ShortOfRoom, message });
        }
        let Record { rounds, looks, digest, failed } = record;
        let volumes = self.volumes().into_iter().map(str::to_owned).collect();
        context.done.push(StageRecord::Lockstep {
            name: self.name.clone(),
            volumes,
            rounds,
            looks,
            digest,
            failed,
        });
        for mut follower in followers {
            follower.check(context)?;
            follower.release(context)?;
        }
        Ok(())
    }

    fn describe(&self, point: &Path, _seed: u64) -> Vec<String> {
        vec![in_words(self, point)]
    }

    fn other_volumes(&self, own: &VolumeSpec) -> Vec<VolumeSpec> {
        self.others().filter_map(|(_, other)| other.resolve(own)).collect()
    }
}

/// What is collected on the way.
#[derive(Default)]
struct Record {
    rounds: Vec<Round>,
    looks: Vec<Look>,
    digest: String,
    failed: std::collections::BTreeMap<String, u64>,
}

/// Rounds after which the volumes are inspected: the first, every so many, and the last.
fn looks(every: u64, last: u64) -> impl Iterator<Item = u64> {
    let every = every.max(1);
    (0..last).step_by(usize::try_from(every).unwrap_or(usize::MAX)).chain([last])
}

/// Takes a follower's volume, or that of the copy, with a fresh file system.
fn take(
    stage: &LockstepStage,
    name: &str,
    follower: &FollowerSpec,
    context: &mut StageContext<'_>,
) -> Result<TrialVolume, TrialError> {
    // Settled when the study was validated.
    let spec = follower.resolve(&context.spec.volume).unwrap_or_else(|| context.spec.volume.clone());
    let own = format!("{}-{}-{}", context.planned.id, stage.name, name);
    if name == UNAGED {
        return copy::fresh(&spec, &own, context);
    }
    let name = own;
    let mut place = TrialVolume::acquire(&spec, &name, context)?;
    place.make(context)?;
    place.mount(context)?;
    Ok(place)
}

fn begin(
    stage: &LockstepStage,
    place: &TrialVolume,
    followers: &[TrialVolume],
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    let directories: Vec<_> =
        std::iter::once(place).chain(followers).map(|place| place.folder(&stage.name)).collect();
    for directory in &directories {
        context.session.call(call::MakeFolder { directory: directory.clone() })?;
    }
    context.command(&stage.name, &in_words(stage, place.point()));
    let lockstep = LockstepSpec {
        workload: stage.workload.clone(),
        directories,
        seed: context.planned.seed,
        write_mode: stage.write_mode,
        round_operations: stage.round_operations,
    };
    context.session.call(call::LockstepBegin { lockstep: Box::new(lockstep) })?;
    Ok(())
}

/// Goes on until a round is over.
fn advance(
    stage: &LockstepStage,
    until: u64,
    context: &mut StageContext<'_>,
) -> Result<LockstepResult, TrialError> {
    context.interrupted()?;
    context.step(&stage.name, &format!("until round {until}"));
    let advance = call::LockstepRun { until };
    let result =
        context.ask_long(&stage.name, |session, _, incoming| session.call_with(advance, incoming))?;
    if result.stopped { Err(TrialError::Interrupted) } else { Ok(result) }
}

/// When a look is.
#[derive(Clone, Copy)]
struct Moment {
    /// Rounds that are over.
    round: u64,
    /// No round follows.
    last: bool,
}

/// Inspects every volume and at a fresh copy of the tree.
fn look(
    stage: &LockstepStage,
    at: Moment,
    place: &mut TrialVolume,
    followers: &mut [TrialVolume],
    context: &mut StageContext<'_>,
) -> Result<Vec<VolumeLook>, TrialError> {
    let mut copy_place = match &stage.unaged {
        Some(unaged) => {
            let fresh = take(stage, UNAGED, unaged, context)?;
            copy::copy(&stage.name, &stage.name, place, &fresh, context)?;
            Some(fresh)
        }
        None => None,
    };
    let names = stage.volumes();
    let mut places: Vec<&mut TrialVolume> =
        std::iter::once(place).chain(followers).chain(copy_place.as_mut()).collect();
    let mut looks: Vec<Option<VolumeLook>> = names.iter().map(|_| None).collect();
    let count = names.len();
    let first = usize::try_from(at.round / stage.every.max(1)).unwrap_or(0);
    for turn in 0..count {
        let index = (first + turn) % count;
        if let Some(place) = places.get_mut(index) {
            looks[index] = Some(look_at(stage, names[index], place, context)?);
        }
    }
    if at.last {
        // When everything is measured.
        for (name, place) in names.iter().zip(&places) {
            explain(stage, name, place, context)?;
        }
    }
    if let Some(mut copy) = copy_place {
        copy.unmount(context)?;
        copy.release(context)?;
    }
    Ok(looks.into_iter().flatten().collect())
}

fn look_at(
    stage: &LockstepStage,
    name: &str,
    place: &mut TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<VolumeLook, TrialError> {
    let directory = place.folder(&stage.name);
    let mut measures: Vec<MeasureResult> = Vec::new();
    for spec in &stage.measures {
        context.interrupted()?;
        place.remount(context)?;
        let result = measure::one(&stage.name, spec, place, &directory, context)?;
        for warning in &result.warnings {
            context.warn(Warning {
                kind: warning.kind.clone(),
                message: format!("{name}: {}", warning.message),
            });
        }
        measures.push(result);
    }
    let (layout, free_space) = context.look(&directory)?;
    Ok(VolumeLook {
        name: name.to_owned(),
        layout: Box::new(layout),
        free_space: free_space.map(Box::new),
        measures,
    })
}

/// Keeps where the files of a volume lie.
fn explain(
    stage: &LockstepStage,
    name: &str,
    place: &TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    let spec = volume_of(stage, name, &context.spec.volume);
    let directory = place.folder(&stage.name);
    context.explain(&Volume { stage: &stage.name, name, spec: &spec, directory: &directory })
}

/// The volume that is called so, the leader's being the trial's own.
fn volume_of(stage: &LockstepStage, name: &str, own: &VolumeSpec) -> VolumeSpec {
    let other = stage.others().find(|(other, _)| *other == name);
    other.and_then(|(_, follower)| follower.resolve(own)).unwrap_or_else(|| own.clone())
}

/// Compares every tree with what was made, and its data where that is asked.
fn end(
    stage: &LockstepStage,
    place: &TrialVolume,
    followers: &[TrialVolume],
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    context.session.call(call::LockstepEnd)?;
    if !stage.verify {
        return Ok(());
    }
    for place in std::iter::once(place).chain(followers) {
        super::age::verify(&place.folder(&stage.name), context)?;
    }
    Ok(())
}

/// Says where rounds measured the CPU: in model time nothing of it is in a number.
fn warn_of_cpu(stage: &LockstepStage, rounds: &[Round], context: &mut StageContext<'_>) {
    for (index, name) in stage.volumes().into_iter().enumerate() {
        let of = |round: &Round| round.volumes.get(index).map(|volume| (volume.model_time, volume.write));
        let costs: Vec<_> =
            rounds.iter().filter_map(of).filter(|(model, _)| !model).map(|(_, cost)| cost).collect();
        let (cpu, elapsed) =
            costs.iter().fold((0, 0), |(cpu, all), cost| (cpu + cost.cpu_ns, all + cost.elapsed_ns));
        let share = as_f64(cpu) / as_f64(elapsed).max(1.0);
        if share >= CPU_BOUND {
            let message = format!(
                "writing on {name} was on the CPU for {:.0} % of its time: it says little of the device",
                share * 100.0
            );
            context.warn(Warning { kind: WarningKind::CpuBound, message });
        }
    }
}

/// What to say where the leader had no room for what its workload's target allows, as where a file system
/// keeps for itself what `statfs` calls free.
fn no_room(
    stage: &LockstepStage,
    rounds: &[Round],
    failed: &std::collections::BTreeMap<String, u64>,
) -> Option<String> {
    let target = stage.workload.target()?;
    let last = rounds.last()?;
    let leader = last.volumes.first()?;
    let refused = out_of_space(failed);
    (refused > FEW && as_f64(refused) > SHORT * as_f64(last.operations)).then(|| {
        format!(
            "{} of {} operations found no room on {} and were left out on all volumes; at the end {:.1} % of it are in use as statfs \
             counts it, {:.1} % are asked for: it is as full as it can be",
            grouped(refused),
            grouped(last.operations),
            stage.leader,
            100.0 * as_f64(leader.used_bytes) / as_f64(leader.total_bytes).max(1.0),
            100.0 * target
        )
    })
}

fn in_words(stage: &LockstepStage, point: &Path) -> String {
    let workload = super::age::shown(&stage.workload);
    let names = stage.volumes().join(", ");
    format!("# in lock-step on {names}, below {}: {workload}", point.join(&stage.name).display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_without_room_is_told_of() {
        let stage: LockstepStage = serde_json::from_str(
            r#"{"workload":{"kind":"fsfb","target":0.95},"every":1,"followers":{},"measures":[]}"#,
        )
        .unwrap();
        let leader = fsage_model::lockstep::VolumeRound {
            used_bytes: 940,
            total_bytes: 1000,
            ..fsage_model::lockstep::VolumeRound::default()
        };
        let round = Round { round: 1, operations: 10_000, files: 1, live_bytes: 1, volumes: vec![leader] };
        let of = |stage: &LockstepStage, refused| {
            no_room(stage, std::slice::from_ref(&round), &[("ENOSPC".to_owned(), refused)].into())
        };
        assert_eq!(of(&stage, 32), None);
        let said = of(&stage, 33).unwrap();
        assert!(said.starts_with("33 of 10,000 operations found no room on full"), "{said}");
        assert!(said.contains("94.0 % of it are in use") && said.contains("95.0 % are asked for"), "{said}");
        // Where a full volume is the workload's own turning point, nothing is amiss.
        let git: LockstepStage = serde_json::from_str(
            r#"{"workload":{"kind":"git","history":{"kind":"synthetic","commits":9}},"every":1,"followers":{},"measures":[]}"#,
        )
        .unwrap();
        assert_eq!(of(&git, 71), None);
    }

    #[test]
    fn looks_begin_after_the_filling_and_end_after_the_last_round() {
        let of = |every, last| looks(every, last).collect::<Vec<_>>();
        assert_eq!(of(50, 150), [0, 50, 100, 150]);
        assert_eq!(of(50, 60), [0, 50, 60]);
        assert_eq!(of(7, 0), [0]);
        assert_eq!(of(1, 2), [0, 1, 2]);
    }
}
