//! Same work: what is divided by each other did the same bytes, files and operations.
//!
//! A measure that takes a share of the free space does less on a fuller volume. In a study its size is fixed
//! from the least room that any of the study's states leaves ([`MeasureSpec::fix`]); what was done is kept with
//! each number ([`Work`]), and numbers whose work differs are not compared ([`Work::differs`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MeasureResult, MeasureSpec};
use crate::number::{grouped, whole_bytes};
use crate::quantity::{as_f64, to_u64};
use crate::size::Bytes;

/// Work further apart than this share of the larger is not the same.
pub const SAME_WORK: f64 = 0.01;

/// Space that the `{size}` of a job of fio stands for at most, in bytes.
pub const MOST_FIO_SPACE: u64 = 1 << 30;

/// Share of the room that appends may take: the last block of each file is written again, elsewhere on file
/// systems that copy on write.
const APPEND_SHARE: f64 = 0.25;

const BLOCK: u64 = 4096;

/// What a measure did while its clock ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Bytes read or written.
    pub bytes: u64,
    /// Files touched.
    pub files: u64,
    /// Operations, as the measure counts them.
    pub operations: u64,
}

impl Work {
    /// In which respect the two are not the same work, in words: `13 MiB against 2 MiB`.
    #[must_use]
    pub fn differs(&self, other: &Self) -> Option<String> {
        let apart = |a: u64, b: u64| as_f64(a.abs_diff(b)) > as_f64(a.max(b)) * SAME_WORK;
        if apart(self.bytes, other.bytes) {
            return Some(format!("{} against {}", whole_bytes(self.bytes), whole_bytes(other.bytes)));
        }
        let counts = [("files", self.files, other.files), ("operations", self.operations, other.operations)];
        let (what, a, b) = counts.into_iter().find(|(_, a, b)| apart(*a, *b))?;
        Some(format!("{} {what} against {}", grouped(a), grouped(b)))
    }
}

impl MeasureResult {
    /// What it did, as it is compared: a job of fio that is bound by time runs the same job for the same time,
    /// however often.
    #[must_use]
    pub fn work(&self) -> Work {
        let done = Work { bytes: self.bytes, files: self.files, operations: self.operations };
        self.job.unwrap_or(done)
    }
}

impl MeasureSpec {
    /// Whether its size would follow from the free space that it finds.
    #[must_use]
    pub const fn is_sized_by_room(&self) -> bool {
        match self {
            Self::Create(spec) => spec.files.is_none() && spec.bytes.is_none(),
            Self::LargeFile(spec) => spec.size.is_none(),
            Self::Append(spec) => spec.files.is_none(),
            Self::Fio(spec) => spec.space.is_none(),
            Self::Grep(_) | Self::ColdRandomRead(_) | Self::Walk(_) | Self::Delete(_) => false,
        }
    }

    /// Fixes a size that would follow from the free space, for `room` bytes of it. A size that was given stays;
    /// where not even a block would fit, none is fixed.
    pub fn fix(&mut self, room: u64) {
        if !self.is_sized_by_room() {
            return;
        }
        let part = |share: f64, most: u64| to_u64(as_f64(room) * share).min(most) / BLOCK * BLOCK;
        let given = |bytes: u64| (bytes > 0).then_some(Bytes(bytes));
        match self {
            Self::Create(spec) => spec.bytes = given(part(spec.free_share, spec.max_bytes.0)),
            Self::LargeFile(spec) => spec.size = given(part(spec.free_share, spec.max_bytes.0)),
            Self::Append(spec) => {
                let each = spec.size.0.next_multiple_of(BLOCK).saturating_add(BLOCK);
                let files = part(APPEND_SHARE, u64::MAX) / each;
                spec.files = (files > 0).then_some(files.min(spec.max_files.max(1)));
            }
            Self::Fio(spec) => spec.space = given(part(0.5, MOST_FIO_SPACE)),
            Self::Grep(_) | Self::ColdRandomRead(_) | Self::Walk(_) | Self::Delete(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::registry;

    #[test]
    fn work_more_than_a_hundredth_apart_is_not_the_same() {
        let work = |bytes, files, operations| Work { bytes, files, operations };
        let one = work(1000, 100, 1000);
        assert_eq!(one.differs(&one), None);
        assert_eq!(one.differs(&work(1010, 101, 1010)), None);
        assert_eq!(work(4 << 30, 1, 1).differs(&work(1 << 30, 1, 1)).unwrap(), "4 GiB against 1 GiB");
        assert_eq!(one.differs(&work(1000, 98, 1000)).unwrap(), "100 files against 98");
        assert_eq!(one.differs(&work(1000, 100, 0)).unwrap(), "1,000 operations against 0");
        assert_eq!(work(0, 0, 0).differs(&work(0, 0, 0)), None);
    }

    #[test]
    fn every_measure_of_free_space_has_the_same_size_after_fixing_it() {
        for line in registry() {
            let mut fixed = line.default.clone();
            fixed.fix(100 << 20);
            assert!(!fixed.is_sized_by_room(), "{}", line.name);
            assert_eq!(fixed != line.default, line.default.is_sized_by_room(), "{}", line.name);
            // What was given stays, whatever the room.
            let mut again = fixed.clone();
            again.fix(1 << 20);
            assert_eq!(again, fixed);
            // Nothing fits: the measure says so when it runs.
            let mut none = line.default.clone();
            none.fix(100);
            assert_eq!(none, line.default);
        }
        let mut create = MeasureSpec::by_name("create").unwrap();
        create.fix(100 << 20);
        assert!(matches!(create, MeasureSpec::Create(spec) if spec.bytes == Some(Bytes(10_485_760))));
    }
}
