//! A random mix of operations over a set of file slots (Petrovič 2017 §4.4).

use super::spec::DriftSpec;
use super::{Feedback, HardLink, LiveFile, ResolveContext, Symlink, Workload, WorkloadError};
use crate::digest::Digest;
use crate::operation::{Operation, Outcome};
use crate::tree::{Directory, Shape};

/// The workload `drift` of one thread.
pub struct Drift {}

impl Drift {
    /// Validates a description and makes one thread's workload of it.
    ///
    /// # Errors
    /// The description makes no sense.
    pub fn resolve(
        spec: &DriftSpec,
        thread: u32,
        threads: u32,
        seed: u64,
        context: &ResolveContext,
    ) -> Result<Self, WorkloadError> {
        let _ = (thread, threads, seed, context);
        if spec.weights.values().all(|weight| *weight <= 0.0) {
            return Err(WorkloadError::NoWeights);
        }
        Ok(Self {})
    }

    pub(super) fn initial_directories(&self) -> Vec<Directory> {
        Vec::new()
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = Directory> + '_ {
        std::iter::empty()
    }

    pub(super) fn live_files(&self) -> impl Iterator<Item = LiveFile> + '_ {
        std::iter::empty()
    }

    pub(super) fn hard_links(&self) -> impl Iterator<Item = HardLink> + '_ {
        std::iter::empty()
    }

    pub(super) fn symlinks(&self) -> impl Iterator<Item = Symlink> + '_ {
        std::iter::empty()
    }

    pub(super) const fn files(&self) -> u64 {
        0
    }

    pub(super) const fn live_bytes(&self) -> u64 {
        0
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::default()
    }

    pub(super) fn shape(&self) -> Shape {
        Shape::default()
    }
}

impl Workload for Drift {
    fn next(&mut self, _: &Feedback) -> Option<Operation> {
        None
    }

    fn completed(&mut self, _: &Operation, _: &Outcome) {}
}
