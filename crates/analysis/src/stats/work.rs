//! Whether two sides did the same work: only then is there a ratio of their numbers.
//!
//! Work is known of numbers of measures ([`fsage_model::measure::Work`]). Records of an older fsage do not have it:
//! there the bytes that a measure's other numbers tell of are compared. What is not known to differ is the
//! same.

use super::Evidence;
use fsage_model::measure::Work;

/// Bytes that are more than this apart, as a share of the larger, are other work.
const SAME_BYTES: f64 = 0.01;

fn of(trial: &Evidence, metric: &str) -> Option<Work> {
    trial.metrics.get(metric)?.work
}

/// In which respect the sides of the first pair that did different work differ; `None` where all did the same,
/// or it is not known.
#[must_use]
pub fn different(pairs: &[(&Evidence, &Evidence)], metric: &str) -> Option<String> {
    pairs.iter().find_map(|(a, b)| of(a, metric)?.differs(&of(b, metric)?))
}

/// Whether two trials did the same for a measure, by the name of its headline.
#[must_use]
pub fn same(a: &Evidence, b: &Evidence, measure: &str) -> bool {
    match (of(a, measure), of(b, measure)) {
        (Some(a), Some(b)) => a.differs(&b).is_none(),
        _ => match (bytes(a, measure), bytes(b, measure)) {
            (Some(a), Some(b)) => (a - b).abs() <= SAME_BYTES * a.max(b),
            _ => true,
        },
    }
}

/// Bytes that a measure moved by its own account: the size of its file, time by throughput, or what it read.
fn bytes(trial: &Evidence, measure: &str) -> Option<f64> {
    let sample = |name: &str| trial.metrics.get(&format!("{measure}.{name}"))?.samples.first().copied();
    let moved = || Some(sample("time")? * sample("throughput")?);
    sample("size").or_else(moved).or_else(|| sample("allocated"))
}

/// The sentence for a refused ratio.
#[must_use]
pub fn refusal(how: &str) -> String {
    format!("different work: {how}")
}

#[cfg(test)]
mod tests {
    use super::super::evidence::{Series, ratio, tests::trial};
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
    fn without_a_record_of_it_work_is_the_same_up_to_one_percent_of_its_bytes() {
        let trial = |numbers: &[(&str, f64)]| {
            let series = |value: f64| Series { samples: vec![value], ..Series::default() };
            let metrics = numbers.iter().map(|(name, value)| ((*name).to_owned(), series(*value)));
            Evidence { metrics: metrics.collect(), ..Evidence::default() }
        };
        // Bytes are time by throughput, whatever the time is.
        let create = |seconds: f64, bytes: f64| {
            trial(&[("create.time", seconds), ("create.throughput", bytes / seconds)])
        };
        assert!(same(&create(9.0, 1000.0), &create(2.0, 1009.0), "create"));
        assert!(!same(&create(9.0, 1000.0), &create(2.0, 1011.0), "create"));
        let large = |bytes: f64| trial(&[("large-file.size", bytes)]);
        assert!(!same(&large(140.0), &large(1000.0), "large-file"));
        assert!(same(&large(140.0), &trial(&[]), "large-file"), "not known is no reason to refuse");
        let grep = |bytes: f64| trial(&[("after.grep.allocated", bytes)]);
        assert!(same(&grep(100.0), &grep(99.5), "after.grep"));
        assert!(!same(&grep(100.0), &grep(80.0), "after.grep"));
    }

    #[test]
    fn what_is_recorded_of_work_goes_before_bytes() {
        let (a, b) = (measured("a", 0, 1.0, 4), measured("b", 0, 1.0, 1));
        assert!(!same(&a, &b, "large-file") && same(&a, &measured("b", 1, 9.0, 4), "large-file"));
        // The same number of bytes in the record of one side alone says nothing.
        let mut old = b;
        old.metrics.get_mut("large-file").unwrap().work = None;
        assert!(same(&a, &old, "large-file"));
    }

    #[test]
    fn what_is_not_known_to_differ_is_compared() {
        let (a, mut b) = (measured("a", 0, 1.0, 4), measured("b", 0, 1.0, 1));
        b.metrics.get_mut("large-file").unwrap().work = None;
        assert_eq!(different(&[(&a, &b)], "large-file"), None);
    }
}
