//! Files by age: which row of the histogram each is in, as time continues.
//!
//! Time is counted in files made and deleted, and age is relative: a file's share of the time since the first
//! (Kadekodi et al. 2018, §3). A file only moves to older rows. Rows are queues with the oldest file in
//! front, so that moving costs nothing for those that stay; what was deleted in the middle leaves a gap that
//! is cleared when gaps outnumber files.

use std::collections::VecDeque;

use fsage_model::quantity::as_f64;

use super::rows::Row;
use crate::distribution::Random;

/// A file of the histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aged {
    pub file: u64,
    /// Time when it was made.
    pub born: u64,
    /// Row of its size.
    pub size: usize,
    /// Row of its depth.
    pub depth: usize,
}

#[derive(Debug)]
struct Queue {
    /// Share of the time up to which a file belongs here.
    upto: f64,
    share: f64,
    files: VecDeque<Option<Aged>>,
    live: u64,
}

/// The files by row.
#[derive(Debug)]
pub struct Ages {
    queues: Vec<Queue>,
    live: u64,
    now: u64,
}

impl Ages {
    pub fn new(rows: Vec<Row<f64>>) -> Self {
        let queue =
            |row: Row<f64>| Queue { upto: row.what, share: row.share, files: VecDeque::new(), live: 0 };
        Self { queues: rows.into_iter().map(queue).collect(), live: 0, now: 0 }
    }

    pub const fn live(&self) -> u64 {
        self.live
    }

    /// How many files are in each row, with the share there expected to be.
    pub fn counts(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.queues.iter().map(|queue| (queue.live, queue.share))
    }

    /// Adds a file that was made now.
    pub fn add(&mut self, file: u64, size: usize, depth: usize) {
        let born = self.now;
        self.live += 1;
        self.queues[0].live += 1;
        self.queues[0].files.push_back(Some(Aged { file, born, size, depth }));
        self.tick();
    }

    /// A file of the row that has most too many: its row, its position there, and what it is.
    pub fn pick(&self, random: &mut Random) -> Option<(usize, usize, Aged)> {
        let live = as_f64(self.live);
        let excess = |queue: &Queue| as_f64(queue.live) - queue.share * live;
        let (row, queue) = self
            .queues
            .iter()
            .enumerate()
            .filter(|(_, queue)| queue.live > 0)
            .max_by(|(_, a), (_, b)| excess(a).total_cmp(&excess(b)))?;
        let count = u64::try_from(queue.files.len()).unwrap_or(u64::MAX);
        loop {
            // At least half of them are files.
            let position = usize::try_from(random.below(count)).unwrap_or(0);
            if let Some(Some(aged)) = queue.files.get(position) {
                return Some((row, position, *aged));
            }
        }
    }

    /// Takes out what [`Ages::pick`] gave, nothing having changed since.
    pub fn remove(&mut self, row: usize, position: usize) -> Option<Aged> {
        let queue = &mut self.queues[row];
        let gone = queue.files.get_mut(position)?.take()?;
        queue.live -= 1;
        self.live -= 1;
        let gaps = queue.files.len() - usize::try_from(queue.live).unwrap_or(0);
        if 2 * gaps > queue.files.len() {
            queue.files.retain(Option::is_some);
        }
        self.tick();
        Some(gone)
    }

    /// Moves what is too old for its row.
    fn tick(&mut self) {
        self.now += 1;
        let now = as_f64(self.now);
        for row in 0..self.queues.len() - 1 {
            let [queue, older] = &mut self.queues[row..row + 2] else { return };
            while let Some(front) = queue.files.front() {
                if let Some(aged) = front {
                    if as_f64(self.now - aged.born) <= queue.upto * now {
                        break;
                    }
                    older.files.push_back(Some(*aged));
                    older.live += 1;
                    queue.live -= 1;
                }
                queue.files.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_grow_older_by_their_share_of_the_time() {
        let rows = [(0.25, 0.5), (0.5, 0.3), (1.0, 0.2)].map(|(what, share)| Row { what, share });
        let mut ages = Ages::new(rows.to_vec());
        let mut random = Random::new(1, 0);
        let mut births = std::collections::BTreeMap::new();
        for file in 0..5000_u64 {
            births.insert(file, ages.now);
            ages.add(file, 0, 0);
            if file % 3 != 0 {
                let (row, position, aged) = ages.pick(&mut random).unwrap();
                assert_eq!(ages.remove(row, position), Some(aged));
                assert_eq!(births.remove(&aged.file), Some(aged.born), "file {}", aged.file);
            }
        }
        assert_eq!(ages.live(), u64::try_from(births.len()).unwrap());
        let mut wanted = [0_u64; 3];
        for born in births.values() {
            let age = as_f64(ages.now - born) / as_f64(ages.now);
            wanted[usize::from(age > 0.25) + usize::from(age > 0.5)] += 1;
        }
        let found: Vec<u64> = ages.counts().map(|(count, _)| count).collect();
        assert_eq!(found, wanted);
    }
}
