//! Merit: one number for a configuration, as published, and log ratios to the default beside it.
//!
//! CEWG 2013 (*Flash file system tuning methodology*, §3.3): the merit of a workload is the mean over its points (block sizes, or
//! working set ÷ cache) of the logarithm of throughput, or 1 ÷ the worst latency; that of a configuration is the sum over
//! workloads. The unit is not stated; the printed numbers are 1000 × the natural logarithm of KB/s (of its class 10 cards, which
//! read 10 MB/s at least, they then say 11 to 15 MB/s; with base 2 it would be 0.6). One point of merit is 0.1 %. A workload that
//! reads and writes has both, so its merit is twice as large and a change of it weighs twice as much.
//!
//! Merit has no interval. [`over_default`] is the same mean of logarithms with stated weights, as a ratio to the default and with
//! the interval of the one estimator.

use std::collections::{BTreeMap, BTreeSet};

use super::estimator::{Estimate, Pair, paired};

/// Places of a ranking, as published.
pub const PLACES: usize = 5;
/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;

/// Merit of a workload by throughput: its points in KB/s (1000 bytes per second). `None` without points, or with one that is not
/// above 0.
#[must_use]
pub fn throughput(points: &[f64]) -> Option<f64> {
    let usable = !points.is_empty() && points.iter().all(|point| point.is_finite() && *point > 0.0);
    let mean = super::quantile::mean(&points.iter().map(|point| point.ln()).collect::<Vec<_>>());
    mean.filter(|_| usable).map(|mean| 1e3 * mean)
}

/// Merit of a workload by latency: the worst latency of each point in microseconds. `None` as [`throughput`].
#[must_use]
pub fn latency(worst: &[f64]) -> Option<f64> {
    let usable = worst.iter().all(|point| point.is_finite() && *point > 0.0);
    worst.iter().copied().reduce(f64::max).filter(|_| usable).map(|worst| 1e6 / worst)
}

/// The merit of a configuration in a workload on a medium.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What it ran on.
    pub medium: String,
    /// File system.
    pub file_system: String,
    /// Benchmark.
    pub workload: String,
    /// Options and scheduler, as the table names them (`noatime cfq`).
    pub configuration: String,
    /// Its merit there.
    pub merit: f64,
}

/// The best configurations of a workload on a medium and a file system.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// Medium.
    pub medium: String,
    /// File system.
    pub file_system: String,
    /// Workload; `None`: all together.
    pub workload: Option<String>,
    /// At most [`PLACES`] configurations with their merit, the best first; equals by name.
    pub places: Vec<(String, f64)>,
    /// Configurations left out of the sum over workloads because one of these is missing: their sums would be of other
    /// workloads.
    pub incomplete: usize,
}

/// The tables as published: for every medium and file system the sum over workloads, then each workload.
#[must_use]
pub fn rankings(entries: &[Entry]) -> Vec<Ranking> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        groups.entry((&entry.medium, &entry.file_system)).or_default().push(entry);
    }
    let ranking = |(medium, file_system): (&str, &str), workload: Option<&str>, places, incomplete| Ranking {
        medium: medium.to_owned(),
        file_system: file_system.to_owned(),
        workload: workload.map(str::to_owned),
        places: best(places),
        incomplete,
    };
    let mut found = Vec::new();
    for (of, entries) in groups {
        let workloads: BTreeSet<&str> = entries.iter().map(|entry| entry.workload.as_str()).collect();
        let (sums, incomplete) = sums(&entries, workloads.len());
        found.push(ranking(of, None, sums, incomplete));
        for workload in workloads {
            let own = entries.iter().filter(|entry| entry.workload == workload);
            let places = own.map(|entry| (entry.configuration.clone(), entry.merit)).collect();
            found.push(ranking(of, Some(workload), places, 0));
        }
    }
    found
}

/// Sums over all workloads, and how many configurations lack one.
fn sums(entries: &[&Entry], workloads: usize) -> (Vec<(String, f64)>, usize) {
    let mut by_configuration: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    for entry in entries {
        by_configuration.entry(&entry.configuration).or_default().insert(&entry.workload, entry.merit);
    }
    let all = by_configuration.len();
    let complete: Vec<(String, f64)> = by_configuration
        .into_iter()
        .filter(|(_, merits)| merits.len() == workloads)
        .map(|(configuration, merits)| (configuration.to_owned(), merits.values().sum()))
        .collect();
    let incomplete = all - complete.len();
    (complete, incomplete)
}

fn best(mut places: Vec<(String, f64)>) -> Vec<(String, f64)> {
    places.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    places.truncate(PLACES);
    places
}

/// What a configuration and the default made of one measured quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Its weight against the others, above 0.
    pub weight: f64,
    /// Whether a larger value is worse (a latency) rather than better (a rate).
    pub larger_is_worse: bool,
    /// Seed → values of the default and of the configuration, above 0.
    pub values: BTreeMap<u32, (f64, f64)>,
}

/// The weighted mean of the logarithms of configuration ÷ default, larger is better: 0.05 is a gain of 5.1 %. Seeds are the
/// units, and one that lacks a quantity is left out. `None` without quantities, weights or a seed that has all of them.
#[must_use]
pub fn over_default(quantities: &[Quantity]) -> Option<Estimate> {
    let weights: f64 = quantities.iter().map(|quantity| quantity.weight).sum();
    if quantities.iter().any(|quantity| !(quantity.weight.is_finite() && quantity.weight > 0.0)) {
        return None;
    }
    let score = |of: &Quantity, value: f64| {
        let sign = if of.larger_is_worse { -1.0 } else { 1.0 };
        (value.is_finite() && value > 0.0).then(|| sign * of.weight / weights * value.ln())
    };
    let pair = |seed: u32| {
        let (mut a, mut b) = (0.0, 0.0);
        for quantity in quantities {
            let (default, own) = quantity.values.get(&seed)?;
            a += score(quantity, *default)?;
            b += score(quantity, *own)?;
        }
        Some(Pair { cell: String::new(), seed, a: vec![a], b: vec![b] })
    };
    let seeds = quantities.first()?.values.keys();
    paired(&seeds.filter_map(|seed| pair(*seed)).collect::<Vec<_>>(), CONFIDENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(workload: &str, configuration: &str, merit: f64) -> Entry {
        let text = str::to_owned;
        Entry {
            medium: text("Kingston"),
            file_system: text("btrfs"),
            workload: text(workload),
            configuration: text(configuration),
            merit,
        }
    }

    /// CEWG 2013, §3.8.1 and §3.8.5; the rates are those that the printed merits stand for.
    #[test]
    fn printed_merits_are_natural_logarithms_of_kilobytes_per_second() {
        // Linear direct reading: Kingston btrfs noatime row, ext4 discard noop, SanDisk ext4 noatime noop, Toshiba ext4
        // geometry deadline and f2fs noatime deadline.
        for (kb_per_s, merit) in [
            (11_081.0, 9313.0),
            (12_052.0, 9397.0),
            (15_138.0, 9625.0),
            (23_156.0, 10_050.0),
            (23_295.0, 10_056.0),
        ] {
            assert!((throughput(&[kb_per_s]).unwrap() - merit).abs() < 0.5, "{kb_per_s}");
        }
        // compile, Kingston btrfs ssd row: reads and writes, 20.6 MB/s each.
        let both = throughput(&[20_630.0]).unwrap() + throughput(&[20_630.0]).unwrap();
        assert!((both - 19_869.0).abs() < 1.0, "{both}");
        // 9397 against 9313 is 8.8 %.
        assert!((((9397.0_f64 - 9313.0) / 1e3).exp() - 1.088).abs() < 1e-3);
        // Points are averaged, not added up.
        let mean = throughput(&[1_000.0, 4_000.0]).unwrap();
        assert!((mean - throughput(&[2_000.0]).unwrap()).abs() < 1e-9);
        assert_eq!([throughput(&[]), throughput(&[1.0, 0.0]), throughput(&[f64::NAN])], [None; 3]);
    }

    /// CEWG 2013, §3.8: the sum of 102979 of btrfs, ssd deadline on the Kingston card, of which six of nine parts are printed.
    #[test]
    fn a_printed_sum_leaves_plausible_rates_for_what_is_not_printed() {
        // Linear read, linear write, grep, untar, fileserver, database.
        let parts = [9306.0, 8766.0, 9782.0, 9752.0, 17_845.0, 14_495.0];
        let printed = parts.map(|merit: f64| (merit / 1e3).exp()).map(|rate| throughput(&[rate]).unwrap());
        let rest = 102_979.0 - printed.iter().sum::<f64>();
        assert!((rest - 33_033.0).abs() < 1e-6, "{rest}");
        // compile is not among the first five, the last of which has 19501: random reading and writing have 13532 at least, of
        // one logarithm each, which is 868 KB/s: a card of that class. Without compile's second logarithm nothing would fit.
        let random = rest - 19_501.0;
        let rate = (random / 2e3).exp();
        assert!((rate - 867.6).abs() < 1.0, "{rate}");
    }

    #[test]
    fn latency_counts_the_worst_point() {
        assert_eq!(latency(&[200.0, 50_000.0, 400.0]), Some(20.0));
        assert_eq!([latency(&[]), latency(&[0.0]), latency(&[-1.0, 5.0])], [None; 3]);
    }

    /// CEWG 2013, §3.8: totals of btrfs on the Kingston card.
    #[test]
    fn the_first_five_come_in_the_printed_order() {
        let printed = [
            ("ssd deadline", 102_979.0),
            ("noatime cfq", 102_788.0),
            ("discard row", 102_727.0),
            ("base row", 102_174.0),
            ("ssd cfq", 102_128.0),
        ];
        // Two workloads that add up to the printed sums, in another order, and a sixth configuration.
        let mut entries = Vec::new();
        for (configuration, sum) in printed.iter().rev().chain([&("base noop", 100_000.0)]) {
            entries.push(entry("read", configuration, 9_000.0));
            entries.push(entry("write", configuration, sum - 9_000.0));
        }
        // The best of one workload alone has no sum.
        entries.push(entry("read", "nodatacow", 9_900.0));
        let found = rankings(&entries);
        assert_eq!(found.len(), 3);
        let total = &found[0];
        assert_eq!((total.workload.as_deref(), total.incomplete, total.places.len()), (None, 1, 5));
        let names: Vec<(&str, f64)> =
            total.places.iter().map(|(name, merit)| (name.as_str(), *merit)).collect();
        assert_eq!(names, printed);
        let read = &found[1];
        assert_eq!((read.workload.as_deref(), read.places[0].0.as_str()), (Some("read"), "nodatacow"));
        assert_eq!(read.places[1].0, "base noop", "equals by name");
    }

    #[test]
    fn a_ratio_to_the_default_has_weights_and_an_interval() {
        let rates = |weight: f64, larger_is_worse: bool, factors: [f64; 3]| Quantity {
            weight,
            larger_is_worse,
            values: (0..).zip(factors.map(|factor| (100.0, 100.0 * factor))).collect(),
        };
        // ¾ of a rate that gains 8 % and ¼ of a latency that falls by 20 %.
        let gains = [rates(3.0, false, [1.08, 1.09, 1.07]), rates(1.0, true, [0.8; 3])];
        let found = over_default(&gains).unwrap();
        let rate = (1.08_f64.ln() + 1.09_f64.ln() + 1.07_f64.ln()) / 3.0;
        assert!((found.value - (0.75 * rate - 0.25 * 0.8_f64.ln())).abs() < 1e-12, "{found:?}");
        let interval = found.interval.unwrap();
        assert!(interval.low > 0.05 && interval.high < 0.2 && found.units() == 3, "{found:?}");
        // A seed that lacks a quantity is left out; what cannot be weighed is not.
        let mut lacking = gains.clone();
        lacking[1].values.remove(&1);
        assert_eq!(over_default(&lacking).unwrap().units(), 2);
        assert_eq!(over_default(&[rates(0.0, false, [1.0; 3])]), None);
        assert_eq!(over_default(&[]), None);
    }
}
