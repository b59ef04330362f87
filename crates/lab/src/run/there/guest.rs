//! Guests of a run: what they need, and how they are started.

use std::time::{Duration, Instant};

use fsage_model::cause::in_one_line;
use fsage_model::study::{GuestSpec, LayerSpec, StageSpec, VolumeSpec};

use crate::guest::saved::Saved;
use crate::guest::{self, Guest, GuestError, Needs, Part, Processor};
use crate::run::RunError;
use crate::run::error::TrialError;
use crate::run::stage;
use crate::study::Cell;
use crate::target::{Connection, Patience, TargetError};

/// Why another host, or a guest, is not there.
#[derive(Debug)]
pub(super) enum HostError {
    Target(TargetError),
    Guest(GuestError),
}

impl HostError {
    pub(super) fn of_run(self) -> RunError {
        match self {
            Self::Target(error) => RunError::There(error),
            Self::Guest(error) => RunError::Guest(error),
        }
    }
}

impl From<HostError> for TrialError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Target(error) => error.into(),
            HostError::Guest(error) => Self::Guest(Box::new(error)),
        }
    }
}

impl From<TargetError> for HostError {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}

impl From<GuestError> for HostError {
    fn from(error: GuestError) -> Self {
        Self::Guest(error)
    }
}

/// How long a guest may take that does its trial before it speaks.
const BATCH: Duration = Duration::from_secs(12 * 3600);

/// A trial that is packed with its guest, which does it before it speaks: nothing that comes from this host changes its times.
pub(super) struct Alone<'a> {
    /// What the guest is to do.
    pub(super) batch: Vec<u8>,
    /// What the trial alone needs there.
    pub(super) needs: Needs,
    /// Whether nobody waits for it any more.
    pub(super) is_given_up: &'a dyn Fn() -> bool,
}

/// A guest that was started.
pub(super) struct Started {
    pub(super) connection: Connection,
    pub(super) guest: Guest,
    pub(super) processor: Processor,
    /// What a trial's log has of how it was started.
    pub(super) how: String,
    /// What is to be reported of it.
    pub(super) notes: Vec<String>,
}

/// A guest, by the first kind of processor that starts it.
pub(super) fn booted(
    spec: &GuestSpec,
    needs: &Needs,
    choices: &[Processor],
    alone: Option<&Alone<'_>>,
) -> Result<Started, HostError> {
    let mut failed: Vec<Processor> = Vec::new();
    let mut choices = choices.iter().copied().peekable();
    loop {
        let processor = choices.next().unwrap_or(Processor::Emulated);
        let batch = alone.map(|alone| &*alone.batch);
        let guest = guest::prepare(spec, needs, processor, Part { batch, sharing: None })?;
        let patience = match alone {
            Some(alone) => Patience { longest: BATCH, is_given_up: alone.is_given_up },
            None => Patience { longest: processor.boots_within(), is_given_up: &|| false },
        };
        match started(&guest, patience) {
            Ok((connection, how, notes)) => {
                // The same guest starts by another one: it was the processor's fault.
                failed.into_iter().for_each(Processor::failed);
                return Ok(Started { connection, guest, processor, how, notes });
            }
            Err(TargetError::Unreachable { host, said }) if alone.is_some() => {
                let (request, status) = ("trial".to_owned(), "it ended".to_owned());
                let last = format!("{host}: {said}");
                return Err(TargetError::Lost { request, status, last, stderr: guest.console() }.into());
            }
            Err(TargetError::Unreachable { .. }) if choices.peek().is_some() => failed.push(processor),
            Err(error) => return Err(with_console(error, &guest).into()),
        }
    }
}

/// Starts a guest from its saved state, which is saved now if there is none, or else boots it; how, and what is to be reported of that.
fn started(guest: &Guest, patience: Patience<'_>) -> Result<(Connection, String, Vec<String>), TargetError> {
    let mut notes = Vec::new();
    if let Some(saved) = &guest.saved {
        match from_state(guest, saved, patience) {
            Ok((connection, how)) => return Ok((connection, how, notes)),
            Err(error) => {
                saved.remove();
                notes.push(format!(
                    "{} is booted, not started from a saved state: {}",
                    guest.name,
                    in_one_line(&error)
                ));
            }
        }
    }
    let begun = Instant::now();
    let identity = (guest.name.clone(), guest.machine);
    let connection =
        Connection::guest(guest.program.clone(), guest.arguments.clone(), identity, patience, None)?;
    Ok((connection, format!("booted in {}", seconds(begun.elapsed())), notes))
}

/// Starts a guest from its state, and how that went.
fn from_state(
    guest: &Guest,
    saved: &Saved,
    patience: Patience<'_>,
) -> Result<(Connection, String), GuestError> {
    let begun = Instant::now();
    let mut how = String::new();
    if !saved.is_there() {
        saved.save(guest, patience)?;
        how = format!("booted and saved in {}, ", seconds(begun.elapsed()));
    }
    let begun = Instant::now();
    let connection = saved.start(guest, patience)?;
    how.push_str(&format!("started from a saved state in {}", seconds(begun.elapsed())));
    Ok((connection, how))
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// Whether there can be such a guest, which is packed and not started.
pub(super) fn check(spec: &GuestSpec, needs: &Needs) -> Result<(), HostError> {
    guest::prepare(spec, needs, Processor::Emulated, Part::default())?;
    Ok(())
}

/// An error with what the guest's kernel wrote to its console.
pub(super) fn with_console(error: TargetError, guest: &Guest) -> TargetError {
    match error {
        TargetError::Unreachable { host, said } => {
            let said = [said, guest.console()].join("\n").trim().to_owned();
            TargetError::Unreachable { host, said }
        }
        other => other,
    }
}

/// What the trials of a cell need in a guest.
pub(super) fn needs_of(cell: &Cell) -> Needs {
    let mut needs = Needs::default();
    add_needs(&mut needs, cell);
    needs
}

/// The layers of a volume.
fn layers(volume: &VolumeSpec) -> &[LayerSpec] {
    match volume {
        VolumeSpec::Disk(disk) => &disk.stack,
        VolumeSpec::Loop { .. } | VolumeSpec::Device { .. } | VolumeSpec::Partition { .. } => &[],
    }
}

/// Adds what the trials of a cell need in a guest.
pub(super) fn add_needs(needs: &mut Needs, cell: &Cell) {
    let kind = match cell.file_system.mount_type() {
        // One module has all three.
        "ext2" | "ext3" => "ext4",
        // Every guest has that one.
        other if other.starts_with("fuse") => "fuse",
        other => other,
    };
    if !cell.file_system.is_bare() {
        needs.modules.insert(kind.to_owned());
    }
    needs.programs.extend(cell.file_system.programs());
    if cell.spec.target.hosts().is_some() {
        needs.modules.insert("virtio_blk".to_owned());
        // fio runs by it what has its jobs begin at the same time.
        needs.programs.insert("/bin/sh".to_owned());
        if let Some(stack) = cell.file_system.cluster() {
            needs.modules.extend(stack.modules().iter().map(|name| (*name).to_owned()));
            needs.programs.extend(stack.programs().iter().map(|name| (*name).to_owned()));
        }
    }
    let own = &cell.spec.volume;
    let others: Vec<VolumeSpec> =
        cell.spec.stages().flat_map(|stage| stage::of(stage).other_volumes(own)).collect();
    for layer in others.iter().chain([own]).flat_map(layers) {
        needs.modules.extend(layer.modules().into_iter().map(str::to_owned));
        needs.programs.extend(layer.programs().iter().map(|name| (*name).to_owned()));
    }
    // What else this host has: a stage that lacks one says so.
    for stage in cell.spec.stages() {
        let names: &[&str] = match stage {
            StageSpec::Fio(_) | StageSpec::Precondition(_) | StageSpec::Measure(_) => &["fio"],
            StageSpec::Lockstep(_) | StageSpec::Cluster(_) => &["fio"],
            StageSpec::PowerCuts(_) => &["sqlite3"],
            StageSpec::Remedy(_) => &["e4defrag", "xfs_fsr", "btrfs", "fstrim"],
            StageSpec::Age(_) | StageSpec::Copy(_) | StageSpec::Image(_) => &[],
        };
        needs.optional_programs.extend(names.iter().map(|name| (*name).to_owned()));
    }
}
