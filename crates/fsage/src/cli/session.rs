//! One request to an agent on this host, with signals forwarded to the load it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_engine::protocol::{Reply, Request};
use fsage_sys::signal::{Flags, Signal};

use super::explain::{EXIT_INTERNAL, Problem};
use super::terminal::Terminal;
use crate::target::{Control, Incoming, Session, Target};

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Starts an agent and asks it one thing.
///
/// # Errors
/// The agent cannot be started, dies, or fails the request.
pub fn ask(request: Request, incoming: &mut dyn FnMut(Incoming)) -> Result<Reply, Problem> {
    let mut session = Target::local()?;
    Ok(session.call(request, incoming)?)
}

/// As [`ask`], for a load: SIGINT and SIGTERM stop it with a result (a second one ends the program),
/// SIGUSR1 pauses, SIGUSR2 resumes.
///
/// # Errors
/// As [`ask`].
pub fn ask_interruptible(
    request: Request,
    terminal: &Terminal,
    incoming: &mut dyn FnMut(Incoming),
) -> Result<Reply, Problem> {
    let mut session: Session = Target::local()?;
    let control = session.control();
    let reply = interruptible(control, terminal, || session.call(request, incoming))?;
    Ok(reply?)
}

/// Does `work`, whose requests `control` acts on, with the signals of [`ask_interruptible`].
///
/// # Errors
/// Signals cannot be listened to.
pub fn interruptible<T>(
    control: Control,
    terminal: &Terminal,
    work: impl FnOnce() -> T,
) -> Result<T, Problem> {
    let flags = Flags::install(&Signal::ALL)
        .map_err(|error| Problem::new(EXIT_INTERNAL, "cannot listen to signals").because(&error))?;
    let watch = Watch::start(flags, control, *terminal);
    let done = work();
    drop(watch);
    Ok(done)
}

/// The thread that turns signals into requests; ends with the value.
#[derive(Debug)]
struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(flags: Flags, control: Control, terminal: Terminal) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let thread = std::thread::spawn(move || watch(flags, &control, terminal, &seen));
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(flags: Flags, control: &Control, terminal: Terminal, over: &AtomicBool) {
    let mut asked = false;
    while !over.load(Ordering::Acquire) {
        for (signal, code) in [(Signal::Interrupt, 130), (Signal::Terminate, 143)] {
            if !flags.take(signal) {
                continue;
            }
            if asked {
                // The agent ends with us; a second signal means that the user does not want to wait.
                std::process::exit(code);
            }
            asked = true;
            terminal.note("stopping; once more to give up");
            control.stop();
        }
        if flags.take(Signal::User1) {
            terminal.note("paused; SIGUSR2 resumes");
            control.pause();
        }
        if flags.take(Signal::User2) {
            terminal.note("resumed");
            control.resume();
        }
        std::thread::sleep(LOOK);
    }
}

/// The agent answered with something else than the request asks for.
#[must_use]
pub fn unexpected(reply: &Reply) -> Problem {
    let text = format!("{reply:?}");
    let name: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
    Problem::new(EXIT_INTERNAL, format!("the agent answered with {name}, which was not asked for"))
}
