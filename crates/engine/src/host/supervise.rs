//! A program of the user's, run so that nothing of it is left: whatever it starts, in whatever session and
//! group, is ended with it.
//!
//! While it runs this process is the one that orphans are given to (`PR_SET_CHILD_SUBREAPER`, prctl(2)): who
//! forks away and gives up the parent becomes a child of ours, and is found there. Its standard output is read
//! line by line as it comes.
//!
//! Limit: another program that the agent starts at the same time would be taken for one of these; the agent
//! does one request after the other.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_child_subreaper, waitpid,
};
use rustix::time::Timespec;

use super::HostError;
use super::process::{self, Identity, MARKER};
use super::tool::{Children, look_up};

/// Longest time between two checks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Longest that ended processes take to go.
const GO: Duration = Duration::from_secs(20);

/// Bytes that are kept of a line, and of the end of standard error.
const LONGEST_LINE: usize = 8192;

/// What to run.
#[derive(Debug)]
pub struct Supervised<'a> {
    /// The program, by absolute path or by a name in `PATH`, and its arguments.
    pub argv: &'a [String],
    /// Its working directory.
    pub directory: &'a Path,
    /// What is added to the environment.
    pub environment: &'a [(&'a str, &'a Path)],
    /// Its standard input; empty where none is given.
    pub input: Option<File>,
    /// Longest that it runs.
    pub limit: Duration,
}

/// How it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its status, 128 and more: of a signal; `None`: it was ended here, at its limit or because of `stop`.
    pub status: Option<i32>,
    /// Processes that still ran when it had ended by itself, and were ended.
    pub left: u64,
    /// Its last line that is not empty, of standard output.
    pub last_line: String,
    /// The end of its standard error.
    pub error: String,
    /// How long it ran.
    pub elapsed: Duration,
}

/// What is done while it runs.
pub trait Watch {
    /// It wrote a line; without the end of line, and at most 8192 bytes of it.
    ///
    /// # Errors
    /// Ends the program, and is what comes of it.
    fn line(&mut self, line: &[u8]) -> Result<(), HostError>;

    /// Whether it is to be ended: asked ten times a second and after each line.
    fn is_over(&mut self) -> bool;
}

/// Runs a program to its end. Must be called from a thread that lives as long as the program.
///
/// # Errors
/// It is not installed or cannot be started; something that it left cannot be ended; what `watch` says.
pub fn run(children: &Children, what: Supervised<'_>, watch: &mut dyn Watch) -> Result<Ended, HostError> {
    let known = process::children_of(getpid());
    set_child_subreaper(Some(getpid())).map_err(failed("take in orphans of", what.directory))?;
    let ended = run_adopting(children, what, watch, &known);
    // An agent that keeps other people's orphans does no harm.
    let _ = set_child_subreaper(None);
    ended
}

fn run_adopting(
    children: &Children,
    what: Supervised<'_>,
    watch: &mut dyn Watch,
    known: &[Pid],
) -> Result<Ended, HostError> {
    let (path, mut command) = command(&what)?;
    let started = Instant::now();
    let (mut child, pid) = children.start(&mut command)?;
    let output = Output::of(&mut child);
    let outcome = output.and_then(|mut output| {
        let over = follow(pid, &mut output, watch, started + what.limit);
        Ok((over?, output))
    });
    let elapsed = started.elapsed();
    if !matches!(outcome, Ok((false, _))) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let left = end_orphans(pid, known);
    let status = children.reap(&mut child, pid).map_err(HostError::file("wait for", &path));
    // Those of the program itself are orphans only now, where it was ended here.
    let left = left.and_then(|left| Ok(left + end_orphans(pid, known)?));
    let (was_ended, mut output) = outcome?;
    let left = left?;
    // Nobody holds the streams any more.
    output.read(watch)?;
    output.end(watch)?;
    let status = status?.filter(|_| !was_ended);
    let left = if was_ended { 0 } else { left };
    Ok(Ended { status, left, last_line: output.last_line(), error: output.error(), elapsed })
}

fn command(what: &Supervised<'_>) -> Result<(std::path::PathBuf, Command), HostError> {
    let Some((program, arguments)) = what.argv.split_first() else {
        return Err(HostError::Senseless { what: "an empty command line".to_owned() });
    };
    let path = look_up(program).ok_or_else(|| HostError::NoProgram { program: program.clone() })?;
    let input = match &what.input {
        Some(file) => file.try_clone().map(Stdio::from).map_err(HostError::file("use", &path))?,
        None => Stdio::null(),
    };
    let mut command = Command::new(&path);
    command
        .args(arguments)
        .current_dir(what.directory)
        .envs(what.environment.iter().copied())
        .env(MARKER, Identity::own().to_string())
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    fsage_sys::process::die_with_parent(&mut command);
    Ok((path, command))
}

/// Reads what the program says until it has ended; whether it has to be ended.
fn follow(pid: Pid, output: &mut Output, watch: &mut dyn Watch, end: Instant) -> Result<bool, HostError> {
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(failed("watch", Path::new("the program")))?;
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        if rest.is_zero() || watch.is_over() {
            return Ok(true);
        }
        if output.wait(&process, rest.min(LOOK))? {
            return Ok(false);
        }
        output.read(watch)?;
    }
}

/// The streams of a program.
struct Output {
    streams: Vec<Stream>,
}

struct Stream {
    from: OwnedFd,
    is_error: bool,
    ended: bool,
    /// Of standard output: what came of a line so far; of standard error: the end of it all.
    kept: Vec<u8>,
    /// The last line that is not empty.
    last: Vec<u8>,
}

impl Output {
    fn of(child: &mut Child) -> Result<Self, HostError> {
        let output = child.stdout.take().map(|stream| (OwnedFd::from(stream), false));
        let error = child.stderr.take().map(|stream| (OwnedFd::from(stream), true));
        let streams = output.into_iter().chain(error).map(|(from, is_error)| {
            fcntl_setfl(&from, fcntl_getfl(&from)? | OFlags::NONBLOCK)?;
            Ok(Stream { from, is_error, ended: false, kept: Vec::new(), last: Vec::new() })
        });
        let streams: Result<_, Errno> = streams.collect();
        Ok(Self { streams: streams.map_err(failed("read from", Path::new("the program")))? })
    }

    /// Waits until something can be read, or the program has ended; whether it has.
    fn wait(&self, process: &OwnedFd, limit: Duration) -> Result<bool, HostError> {
        let open = self.streams.iter().filter(|stream| !stream.ended);
        let mut watched = vec![PollFd::new(process, PollFlags::IN)];
        watched.extend(open.map(|stream| PollFd::new(&stream.from, PollFlags::IN)));
        let limit = Timespec::try_from(limit).unwrap_or_default();
        match poll(&mut watched, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failed("wait for", Path::new("the program"))(errno)),
        }
        Ok(watched.first().is_some_and(|process| !process.revents().is_empty()))
    }

    /// Reads what is there.
    fn read(&mut self, watch: &mut dyn Watch) -> Result<(), HostError> {
        for stream in self.streams.iter_mut().filter(|stream| !stream.ended) {
            stream.read(watch)?;
        }
        Ok(())
    }

    /// A last line may have no end.
    fn end(&mut self, watch: &mut dyn Watch) -> Result<(), HostError> {
        self.streams.iter_mut().filter(|stream| !stream.is_error).try_for_each(|stream| stream.line(watch))
    }

    fn last_line(&self) -> String {
        let output = self.streams.iter().find(|stream| !stream.is_error);
        String::from_utf8_lossy(output.map_or(&[], |stream| &stream.last)).trim().to_owned()
    }

    fn error(&self) -> String {
        let error = self.streams.iter().find(|stream| stream.is_error);
        String::from_utf8_lossy(error.map_or(&[], |stream| &stream.kept)).trim().to_owned()
    }
}

impl Stream {
    /// At most what a pipe holds: who writes without end lets the time limit through.
    fn read(&mut self, watch: &mut dyn Watch) -> Result<(), HostError> {
        let mut buffer = [0; 8192];
        for _ in 0..16 {
            match rustix::io::read(&self.from, &mut buffer) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(());
                }
                Ok(count) => self.take(buffer.get(..count).unwrap_or_default(), watch)?,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(failed("read from", Path::new("the program"))(errno)),
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], watch: &mut dyn Watch) -> Result<(), HostError> {
        if self.is_error {
            self.kept.extend_from_slice(bytes);
            let more = self.kept.len().saturating_sub(LONGEST_LINE);
            self.kept.drain(..more);
            return Ok(());
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let room = LONGEST_LINE.saturating_sub(self.kept.len());
            self.kept.extend(text.iter().take(room));
            if is_whole {
                self.line(watch)?;
            }
        }
        Ok(())
    }

    /// The line that is kept is complete.
    fn line(&mut self, watch: &mut dyn Watch) -> Result<(), HostError> {
        let line = std::mem::take(&mut self.kept);
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let done = watch.line(&line);
        self.last = line;
        done
    }
}

/// Ends every child that was not there before, but for the program itself; orphans of theirs become children,
/// and are ended too. How many still ran.
fn end_orphans(program: Pid, known: &[Pid]) -> Result<u64, HostError> {
    let started = Instant::now();
    let mut ended = std::collections::BTreeSet::new();
    loop {
        let orphans: Vec<Pid> = process::children_of(getpid())
            .into_iter()
            .filter(|pid| *pid != program && !known.contains(pid))
            .collect();
        let Some(first) = orphans.first() else { return Ok(u64::try_from(ended.len()).unwrap_or(u64::MAX)) };
        if started.elapsed() > GO {
            let pid = first.as_raw_nonzero().get().unsigned_abs();
            return Err(HostError::Unkillable { pid, seconds: started.elapsed().as_secs_f64() });
        }
        for pid in orphans {
            // A child keeps its number until it is reaped here.
            let number = pid.as_raw_nonzero().get();
            if process::is_alive(number.unsigned_abs()) {
                ended.insert(number);
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn failed(what: &'static str, object: &Path) -> impl FnOnce(Errno) -> HostError {
    let file = HostError::file(what, object);
    move |errno| file(errno.into())
}
