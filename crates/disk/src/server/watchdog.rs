//! Ends the export when the loop that serves it is stuck, so that anyone who waits gets an error.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_sys::clock;

use crate::export::Heartbeat;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// A thread that looks after a loop. Ends when dropped.
pub(super) struct Watchdog {
    thread: Option<JoinHandle<()>>,
    end: Arc<AtomicBool>,
}

impl Watchdog {
    /// Starts it: `abort` is what it does when the loop is stuck. The thread asks for no memory later on.
    pub fn start(
        heartbeat: Heartbeat,
        abort: impl FnOnce() + Send + 'static,
        limit: Duration,
    ) -> std::io::Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&end);
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let work = move || {
            while !seen.load(Ordering::Relaxed) {
                if heartbeat
                    .busy_since_ns()
                    .is_some_and(|since| clock::raw_ns().saturating_sub(since) > limit_ns)
                {
                    abort();
                    let _ = std::io::stderr().write_all(STUCK.as_bytes());
                    return;
                }
                std::thread::park_timeout(PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(work)?;
        Ok(Self { thread: Some(thread), end })
    }
}

const STUCK: &str = "watchdog: the server was at work on one batch for too long: connection ended\n";

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
