//! fsage on a target: does the trials that a lab on another host asks for.
//!
//! It works in a folder of its own, which the connection made, with leases of this host. When the connection ends or
//! is silent, the trial that runs is given up, everything is released, and the folder goes. What a killed one left,
//! the next one releases.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fsage_engine::frame::{Frame, FrameError, FrameKind};
use fsage_engine::host::mount;
use fsage_model::cause::in_one_line;
use fsage_model::record::TrialRecord;
use rustix::process::{Signal, getpid, kill_process};

use super::message::{Batch, Begin, Failed, FromTarget, Outcome, ToTarget, TrialRequest, VERSION};
use crate::filesystem::Registry;
use crate::lease::{Journal, StoreOutcome, clean_stores};
use crate::run::error::TrialError;
use crate::run::interrupt::Interrupt;
use crate::run::observer::{Quiet, RunEvent, RunObserver};
use crate::run::trial::{Lab, Start};
use crate::run::{RunError, clean_left_over};
use crate::store::{Lock, NewFile, RECORD, TrialFolder};
use crate::study::{Cell, identity};
use crate::target::wire::{Heard, Silence, Watch, Wire, WireError};
use crate::target::{READY, Target, program};
use crate::time;
use crate::volume::EraseConsent;

/// How the folders begin that connections make.
const PLACE: &str = "fsage-target-";

/// How often the end of the connection is looked for.
const LOOK: Duration = Duration::from_secs(1);

/// A folder without a lock is one that a connection makes at this moment, unless it is so old.
const OLD: Duration = Duration::from_secs(3600);

/// Does trials for a lab that speaks on `input` and `output`, in the folder `root`, which is removed at the end.
///
/// # Errors
/// Leases cannot be kept, the folder is in use, or the connection failed.
pub fn serve(
    root: &Path,
    input: impl Read + Send + 'static,
    output: Box<dyn Write + Send>,
) -> Result<(), RunError> {
    serve_after(root, input, output, None)
}

/// The same by one that has done a trial before it speaks.
///
/// # Errors
/// As [`serve`].
pub(crate) fn serve_after(
    root: &Path,
    input: impl Read + Send + 'static,
    output: Box<dyn Write + Send>,
    done: Option<Done>,
) -> Result<(), RunError> {
    let failed = |source| RunError::Serve { root: root.to_owned(), source };
    let named = root.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PLACE));
    if !named {
        return Err(failed(std::io::Error::other("it is not a folder that a connection made")));
    }
    // As the kernel spells it, so that mounts below it are known.
    let root = &root.canonicalize().map_err(failed)?;
    let lock = Lock::take(root);
    let outcome = match &lock {
        Ok(_) => listen(root, input, output, done),
        Err(_) => Ok(()),
    };
    let removed = remove(root).map_err(failed);
    lock?;
    outcome.and(removed)
}

fn listen(
    root: &Path,
    input: impl Read + Send + 'static,
    mut output: Box<dyn Write + Send>,
    done: Option<Done>,
) -> Result<(), RunError> {
    let failed = |source| RunError::Serve { root: root.to_owned(), source };
    let interrupt = Interrupt::listen()?;
    writeln!(output, "{READY}").and_then(|()| output.flush()).map_err(failed)?;
    // After a trial in virtual time the clock here jumps from one moment at which something happens to the next.
    let silence = if done.is_some() { Silence::Allowed } else { Silence::Lost };
    let wire = Wire::over(output, input, watch(), silence).map_err(failed)?;
    Server { root, wire: &wire, interrupt: &interrupt }.run(done)
}

/// A trial that is over.
pub(crate) struct Done {
    id: String,
    made: Result<Made, String>,
}

/// What a trial left.
struct Made {
    folder: TrialFolder,
    record: TrialRecord,
    error: Option<TrialError>,
}

/// Does the trial in `bytes`, a [`Batch`], in the folder `root`, without a word to anybody but `observer`.
///
/// # Errors
/// It is no such thing, or leases cannot be kept.
pub(crate) fn batch(root: &Path, bytes: &[u8], observer: &mut dyn RunObserver) -> Result<Done, RunError> {
    let Batch { begin, trial } = serde_json::from_slice(bytes)
        .map_err(|error| RunError::Serve { root: root.to_owned(), source: error.into() })?;
    let start = Target::local;
    let start: &Start<'_> = &start;
    let interrupt = Interrupt::listen()?;
    let mut lab = lab(root, &begin, start, &interrupt)?;
    let done = one(&mut lab, root, trial, observer)?;
    clean_left_over(&mut lab, "a trial", &mut Quiet)?;
    Ok(done)
}

/// What does the trials.
fn lab<'a>(
    root: &Path,
    begin: &Begin,
    start: &'a Start<'a>,
    interrupt: &Interrupt,
) -> Result<Lab<'a>, RunError> {
    let (journal, consent) = (Journal::open(root)?, EraseConsent::parse(&begin.erase));
    let mut lab = Lab::new(root.to_owned(), consent, start, journal, interrupt.of_lane(0));
    lab.on_host = begin.on_host;
    Ok(lab)
}

/// Does one trial.
fn one(
    lab: &mut Lab<'_>,
    root: &Path,
    asked: TrialRequest,
    observer: &mut dyn RunObserver,
) -> Result<Done, RunError> {
    let TrialRequest { study, planned, factors, spec } = asked;
    let id = planned.id.clone();
    let file_system = match Registry::new(&spec.driver).resolve(&spec.file_system) {
        Ok(file_system) => file_system,
        Err(error) => return Ok(Done { id, made: Err(in_one_line(&error)) }),
    };
    let cell = Cell { factors, spec, file_system };
    let mut folder = TrialFolder::begin(root, &id)?;
    let (record, error) = lab.trial(&study, &planned, &cell, &mut folder, observer);
    Ok(Done { id, made: Ok(Made { folder, record, error }) })
}

/// Ends the trial that runs as a signal would.
fn watch() -> Arc<Watch> {
    Arc::new(|heard: Heard<'_>| {
        let ends = match heard {
            Heard::Ended | Heard::Silent => true,
            Heard::Frame(frame) => {
                frame.kind == FrameKind::Request && matches!(frame.json(), Ok(ToTarget::Interrupt))
            }
        };
        if ends {
            // It cannot fail: this process is there, and may signal itself.
            let _ = kill_process(getpid(), Signal::TERM);
        }
        ends
    })
}

/// One connection.
struct Server<'a> {
    root: &'a Path,
    wire: &'a Wire,
    interrupt: &'a Interrupt,
}

impl Server<'_> {
    fn run(&self, done: Option<Done>) -> Result<(), RunError> {
        let hello =
            FromTarget::Hello { version: VERSION, program: identity::program(), now_s: time::now_seconds() };
        self.say(&hello)?;
        let mut begin = Begin::default();
        while let Some(asked) = self.next()? {
            match asked {
                ToTarget::Program { name, bytes } => self.program(&name, bytes)?,
                ToTarget::Begin(settings) => {
                    begin = settings;
                    break;
                }
                ToTarget::Ping | ToTarget::Trial(_) | ToTarget::Interrupt | ToTarget::End => return Ok(()),
            }
        }
        // With the agent, which releases it, that came just now.
        for text in clean_siblings(self.root) {
            self.say(&FromTarget::Note { text })?;
        }
        self.settle();
        let start = Target::local;
        let start: &Start<'_> = &start;
        let mut lab = lab(self.root, &begin, start, self.interrupt)?;
        let outcome = self.trials(&mut lab, done);
        // Agents that were lost while they released: once more. Nobody listens for what is said of it.
        clean_left_over(&mut lab, "a trial", &mut Quiet)?;
        outcome
    }

    fn trials(&self, lab: &mut Lab<'_>, mut done: Option<Done>) -> Result<(), RunError> {
        while let Some(asked) = self.next()? {
            match asked {
                ToTarget::Trial(asked) => {
                    let known = done.take_if(|done| done.id == asked.planned.id);
                    let done = match known {
                        Some(done) => done,
                        None => one(lab, self.root, *asked, &mut Telling(self))?,
                    };
                    self.send(done)?;
                }
                ToTarget::Ping => self.say(&FromTarget::Pong)?,
                ToTarget::End => return Ok(()),
                ToTarget::Program { .. } | ToTarget::Begin(_) | ToTarget::Interrupt => {}
            }
        }
        Ok(())
    }

    /// The next message; `None` when the lab is gone.
    fn next(&self) -> Result<Option<ToTarget>, RunError> {
        loop {
            match self.wire.receive(LOOK) {
                Ok(None) => {}
                Ok(Some(frame)) => return Ok(Some(frame.json().map_err(|error| self.failed(error))?)),
                Err(WireError::Ended | WireError::Silent) => return Ok(None),
                Err(WireError::Frame(error)) => return Err(self.failed(error)),
            }
        }
    }

    fn say(&self, said: &FromTarget) -> Result<(), RunError> {
        self.wire.send(said).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: FrameError) -> RunError {
        RunError::Serve { root: self.root.to_owned(), source: std::io::Error::other(in_one_line(&error)) }
    }

    /// Takes one of our programs.
    fn program(&self, name: &str, bytes: u64) -> Result<(), RunError> {
        if !program::OTHERS.contains(&name) {
            return Err(self.failed(FrameError::Stream(std::io::ErrorKind::InvalidData.into())));
        }
        let path = self.root.join(name);
        let mut file = NewFile::create(&path)?;
        let mut left = bytes;
        while left > 0 {
            let frame = self.wire.receive(LOOK);
            match frame {
                Ok(None) => continue,
                Ok(Some(Frame { kind: FrameKind::Chunk, payload, .. })) => {
                    left = left.saturating_sub(payload.len() as u64);
                    file.write(&payload)?;
                }
                Ok(Some(_)) | Err(_) => {
                    return Err(self.failed(FrameError::Stream(std::io::ErrorKind::UnexpectedEof.into())));
                }
            }
        }
        file.commit()?;
        let source = |source| RunError::Serve { root: path.clone(), source };
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).map_err(source)
    }

    /// Sends what a trial made.
    fn send(&self, done: Done) -> Result<(), RunError> {
        let Done { id, made } = done;
        let Made { mut folder, record, error } = match made {
            Ok(made) => made,
            Err(message) => return self.say(&FromTarget::Refused { message }),
        };
        self.settle();
        if self.wire.is_gone() {
            // Nobody reads it; a write could wait for as long as the network gives nothing up.
            return Ok(());
        }
        for name in folder.files()? {
            self.file(&name, &mut folder.open(&name)?)?;
        }
        let bytes = serde_json::to_vec(&record).unwrap_or_default();
        self.file(RECORD, &mut bytes.as_slice())?;
        self.say(&FromTarget::Places { volumes: folder.places().to_vec() })?;
        drop(folder);
        let place = self.root.join("trials").join(&id);
        std::fs::remove_dir_all(&place).map_err(|source| RunError::Serve { root: place, source })?;
        self.settle();
        self.say(&FromTarget::Over { outcome: outcome(error, &id) })
    }

    /// Writes out what was written here, so that no trial pays for what came before it.
    fn settle(&self) {
        if let Ok(place) = File::open(self.root) {
            // What cannot be written out is noticed by who writes it.
            let _ = rustix::fs::syncfs(&place);
        }
    }

    fn file(&self, name: &str, from: &mut dyn Read) -> Result<(), RunError> {
        self.say(&FromTarget::File { name: name.to_owned() })?;
        let sent = self.wire.send_bytes(from).and_then(|_| self.wire.send_end());
        sent.map_err(|error| self.failed(error))
    }
}

/// Sends what happens; a lab that is gone is noticed elsewhere.
struct Telling<'a>(&'a Server<'a>);

impl RunObserver for Telling<'_> {
    fn event(&mut self, event: RunEvent) {
        let said = match event {
            RunEvent::Step { name, detail } => FromTarget::Step { name, detail },
            RunEvent::Progress { stage, operations, elapsed_ns, share, rate, eta_s, note } => {
                // JSON has no infinity, which a rate is at its beginning.
                let finite = |number: &f64| number.is_finite();
                let rate = Some(rate).filter(finite).unwrap_or(0.0);
                let (share, eta_s) = (share.filter(finite), eta_s.filter(finite));
                FromTarget::Progress { stage, operations, elapsed_ns, share, rate, eta_s, note }
            }
            RunEvent::Warning { warning } => FromTarget::Warning { warning },
            RunEvent::Note { text } => FromTarget::Note { text },
            RunEvent::Planned { .. }
            | RunEvent::TrialStarted { .. }
            | RunEvent::TrialFinished { .. }
            | RunEvent::DryRun { .. } => return,
        };
        let _ = self.0.wire.send(&said);
    }
}

/// What is reported to the lab of how a trial ended.
fn outcome(error: Option<TrialError>, id: &str) -> Outcome {
    match error {
        None => Outcome::Complete,
        Some(TrialError::Interrupted) => Outcome::Interrupted,
        Some(TrialError::Kernel { said }) => Outcome::Kernel { said },
        Some(error) => {
            let (text, exit_code) = (error.text(), error.exit_code());
            let (no_space, ends_run) = (error.is_out_of_space(), error.ends_run());
            let refusal = error.refusal(id);
            let says_nothing = refusal.is_err();
            let refusal = refusal.ok().flatten();
            Outcome::Failed(Failed { text, exit_code, refusal, says_nothing, no_space, ends_run })
        }
    }
}

/// Releases the leftovers of killed ones, and removes their folders; what is to be reported of it.
fn clean_siblings(root: &Path) -> Vec<String> {
    let Some(parent) = root.parent() else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut said = Vec::new();
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path == root || !name.to_string_lossy().starts_with(PLACE) {
            continue;
        }
        // Held until the folder is gone.
        let Some(_lock) = left(&path) else { continue };
        match clean_stores(std::slice::from_ref(&path)) {
            Ok(report) => {
                let released: usize = report
                    .stores
                    .iter()
                    .map(|store| match &store.outcome {
                        StoreOutcome::Cleaned(summary) => summary.released.len(),
                        StoreOutcome::InUse(_) | StoreOutcome::Failed(_) => 0,
                    })
                    .sum();
                if !report.is_clean() {
                    said.push(format!(
                        "{0} has leases that cannot be released: run `{0}/fsage clean` there",
                        path.display()
                    ));
                    continue;
                }
                match remove(&path) {
                    Ok(()) => {
                        said.push(format!("released {released} leases of a lost run, and removed its folder"))
                    }
                    Err(error) => said.push(format!("{} was not removed: {error}", path.display())),
                }
            }
            Err(error) => said.push(format!("{} was not released: {}", path.display(), in_one_line(&error))),
        }
    }
    said
}

/// The lock of a connection's folder in which nobody works any more.
fn left(place: &Path) -> Option<Option<File>> {
    let ours = place.symlink_metadata().is_ok_and(|found| {
        use std::os::unix::fs::MetadataExt as _;
        found.is_dir() && found.uid() == rustix::process::geteuid().as_raw()
    });
    if !ours {
        return None;
    }
    match File::open(place.join("lock")) {
        Ok(file) => file.try_lock().is_ok().then_some(Some(file)),
        Err(_) => {
            let age = place.symlink_metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
            age.is_some_and(|age| age > OLD).then_some(None)
        }
    }
}

/// Removes a folder in which nothing is mounted.
fn remove(place: &Path) -> std::io::Result<()> {
    if let Some(mounted) = mount::table().into_iter().find(|entry| entry.point.starts_with(place)) {
        return Err(std::io::Error::other(format!("{} is still mounted", mounted.point.display())));
    }
    std::fs::remove_dir_all(place)
}
