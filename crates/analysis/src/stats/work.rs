//! Whether two sides did the same work: only then is there a ratio of their numbers.
//!
//! Work is known of numbers of measures ([`fsage_model::measure::Work`]), and not in records of an older fsage.

use super::Evidence;
use fsage_model::measure::Work;

fn of(trial: &Evidence, metric: &str) -> Option<Work> {
    trial.metrics.get(metric)?.work
}

/// In which respect the sides of the first pair that did different work differ; `None` where all did the same,
/// or it is not known.
#[must_use]
pub fn different(pairs: &[(&Evidence, &Evidence)], metric: &str) -> Option<String> {
    pairs.iter().find_map(|(a, b)| of(a, metric)?.differs(&of(b, metric)?))
}

/// The sentence for a refused ratio.
#[must_use]
pub fn refusal(how: &str) -> String {
    format!("different work: {how}")
}

#[cfg(test)]
mod tests {
    use super::super::evidence::{ratio, tests::trial};
    use super::*;

    /// `large-file` on a volume where so many GiB were written.
    fn measured(kind: &str, repeat: u32, value: f64, gib: u64) -> Evidence {
        let mut one = trial(kind, repeat, "large-file", value, None);
        let work = Work { bytes: gib << 30, files: 1, operations: gib << 10 };
        one.metrics.get_mut("large-file").unwrap().work = Some(work);
        one
    }

    #[test]
    fn ratios_of_different_work_are_refused() {
        let side = |kind: &str, gib: u64| -> Vec<Evidence> {
            (0..3).map(|repeat| measured(kind, repeat, 10.0 + f64::from(repeat) / 10.0, gib)).collect()
        };
        let (aged, fresh, small) = (side("aged", 4), side("fresh", 4), side("fresh", 1));
        let pairs =
            |other: &'_ [Evidence]| -> Vec<(usize, Evidence)> { other.iter().cloned().enumerate().collect() };
        let same = pairs(&fresh);
        let same: Vec<_> = same.iter().map(|(i, other)| (&aged[*i], other)).collect();
        assert!(ratio(&same, "large-file", 0.95).is_some() && different(&same, "large-file").is_none());
        let less = pairs(&small);
        let less: Vec<_> = less.iter().map(|(i, other)| (&aged[*i], other)).collect();
        assert_eq!(ratio(&less, "large-file", 0.95), None);
        assert_eq!(different(&less, "large-file").unwrap(), "4 GiB against 1 GiB");
    }

    #[test]
    fn what_is_not_known_to_differ_is_compared() {
        let (a, mut b) = (measured("a", 0, 1.0, 4), measured("b", 0, 1.0, 1));
        b.metrics.get_mut("large-file").unwrap().work = None;
        assert_eq!(different(&[(&a, &b)], "large-file"), None);
    }
}
