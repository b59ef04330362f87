//! The server's life: guards, disk, mount, serving, end.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fsage_sys::fuse::Abort;
use fsage_sys::mount;
use fsage_sys::shared_clock::SharedClock;
use fsage_sys::signal::{Flags, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::client::Ready;
use super::control::{Answer, Command, Stat, chain};
use super::guard::{self, GuardError};
use super::machine::{self, MachineError};
use super::watchdog::Watchdog;
use super::{Place, ProcessRecord, Settings};
use crate::disk::Disk;
use crate::export::fuse::{FILE_NAME, FuseError, Pulse, Session};
use crate::export::{Gate, nbd};

/// Why a server does not start, or ends before it should.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It would not be safe.
    #[error("not safe to serve a disk from here")]
    Guard(#[from] GuardError),
    /// The disk cannot be made.
    #[error("cannot make the disk")]
    Machine(#[from] MachineError),
    /// Mounting or serving failed.
    #[error("FUSE")]
    Fuse(#[from] FuseError),
    /// The network block device.
    #[error("NBD")]
    Nbd(#[from] nbd::NbdError),
    /// A kernel call failed.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: fsage_sys::Error,
    },
    /// A file of the server's directory.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The thread that serves.
    #[error("the thread that serves the disk died")]
    Died,
}

impl ServerError {
    /// The next step for the user, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Guard(source) => Some(source.hint()),
            Self::Machine(source) => source.hint(),
            Self::Fuse(source) => source.hint(),
            Self::Nbd(source) => source.hint(),
            Self::System { source, .. } => source.hint(),
            Self::File { .. } => None,
            Self::Died => {
                Some("log.txt says what happened; `fsage-disk clean` removes what is left".to_owned())
            }
        }
    }

    fn file(what: &'static str, path: PathBuf) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { what, path, source }
    }

    fn system(what: &'static str) -> impl FnOnce(fsage_sys::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Longest wait for the last user of the file to be gone: a loop device lets go of it a moment after it was detached.
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// Longest wait for a client to say what it wants.
const CLIENT_WAIT: Duration = Duration::from_secs(5);
/// A question is shorter than this.
const QUESTION_BYTES: u64 = 1 << 20;
/// Time between two looks whether to end.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Serves the disk of `settings` until it is unmounted or a `SIGTERM` arrives. `ready` is called once the disk can be used.
///
/// # Errors
/// As [`ServerError`]. Nothing stays mounted then, and the server's files but the messages are gone.
pub fn run(settings: &Settings, ready: impl FnOnce(&Ready)) -> Result<(), ServerError> {
    let signals = Flags::install(&[Signal::Terminate, Signal::Interrupt])
        .map_err(ServerError::system("listen to signals"))?;
    for note in guard::raise()? {
        say(&note);
    }
    let gate = Arc::new(Gate::new(machine::make(settings)?, settings.time));
    let place = Place::new(&settings.directory);
    let process = write_pid(&place)?;
    let served = Server::start(settings, &place, process, gate).and_then(|mut server| {
        ready(&server.ready());
        let ended = server.attend(signals);
        server.finish();
        ended
    });
    remove_files(&place);
    served
}

/// Says it where the server's messages go. A server whose messages nobody can hear serves on.
fn say(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

fn write_pid(place: &Place) -> Result<ProcessRecord, ServerError> {
    let error = |what| ServerError::file(what, place.pid());
    let process = ProcessRecord::own().map_err(error("write"))?;
    let text = serde_json::to_string(&process).map_err(|source| error("write")(source.into()))?;
    let mut file = fs::File::create_new(place.pid()).map_err(error("make"))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(error("write"))?;
    Ok(process)
}

/// Removes what the server made, but not its messages.
fn remove_files(place: &Place) {
    let _ = fs::remove_file(place.control());
    let _ = fs::remove_file(place.clock());
    let _ = fs::remove_file(place.nbd());
    let _ = fs::remove_dir(place.mount());
    let _ = fs::remove_file(place.pid());
}

/// A server that serves.
struct Server {
    medium: String,
    place: Place,
    process: ProcessRecord,
    gate: Arc<Gate<Disk>>,
    session: Arc<Session>,
    abort: Arc<Abort>,
    listener: UnixListener,
    nbd: Option<nbd::Server>,
    serving: Option<JoinHandle<Result<(), FuseError>>>,
    _watchdog: Watchdog,
}

impl Server {
    fn start(
        settings: &Settings,
        place: &Place,
        process: ProcessRecord,
        gate: Arc<Gate<Disk>>,
    ) -> Result<Self, ServerError> {
        let clock = SharedClock::create(&place.clock()).map_err(ServerError::system("share the clock"))?;
        gate.share_clock(clock);
        let point = place.mount();
        fs::create_dir(&point).map_err(ServerError::file("make", point.clone()))?;
        let session = Arc::new(Session::mount(&point, settings.transport, &place.switch_record())?);
        let started = Self::start_mounted(settings, place, process, gate, session);
        if started.is_err() {
            let _ = mount::unmount_lazily(&point);
        }
        started
    }

    fn start_mounted(
        settings: &Settings,
        place: &Place,
        process: ProcessRecord,
        gate: Arc<Gate<Disk>>,
        session: Arc<Session>,
    ) -> Result<Self, ServerError> {
        let abort = session.abort_handle().map_err(ServerError::system("reach the FUSE connection"))?;
        let abort = Arc::new(abort);
        let pulse = Pulse::default();
        let limit = Duration::from_secs(u64::from(settings.watchdog_s));
        let thread =
            |source| ServerError::File { what: "start a thread of", path: "fsage-disk".into(), source };
        let watchdog = Watchdog::start(pulse.clone(), Arc::clone(&abort), limit).map_err(thread)?;
        let control = place.control();
        let error = |what| ServerError::file(what, control.clone());
        let listener = place.with_socket(|path| UnixListener::bind(path)).map_err(error("listen at"))?;
        listener.set_nonblocking(true).map_err(error("listen at"))?;
        fs::set_permissions(&control, fs::Permissions::from_mode(0o600)).map_err(error("protect"))?;
        let nbd = settings.nbd.then(|| nbd::Server::start(&place.nbd(), FILE_NAME, Arc::clone(&gate)));
        let nbd = nbd.transpose()?;
        let (served_gate, served_session) = (Arc::clone(&gate), Arc::clone(&session));
        let serve = move || served_session.serve(&served_gate, &pulse);
        let serving = std::thread::Builder::new().name("disk".to_owned()).spawn(serve).map_err(thread)?;
        Ok(Self {
            medium: settings.medium.clone(),
            place: place.clone(),
            process,
            gate,
            session,
            abort,
            listener,
            nbd,
            serving: Some(serving),
            _watchdog: watchdog,
        })
    }

    fn ready(&self) -> Ready {
        Ready {
            pid: self.process.pid,
            start_ticks: self.process.start_ticks,
            file: self.session.file(),
            control: self.place.control(),
            nbd: self.nbd.as_ref().map(|nbd| nbd.path().to_owned()),
            transport: self.session.transport(),
        }
    }

    /// Answers questions until the disk is served no more.
    fn attend(&mut self, signals: Flags) -> Result<(), ServerError> {
        while self.serving.as_ref().is_some_and(|serving| !serving.is_finished()) {
            if signals.take(Signal::Terminate) || signals.take(Signal::Interrupt) {
                self.end_now();
            }
            // Signals end the wait early, and so does a client.
            let _ = poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&PAUSE));
            if let Ok((stream, _)) = self.listener.accept()
                && let Err(error) = self.converse(&stream)
            {
                say(&format!("a client went away: {error}"));
            }
        }
        match self.serving.take().map(JoinHandle::join) {
            Some(Ok(served)) => Ok(served?),
            Some(Err(_)) => Err(ServerError::Died),
            None => Ok(()),
        }
    }

    /// Ends everything, whoever uses it.
    fn end_now(&self) {
        if self.unmount(Duration::ZERO).is_err() {
            say("told to end while the disk is in use: its users get errors from now on");
            let _ = self.abort.abort();
        }
    }

    /// Waits for the last user of the file for `patience`.
    fn unmount(&self, patience: Duration) -> Result<(), fsage_sys::Error> {
        let started = Instant::now();
        loop {
            match mount::unmount(&self.place.mount()) {
                Err(error) if error.errno() == BUSY && started.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => return other,
            }
        }
    }

    /// After the loop has ended, however it did.
    fn finish(&mut self) {
        // Its clients lose their connections.
        drop(self.nbd.take());
        let _ = self.abort.abort();
        if self.place.is_mounted() {
            let _ = mount::unmount_lazily(&self.place.mount());
        }
    }

    fn converse(&self, stream: &UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(CLIENT_WAIT))?;
        stream.set_write_timeout(Some(CLIENT_WAIT))?;
        let mut line = String::new();
        BufReader::new(stream.take(QUESTION_BYTES)).read_line(&mut line)?;
        let answer = match serde_json::from_str(&line) {
            Ok(command) => self.obey(&command),
            Err(error) => {
                Answer::failed(&error, Some("one JSON object in a line, with \"command\"".to_owned()))
            }
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        let mut stream = stream;
        stream.write_all(text.as_bytes())
    }

    fn obey(&self, command: &Command) -> Answer {
        match command {
            Command::Stat => self.stat(),
            Command::Down => self.down(),
        }
    }

    fn stat(&self) -> Answer {
        let stat = Stat {
            process: self.process,
            medium: self.medium.clone(),
            time: self.gate.time(),
            transport: self.session.transport(),
            nbd_clients: self.nbd.as_ref().map(nbd::Server::clients),
            disk: self.gate.with(|disk| disk.stat()),
            gate: self.gate.counts(),
            delay_error: self.gate.delay_error(),
        };
        match serde_json::to_value(stat) {
            Ok(value) => Answer::done(value),
            Err(error) => Answer::failed(&error, None),
        }
    }

    fn down(&self) -> Answer {
        if let Some(nbd) = self.nbd.as_ref().filter(|nbd| nbd.clients() > 0) {
            return Answer {
                error: Some("the disk is in use".to_owned()),
                hint: Some(format!("end its NBD clients: ss -x src {}", nbd.path().display())),
                ..Answer::default()
            };
        }
        match self.unmount(BUSY_WAIT) {
            Ok(()) => Answer::done(Value::Null),
            Err(error) if error.errno() == BUSY => Answer {
                error: Some("the disk is in use".to_owned()),
                hint: Some(format!(
                    "unmount what is on it and detach its loop device: losetup -j {}",
                    self.session.file().display()
                )),
                ..Answer::default()
            },
            Err(error) => Answer { error: Some(chain(&error)), hint: error.hint(), ..Answer::default() },
        }
    }
}

/// `EBUSY`.
const BUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();
