//! What the thread in charge and the threads of a load send each other.

use fsage_model::load::StopReason;

use super::tally::Tally;
use super::tick::Sample;

/// What the thread in charge tells a thread.
#[derive(Debug, Clone, Copy)]
pub enum Command {
    /// Work until this many operations are done since the load began.
    Run { until: u64 },
    /// Delete files until this many bytes are free.
    Release { bytes: u64 },
    /// Write every live file in place.
    Materialise,
    /// Write out what was written since the last time.
    WriteOut,
}

/// What a thread tells the thread in charge.
#[derive(Debug)]
pub enum Message {
    /// Latencies.
    Samples { thread: usize, samples: Vec<Sample>, end_raw_ns: u64 },
    /// A command is done.
    Arrived { thread: usize, arrival: Box<Arrival> },
    /// A thread panicked.
    Died,
    /// The next bytes of the trace.
    Trace(Vec<u8>),
    /// The trace could not be written.
    TraceFailed(String),
}

/// How a command went.
#[derive(Debug)]
pub struct Arrival {
    /// When it was done.
    pub raw_ns: u64,
    /// Time held by a pause meanwhile.
    pub paused_ns: u64,
    /// Everything the thread did so far.
    pub tally: Tally,
    /// Why the thread cannot continue, though the load may.
    pub failure: Option<Failure>,
    /// The thread will do no more.
    pub finished: Option<StopReason>,
    /// Live files.
    pub files: u64,
    /// Their bytes, in whole blocks.
    pub live_bytes: u64,
    /// Writing the data in place was given up.
    pub unmaterialised: bool,
}

/// Why a load cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Operation after operation failed alike.
    Device { errno: i32, consecutive: u32 },
    /// Nothing to do, whatever is picked.
    Stuck,
    /// No operation succeeded for long, whatever it failed with.
    Futile { errno: i32, consecutive: u32 },
    /// Materialising a file failed.
    Materialise { errno: i32 },
}
