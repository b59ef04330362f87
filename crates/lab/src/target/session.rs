//! One agent: asking and listening.

use std::fmt;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fsage_engine::frame;
use fsage_engine::frame::{Frame, FrameError, FrameKind};
use fsage_model::protocol::{Call, Failure, Greeting, PROTOCOL_VERSION, Reply, Request, call};

use super::child::{Child, Output};
use super::script::Script;
use super::{AgentIdentity, Incoming, TargetError};

/// One agent. Dropping it ends the agent, where it is a process of this host, and waits until it is gone.
pub struct Session {
    link: Link,
    identity: AgentIdentity,
    next_id: Arc<AtomicU64>,
    lost: bool,
}

enum Link {
    Agent { output: Output, input: frame::Reader<Box<dyn Read + Send>>, owner: Owner },
    Script(Box<Script>),
}

/// Whose an agent is.
pub(super) enum Owner {
    /// A process of this host.
    Process(Child),
    /// Another guest that shares this one's volume, by its number (from 1). Its agent ends with it.
    Guest(u32),
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn scripted(script: Box<Script>) -> Self {
        let identity = AgentIdentity { version: "script".to_owned(), ..AgentIdentity::default() };
        Self::over(Link::Script(script), identity)
    }

    /// Takes over a freshly started agent and greets it.
    pub(super) fn greet(
        output: Box<dyn Write + Send>,
        input: Box<dyn Read + Send>,
        owner: Owner,
    ) -> Result<Self, TargetError> {
        let output = Arc::new(Mutex::new(Some(output)));
        let link = Link::Agent { output, input: frame::Reader::new(input), owner };
        let mut session = Self::over(link, AgentIdentity::default());
        let Greeting { protocol, version, pid, start_ticks, boot_id } =
            session.call(call::Hello { protocol: PROTOCOL_VERSION })?;
        if protocol != PROTOCOL_VERSION {
            return Err(TargetError::Version { theirs: protocol, version });
        }
        session.identity = AgentIdentity { pid, start_ticks, boot_id, version };
        Ok(session)
    }

    fn over(link: Link, identity: AgentIdentity) -> Self {
        Self { link, identity, next_id: Arc::default(), lost: false }
    }

    /// Which process the agent is.
    #[must_use]
    pub const fn identity(&self) -> &AgentIdentity {
        &self.identity
    }

    /// Whether the agent or the connection to it was lost: every further call fails.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Asks and waits for the reply.
    ///
    /// # Errors
    /// [`TargetError::Failed`] with what the agent said; [`TargetError::Lost`] when it died.
    pub fn call<C: Call>(&mut self, call: C) -> Result<C::Reply, TargetError> {
        self.call_with(call, &mut |_| {})
    }

    /// The same; what comes before the reply goes to `incoming`.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn call_with<C: Call>(
        &mut self,
        call: C,
        incoming: &mut dyn FnMut(Incoming),
    ) -> Result<C::Reply, TargetError> {
        self.call_and(call, &mut || {}, incoming)
    }

    /// The same, and does `sent` when the request is on its way: what a [`Control`] says from then on acts on
    /// the load that was asked for, what it said before does not.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn call_and<C: Call>(
        &mut self,
        call: C,
        sent: &mut dyn FnMut(),
        incoming: &mut dyn FnMut(Incoming),
    ) -> Result<C::Reply, TargetError> {
        let request = call.into();
        let answer = self.ask(&request, sent, incoming);
        self.lost |= matches!(answer, Err(TargetError::Lost { .. } | TargetError::Send { .. }));
        answer?.to::<C>().map_err(|source| TargetError::Unexpected { request: request.name(), source })
    }

    fn ask(
        &mut self,
        request: &Request,
        sent: &mut dyn FnMut(),
        incoming: &mut dyn FnMut(Incoming),
    ) -> Result<Reply, TargetError> {
        let name = request.name();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let answer = match &mut self.link {
            Link::Script(script) => {
                sent();
                script(request, incoming).ok_or_else(|| TargetError::Lost {
                    request: name.clone(),
                    status: "scripted".to_owned(),
                    last: "nothing".to_owned(),
                    stderr: String::new(),
                })?
            }
            Link::Agent { output, input, owner } => {
                let mut last = "nothing".to_owned();
                let on_its_way = send(output, id, request);
                sent();
                let answer = match on_its_way {
                    Ok(()) => listen(input, id, incoming, &mut last),
                    // The agent is gone or going: what it said before tells more than a broken pipe.
                    Err(FrameError::Stream(_)) => Ok(None),
                    Err(source) => return Err(TargetError::Send { request: name, source }),
                };
                match answer {
                    Ok(Some(answer)) => answer,
                    Ok(None) => return Err(owner.lost(output, name, last)),
                    Err(error) => {
                        let last = format!("{last}, then {error}");
                        return Err(owner.lost(output, name, last));
                    }
                }
            }
        };
        answer.map_err(|failure| TargetError::Failed { request: name, failure })
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
        if let Link::Agent { output, owner: Owner::Process(child), .. } = &mut self.link {
            child.close(output);
        }
    }
}

impl Owner {
    /// What to say of an agent that went away in the middle of `request`.
    fn lost(&mut self, output: &Output, request: String, last: String) -> TargetError {
        match self {
            Self::Process(child) => child.lost(output, request, last),
            Self::Guest(number) => {
                let status = format!("guest {} is gone, or silent", *number + 1);
                TargetError::Lost { request, status, last, stderr: String::new() }
            }
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
        self.send(call::Pause);
    }

    /// Lets it continue.
    pub fn resume(&self) {
        self.send(call::Resume);
    }

    /// Ends it; its reply comes as usual.
    pub fn stop(&self) {
        self.send(call::Stop);
    }

    /// Ends it at once: data that it reserved space for is not written.
    pub fn abandon(&self) {
        self.send(call::Abandon);
    }

    fn send(&self, call: impl Call) {
        if let Some(output) = &self.output {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            // An agent that cannot be reached has no load to control; the call that waits for it says so.
            let _ = send(output, id, &call.into());
        }
    }
}

fn send(output: &Output, id: u64, request: &Request) -> Result<(), FrameError> {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    match output.as_mut() {
        Some(output) => frame::write_json(output, FrameKind::Request, id, request),
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
            FrameKind::Event => {
                *last = describe(&frame);
                incoming(Incoming::Event(frame.json()?));
            }
            FrameKind::Chunk => incoming(Incoming::Chunk(frame.payload)),
            FrameKind::Reply => return Ok(Some(Ok(Reply::from_json(frame.payload)))),
            FrameKind::Failure => return Ok(Some(Err(frame.json()?))),
            FrameKind::Request => return Err(FrameError::UnknownKind { kind: FrameKind::Request as u8 }),
        }
    }
    Ok(None)
}

/// The first bytes of an event, for the error should it be the last.
fn describe(frame: &Frame) -> String {
    String::from_utf8_lossy(frame.payload.get(..200).unwrap_or(&frame.payload)).into_owned()
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
                Request::DropCaches(_) => Some(Ok(Reply::done())),
                Request::Pin(_) => Some(Ok(Reply::done())),
                Request::HostFacts(_) => None,
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
        session.call_with(call::DropCaches, &mut note).unwrap();
        let failed = session.call_with(call::Sync { directory: "/".into() }, &mut note).unwrap_err();
        assert_eq!((failed.kind(), failed.errno()), (FailureKind::Damage, Some(5)));
        assert_eq!(failed.hint().as_deref(), Some("ask nicely"));
        assert_eq!(failed.to_string(), "sync failed");
        let unexpected = session.call(call::Pin { to: None }).unwrap_err();
        assert_eq!(unexpected.to_string(), "the agent sent an unexpected answer to pin");
        assert!(!session.is_lost());
        let lost = session.call_with(call::HostFacts, &mut note).unwrap_err();
        assert!(session.is_lost() && lost.to_string().contains("host-facts"));
        assert_eq!(notes, ["1", "2", "4"]);
    }
}
