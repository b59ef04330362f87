//! A load: a workload run in a directory, with what stops it, what is recorded and what comes out.

use fsage_model::load::Probe;
use fsage_model::load::Tick;
use fsage_model::warning::Warning;

mod age;
mod control;
mod error;
mod fullness;
mod halt;
mod lead;
mod left;
mod like;
mod materialise;
mod message;
mod probe;
mod result;
mod run;
mod setup;
mod source;
mod spacing;
mod tally;
mod tick;
mod worker;

pub use control::Control;
pub use error::LoadError;
pub(crate) use fullness::{Fullness, Usage, bytes_moved};
pub(crate) use run::run_sources;
pub use run::{run, run_in};
pub(crate) use setup::{TestDirectory, descriptors, is_empty, top_name};
pub(crate) use source::{Source, Step};

/// Where what a load says goes while it runs. Called from the thread that called [`run`], never while
/// an operation is timed in that thread.
pub trait LoadSink {
    /// A step of the latency evolution.
    fn tick(&mut self, tick: Tick);
    /// A probe.
    fn probe(&mut self, probe: Probe);
    /// How far it is, at least twice a second; `share` in 0..=1 where the end is known.
    fn progress(&mut self, operations: u64, elapsed_ns: u64, share: Option<f64>, note: &str);
    /// Something the user should know.
    fn warning(&mut self, warning: Warning);
    /// The next bytes of the Parquet file that is the trace.
    fn trace_chunk(&mut self, chunk: &[u8]);
}

/// A sink that keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSink;

impl LoadSink for NoSink {
    fn tick(&mut self, _: Tick) {}
    fn probe(&mut self, _: Probe) {}
    fn progress(&mut self, _: u64, _: u64, _: Option<f64>, _: &str) {}
    fn warning(&mut self, _: Warning) {}
    fn trace_chunk(&mut self, _: &[u8]) {}
}
