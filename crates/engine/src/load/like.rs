//! Ageing towards a profile: how near the volume is, and what share of new files must grow in pieces to come
//! nearer.
//!
//! Files that grow come out in more than one extent as often as the file system makes them, which only a
//! probe tells. So the share is set again at each probe: what is wanted, plus a gain on what is missing, plus
//! the sum of what was missing so far for what the file system does by itself. The gain falls as the files
//! made between two probes rise, so that the share of the volume's files does not swing.

use fsage_model::layout::LayoutSummary;
use fsage_model::load::Probe;
use fsage_model::profile::{DISTANCE_NEAR, ONE_EXTENT_NEAR, USED_NEAR, size_distance};
use fsage_model::quantity::{as_f64, share};

use fsage_model::fit::Fit;

/// Largest gain on what is missing.
const GAIN: f64 = 8.0;

/// Part of what is missing that is added to the sum at a probe between which every file was made again.
const INTEGRAL: f64 = 0.3;

/// How far a volume is from its profile; each the absolute difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearness {
    used: f64,
    wanted_used: f64,
    distance: f64,
    one_extent: f64,
    wanted_one_extent: f64,
}

impl Nearness {
    /// Whether each is within what counts as near.
    pub fn is_near(&self) -> bool {
        (self.used - self.wanted_used).abs() <= USED_NEAR
            && self.distance <= DISTANCE_NEAR
            && (self.one_extent - self.wanted_one_extent).abs() <= ONE_EXTENT_NEAR
    }

    /// One sentence with the figures.
    pub fn in_words(&self) -> String {
        let figures = format!(
            "{:.1} % in use (wanted {:.1} %), sizes {:.3} apart (at most {DISTANCE_NEAR}), {:.1} % of the files in one extent (wanted {:.1} %)",
            self.used * 100.0,
            self.wanted_used * 100.0,
            self.distance,
            self.one_extent * 100.0,
            self.wanted_one_extent * 100.0
        );
        if self.one_extent < self.wanted_one_extent - ONE_EXTENT_NEAR {
            format!(
                "{figures}: it is more fragmented than the original, which no further ageing undoes at this use"
            )
        } else if self.one_extent > self.wanted_one_extent + ONE_EXTENT_NEAR {
            format!("{figures}: it is less fragmented than the original")
        } else {
            figures
        }
    }
}

/// Steers a load towards its profile.
#[derive(Debug)]
pub struct LikeWatch {
    fit: Fit,
    sum: f64,
    creates: u64,
    last: Option<Nearness>,
}

impl LikeWatch {
    pub const fn new(fit: Fit) -> Self {
        Self { fit, sum: 0.0, creates: 0, last: None }
    }

    /// As of the last probe.
    pub const fn last(&self) -> Option<Nearness> {
        self.last
    }

    /// Share of new files that is to grow before anything was measured.
    pub fn first_share(&self) -> f64 {
        self.grow_share(1.0 - self.fit.one_extent_share)
    }

    /// Files that cannot be divided cannot grow.
    fn grow_share(&self, of_all: f64) -> f64 {
        if self.fit.divisible_share <= 0.0 {
            0.0
        } else {
            (of_all / self.fit.divisible_share).clamp(0.0, 1.0)
        }
    }

    /// Takes in a probe, after `creates` files made since the load began; the share of new files that is to
    /// grow from now on.
    pub fn take(&mut self, probe: &Probe, creates: u64) -> Option<f64> {
        let layout: &LayoutSummary = probe.layout.as_ref()?;
        let sizes = layout.detail.as_ref().map_or(&[][..], |detail| &detail.sizes[..]);
        let fit = &self.fit;
        self.last = Some(Nearness {
            used: share(probe.used_bytes, probe.total_bytes),
            wanted_used: fit.used_share,
            distance: size_distance(sizes, &fit.sizes),
            one_extent: layout.one_extent_share,
            wanted_one_extent: fit.one_extent_share,
        });
        let made = as_f64(creates.saturating_sub(std::mem::replace(&mut self.creates, creates)));
        let turnover = (made / as_f64(layout.files.max(1))).clamp(0.01, 1.0);
        let missing = layout.one_extent_share - fit.one_extent_share;
        let gain = (0.8 / turnover - 1.0).clamp(0.0, GAIN);
        self.sum = (self.sum + INTEGRAL * turnover * missing).clamp(-1.0, 1.0);
        let wanted = 1.0 - fit.one_extent_share;
        Some(self.grow_share(wanted + gain * missing + self.sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_model::layout::TreeDetail;
    use fsage_model::workload::DirectorySpec;

    fn fit() -> Fit {
        Fit {
            sizes: vec![(8192, 10, 80_000)],
            left_out: 0,
            largest_bytes: 8192,
            files: 1000,
            used_share: 0.5,
            one_extent_share: 0.8,
            divisible_share: 0.5,
            directories: DirectorySpec::default(),
        }
    }

    fn probe(used: u64, one_extent_share: f64, bound: u64) -> Probe {
        let detail = TreeDetail { sizes: vec![(bound, 1000, bound * 1000)], ..TreeDetail::default() };
        Probe {
            operations: 1,
            elapsed_ns: 1,
            used_bytes: used,
            total_bytes: 1000,
            files: 1000,
            device_bytes_written: None,
            free_space: None,
            layout: Some(LayoutSummary {
                files: 1000,
                one_extent_share,
                detail: Some(Box::new(detail)),
                ..LayoutSummary::default()
            }),
            latency: std::collections::BTreeMap::new(),
            interval_log: Vec::new(),
            disk: None,
        }
    }

    #[test]
    fn near_takes_use_sizes_and_extents() {
        let near = |probe: &Probe| {
            let mut watch = LikeWatch::new(fit());
            watch.take(probe, 10);
            watch.last().unwrap().is_near()
        };
        assert!(near(&probe(509, 0.815, 8192)));
        assert!(!near(&probe(511, 0.815, 8192)));
        assert!(!near(&probe(509, 0.775, 8192)));
        assert!(!near(&probe(509, 0.815, 4096)));
    }

    #[test]
    fn a_volume_that_is_too_old_is_said_to_be() {
        let mut watch = LikeWatch::new(fit());
        watch.take(&probe(500, 0.7, 8192), 10);
        assert!(watch.last().unwrap().in_words().contains("more fragmented than the original"));
    }

    /// A file system that breaks `often` of the growing files and `always` of the others.
    fn settles(often: f64, always: f64, turnover: f64) -> f64 {
        let mut watch = LikeWatch::new(fit());
        let mut grow = watch.first_share();
        let mut broken = 0.0;
        let mut creates = 0.0;
        for _ in 0..200 {
            creates += 1000.0 * turnover;
            broken += turnover * (often * grow * 0.5 + always - broken);
            grow =
                watch.take(&probe(500, 1.0 - broken, 8192), fsage_model::quantity::to_u64(creates)).unwrap();
        }
        1.0 - broken
    }

    #[test]
    fn the_share_of_files_in_one_extent_settles_where_it_is_wanted() {
        for (often, always, turnover) in
            [(1.0, 0.0, 0.1), (0.6, 0.0, 0.5), (0.7, 0.05, 0.02), (1.0, 0.1, 1.0)]
        {
            let share = settles(often, always, turnover);
            assert!((share - 0.8).abs() < 0.01, "{share} with {often}, {always}, {turnover}");
        }
        // What the file system breaks by itself cannot be undone, what it will not break cannot be broken.
        assert!(settles(1.0, 0.3, 0.1) < 0.71);
        assert!(settles(0.1, 0.0, 0.1) > 0.94);
    }
}
