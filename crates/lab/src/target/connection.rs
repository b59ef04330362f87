//! A connection to a whole fsage that runs elsewhere: on another host, or in a guest.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fsage_model::cause::in_one_line;
use fsage_model::study::SshSpec;

use super::child::{Child, Output};
use super::waking::{MARK, WAITS, wake};
use super::wire::{Heard, Silence, Wire, WireError};
use super::{TargetError, ssh};

/// The line in which fsage there says that it reads frames now.
pub const READY: &str = "fsage-ready";

/// Most bytes before the line in which it does.
const GREETING_BYTES: u64 = 1 << 20;

/// A connection to fsage elsewhere; dropping it ends what runs there.
#[derive(Debug)]
pub struct Connection {
    name: String,
    machine: String,
    complete: bool,
    wire: Wire,
    child: Child,
}

/// What the other side said of itself before its first frame, and the stream after that.
pub(super) struct Greeted {
    pub(super) machine: String,
    /// Our other programs are there already.
    pub(super) complete: bool,
    pub(super) input: BufReader<ChildStdout>,
}

/// What can go wrong before the first frame.
pub(super) enum Greeting {
    /// There is no program to send.
    Program(TargetError),
    /// Why the other side does not answer, should it have said nothing itself.
    Refused(String),
}

/// Waits until the other side reads frames.
type Greet<'a> = dyn FnOnce(&mut ChildStdin, ChildStdout) -> Result<Greeted, Greeting> + 'a;

/// How often somebody who waits is asked whether to go on.
const LOOK: Duration = Duration::from_millis(100);

/// How long the other side is waited for.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// At most.
    pub longest: Duration,
    /// Asked ten times a second.
    pub is_given_up: &'a dyn Fn() -> bool,
}

impl Patience<'_> {
    /// For so long, whatever happens.
    pub(super) const fn of(longest: Duration) -> Self {
        Self { longest, is_given_up: &|| false }
    }
}

impl Connection {
    /// fsage on another host.
    ///
    /// # Errors
    /// There is no `ssh`; the host cannot be reached, is not known, or does not let us in; we are not root there; it
    /// has no room; there is no program for its processor.
    pub fn ssh(spec: &SshSpec) -> Result<Self, TargetError> {
        let program = ssh::program()?;
        Self::start(program, ssh::arguments(spec), spec.name(), Box::new(ssh::greet))
    }

    /// fsage in a guest, by a program whose standard input and output are its serial port. It boots, or, with `resume`, waits when that is done.
    ///
    /// # Errors
    /// The program does not start, or fsage there does not answer in time.
    pub fn guest(
        program: PathBuf,
        arguments: Vec<OsString>,
        (name, machine): (String, &'static str),
        patience: Patience<'_>,
        resume: Option<&dyn Fn() -> std::io::Result<()>>,
    ) -> Result<Self, TargetError> {
        let greet = move |stdin: &mut ChildStdin, stdout: ChildStdout| {
            let input = BufReader::with_capacity(256 << 10, stdout);
            let (mut said, mut input) = match resume {
                Some(resume) => {
                    resume().map_err(|error| Greeting::Refused(error.to_string()))?;
                    (WAITS.to_owned(), input)
                }
                None => line(input, MARK, patience)?,
            };
            if said == WAITS {
                wake(stdin).map_err(|error| Greeting::Refused(error.to_string()))?;
                (said, input) = line(input, MARK, patience)?;
            }
            if READY.strip_prefix(MARK) != Some(&said) {
                return Err(Greeting::Refused(format!("it says {said:?}")));
            }
            Ok(Greeted { machine: machine.to_owned(), complete: true, input })
        };
        Self::start(program, arguments, name, Box::new(greet))
    }

    /// Boots a guest until it waits, does `save`, of which it returns the outcome, and ends it.
    ///
    /// # Errors
    /// The program does not start, or fsage there does not wait in time.
    pub fn saved_after_boot(
        path: PathBuf,
        arguments: Vec<OsString>,
        name: String,
        patience: Patience<'_>,
        save: &dyn Fn() -> std::io::Result<()>,
    ) -> Result<std::io::Result<()>, TargetError> {
        // The end of its input would be its own.
        let (mut child, _stdin, stdout) = Child::start(path, arguments)?;
        let outcome = match line(BufReader::new(stdout), MARK, patience) {
            Ok((said, _stdout)) if said == WAITS => Ok(save()),
            Ok((said, _)) => Ok(Err(std::io::Error::other(format!("it says {said:?} and does not wait")))),
            Err(Greeting::Program(error)) => Err(error),
            Err(Greeting::Refused(what)) => {
                child.kill();
                let said = [what, child.said()].join("\n").trim().to_owned();
                Err(TargetError::Unreachable { host: name, said })
            }
        };
        child.kill();
        outcome
    }

    fn start(
        path: PathBuf,
        arguments: Vec<OsString>,
        name: String,
        greet: Box<Greet<'_>>,
    ) -> Result<Self, TargetError> {
        let (mut child, mut stdin, stdout) = Child::start(path.clone(), arguments)?;
        let greeted = greet(&mut stdin, stdout);
        let output: Box<dyn Write + Send> = Box::new(BufWriter::new(stdin));
        match greeted {
            Ok(Greeted { machine, complete, input }) => {
                let kill = child.killer();
                let watch = move |heard: Heard<'_>| {
                    if matches!(heard, Heard::Silent) {
                        kill();
                    }
                    false
                };
                let wire = match Wire::over(output, input, Arc::new(watch), Silence::Lost) {
                    Ok(wire) => wire,
                    Err(source) => {
                        child.kill();
                        return Err(TargetError::Start { path, source });
                    }
                };
                Ok(Self { name, machine, complete, wire, child })
            }
            Err(Greeting::Program(error)) => {
                child.kill();
                Err(error)
            }
            Err(Greeting::Refused(what)) => {
                let output: Output = Arc::new(Mutex::new(Some(output)));
                child.close(&output);
                let said = [what, child.said()].join("\n").trim().to_owned();
                Err(TargetError::Unreachable { host: name, said })
            }
        }
    }

    /// Which one: `user@host:port`, `guest 6.1.0-56-amd64`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its kind of processor, as `uname -m` says.
    #[must_use]
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// Whether all programs of fsage are there: else this one alone.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Frames to and from it.
    #[must_use]
    pub const fn wire(&self) -> &Wire {
        &self.wire
    }

    /// What to say of a connection that failed in the middle of `request`; `more` is what else is known.
    #[must_use]
    pub fn lost(mut self, request: &str, error: &WireError, more: &str) -> TargetError {
        if matches!(error, WireError::Ended) {
            let output = Arc::clone(self.wire.output());
            self.child.close(&output);
        } else {
            // Nobody reads there any more, so that closing could wait for ever.
            self.child.kill();
        }
        let said = [self.child.said().as_str(), more].map(str::trim).join("\n");
        TargetError::Lost {
            request: request.to_owned(),
            status: self.child.status(),
            last: format!("{}: {}", self.name, in_one_line(error)),
            stderr: said.trim().to_owned(),
        }
    }

    /// Waits until fsage there has ended and nothing of it is left, then closes it.
    pub fn close(mut self, wait: Duration) {
        let deadline = Instant::now() + wait;
        while Instant::now() < deadline
            && !matches!(self.wire.receive(wait), Err(WireError::Ended | WireError::Silent))
        {}
        let output = Arc::clone(self.wire.output());
        self.child.close(&output);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let output = Arc::clone(self.wire.output());
        self.child.close(&output);
    }
}

/// What follows `mark` in the first line that begins with it; read by a thread, as the other side may never say it.
pub(super) fn line(
    mut input: BufReader<ChildStdout>,
    mark: &'static str,
    patience: Patience<'_>,
) -> Result<(String, BufReader<ChildStdout>), Greeting> {
    let (to, from) = mpsc::channel();
    let read = move || {
        let mut left = GREETING_BYTES;
        loop {
            let mut line = Vec::new();
            let count = input.by_ref().take(left).read_until(b'\n', &mut line).ok()?;
            if count == 0 {
                return None;
            }
            left -= count as u64;
            if let Some(rest) = String::from_utf8_lossy(&line).trim_end().strip_prefix(mark) {
                return Some((rest.to_owned(), input));
            }
        }
    };
    let reader = std::thread::Builder::new().name("greeting".to_owned());
    reader
        .spawn(move || {
            // Nobody waits any longer when it was late.
            let _ = to.send(read());
        })
        .map_err(|error| Greeting::Refused(error.to_string()))?;
    let refused = |what: String| Err(Greeting::Refused(what));
    let begun = Instant::now();
    loop {
        match from.recv_timeout(LOOK) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => {
                return refused("it ended before it answered".to_owned());
            }
            Err(RecvTimeoutError::Timeout) if (patience.is_given_up)() => {
                return refused("it was given up".to_owned());
            }
            Err(RecvTimeoutError::Timeout) if begun.elapsed() > patience.longest => {
                return refused(format!("it did not answer within {} s", patience.longest.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
