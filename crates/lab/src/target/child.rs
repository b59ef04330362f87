//! A program that is talked with through its pipes, and that does not outlive this one.
//!
//! It leads a session and process group of its own, so that Ctrl-C reaches only the lab, and dies
//! with the lab: by the end of its input, and by `PR_SET_PDEATHSIG`. The kernel sends that signal when the
//! *thread* that forked ends, therefore a thread of its own forks and then waits for the child.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsage_engine::host::HostError;
use fsage_engine::host::process::{self, Identity};

use super::TargetError;

/// Lines of its standard error that are kept.
const STDERR_LINES: usize = 20;

/// Bytes of one of them.
const LINE_BYTES: u64 = 64 << 10;

/// How long it may take to end after its input has; an agent promises one second.
const END: Duration = Duration::from_secs(3);

/// How long a killed program may take to leave a system call that cannot be interrupted.
const KILLED: Duration = Duration::from_secs(30);

/// How long the thread that waits for it may take to see its end.
const REAPED: Duration = Duration::from_secs(1);

/// What goes to it; `None` once nothing does any more.
pub(super) type Output = Arc<Mutex<Option<Box<dyn Write + Send>>>>;

/// The process, kept by its thread.
#[derive(Debug)]
pub(super) struct Child {
    identity: Identity,
    ended: Receiver<std::io::Result<ExitStatus>>,
    status: Option<String>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    stderr_reader: Option<std::thread::JoinHandle<()>>,
}

struct Pipes {
    identity: Identity,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Child {
    /// Starts a program.
    pub(super) fn start(
        path: PathBuf,
        arguments: Vec<OsString>,
    ) -> Result<(Self, ChildStdin, ChildStdout), TargetError> {
        let failed = |source| TargetError::Start { path: path.clone(), source };
        let (pipes_to, pipes) = mpsc::channel();
        let (ended_to, ended) = mpsc::channel();
        let mut command = Command::new(&path);
        command.args(arguments);
        std::thread::Builder::new()
            .name("agent-keeper".to_owned())
            .spawn(move || {
                let spawned = prepare(&mut command).spawn();
                match spawned {
                    Ok(mut child) => {
                        let pid = child.id();
                        let pipes = Pipes {
                            // Not reaped before `wait`: the number is still this child's.
                            identity: Identity { pid, start_ticks: process::start_ticks(pid).unwrap_or(0) },
                            stdin: child.stdin.take(),
                            stdout: child.stdout.take(),
                            stderr: child.stderr.take(),
                        };
                        // Nobody listens any more when the lab gave up; the child still has to be waited for.
                        let _ = pipes_to.send(Ok(pipes));
                        let _ = ended_to.send(child.wait());
                    }
                    Err(error) => {
                        let _ = pipes_to.send(Err(error));
                    }
                }
            })
            .map_err(failed)?;
        let gone = || std::io::Error::other("the thread that starts it ended");
        let pipes = pipes.recv().map_err(|_| failed(gone()))?.map_err(failed)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (pipes.stdin, pipes.stdout, pipes.stderr) else {
            return Err(failed(std::io::Error::other("it has no pipes")));
        };
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let reader = keep_last_lines(stderr, Arc::clone(&lines)).map_err(failed)?;
        let child = Self {
            identity: pipes.identity,
            ended,
            status: None,
            stderr: lines,
            stderr_reader: Some(reader),
        };
        Ok((child, stdin, stdout))
    }

    /// Ends it: closes its input, waits, kills it when it does not end by itself.
    pub(super) fn close(&mut self, output: &Output) {
        if self.status.is_some() {
            return;
        }
        // Dropping the writer would block on a full pipe only if the agent did not read; it always reads.
        output.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.ended_within(END);
    }

    /// The same without closing its input first: who is to end it may be held up in a write.
    pub(super) fn kill(&mut self) {
        if self.status.is_none() {
            self.ended_within(Duration::ZERO);
        }
    }

    fn ended_within(&mut self, time: Duration) {
        let in_time = self.ended.recv_timeout(time);
        let left = self.end_all();
        let status = in_time.or_else(|_| self.ended.recv_timeout(REAPED));
        self.status = Some(match (status, left) {
            (_, Err(error)) => error.to_string(),
            (Ok(Ok(status)), Ok(())) => status.to_string(),
            (Ok(Err(error)), Ok(())) => format!("exit status not known: {error}"),
            (Err(_), Ok(())) => "exit status not known".to_owned(),
        });
        if let Some(reader) = self.stderr_reader.take() {
            // Everyone who could hold the stream open is gone, unless something could not be killed.
            let deadline = Instant::now() + REAPED;
            while !reader.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Ends it from any thread: what waits for it in a write goes on then.
    pub(super) fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let identity = self.identity;
        move || {
            // Who waits for it says what could not be ended.
            let _ = process::end(identity, KILLED);
        }
    }

    /// Ends it if it is still there, and what it started in any case.
    fn end_all(&self) -> Result<(), HostError> {
        process::end(self.identity, KILLED)
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        !self.identity.is_alive()
    }

    /// How it ended; empty while it has not been ended.
    pub(super) fn status(&self) -> String {
        self.status.clone().unwrap_or_default()
    }

    /// The last lines that it said on its standard error.
    pub(super) fn said(&self) -> String {
        let lines = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect::<Vec<_>>().join("\n")
    }

    /// What to say about a program that went away in the middle of `request`.
    pub(super) fn lost(&mut self, output: &Output, request: String, last: String) -> TargetError {
        self.close(output);
        TargetError::Lost { request, status: self.status(), last, stderr: self.said() }
    }
}

fn prepare(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    fsage_sys::new_file::hand_over(command);
    fsage_sys::process::own_session(command);
    fsage_sys::process::die_with_parent(command);
    command
}

fn keep_last_lines(
    stderr: ChildStderr,
    lines: Arc<Mutex<VecDeque<String>>>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("agent-stderr".to_owned()).spawn(move || {
        let mut stderr = BufReader::new(stderr);
        loop {
            let mut line = Vec::new();
            // Nobody needs a longer one, and it may be another host's.
            match stderr.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == STDERR_LINES {
                lines.pop_front();
            }
            lines.push_back(String::from_utf8_lossy(&line).into_owned());
        }
    })
}
