//! What the agent's threads share, and one request being done.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsage_model::crash::Acknowledgement;
use fsage_model::protocol::{Event, Failure, Reply};

use crate::crash::CrashTest;
use crate::frame::{self, FrameError, FrameKind};
use crate::host::held::HeldDevices;
use crate::host::tool::Children;
use crate::load::Control;
use crate::lockstep::Lockstep;
use crate::measure::HeldFolder;

/// What both threads share.
pub(super) struct Agent {
    output: Mutex<Box<dyn Write + Send>>,
    /// Of the load that runs, then of those asked for but not begun: what is asked of a load may come before
    /// its turn does.
    controls: Mutex<VecDeque<Arc<Control>>>,
    pub(super) children: Children,
    /// Devices that requests may write to.
    pub(super) held: HeldDevices,
    /// The folder of the measure that the lab runs.
    pub(super) measured: Mutex<Option<HeldFolder>>,
    /// The workload that is run on several volumes, between two requests.
    pub(super) lockstep: Mutex<Option<Lockstep>>,
    /// The load for power cuts, and what it was promised.
    pub(super) crash: Mutex<Option<CrashTest>>,
    /// What the user's own program acknowledged.
    pub(super) acknowledged: Mutex<Vec<Acknowledgement>>,
    /// The input has ended, or the output failed.
    ending: AtomicBool,
}

impl Agent {
    pub(super) fn new(output: impl Write + Send + 'static) -> Self {
        Self {
            output: Mutex::new(Box::new(output)),
            controls: Mutex::default(),
            children: Children::default(),
            held: HeldDevices::default(),
            measured: Mutex::default(),
            lockstep: Mutex::default(),
            crash: Mutex::default(),
            acknowledged: Mutex::default(),
            ending: AtomicBool::new(false),
        }
    }

    fn send(&self, kind: FrameKind, id: u64, value: &impl serde::Serialize) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        self.check(frame::write_json(&mut *output, kind, id, value));
    }

    pub(super) fn send_chunk(&self, id: u64, chunk: &[u8]) {
        // A chunk longer than a frame may be goes in parts: it is a stretch of a stream anyway.
        for part in chunk.chunks(1 << 20) {
            self.write(FrameKind::Chunk, id, part);
        }
    }

    fn write(&self, kind: FrameKind, id: u64, payload: &[u8]) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        self.check(frame::write(&mut *output, kind, id, payload));
    }

    pub(super) fn send_event(&self, id: u64, event: &Event) {
        self.send(FrameKind::Event, id, event);
    }

    pub(super) fn answer(&self, id: u64, answer: Result<Reply, Failure>) {
        match answer {
            Ok(reply) => self.write(FrameKind::Reply, id, reply.as_json()),
            Err(failure) => self.send(FrameKind::Failure, id, &failure),
        }
    }

    /// An output that fails means what an input that ends means: nobody is there.
    fn check(&self, written: Result<(), FrameError>) {
        if written.is_err() {
            self.end();
        }
    }

    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.controls().iter().for_each(|control| control.abandon());
        self.children.end();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    pub(super) fn controls(&self) -> MutexGuard<'_, VecDeque<Arc<Control>>> {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A load was asked for: from now on pause, resume and stop act on it.
    pub(super) fn expect_load(&self) {
        self.controls().push_back(Arc::default());
    }

    /// The load whose turn it was is through, or was refused.
    pub(super) fn forget_load(&self) {
        self.controls().pop_front();
    }

    /// Runs `load`, whose turn it is, with the control that pause, resume and stop act on.
    pub(super) fn with_control<T>(&self, load: impl FnOnce(&Control) -> T) -> T {
        let control = self.controls().front().cloned().unwrap_or_default();
        if self.is_ending() {
            control.abandon();
        }
        load(&control)
    }
}

/// The request that is being done: what [`Handle`](fsage_model::protocol::Handle) is implemented for, once
/// per call.
pub(super) struct Task<'a> {
    pub(super) agent: &'a Agent,
    pub(super) id: u64,
}

/// Gives [`Task`] one handler per line, `Call { fields } => its reply`, in which `?` ends it with a failure.
macro_rules! handlers {
    ($task:ident: $($call:ident $({ $($field:ident),* $(,)? })? => $reply:expr;)*) => {$(
        impl fsage_model::protocol::Handle<fsage_model::protocol::call::$call> for crate::agent::task::Task<'_> {
            fn handle(
                &self,
                call: fsage_model::protocol::call::$call,
            ) -> fsage_model::protocol::Answer<fsage_model::protocol::call::$call> {
                #[allow(unused_variables, reason = "not every call needs the agent")]
                let $task = self;
                let fsage_model::protocol::call::$call $({ $($field),* })? = call;
                Ok($reply)
            }
        }
    )*};
}

pub(super) use handlers;
