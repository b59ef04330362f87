//! QEMU's monitor, which is asked in JSON, one command at a time (QEMU, `docs/interop/qmp-spec.txt`).

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long QEMU may take until it listens.
const LISTENS: Duration = Duration::from_secs(10);

/// How often it is looked for.
const PAUSE: Duration = Duration::from_millis(2);

/// How long an answer may take, and a state to be written or read.
const ANSWERS: Duration = Duration::from_secs(30);

/// Bytes of an answer, at most.
const ANSWER_BYTES: u64 = 1 << 20;

/// A conversation with one QEMU.
#[derive(Debug)]
pub(super) struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    /// Meets QEMU at its socket, for which it waits.
    ///
    /// # Errors
    /// It does not listen, or is no such monitor.
    pub fn meet(socket: &Path) -> io::Result<Self> {
        let deadline = Instant::now() + LISTENS;
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error)
                    if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
                        || Instant::now() > deadline =>
                {
                    return Err(error);
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        };
        stream.set_read_timeout(Some(ANSWERS))?;
        stream.set_write_timeout(Some(ANSWERS))?;
        let mut monitor = Self { stream: BufReader::new(stream) };
        if monitor.line()?.get("QMP").is_none() {
            return Err(ErrorKind::InvalidData.into());
        }
        monitor.ask("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Asks for something; what QEMU returns.
    ///
    /// # Errors
    /// QEMU refuses it, or is gone.
    pub fn ask(&mut self, command: &str, arguments: &Value) -> io::Result<Value> {
        let line = format!("{}\n", json!({ "execute": command, "arguments": arguments }));
        self.stream.get_mut().write_all(line.as_bytes())?;
        loop {
            let mut answer = self.line()?;
            if let Some(found) = answer.get_mut("return") {
                return Ok(found.take());
            }
            if let Some(error) = answer.get("error") {
                let what = error.get("desc").and_then(Value::as_str).unwrap_or("it failed");
                return Err(io::Error::other(format!("`{command}`: {what}")));
            }
            // Anything else is an event.
        }
    }

    /// Asks for a state again and again, until it is another one than those that `passing` names.
    ///
    /// # Errors
    /// As for [`Monitor::ask`]; it takes too long (`ErrorKind::TimedOut`).
    pub fn settled(&mut self, command: &str, passing: &[&str]) -> io::Result<String> {
        let deadline = Instant::now() + ANSWERS;
        loop {
            let found = self.ask(command, &json!({}))?;
            let status = found.get("status").and_then(Value::as_str).unwrap_or_default();
            if !status.is_empty() && !passing.contains(&status) {
                return Ok(status.to_owned());
            }
            if Instant::now() > deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.stream.by_ref().take(ANSWER_BYTES).read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A monitor that gives each command the next of `answers`.
    fn scripted(
        answers: &'static [&'static str],
    ) -> (tempfile::TempDir, std::thread::JoinHandle<Vec<String>>) {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("monitor")).unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for answer in answers {
                stream.write_all(answer.as_bytes()).unwrap();
                let Some(Ok(line)) = lines.next() else { break };
                let line: Value = serde_json::from_str(&line).unwrap();
                asked.push(line["execute"].as_str().unwrap().to_owned());
            }
            asked
        });
        (folder, thread)
    }

    const HELLO: &str = "{\"QMP\":{\"version\":{}}}\n";
    const DONE: &str = "{\"return\":{}}\n";

    #[test]
    fn events_are_passed_over_and_refusals_say_why() {
        let (folder, thread) = scripted(&[
            HELLO,
            DONE,
            "{\"event\":\"STOP\"}\n{\"return\":{\"status\":\"active\"}}\n",
            "{\"return\":{\"status\":\"completed\"}}\n",
            "{\"error\":{\"class\":\"GenericError\",\"desc\":\"no such thing\"}}\n",
        ]);
        let mut monitor = Monitor::meet(&folder.path().join("monitor")).unwrap();
        assert_eq!(monitor.settled("query-migrate", &["active"]).unwrap(), "completed");
        let error = monitor.ask("cont", &json!({})).unwrap_err().to_string();
        assert_eq!(error, "`cont`: no such thing");
        drop(monitor);
        assert_eq!(thread.join().unwrap(), ["qmp_capabilities", "query-migrate", "query-migrate", "cont"]);
    }

    #[test]
    fn what_is_no_monitor_is_refused() {
        let (folder, thread) = scripted(&["{}\n"]);
        let error = Monitor::meet(&folder.path().join("monitor")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(thread.join().unwrap().is_empty());
    }
}
