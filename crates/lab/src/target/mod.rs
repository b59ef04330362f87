//! Where trials run: starts an agent there and talks with it.
//!
//! A [`Session`] is one agent. It takes one request at a time; a [`Control`] can pause, resume or stop the
//! load that runs meanwhile, from any thread. When the agent dies the call returns [`TargetError::Lost`]
//! only after the agent and everything it started are gone (or a time limit has passed), so that what
//! they held can be released.
//!
//! Other hosts, and guests, run a whole fsage of their own, which a [`Connection`] leads to.

mod child;
mod companion;
mod connection;
mod error;
pub mod guest;
mod local;
pub mod program;
mod script;
mod session;
mod ssh;
pub mod waking;
pub mod wire;

use fsage_model::protocol::Event;
use fsage_model::study::TargetSpec;

pub use companion::Companion;
pub use connection::{Connection, Patience, READY};
pub use error::TargetError;
pub use script::Script;
pub use session::{Control, Session};

/// Where trials run.
#[derive(Debug, Clone, Copy)]
pub struct Target;

impl Target {
    /// Starts an agent on this host. The agent dies with this process, whatever kills it.
    ///
    /// # Errors
    /// No agent binary is found, it does not start, or it speaks another version of the protocol.
    pub fn local() -> Result<Session, TargetError> {
        local::start()
    }

    /// Takes up the agent of another guest that shares this one's volume, by its number (from 1).
    ///
    /// # Errors
    /// It does not boot, or its agent speaks another version of the protocol.
    pub fn of_guest(number: u32) -> Result<Session, TargetError> {
        guest::start(number)
    }

    /// The release of the target's kernel (`uname -r`), without an agent: what a dry run shows depends on it.
    #[must_use]
    pub fn kernel(target: &TargetSpec) -> String {
        match target {
            // Of another host it is not known yet: what a trial does there goes by that host's own.
            TargetSpec::Local | TargetSpec::Ssh(_) | TargetSpec::Guest(_) => {
                rustix::system::uname().release().to_string_lossy().into_owned()
            }
        }
    }

    /// A session whose answers come from `script`, for tests of what stands above it.
    #[must_use]
    pub fn scripted(script: Box<Script>) -> Session {
        Session::scripted(script)
    }
}

/// What comes in while a request runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// An event.
    Event(Event),
    /// The next bytes of the trace.
    Chunk(Vec<u8>),
}

/// Which process an agent is, so that it can be distinguished from a later one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentIdentity {
    /// Process id on the target.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat on the target.
    pub start_ticks: u64,
    /// Boot id of the target.
    pub boot_id: String,
    /// The agent's version.
    pub version: String,
}
