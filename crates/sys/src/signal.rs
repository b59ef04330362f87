//! Signals as flags that a loop can look at.
//!
//! A handler does nothing but store to an atomic, so that it is safe at any moment. System calls that were under way are
//! restarted, except those that wait for time (`nanosleep`, `poll`): they return early.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// The signals we listen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`: Ctrl-C.
    Interrupt,
    /// `SIGTERM`: please end.
    Terminate,
    /// `SIGUSR1`: pause.
    User1,
    /// `SIGUSR2`: resume.
    User2,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Interrupt, Self::Terminate, Self::User1, Self::User2];

    const fn number(self) -> libc::c_int {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::User1 => libc::SIGUSR1,
            Self::User2 => libc::SIGUSR2,
        }
    }

    fn flag(self) -> &'static AtomicBool {
        match self {
            Self::Interrupt => &INTERRUPT,
            Self::Terminate => &TERMINATE,
            Self::User1 => &USER1,
            Self::User2 => &USER2,
        }
    }
}

static INTERRUPT: AtomicBool = AtomicBool::new(false);
static TERMINATE: AtomicBool = AtomicBool::new(false);
static USER1: AtomicBool = AtomicBool::new(false);
static USER2: AtomicBool = AtomicBool::new(false);

extern "C" fn remember(number: libc::c_int) {
    for signal in Signal::ALL {
        if signal.number() == number {
            signal.flag().store(true, Ordering::SeqCst);
        }
    }
}

/// Proof that handlers are in place. They stay until the process ends: one process, one set of handlers.
#[derive(Debug, Clone, Copy)]
pub struct Flags(());

impl Flags {
    /// Replaces the process's handlers of `signals`.
    ///
    /// # Errors
    /// None that is known: the signals are valid.
    pub fn install(signals: &[Signal]) -> Result<Self> {
        for signal in signals {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            let action_pointer = action.as_mut_ptr();
            // SAFETY: the mask is a field of our own zeroed structure.
            unsafe { libc::sigemptyset(&raw mut (*action_pointer).sa_mask) };
            // SAFETY: all-zero is a valid `sigaction`, and the mask was set above.
            let mut action = unsafe { action.assume_init() };
            action.sa_sigaction = remember as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: the handler only stores to atomics, which is allowed at any point of a program.
            let status = unsafe { libc::sigaction(signal.number(), &raw const action, std::ptr::null_mut()) };
            if status != 0 {
                return Err(Error::call("sigaction")(std::io::Error::last_os_error()));
            }
        }
        Ok(Self(()))
    }

    /// Whether it arrived since the last [`Flags::take`].
    #[must_use]
    pub fn is_set(self, signal: Signal) -> bool {
        signal.flag().load(Ordering::SeqCst)
    }

    /// Whether it arrived since the last call, and forgets it.
    #[must_use]
    pub fn take(self, signal: Signal) -> bool {
        signal.flag().swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal as Number, getpid, kill_process};

    #[test]
    fn a_signal_sets_its_flag_once() {
        let flags = Flags::install(&[Signal::User1, Signal::User2]).unwrap();
        assert!(!flags.is_set(Signal::User1));
        kill_process(getpid(), Number::USR1).unwrap();
        while !flags.is_set(Signal::User1) {
            std::thread::yield_now();
        }
        assert!(flags.take(Signal::User1));
        assert!(!flags.take(Signal::User1));
        assert!(!flags.is_set(Signal::User2));
    }
}
