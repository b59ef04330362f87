//! The `remedy` stage: what people do about an aged file system, with what it costs.
//!
//! The file system is mounted afresh and its device brought to rest before; the cost is what the device's clock
//! and counters say from there to the end of a sync. `none` goes through the same steps and does nothing: it is
//! the control, and what it costs is what the others cost at least.
//!
//! A copy takes the place of the original, as with the `copy` stage, but not through an image: it lies on its
//! device as it was written. Its time is that of the slower of both devices, because what was read is written
//! back while more is read.

use std::path::Path;
use std::time::{Duration, Instant};

use fsage_model::disk::{DiskStat, DiskUse};
use fsage_model::filesystem::{self, MountedProgram};
use fsage_model::protocol::{DeviceBytes, HostFacts, call};
use fsage_model::record::{RemedyRecord, StageRecord};
use fsage_model::remedy::Remedy;
use fsage_model::study::{RemedyStage, VolumeSpec};
use fsage_model::warning::{Warning, WarningKind};
use fsage_sys::errno::is_out_of_space;

use super::places::Volume;
use super::{Stage, StageContext, age, copy};
use crate::filesystem::FileSystem;
use crate::run::error::TrialError;
use crate::run::trial_volume::TrialVolume;
use crate::tools::{Invocation, ToolError, mounted};

impl Stage for RemedyStage {
    /// Does it, counts what it took, and checks that every block of data is what it was.
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        place.remount(context)?;
        context.session.call(call::DiskRest { directory: place.point().to_owned() })?;
        let mut record = match self.target(&context.spec.volume) {
            Some(target) => copy_all(self, &target, place, context)?,
            None => in_place(self, place, context)?,
        };
        place.mark(&format!("after {}", self.name), context)?;
        if !record.incomplete.is_empty() {
            let message = format!("{} did not complete: {}", self.method, record.incomplete);
            context.warn(Warning { kind: WarningKind::NoRoom, message });
        }
        context.interrupted()?;
        context.session.call(call::DiskRest { directory: place.point().to_owned() })?;
        let folders = context.aged_folders();
        if let Some(last) = folders.last() {
            (record.layout, record.free_space) = context.look(&place.folder(last))?;
        }
        context.done.push(StageRecord::Remedy(Box::new(record)));
        if self.verify {
            folders.iter().try_for_each(|folder| age::verify(&place.folder(folder), context))?;
        }
        // Where files lay before is not what is measured afterwards.
        context.folder.forget_places();
        let spec = self.target(&context.spec.volume).unwrap_or_else(|| context.spec.volume.clone());
        match folders.last() {
            Some(last) => {
                let directory = &place.folder(last);
                context.explain(&Volume { stage: &self.name, name: "", spec: &spec, directory })
            }
            None => Ok(()),
        }
    }

    fn describe(&self, point: &Path, seed: u64) -> Vec<String> {
        let point = point.display();
        match self.method {
            Remedy::None => Vec::new(),
            Remedy::Defragment | Remedy::Balance => {
                vec![format!("# {}, by the file system's own program, on {point}", self.method)]
            }
            Remedy::Fstrim => vec![format!("fstrim {point}")],
            Remedy::Copy => vec![format!("cp -a {point}/. COPY")],
            Remedy::Free(percent) => vec![free_in_words(percent, &point.to_string(), seed)],
        }
    }

    fn other_volumes(&self, own: &VolumeSpec) -> Vec<VolumeSpec> {
        self.target(own).into_iter().collect()
    }

    fn check_host(&self, file_system: &FileSystem, facts: &HostFacts) -> Result<(), TrialError> {
        let Some(program) = program(self, file_system) else { return Ok(()) };
        if facts.tools.contains_key(program.name) {
            return Ok(());
        }
        let needed = mounted::invoke(program, Path::new(""), limit(self));
        let (program, package) = (needed.program().to_owned(), needed.package().to_owned());
        Err(TrialError::Remedy(ToolError::Missing { program, package }))
    }
}

/// The program that does it on this file system, if it takes one.
fn program(stage: &RemedyStage, file_system: &FileSystem) -> Option<MountedProgram> {
    stage.method.program(filesystem::by_name(file_system.mount_type())?)
}

/// Longest that the program may run.
fn limit(stage: &RemedyStage) -> Duration {
    stage.limit_s.map_or(mounted::TIME_LIMIT, Duration::from_secs_f64)
}

/// Does what changes the volume where it is.
fn in_place(
    stage: &RemedyStage,
    place: &TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<RemedyRecord, TrialError> {
    let (point, seed) = (place.point().to_owned(), context.planned.seed);
    let mut record = record(stage);
    let before = Counted::now(&point, context)?;
    let clock = Instant::now();
    if let Some(program) = program(stage, context.file_system) {
        nothing_in_the_way(program, place, context)?;
        run_program(&mounted::invoke(program, &point, limit(stage)), &mut record, context)?;
    }
    match stage.method {
        Remedy::Fstrim => {
            context.command(&stage.name, &format!("fstrim {}", point.display()));
            record.bytes = context.session.call(call::Trim { directory: place.folder("") })?;
        }
        Remedy::Free(percent) => {
            for folder in context.aged_folders() {
                let directory = place.folder(&folder);
                context.command(
                    &stage.name,
                    &free_in_words(percent, &directory.path.display().to_string(), seed),
                );
                let free = call::Free { directory, share: f64::from(percent) / 100.0, seed };
                let freed = context
                    .ask_long(&stage.name, |session, _, incoming| session.call_with(free, incoming))?;
                record.files += freed.files;
                record.bytes += freed.bytes;
            }
        }
        Remedy::None | Remedy::Defragment | Remedy::Balance | Remedy::Copy => {}
    }
    context.session.call(call::Sync { directory: point.clone() })?;
    record.elapsed_ns = nanoseconds(clock);
    before.until_now(&point, &mut record, context)?;
    Ok(record)
}

/// Refuses a volume on which a name is taken that the program makes for itself: it works in what it finds there, which
/// may be a link to any directory of the host. Only this user can enter the volume, so nobody puts one there afterwards.
fn nothing_in_the_way(
    program: MountedProgram,
    place: &TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    let Some(name) = program.own_folder else { return Ok(()) };
    let taken = call::IsTaken { directory: place.folder(""), name: name.to_owned() };
    if context.session.call(taken)? {
        return Err(TrialError::InTheWay { program: program.name, name });
    }
    Ok(())
}

/// Copies everything to a new file system, which takes the place of the first. Without room for it the first
/// one stays.
fn copy_all(
    stage: &RemedyStage,
    target: &VolumeSpec,
    place: &mut TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<RemedyRecord, TrialError> {
    let name = format!("{}-{}", context.planned.id, stage.name);
    let mut fresh = copy::fresh(target, &name, context)?;
    let mut record = record(stage);
    for folder in context.aged_folders() {
        let took = match copy::copy(&stage.name, &folder, place, &fresh, context) {
            Ok(copied) => copied.took,
            Err(TrialError::Target(error)) if error.errno().is_some_and(is_out_of_space) => {
                record.incomplete = format!("the new volume has no room for the files: {error}");
                fresh.unmount(context)?;
                fresh.release(context)?;
                return Ok(record);
            }
            Err(error) => return Err(error),
        };
        record.files += took.files;
        record.bytes += took.bytes;
        record.elapsed_ns += took.elapsed_ns;
        add(&mut record.source_disk, took.source_disk);
        add(&mut record.disk, took.target_disk);
        record.read_bytes = sum(record.read_bytes, took.read_bytes);
        record.written_bytes = sum(record.written_bytes, took.written_bytes);
    }
    context.interrupted()?;
    place.check(context)?;
    std::mem::replace(place, fresh).release(context)?;
    Ok(record)
}

/// Of nothing done yet.
fn record(stage: &RemedyStage) -> RemedyRecord {
    RemedyRecord {
        name: stage.name.clone(),
        method: stage.method,
        command: String::new(),
        said: String::new(),
        incomplete: String::new(),
        elapsed_ns: 0,
        disk: None,
        source_disk: None,
        read_bytes: None,
        written_bytes: None,
        files: 0,
        bytes: 0,
        layout: fsage_model::layout::LayoutSummary::default(),
        free_space: None,
    }
}

fn free_in_words(percent: u8, directory: &str, seed: u64) -> String {
    format!("rm # {percent} % of the files below {directory}, chosen by seed {seed}")
}

/// Runs the program; that the volume has no room for its work is reported, anything else that it fails by fails the
/// trial.
fn run_program(
    program: &Invocation,
    record: &mut RemedyRecord,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    record.command = program.to_string();
    context.command(&record.name, &record.command);
    let output = program.run(context.session).map_err(TrialError::Remedy)?;
    record.said = output.tail();
    if mounted::lacked_room(&output) {
        record.incomplete = format!("the volume has no room for it: {}", record.said);
        return Ok(());
    }
    if output.status == 0 { Ok(()) } else { Err(TrialError::Remedy(program.failed(&output))) }
}

/// What a device had counted at some moment.
struct Counted {
    stat: Option<DiskStat>,
    bytes: Option<DeviceBytes>,
}

impl Counted {
    fn now(point: &Path, context: &mut StageContext<'_>) -> Result<Self, TrialError> {
        let directory = point.to_owned();
        let stat = context.session.call(call::DiskStat { directory: directory.clone() })?;
        let bytes = context.session.call(call::DeviceBytes { directory })?;
        Ok(Self { stat, bytes })
    }

    /// Puts what was counted since into the record.
    fn until_now(
        self,
        point: &Path,
        record: &mut RemedyRecord,
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        let now = Self::now(point, context)?;
        record.disk = now.stat.zip(self.stat).map(|(now, before)| now.since(&before));
        if let Some((now, before)) = now.bytes.zip(self.bytes) {
            record.read_bytes = Some(now.read.saturating_sub(before.read));
            record.written_bytes = Some(now.written.saturating_sub(before.written));
        }
        Ok(())
    }
}

/// Adds what a disk did for one more folder.
fn add(all: &mut Option<DiskUse>, one: Option<DiskUse>) {
    match (all.as_mut(), one) {
        (Some(all), Some(one)) => all.add(one),
        (None, one) => *all = one,
        (Some(_), None) => {}
    }
}

fn sum(all: Option<u64>, one: Option<u64>) -> Option<u64> {
    match (all, one) {
        (Some(all), Some(one)) => Some(all + one),
        (all, one) => all.or(one),
    }
}

fn nanoseconds(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
