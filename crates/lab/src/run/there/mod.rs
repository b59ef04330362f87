//! Trials on other hosts and in guests: each is done by a whole fsage there, under its own leases, and its files come here.
//!
//! What comes from another host is not trusted: names of files are those that trials give, sizes are bounded where they are read
//! into memory, and a record has to be that of the trial that was asked for.

mod given;
mod guest;
mod message;
mod serve;
mod shared;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsage_engine::frame::{Frame, FrameKind};
use fsage_model::disk::DiskCpu;
use fsage_model::problem::{EXIT_DAMAGE, EXIT_FAILED, EXIT_INTERNAL, EXIT_MISSING, EXIT_USAGE};
use fsage_model::record::TrialRecord;
use fsage_model::study::{StageSpec, TargetSpec, VolumeSpec};
use fsage_sys::input::RECORD_LIMIT;

use given::Given;
use guest::{Alone, HostError, Started, add_needs, booted, needs_of};
pub(super) use message::Begin;
pub use message::Failed;
use message::{Batch, FromTarget, Outcome, ToTarget, TrialRequest, VERSION};
pub use serve::serve;
pub(crate) use serve::{batch, serve_after};

use super::RunError;
use super::beside;
use super::error::TrialError;
use super::interrupt::Interrupt;
use super::observer::{RunEvent, RunObserver};
use crate::guest::{Guest, Needs, Processor};
use crate::plan::PlannedTrial;
use crate::store::{NewFile, TrialFolder};
use crate::study::{Cell, Study, identity, is_path_name};
use crate::target::wire::WireError;
use crate::target::{Connection, TargetError, program};
use crate::time;
use crate::volume::Served;

/// How often signals are checked while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// How long a target may take to give a trial up: it unmounts, and what it was doing has to end.
const GIVING_UP: Duration = Duration::from_secs(120);

/// How long a target that runs may take to greet.
const GREETS: Duration = Duration::from_secs(60);

/// How long a target may take to end.
const ENDING: Duration = Duration::from_secs(30);

/// Clocks that differ by more are reported.
const CLOCKS_S: u64 = 60;

/// The other hosts of a run, and its guests, shared by all its lanes.
#[derive(Debug, Clone, Default)]
pub(super) struct Others {
    begin: Begin,
    /// By name: where it is, and what trials need there.
    known: Arc<BTreeMap<String, (TargetSpec, Needs)>>,
    open: Arc<Mutex<BTreeMap<String, Host>>>,
    /// What runs the instructions of each guest.
    processors: Arc<Mutex<BTreeMap<String, Processor>>>,
}

/// Another host or a guest, as long as it is connected.
#[derive(Debug)]
struct Host {
    connection: Connection,
    /// The files of a guest, and what runs it.
    guest: Option<(Guest, Processor)>,
    /// How it was started and what a message takes, for the log of its first trial.
    how: String,
    /// What is to be reported of it once.
    notes: Vec<String>,
    /// What works beside it, where it shares its disk.
    beside: Option<shared::Beside>,
}

/// A trial that is to be done elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) study: &'a str,
    pub(super) planned: &'a PlannedTrial,
    pub(super) cell: &'a Cell,
    /// The disk that its guests share.
    pub(super) served: Option<&'a Served>,
}

/// What a trial on another host left.
type Done = Result<(TrialRecord, Option<TrialError>), TrialError>;

impl Others {
    pub(super) fn new(study: &Study, begin: Begin) -> Self {
        let mut known: BTreeMap<String, (TargetSpec, Needs)> = BTreeMap::new();
        for cell in &study.cells {
            let Some(name) = cell.spec.target.name() else { continue };
            let (_, needs) =
                known.entry(name).or_insert_with(|| (cell.spec.target.clone(), Needs::default()));
            add_needs(needs, cell);
        }
        Self { begin, known: Arc::new(known), open: Arc::default(), processors: Arc::default() }
    }

    /// Refuses times of an emulated machine: they are those of the emulator.
    pub(super) fn check(&self, study: &Study) -> Result<(), RunError> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let emulated = |cell: &Cell| {
            let name = cell.spec.target.name();
            let guest = name.and_then(|name| open.get(&name)?.guest.as_ref());
            guest.is_some_and(|(_, processor)| *processor == Processor::Emulated)
        };
        let wall_clock = |cell: &Cell| {
            let untimed = cell.spec.stages().all(|stage| matches!(stage, StageSpec::PowerCuts(_)));
            let serial = || {
                let is_serial =
                    matches!(&cell.spec.volume, VolumeSpec::Disk(disk) if disk.cpu == DiskCpu::Serial);
                is_serial.then(|| "processor time counts too (`cpu = \"serial\"`)".to_owned())
            };
            // What guests share is timed by its own clock, whatever mounts it.
            let is_shared = cell.spec.target.hosts().is_some();
            if untimed || is_shared { None } else { beside::wall_clock(cell).or_else(serial) }
        };
        let why = study.cells.iter().filter(|cell| emulated(cell)).find_map(wall_clock);
        why.map_or(Ok(()), |why| Err(RunError::Emulated { study: study.spec.name.clone(), why }))
    }

    /// Connects to every other host of the study: one that cannot be worked on is known before anything is done.
    /// Those that `is_wanted` are: others have nothing to do.
    pub(super) fn connect(&self, is_wanted: impl Fn(&str) -> bool) -> Result<(), RunError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, (target, needs)) in self.known.iter().filter(|(name, _)| is_wanted(name)) {
            if let TargetSpec::Guest(spec) = target
                && (target.is_virtual() || spec.hosts.is_some())
            {
                // Each trial has a guest of its own: whether there can be one is known now.
                guest::check(spec, needs).map_err(HostError::of_run)?;
            } else if let Some(host) = self.host(name, None) {
                open.insert(name.clone(), host.map_err(HostError::of_run)?);
            }
        }
        Ok(())
    }

    /// A new connection. A guest is run by the kind of processor that the first one had: its times are of that.
    fn host(&self, name: &str, alone: Option<&Alone<'_>>) -> Option<Result<Host, HostError>> {
        let (target, needs) = self.known.get(name)?;
        let mut processors = self.processors.lock().unwrap_or_else(PoisonError::into_inner);
        // Instructions are counted by QEMU only.
        let choices = match (alone, processors.get(name)) {
            (Some(_), _) => vec![Processor::Emulated],
            (None, Some(known)) => vec![*known],
            (None, None) => match target {
                TargetSpec::Guest(spec) => Processor::choices(spec),
                TargetSpec::Local | TargetSpec::Ssh(_) => Vec::new(),
            },
        };
        // What other cells of the study need is no part of a trial in virtual time.
        let needs = alone.map_or(needs, |alone| &alone.needs);
        let host = Host::connect(target, needs, &choices, &self.begin, alone);
        if let Ok(Host { guest: Some((_, processor)), .. }) = &host {
            processors.insert(name.to_owned(), *processor);
        }
        Some(host)
    }

    /// Does a trial on another host; `None`: it is this host's.
    pub(super) fn trial(
        &self,
        asked: Asked<'_>,
        folder: &mut TrialFolder,
        interrupt: &Interrupt,
        observer: &mut dyn RunObserver,
    ) -> Option<Done> {
        let Asked { study, planned, cell, served } = asked;
        let name = cell.spec.target.name()?;
        let asked = TrialRequest {
            study: study.to_owned(),
            planned: planned.clone(),
            factors: cell.factors.clone(),
            spec: cell.spec.clone(),
        };
        let is_virtual = cell.spec.target.is_virtual();
        // Each trial has guests of its own.
        let is_alone = is_virtual || served.is_some();
        let given = Given::of(&asked);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match (open.remove(&name), served) {
            (None, Some(served)) => self.sharing(&name, cell, served, interrupt),
            (Some(host), _) => Ok(host),
            (None, None) if is_virtual => self.alone(&name, (&asked, cell), interrupt)?,
            (None, None) => self.host(&name, None)?,
        };
        let mut host = match found {
            Ok(host) => host,
            Err(_) if interrupt.by().is_some() => return Some(Err(TrialError::Interrupted)),
            Err(error) => return Some(Err(error.into())),
        };
        host.notes.drain(..).for_each(|text| observer.event(RunEvent::Note { text }));
        let how = std::mem::take(&mut host.how);
        folder.log(&format!("on {} ({}){how}", host.connection.name(), host.connection.machine()));
        Some(match host.trial((asked, given), folder, interrupt, observer) {
            // A kernel that reported a bug is not used any more, and a guest's is nobody else's.
            Ok((record, Some(TrialError::Kernel { said }))) if host.guest.is_some() => {
                Ok((record, Some(TrialError::There(Failed::of_guest(&said)))))
            }
            Ok(done) if is_alone => {
                host.end();
                Ok(done)
            }
            Ok(done) => {
                open.insert(name, host);
                Ok(done)
            }
            // What else it sends of this trial is not wanted: the next one tries a new connection.
            Err(Broken::Trial(error)) => Err(error),
            Err(Broken::Wire(error)) => Err(host.lost("trial", &error).into()),
        })
    }

    /// Lets every other host end.
    pub(super) fn close(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *open).into_values().for_each(Host::end);
    }

    /// A guest that has done the trial when it speaks.
    fn alone(
        &self,
        name: &str,
        (asked, cell): (&TrialRequest, &Cell),
        interrupt: &Interrupt,
    ) -> Option<Result<Host, HostError>> {
        let batch = Batch { begin: self.begin.clone(), trial: asked.alone() }.packed();
        self.host(
            name,
            Some(&Alone { batch, needs: needs_of(cell), is_given_up: &|| interrupt.by().is_some() }),
        )
    }
}

/// Why a trial on another host has no record.
enum Broken {
    /// The connection.
    Wire(WireError),
    /// Something here, such as the store.
    Trial(TrialError),
}

impl From<WireError> for Broken {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<fsage_engine::frame::FrameError> for Broken {
    fn from(error: fsage_engine::frame::FrameError) -> Self {
        Self::Wire(error.into())
    }
}

impl From<crate::store::StoreError> for Broken {
    fn from(error: crate::store::StoreError) -> Self {
        Self::Trial(error.into())
    }
}

/// What comes from a target.
enum Came {
    Said(FromTarget),
    Bytes(Vec<u8>),
    /// Nothing for a moment.
    Nothing,
}

fn came(frame: Option<Frame>) -> Result<Came, WireError> {
    Ok(match frame {
        None => Came::Nothing,
        Some(frame) if frame.kind == FrameKind::Chunk => Came::Bytes(frame.payload),
        Some(frame) => Came::Said(frame.json()?),
    })
}

/// Where the bytes of a file go.
enum Arriving {
    Nowhere,
    Record(Vec<u8>),
    Log(Vec<u8>),
    File(NewFile),
}

impl Host {
    fn connect(
        target: &TargetSpec,
        needs: &Needs,
        choices: &[Processor],
        begin: &Begin,
        alone: Option<&Alone<'_>>,
    ) -> Result<Self, HostError> {
        let mut host = match target {
            TargetSpec::Local => unreachable!("this host is none of the others"),
            TargetSpec::Ssh(ssh) => Self {
                connection: Connection::ssh(ssh)?,
                guest: None,
                how: String::new(),
                notes: Vec::new(),
                beside: None,
            },
            TargetSpec::Guest(spec) => {
                let Started { connection, guest, processor, how, notes } =
                    booted(spec, needs, choices, alone)?;
                let (guest, how) = (Some((guest, processor)), format!(", {how}"));
                Self { connection, guest, how, notes, beside: None }
            }
        };
        match Self::introduce(&host.connection, begin) {
            // Clocks in virtual time are set to a moment of their own.
            Ok(_) if alone.is_some() => {
                host.how.clear();
                return Ok(host);
            }
            Ok(notes) => host.notes.extend(notes),
            Err(Introduction::Wire(error)) => return Err(host.lost("hello", &error).into()),
            Err(Introduction::Target(error)) => return Err(error.into()),
        }
        // Another host may first release what was left there, for as long as that takes.
        if host.guest.is_none() {
            return Ok(host);
        }
        match host.round_trip() {
            Ok(time) => {
                host.how.push_str(&format!(", round trip of a message {:.2} ms", time.as_secs_f64() * 1e3));
                Ok(host)
            }
            Err(error) => Err(host.lost("ping", &error).into()),
        }
    }

    /// The median time of a message to it and the answer.
    fn round_trip(&self) -> Result<Duration, WireError> {
        const TIMES: usize = 9;
        let mut took = Vec::new();
        while took.len() < TIMES {
            let begun = Instant::now();
            self.connection.wire().send(&ToTarget::Ping)?;
            // It is lost when it is silent.
            while !matches!(came(self.connection.wire().receive(LOOK)?)?, Came::Said(FromTarget::Pong)) {}
            took.push(begun.elapsed());
        }
        took.sort();
        Ok(took[TIMES / 2])
    }

    /// Lets it end.
    fn end(self) {
        // One that is gone has ended.
        let _ = self.connection.wire().send(&ToTarget::End);
        self.connection.close(ENDING);
    }

    fn lost(self, request: &str, error: &WireError) -> TargetError {
        let mut console = self.guest.as_ref().map(|(guest, _)| guest.console()).unwrap_or_default();
        // Others would be lost as well if it were the state's fault.
        if let Some(saved) = self.guest.as_ref().and_then(|(guest, _)| guest.saved.as_ref()) {
            saved.remove();
        }
        console.extend(self.beside.iter().map(shared::Beside::said));
        self.connection.lost(request, error, &console)
    }

    /// Waits for its greeting, and sends the other programs and what holds for all trials.
    fn introduce(connection: &Connection, begin: &Begin) -> Result<Vec<String>, Introduction> {
        let wire = connection.wire();
        let begun = Instant::now();
        let (theirs, program, now_s) = loop {
            if begun.elapsed() > GREETS {
                return Err(WireError::Silent.into());
            }
            match came(wire.receive(LOOK)?)? {
                Came::Said(FromTarget::Hello { version, program, now_s }) => {
                    break (version, program, now_s);
                }
                Came::Said(FromTarget::Refused { message }) => {
                    let host = connection.name().to_owned();
                    return Err(TargetError::Unreachable { host, said: message }.into());
                }
                Came::Said(_) | Came::Bytes(_) | Came::Nothing => {}
            }
        };
        if theirs != VERSION || program != identity::program() {
            let said = format!("that host runs {program}, this one {}", identity::program());
            return Err(TargetError::Unreachable { host: connection.name().to_owned(), said }.into());
        }
        for name in program::OTHERS.into_iter().filter(|_| !connection.is_complete()) {
            let bytes = program::for_machine(name, connection.machine())?;
            wire.send(&ToTarget::Program { name: name.to_owned(), bytes: bytes.len() as u64 })?;
            wire.send_bytes(&mut bytes.as_slice())?;
        }
        wire.send(&ToTarget::Begin(begin.clone()))?;
        let host = connection.name();
        let mut notes = Vec::new();
        let apart = time::now_seconds().abs_diff(now_s);
        if apart > CLOCKS_S {
            notes.push(format!(
                "the clock of {host} and this host's are {apart} s apart: times of trials are those of {host}"
            ));
        }
        Ok(notes)
    }

    fn trial(
        &self,
        (asked, given): (TrialRequest, Given),
        folder: &mut TrialFolder,
        interrupt: &Interrupt,
        observer: &mut dyn RunObserver,
    ) -> Result<(TrialRecord, Option<TrialError>), Broken> {
        let wire = self.connection.wire();
        wire.send(&ToTarget::Trial(Box::new(asked)))?;
        let (mut record, mut arriving) = (Vec::new(), Arriving::Nowhere);
        let mut given_up: Option<Instant> = None;
        loop {
            if given_up.is_none() && interrupt.by().is_some() {
                wire.send(&ToTarget::Interrupt)?;
                given_up = Some(Instant::now());
            }
            if given_up.is_some_and(|since| since.elapsed() > GIVING_UP) {
                return Err(WireError::Silent.into());
            }
            let said = match came(wire.receive(LOOK)?)? {
                // No other guest ends before the trial has.
                Came::Nothing => match self.beside.as_ref().and_then(shared::Beside::lost) {
                    Some(error) => return Err(Broken::Trial(error.into())),
                    None => continue,
                },
                Came::Bytes(bytes) => {
                    match self.arrived(bytes, &mut arriving)? {
                        Some(Arriving::Record(bytes)) => record = bytes,
                        Some(Arriving::Log(bytes)) => folder.add_log(&String::from_utf8_lossy(&bytes)),
                        Some(Arriving::File(file)) => file.commit()?,
                        Some(Arriving::Nowhere) | None => {}
                    }
                    continue;
                }
                Came::Said(said) => said,
            };
            match said {
                FromTarget::File { name } if name == crate::store::RECORD => {
                    arriving = Arriving::Record(Vec::new());
                }
                FromTarget::File { name } if name == TrialFolder::LOG => arriving = Arriving::Log(Vec::new()),
                FromTarget::File { name } => arriving = Arriving::File(folder.receive(&name)?),
                FromTarget::Places { volumes } => {
                    folder.forget_places();
                    volumes.into_iter().for_each(|volume| folder.keep_places(volume));
                }
                FromTarget::Over { outcome } => {
                    if let (Outcome::Failed(_), Some(beside)) = (&outcome, &self.beside) {
                        folder.add_log(&format!("the other guests: {}\n", beside.said()));
                    }
                    return self.over(&given, &record, outcome).map_err(Broken::Trial);
                }
                FromTarget::Refused { message } => return Err(Broken::Trial(self.refused(message))),
                FromTarget::Note { text } => {
                    let text = format!("{}: {text}", self.connection.name());
                    observer.event(RunEvent::Note { text });
                }
                said => tell(said, observer),
            }
        }
    }

    /// Takes bytes of a file; the file when it is whole.
    fn arrived(&self, bytes: Vec<u8>, arriving: &mut Arriving) -> Result<Option<Arriving>, Broken> {
        if bytes.is_empty() {
            return Ok(Some(std::mem::replace(arriving, Arriving::Nowhere)));
        }
        match arriving {
            Arriving::Nowhere => {}
            Arriving::Record(whole) | Arriving::Log(whole) => {
                if (whole.len() + bytes.len()) as u64 > RECORD_LIMIT {
                    let what = "the record is longer than any that fsage reads".to_owned();
                    return Err(Broken::Trial(self.refused(what)));
                }
                whole.extend_from_slice(&bytes);
            }
            Arriving::File(file) => file.write(&bytes)?,
        }
        Ok(None)
    }

    fn refused(&self, message: String) -> TrialError {
        let host = self.connection.name().to_owned();
        TargetError::Nonsense { host, what: message }.into()
    }

    /// The record, and why the trial failed.
    fn over(
        &self,
        given: &Given,
        record: &[u8],
        outcome: Outcome,
    ) -> Result<(TrialRecord, Option<TrialError>), TrialError> {
        let record: TrialRecord =
            serde_json::from_slice(record).map_err(|error| self.refused(format!("its record: {error}")))?;
        if record.id != given.planned.id {
            return Err(self.refused(format!("it sent the record of trial {}", record.id)));
        }
        if let Some(stage) = record.stages.iter().find(|stage| !is_path_name(stage.name())) {
            return Err(self.refused(format!("its record has a stage {:?}", stage.name())));
        }
        let mut record = given.restored(record, outcome == Outcome::Complete);
        if let Some((guest, _)) = &self.guest {
            record.host.features.insert("guest".to_owned(), guest.build.clone());
        }
        let error = match outcome {
            Outcome::Complete => None,
            Outcome::Interrupted => Some(TrialError::Interrupted),
            Outcome::Kernel { said } => Some(TrialError::Kernel { said }),
            Outcome::Failed(failed) => {
                let failed = failed.checked();
                Some(TrialError::There(if self.guest.is_some() { failed.in_guest() } else { failed }))
            }
        };
        Ok((record, error))
    }
}

impl Failed {
    /// One whose exit code is that of a failure.
    fn checked(self) -> Self {
        let known = [EXIT_INTERNAL, EXIT_USAGE, EXIT_MISSING, EXIT_FAILED, EXIT_DAMAGE];
        let exit_code = if known.contains(&self.exit_code) { self.exit_code } else { EXIT_FAILED };
        Self { exit_code, ..self }
    }

    /// A bug of a guest's kernel: this host's has none.
    fn of_guest(said: &str) -> Self {
        Self {
            text: format!("the guest's kernel reported a bug of its own: {said}"),
            exit_code: EXIT_DAMAGE,
            refusal: None,
            says_nothing: false,
            no_space: false,
            ends_run: false,
        }
    }
}

/// Passes on what is reported of a trial.
fn tell(said: FromTarget, observer: &mut dyn RunObserver) {
    match said {
        FromTarget::Step { name, detail } => observer.event(RunEvent::Step { name, detail }),
        FromTarget::Progress { stage, operations, elapsed_ns, share, rate, eta_s, note } => {
            observer.event(RunEvent::Progress { stage, operations, elapsed_ns, share, rate, eta_s, note });
        }
        FromTarget::Warning { warning } => observer.event(RunEvent::Warning { warning }),
        FromTarget::Note { text } => observer.event(RunEvent::Note { text }),
        FromTarget::Hello { .. }
        | FromTarget::Pong
        | FromTarget::File { .. }
        | FromTarget::Places { .. }
        | FromTarget::Over { .. }
        | FromTarget::Refused { .. } => {}
    }
}

/// Why a host cannot be introduced to.
enum Introduction {
    Wire(WireError),
    Target(TargetError),
}

impl From<WireError> for Introduction {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<fsage_engine::frame::FrameError> for Introduction {
    fn from(error: fsage_engine::frame::FrameError) -> Self {
        Self::Wire(error.into())
    }
}

impl From<TargetError> for Introduction {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}
