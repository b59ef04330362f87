//! One request to an agent on this host, with signals forwarded to the load it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_model::problem::{EXIT_INTERNAL, Problem};
use fsage_model::protocol::Call;
use fsage_sys::signal::{Flags, Signal, is_pending};

use super::terminal::Terminal;
use fsage_lab::target::{Control, Incoming, Session, Target};

/// How often signals are checked.
const LOOK: Duration = Duration::from_millis(20);

/// Starts an agent and asks it one thing.
///
/// # Errors
/// The agent cannot be started, dies, or fails the request.
pub fn ask<C: Call>(call: C) -> Result<C::Reply, Problem> {
    Ok(Target::local()?.call(call)?)
}

/// As [`ask`], for a load: SIGINT and SIGTERM stop it with a result, SIGUSR1 pauses, SIGUSR2 resumes. A
/// second SIGINT or SIGTERM ends the program; where the data must still be written in place (`writes_at_end`)
/// it gives that up, with a result, and the third ends the program.
///
/// # Errors
/// As [`ask`].
pub fn ask_interruptible<C: Call>(
    call: C,
    writes_at_end: bool,
    terminal: &Terminal,
    incoming: &mut dyn FnMut(Incoming),
) -> Result<C::Reply, Problem> {
    let mut session: Session = Target::local()?;
    let control = session.control();
    let patience = if writes_at_end { Patience::Twice } else { Patience::Once };
    let reply = with_signals(control, patience, terminal, || session.call_with(call, incoming))?;
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
    with_signals(control, Patience::Once, terminal, work)
}

/// A stop was asked of this process, whether or not anything was under way that could act on it.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether SIGINT or SIGTERM came since the first request that listens to them: between two requests a [`Control`] has nothing to act on,
/// so that who goes on to another one asks.
#[must_use]
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Acquire) || [Signal::Interrupt, Signal::Terminate].into_iter().any(is_pending)
}

/// How many signals are answered by asking before one ends the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// To stop.
    Once,
    /// To stop, then to give up what stopping still has to do.
    Twice,
}

fn with_signals<T>(
    control: Control,
    patience: Patience,
    terminal: &Terminal,
    work: impl FnOnce() -> T,
) -> Result<T, Problem> {
    let flags = Flags::install(&Signal::ALL)
        .map_err(|error| Problem::new(EXIT_INTERNAL, "cannot listen to signals").because(&error))?;
    let watch = Watch::start(flags, control, patience, *terminal);
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
    fn start(flags: Flags, control: Control, patience: Patience, terminal: Terminal) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let thread = std::thread::spawn(move || watch(flags, &control, patience, terminal, &seen));
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

fn watch(flags: Flags, control: &Control, patience: Patience, terminal: Terminal, over: &AtomicBool) {
    let mut asked = 0;
    while !over.load(Ordering::Acquire) {
        for (signal, code) in [(Signal::Interrupt, 130), (Signal::Terminate, 143)] {
            if !flags.take(signal) {
                continue;
            }
            asked += 1;
            STOPPED.store(true, Ordering::Release);
            match (asked, patience) {
                (1, Patience::Once) => {
                    terminal.note("stopping; signal again to give up");
                    control.stop();
                }
                (1, Patience::Twice) => {
                    terminal.note("stopping; data of fast mode is written in place first: signal again to leave it unwritten");
                    control.stop();
                }
                (2, Patience::Twice) => {
                    terminal.note("giving up; signal again to exit without a result");
                    control.abandon();
                }
                // The agent ends with us: the user does not want to wait.
                _ => std::process::exit(code),
            }
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
