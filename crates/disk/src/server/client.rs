//! Starting a server, talking to it, and cleaning up after one that was killed.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use fsage_model::disk::call::{self, Answer, Call, Command, Refusal};
use fsage_model::disk::{ProcessRecord, Ready, ServerStat};
use fsage_sys::fuse::Abort;
use fsage_sys::new_file::ForeignFolder;
use fsage_sys::{input, line_socket, mount, new_file, process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ServerDirectory, Settings, is_alive};
use crate::export::fuse::restore_switch;
#[cfg(feature = "ublk")]
use crate::export::ublk;

/// Why a server cannot be started, asked or cleaned up after.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// One serves from this directory already.
    #[error("a disk is up in {}: process {pid}", directory.display())]
    AlreadyUp {
        /// The directory.
        directory: PathBuf,
        /// Its server.
        pid: u32,
    },
    /// None serves from this directory.
    #[error("no disk is up in {}", directory.display())]
    NotUp {
        /// The directory.
        directory: PathBuf,
    },
    /// A file or the program.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server said why it does not start, or why it does not do what it was asked.
    #[error("{error}")]
    Refused {
        /// In its words.
        error: String,
        /// The next step.
        hint: Option<String>,
    },
    /// It died or is silent; what it said last.
    #[error("the disk's server {what}{}", tail(said))]
    Silent {
        /// What it does not do.
        what: &'static str,
        /// The end of its messages.
        said: String,
    },
    /// What it left cannot be removed.
    #[error("cannot clean up {}", path.display())]
    Unclean {
        /// What stays.
        path: PathBuf,
        /// Why.
        source: fsage_sys::Error,
    },
}

impl From<Refusal> for ClientError {
    fn from(Refusal { error, hint }: Refusal) -> Self {
        Self::Refused { error, hint }
    }
}

fn tail(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; it said last: {said}") }
}

impl ClientError {
    /// The next step for the user, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::AlreadyUp { .. } => Some("end it first, or choose another directory".to_owned()),
            Self::Refused { hint, .. } => hint.clone(),
            Self::Unclean { source, .. } => source.hint(),
            Self::File { source, .. } if ForeignFolder::is(source) => Some(ForeignFolder::HINT.to_owned()),
            Self::NotUp { .. } | Self::File { .. } | Self::Silent { .. } => None,
        }
    }

    fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { what, path: path.to_owned(), source }
    }
}

/// Longest wait for a server to be ready, or to answer.
const WAIT: Duration = Duration::from_secs(60);
/// Bytes at the end of a server's messages that are inspected.
const LAST_WORDS: u64 = 16 << 10;
/// Longest wait for a process that was killed to be gone.
const DEATH_WAIT: Duration = Duration::from_secs(10);

/// Starts a server in the background, in a session of its own, and waits until its disk can be used. What a
/// killed server left in the directory is removed first. `program` is `fsage-disk`.
///
/// # Errors
/// As [`ClientError`]; nothing is left then.
pub fn up(program: &Path, settings: &Settings) -> Result<Ready, ClientError> {
    let place = ServerDirectory::new(&settings.directory);
    if let Some(alive) = alive(&place) {
        return Err(ClientError::AlreadyUp { directory: settings.directory.clone(), pid: alive.pid });
    }
    let made = !settings.directory.exists();
    new_file::make_folder(&settings.directory, 0o777)
        .map_err(ClientError::file("make", &settings.directory))?;
    clean(&place)?;
    let ready = start(program, settings, &place);
    if ready.is_err() {
        // The first error is the one that counts.
        let _ = clean(&place);
        if made {
            let _ = fs::remove_dir(&settings.directory);
        }
    }
    ready
}

fn start(program: &Path, settings: &Settings, place: &ServerDirectory) -> Result<Ready, ClientError> {
    // An earlier server's messages, or a link that somebody put there, are not written through.
    let path = place.log();
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(ClientError::file("remove", &path)(error));
        }
        _ => {}
    }
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    let log = options.open(&path).map_err(ClientError::file("make", &path))?;
    let mut command = Program::new(program);
    command.arg("serve").arg("--directory").arg(&settings.directory).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    new_file::hand_over(&mut command);
    process::own_session(&mut command);
    let mut child = command.spawn().map_err(ClientError::file("start", program))?;
    let line = tell(&mut child, settings).and_then(|()| hear(&mut child));
    let ready = match line.ok().and_then(|line| Answer::read(&line).ok()) {
        Some(Ok(ready)) => ready,
        Some(Err(refusal)) => {
            end(child);
            return Err(refusal.into());
        }
        None => {
            end(child);
            return Err(ClientError::Silent { what: "did not start", said: last_words(place) });
        }
    };
    // Waits for its end, so that no dead process stays while the caller lives.
    std::thread::spawn(move || child.wait());
    Ok(ready)
}

fn tell(child: &mut Child, settings: &Settings) -> io::Result<()> {
    let text = serde_json::to_vec(settings)?;
    child.stdin.take().map_or(Ok(()), |mut input| input.write_all(&text))
}

/// The first line of the server's output.
fn hear(child: &mut Child) -> io::Result<String> {
    let Some(mut output) = child.stdout.take() else { return Ok(String::new()) };
    line_socket::read_line(Instant::now().checked_add(WAIT), |left, bytes| {
        let left = left.unwrap_or(WAIT);
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&left))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => output.read(bytes),
        }
    })
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn last_words(place: &ServerDirectory) -> String {
    let end = || -> io::Result<Vec<u8>> {
        let mut file = input::open_trusted(&place.log())?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)))?;
        let mut bytes = Vec::new();
        file.take(LAST_WORDS).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&end().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
}

fn alive(place: &ServerDirectory) -> Option<ProcessRecord> {
    place.process().ok().flatten().filter(is_alive)
}

/// Asks a server.
///
/// # Errors
/// [`ClientError::NotUp`], [`ClientError::Refused`] with what it says, or [`ClientError::Silent`].
pub fn ask<C: Call>(place: &ServerDirectory, call: C) -> Result<C::Reply, ClientError> {
    ask_any(place, &call.into())
}

/// Asks a server anything; the reply as the call's, or as any JSON.
///
/// # Errors
/// As [`ask`].
pub fn ask_any<T: Serialize + DeserializeOwned>(
    place: &ServerDirectory,
    command: &Command,
) -> Result<T, ClientError> {
    let not_up = || ClientError::NotUp { directory: place.directory().to_owned() };
    if alive(place).is_none() {
        return Err(not_up());
    }
    let silent = || ClientError::Silent { what: "does not answer", said: last_words(place) };
    let question = serde_json::to_string(command).map_err(|_| silent())?;
    let line =
        line_socket::ask(&place.control(), &question, Some(WAIT)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => not_up(),
            io::ErrorKind::PermissionDenied => ClientError::file("ask", &place.control())(error),
            _ => silent(),
        })?;
    let answer = Answer::read(&line).map_err(|error| ClientError::Refused {
        error: format!("its answer is invalid: {error}"),
        hint: Some("client and server are of different versions".to_owned()),
    })?;
    Ok(answer?)
}

/// The state of a server.
///
/// # Errors
/// As [`ask`].
pub fn stat(place: &ServerDirectory) -> Result<ServerStat, ClientError> {
    ask(place, call::Stat)
}

/// Unmounts the disk and ends its server.
///
/// # Errors
/// As [`ask`]; refused while the disk is in use.
pub fn down(place: &ServerDirectory) -> Result<(), ClientError> {
    let process = alive(place);
    ask(place, call::Down)?;
    if process.is_some_and(|process| !wait_for_death(process)) {
        return Err(ClientError::Silent { what: "does not end", said: last_words(place) });
    }
    clean(place)
}

/// Ends what serves from this directory, even while it is in use, and removes what is left of it: the
/// connection is ended first, so that nobody hangs. Nothing to do is fine. A loop device on the file stays,
/// with errors for its users.
///
/// # Errors
/// Another user could have put there what is read there, or something cannot be removed.
pub fn clean(place: &ServerDirectory) -> Result<(), ClientError> {
    match place.open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(ClientError::file("clean up", place.directory()))?,
    };
    let point = place.mount();
    if let Some((process, held)) = place.hold() {
        if place.is_mounted()
            && let Ok(abort) = Abort::of(&point)
        {
            let _ = abort.abort();
        }
        let _ = pidfd_send_signal(&held, Signal::KILL);
        if !wait_for_death(process) {
            return Err(ClientError::Silent { what: "cannot be killed", said: last_words(place) });
        }
    }
    while place.is_mounted() {
        let unclean = |source| ClientError::Unclean { path: point.clone(), source };
        mount::unmount_lazily(&point).map_err(unclean)?;
    }
    let _ = fs::remove_dir(&point);
    let record = place.switch_record();
    restore_switch(&record)
        .map_err(ClientError::file("restore /sys/module/fuse/parameters/enable_uring from", &record))?;
    #[cfg(feature = "ublk")]
    {
        let record = place.ublk_record();
        ublk::remove_left(&record)
            .map_err(ClientError::file("remove the device that is noted in", &record))?;
    }
    for file in [place.control(), place.clock(), place.think(), place.nbd(), place.pid(), place.log()] {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ClientError::file("remove", &file)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn wait_for_death(process: ProcessRecord) -> bool {
    let started = Instant::now();
    while is_alive(&process) {
        if started.elapsed() > DEATH_WAIT {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
