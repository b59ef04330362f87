//! Signals as flags that a loop can inspect.
//!
//! The handler (of `signal-hook`) does nothing but store to an atomic, so that it is safe at any moment.
//! System calls that were under way are restarted, except those that wait for time (`nanosleep`, `poll`):
//! they return early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;

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
    /// `SIGHUP`: the terminal is gone.
    Hangup,
    /// `SIGQUIT`: Ctrl-\.
    Quit,
}

impl Signal {
    /// Those that control a run.
    pub const ALL: [Self; 4] = [Self::Interrupt, Self::Terminate, Self::User1, Self::User2];

    const fn number(self) -> i32 {
        match self {
            Self::Interrupt => SIGINT,
            Self::Terminate => SIGTERM,
            Self::User1 => SIGUSR1,
            Self::User2 => SIGUSR2,
            Self::Hangup => SIGHUP,
            Self::Quit => SIGQUIT,
        }
    }

    fn flag(self) -> &'static Arc<AtomicBool> {
        match self {
            Self::Interrupt => &FLAGS[0],
            Self::Terminate => &FLAGS[1],
            Self::User1 => &FLAGS[2],
            Self::User2 => &FLAGS[3],
            Self::Hangup => &FLAGS[4],
            Self::Quit => &FLAGS[5],
        }
    }
}

static FLAGS: LazyLock<[Arc<AtomicBool>; 6]> = LazyLock::new(Default::default);

/// Proof that handlers are in place. They stay until the process ends: one process, one set of handlers.
#[derive(Debug, Clone, Copy)]
pub struct Flags(());

impl Flags {
    /// Replaces the process's handlers of `signals`. `SIGHUP` stays ignored where the caller (nohup) ignores it.
    ///
    /// # Errors
    /// None that is known: the signals are valid.
    pub fn install(signals: &[Signal]) -> Result<Self> {
        for signal in signals {
            if *signal == Signal::Hangup && is_ignored(SIGHUP) {
                continue;
            }
            flag::register(signal.number(), Arc::clone(signal.flag())).map_err(Error::call("sigaction"))?;
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

/// Whether a signal arrived that nobody has taken yet; false where its handler is not in place.
#[must_use]
pub fn is_pending(signal: Signal) -> bool {
    signal.flag().load(Ordering::SeqCst)
}

/// Whether the process was started to ignore this signal; not where `/proc` does not say.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (mask >> (signal - 1)) & 1 == 1
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
        assert!(is_pending(Signal::User1));
        assert!(flags.take(Signal::User1));
        assert!(!flags.take(Signal::User1));
        assert!(!flags.is_set(Signal::User2));
    }
}
