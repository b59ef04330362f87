//! `histogram`: files are made and deleted until sizes, depths and ages are those of given histograms, after
//! Geriatrix (Kadekodi, Nagarajan, Ganger & Gibson 2018, "Geriatrix: Aging what you see and what you don't
//! see", ATC '18). Its profile files are read as they are; unlike it, every file is really written.
//!
//! While there is room below the target a file is made, else one is deleted. The rows of a new file's size
//! and depth are drawn from the histograms, but not rows that have too many already; a file that goes is any
//! of the age row with most too many. Age is relative to the time since the first file, as in the paper: so
//! ages come near their histogram only after the volume has been written many times, and how often, the
//! histogram decides: a youngest row up to a share `a` of the time with a share `f` of the files needs
//! `2 f / a` times as many operations as there are files.
//!
//! A histogram with ever more files towards the oldest rows cannot be met, because no file is made old; it
//! ends after its rounds then. Each round writes a share of the files' bytes again. Files that find no room,
//! 16 in a row with a file deleted after each, end it where nothing is left to delete.

mod age;
mod rows;

use fsage_model::operation::{Operation, OperationKind, Outcome};
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::workload::HistogramSpec;
use fsage_model::workload::WorkloadError;

use self::age::Ages;
use self::rows::Row;
use super::population::{PATIENCE, Population, is_shortage};
use super::room::Room;
use super::{Feedback, Part, ResolveContext, Workload};
use crate::distribution::Random;
use crate::tree::Directory;

/// Draws of a row before the one that lacks most is taken.
const DRAWS: u32 = 4;

/// A histogram that is to be met by what is made.
#[derive(Debug)]
struct Rows<T> {
    rows: Vec<Row<T>>,
    /// Files in each.
    counts: Vec<u64>,
}

impl<T> Rows<T> {
    fn new(rows: Vec<Row<T>>) -> Self {
        Self { counts: vec![0; rows.len()], rows }
    }

    /// Files that a row lacks, of `live` and the one that is to be made.
    fn lacks(&self, row: usize, live: u64) -> f64 {
        self.rows[row].share * (as_f64(live) + 1.0) - as_f64(self.counts[row])
    }

    /// A row for a new file.
    fn draw(&self, live: u64, random: &mut Random) -> usize {
        for _ in 0..DRAWS {
            let mut share = random.unit();
            let row = self.rows.iter().position(|row| {
                share -= row.share;
                share < 0.0
            });
            if let Some(row) = row.filter(|row| self.lacks(*row, live) > 0.0) {
                return row;
            }
        }
        let lacks = |row: &usize| self.lacks(*row, live);
        (0..self.rows.len()).max_by(|a, b| lacks(a).total_cmp(&lacks(b))).unwrap_or(0)
    }

    fn counts(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.counts.iter().copied().zip(self.rows.iter().map(|row| row.share))
    }
}

/// Share of `live` files that would have to be in another row.
fn distance(counts: impl Iterator<Item = (u64, f64)>, live: u64) -> f64 {
    counts.map(|(count, share)| (as_f64(count) / as_f64(live.max(1)) - share).abs()).sum::<f64>() / 2.0
}

/// The file to be made next.
#[derive(Debug, Clone, Copy)]
struct Planned {
    bytes: u64,
    size: usize,
    depth: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fill,
    /// So many bytes of the round are still to be written.
    Replace {
        left: u64,
    },
    Finished,
}

/// The workload `histogram` of one thread.
#[derive(Debug)]
pub struct Histogram {
    population: Population,
    random: Random,
    sizes: Rows<(u64, u64)>,
    depths: Rows<(u32, u32)>,
    /// First directory of each depth row, and how many there are.
    homes: Vec<(u32, u32)>,
    ages: Ages,
    room: Room,
    replace: f64,
    rounds: u64,
    accuracy: f64,
    planned: Option<Planned>,
    /// Age row and position of the file that is being deleted.
    leaving: (usize, usize),
    phase: Phase,
    round: u64,
    shortages: u32,
    shortage: bool,
}

impl Histogram {
    /// Validates a description and makes one thread's workload of it. Every thread has the directories that
    /// are asked for.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn resolve(
        spec: &HistogramSpec,
        thread: u32,
        threads: u32,
        seed: u64,
        context: &ResolveContext,
    ) -> Result<Self, WorkloadError> {
        let sizes = rows::sizes(spec, context.volume_bytes)?;
        let depths = rows::depths(spec)?;
        let ages = Ages::new(rows::ages(spec)?);
        let target = WorkloadError::share("target", spec.target)?;
        if !(spec.replace > 0.0 && spec.replace <= 100.0) {
            return Err(WorkloadError::range("replace", spec.replace, "above 0 and at most 100"));
        }
        if !(0.0..=1.0).contains(&spec.accuracy) {
            return Err(WorkloadError::range("accuracy", spec.accuracy, "in 0..=1"));
        }
        let mut random = Random::new(seed, thread);
        let (tree, homes) = tree(&depths, &mut random);
        Ok(Self {
            population: Population::with(thread, tree, context.write_mode).without_list(),
            random,
            sizes: Rows::new(sizes),
            depths: Rows::new(depths),
            homes,
            ages,
            room: Room::new(target, threads),
            replace: spec.replace,
            rounds: WorkloadError::within("rounds", spec.rounds, 1..=u64::MAX)?,
            accuracy: spec.accuracy,
            planned: None,
            leaving: (0, 0),
            phase: Phase::Fill,
            round: 0,
            shortages: 0,
            shortage: false,
        })
    }

    /// Files and directories.
    pub(super) const fn population(&self) -> &Population {
        &self.population
    }

    /// How far the worst of the histograms is from being met.
    fn worst(&self) -> f64 {
        let live = self.ages.live();
        let all = [
            distance(self.sizes.counts(), live),
            distance(self.depths.counts(), live),
            distance(self.ages.counts(), live),
        ];
        all.into_iter().fold(0.0, f64::max)
    }

    fn begin_round(&mut self) {
        let met = self.round > 0 && self.worst() <= self.accuracy;
        if met || self.round == self.rounds {
            self.phase = Phase::Finished;
            return;
        }
        self.round += 1;
        let bytes = as_f64(self.population.model().size_bytes()) * self.replace;
        self.phase = Phase::Replace { left: to_u64(bytes).max(1) };
    }

    fn plan(&mut self) -> Planned {
        if let Some(planned) = self.planned {
            return planned;
        }
        let live = self.ages.live();
        let size = self.sizes.draw(live, &mut self.random);
        let depth = self.depths.draw(live, &mut self.random);
        let (least, most) = self.sizes.rows[size].what;
        let bytes = least + self.random.below(most - least + 1);
        let planned = Planned { bytes, size, depth };
        self.planned = Some(planned);
        planned
    }

    fn delete(&mut self) -> Option<Operation> {
        let (row, position, aged) = self.ages.pick(&mut self.random)?;
        self.leaving = (row, position);
        self.population.delete(aged.file)
    }

    fn create(&mut self, planned: Planned) -> Operation {
        let (first, count) = self.homes[planned.depth];
        let directory = first + u32::try_from(self.random.below(count.into())).unwrap_or(0);
        self.population.create(directory, planned.bytes)
    }

    fn created(&mut self, operation: &Operation) {
        let Some(planned) = self.planned.take() else { return };
        self.ages.add(operation.file, planned.size, planned.depth);
        self.sizes.counts[planned.size] += 1;
        self.depths.counts[planned.depth] += 1;
        self.shortages = 0;
        if let Phase::Replace { left } = &mut self.phase {
            *left = left.saturating_sub(operation.length());
        }
    }
}

/// The directories that a histogram of depths asks for, and for each of its rows the first one and their
/// number. Each is below one of the level above, drawn at random; levels that are not in the histogram have
/// one.
fn tree(depths: &[Row<(u32, u32)>], random: &mut Random) -> (Vec<Directory>, Vec<(u32, u32)>) {
    let mut all = Vec::new();
    let mut homes = Vec::new();
    let (mut first, mut count, mut level) = (0, 1, 0);
    for row in depths {
        let (depth, directories) = row.what;
        while level < depth {
            level += 1;
            let above = (first, count);
            first = u32::try_from(all.len() + 1).unwrap_or(u32::MAX);
            count = if level == depth { directories.max(1) } else { 1 };
            for number in first..first + count {
                let parent = above.0 + u32::try_from(random.below(above.1.into())).unwrap_or(0);
                all.push(Directory { number, parent });
            }
        }
        homes.push((first, count));
    }
    (all, homes)
}

impl Workload for Histogram {
    fn next(&mut self, feedback: &Feedback) -> Option<Operation> {
        match self.phase {
            Phase::Finished => return None,
            Phase::Replace { left: 0 } => {
                self.begin_round();
                return None;
            }
            Phase::Fill | Phase::Replace { .. } => {}
        }
        let planned = self.plan();
        let room = self.room.bytes(feedback, self.population.model().block_bytes());
        if room < as_f64(planned.bytes) || self.shortage {
            if self.phase == Phase::Fill {
                self.begin_round();
                return None;
            }
            if let Some(operation) = self.delete() {
                return Some(operation);
            }
            if self.shortages >= PATIENCE {
                self.phase = Phase::Finished;
                return None;
            }
        }
        Some(self.create(planned))
    }

    fn release(&mut self) -> Option<Operation> {
        self.delete()
    }

    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        self.population.completed(operation, outcome);
        self.shortage = operation.kind() == OperationKind::Create && is_shortage(outcome);
        match (operation.kind(), outcome.errno) {
            (OperationKind::Create, 0) => self.created(operation),
            (OperationKind::Create, _) => {
                self.shortages += 1;
                if self.ages.live() == 0 {
                    // It may be too large for the volume.
                    self.planned = None;
                }
            }
            (OperationKind::Delete, 0) => {
                let (row, position) = self.leaving;
                if let Some(gone) = self.ages.remove(row, position) {
                    self.sizes.counts[gone.size] -= 1;
                    self.depths.counts[gone.depth] -= 1;
                }
            }
            _ => {}
        }
    }

    fn part(&self) -> Part {
        Part { round: self.round, makes_room: false }
    }

    fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::simulated::Simulated;
    use crate::workload::{AnyWorkload, resolve};
    use fsage_model::load::WriteMode;
    use fsage_model::size::Bytes;
    use fsage_model::workload::{HistogramSource, WorkloadSpec};

    const VOLUME: u64 = 128 << 20;

    fn spec() -> HistogramSpec {
        let sizes = [(4, 4.0), (16, 3.0), (64, 2.0), (256, 1.0)];
        let rows = sizes.map(|(kibibytes, weight)| (Bytes(kibibytes << 10), weight)).to_vec();
        HistogramSpec { sizes: HistogramSource::Rows { rows }, rounds: 40, ..HistogramSpec::default() }
    }

    fn context() -> ResolveContext {
        ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered }
    }

    fn workload(spec: &HistogramSpec, seed: u64) -> AnyWorkload {
        resolve(&WorkloadSpec::Histogram(spec.clone()), 0, 1, seed, &context()).unwrap()
    }

    #[test]
    fn it_ends_when_sizes_depths_and_ages_are_met() {
        let mut workload = workload(&spec(), 1);
        let mut volume = Simulated::new(VOLUME);
        volume.look_every = 16;
        let done = volume.drive(&mut workload);
        let AnyWorkload::Histogram(histogram) = &workload else { unreachable!() };
        assert!(histogram.worst() <= 0.05, "{}", histogram.worst());
        let rounds = workload.part().round;
        assert!((1..40).contains(&rounds), "{rounds}");
        let files = as_f64(workload.files());
        let small = workload.live_files().filter(|file| file.size <= 4096).count();
        assert!((as_f64(u64::try_from(small).unwrap()) / files - 0.4).abs() < 0.02, "{small} of {files}");
        let places: Vec<Directory> = workload.initial_directories();
        let depth = |mut number: u32| {
            let mut depth = 0;
            while number != 0 {
                number = places[fsage_model::quantity::index(number - 1)].parent;
                depth += 1;
            }
            depth
        };
        let third = workload.live_files().filter(|file| depth(file.place.directory) == 3).count();
        assert!(
            (as_f64(u64::try_from(third).unwrap()) / files - 5.0 / 16.0).abs() < 0.02,
            "{third} of {files}"
        );
        // Ages from the operations themselves.
        let born: std::collections::HashMap<u64, usize> = done
            .iter()
            .enumerate()
            .filter(|(_, (_, o, _))| o.kind() == OperationKind::Create)
            .map(|(n, (_, o, _))| (o.file, n))
            .collect();
        let old = workload.live_files().filter(|file| born[&file.file] * 10 < done.len() * 4).count();
        assert!((as_f64(u64::try_from(old).unwrap()) / files - 0.15).abs() < 0.03, "{old} of {files}");
        assert!((volume.used_share() - 0.8).abs() < 0.01, "{}", volume.used_share());
    }

    #[test]
    fn use_is_held() {
        let (mut workload, mut volume) =
            (workload(&HistogramSpec { accuracy: 0.0, ..spec() }, 5), Simulated::new(VOLUME));
        volume.look_every = 16;
        while workload.part().round == 0 {
            volume.drive_for(&mut workload, 100);
        }
        for _ in 0..200 {
            volume.drive_for(&mut workload, 50);
            assert!((volume.used_share() - 0.8).abs() < 0.01, "{}", volume.used_share());
        }
    }

    #[test]
    fn what_cannot_be_met_ends_after_its_rounds() {
        let ages = HistogramSource::Rows { rows: vec![(90.0, 1.0), (100.0, 9.0)] };
        let mut workload = workload(&HistogramSpec { ages, rounds: 3, ..spec() }, 1);
        Simulated::new(VOLUME).drive(&mut workload);
        assert_eq!(workload.part().round, 3);
    }

    #[test]
    fn one_seed_is_one_sequence() {
        let operations = |seed| {
            let done = Simulated::new(VOLUME).drive_for(&mut workload(&spec(), seed), 10_000);
            done.into_iter().map(|(_, operation, _)| operation).collect::<Vec<_>>()
        };
        assert_eq!(operations(1), operations(1));
        assert_ne!(operations(1), operations(2));
    }

    #[test]
    fn a_full_volume_is_survived() {
        let mut workload = workload(&HistogramSpec { rounds: 2, accuracy: 0.0, ..spec() }, 1);
        let done = Simulated::with_room(VOLUME, VOLUME / 4).drive(&mut workload);
        let failed = done.iter().filter(|(.., outcome)| outcome.errno != 0).count();
        assert!(failed > 10 && workload.part().round == 2, "{failed}");
        let mut nothing = self::workload(&spec(), 1);
        let done = Simulated::with_room(VOLUME, 0).drive(&mut nothing);
        assert!(done.len() < 100, "{}", done.len());
    }

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let refused = |spec: HistogramSpec, key: &str| {
            let error = resolve(&WorkloadSpec::Histogram(spec), 0, 2, 1, &context()).err().expect(key);
            assert_eq!(error.key(), key, "{error}");
        };
        let sizes = |rows: &[(u64, f64)]| {
            let rows = rows.iter().map(|(size, weight)| (Bytes(*size), *weight)).collect();
            HistogramSpec { sizes: HistogramSource::Rows { rows }, ..spec() }
        };
        let ages = |rows: &[(f64, f64)]| HistogramSpec {
            ages: HistogramSource::Rows { rows: rows.to_vec() },
            ..spec()
        };
        let depths = |rows: &[(u32, f64, u32)]| HistogramSpec {
            depths: HistogramSource::Rows { rows: rows.to_vec() },
            ..spec()
        };
        refused(sizes(&[]), "sizes.rows");
        refused(sizes(&[(10, 1.0), (10, 1.0)]), "sizes.rows[1]");
        refused(sizes(&[(1 << 40, 1.0)]), "sizes.rows[0]");
        refused(sizes(&[(10, -1.0)]), "sizes.rows[0]");
        refused(ages(&[(2.0, 1.0), (1.0, 1.0)]), "ages.rows[1]");
        refused(ages(&[(2.0, 0.0)]), "ages.rows[0]");
        refused(depths(&[(3, 1.0, 1), (3, 1.0, 1)]), "depths.rows[1]");
        refused(depths(&[(3, 1.0, u32::MAX)]), "depths.rows[0]");
        refused(HistogramSpec { target: 0.0, ..spec() }, "target");
        refused(HistogramSpec { replace: f64::NAN, ..spec() }, "replace");
        refused(HistogramSpec { rounds: 0, ..spec() }, "rounds");
        refused(HistogramSpec { accuracy: 2.0, ..spec() }, "accuracy");
    }
}
