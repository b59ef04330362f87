//! Power cuts of a real board or guest: the file that describes it, the record of its cycles, and what is next.
//!
//! The loop is that of Cogent Embedded, *Analysis of filesystem performance and power-failure tolerance* (2013),
//! section 5: check and repair the file system, verify the data, mount, start the load, cut the power after a
//! random time. A *cycle* is one cut and what was found after it; a *life* is the cycles of one file system from
//! `prepare` to the first damage.

mod record;
mod spec;
mod turn;

pub use record::{
    CutDamage, CycleOutcome, CycleRecord, POWER_CYCLE_VERSION, PowerCycleHeader, RecordLine, StepTimes,
};
pub use spec::{AfterDamage, CommandSpec, PLACES, PowerCycleSpec, TimeoutSpec, UndecidedSpec};
pub use turn::{ConfigurationProgress, Progress, Turn};
