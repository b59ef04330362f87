//! One agent: asking and listening.

use std::fmt;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fsage_engine::frame;
use fsage_engine::frame::{Frame, FrameError, Kind};
use fsage_model::protocol::{Failure, PROTOCOL_VERSION, Reply, Request};

use super::local::Child;
use super::script::Script;
use super::{AgentIdentity, Incoming, TargetError};

/// What goes to the agent; `None` once the session is closed.
type Output = Arc<Mutex<Option<Box<dyn Write + Send>>>>;

/// One agent. Dropping it ends the agent and waits until it is gone.
pub struct Session {
    link: Link,
    identity: AgentIdentity,
    next_id: Arc<AtomicU64>,
}

enum Link {
    Agent { output: Output, input: frame::Reader<Box<dyn Read + Send>>, child: Child },
    Script(Box<Script>),
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn scripted(script: Box<Script>) -> Self {
        let identity = AgentIdentity { version: "script".to_owned(), ..AgentIdentity::default() };
        Self { link: Link::Script(script), identity, next_id: Arc::default() }
    }

    /// Takes over a freshly started agent and greets it.
    pub(super) fn greet(
        output: Box<dyn Write + Send>,
        input: Box<dyn Read + Send>,
        child: Child,
    ) -> Result<Self, TargetError> {
        let output = Arc::new(Mutex::new(Some(output)));
        let link = Link::Agent { output, input: frame::Reader::new(input), child };
        let mut session = Self { link, identity: AgentIdentity::default(), next_id: Arc::default() };
        match session.call(Request::Hello { protocol: PROTOCOL_VERSION }, &mut |_| {})? {
            Reply::Hello { protocol, version, .. } if protocol != PROTOCOL_VERSION => {
                Err(TargetError::Version { theirs: protocol, version })
            }
            Reply::Hello { version, pid, start_ticks, boot_id, .. } => {
                session.identity = AgentIdentity { pid, start_ticks, boot_id, version };
                Ok(session)
            }
            other => Err(unexpected("hello", &other)),
        }
    }

    /// Which process the agent is.
    #[must_use]
    pub const fn identity(&self) -> &AgentIdentity {
        &self.identity
    }

    /// Asks and waits for the answer; what comes before it goes to `incoming`.
    ///
    /// # Errors
    /// [`TargetError::Failed`] with what the agent said; [`TargetError::Lost`] when it died.
    pub fn call(
        &mut self,
        request: Request,
        incoming: &mut dyn FnMut(Incoming),
    ) -> Result<Reply, TargetError> {
        self.call_and(request, &mut || {}, incoming)
    }

    /// The same, and does `sent` when the request is on its way: what a [`Control`] says from then on is heeded by
    /// the load that was asked for, what it said before is not.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn call_and(
        &mut self,
        request: Request,
        sent: &mut dyn FnMut(),
        incoming: &mut dyn FnMut(Incoming),
    ) -> Result<Reply, TargetError> {
        let name = name(&request);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let answer = match &mut self.link {
            Link::Script(script) => {
                sent();
                script(&request, incoming)
            }
            Link::Agent { output, input, child } => {
                let mut last = "nothing".to_owned();
                let on_its_way = send(output, id, &request);
                sent();
                let answer = match on_its_way {
                    Ok(()) => listen(input, id, incoming, &mut last),
                    // The agent is gone or going: what it said before tells more than a broken pipe.
                    Err(FrameError::Stream(_)) => Ok(None),
                    Err(source) => return Err(TargetError::Send { request: name, source }),
                };
                match answer {
                    Ok(Some(answer)) => Some(answer),
                    Ok(None) => return Err(child.lost(output, name, last)),
                    Err(error) => {
                        let last = format!("{last}, then {error}");
                        return Err(child.lost(output, name, last));
                    }
                }
            }
        };
        match answer {
            Some(Ok(reply)) => Ok(reply),
            Some(Err(failure)) => Err(TargetError::Failed { request: name, failure }),
            None => Err(TargetError::Lost {
                request: name,
                status: "scripted".to_owned(),
                last: "nothing".to_owned(),
                stderr: String::new(),
            }),
        }
    }

    /// A handle that pauses, resumes or stops the load that a call runs, from any thread.
    #[must_use]
    pub fn control(&self) -> Control {
        let output = match &self.link {
            Link::Agent { output, .. } => Some(Arc::clone(output)),
            Link::Script(_) => None,
        };
        Control { output, next_id: Arc::clone(&self.next_id) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Link::Agent { output, child, .. } = &mut self.link {
            child.close(output);
        }
    }
}

/// Pauses, resumes or stops the load that a session runs. When none runs these do nothing.
#[derive(Clone)]
pub struct Control {
    output: Option<Output>,
    next_id: Arc<AtomicU64>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// A control whose requests go nowhere, and what tells them.
    #[cfg(test)]
    pub(crate) fn recorded() -> (Self, impl Fn() -> Vec<Request>) {
        let (reader, writer) = std::io::pipe().unwrap();
        let output: Output = Arc::new(Mutex::new(Some(Box::new(writer))));
        let control = Self { output: Some(Arc::clone(&output)), next_id: Arc::default() };
        let said = move || {
            output.lock().unwrap().take();
            let mut frames = frame::Reader::new(reader.try_clone().unwrap());
            std::iter::from_fn(|| frames.next_frame().unwrap()).map(|frame| frame.json().unwrap()).collect()
        };
        (control, said)
    }

    /// Holds the load before its next operation.
    pub fn pause(&self) {
        self.send(&Request::Pause);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.send(&Request::Resume);
    }

    /// Ends it; its reply comes as usual.
    pub fn stop(&self) {
        self.send(&Request::Stop);
    }

    /// Ends it at once: data that it reserved space for is not written.
    pub fn abandon(&self) {
        self.send(&Request::Abandon);
    }

    fn send(&self, request: &Request) {
        if let Some(output) = &self.output {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            // An agent that cannot be reached has no load to control; the call that waits for it says so.
            let _ = send(output, id, request);
        }
    }
}

fn send(output: &Output, id: u64, request: &Request) -> Result<(), FrameError> {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    match output.as_mut() {
        Some(output) => frame::write_json(output, Kind::Request, id, request),
        None => Err(FrameError::Stream(std::io::ErrorKind::BrokenPipe.into())),
    }
}

/// Reads until the answer to request `id`; `None` when the stream ends first. Frames of other requests are
/// answers to controls: they say nothing.
fn listen(
    input: &mut frame::Reader<Box<dyn Read + Send>>,
    id: u64,
    incoming: &mut dyn FnMut(Incoming),
    last: &mut String,
) -> Result<Option<Result<Reply, Failure>>, FrameError> {
    while let Some(frame) = input.next_frame()? {
        if frame.id != id {
            continue;
        }
        match frame.kind {
            Kind::Event => {
                *last = describe(&frame);
                incoming(Incoming::Event(frame.json()?));
            }
            Kind::Chunk => incoming(Incoming::Chunk(frame.payload)),
            Kind::Reply => return Ok(Some(Ok(frame.json()?))),
            Kind::Failure => return Ok(Some(Err(frame.json()?))),
            Kind::Request => return Err(FrameError::UnknownKind { kind: Kind::Request as u8 }),
        }
    }
    Ok(None)
}

/// The first bytes of an event, for the error should it be the last.
fn describe(frame: &Frame) -> String {
    String::from_utf8_lossy(frame.payload.get(..200).unwrap_or(&frame.payload)).into_owned()
}

/// The request's name on the wire (`loop-attach`).
fn name(request: &Request) -> String {
    let value = serde_json::to_value(request).unwrap_or_default();
    value.get("request").and_then(serde_json::Value::as_str).unwrap_or("a request").to_owned()
}

/// The error for a reply of the wrong kind.
pub(crate) fn unexpected(request: &str, reply: &Reply) -> TargetError {
    let answer = format!("{reply:?}").chars().take(200).collect();
    TargetError::Unexpected { request: request.to_owned(), answer }
}

#[cfg(test)]
mod tests {
    use fsage_model::protocol::{Event, FailureKind};

    use super::*;
    use crate::target::Target;

    #[test]
    fn a_script_answers_fails_and_dies() {
        let mut count = 0;
        let mut session = Target::scripted(Box::new(move |request, incoming| {
            count += 1;
            let note = format!("{count}");
            incoming(Incoming::Event(Event::Progress { operations: 1, elapsed_ns: 2, share: None, note }));
            match request {
                Request::DropCaches => Some(Ok(Reply::Done)),
                Request::HostFacts => None,
                _ => Some(Err(Failure {
                    message: "no".to_owned(),
                    hint: "ask nicely".to_owned(),
                    errno: Some(5),
                    kind: FailureKind::Damage,
                })),
            }
        }));
        let mut notes = Vec::new();
        let mut note = |incoming| {
            if let Incoming::Event(Event::Progress { note, .. }) = incoming {
                notes.push(note);
            }
        };
        assert_eq!(session.call(Request::DropCaches, &mut note).unwrap(), Reply::Done);
        let failed = session.call(Request::Sync { directory: "/".into() }, &mut note).unwrap_err();
        assert_eq!((failed.kind(), failed.errno()), (FailureKind::Damage, Some(5)));
        assert_eq!(failed.hint().as_deref(), Some("ask nicely"));
        assert_eq!(failed.to_string(), "sync failed");
        let lost = session.call(Request::HostFacts, &mut note).unwrap_err();
        assert!(lost.is_lost() && lost.to_string().contains("host-facts"));
        assert_eq!(notes, ["1", "2", "3"]);
    }
}
