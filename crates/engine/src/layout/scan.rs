//! How the files of a tree lie on the volume.
//!
//! The layout score follows Smith & Seltzer 1997 ("File system aging"), §4: the share of blocks that directly
//! follow their predecessor. Extents that the kernel lists apart although they follow each other both in the
//! file and on the volume are one (ext4 splits at 32,768 blocks and where written meets unwritten space).
//!
//! Limits: a file changed while it is inspected counts as it was at some moment. Encoded (compressed) extents
//! tell no length on the volume, so they are never merged, and the score leaves out the step from one to the
//! next. On btrfs places are those of its logical address space.

use std::collections::BTreeMap;
use std::path::Path;

use fsage_model::layout::{LayoutSummary, SizeHistogram, TreeDetail, WorstFile};
use fsage_model::quantity::share;
use fsage_sys::fiemap::{self, FileExtent, Reader};

use super::LayoutError;
use super::walk::{OpenDir, OpenFile, Visitor, walk_only};

/// How to scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanOptions {
    /// Threads; 0 takes one for each CPU.
    pub threads: usize,
    /// Whether to stay on the file system of the starting directory. Subvolumes of the same mount belong to
    /// it.
    pub one_file_system: bool,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self { threads: 0, one_file_system: true }
    }
}

impl ScanOptions {
    /// Threads that are meant.
    pub(super) fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        }
    }
}

/// Maps all regular files below `root` (a directory, or a symbolic link to one). Nothing is written out
/// before: data that has no place yet counts as delayed. Memory stays below 100 MB for any number of files,
/// but for 40 bytes for each file that has further links not met so far.
///
/// # Errors
/// When `root` cannot be opened or no thread can be started. Files that cannot be inspected are counted in
/// the result.
pub fn scan(root: &Path, options: &ScanOptions) -> Result<LayoutSummary, LayoutError> {
    survey(root, options, None, Survey::default)
}

/// The same with [`LayoutSummary::detail`].
///
/// # Errors
/// As [`scan`].
pub fn scan_in_detail(root: &Path, options: &ScanOptions) -> Result<LayoutSummary, LayoutError> {
    survey(root, options, None, Survey::in_detail)
}

/// Layout of what the threads of a load made below `root`, and of nothing else that is there; `detail` as in
/// [`scan_in_detail`].
///
/// # Errors
/// As [`scan`].
pub fn scan_load(root: &Path, threads: usize, detail: bool) -> Result<LayoutSummary, LayoutError> {
    let name = |thread| {
        let mut name = Vec::new();
        crate::tree::write_top_name(&mut name, thread);
        name
    };
    let tops: Vec<Vec<u8>> = (0_u32..).take(threads).map(name).collect();
    let start = if detail { Survey::in_detail } else { Survey::default };
    survey(root, &ScanOptions::default(), Some(&tops), start)
}

fn survey(
    root: &Path,
    options: &ScanOptions,
    only: Option<&[Vec<u8>]>,
    start: impl Fn() -> Survey,
) -> Result<LayoutSummary, LayoutError> {
    let mut parts = walk_only(root, options, only, start)?.into_iter();
    let mut survey = parts.next().unwrap_or_default();
    for part in parts {
        survey.merge(part);
    }
    // Several threads meet files in no order.
    Ok(survey.finish(options.threads() == 1))
}

/// Files named in the result.
const WORST: usize = 20;

/// What one thread has found.
#[derive(Default)]
struct Survey {
    reader: Reader,
    /// Everything that is a sum; the ratios are set at the end.
    sums: LayoutSummary,
    one_extent_files: u64,
    /// Steps from a block to the next one, and those that go to the neighbour on the volume.
    steps: u64,
    steady_steps: u64,
    neighbours: Neighbours,
    /// Worst first.
    worst: Vec<WorstFile>,
    failed: BTreeMap<i32, u64>,
    /// Where it was asked for.
    detail: Option<TreeDetail>,
}

impl Visitor for Survey {
    fn directory(&mut self) {
        self.sums.directories += 1;
    }

    fn failed(&mut self, errno: i32) {
        *self.failed.entry(errno).or_default() += 1;
    }

    fn listed(&mut self, directory: &OpenDir, files: u64, subdirectories: u64) {
        if let Some(detail) = &mut self.detail {
            detail.add_directory(directory.level(), files, subdirectories);
        }
    }

    fn file(&mut self, file: &OpenFile<'_>) {
        let size = file.size_bytes();
        if let Some(detail) = &mut self.detail {
            detail.add_size(size);
        }
        self.sums.files += 1;
        self.sums.size_bytes = self.sums.size_bytes.saturating_add(size);
        self.sums.file_histogram.add(size);
        if size == 0 && file.stat.st_blocks == 0 {
            return;
        }
        let mut layout = FileLayout::default();
        let histogram = &mut self.sums.extent_histogram;
        match read_extents(&mut self.reader, file, |extent| layout.add(extent, histogram)) {
            Ok(()) => {
                layout.end_run(histogram);
                self.add(file, &layout);
            }
            Err(error) => {
                layout.end_run(histogram);
                self.failed(error.errno());
            }
        }
    }
}

/// Unit of `st_blocks`, whatever the block size (stat(2)).
const STAT_BLOCK_BYTES: u64 = 512;

/// All extents of a file. First those up to its size, for which nothing must be looked for beyond; what may
/// lie there (space taken ahead) is asked for only when the extents seen are less than the file holds, or
/// where their lengths say nothing about that.
pub(super) fn read_extents(
    reader: &mut Reader,
    file: &OpenFile<'_>,
    mut each: impl FnMut(FileExtent),
) -> fsage_sys::Result<()> {
    let (mut seen_bytes, mut end, mut tells) = (0_u64, file.size_bytes(), true);
    let mut note = |extent: FileExtent| {
        seen_bytes = seen_bytes.saturating_add(extent.length);
        end = end.max(extent.logical.saturating_add(extent.length));
        tells &= extent.flags & fiemap::ENCODED == 0;
        each(extent);
    };
    reader.visit_range(file.fd, 0..file.size_bytes(), &mut note)?;
    let held_bytes = u64::try_from(file.stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK_BYTES);
    if tells && seen_bytes >= held_bytes {
        return Ok(());
    }
    reader.visit_range(file.fd, end..u64::MAX, each)
}

impl Survey {
    fn in_detail() -> Self {
        Self { detail: Some(TreeDetail::default()), ..Self::default() }
    }

    fn add(&mut self, file: &OpenFile<'_>, layout: &FileLayout) {
        let sums = &mut self.sums;
        sums.unwritten_bytes = sums.unwritten_bytes.saturating_add(layout.unwritten_bytes);
        sums.shared_bytes = sums.shared_bytes.saturating_add(layout.shared_bytes);
        sums.encoded_bytes = sums.encoded_bytes.saturating_add(layout.encoded_bytes);
        sums.delayed_bytes = sums.delayed_bytes.saturating_add(layout.delayed_bytes);
        if layout.extents == 0 {
            sums.inline_files += u64::from(layout.is_inline);
            return;
        }
        sums.mapped_files += 1;
        sums.extents += layout.extents;
        sums.mapped_bytes = sums.mapped_bytes.saturating_add(layout.mapped_bytes);
        self.one_extent_files += u64::from(layout.extents == 1);
        if let Some(detail) = &mut self.detail {
            detail.add_extents(layout.extents);
        }
        let blocks = layout.mapped_bytes.div_ceil(file.directory.block_bytes);
        let steps = blocks.saturating_sub(1).saturating_sub(layout.unknown_steps);
        self.steps += steps;
        self.steady_steps += steps.saturating_sub(layout.jumps);
        self.neighbours.add(layout);
        self.rank(file, layout.extents);
    }

    /// Puts the file among the worst if it belongs there. Its path is only made up then.
    fn rank(&mut self, file: &OpenFile<'_>, extents: u64) {
        let bytes = file.size_bytes();
        let is_better =
            |last: &WorstFile| (last.extents, u64::MAX - last.bytes) > (extents, u64::MAX - bytes);
        if extents < 2 || (self.worst.len() == WORST && self.worst.last().is_some_and(is_better)) {
            return;
        }
        self.worst.push(WorstFile { path: file.path(), extents, bytes });
        keep_worst(&mut self.worst);
    }

    fn merge(&mut self, other: Self) {
        let (sums, more) = (&mut self.sums, other.sums);
        sums.files += more.files;
        sums.mapped_files += more.mapped_files;
        sums.inline_files += more.inline_files;
        sums.directories += more.directories;
        sums.extents += more.extents;
        sums.mapped_bytes = sums.mapped_bytes.saturating_add(more.mapped_bytes);
        sums.size_bytes = sums.size_bytes.saturating_add(more.size_bytes);
        sums.unwritten_bytes = sums.unwritten_bytes.saturating_add(more.unwritten_bytes);
        sums.shared_bytes = sums.shared_bytes.saturating_add(more.shared_bytes);
        sums.encoded_bytes = sums.encoded_bytes.saturating_add(more.encoded_bytes);
        sums.delayed_bytes = sums.delayed_bytes.saturating_add(more.delayed_bytes);
        sums.extent_histogram.merge(&more.extent_histogram);
        sums.file_histogram.merge(&more.file_histogram);
        self.one_extent_files += other.one_extent_files;
        self.steps += other.steps;
        self.steady_steps += other.steady_steps;
        self.worst.extend(other.worst);
        keep_worst(&mut self.worst);
        for (errno, count) in other.failed {
            *self.failed.entry(errno).or_default() += count;
        }
        if let (Some(detail), Some(more)) = (&mut self.detail, &other.detail) {
            detail.merge(more);
        }
    }

    /// The summary; `in_order`: files were met in reading order.
    fn finish(self, in_order: bool) -> LayoutSummary {
        let mut summary = self.sums;
        summary.extents_per_file = share(summary.extents, summary.mapped_files);
        summary.one_extent_share = share(self.one_extent_files, summary.mapped_files);
        summary.layout_score = if self.steps == 0 { 1.0 } else { share(self.steady_steps, self.steps) };
        summary.inter_file_score = in_order.then(|| self.neighbours.score());
        summary.worst = self.worst;
        summary.detail = self.detail.map(Box::new);
        for (errno, count) in self.failed {
            *summary.failed.entry(fsage_sys::errno::name(errno).to_owned()).or_default() += count;
        }
        summary
    }
}

/// How files that are read one after the other lie to each other.
#[derive(Debug, Default)]
struct Neighbours {
    /// Where the file before ends; unknown for the first, and behind an encoded extent.
    end: Option<u64>,
    /// Steps from a file to the next one, and those that go to the neighbour on the volume.
    steps: u64,
    near: u64,
}

impl Neighbours {
    fn add(&mut self, layout: &FileLayout) {
        if let (Some(end), Some(start)) = (self.end, layout.start) {
            self.steps += 1;
            self.near += u64::from(end == start);
        }
        let reported = layout.previous.filter(|last| last.flags & fiemap::ENCODED == 0);
        self.end = reported.map(|last| last.physical.saturating_add(last.length));
    }

    fn score(&self) -> f64 {
        if self.steps == 0 { 1.0 } else { share(self.near, self.steps) }
    }
}

/// Most extents first, among equals the smaller file; the path makes the order independent of the threads.
fn keep_worst(worst: &mut Vec<WorstFile>) {
    worst.sort_by(|a, b| {
        b.extents.cmp(&a.extents).then(a.bytes.cmp(&b.bytes)).then_with(|| a.path.cmp(&b.path))
    });
    worst.truncate(WORST);
}

/// What is known of one file, extent by extent.
#[derive(Debug, Default, PartialEq, Eq)]
struct FileLayout {
    extents: u64,
    mapped_bytes: u64,
    unwritten_bytes: u64,
    shared_bytes: u64,
    encoded_bytes: u64,
    delayed_bytes: u64,
    is_inline: bool,
    /// Steps between extents to somewhere else on the volume than the neighbour.
    jumps: u64,
    /// Steps that cannot be judged.
    unknown_steps: u64,
    /// Length of the merged extent that is not finished.
    run_bytes: u64,
    /// Of the first extent on the volume.
    start: Option<u64>,
    previous: Option<FileExtent>,
}

impl FileLayout {
    fn add(&mut self, extent: FileExtent, histogram: &mut SizeHistogram) {
        let has = |flags: u32| extent.flags & flags != 0;
        if has(fiemap::DATA_INLINE | fiemap::DATA_TAIL) {
            self.is_inline = true;
            return;
        }
        if has(fiemap::DELALLOC | fiemap::UNKNOWN) {
            self.delayed_bytes = self.delayed_bytes.saturating_add(extent.length);
            return;
        }
        self.mapped_bytes = self.mapped_bytes.saturating_add(extent.length);
        for (flag, sum) in [
            (fiemap::UNWRITTEN, &mut self.unwritten_bytes),
            (fiemap::SHARED, &mut self.shared_bytes),
            (fiemap::ENCODED, &mut self.encoded_bytes),
        ] {
            if has(flag) {
                *sum = sum.saturating_add(extent.length);
            }
        }
        match self.previous.map(|previous| Step::between(&previous, &extent)) {
            Some(Step::Same) => {}
            step => {
                self.end_run(histogram);
                self.extents += 1;
                self.jumps += u64::from(step == Some(Step::Jump));
                self.unknown_steps += u64::from(step == Some(Step::Unknown));
            }
        }
        self.run_bytes = self.run_bytes.saturating_add(extent.length);
        self.start.get_or_insert(extent.physical);
        self.previous = Some(extent);
    }

    fn end_run(&mut self, histogram: &mut SizeHistogram) {
        if self.run_bytes > 0 {
            histogram.add(self.run_bytes);
            self.run_bytes = 0;
        }
    }
}

/// How an extent lies to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// One extent in two pieces.
    Same,
    /// Neighbours on the volume with a hole between them in the file.
    Hole,
    /// Elsewhere.
    Jump,
    /// Not to be reported.
    Unknown,
}

impl Step {
    fn between(previous: &FileExtent, next: &FileExtent) -> Self {
        if (previous.flags | next.flags) & fiemap::ENCODED != 0 {
            return Self::Unknown;
        }
        if previous.physical.wrapping_add(previous.length) != next.physical {
            return Self::Jump;
        }
        if previous.logical.wrapping_add(previous.length) == next.logical { Self::Same } else { Self::Hole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(extents: &[(u64, u64, u64, u32)]) -> (FileLayout, SizeHistogram) {
        let mut layout = FileLayout::default();
        let mut histogram = SizeHistogram::default();
        for &(logical, physical, length, flags) in extents {
            layout.add(FileExtent { logical, physical, length, flags }, &mut histogram);
        }
        layout.end_run(&mut histogram);
        (layout, histogram)
    }

    #[test]
    fn neighbours_in_file_and_volume_are_one_extent() {
        let (file, histogram) = layout(&[
            (0, 100 << 12, 4096, 0),
            (4096, 101 << 12, 8192, fiemap::UNWRITTEN),
            (12288, 103 << 12, 4096, fiemap::LAST),
        ]);
        assert_eq!((file.extents, file.jumps, file.mapped_bytes, file.unwritten_bytes), (1, 0, 16384, 8192));
        assert_eq!((histogram.total_count(), histogram.count[14]), (1, 1));
    }

    #[test]
    fn holes_part_extents_but_are_no_jumps() {
        let (file, _) =
            layout(&[(0, 100 << 12, 4096, 0), (1 << 20, 101 << 12, 4096, 0), (2 << 20, 50 << 12, 4096, 0)]);
        assert_eq!((file.extents, file.jumps), (3, 1));
    }

    #[test]
    fn files_are_neighbours_where_one_begins_at_the_end_of_the_other() {
        let mut neighbours = Neighbours::default();
        assert_eq!(neighbours.score().to_bits(), 1.0_f64.to_bits());
        // The second follows the first; the third lies before it; behind an encoded one nothing is known.
        for extents in [
            &[(0, 4096, 4096, 0), (4096, 40_960, 4096, 0)][..],
            &[(0, 45_056, 8192, 0)],
            &[(0, 0, 4096, fiemap::ENCODED)],
            &[(0, 4096, 4096, 0)],
        ] {
            neighbours.add(&layout(extents).0);
        }
        assert_eq!((neighbours.steps, neighbours.near), (2, 1));
    }

    #[test]
    fn inline_and_delayed_data_have_no_extents() {
        let (file, histogram) =
            layout(&[(0, 77, 60, fiemap::DATA_INLINE | fiemap::NOT_ALIGNED | fiemap::LAST)]);
        assert_eq!((file.extents, file.is_inline, histogram.total_count()), (0, true, 0));
        let (file, _) = layout(&[(0, 0, 8192, fiemap::DELALLOC | fiemap::UNKNOWN)]);
        assert_eq!((file.extents, file.delayed_bytes, file.mapped_bytes), (0, 8192, 0));
    }

    #[test]
    fn encoded_extents_are_neither_merged_nor_judged() {
        let (file, _) = layout(&[
            (0, 1 << 20, 131_072, fiemap::ENCODED),
            (131_072, (1 << 20) + 131_072, 131_072, fiemap::ENCODED),
        ]);
        assert_eq!((file.extents, file.jumps, file.unknown_steps, file.encoded_bytes), (2, 0, 1, 262_144));
    }
}
