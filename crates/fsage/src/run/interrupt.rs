//! Signals while a study runs: SIGINT and SIGTERM end it cleanly, SIGUSR1 pauses the load and SIGUSR2 lets
//! it go on.
//!
//! A thread looks at the flags twenty times a second and passes them on to whatever load runs; between loads
//! the run looks itself.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_sys::signal::{Flags, Signal};

use super::RunError;
use crate::target::Control;

const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct Shared {
    /// 0, or the signal that asked to end.
    ended_by: AtomicI32,
    /// The run is over.
    over: AtomicBool,
    /// The session whose load runs.
    control: Mutex<Option<Control>>,
}

/// Listens until dropped.
#[derive(Debug)]
pub(super) struct Interrupt {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

impl Interrupt {
    pub(super) fn listen() -> Result<Self, RunError> {
        let flags = Flags::install(&Signal::ALL).map_err(|e| RunError::Signal(e.to_string()))?;
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let watcher = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                while !seen.over.load(Ordering::Relaxed) {
                    seen.look(flags);
                    std::thread::sleep(LOOK_EVERY);
                }
            })
            .map_err(|e| RunError::Signal(e.to_string()))?;
        Ok(Self { shared, watcher: Some(watcher) })
    }

    /// The signal that asked to end, if any.
    pub(super) fn by(&self) -> Option<i32> {
        Some(self.shared.ended_by.load(Ordering::SeqCst)).filter(|s| *s != 0)
    }

    /// Which load signals go to from now on; one that came before is passed on at once.
    pub(super) fn direct(&self, control: Option<Control>) {
        let mut slot = self.shared.control.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = control;
        if let (Some(control), Some(_)) = (slot.as_ref(), self.by()) {
            control.stop();
        }
    }
}

impl Shared {
    fn look(&self, flags: Flags) {
        let slot = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let tell = |what: fn(&Control)| {
            if let Some(control) = slot.as_ref() {
                what(control);
            }
        };
        for (signal, number) in [(Signal::Interrupt, 2), (Signal::Terminate, 15)] {
            if flags.take(signal) {
                self.ended_by.store(number, Ordering::SeqCst);
                // A paused load has to go on to be able to end.
                tell(Control::resume);
                tell(Control::stop);
            }
        }
        if flags.take(Signal::User1) {
            tell(Control::pause);
        }
        if flags.take(Signal::User2) {
            tell(Control::resume);
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            drop(watcher.join());
        }
    }
}
