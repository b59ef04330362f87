//! A network volume with a latency per request, a bandwidth, and a number of parallel requests.
//!
//! **Queueing rule.** A request goes to the lane that becomes free first; all lanes share one connection.
//!
//! Known limits: no jitter, no credits, no cache.

use fsage_model::disk::DiskCounter;

use super::Model;
use super::example::Parameters;
use super::interface::Interface;
use super::number::as_f64;
use crate::request::Request;

/// Parameters that contradict each other.
#[derive(Debug, thiserror::Error)]
#[error("parallel {0} is not a power of two")]
pub struct NetworkError(u64);

impl NetworkError {
    pub fn hint(&self) -> String {
        format!("set parallel to {}", self.0.next_power_of_two())
    }
}

/// A network volume.
#[derive(Debug, Clone)]
pub struct Network {
    size_bytes: u64,
    latency_ns: u64,
    now_ns: u64,
    interface: Interface,
    /// When each lane becomes free.
    free_ns: Vec<u64>,
    waited_ns: u64,
}

impl Network {
    pub fn new(parameters: &Parameters, size_bytes: u64) -> Result<Self, NetworkError> {
        let &Parameters { latency_ns, interface_bytes_per_s, parallel } = parameters;
        if !parallel.is_power_of_two() {
            return Err(NetworkError(parallel));
        }
        let interface = Interface::new(interface_bytes_per_s);
        let free_ns = vec![0; usize::try_from(parallel).unwrap_or(1)];
        Ok(Self { size_bytes, latency_ns, now_ns: 0, interface, free_ns, waited_ns: 0 })
    }
}

impl Model for Network {
    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
        self.now_ns = self.now_ns.max(now_ns);
        for (request, done) in batch.iter().zip(done_ns) {
            let request = request.within(self.size_bytes);
            // The lane that becomes free first.
            let lane = (0..self.free_ns.len()).min_by_key(|lane| self.free_ns[*lane]).unwrap_or(0);
            let served_ns = self.free_ns[lane].max(self.now_ns) + self.latency_ns;
            self.waited_ns += self.latency_ns;
            *done = self.interface.pass(served_ns, request.length_bytes);
            self.free_ns[lane] = *done;
        }
    }

    fn counters(&self) -> Vec<DiskCounter> {
        vec![
            DiskCounter::sum("latency_ns", "ns", self.waited_ns),
            DiskCounter::state(
                "busy_share",
                "1",
                as_f64(self.interface.busy_ns) / as_f64(self.now_ns.max(1)),
            ),
        ]
    }
}
