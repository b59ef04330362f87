//! The board by commands on this host.
//!
//! Each command runs in a process group of its own and dies with this process (`PR_SET_PDEATHSIG`). When one has
//! ended its group is ended too, but for `power_on`: what it starts in the background may be the board itself (a
//! virtual machine). Streams are closed when a command ends: a process that stays must have redirected its own.
//!
//! A process may not end even when it is killed: it runs as another user (sudo), or sleeps in the kernel. It is waited
//! for only so long, and then left.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fsage_engine::host::tool::look_up;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::time::Timespec;

use super::PowerCycleError;
use super::board::{Board, Ran, Step, Working};

/// Longest time between two checks whether the run is to end.
const LOOK: Duration = Duration::from_millis(100);

/// How long a process that was killed is waited for.
const GRACE: Duration = Duration::from_secs(5);

/// Longest time between two checks whether a killed process has ended.
const LOOK_AT_KILLED: Duration = Duration::from_millis(5);

/// Bytes that are kept of a line, and of the end of standard error.
const LONGEST_LINE: usize = 8192;

/// A board behind commands.
pub struct LocalBoard<'a> {
    folder: PathBuf,
    load: Option<Process>,
    is_over: &'a dyn Fn() -> bool,
    started: Instant,
    killing: Killing,
}

/// How processes are ended.
#[derive(Debug, Clone, Copy)]
struct Killing {
    /// Kills a process group.
    kill: fn(Pid),
    /// How long the process is waited for then.
    grace: Duration,
}

impl Killing {
    const KILL: Self = Self { kill: kill_group, grace: GRACE };
}

fn kill_group(pid: Pid) {
    // Nothing follows from an error: whether the process ends is seen.
    let _ = kill_process_group(pid, Signal::KILL);
}

impl<'a> LocalBoard<'a> {
    /// Commands run in `folder`; `is_over` says whether the user wants the run to end.
    #[must_use]
    pub fn new(folder: &Path, is_over: &'a dyn Fn() -> bool) -> Self {
        Self {
            folder: folder.to_owned(),
            load: None,
            is_over,
            started: Instant::now(),
            killing: Killing::KILL,
        }
    }
}

impl Drop for LocalBoard<'_> {
    fn drop(&mut self) {
        self.end_load();
    }
}

impl Board for LocalBoard<'_> {
    fn run(&mut self, step: Step<'_>) -> Result<Ran, PowerCycleError> {
        let stays = step.key == "power_on";
        let mut process = Process::start(step.key, step.argv, &self.folder, step.input, self.killing)?;
        let end = process.started + step.limit;
        let mut first = None;
        let mut keep = |line: &[u8]| {
            first.get_or_insert_with(|| text_of(line));
            Ok(())
        };
        let asked = self.is_over;
        let is_over = || step.stoppable && asked();
        let ended = process.follow(end, &is_over, &mut keep, self.load.as_mut())?;
        let elapsed = process.started.elapsed();
        if !ended && is_over() {
            return Err(PowerCycleError::Interrupted);
        }
        let (status, left) = if ended { (Some(process.reap(!stays)?), None) } else { (None, process.end()) };
        let by_signal = status.is_some_and(|(_, by_signal)| by_signal);
        let status = status.map(|(status, _)| status);
        // What it had written when it ended.
        process.read(&mut keep)?;
        process.last_line(&mut keep)?;
        let last_line = process.said();
        Ok(Ran { status, left, by_signal, first_line: first.unwrap_or_default(), last_line, elapsed })
    }

    fn work(
        &mut self,
        argv: &[String],
        time: Duration,
        line: &mut dyn FnMut(&[u8]) -> Result<(), PowerCycleError>,
    ) -> Result<Working, PowerCycleError> {
        let mut process = Process::start("load", argv, &self.folder, None, self.killing)?;
        let end = process.started + time;
        let ended = process.follow(end, self.is_over, line, None)?;
        if !ended && (self.is_over)() {
            return Err(PowerCycleError::Interrupted);
        }
        process.read(line)?;
        if !ended {
            self.load = Some(process);
            return Ok(Working::Runs);
        }
        let (status, _) = process.reap(true)?;
        process.last_line(line)?;
        Ok(Working::Ended { status, said: process.complained() })
    }

    fn end_load(&mut self) -> Option<u32> {
        self.load.take()?.end()
    }

    fn pause(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while !(self.is_over)() {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            std::thread::sleep(rest.min(LOOK));
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn is_over(&self) -> bool {
        (self.is_over)()
    }
}

/// A running command; ended with its group when it goes.
struct Process {
    command: String,
    child: Child,
    pid: Pid,
    handle: OwnedFd,
    streams: Vec<Stream>,
    started: Instant,
    killing: Killing,
    /// Nothing is left to be done: its status was taken, or it could not be ended.
    over: bool,
}

struct Stream {
    from: OwnedFd,
    is_error: bool,
    ended: bool,
    /// Of standard output: what came of a line so far; of standard error: the end of it all.
    kept: Vec<u8>,
    /// The last line that is not empty.
    last: String,
}

/// What is done with a line.
type Line<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), PowerCycleError>;

impl Process {
    fn start(
        step: &'static str,
        argv: &[String],
        folder: &Path,
        input: Option<File>,
        killing: Killing,
    ) -> Result<Self, PowerCycleError> {
        let (program, arguments) = argv.split_first().map_or(("", argv), |(first, rest)| (&**first, rest));
        let missing = || PowerCycleError::Missing { step, program: program.to_owned() };
        let path = look_up(program).ok_or_else(missing)?;
        let shown = argv.join(" ");
        let mut command = Command::new(path);
        command
            .args(arguments)
            .current_dir(folder)
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        fsage_sys::process::die_with_parent(&mut command);
        let started = Instant::now();
        let failed = |source| PowerCycleError::Run { command: shown.clone(), source };
        let mut child = command.spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        let opened = pidfd_open(pid, PidfdFlags::empty()).and_then(|handle| {
            let output = child.stdout.take().map(|stream| (OwnedFd::from(stream), false));
            let error = child.stderr.take().map(|stream| (OwnedFd::from(stream), true));
            let streams = output.into_iter().chain(error).map(|(from, is_error)| {
                fcntl_setfl(&from, fcntl_getfl(&from)? | OFlags::NONBLOCK)?;
                Ok(Stream { from, is_error, ended: false, kept: Vec::new(), last: String::new() })
            });
            Ok((handle, streams.collect::<Result<Vec<_>, Errno>>()?))
        });
        match opened {
            Ok((handle, streams)) => {
                Ok(Self { command: shown, child, pid, handle, streams, started, killing, over: false })
            }
            Err(errno) => {
                (killing.kill)(pid);
                let _ = wait(&mut child, killing.grace);
                Err(failed(errno.into()))
            }
        }
    }

    /// Reads what it says until it has ended; whether it had before `end`. What `beside` says meanwhile is not
    /// kept: it must not have to wait until somebody reads.
    fn follow(
        &mut self,
        end: Instant,
        is_over: &dyn Fn() -> bool,
        line: Line<'_>,
        mut beside: Option<&mut Self>,
    ) -> Result<bool, PowerCycleError> {
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() || is_over() {
                return Ok(false);
            }
            if self.wait(rest.min(LOOK), beside.as_deref()).map_err(|errno| self.failed(errno.into()))? {
                return Ok(true);
            }
            self.read(line)?;
            if let Some(other) = beside.as_deref_mut() {
                other.read(&mut |_| Ok(()))?;
            }
        }
    }

    /// Waits until something can be read of either, or it has ended; whether it has.
    fn wait(&self, limit: Duration, beside: Option<&Self>) -> Result<bool, Errno> {
        let mut watched = vec![PollFd::new(&self.handle, PollFlags::IN)];
        let streams = [Some(self), beside].into_iter().flatten().flat_map(|process| &process.streams);
        let open = streams.filter(|stream| !stream.ended);
        watched.extend(open.map(|stream| PollFd::new(&stream.from, PollFlags::IN)));
        let limit = Timespec::try_from(limit).unwrap_or_default();
        match poll(&mut watched, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(watched.first().is_some_and(|process| !process.revents().is_empty()))
    }

    /// Reads what is there.
    fn read(&mut self, line: Line<'_>) -> Result<(), PowerCycleError> {
        let command = &self.command;
        for stream in &mut self.streams {
            stream.read(command, line)?;
        }
        Ok(())
    }

    /// A last line may have no end.
    fn last_line(&mut self, line: Line<'_>) -> Result<(), PowerCycleError> {
        self.streams.iter_mut().filter(|stream| !stream.is_error).try_for_each(|stream| stream.line(line))
    }

    /// The last lines that are not empty, of standard output and of standard error.
    fn last_lines(&self) -> [String; 2] {
        let output = self.streams.iter().find(|stream| !stream.is_error).map(|stream| stream.last.trim());
        let error = self.streams.iter().find(|stream| stream.is_error);
        let error = error.map(|stream| String::from_utf8_lossy(&stream.kept)).unwrap_or_default();
        let error = error.trim().lines().next_back().unwrap_or_default();
        [output.unwrap_or_default().to_owned(), error.to_owned()]
    }

    /// Its reason, as it says it: the last line of standard output, else of standard error.
    fn said(&self) -> String {
        let [output, error] = self.last_lines();
        if output.is_empty() { error } else { output }
    }

    /// The reason of a load, whose standard output is for acknowledgements.
    fn complained(&self) -> String {
        let [output, error] = self.last_lines();
        if error.is_empty() { output } else { error }
    }

    /// Takes the status of a command that has ended, and whether a signal ended it. While it is not reaped its number cannot mean another.
    fn reap(&mut self, with_group: bool) -> Result<(i32, bool), PowerCycleError> {
        if with_group {
            (self.killing.kill)(self.pid);
        }
        let status = self.child.wait();
        self.over = true;
        let status = status.map_err(|source| self.failed(source))?;
        let signal = status.signal();
        Ok((status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0)), signal.is_some()))
    }

    /// Ends it with its group; its number, if it does not end: it is left then.
    fn end(&mut self) -> Option<u32> {
        if std::mem::replace(&mut self.over, true) {
            return None;
        }
        (self.killing.kill)(self.pid);
        let ended = wait(&mut self.child, self.killing.grace);
        ended.is_none().then(|| self.child.id())
    }

    fn failed(&self, source: std::io::Error) -> PowerCycleError {
        PowerCycleError::Run { command: self.command.clone(), source }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for a process that was killed, but not for ever; nothing if it does not end in this time.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        // Where the system cannot say, nobody will.
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(LOOK_AT_KILLED);
    }
}

/// A line for people.
fn text_of(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end_matches('\r').to_owned()
}

impl Stream {
    /// At most what a pipe holds: a command that writes without end cannot keep its limit from being seen.
    fn read(&mut self, command: &str, line: Line<'_>) -> Result<(), PowerCycleError> {
        let mut buffer = [0; 8192];
        for _ in 0..16 {
            if self.ended {
                return Ok(());
            }
            match rustix::io::read(&self.from, &mut buffer) {
                Ok(0) => self.ended = true,
                Ok(count) => self.take(buffer.get(..count).unwrap_or_default(), line)?,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => {
                    return Err(PowerCycleError::Run { command: command.to_owned(), source: errno.into() });
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], line: Line<'_>) -> Result<(), PowerCycleError> {
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
                self.line(line)?;
            }
        }
        Ok(())
    }

    /// The line that is kept is complete.
    fn line(&mut self, line: Line<'_>) -> Result<(), PowerCycleError> {
        let bytes = std::mem::take(&mut self.kept);
        if bytes.trim_ascii().is_empty() {
            return Ok(());
        }
        self.last = text_of(&bytes);
        line(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    fn step<'a>(key: &'static str, argv: &'a [String], limit: Duration) -> Step<'a> {
        Step { key, argv, input: None, limit, stoppable: true }
    }

    fn runs(pid: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z")
    }

    /// A signal takes its time.
    fn wait_for_the_end_of(pid: &str) {
        let started = Instant::now();
        while runs(pid) {
            assert!(started.elapsed() < MINUTE, "{pid} runs");
            std::thread::yield_now();
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_command_tells_its_status_its_first_and_its_last_line() {
        let mut board = LocalBoard::new(Path::new("/"), &|| false);
        let argv = shell("pwd; echo; echo err >&2; printf last; exit 3");
        let ran = board.run(step("check", &argv, MINUTE)).unwrap();
        assert_eq!((ran.status, &*ran.first_line, &*ran.last_line), (Some(3), "/", "last"));
        assert!(!ran.by_signal);
        let argv = shell("echo one >&2; echo two >&2; kill -9 $$");
        let ran = board.run(step("check", &argv, MINUTE)).unwrap();
        assert_eq!((ran.status, ran.by_signal, &*ran.last_line), (Some(137), true, "two"));
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_its_children_and_one_that_floods_too() {
        let mut board = LocalBoard::new(Path::new("/"), &|| false);
        for script in ["sleep 1000 & echo $!; wait", "exec yes"] {
            let argv = shell(script);
            let ran = board.run(step("check", &argv, Duration::from_millis(200))).unwrap();
            assert_eq!(ran.status, None, "{script}");
            if ran.first_line.parse::<u32>().is_ok() {
                wait_for_the_end_of(&ran.first_line);
            }
        }
    }

    #[test]
    fn what_power_on_starts_stays_and_what_others_leave_does_not() {
        let mut board = LocalBoard::new(Path::new("/"), &|| false);
        let argv = shell("sleep 1000 >/dev/null 2>&1 & echo $!");
        let left = board.run(step("power_on", &argv, MINUTE)).unwrap().first_line;
        assert!(runs(&left));
        let pid = Pid::from_raw(left.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        let gone = board.run(step("mount", &argv, MINUTE)).unwrap().first_line;
        wait_for_the_end_of(&gone);
    }

    #[test]
    fn a_load_is_read_while_it_runs_and_ended_when_told() {
        let mut board = LocalBoard::new(Path::new("/"), &|| false);
        let mut lines = Vec::new();
        let mut keep = |line: &[u8]| {
            lines.push(String::from_utf8(line.to_owned()).unwrap());
            Ok(())
        };
        let argv = shell("echo ack 1; printf 'ack 2\\r\\n'; exec sleep 1000");
        assert_eq!(board.work(&argv, Duration::from_secs(1), &mut keep).unwrap(), Working::Runs);
        assert_eq!(board.end_load(), None);
        let argv = shell("printf 'ack 3'; exit 2");
        let ended = board.work(&argv, MINUTE, &mut keep).unwrap();
        assert_eq!(ended, Working::Ended { status: 2, said: "ack 3".to_owned() });
        let argv = shell("echo ack 4; echo full >&2; exit 1");
        let ended = board.work(&argv, MINUTE, &mut keep).unwrap();
        assert_eq!(ended, Working::Ended { status: 1, said: "full".to_owned() });
        assert_eq!(lines, ["ack 1", "ack 2\r", "ack 3", "ack 4"]);
    }

    #[test]
    fn the_user_ends_what_may_be_ended() {
        let mut board = LocalBoard::new(Path::new("/"), &|| true);
        let argv = shell("exec sleep 1000");
        let error = board.run(step("check", &argv, MINUTE)).unwrap_err();
        assert!(matches!(error, PowerCycleError::Interrupted));
        let argv = shell("true");
        let off = Step { stoppable: false, ..step("power_off", &argv, MINUTE) };
        assert_eq!(board.run(off).unwrap().status, Some(0));
    }

    #[test]
    fn a_process_that_cannot_be_ended_is_left() {
        let mut board = LocalBoard::new(Path::new("/"), &|| false);
        board.killing = Killing { kill: |_| (), grace: Duration::from_millis(50) };
        let argv = shell("exec sleep 1000");
        let ran = board.run(step("check", &argv, Duration::from_millis(50))).unwrap();
        let checks = ran.left.unwrap();
        assert_eq!(ran.status, None);
        assert_eq!(board.work(&argv, Duration::ZERO, &mut |_| Ok(())).unwrap(), Working::Runs);
        let works = board.end_load().unwrap();
        assert!(board.end_load().is_none() && board.started.elapsed() < MINUTE);
        for left in [checks, works] {
            assert!(runs(&left.to_string()));
            kill_group(Pid::from_raw(left.try_into().unwrap()).unwrap());
            wait_for_the_end_of(&left.to_string());
        }
    }

    #[test]
    fn a_load_that_prints_while_another_command_runs_does_not_block() {
        let mut board = LocalBoard::new(Path::new("/"), &|| false);
        let folder = tempfile::tempdir().unwrap();
        let (begin, done) = (folder.path().join("begin"), folder.path().join("done"));
        // Much more than a pipe holds.
        let script = format!(
            "until [ -e {0} ]; do sleep 0.01; done; head -c 4000000 /dev/zero; touch {1}; exec sleep 1000",
            begin.display(),
            done.display()
        );
        let load = shell(&script);
        assert_eq!(board.work(&load, Duration::ZERO, &mut |_| Ok(())).unwrap(), Working::Runs);
        let other =
            format!("touch {}; until [ -e {} ]; do sleep 0.01; done", begin.display(), done.display());
        let other = shell(&other);
        assert_eq!(board.run(step("power_off", &other, MINUTE)).unwrap().status, Some(0));
        assert_eq!(board.end_load(), None);
    }

    #[test]
    fn a_pause_ends_when_the_run_is_to_end() {
        let mut board = LocalBoard::new(Path::new("/"), &|| true);
        board.pause(MINUTE);
        assert!(board.started.elapsed() < MINUTE);
    }
}
