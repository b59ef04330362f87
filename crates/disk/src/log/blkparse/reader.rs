//! Reads text of blkparse.

use std::collections::{HashMap, VecDeque};
use std::io::BufRead;

use super::line::{Action, Line, RequestKind};
use super::{FORMAT, MARK, SECTOR_BYTES};
use crate::log::{Entry, Geometry, Log, LogError, error::LogPosition};
use crate::request::{IoError, Operation, Request};

/// Longest line; blkparse's longest messages have 128 bytes.
const LINE_LIMIT: usize = 4096;

/// At which event a request takes its place in the order.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Issue {
    /// When it goes to the device (`D`): merged, in the order of the scheduler.
    #[default]
    Device,
    /// When it is queued (`Q`): of devices without queue, such as dm and md.
    Queue,
}

impl Issue {
    const fn action(self) -> &'static str {
        match self {
            Self::Device => "D",
            Self::Queue => "Q",
        }
    }
}

/// What a request is found again by: its first byte and what it does.
type Key = (u64, Action);

/// Puts a log together from lines.
struct Reader {
    issue: Issue,
    log: Log,
    device: Option<(u32, u32)>,
    only: Option<(u32, u32)>,
    size_bytes: u64,
    /// Requests that have not come back, oldest first.
    pending: HashMap<Key, VecDeque<u64>>,
    /// Requests that the device sent back, to be issued again.
    requeued: HashMap<Key, u64>,
    /// Lines of the device that is meant.
    events: u64,
}

/// Reads all of it. `only` is the device that is meant (major, minor); without it there must be only one.
///
/// # Errors
/// A line is not as blkparse writes it, is cut off, or is of another device; or no request is in it.
pub fn read(mut text: impl BufRead, issue: Issue, only: Option<(u32, u32)>) -> Result<Log, LogError> {
    let mut reader = Reader {
        issue,
        log: Log::new(Geometry { size_bytes: 0, block_bytes: 512 }),
        device: None,
        only,
        size_bytes: 0,
        pending: HashMap::new(),
        requeued: HashMap::new(),
        events: 0,
    };
    let mut bytes = Vec::new();
    for number in 1.. {
        let place = LogPosition::Line(number);
        bytes.clear();
        let mut limited = std::io::Read::take(&mut text, crate::log::as_u64(LINE_LIMIT));
        let length = limited.read_until(b'\n', &mut bytes).map_err(|source| LogError::read(source, place))?;
        if length == 0 {
            break;
        }
        let Some(line) = bytes.strip_suffix(b"\n") else {
            return Err(if length < LINE_LIMIT {
                LogError::Truncated { place }
            } else {
                LogError::malformed(place, "it is longer than any that blkparse writes")
            });
        };
        let line = String::from_utf8_lossy(line);
        // The summary begins with the first processor; a name of a file stands above when there are several.
        if line.starts_with("CPU") || line.starts_with("Total (") || line.starts_with("Input file ") {
            break;
        }
        if !line.trim().is_empty() {
            reader.line(&line).map_err(|what| LogError::Malformed { place, what })?;
        }
    }
    reader.finish()
}

impl Reader {
    fn line(&mut self, text: &str) -> Result<(), String> {
        let line = Line::parse(text)?;
        if self.only.is_some_and(|only| only != line.device) {
            return Ok(());
        }
        self.events += 1;
        if *self.device.get_or_insert(line.device) != line.device && line.action != "m" {
            return Err("it is of another device: say which one is meant".to_owned());
        }
        match line.action {
            "m" => {
                if let Some(name) = line.rest.strip_prefix(MARK) {
                    self.log.mark(name, line.time_ns);
                }
                Ok(())
            }
            action if !matches!(action, "C" | "R") && action != self.issue.action() => Ok(()),
            _ if line.is_passed_through() => Ok(()),
            "C" => self.completed(&line),
            "R" => {
                let (offset, _, _) = line.place()?;
                *self.requeued.entry((offset, line.kind()?.action)).or_default() += 1;
                Ok(())
            }
            _ => self.issued(&line),
        }
    }

    fn issued(&mut self, line: &Line<'_>) -> Result<(), String> {
        let (offset_bytes, length_bytes, _) = line.place()?;
        let RequestKind { flush_before, action, fua } = line.kind()?;
        if let Some(left) = self.requeued.get_mut(&(offset_bytes, action))
            && *left > 0
        {
            *left -= 1;
            return Ok(());
        }
        let operation = match action {
            // A write of nothing with a flush before is a flush.
            _ if length_bytes == 0 && flush_before => None,
            Action::Read => Some(Operation::Read),
            Action::Write => Some(Operation::Write),
            Action::Discard => Some(Operation::Discard),
            Action::Nothing => return Ok(()),
        };
        if operation.is_some() && length_bytes == 0 {
            return Err("it has no sectors".to_owned());
        }
        if flush_before {
            let number = self.push(Request::new(Operation::Flush, 0, 0), line.time_ns);
            if operation.is_none() {
                self.pending.entry((0, Action::Nothing)).or_default().push_back(number);
            }
        }
        if let Some(operation) = operation {
            let fua = fua && operation == Operation::Write;
            let number = self.push(Request { operation, offset_bytes, length_bytes, fua }, line.time_ns);
            self.pending.entry((offset_bytes, action)).or_default().push_back(number);
        }
        Ok(())
    }

    fn push(&mut self, request: Request, time_ns: u64) -> u64 {
        self.size_bytes = self.size_bytes.max(request.end_bytes());
        let entry =
            Entry { issued_ns: time_ns, done_ns: time_ns, arrived_ns: time_ns, ..Entry::new(request) };
        self.log.push(&entry)
    }

    fn completed(&mut self, line: &Line<'_>) -> Result<(), String> {
        let (offset, length, error) = line.place()?;
        let kind = line.kind()?;
        let key = if length == 0 && kind.flush_before { (0, Action::Nothing) } else { (offset, kind.action) };
        let result = outcome(error)?;
        // One that began before the trace is not in it; one that is done in parts counts with its first.
        if let Some(number) = self.pending.get_mut(&key).and_then(VecDeque::pop_front) {
            self.log.set_done(number, line.time_ns, result);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Log, LogError> {
        if self.log.is_empty() {
            let what = match self.events {
                0 => "no line of it is an event",
                _ => {
                    "no request in it goes to the device (action D); of a device without queue, read those queued (Q)"
                }
            };
            return Err(LogError::Foreign { format: FORMAT, what });
        }
        self.log.set_geometry(Geometry {
            size_bytes: self.size_bytes.next_multiple_of(SECTOR_BYTES),
            ..self.log.geometry()
        });
        Ok(self.log)
    }
}

/// What the number at the end of a completion means.
fn outcome(error: &str) -> Result<Result<(), IoError>, String> {
    match error {
        "0" => Ok(Ok(())),
        "-28" => Ok(Err(IoError::Space)),
        "-22" => Ok(Err(IoError::Range)),
        _ if error.parse::<i32>().is_ok() => Ok(Err(IoError::Medium)),
        _ => Err(format!("{error:?} is not an error number")),
    }
}
