//! One request to an agent on this host, with signals forwarded to the load it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_model::problem::{EXIT_INTERNAL, Problem};
use fsage_model::protocol::Call;
use fsage_sys::signal::{Flags, Signal};

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
    let reply = with_signals(control, patience, terminal, |_| session.call_with(call, incoming))?;
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
    with_signals(control, Patience::Once, terminal, |_| work())
}

/// The same for work of several requests: between two of them `control` has nothing to act on, so `work` asks whether a stop was asked.
///
/// # Errors
/// Signals cannot be listened to.
pub fn interruptible_calls<T>(
    control: Control,
    terminal: &Terminal,
    work: impl FnOnce(&AtomicBool) -> T,
) -> Result<T, Problem> {
    with_signals(control, Patience::Once, terminal, work)
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
    work: impl FnOnce(&AtomicBool) -> T,
) -> Result<T, Problem> {
    let flags = Flags::install(&Signal::ALL)
        .map_err(|error| Problem::new(EXIT_INTERNAL, "cannot listen to signals").because(&error))?;
    let watch = Watch::start(flags, control, patience, *terminal);
    let done = work(&watch.stopped);
    drop(watch);
    Ok(done)
}

/// The thread that turns signals into requests; ends with the value.
#[derive(Debug)]
struct Watch {
    over: Arc<AtomicBool>,
    /// A stop was asked.
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(flags: Flags, control: Control, patience: Patience, terminal: Terminal) -> Self {
        let (over, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let seen = (Arc::clone(&over), Arc::clone(&stopped));
        let thread =
            std::thread::spawn(move || watch(flags, &control, patience, terminal, (&seen.0, &seen.1)));
        Self { over, stopped, thread: Some(thread) }
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

fn watch(
    flags: Flags,
    control: &Control,
    patience: Patience,
    terminal: Terminal,
    (over, stopped): (&AtomicBool, &AtomicBool),
) {
    let mut asked = 0;
    while !over.load(Ordering::Acquire) {
        for (signal, code) in [(Signal::Interrupt, 130), (Signal::Terminate, 143)] {
            if !flags.take(signal) {
                continue;
            }
            asked += 1;
            stopped.store(true, Ordering::Release);
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
