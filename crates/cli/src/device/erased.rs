//! A device that the command line allows to be erased: it is held while it is written to, and then let go.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fsage_lab::image::Workplace;
use fsage_lab::target::{Incoming, Session, TargetError};
use fsage_lab::volume::{self, EraseConsent, Volume, VolumeError};
use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Problem};
use fsage_model::protocol::call;
use fsage_model::study::{QueueSpec, VolumeSpec};
use fsage_model::timed_write::{WriteRun, WriteSpec, WriteTimes};
use rustix::io::Errno;

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
    if is_read_only(device) {
        let device = device.display();
        return Err(Problem::new(EXIT_USAGE, format!("{device} is write-protected"))
            .hint(format!("unlock the switch of the card, or `blockdev --setrw {device}`")));
    }
    Ok(volume)
}

/// `ro` of sysfs (Documentation/ABI/stable/sysfs-block).
fn is_read_only(device: &Path) -> bool {
    let Ok(number) = device.metadata().map(|found| found.rdev()) else { return false };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro")).is_ok_and(|ro| ro.trim() == "1")
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
    // What was measured is not lost because something stays to be released.
    if let Err(error) = place.close() {
        left(&error.into(), terminal);
    }
    done
}

fn left(problem: &Problem, terminal: &Terminal) {
    terminal.warn(&format!("not everything was released: {}; see `fsage clean`", problem.line()));
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
    let mut begun = Begun::Nothing;
    let done = session::interruptible(control, terminal, || {
        let mut progress = Progress::new(terminal);
        if terminal.live {
            progress.stage(&format!("timing writes to {}", named.display()));
        }
        let mut writer = Writer {
            session: &mut *session,
            device: &device,
            progress,
            seed,
            begun: Begun::Nothing,
            written_bytes: 0,
        };
        let done = work(&mut writer);
        begun = writer.begun;
        writer.progress.finish();
        done
    });
    if let Err(error) = volume.release(acquired, session, journal) {
        left(&error.into(), terminal);
    }
    done?.map_err(|problem| begun.said(problem, named))
}

/// What became of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// Nothing was asked of it.
    Nothing,
    /// It was asked to write or discard, and did not say that it did.
    Perhaps,
    /// It was written to, or discarded.
    Surely,
}

impl Begun {
    /// Adds that to what is reported to the user.
    fn said(self, problem: Problem, device: &Path) -> Problem {
        let lost = match self {
            Self::Nothing => return problem,
            Self::Perhaps => "may be lost",
            Self::Surely => "is lost: it was written to",
        };
        let lost = format!("what {} held {lost}", device.display());
        let hint = problem.hint.as_ref().map_or_else(
            || format!("{lost}; run the command again, or make a file system on it"),
            |hint| format!("{lost}; {hint}"),
        );
        problem.hint(hint)
    }
}

/// Writes to the device that is held.
pub(super) struct Writer<'a> {
    session: &'a mut Session,
    device: &'a Path,
    progress: Progress,
    seed: u64,
    begun: Begun,
    /// Bytes that were written for their times.
    pub written_bytes: u64,
}

impl Writer<'_> {
    /// An error once a stop was asked: between two requests nothing else acts on it.
    fn go_on(&mut self) -> Result<(), Problem> {
        if session::is_stopped() {
            return Err(Problem::new(EXIT_FAILED, "timing writes was stopped"));
        }
        if self.begun == Begun::Nothing {
            self.begun = Begun::Perhaps;
        }
        Ok(())
    }

    /// Discards all of the device, so that it has nothing to collect while writes are timed; whether it can.
    pub(super) fn discard(&mut self) -> Result<bool, Problem> {
        self.go_on()?;
        match self.session.call(call::DiscardDevice { device: self.device.to_path_buf() }) {
            Ok(()) => {
                self.begun = Begun::Surely;
                Ok(true)
            }
            Err(TargetError::Failed { failure, .. })
                if [Errno::OPNOTSUPP, Errno::NOTTY, Errno::INVAL]
                    .iter()
                    .any(|errno| failure.errno == Some(errno.raw_os_error())) =>
            {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Times these writes. The first time, both ends of the device are cleared: what is left is nobody's file system.
    pub(super) fn time(&mut self, runs: Vec<WriteRun>) -> Result<WriteTimes, Problem> {
        self.go_on()?;
        // Each call has data of its own.
        let spec =
            WriteSpec { runs, seed: self.seed ^ self.written_bytes, clear_ends: self.written_bytes == 0 };
        let call = call::TimeWrites { device: self.device.to_path_buf(), spec };
        let (progress, control) = (&mut self.progress, self.session.control());
        // What was asked before the request was on its way acted on nothing.
        let mut sent = || {
            if session::is_stopped() {
                control.stop();
            }
        };
        let times = self.session.call_and(call, &mut sent, &mut |incoming| {
            if let Incoming::Event(event) = incoming {
                progress.event(&event);
            }
        })?;
        self.begun = Begun::Surely;
        self.written_bytes += times.written_bytes;
        Ok(times)
    }
}
