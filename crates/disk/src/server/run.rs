//! The server's life: guards, disk, mount, serving, end.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fsage_model::disk::call::{Answer, Command, Refusal};
use fsage_model::disk::{DiskCpu, ProcessRecord, Ready};
use fsage_sys::shared_clock::SharedClock;
use fsage_sys::signal::{Flags, Signal};
use fsage_sys::think_time::ThinkTime;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::ServerError;
use super::exported::Exported;
use super::obey::Shared;
use super::place::own_process;
use super::watchdog::Watchdog;
use super::{ServerDirectory, Settings, guard, machine};
use crate::disk::Disk;
use crate::export::fuse::FILE_NAME;
use crate::export::{Gate, Heartbeat, nbd};

/// Longest wait for a client to say what it wants.
const CLIENT_WAIT: Duration = Duration::from_secs(5);
/// A question is shorter than this.
const QUESTION_BYTES: u64 = 1 << 20;
/// Time between two looks whether to end.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// How long more requests are waited for where there are several drives: what they are asked together comes one after the other.
const GATHER_NS: u64 = 50_000;

/// Serves the disk of `settings` until it is unmounted or a `SIGTERM` arrives. `ready` is called once the
/// disk can be used.
///
/// # Errors
/// As [`ServerError`]. Nothing stays mounted then, and the server's files but the messages are gone.
pub fn run(settings: &Settings, ready: impl FnOnce(Ready)) -> Result<(), ServerError> {
    let signals = Flags::install(&[Signal::Terminate, Signal::Interrupt])
        .map_err(ServerError::system("listen to signals"))?;
    for note in guard::raise()? {
        say(&note);
    }
    let gate = Gate::new(machine::make(settings)?, settings.time);
    let has_drives = settings.drives > 1 || settings.fast.is_some();
    let gate = Arc::new(if has_drives { gate.of_drives(GATHER_NS) } else { gate });
    let place = ServerDirectory::new(&settings.directory);
    let process = write_pid(&place)?;
    let served = Server::start(settings, &place, process, gate).and_then(|mut server| {
        ready(server.ready());
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

fn write_pid(place: &ServerDirectory) -> Result<ProcessRecord, ServerError> {
    let error = |what| ServerError::file(what, place.pid());
    let process = own_process().map_err(error("write"))?;
    let text = serde_json::to_string(&process).map_err(|source| error("write")(source.into()))?;
    let mut file = fs::File::create_new(place.pid()).map_err(error("make"))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(error("write"))?;
    Ok(process)
}

/// Removes what the server made, but not its messages.
fn remove_files(place: &ServerDirectory) {
    let _ = fs::remove_file(place.control());
    let _ = fs::remove_file(place.clock());
    let _ = fs::remove_file(place.think());
    let _ = fs::remove_file(place.nbd());
    let _ = fs::remove_dir(place.mount());
    let _ = fs::remove_file(place.pid());
}

/// A server that serves.
struct Server {
    shared: Arc<Shared>,
    listener: UnixListener,
    serving: Option<JoinHandle<Result<(), ServerError>>>,
    /// Clients that are being answered.
    clients: Arc<AtomicUsize>,
    _watchdog: Watchdog,
}

impl Server {
    fn start(
        settings: &Settings,
        place: &ServerDirectory,
        process: ProcessRecord,
        gate: Arc<Gate<Disk>>,
    ) -> Result<Self, ServerError> {
        let clock = SharedClock::create(&place.clock()).map_err(ServerError::system("share the clock"))?;
        gate.share_clock(clock);
        if settings.cpu == DiskCpu::Serial {
            let think = ThinkTime::create(&place.think()).map_err(ServerError::system("share think time"))?;
            gate.with(|disk| disk.count_cpu(think));
        }
        let exported = Exported::new(settings, place, &gate)?;
        let shared = Shared {
            medium: settings.medium.clone(),
            cpu: settings.cpu,
            place: place.clone(),
            process,
            gate,
            exported,
            nbd: Mutex::default(),
        };
        let shared = Arc::new(shared);
        let started = Self::start_exported(Arc::clone(&shared), settings);
        if started.is_err() {
            shared.exported.remove();
        }
        started
    }

    fn start_exported(shared: Arc<Shared>, settings: &Settings) -> Result<Self, ServerError> {
        let heartbeat = Heartbeat::default();
        let limit = Duration::from_secs(u64::from(settings.watchdog_s));
        let end = shared.exported.watchdog_end();
        let watchdog = Watchdog::start(heartbeat.clone(), end, limit).map_err(ServerError::Thread)?;
        let control = shared.place.control();
        let error = |what| ServerError::file(what, control.clone());
        let bound = shared.place.with_socket(crate::export::private_listener);
        let listener = bound.map_err(error("listen at"))?;
        listener.set_nonblocking(true).map_err(error("listen at"))?;
        if settings.nbd {
            let server = nbd::Server::start(&shared.place.nbd(), FILE_NAME, Arc::clone(&shared.gate))?;
            *shared.nbd() = Some(server);
        }
        let served = Arc::clone(&shared);
        let serve = move || served.exported.serve(&served.gate, &heartbeat);
        let serving = thread("disk").spawn(serve).map_err(ServerError::Thread)?;
        if let Err(error) = shared.exported.publish() {
            shared.exported.end();
            // Why it is not served says more than that it is not.
            return Err(serving.join().ok().and_then(Result::err).unwrap_or(error));
        }
        Ok(Self { shared, listener, serving: Some(serving), clients: Arc::default(), _watchdog: watchdog })
    }

    fn ready(&self) -> Ready {
        Ready {
            pid: self.shared.process.pid,
            start_ticks: self.shared.process.start_ticks,
            file: self.shared.exported.file(),
            control: self.shared.place.control(),
            nbd: self.shared.nbd().as_ref().map(|nbd| nbd.path().to_owned()),
            transport: self.shared.exported.transport(),
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
            if let Ok((stream, _)) = self.listener.accept() {
                self.admit(stream);
            }
        }
        match self.serving.take().map(JoinHandle::join) {
            Some(Ok(served)) => served,
            Some(Err(_)) => Err(ServerError::Died),
            None => Ok(()),
        }
    }

    /// Answers a client in a thread of its own: saving a log takes its time.
    fn admit(&self, stream: UnixStream) {
        let (shared, clients) = (Arc::clone(&self.shared), Arc::clone(&self.clients));
        clients.fetch_add(1, Ordering::SeqCst);
        let left = Arc::clone(&clients);
        let answer = move || {
            if let Err(error) = converse(&shared, &stream) {
                say(&format!("a client went away: {error}"));
            }
            left.fetch_sub(1, Ordering::SeqCst);
        };
        if let Err(error) = thread("client").spawn(answer) {
            clients.fetch_sub(1, Ordering::SeqCst);
            say(&format!("cannot answer a client: {error}"));
        }
    }

    /// Ends everything, even while it is in use.
    fn end_now(&self) {
        if self.shared.exported.release(Duration::ZERO).is_err() {
            say("told to end while the disk is in use: its users get errors from now on");
            self.shared.exported.end();
        }
    }

    /// After the loop has ended, however it did. The client that asked for it hears so.
    fn finish(&self) {
        // Its clients lose their connections.
        let nbd = self.shared.nbd().take();
        drop(nbd);
        self.shared.exported.remove();
        let started = Instant::now();
        while self.clients.load(Ordering::SeqCst) > 0 && started.elapsed() < CLIENT_WAIT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned())
}

fn converse(shared: &Shared, stream: &UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(CLIENT_WAIT))?;
    stream.set_write_timeout(Some(CLIENT_WAIT))?;
    let mut line = String::new();
    BufReader::new(stream.take(QUESTION_BYTES)).read_line(&mut line)?;
    let answer = match serde_json::from_str::<Command>(&line) {
        Ok(command) => command.handled_by(shared),
        Err(error) => {
            let hint = "one JSON object in a line, with \"command\"";
            Answer::<()>::from(Err(Refusal::because(&error, Some(hint.to_owned())))).line()
        }
    };
    let mut stream = stream;
    stream.write_all(answer.as_bytes())
}
