//! Programs that run on the lab's own machine and write more than an agent's reply holds: their output is
//! read while they run.
//!
//! Only what reads the user's own data before a trial begins is run so; what touches a volume is the agent's.
//! That data may be a stranger's, so such a program gets no more memory than [`DATA_LIMIT`].

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Invocation, Output, ToolError};

/// Writes what a program is to read.
pub type Input = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// Most of standard error that is kept.
const STDERR_LIMIT: u64 = 64 << 10;

impl Invocation {
    /// Runs it here. `prepare` settles its environment, `input` feeds it from another thread, and `read`
    /// takes its output to the end or says what is wrong with it.
    ///
    /// # Errors
    /// It is missing, cannot be started, ends with another status than 0, or wrote what `read` cannot use.
    pub fn stream<T>(
        &self,
        prepare: impl FnOnce(&mut Command),
        input: Option<Input>,
        read: impl FnOnce(&mut dyn BufRead) -> Result<T, String>,
    ) -> Result<T, ToolError> {
        let local = |source| ToolError::Local { command: self.to_string(), source };
        let mut command = Command::new(self.program());
        command.args(self.argv().iter().skip(1));
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        prepare(&mut command);
        fsage_sys::process::die_with_parent(&mut command);
        fsage_sys::process::limit_data(&mut command, DATA_LIMIT);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                ToolError::Missing { program: self.program().to_owned(), package: self.package().to_owned() }
            }
            _ => local(error),
        })?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(local(io::Error::other("its output is not a pipe")));
        };
        let feeder = child.stdin.take().zip(input).map(|(pipe, input)| feed(pipe, input));
        let listener = std::thread::spawn(move || last_words(stderr));
        let child = Arc::new(Mutex::new(child));
        let watch = Watch::begin(&child, self.time_limit());
        let mut stdout = BufReader::with_capacity(1 << 16, stdout);
        let outcome = read(&mut stdout);
        // A program that still writes ends by SIGPIPE.
        drop(stdout);
        // Asked again and again: anyone who waits with the lock held keeps the watch from killing it.
        let status = loop {
            let ended = child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().map_err(local)?;
            match ended {
                Some(status) => break status,
                None => std::thread::sleep(POLL),
            }
        };
        let late = watch.end();
        let stderr = listener.join().unwrap_or_default();
        let fed = feeder.map_or(Ok(()), |feeder| feeder.join().unwrap_or(Ok(())));
        if late {
            return Err(local(io::Error::new(io::ErrorKind::TimedOut, "it did not end in time")));
        }
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        match outcome {
            Ok(value) if code == 0 => fed.map(|()| value).map_err(local),
            Err(message) if code == 0 || code == 128 + SIGPIPE => {
                Err(ToolError::Output { command: self.to_string(), message })
            }
            _ => Err(self.failed(&Output {
                status: code,
                stdout: String::new(),
                stderr,
                elapsed: Duration::ZERO,
            })),
        }
    }
}

/// Most memory of its own that a program gets, in bytes.
pub const DATA_LIMIT: u64 = 4 << 30;

const SIGPIPE: i32 = 13;
/// How often a program that has no more to say is asked whether it has ended.
const POLL: Duration = Duration::from_millis(1);

fn feed(mut pipe: ChildStdin, input: Input) -> JoinHandle<io::Result<()>> {
    std::thread::spawn(move || {
        let mut buffered = io::BufWriter::new(&mut pipe);
        match input(&mut buffered).and_then(|()| buffered.flush()) {
            // It ended early; its status says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    })
}

fn last_words(mut stderr: impl Read) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is not missed: the status says that it failed.
    let _ = (&mut stderr).take(STDERR_LIMIT).read_to_end(&mut bytes);
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Kills a program that runs for too long.
struct Watch {
    done: std::sync::mpsc::Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watch {
    fn begin(child: &Arc<Mutex<Child>>, limit: Duration) -> Self {
        let (done, ended) = channel();
        let child = Arc::clone(child);
        let thread = std::thread::spawn(move || {
            let late = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if late && let Ok(mut child) = child.lock() {
                // It may have ended this moment.
                let _ = child.kill();
            }
            late
        });
        Self { done, thread }
    }

    /// Whether it was killed.
    fn end(self) -> bool {
        drop(self.done);
        self.thread.join().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Invocation {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        Invocation::new(argv, String::new(), limit)
    }

    fn all(output: &mut dyn BufRead) -> Result<String, String> {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn more_than_a_pipe_holds_goes_in_and_comes_out() {
        let input: Input = Box::new(|pipe| {
            for number in 0..100_000 {
                writeln!(pipe, "{number}")?;
            }
            Ok(())
        });
        let text = shell("cat", MINUTE).stream(|_| {}, Some(input), all).unwrap();
        assert_eq!(text.lines().count(), 100_000);
        assert!(text.ends_with("\n99999\n"));
    }

    #[test]
    fn its_status_and_words_are_told_and_a_missing_one_is_named() {
        let error = shell("echo sorry >&2; exit 3", MINUTE).stream(|_| {}, None, all).unwrap_err();
        assert!(matches!(&error, ToolError::Status { status: 3, tail, .. } if tail == "sorry"), "{error}");
        let wrong = |_: &mut dyn BufRead| Err::<(), _>("no number".to_owned());
        let error = shell("yes", MINUTE).stream(|_| {}, None, wrong).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("unexpected output of `") && text.ends_with("`: no number"), "{text}");
        let missing = Invocation::new(vec!["/nonexistent/git".to_owned()], "git".to_owned(), MINUTE);
        let error = missing.stream(|_| {}, None, all).unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("install it with `apt-get install git`"));
    }

    #[test]
    fn it_gets_so_much_memory_and_no_more() {
        let kib = shell("ulimit -d", MINUTE).stream(|_| {}, None, all).unwrap();
        assert_eq!(kib.trim().parse(), Ok(DATA_LIMIT >> 10));
    }

    #[test]
    fn one_that_hangs_is_ended() {
        for script in ["exec sleep 1000", "exec >&-; exec sleep 1000"] {
            hang(script);
        }
    }

    fn hang(script: &str) {
        let error = shell(script, Duration::from_millis(50)).stream(|_| {}, None, all).unwrap_err();
        assert!(
            matches!(&error, ToolError::Local { source, .. } if source.kind() == io::ErrorKind::TimedOut)
        );
    }
}
