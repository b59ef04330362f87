//! Where a trial works: a volume with its file system, mounted or not.
//!
//! Taken in the order volume, mount, and released in the reverse one. When a step fails, what is outstanding
//! in the journal tells what has to be released.

use std::path::{Path, PathBuf};

use fsage_model::fault::FaultSpec;
use fsage_model::fio::Settled;
use fsage_model::location::Location;
use fsage_model::protocol::{BlockFacts, call};
use fsage_model::study::VolumeSpec;
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;

use super::error::TrialError;
use super::stage::StageContext;
use super::trial::mount_point;
use crate::filesystem::{FileSystem, mkfs_discards, mount_discards};
use crate::lease::LeaseId;
use crate::lease::record::Lease;
use crate::store::preconditioned::Preconditioned;
use crate::volume::{self, Acquired, Layers, Volume};

/// A volume that was taken, and where it is mounted.
#[derive(Debug)]
pub(super) struct TrialVolume {
    volume: Volume,
    /// Tells its file and mount point from others'.
    name: String,
    acquired: Acquired,
    point: PathBuf,
    /// Leases of mount point and mount, while it is mounted.
    mounted: Option<(Option<LeaseId>, LeaseId)>,
}

impl TrialVolume {
    /// Takes a volume; nothing is written to it yet.
    pub(super) fn acquire(
        spec: &VolumeSpec,
        name: &str,
        context: &mut StageContext<'_>,
    ) -> Result<Self, TrialError> {
        let mut volume = volume::resolve(spec, context.consent, context.root)?;
        volume.beside(context.processors.trials());
        volume.of_trial(&context.planned.id);
        if context.spec.target.hosts().is_some() {
            volume.of_host();
        }
        context.step("volume", &volume.describe(name).join("; "));
        let acquired = acquire(&volume, name, context)?;
        for session in &mut context.others {
            volume.take_there(session)?;
        }
        context.commands.extend(acquired.commands.iter().cloned());
        context.file_system.fits(acquired.facts.size_bytes)?;
        let point = mount_point(context.root, name);
        let place = Self { volume, name: name.to_owned(), acquired, point, mounted: None };
        place.clear_if_used(context)?;
        Ok(place)
    }

    /// Discards all of a partition that this trial had before: its drive is not a new one.
    fn clear_if_used(&self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let used = self.volume.partition().is_some_and(|key| !context.used_partitions.insert(key));
        if used {
            let device = self.device().to_owned();
            context.command("discard", &format!("blkdiscard {}", device.display()));
            context.session.call(call::DiscardDevice { device })?;
        }
        Ok(())
    }

    /// The block device.
    pub(super) fn device(&self) -> &Path {
        &self.acquired.device
    }

    /// The layers between its drives and the block device, where there are any.
    pub(super) fn layers(&self) -> Option<Layers> {
        self.acquired.layers()
    }

    /// What is known about the block device.
    pub(super) const fn facts(&self) -> &BlockFacts {
        &self.acquired.facts
    }

    /// Whether it is a file of the host.
    pub(super) const fn is_file(&self) -> bool {
        matches!(self.volume, Volume::Loop(_))
    }

    /// Folder from which it is served, where it is a virtual disk of its own.
    pub(super) fn served(&self) -> Option<PathBuf> {
        match &self.volume {
            Volume::Disk(disk) => Some(disk.directory(&self.name)),
            Volume::Loop(_) | Volume::Device(_) | Volume::Partition(_) => None,
        }
    }

    /// Where it is mounted, or will be.
    pub(super) fn point(&self) -> &Path {
        &self.point
    }

    /// A folder on it.
    pub(super) fn folder(&self, name: &str) -> Location {
        Location::on(&self.point, name)
    }

    /// Makes the file system.
    pub(super) fn make(&self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        self.make_as(context.file_system, context)
    }

    /// Makes this file system, which differs from the trial's in what chance would settle.
    pub(super) fn make_as(
        &self,
        file_system: &FileSystem,
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        if file_system.is_bare() {
            return Ok(());
        }
        if mkfs_discards(&context.spec.file_system) || mount_discards(&context.spec.file_system) {
            self.forget_preconditioning(context)?;
        }
        let line = file_system.mkfs(self.device()).to_string();
        context.command("mkfs", &line);
        Ok(file_system.make(context.session, self.device())?)
    }

    /// The device is about to be discarded, now or while it is used: later trials do not take it for preconditioned.
    pub(super) fn forget_preconditioning(&self, context: &StageContext<'_>) -> Result<(), TrialError> {
        if matches!(context.spec.volume, VolumeSpec::Device { .. }) {
            Preconditioned::of(context.root).forget(self.facts())?;
        }
        Ok(())
    }

    /// Mounts it, if there is a file system. A loop file has all of its blocks then, whatever was discarded before.
    pub(super) fn mount(&mut self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        self.volume.allocate(&self.name, context.session)?;
        if context.file_system.is_bare() {
            return Ok(());
        }
        let point = self.point.clone();
        let directory = context.journal.make(Lease::Directory { path: point.clone() })?;
        context.session.call(call::MakeMountPoint { point: point.clone() })?;
        let mount = context.journal.take(Lease::Mount { point: point.clone() })?;
        for line in context.file_system.before_mount_lines(self.device(), &point) {
            context.command("mount", &line);
        }
        let line = context.file_system.mount_line(self.device(), &point);
        context.command("mount", &line);
        if let Some(line) = context.file_system.restrict_line(&point) {
            context.command("mount", &line);
        }
        context.file_system.mount(context.session, self.device(), &point)?;
        self.mounted = Some((directory, mount));
        self.mount_on_others(context)
    }

    /// Mounts it on the other hosts that share it. Nothing is leased there: they are gone after the trial.
    fn mount_on_others(&self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let point = &self.point;
        for session in &mut context.others {
            if let Some(directory) = point.parent() {
                session.call(call::MakeDirectory { directory: directory.to_owned() })?;
            }
            session.call(call::MakeMountPoint { point: point.clone() })?;
            context.file_system.mount(session, self.device(), point)?;
        }
        Ok(())
    }

    /// Unmounts it, if it is mounted.
    pub(super) fn unmount(&mut self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let Some((directory, mount)) = self.mounted.take() else { return Ok(()) };
        for session in context.others.iter_mut().rev() {
            context.file_system.unmount(session, &self.point)?;
        }
        context.command("unmount", &format!("umount {}", self.point.display()));
        context.file_system.unmount(context.session, &self.point)?;
        context.journal.release(mount)?;
        context.release(directory)
    }

    /// Unmounts and mounts it: nothing of it stays in memory.
    pub(super) fn remount(&mut self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        self.unmount(context)?;
        self.mount(context)
    }

    /// Writes back what is dirty of it, has its device empty its cache, and waits until nothing was asked of that for
    /// `quiet_ms`.
    pub(super) fn settle(
        &self,
        quiet_ms: u64,
        context: &mut StageContext<'_>,
    ) -> Result<Settled, TrialError> {
        let directory = self.mounted.is_some().then(|| self.point.clone());
        Ok(context.session.call(call::SettleDevice {
            device: self.device().to_owned(),
            directory,
            quiet_ms,
        })?)
    }

    /// Unmounts and checks it, and gives the verdict in words.
    pub(super) fn check(&mut self, context: &mut StageContext<'_>) -> Result<String, TrialError> {
        self.unmount(context)?;
        if context.file_system.is_bare() {
            return Ok("not checked: the bare device has no file system".to_owned());
        }
        context.step("check", "");
        let device = self.device().to_owned();
        let check = context.file_system.check(context.session, &device)?;
        context.commands.extend(context.file_system.fsck(&device).map(|fsck| fsck.to_string()));
        match check.clean {
            Some(false) => Err(TrialError::Unclean(check.summary)),
            Some(true) => Ok(check.summary),
            None => {
                let warning = Warning { kind: WarningKind::Fsck, message: check.summary.clone() };
                context.warnings.push(warning);
                Ok(check.summary)
            }
        }
    }

    /// Whether a log of its requests is kept.
    pub(super) const fn keeps_log(&self) -> bool {
        self.volume.keeps_log()
    }

    /// Names the present position in the log of its requests, where it keeps one.
    pub(super) fn mark(&self, mark: &str, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        Ok(self.volume.mark(context.session, &self.name, mark)?)
    }

    /// Slows its disk down, or lets it be as fast as it is (docs/controls.md).
    pub(super) fn set_faults(
        &self,
        faults: Option<FaultSpec>,
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        Ok(self.volume.set_faults(context.session, &self.name, faults)?)
    }

    /// Keeps the log of its requests with the trial, where it keeps one.
    fn keep_log(&self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let own = self.name.strip_prefix(&context.planned.id).unwrap_or(&self.name);
        let file = context.folder.request_log(own.trim_start_matches('-'));
        context.keep_log(self.volume.save_log(&self.name, &file), &file)
    }

    /// Gives the volume back; unmount it first.
    pub(super) fn release(self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        self.keep_log(context)?;
        Ok(self.volume.release(self.acquired, context.session, context.journal)?)
    }

    /// Gives the volume back and takes it again, so that nothing of its history is left below the file system
    /// either: a loop file gets blocks of its own again. A partition of a shared drive is discarded.
    pub(super) fn renew(&mut self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        self.unmount(context)?;
        self.keep_log(context)?;
        self.acquired.release(context.session, context.journal)?;
        self.acquired = acquire(&self.volume, &self.name, context)?;
        context.commands.extend(self.acquired.commands.iter().cloned());
        self.clear_if_used(context)
    }
}

/// Takes a volume. Where the host's file system cannot allocate, the file of a loop volume is written in full,
/// which takes long.
fn acquire(volume: &Volume, name: &str, context: &mut StageContext<'_>) -> Result<Acquired, TrialError> {
    Ok(context.ask_long("volume", |session, journal, incoming| {
        volume.acquire_with(session, journal, name, incoming)
    })?)
}
