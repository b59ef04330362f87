//! The `lockstep` stage: one workload on several volumes, and an inspection of all of them every so many
//! rounds.
//!
//! At a look every volume is mounted afresh before each measure, and the others are not mounted: a file
//! system that is not mounted writes nothing back and does nothing in the background. Which volume comes
//! first goes round, so that none has an advantage of its place. The copy is made again for every look and
//! released after it.

use std::path::Path;

use fsage_model::cause::in_one_line;
use fsage_model::load::out_of_space;
use fsage_model::lockstep::{LockstepResult, LockstepSpec, Round, RunHistory};
use fsage_model::measure::MeasureResult;
use fsage_model::number::{grouped, plural};
use fsage_model::protocol::{FailureKind, call};
use fsage_model::quantity::as_f64;
use fsage_model::record::{Look, StageRecord, VolumeLook};
use fsage_model::study::{FollowerSpec, LockstepStage, UNAGED, VolumeSpec};
use fsage_model::warning::Warning;
use fsage_model::warning::{CPU_BOUND, WarningKind};

use super::checkpoint::{self, Checkpoints};
use super::places::Volume;
use super::{Stage, StageContext, copy, measure};
use crate::run::error::TrialError;
use crate::run::trial_volume::TrialVolume;
use crate::run::warning::Written;
use crate::store::checkpoint::CheckpointRecord;

/// Share of the operations from which on a warning says that they found no room.
const SHORT: f64 = 0.001;

/// So many are nothing to tell of: a filling ends with some that find none.
const FEW: u64 = 32;

/// Share of the leader that was in use, at most, where it was not full when operations found no room.
const FULL: f64 = 0.85;

impl Stage for LockstepStage {
    /// Runs the rounds, looks, checks every volume, and gives the followers back. What was interrupted
    /// continues from its last look; what fails otherwise starts over.
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let checkpoints = Checkpoints::of(self, context);
        let outcome = through(self, &checkpoints, place, context);
        if outcome.is_err() && (context.session.is_lost() || context.interrupt.by().is_some()) {
            return outcome;
        }
        let removed = checkpoints.remove();
        outcome.and(removed)
    }

    fn describe(&self, point: &Path, _seed: u64) -> Vec<String> {
        vec![in_words(self, point)]
    }

    fn other_volumes(&self, own: &VolumeSpec) -> Vec<VolumeSpec> {
        self.others().filter_map(|(_, other)| other.resolve(own)).collect()
    }
}

/// All of it, from the beginning or from a checkpoint.
fn through(
    stage: &LockstepStage,
    checkpoints: &Checkpoints,
    place: &mut TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    let mut followers = Vec::new();
    for (name, follower) in &stage.followers {
        followers.push(take(stage, name, follower, context)?);
    }
    let resumed = resume_if_it_can_be(stage, checkpoints, place, &mut followers, context)?;
    let mut record = match resumed {
        Some(record) => record,
        None => {
            begin(stage, place, &followers, context)?;
            Record::default()
        }
    };
    let last = stage.rounds().unwrap_or(0);
    let over = record.looks.last().map(|look| look.round);
    for until in looks(stage.every, last).filter(|until| over.is_none_or(|over| *until > over)) {
        let result = advance(stage, until, context)?;
        record.failed.clone_from(&result.failed);
        record.rounds.extend(result.rounds);
        record.past.push(result.history);
        let round = record.rounds.last().map_or(0, |round| round.round);
        let at = Moment { round, last: result.finished || until == last };
        let volumes = look(stage, at, place, &mut followers, context)?;
        record.looks.push(Look { round, digest: result.digest.clone(), volumes });
        record.digest = result.digest;
        if !at.last {
            let volumes: Vec<&TrialVolume> = std::iter::once(&*place).chain(&followers).collect();
            checkpoints.keep_if_it_can_be(record.kept(round), &volumes, context)?;
        }
        mount_at_rest(place, &mut followers, context)?;
        if result.finished {
            break;
        }
    }
    end(stage, place, &followers, context)?;
    finish(stage, record, context);
    for mut follower in followers {
        follower.check(context)?;
        follower.release(context)?;
    }
    Ok(())
}

/// Adds what was collected to the trial, with its warnings.
fn finish(stage: &LockstepStage, record: Record, context: &mut StageContext<'_>) {
    warn_of_cpu(stage, &record.rounds, context);
    warn_of_work(stage, &record.rounds, context);
    if let Some(message) = no_room(stage, &record.rounds, &record.failed) {
        context.warn(Warning { kind: WarningKind::ShortOfRoom, message });
    }
    if let Some(message) = not_full(stage, &record.rounds, &record.failed) {
        context.warn(Warning { kind: WarningKind::NotFull, message });
    }
    let Record { rounds, looks, digest, failed, resumed_after, past: _ } = record;
    let volumes = stage.volumes().into_iter().map(str::to_owned).collect();
    context.done.push(StageRecord::Lockstep {
        name: stage.name.clone(),
        volumes,
        rounds,
        looks,
        digest,
        failed,
        resumed_after,
    });
}

/// What is collected on the way.
#[derive(Default)]
struct Record {
    rounds: Vec<Round>,
    looks: Vec<Look>,
    digest: String,
    failed: std::collections::BTreeMap<String, u64>,
    past: Vec<RunHistory>,
    resumed_after: Vec<u64>,
}

impl Record {
    /// What a checkpoint keeps of it; the rest is the checkpoint's own.
    fn kept(&self, round: u64) -> CheckpointRecord {
        CheckpointRecord {
            version: 0,
            basis: serde_json::Value::Null,
            round,
            images: Vec::new(),
            rounds: self.rounds.clone(),
            looks: self.looks.clone(),
            digest: self.digest.clone(),
            failed: self.failed.clone(),
            past: self.past.clone(),
            resumed_after: self.resumed_after.clone(),
            warnings: Vec::new(),
        }
    }
}

/// Continues from the checkpoint, where there is one. One that leads nowhere is removed, and a warning says so:
/// the stage starts over then, on volumes that are new.
fn resume_if_it_can_be(
    stage: &LockstepStage,
    checkpoints: &Checkpoints,
    place: &mut TrialVolume,
    followers: &mut [TrialVolume],
    context: &mut StageContext<'_>,
) -> Result<Option<Record>, TrialError> {
    let Some(kept) = checkpoints.find() else { return Ok(None) };
    let (round, before) = (kept.round, context.warnings.clone());
    match resume(stage, checkpoints, kept, place, followers, context) {
        Ok(record) => return Ok(Some(record)),
        // No fault of the checkpoint's: no room, no memory, a lost agent, an interruption. It stays.
        Err(error) if context.session.is_lost() || !is_wrong(&error) => return Err(error),
        Err(error) => {
            context.interrupted()?;
            *context.warnings = before;
            let message = format!("not continued after round {round}, started over: {}", in_one_line(&error));
            context.warn(Warning { kind: WarningKind::NoCheckpoint, message });
        }
    }
    checkpoints.remove()?;
    for place in std::iter::once(place).chain(followers) {
        place.renew(context)?;
        place.make(context)?;
        place.mount(context)?;
    }
    Ok(None)
}

/// Whether what was found is wrong by itself: an image that is damaged or of another volume, a history that no
/// run has left.
fn is_wrong(error: &TrialError) -> bool {
    matches!(error, TrialError::Target(error) if matches!(error.kind(), FailureKind::Damage | FailureKind::Usage))
        || matches!(error, TrialError::Image(_) | TrialError::Damaged(_))
}

/// Brings the volumes and the workload to where they were after a look.
fn resume(
    stage: &LockstepStage,
    checkpoints: &Checkpoints,
    kept: CheckpointRecord,
    place: &mut TrialVolume,
    followers: &mut [TrialVolume],
    context: &mut StageContext<'_>,
) -> Result<Record, TrialError> {
    let mut volumes: Vec<&mut TrialVolume> = std::iter::once(&mut *place).chain(&mut *followers).collect();
    checkpoints.restore(&kept, &mut volumes, context)?;
    mount_at_rest(place, followers, context)?;
    context.command(&stage.name, &in_words(stage, place.point()));
    let lockstep = spec(stage, place, followers, context);
    checkpoint::resume(&stage.name, lockstep, &kept.past, &kept.digest, context)?;
    let CheckpointRecord { round, rounds, looks, digest, failed, past, mut resumed_after, .. } = kept;
    resumed_after.push(round);
    Ok(Record { rounds, looks, digest, failed, past, resumed_after })
}

/// Mounts the volumes for the next rounds, which begin with the media at rest.
fn mount_at_rest(
    place: &mut TrialVolume,
    followers: &mut [TrialVolume],
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    for place in std::iter::once(place).chain(followers) {
        place.mount(context)?;
        context.session.call(call::DiskRest { directory: place.point().to_owned() })?;
    }
    Ok(())
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
    let lockstep = spec(stage, place, followers, context);
    for directory in &lockstep.directories {
        context.session.call(call::MakeFolder { directory: directory.clone() })?;
    }
    context.command(&stage.name, &in_words(stage, place.point()));
    context.session.call(call::LockstepBegin { lockstep: Box::new(lockstep) })?;
    Ok(())
}

/// What is run on the volumes.
fn spec(
    stage: &LockstepStage,
    place: &TrialVolume,
    followers: &[TrialVolume],
    context: &StageContext<'_>,
) -> LockstepSpec {
    LockstepSpec {
        workload: stage.workload.clone(),
        directories: std::iter::once(place).chain(followers).map(|place| place.folder(&stage.name)).collect(),
        seed: context.planned.seed,
        write_mode: stage.write_mode,
        round_operations: stage.round_operations,
        deterministic: context.spec.deterministic,
    }
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
    let watch = context.watch()?;
    let result =
        context.ask_long(&stage.name, |session, _, incoming| session.call_with(advance, incoming))?;
    let now = context.session.call(call::HostActivity)?;
    let ours =
        result.rounds.iter().flat_map(|round| &round.volumes).map(|volume| volume.write.bytes_written).sum();
    let what = format!("stage {}, rounds until {until}", stage.name);
    for warning in watch.end(&what, Some(Written { ours, of: ours }), now) {
        context.warn(warning);
    }
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

/// Inspects every volume, and a fresh copy of the tree; leaves the volumes unmounted.
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
    for place in &mut places {
        place.unmount(context)?;
    }
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
        for (name, place) in names.iter().zip(&mut places) {
            place.mount(context)?;
            explain(stage, name, place, context)?;
            place.unmount(context)?;
        }
    }
    if let Some(mut copy) = copy_place {
        copy.unmount(context)?;
        copy.release(context)?;
    }
    Ok(looks.into_iter().flatten().collect())
}

/// Inspects a volume that is not mounted, and leaves it so.
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
    if stage.measures.is_empty() {
        place.mount(context)?;
    }
    let (layout, free_space) = context.look(&directory)?;
    place.unmount(context)?;
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

/// Says which volumes worked on in the turns of others.
fn warn_of_work(stage: &LockstepStage, rounds: &[Round], context: &mut StageContext<'_>) {
    for (index, name) in stage.volumes().into_iter().enumerate() {
        let busy = |round: &&Round| round.volumes.get(index).is_some_and(|volume| volume.still_busy);
        let count = rounds.iter().filter(busy).count();
        if count > 0 {
            let message =
                format!("{name} was not at rest after its turn in {count} of {} rounds", rounds.len());
            context.warn(Warning { kind: WarningKind::StillBusy, message });
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

/// What to say where something else than room for data ran out on the leader, or where a workload that goes on until nothing
/// more fits never came to that.
fn not_full(
    stage: &LockstepStage,
    rounds: &[Round],
    failed: &std::collections::BTreeMap<String, u64>,
) -> Option<String> {
    let refused = out_of_space(failed);
    let share = |round: &Round| {
        let volume = round.volumes.first()?;
        let used = volume.used_bytes.max(volume.most_used_bytes);
        Some(as_f64(used) / as_f64(volume.total_bytes).max(1.0))
    };
    let most = rounds.iter().filter_map(share).fold(0.0, f64::max);
    let (leader, most_in_use) = (&stage.leader, 100.0 * most);
    let refusals = plural(refused, "operation", "operations");
    if most > FULL {
        None
    } else if refused > 0 {
        Some(format!(
            "{refusals} found no room on {leader}, of which at most {most_in_use:.1} % were in use between the parts of \
             rounds: something other than space for data ran out, such as inodes or space for metadata"
        ))
    } else {
        stage.workload.target().is_none().then(|| {
            format!("every operation found room on {leader}, of which at most {most_in_use:.1} % were in use between the parts of rounds")
        })
    }
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
    fn a_volume_that_ran_out_of_something_else_was_not_full() {
        let round = |used_bytes| {
            let leader = fsage_model::lockstep::VolumeRound {
                used_bytes,
                total_bytes: 1000,
                ..fsage_model::lockstep::VolumeRound::default()
            };
            Round { round: 1, operations: 100, files: 1, live_bytes: 1, volumes: vec![leader] }
        };
        let stage = |workload: &str| -> LockstepStage {
            let text = format!(r#"{{"workload":{workload},"every":1,"followers":{{}},"measures":[]}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let (git, fsfb) = (
            stage(r#"{"kind":"git","history":{"kind":"synthetic","commits":9}}"#),
            stage(r#"{"kind":"fsfb","target":0.5}"#),
        );
        let of = |stage: &LockstepStage, used: &[u64], refused| {
            let rounds: Vec<Round> = used.iter().map(|used| round(*used)).collect();
            not_full(stage, &rounds, &[("ENOSPC".to_owned(), refused)].into())
        };
        let said = of(&git, &[740, 780, 600], 10).unwrap();
        assert!(said.starts_with("10 operations found no room on full, of which at most 78.0 %"), "{said}");
        // It ended before anything was full; what fills to a target says itself how full it is to be.
        let said = of(&git, &[740, 780, 600], 0).unwrap();
        assert!(said.starts_with("every operation found room on full, of which at most 78.0 %"), "{said}");
        assert_eq!(of(&fsfb, &[500, 500], 0), None);
        assert!(of(&fsfb, &[500, 500], 3).is_some());
        assert_eq!(of(&git, &[740, 930, 600], 10), None);
        // It was full within a round, and room was made before its end.
        let mut rounds = vec![round(700)];
        rounds[0].volumes[0].most_used_bytes = 960;
        assert_eq!(not_full(&git, &rounds, &[("ENOSPC".to_owned(), 10)].into()), None);
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
