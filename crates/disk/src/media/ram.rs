//! Memory: no request takes any time. What a file system itself costs shows on it.

use fsage_model::disk::DiskCounter;

use super::Model;
use crate::request::Request;

/// A medium without cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ram;

impl Model for Ram {
    fn serve(&mut self, now_ns: u64, _batch: &[Request], done_ns: &mut [u64]) {
        done_ns.fill(now_ns);
    }

    fn counters(&self) -> Vec<DiskCounter> {
        Vec::new()
    }
}
