//! Metrics of a `lockstep` stage: each volume's own, and what they cost against each other.
//!
//! What belongs to many rounds has one sample a round or a look, of the second half of the run only: by then
//! what the filling left has been replaced.

use std::collections::BTreeMap;

use fsage_model::load::out_of_space;
use fsage_model::lockstep::{Round, VolumeRound};
use fsage_model::measure::{MeasureResult, model_unit};
use fsage_model::metric;
use fsage_model::quantity::{as_f64, share};
use fsage_model::record::{Look, VolumeLook};
use fsage_model::study::UNAGED;

use super::{BETTER, List, WORSE, unit_of, worse};

/// Share of the rounds after the first that count as early.
const EARLY: f64 = 0.1;

/// Everything a `lockstep` stage tells.
pub(super) fn push(list: &mut List<'_>, volumes: &[String], rounds: &[Round], looks: &[Look]) {
    let last = rounds.last().map_or(0, |round| round.round);
    let looks: Vec<&Look> = looks.iter().filter(|look| look.round > 0 && 2 * look.round >= last).collect();
    for (index, name) in volumes.iter().enumerate() {
        writing(list, name, index, rounds);
        let own: Vec<&VolumeLook> = looks.iter().filter_map(|look| look.volumes.get(index)).collect();
        measured(list, name, &own);
        state(list, name, &own);
    }
    // Three states of one tree: what use adds to a fresh copy, and what fullness adds to use.
    let [full, empty, rest @ ..] = volumes else { return };
    against(list, (full, 0), (empty, 1), &looks);
    writing_against(list, (full, 0), (empty, 1), rounds);
    if let Some(unaged) = rest.last().filter(|last| *last == UNAGED) {
        let copy = volumes.len() - 1;
        against(list, (empty, 1), (unaged, copy), &looks);
        against(list, (full, 0), (unaged, copy), &looks);
        use_against_fullness(list, copy, &looks);
    }
}

/// How often the leader had no room: 0 where it never became full.
pub(super) fn no_space(list: &mut List<'_>, volumes: &[String], failed: &BTreeMap<String, u64>) {
    let Some(leader) = volumes.first() else { return };
    let count = as_f64(out_of_space(failed));
    list.one(&metric::of_volume(leader, metric::NO_SPACE), "count", count, None);
}

/// Rounds of the second half, with what volume `index` took.
fn late(rounds: &[Round], index: usize) -> impl Iterator<Item = &VolumeRound> {
    let last = rounds.last().map_or(0, |round| round.round);
    rounds
        .iter()
        .filter(move |round| round.round > 0 && 2 * round.round > last)
        .filter_map(move |round| round.volumes.get(index))
}

fn unit(model_time: bool) -> String {
    if model_time { model_unit("s/GiB") } else { "s/GiB".to_owned() }
}

/// Cost of writing: late in the run, and late against early.
fn writing(list: &mut List<'_>, volume: &str, index: usize, rounds: &[Round]) {
    let costs: Vec<f64> = late(rounds, index).filter_map(|volume| volume.write.seconds_per_gib()).collect();
    let Some(sample) = late(rounds, index).next() else { return };
    let used = late(rounds, index).last().map_or(0.0, |last| share(last.used_bytes, last.total_bytes));
    list.one(&metric::of_volume(volume, metric::VOLUME_USE_SHARE), "share", used, None);
    if costs.is_empty() {
        return;
    }
    list.push(&metric::of_volume(volume, metric::WRITE), &unit(sample.model_time), costs.clone(), WORSE);
    let last = rounds.last().map_or(0, |round| round.round);
    let early: Vec<f64> = rounds
        .iter()
        .filter(|round| round.round > 0 && as_f64(round.round) <= (as_f64(last) * EARLY).max(1.0))
        .filter_map(|round| round.volumes.get(index)?.write.seconds_per_gib())
        .collect();
    let count = u32::try_from(early.len()).unwrap_or(u32::MAX);
    let early = early.iter().sum::<f64>() / f64::from(count.max(1));
    if early > 0.0 {
        let ratios = costs.iter().map(|late| late / early).collect();
        list.push(&metric::of_volume(volume, metric::WRITE_LATE_OVER_EARLY), "ratio", ratios, WORSE);
    }
}

/// Every number of every measure, one sample a look.
fn measured(list: &mut List<'_>, volume: &str, looks: &[&VolumeLook]) {
    let Some(last) = looks.last() else { return };
    for (position, result) in last.measures.iter().enumerate() {
        list.work = Some(result.work());
        for (index, metric) in result.metrics.iter().enumerate() {
            let number = metric::of_measure(&result.name, index, &metric.name);
            let samples = looks
                .iter()
                .filter_map(|look| {
                    look.measures.get(position)?.metrics.iter().find(|m| m.name == metric.name)
                })
                .map(|metric| metric.value)
                .collect();
            list.push(&metric::of_volume(volume, &number), unit_of(metric), samples, worse(metric));
        }
    }
    list.work = None;
}

/// Files and free space, one sample a look.
fn state(list: &mut List<'_>, volume: &str, looks: &[&VolumeLook]) {
    type Pick = fn(&VolumeLook) -> Option<f64>;
    let parts: [(&str, &str, Option<bool>, Pick); 5] = [
        (metric::EXTENTS_PER_FILE, "count", WORSE, |look| Some(look.layout.extents_per_file)),
        (metric::LAYOUT_SCORE, "share", BETTER, |look| Some(look.layout.layout_score)),
        (metric::INTER_FILE_SCORE, "share", BETTER, |look| look.layout.inter_file_score),
        (metric::FREE_EXTENTS, "count", WORSE, |look| Some(as_f64(look.free_space.as_ref()?.extents))),
        (metric::FREE_LARGEST_BYTES, "bytes", BETTER, |look| {
            Some(as_f64(look.free_space.as_ref()?.largest_bytes))
        }),
    ];
    for (part, unit, larger_is_worse, pick) in parts {
        let samples: Vec<f64> = looks.iter().filter_map(|look| pick(look)).collect();
        if !samples.is_empty() {
            list.push(&metric::of_volume(volume, part), unit, samples, larger_is_worse);
        }
    }
}

/// What a measure found on a volume at a look.
fn result(look: &Look, volume: usize, measure: usize) -> Option<&MeasureResult> {
    look.volumes.get(volume)?.measures.get(measure)
}

/// Ratios of a measure between two volumes, look by look; where the volumes did different work there is none.
fn ratios(looks: &[&Look], measure: usize, above: usize, below: usize) -> Vec<f64> {
    let ratio = |look: &&Look| {
        let (above, below) = (result(look, above, measure)?, result(look, below, measure)?);
        let same = above.work().differs(&below.work()).is_none();
        let (above, below) = (above.metrics.first()?.value, below.metrics.first()?.value);
        (same && below > 0.0).then(|| above / below)
    };
    looks.iter().filter_map(ratio).collect()
}

fn measure_names<'a>(looks: &[&'a Look]) -> Vec<&'a str> {
    let first = looks.first().and_then(|look| look.volumes.first());
    first.map_or_else(Vec::new, |volume| volume.measures.iter().map(|result| result.name.as_str()).collect())
}

type Volume<'a> = (&'a str, usize);

fn against(list: &mut List<'_>, above: Volume<'_>, below: Volume<'_>, looks: &[&Look]) {
    for (measure, what) in measure_names(looks).into_iter().enumerate() {
        let samples = ratios(looks, measure, above.1, below.1);
        if !samples.is_empty() {
            list.push(&metric::over(above.0, below.0, what), "ratio", samples, None);
        }
    }
}

fn writing_against(list: &mut List<'_>, above: Volume<'_>, below: Volume<'_>, rounds: &[Round]) {
    let samples: Vec<f64> = late(rounds, above.1)
        .zip(late(rounds, below.1))
        .filter_map(|(above, below)| {
            let (above, below) = (above.write.seconds_per_gib()?, below.write.seconds_per_gib()?);
            (below > 0.0).then(|| above / below)
        })
        .collect();
    if !samples.is_empty() {
        list.push(&metric::over(above.0, below.0, metric::WRITE), "ratio", samples, None);
    }
}

/// Whether use costs more than fullness: (empty ÷ unaged) ÷ (full ÷ empty).
fn use_against_fullness(list: &mut List<'_>, copy: usize, looks: &[&Look]) {
    for (measure, what) in measure_names(looks).into_iter().enumerate() {
        // Each look by itself: one that lacks a side has no sample.
        let one = |look: &&Look| {
            let (usage, fullness) = (ratios(&[look], measure, 1, copy), ratios(&[look], measure, 0, 1));
            Some(usage.first()? / fullness.first().filter(|ratio| **ratio > 0.0)?)
        };
        let samples: Vec<f64> = looks.iter().filter_map(one).collect();
        if !samples.is_empty() {
            list.push(&metric::use_over_fullness(what), "ratio", samples, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::layout::LayoutSummary;
    use fsage_model::lockstep::PartCost;
    use fsage_model::measure::MeasureMetric;

    use super::*;
    use fsage_model::record::{Metric, StageRecord};

    fn volume(seconds: u64) -> VolumeRound {
        let write =
            PartCost { bytes_written: 1 << 30, elapsed_ns: seconds * 1_000_000_000, ..PartCost::default() };
        VolumeRound { write, used_bytes: 9, total_bytes: 10, model_time: true, ..VolumeRound::default() }
    }

    fn look(round: u64, grep: [f64; 3]) -> Look {
        let volumes = ["full", "empty", "unaged"].iter().zip(grep).map(|(name, value)| VolumeLook {
            name: (*name).to_owned(),
            layout: Box::<LayoutSummary>::default(),
            free_space: None,
            measures: vec![MeasureResult {
                name: "grep".into(),
                metrics: vec![MeasureMetric::cost("time_per_du_gib", "model s/GiB", value)],
                ..MeasureResult::default()
            }],
        });
        Look { round, digest: String::new(), volumes: volumes.collect() }
    }

    fn metrics() -> Vec<Metric> {
        let rounds = (0..=20)
            .map(|round| Round {
                round,
                operations: round,
                files: 1,
                live_bytes: 1,
                volumes: vec![volume(if round <= 2 { 10 } else { 14 }), volume(10)],
            })
            .collect();
        let stage = StageRecord::Lockstep {
            name: "lockstep".into(),
            volumes: ["full", "empty", "unaged"].map(str::to_owned).to_vec(),
            rounds,
            looks: vec![look(0, [9.0, 9.0, 9.0]), look(10, [12.0, 6.0, 2.0]), look(20, [15.0, 5.0, 1.0])],
            digest: String::new(),
            failed: BTreeMap::from([("ENOSPC".to_owned(), 7)]),
            resumed_after: Vec::new(),
        };
        super::super::all(&[stage])
    }

    #[test]
    fn volumes_stand_against_each_other_look_by_look() {
        let metrics = metrics();
        let samples = |name: &str| {
            let found = metrics.iter().find(|metric| metric.name == name).expect(name);
            (found.samples.clone(), found.unit.clone())
        };
        assert_eq!(samples("full_over_empty.grep"), (vec![2.0, 3.0], "ratio".to_owned()));
        assert_eq!(samples("empty_over_unaged.grep").0, [3.0, 5.0]);
        assert_eq!(samples("full_over_unaged.grep").0, [6.0, 15.0]);
        assert_eq!(samples("use_over_fullness.grep").0, [1.5, 5.0 / 3.0]);
        assert_eq!(samples("full.grep"), (vec![12.0, 15.0], "model s/GiB".to_owned()));
        assert_eq!(samples("full.write"), (vec![14.0; 10], "model s/GiB".to_owned()));
        assert_eq!(samples("full_over_empty.write").0, [1.4; 10]);
        assert_eq!(samples("full.write_late_over_early").0, [1.4; 10]);
        assert_eq!(samples("empty.write_late_over_early").0, [1.0; 10]);
        assert_eq!(samples("full.use_share").0, [0.9]);
        assert_eq!(samples("full.no_space").0, [7.0]);
    }
}
