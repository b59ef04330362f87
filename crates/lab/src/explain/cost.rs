//! What reading costs on a medium's model.

use fsage_disk::media::Resolve as _;
use fsage_disk::media::{Model as _, Partition};
use fsage_disk::request::{Operation, Request};
use fsage_engine::layout::PlacedFile;
use fsage_model::medium::{MediumError, MediumSpec};
use fsage_model::quantity::{share, sum};

/// Bytes of a request: what the kernel reads ahead (`read_ahead_kb`, 128 by default).
const REQUEST: u64 = 128 << 10;

/// Writes that go to a medium together while it is filled.
const QUEUE: usize = 32;

/// Nanoseconds of each file, in three layouts.
#[derive(Debug)]
pub(super) struct Times {
    pub now: Vec<u64>,
    pub defragmented: Vec<u64>,
    pub copied: Vec<u64>,
}

type Extents = Vec<(u64, u64)>;

impl Times {
    /// Reads files in their order.
    pub(super) fn of(
        files: &[&PlacedFile],
        volume_bytes: u64,
        medium: &MediumSpec,
    ) -> Result<Self, MediumError> {
        let now: Vec<Extents> = files.iter().map(|file| file.extents.clone()).collect();
        let length = |extents: &Extents| sum(extents.iter().map(|(_, length)| length));
        let first = |extents: &Extents| extents.first().map_or(0, |(start, _)| *start);
        let within = |start: u64, length: u64| (start.min(volume_bytes.saturating_sub(length)), length);
        let defragmented: Vec<Extents> =
            now.iter().map(|extents| vec![within(first(extents), length(extents))]).collect();
        // The copy begins where the tree's first data is.
        let mut at = now.iter().flatten().map(|(start, _)| *start).min().unwrap_or(0);
        let all = sum(now.iter().flatten().map(|(_, length)| length));
        at = at.min(volume_bytes.saturating_sub(all));
        let copied: Vec<Extents> = now
            .iter()
            .map(|extents| {
                let place = within(at, length(extents));
                at = at.saturating_add(place.1);
                vec![place]
            })
            .collect();
        let drive = medium.holding(volume_bytes)?;
        let read = |layout: &[Extents]| Ok(read(drive.resolve(volume_bytes)?, layout));
        Ok(Self { now: read(&now)?, defragmented: read(&defragmented)?, copied: read(&copied)? })
    }
}

/// Time of each file, one after the other.
fn read(mut medium: Partition, layout: &[Extents]) -> Vec<u64> {
    let mut clock = fill(&mut medium, layout);
    layout
        .iter()
        .map(|extents| {
            let begun = clock;
            for request in requests(Operation::Read, extents) {
                let mut done = [clock];
                medium.serve(clock, &[request], &mut done);
                clock = clock.max(done[0]);
            }
            clock - begun
        })
        .collect()
}

/// Writes everything first where the medium's reads depend on how it was written (flash: unmapped pages are
/// not read at all); gives the clock.
fn fill(medium: &mut Partition, layout: &[Extents]) -> u64 {
    if !medium.reads_follow_writes() {
        return 0;
    }
    let mut clock = 0;
    let mut serve = |medium: &mut Partition, batch: &[Request]| {
        let mut done = vec![clock; batch.len()];
        medium.serve(clock, batch, &mut done);
        clock = done.into_iter().fold(clock, u64::max);
    };
    for extents in layout {
        let writes: Vec<Request> = requests(Operation::Write, extents).collect();
        writes.chunks(QUEUE).for_each(|batch| serve(medium, batch));
    }
    serve(medium, &[Request::new(Operation::Flush, 0, 0)]);
    clock
}

fn requests(operation: Operation, extents: &[(u64, u64)]) -> impl Iterator<Item = Request> + '_ {
    extents.iter().flat_map(move |&(start, length)| {
        let end = start.saturating_add(length);
        (start..end)
            .step_by(usize::try_from(REQUEST).unwrap_or(usize::MAX))
            .map(move |at| Request::new(operation, at, REQUEST.min(end - at)))
    })
}

/// Share of files with extents (but the first) that begin where the one before them ends: files read one
/// after the other lie next to each other (inter-file fragmentation: Conway et al. 2017, §2). 1 for a single
/// file.
pub(super) fn inter_file_score(files: &[&PlacedFile]) -> f64 {
    let lie = |file: &&PlacedFile| {
        let (start, _) = file.extents.first()?;
        file.extents.last().map(|(last, length)| (*start, last.saturating_add(*length)))
    };
    let ends: Vec<(u64, u64)> = files.iter().filter_map(lie).collect();
    let steps = ends.windows(2).map(|pair| pair[0].1 == pair[1].0);
    let (all, adjacent) = steps.fold((0, 0), |(all, adjacent), near| (all + 1, adjacent + u64::from(near)));
    if all == 0 { 1.0 } else { share(adjacent, all) }
}
