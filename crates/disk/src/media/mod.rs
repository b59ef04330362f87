//! Models of what a disk is made of.
//!
//! A model has a clock of its own. Requests that wait together come as one batch, all at the same moment; the model serves
//! them in the order a device of its kind would (command queueing), and says when each is done. It never sees data, only
//! places, and it keeps no real time: the same batches give the same times and counters, to the nanosecond.
//!
//! **Queueing rule.** A batch arrives at the disk's clock, which stands at the time the last answered request was done. A
//! load that waits for each answer before it asks again is served one request at a time; one that keeps a queue has
//! its queue served together. Time in which the host thinks does not pass in the model.

pub mod ram;

use crate::request::Request;

/// A figure that a medium keeps about itself.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Counter {
    /// Its name, in `snake_case`, ending in its unit where that is not a plain count (`seek_ns`, `flash_write_bytes`).
    pub name: String,
    /// `"1"`, `"B"`, `"ns"`.
    pub unit: String,
    /// The sum since the disk was made (or, where the name says so, a state).
    pub value: f64,
}

/// What every medium does.
pub trait Model {
    /// Serves the requests that wait together at `now_ns` and sets when each is done; `done_ns` is as long as `batch`.
    /// Never before `now_ns`. Requests are in the order of arrival; a write before a read of the same place is its
    /// past.
    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]);

    /// What it counted.
    fn counters(&self) -> Vec<Counter>;
}
