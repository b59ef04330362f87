//! The agent: takes requests off a byte stream and does them beside the file system under test.
//!
//! A reader thread takes frames off the input. Pause, resume and stop act there and then on the running
//! load; everything else is done by the thread that called [`serve`], one after the other. That thread
//! starts every child, so that children die with it.
//!
//! When the input ends, nobody is left to answer: a running load is stopped, children are killed with
//! their groups, and a request that does not end within [`GRACE`] is cut off by ending the process. What
//! was taken from the host stays as it is: the lab's lease journal has it.

mod crash;
mod failure;
mod host;
mod image;
mod load;
mod measure;
mod sink;
mod task;
mod tree;

use std::any::Any;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use fsage_model::protocol::{Failure, FailureKind, Reply, Request};

use crate::frame::{self, Frame, FrameError, FrameKind};
use task::{Agent, Task};

/// How long a request may continue after the input has ended.
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
    let agent = Arc::new(Agent::new(output));
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
            Ok(
                request @ (Request::Pause(_) | Request::Resume(_) | Request::Stop(_) | Request::Abandon(_)),
            ) => {
                act(agent, &request);
                agent.answer(id, Ok(Reply::done()));
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
    if frame.kind != FrameKind::Request {
        return Err(senseless(format!("a {:?} frame is not a request", frame.kind)));
    }
    frame.json().map_err(|error| senseless(format!("an invalid request: {}", crate::host::chain(&error))))
}

/// Whether pause, resume and stop act on it.
const fn is_load(request: &Request) -> bool {
    matches!(
        request,
        Request::Load(_)
            | Request::LoopAttach(_)
            | Request::Replay(_)
            | Request::LockstepResume(_)
            | Request::LockstepRun(_)
            | Request::Measure(_)
            | Request::ReadBoundaries(_)
            | Request::TimeReads(_)
            | Request::TimeWrites(_)
            | Request::RunFio(_)
            | Request::Copy(_)
            | Request::Free(_)
            | Request::ImageSave(_)
            | Request::ImageRestore(_)
            | Request::ImageVerify(_)
            | Request::ImageMaterialise(_)
            | Request::CrashProgram(_)
    )
}

fn act(agent: &Agent, request: &Request) {
    let controls = agent.controls();
    let Some(control) = controls.front() else { return };
    match request {
        Request::Pause(_) => control.pause(),
        Request::Resume(_) => control.resume(),
        Request::Abandon(_) => control.abandon(),
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
        let goodbye = matches!(request, Request::Goodbye(_));
        let load = is_load(&request);
        greeted = greeted || matches!(request, Request::Hello(_));
        let answer = if greeted {
            catch_unwind(AssertUnwindSafe(|| request.handled_by(&Task { agent, id })))
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
    use std::sync::Mutex;

    use fsage_model::protocol::{Call, Greeting, PROTOCOL_VERSION, Usage, call};

    use super::*;
    use crate::load::Control;

    fn served(requests: &[(FrameKind, Vec<u8>)]) -> (Result<(), AgentError>, Vec<Frame>) {
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

    fn json(call: impl Call) -> (FrameKind, Vec<u8>) {
        (FrameKind::Request, serde_json::to_vec::<Request>(&call.into()).unwrap())
    }

    fn hello() -> (FrameKind, Vec<u8>) {
        json(call::Hello { protocol: PROTOCOL_VERSION })
    }

    #[test]
    fn hello_comes_first() {
        let (outcome, frames) = served(&[json(call::DropCaches), hello(), json(call::Goodbye)]);
        outcome.unwrap();
        assert_eq!(
            frames.iter().map(|frame| frame.kind).collect::<Vec<_>>(),
            [FrameKind::Failure, FrameKind::Reply, FrameKind::Reply]
        );
        let greeting: Greeting = frames[1].json().unwrap();
        assert_eq!((greeting.protocol, greeting.pid), (PROTOCOL_VERSION, std::process::id()));
        assert!(greeting.start_ticks > 0 && greeting.boot_id.len() == 36);
    }

    #[test]
    fn what_is_not_understood_is_answered_and_survived() {
        let (outcome, frames) = served(&[
            hello(),
            (FrameKind::Request, b"{\"request\":\"make-coffee\"}".to_vec()),
            (FrameKind::Request, b"\xff\xfe".to_vec()),
            (FrameKind::Reply, b"{}".to_vec()),
            json(call::Stop),
            json(call::Usage { directory: "/".into() }),
        ]);
        outcome.unwrap();
        let by_id = |id| frames.iter().find(|frame| frame.id == id).unwrap();
        for id in 2..=4 {
            let failure: Failure = by_id(id).json().unwrap();
            assert_eq!(failure.kind, FailureKind::Usage, "{failure:?}");
        }
        by_id(5).json::<()>().unwrap();
        assert!(by_id(6).json::<Usage>().unwrap().total_bytes > 0);
    }

    #[test]
    fn what_is_asked_before_a_load_begins_is_heeded() {
        let agent = Agent::new(Shared::default());
        // Nobody to ask: nothing is kept for later loads.
        act(&agent, &call::Stop.into());
        agent.expect_load();
        agent.expect_load();
        act(&agent, &call::Pause.into());
        assert!(agent.with_control(Control::is_paused));
        act(&agent, &call::Stop.into());
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
