//! Signals while a study runs: SIGINT and SIGTERM end it cleanly, SIGUSR1 pauses the load and SIGUSR2 lets
//! it continue.
//!
//! A thread inspects the flags twenty times per second and passes them on to whatever loads run; between
//! loads the run looks itself. What was asked between loads holds for the next one: it begins paused, or ends
//! at once.

use std::collections::BTreeMap;
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
    /// A pause was asked for and not taken back.
    paused: AtomicBool,
    /// The run is over.
    over: AtomicBool,
    /// The sessions whose loads run, by lane.
    controls: Mutex<BTreeMap<usize, Control>>,
}

/// Listens until the last clone is dropped. Each of several trials that run side by side has
/// [one of its own](Interrupt::of_lane), so that a signal reaches the loads of all.
#[derive(Debug)]
pub(super) struct Interrupt {
    listener: Arc<Listener>,
    lane: usize,
}

#[derive(Debug)]
struct Listener {
    flags: Flags,
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
        let listener = Arc::new(Listener { flags, shared, watcher: Some(watcher) });
        Ok(Self { listener, lane: 0 })
    }

    /// The same for one of several trials at a time, by its number.
    pub(super) fn of_lane(&self, lane: usize) -> Self {
        Self { listener: Arc::clone(&self.listener), lane }
    }

    /// The signal that asked to end, if any: also one that came a moment ago.
    pub(super) fn by(&self) -> Option<i32> {
        let Listener { shared, flags, .. } = &*self.listener;
        shared.look(*flags);
        Some(shared.ended_by.load(Ordering::SeqCst)).filter(|s| *s != 0)
    }

    /// Which load of this lane signals go to from now on; what was asked before is passed on at once. Call it
    /// when the load was sent: an agent honours nothing that comes before.
    pub(super) fn direct(&self, control: Option<Control>) {
        self.by();
        let shared = &self.listener.shared;
        let mut slots = shared.controls.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked under the lock: a signal taken after it reaches the control that is put there.
        let ended = shared.ended_by.load(Ordering::SeqCst) != 0;
        let Some(control) = control else {
            slots.remove(&self.lane);
            return;
        };
        if ended {
            control.abandon();
        } else if shared.paused.load(Ordering::SeqCst) {
            control.pause();
        }
        slots.insert(self.lane, control);
    }
}

impl Shared {
    fn look(&self, flags: Flags) {
        let slots = self.controls.lock().unwrap_or_else(PoisonError::into_inner);
        let tell = |what: fn(&Control)| slots.values().for_each(what);
        for (signal, number) in [(Signal::Interrupt, 2), (Signal::Terminate, 15)] {
            if flags.take(signal) {
                self.ended_by.store(number, Ordering::SeqCst);
                self.paused.store(false, Ordering::SeqCst);
                // A paused load has to continue to be able to end. Its trial is done again: nothing of it
                // needs to be whole.
                tell(Control::resume);
                tell(Control::abandon);
            }
        }
        if flags.take(Signal::User1) {
            self.paused.store(true, Ordering::SeqCst);
            tell(Control::pause);
        }
        if flags.take(Signal::User2) {
            self.paused.store(false, Ordering::SeqCst);
            tell(Control::resume);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            drop(watcher.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::protocol::{Request, call};
    use rustix::process::{Signal as Number, getpid, kill_process};

    use super::*;

    /// Sends it to the own process and waits until the watcher has seen it: any thread may have to handle it
    /// first. No child is started for it: between fork and exec that would hold the journals that other tests
    /// lock.
    fn signal(number: Number, seen: impl Fn() -> bool) {
        kill_process(getpid(), number).unwrap();
        while !seen() {
            std::thread::yield_now();
        }
    }

    // One test: signals are of the whole process.
    #[test]
    fn what_is_asked_between_loads_holds_for_the_next() {
        let interrupt = Interrupt::listen().unwrap();
        let load = || {
            let (control, said) = Control::recorded();
            interrupt.direct(Some(control));
            interrupt.direct(None);
            said()
        };
        let paused = || interrupt.listener.shared.paused.load(Ordering::SeqCst);
        assert_eq!(load(), []);
        signal(Number::USR1, paused);
        assert_eq!(load(), [Request::from(call::Pause)]);
        assert_eq!(load(), [Request::from(call::Pause)], "until it is taken back");
        signal(Number::USR2, || !paused());
        assert_eq!(load(), []);
        signal(Number::USR1, paused);
        signal(Number::INT, || interrupt.by().is_some());
        assert_eq!(load(), [Request::from(call::Abandon)]);
        assert_eq!(interrupt.by(), Some(2));
        let other = interrupt.of_lane(1);
        let ((one, of_one), (two, of_two)) = (Control::recorded(), Control::recorded());
        interrupt.direct(Some(one));
        other.direct(Some(two));
        signal(Number::TERM, || interrupt.by() == Some(15));
        let ends = [Request::from(call::Abandon), call::Resume.into(), call::Abandon.into()];
        assert_eq!([of_one(), of_two()], [ends.clone(), ends], "each lane's load is notified");
    }
}
