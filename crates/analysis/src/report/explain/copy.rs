//! What a trial's own fresh copy says of the copy that is estimated with.
//!
//! The estimated copy lies in reading order, which is a bound: a file system that lists its directories in
//! another order than that in which they were filled (ext4, by hashed names) does not reach it.

use fsage_model::quantity::as_f64;
use fsage_model::record::VolumePlaces;
use fsage_model::study::UNAGED;

use crate::report::text::nanoseconds;

/// Time to read the fresh copy that the volume's stage made, where it made one; of the copy itself its own.
fn copy_ns(volume: &VolumePlaces, all: &[VolumePlaces]) -> Option<u64> {
    Some(made(volume, all)?.explanation.tree.now_ns)
}

fn made<'a>(volume: &VolumePlaces, all: &'a [VolumePlaces]) -> Option<&'a VolumePlaces> {
    all.iter().find(|other| other.stage == volume.stage && other.volume == UNAGED)
}

/// The volumes, each with the time to read the copy that was made; it is noted with them where it is 5 % more
/// than was estimated.
#[must_use]
pub fn noted(mut volumes: Vec<VolumePlaces>) -> Vec<(VolumePlaces, Option<u64>)> {
    let copies: Vec<Option<u64>> = volumes.iter().map(|volume| copy_ns(volume, &volumes)).collect();
    let note = |volume: &VolumePlaces| {
        let tree = &made(volume, &volumes)?.explanation.tree;
        let far = tree.now_ns.saturating_mul(20) > tree.copied_ns.saturating_mul(21);
        far.then(|| match volume.volume.as_str() {
            UNAGED => "this is the fresh copy that the trial made: another would be no better".to_owned(),
            _ => format!(
                "the fresh copy that the trial made takes {}; the estimate of a copy in reading order is a lower bound",
                nanoseconds(as_f64(tree.now_ns))
            ),
        })
    };
    let notes: Vec<Option<String>> = volumes.iter().map(note).collect();
    for (volume, note) in volumes.iter_mut().zip(notes) {
        volume.explanation.notes.extend(note);
    }
    volumes.into_iter().zip(copies).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fsage_model::explanation::{Explanation, Item};

    use super::*;

    /// A volume whose tree takes so long to read, and would take 10 ms in a copy.
    fn volume(stage: &str, name: &str, now_ms: u64) -> VolumePlaces {
        let tree = Item {
            path: ".".to_owned(),
            files: 2,
            bytes: 16_384,
            extents: 2,
            now_ns: now_ms * 1_000_000,
            defragmented_ns: now_ms * 1_000_000,
            copied_ns: 10_000_000,
            cells: BTreeMap::new(),
        };
        let explanation = Explanation {
            medium: "hdd-7200".to_owned(),
            volume_bytes: 1 << 30,
            tree,
            directories: Vec::new(),
            files: Vec::new(),
            inter_file_score: 0.0,
            used: Vec::new(),
            notes: Vec::new(),
        };
        VolumePlaces { stage: stage.to_owned(), volume: name.to_owned(), explanation }
    }

    #[test]
    fn a_copy_that_was_made_is_told_where_it_is_no_bound() {
        let all = vec![volume("one", "full", 30), volume("one", UNAGED, 20), volume("two", "", 20)];
        assert_eq!(copy_ns(&all[0], &all), Some(all[1].explanation.tree.now_ns));
        assert_eq!((copy_ns(&all[1], &all), copy_ns(&all[2], &all)), (copy_ns(&all[0], &all), None));
        let notes: Vec<usize> = noted(all).iter().map(|(volume, _)| volume.explanation.notes.len()).collect();
        assert_eq!(notes, [1, 1, 0]);
        let near = noted(vec![volume("one", "full", 30), volume("one", UNAGED, 10)]);
        assert!(near.iter().all(|(volume, _)| volume.explanation.notes.is_empty()));
    }
}
