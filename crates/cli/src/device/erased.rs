//! A device that the command line allows to be erased: it is held while it is written to, and then let go.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_lab::image::Workplace;
use fsage_lab::target::{Incoming, Session};
use fsage_lab::volume::{self, EraseConsent, Volume, VolumeError};
use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Problem};
use fsage_model::protocol::call;
use fsage_model::study::{QueueSpec, VolumeSpec};
use fsage_model::timed_write::{WriteRun, WriteSpec, WriteTimes};

use crate::progress::Progress;
use crate::session;
use crate::terminal::Terminal;

/// The device, if `--erase` allows it and the rules for devices do. Nothing is written; it is decided again when the device is taken.
pub(super) fn volume(device: &Path, erase: &[String]) -> Result<Volume, Problem> {
    let spec =
        VolumeSpec::Device { path: device.to_path_buf(), scheduler: None, queue: QueueSpec::default() };
    // No store is in question: what is mounted anywhere is refused.
    let volume =
        volume::resolve(&spec, &EraseConsent::parse(erase), Path::new("/")).map_err(|error| match error {
            VolumeError::Spec { what, .. } => {
                Problem::new(EXIT_USAGE, format!("{} cannot be written to: it {what}", device.display()))
                    .hint("name a block device under /dev (`lsblk` lists them)")
            }
            error => error.into(),
        })?;
    crate::require_root("writing to a device")?;
    volume.look()?;
    Ok(volume)
}

/// Does `work` while the device is held. Signals end it.
pub(super) fn held<T>(
    volume: &Volume,
    (device, seed): (&Path, u64),
    terminal: &Terminal,
    work: impl FnOnce(&mut Writer<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let mut place = Workplace::open(device)?;
    let done = in_place(&mut place, volume, (device, seed), terminal, work);
    place.close()?;
    done
}

fn in_place<T>(
    place: &mut Workplace,
    volume: &Volume,
    (named, seed): (&Path, u64),
    terminal: &Terminal,
    work: impl FnOnce(&mut Writer<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let Workplace { session, journal, .. } = place;
    let acquired = volume.acquire(session, journal, "device")?;
    let device = acquired.device.clone();
    let control = session.control();
    let mut begun = false;
    let done = session::interruptible_calls(control, terminal, |stopped| {
        let mut progress = Progress::new(terminal);
        if terminal.live {
            progress.stage(&format!("timing writes to {}", named.display()));
        }
        let mut writer = Writer {
            session: &mut *session,
            device: &device,
            stopped,
            progress,
            seed,
            written_bytes: 0,
            begun: false,
        };
        let done = work(&mut writer);
        begun = writer.begun;
        writer.progress.finish();
        done
    });
    let released = volume.release(acquired, session, journal);
    let done = done?.map_err(|problem| {
        let lost = format!("what {} held is lost: it was written to", named.display());
        let hint = problem.hint.clone();
        match begun {
            true => problem.hint(hint.map_or_else(|| lost.clone(), |hint| format!("{lost}; {hint}"))),
            false => problem,
        }
    })?;
    released?;
    Ok(done)
}

/// Writes to the device that is held.
pub(super) struct Writer<'a> {
    session: &'a mut Session,
    device: &'a Path,
    stopped: &'a AtomicBool,
    progress: Progress,
    seed: u64,
    begun: bool,
    /// Bytes that were written for their times.
    pub written_bytes: u64,
}

impl Writer<'_> {
    /// Discards all of the device, so that it has nothing to collect while writes are timed; whether it can.
    pub(super) fn discard(&mut self) -> bool {
        self.begun = true;
        self.session.call(call::DiscardDevice { device: self.device.to_path_buf() }).is_ok()
    }

    /// Times these writes. The first time, both ends of the device are cleared: what is left is nobody's file system.
    pub(super) fn time(&mut self, runs: Vec<WriteRun>) -> Result<WriteTimes, Problem> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(Problem::new(EXIT_FAILED, "timing writes was stopped"));
        }
        // Each call has data of its own.
        let spec =
            WriteSpec { runs, seed: self.seed ^ self.written_bytes, clear_ends: self.written_bytes == 0 };
        self.begun = true;
        let call = call::TimeWrites { device: self.device.to_path_buf(), spec };
        let progress = &mut self.progress;
        let times = self.session.call_with(call, &mut |incoming| {
            if let Incoming::Event(event) = incoming {
                progress.event(&event);
            }
        })?;
        self.written_bytes += times.written_bytes;
        Ok(times)
    }
}
