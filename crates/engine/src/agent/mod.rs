//! The agent: takes requests off a byte stream and does them beside the file system under test.
//!
//! A reader thread takes frames off the input. Pause, resume and stop act there and then on the running
//! load; everything else is done by the thread that called [`serve`], one after the other. That thread
//! starts every child, so that children die with it.
//!
//! When the input ends, nobody is left to answer: a running load is stopped, children are killed with
//! their groups, and a request that does not end within [`GRACE`] is cut off by ending the process. What
//! was taken from the host stays as it is: the lab's lease journal has it.

mod dispatch;
mod image;
mod lockstep;
mod measure;
mod sink;

use std::any::Any;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fsage_model::protocol::{Event, Failure, FailureKind, Reply, Request};

use crate::frame;
use crate::frame::{Frame, FrameError, Kind};
use crate::host::held::HeldDevices;
use crate::host::tool::Children;
use crate::load::Control;
use crate::lockstep::Lockstep;
use crate::measure::HeldFolder;

/// How long a request may go on after the input has ended.
pub const GRACE: Duration = Duration::from_millis(600);

/// Why the agent ended other than by the end of its input.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// What came in was not a frame, or the stream failed.
    #[error("the stream from the lab is broken")]
    Stream(#[from] FrameError),
    /// The thread that reads could not be started.
    #[error("cannot start the thread that reads requests")]
    Thread(#[source] std::io::Error),
}

/// A request on its way to the serving thread.
struct Job {
    id: u64,
    request: Request,
}

/// What both threads share.
struct Agent {
    output: Mutex<Box<dyn Write + Send>>,
    /// Of the load that runs, then of those asked for but not begun: what is asked of a load may come before its
    /// turn does.
    controls: Mutex<VecDeque<Arc<Control>>>,
    children: Children,
    /// Devices that requests may write to.
    held: HeldDevices,
    /// The folder of the measure that the lab runs.
    measured: Mutex<Option<HeldFolder>>,
    /// The workload that is run on several volumes, between two requests.
    lockstep: Mutex<Option<Lockstep>>,
    /// The input has ended, or the output failed.
    ending: AtomicBool,
}

impl Agent {
    fn send(&self, kind: Kind, id: u64, value: &impl serde::Serialize) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        self.check(frame::write_json(&mut *output, kind, id, value));
    }

    fn send_chunk(&self, id: u64, chunk: &[u8]) {
        // A chunk longer than a frame may be goes in parts: it is a stretch of a stream anyway.
        for part in chunk.chunks(1 << 20) {
            let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
            self.check(frame::write(&mut *output, Kind::Chunk, id, part));
        }
    }

    fn send_event(&self, id: u64, event: &Event) {
        self.send(Kind::Event, id, event);
    }

    fn answer(&self, id: u64, answer: Result<Reply, Failure>) {
        match answer {
            Ok(reply) => self.send(Kind::Reply, id, &reply),
            Err(failure) => self.send(Kind::Failure, id, &failure),
        }
    }

    /// An output that fails means what an input that ends means: nobody is there.
    fn check(&self, written: Result<(), FrameError>) {
        if written.is_err() {
            self.end();
        }
    }

    fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.controls().iter().for_each(|control| control.abandon());
        self.children.end();
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    fn controls(&self) -> MutexGuard<'_, VecDeque<Arc<Control>>> {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A load was asked for: from now on pause, resume and stop act on it.
    fn expect_load(&self) {
        self.controls().push_back(Arc::default());
    }

    /// The load whose turn it was is through, or was refused.
    fn forget_load(&self) {
        self.controls().pop_front();
    }

    /// Runs `load`, whose turn it is, with the control that pause, resume and stop act on.
    fn with_control<T>(&self, load: impl FnOnce(&Control) -> T) -> T {
        let control = self.controls().front().cloned().unwrap_or_default();
        if self.is_ending() {
            control.abandon();
        }
        load(&control)
    }
}

/// Serves requests until `input` ends or `Goodbye` comes.
///
/// When the input ends during a request that cannot be stopped, the **process** is ended.
///
/// # Errors
/// The input carries something that is not a frame, or fails.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), AgentError> {
    let agent = Arc::new(Agent {
        output: Mutex::new(Box::new(output)),
        controls: Mutex::default(),
        children: Children::default(),
        held: HeldDevices::default(),
        lockstep: Mutex::default(),
        measured: Mutex::default(),
        ending: AtomicBool::new(false),
    });
    let (jobs_to, jobs) = mpsc::channel();
    let (done, serving) = mpsc::channel::<()>();
    let shared = Arc::clone(&agent);
    let reader = std::thread::Builder::new()
        .name("agent-reader".to_owned())
        .spawn(move || {
            let outcome = read(input, &shared, jobs_to);
            shared.end();
            // Disconnected: the serving thread is through. Else it is stuck in something that nothing stops.
            if serving.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                std::process::exit(0);
            }
            outcome
        })
        .map_err(AgentError::Thread)?;
    let said_goodbye = work(&agent, &jobs);
    drop(done);
    if said_goodbye {
        // The reader may wait for more input for ever; the process ends with this thread.
        return Ok(());
    }
    match reader.join() {
        Ok(outcome) => outcome.map_err(AgentError::from),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Takes frames off the input until it ends.
fn read(input: impl Read, agent: &Agent, jobs: Sender<Job>) -> Result<(), FrameError> {
    let mut reader = frame::Reader::new(input);
    while let Some(frame) = reader.next_frame()? {
        let id = frame.id;
        match request(&frame) {
            Ok(request @ (Request::Pause | Request::Resume | Request::Stop | Request::Abandon)) => {
                act(agent, &request);
                agent.answer(id, Ok(Reply::Done));
            }
            Ok(request) => {
                if is_load(&request) {
                    agent.expect_load();
                }
                if jobs.send(Job { id, request }).is_err() {
                    return Ok(());
                }
            }
            Err(failure) => agent.answer(id, Err(failure)),
        }
    }
    Ok(())
}

fn request(frame: &Frame) -> Result<Request, Failure> {
    let senseless = |message| Failure {
        message,
        hint: "fsage and fsage-agent must be of the same version".to_owned(),
        errno: None,
        kind: FailureKind::Usage,
    };
    if frame.kind != Kind::Request {
        return Err(senseless(format!("a {:?} frame is no request", frame.kind)));
    }
    frame.json().map_err(|error| {
        senseless(format!("a request that is not understood: {}", crate::host::chain(&error)))
    })
}

/// Whether pause, resume and stop act on it.
const fn is_load(request: &Request) -> bool {
    matches!(
        request,
        Request::Load { .. }
            | Request::Replay { .. }
            | Request::LockstepRun { .. }
            | Request::Measure { .. }
            | Request::Copy { .. }
            | Request::ImageSave { .. }
            | Request::ImageRestore { .. }
            | Request::ImageVerify { .. }
            | Request::ImageMaterialise { .. }
    )
}

fn act(agent: &Agent, request: &Request) {
    let controls = agent.controls();
    let Some(control) = controls.front() else { return };
    match request {
        Request::Pause => control.pause(),
        Request::Resume => control.resume(),
        Request::Abandon => control.abandon(),
        _ => control.stop(),
    }
}

/// Does requests until no more come; whether `Goodbye` was said.
fn work(agent: &Agent, jobs: &Receiver<Job>) -> bool {
    let mut greeted = false;
    for Job { id, request } in jobs {
        if agent.is_ending() {
            continue;
        }
        let goodbye = request == Request::Goodbye;
        let load = is_load(&request);
        greeted = greeted || matches!(request, Request::Hello { .. });
        let answer = if greeted {
            catch_unwind(AssertUnwindSafe(|| dispatch::dispatch(agent, id, request)))
                .unwrap_or_else(|panic| Err(panicked(&*panic)))
        } else {
            Err(not_greeted())
        };
        if load {
            // Also after a panic.
            agent.forget_load();
        }
        agent.answer(id, answer);
        if goodbye && greeted {
            return true;
        }
    }
    false
}

fn not_greeted() -> Failure {
    Failure {
        message: "the first request must be hello".to_owned(),
        hint: String::new(),
        errno: None,
        kind: FailureKind::Usage,
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Failure {
        message: format!("the agent panicked: {said}"),
        hint: "this is a bug: please report it with the study and the log".to_owned(),
        errno: None,
        kind: FailureKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_model::protocol::PROTOCOL_VERSION;

    fn served(requests: &[(Kind, Vec<u8>)]) -> (Result<(), AgentError>, Vec<Frame>) {
        let mut input = Vec::new();
        for (id, (kind, payload)) in (1..).zip(requests) {
            frame::write(&mut input, *kind, id, payload).unwrap();
        }
        served_bytes(input)
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The input of an agent whose lab waits: it ends when `release` is dropped.
    struct Held(std::io::Cursor<Vec<u8>>, Receiver<()>);

    impl Read for Held {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.read(buffer)?;
            if count == 0 {
                let _ = self.1.recv();
            }
            Ok(count)
        }
    }

    fn served_bytes(input: Vec<u8>) -> (Result<(), AgentError>, Vec<Frame>) {
        let output = Shared::default();
        let (release, held) = mpsc::channel();
        let held = Held(std::io::Cursor::new(input), held);
        let writer = output.clone();
        let server = std::thread::spawn(move || serve(held, writer));
        // Requests are answered in order; wait for the answer to the last, if it can come.
        let outcome = if server_ends_by_itself(&output, &server) {
            server.join().unwrap()
        } else {
            drop(release);
            server.join().unwrap()
        };
        let bytes = output.0.lock().unwrap().clone();
        let mut reader = frame::Reader::new(bytes.as_slice());
        (outcome, std::iter::from_fn(|| reader.next_frame().unwrap()).collect())
    }

    /// Watches the output until nothing was added for a while.
    fn server_ends_by_itself<T>(output: &Shared, server: &std::thread::JoinHandle<T>) -> bool {
        let mut last = 0;
        let mut quiet = 0;
        while quiet < 20 && !server.is_finished() {
            std::thread::park_timeout(Duration::from_millis(5));
            let now = output.0.lock().unwrap().len();
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
        }
        server.is_finished()
    }

    fn json(request: &Request) -> (Kind, Vec<u8>) {
        (Kind::Request, serde_json::to_vec(request).unwrap())
    }

    fn hello() -> (Kind, Vec<u8>) {
        json(&Request::Hello { protocol: PROTOCOL_VERSION })
    }

    #[test]
    fn hello_comes_first() {
        let (outcome, frames) = served(&[json(&Request::DropCaches), hello(), json(&Request::Goodbye)]);
        outcome.unwrap();
        assert_eq!(
            frames.iter().map(|frame| frame.kind).collect::<Vec<_>>(),
            [Kind::Failure, Kind::Reply, Kind::Reply]
        );
        let Reply::Hello { protocol, pid, start_ticks, boot_id, .. } = frames[1].json().unwrap() else {
            panic!("{frames:?}")
        };
        assert_eq!((protocol, pid), (PROTOCOL_VERSION, std::process::id()));
        assert!(start_ticks > 0 && boot_id.len() == 36);
    }

    #[test]
    fn what_is_not_understood_is_answered_and_survived() {
        let (outcome, frames) = served(&[
            hello(),
            (Kind::Request, b"{\"request\":\"make-coffee\"}".to_vec()),
            (Kind::Request, b"\xff\xfe".to_vec()),
            (Kind::Reply, b"{}".to_vec()),
            json(&Request::Stop),
            json(&Request::Usage { directory: "/".into() }),
        ]);
        outcome.unwrap();
        let by_id = |id| frames.iter().find(|frame| frame.id == id).unwrap();
        for id in 2..=4 {
            let failure: Failure = by_id(id).json().unwrap();
            assert_eq!(failure.kind, FailureKind::Usage, "{failure:?}");
        }
        assert_eq!(by_id(5).json::<Reply>().unwrap(), Reply::Done);
        assert!(matches!(by_id(6).json().unwrap(), Reply::Usage { total_bytes, .. } if total_bytes > 0));
    }

    #[test]
    fn what_is_asked_before_a_load_begins_is_heeded() {
        let agent = Agent {
            output: Mutex::new(Box::new(Shared::default())),
            controls: Mutex::default(),
            lockstep: Mutex::default(),
            measured: Mutex::default(),
            children: Children::default(),
            held: HeldDevices::default(),
            ending: AtomicBool::new(false),
        };
        // Nobody to ask: nothing is kept for later loads.
        act(&agent, &Request::Stop);
        agent.expect_load();
        agent.expect_load();
        act(&agent, &Request::Pause);
        assert!(agent.with_control(Control::is_paused));
        act(&agent, &Request::Stop);
        assert!(agent.with_control(Control::is_stopped));
        agent.forget_load();
        assert!(!agent.with_control(Control::is_asked), "the next load is another one");
        agent.forget_load();
        assert!(agent.controls().is_empty());
    }

    #[test]
    fn garbage_ends_the_agent_with_an_error() {
        let (outcome, _) = served_bytes(b"GET / HTTP/1.1\r\n\r\n".to_vec());
        assert!(matches!(outcome, Err(AgentError::Stream(FrameError::TooLong { .. }))));
    }

    #[test]
    fn a_panic_becomes_an_answer() {
        let failure = panicked(&*catch_unwind(|| panic!("at the disco")).unwrap_err());
        assert_eq!(failure.kind, FailureKind::Internal);
        assert!(failure.message.contains("at the disco"));
    }
}
