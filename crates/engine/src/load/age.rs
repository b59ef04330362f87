//! Whether a volume's measured age has reached its target.

use fsage_model::load::{AgeTarget, Probe};
use fsage_model::quantity::{as_f64, share};

/// Probes that must agree for a load to have converged.
const WINDOW: usize = 5;

/// What convergence is judged by.
#[derive(Debug, Clone, Copy)]
struct Sample {
    extents_per_file: f64,
    free_extents: f64,
}

/// The target, and the latest probes.
#[derive(Debug)]
pub struct AgeWatch {
    target: AgeTarget,
    window: Vec<Sample>,
}

impl AgeWatch {
    pub const fn new(target: AgeTarget) -> Self {
        Self { target, window: Vec::new() }
    }

    /// A bound that can never be met, because `probe` lacks the figure it is for.
    pub fn lacks(&self, probe: &Probe) -> Option<&'static str> {
        let target = &self.target;
        if probe.free_space.is_none() && target.free_extent_median.is_some() {
            Some("stop.age.free_extent_median cannot be judged: free space cannot be mapped")
        } else if probe.free_space.is_none() && target.converged.is_some() {
            Some("stop.age.converged cannot be judged: free space cannot be mapped")
        } else if probe.layout.is_none() && target.needs_layout() {
            Some("stop.age cannot be judged: the layout of the files is not known")
        } else {
            None
        }
    }

    /// Whether a target that needs no probe is met when `written_bytes` were written on a volume of
    /// `total_bytes`; `None` where it needs one.
    pub fn is_reached_without_probe(&self, written_bytes: u64, total_bytes: u64) -> Option<bool> {
        let bound = self.target.volume_overwrites.filter(|_| !self.target.needs_probes())?;
        Some(share(written_bytes, total_bytes) >= bound)
    }

    /// Whether every bound that is given is met as of `probe`, after `written_bytes` of writing.
    pub fn is_reached(&mut self, probe: &Probe, written_bytes: u64) -> bool {
        let layout = probe.layout.as_ref();
        let free = probe.free_space.as_ref();
        if let (Some(layout), Some(free)) = (layout, free) {
            if self.window.len() == WINDOW {
                self.window.remove(0);
            }
            let free_extents = as_f64(free.extents);
            self.window.push(Sample { extents_per_file: layout.extents_per_file, free_extents });
        }
        let target = &self.target;
        let reached = |bound: Option<f64>, value: Option<f64>| match (bound, value) {
            (Some(bound), Some(value)) => value >= bound,
            (Some(_), None) => false,
            (None, _) => true,
        };
        reached(target.extents_per_file, layout.map(|layout| layout.extents_per_file))
            && reached(target.fragmented_share, layout.map(|layout| 1.0 - layout.one_extent_share))
            && reached(target.volume_overwrites, Some(share(written_bytes, probe.total_bytes)))
            && target
                .free_extent_median
                .is_none_or(|bound| free.is_some_and(|free| free.median_bytes <= bound.0))
            && target.converged.is_none_or(|bound| self.has_converged(bound))
    }

    fn has_converged(&self, bound: f64) -> bool {
        self.window.len() == WINDOW
            && spread(self.window.iter().map(|sample| sample.extents_per_file)) < bound
            && spread(self.window.iter().map(|sample| sample.free_extents)) < bound
    }
}

/// (largest − smallest) / largest; 0 when all are 0.
fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if high > 0.0 { (high - low) / high } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_model::layout::{FreeSpace, FreeSpaceMethod, LayoutSummary, SizeHistogram};
    use fsage_model::size::Bytes;

    fn probe(extents_per_file: f64, free_extents: u64) -> Probe {
        Probe {
            operations: 1,
            elapsed_ns: 1,
            used_bytes: 50,
            total_bytes: 100,
            files: 1,
            device_bytes_written: None,
            free_space: Some(FreeSpace {
                method: FreeSpaceMethod::Getfsmap,
                caveat: String::new(),
                is_estimate: false,
                extents: free_extents,
                bytes: 50,
                largest_bytes: 8192,
                median_bytes: 4096,
                histogram: SizeHistogram::default(),
            }),
            layout: Some(LayoutSummary {
                extents_per_file,
                one_extent_share: 0.4,
                ..LayoutSummary::default()
            }),
            latency: std::collections::BTreeMap::new(),
            interval_log: Vec::new(),
            disk: None,
        }
    }

    #[test]
    fn every_bound_must_be_met() {
        let target = AgeTarget {
            extents_per_file: Some(2.0),
            fragmented_share: Some(0.5),
            free_extent_median: Some(Bytes(4096)),
            volume_overwrites: Some(3.0),
            converged: None,
            near: false,
        };
        assert!(AgeWatch::new(target.clone()).is_reached(&probe(2.0, 9), 300));
        assert!(!AgeWatch::new(target.clone()).is_reached(&probe(1.9, 9), 300));
        assert!(!AgeWatch::new(target).is_reached(&probe(2.0, 9), 299));
    }

    #[test]
    fn a_bound_without_its_figure_is_told() {
        let target = AgeTarget { converged: Some(0.05), ..AgeTarget::default() };
        let watch = AgeWatch::new(target);
        assert_eq!(watch.lacks(&probe(2.0, 9)), None);
        let blind = Probe { free_space: None, ..probe(2.0, 9) };
        assert!(watch.lacks(&blind).is_some_and(|what| what.contains("converged")));
        let target = AgeTarget { volume_overwrites: Some(1.0), ..AgeTarget::default() };
        assert_eq!(AgeWatch::new(target).lacks(&blind), None);
    }

    #[test]
    fn convergence_takes_five_probes_that_agree() {
        let mut watch = AgeWatch::new(AgeTarget { converged: Some(0.05), ..AgeTarget::default() });
        for free_extents in [10, 60, 100, 101, 100, 99] {
            assert!(!watch.is_reached(&probe(2.0, free_extents), 0));
        }
        assert!(watch.is_reached(&probe(2.01, 100), 0));
    }
}
