//! Where the requests went, and when: bytes read and written by address and time.
//!
//! One pass without knowing how long the log is: when a moment lies beyond the last column, two columns
//! become one and each stands for twice the time. The same entries give the same map.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Entry;
use crate::request::Operation;

/// What the columns follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Nanoseconds of the disk's clock.
    #[default]
    Model,
    /// Nanoseconds of `CLOCK_MONOTONIC`, from the first entry's arrival on.
    Real,
    /// The numbers of the entries: every column has as many. A medium that costs no time has only this and
    /// the real one.
    Number,
}

/// Bytes read and written, by address (rows) and time (columns).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeatMap {
    /// What the columns follow.
    pub axis: Axis,
    /// Bytes of the disk that a row stands for.
    pub row_bytes: u64,
    /// Nanoseconds (or entries) that a column stands for, a power of two.
    pub column_width: u64,
    /// Where the first column begins.
    pub start: u64,
    /// Bytes read: a list of columns for each row, as far as there are any.
    pub read_bytes: Vec<Vec<u64>>,
    /// Bytes written.
    pub write_bytes: Vec<Vec<u64>>,
}

/// Smallest number of bytes that a row stands for.
const LEAST_ROW_BYTES: u64 = 4096;

/// Makes a heat map.
#[derive(Debug, Clone)]
pub struct Heat {
    map: HeatMap,
    rows: usize,
    columns: usize,
    started: bool,
}

impl Heat {
    /// A map of a disk of `size_bytes` with at most `rows` rows and `columns` columns (at least 1 and 2).
    /// What lies beyond the size counts in the last row.
    #[must_use]
    pub fn new(size_bytes: u64, rows: usize, columns: usize, axis: Axis) -> Self {
        let (rows, columns) = (rows.max(1), columns.max(2));
        let row_bytes = size_bytes.div_ceil(super::as_u64(rows)).max(LEAST_ROW_BYTES);
        let row_bytes = row_bytes.checked_next_multiple_of(LEAST_ROW_BYTES).unwrap_or(row_bytes);
        let used = usize::try_from(size_bytes.div_ceil(row_bytes)).unwrap_or(rows).clamp(1, rows);
        let empty = vec![Vec::new(); used];
        let map = HeatMap {
            axis,
            row_bytes,
            column_width: 1,
            start: 0,
            read_bytes: empty.clone(),
            write_bytes: empty,
        };
        Self { map, rows: used, columns, started: false }
    }

    /// Adds entry `number`. Only reads and writes that were done count. What lies before the first entry
    /// counts in the first column.
    pub fn add(&mut self, number: u64, entry: &Entry) {
        let reads = entry.request.operation == Operation::Read;
        if entry.result.is_err() || !(reads || entry.request.operation == Operation::Write) {
            return;
        }
        let moment = match self.map.axis {
            Axis::Model => entry.issued_ns,
            Axis::Real => entry.arrived_ns,
            Axis::Number => number,
        };
        if !self.started {
            (self.started, self.map.start) = (true, moment);
        }
        let column = self.column(moment.saturating_sub(self.map.start));
        let (mut at, end) = (entry.request.offset_bytes, entry.request.end_bytes());
        while at < end {
            let row = usize::try_from(at / self.map.row_bytes).unwrap_or(usize::MAX).min(self.rows - 1);
            let row_end = (at / self.map.row_bytes + 1).saturating_mul(self.map.row_bytes);
            let until = if row == self.rows - 1 { end } else { end.min(row_end) };
            let cells = if reads { &mut self.map.read_bytes } else { &mut self.map.write_bytes };
            let cells = &mut cells[row];
            if cells.len() <= column {
                cells.resize(column + 1, 0);
            }
            cells[column] = cells[column].saturating_add(until - at);
            at = until;
        }
    }

    /// The column of a moment; makes columns wider until there is one.
    fn column(&mut self, since: u64) -> usize {
        loop {
            match usize::try_from(since / self.map.column_width) {
                Ok(column) if column < self.columns => return column,
                _ => self.widen(),
            }
        }
    }

    fn widen(&mut self) {
        self.map.column_width = self.map.column_width.saturating_mul(2);
        for cells in self.map.read_bytes.iter_mut().chain(&mut self.map.write_bytes) {
            *cells = cells
                .chunks(2)
                .map(|pair| pair.iter().fold(0, |sum: u64, cell| sum.saturating_add(*cell)))
                .collect();
        }
    }

    /// The map.
    #[must_use]
    pub fn finish(self) -> HeatMap {
        self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{IoError, Request};
    use proptest::prelude::*;

    fn entry(operation: Operation, offset_bytes: u64, length_bytes: u64, issued_ns: u64) -> Entry {
        Entry { issued_ns, ..Entry::new(Request::new(operation, offset_bytes, length_bytes)) }
    }

    #[test]
    fn bytes_go_to_their_rows_and_columns() {
        let mut heat = Heat::new(64 << 10, 4, 4, Axis::Model);
        heat.add(0, &entry(Operation::Write, 0, 4096, 1000));
        heat.add(1, &entry(Operation::Read, 8192, 32 << 10, 1001));
        heat.add(2, &entry(Operation::Write, 60 << 10, 8192, 1003));
        heat.add(3, &entry(Operation::Flush, 0, 0, 1003));
        heat.add(4, &Entry { result: Err(IoError::Medium), ..entry(Operation::Write, 0, 4096, 1003) });
        let map = heat.clone().finish();
        assert_eq!((map.row_bytes, map.column_width, map.start), (16 << 10, 1, 1000));
        assert_eq!(map.write_bytes, [vec![4096], vec![], vec![], vec![0, 0, 0, 8192]]);
        assert_eq!(map.read_bytes, [vec![0, 8192], vec![0, 16 << 10], vec![0, 8192], vec![]]);
        // The seventh nanosecond needs columns of two, the twentieth of eight.
        heat.add(5, &entry(Operation::Write, 0, 512, 1007));
        let map = heat.clone().finish();
        assert_eq!((map.column_width, &map.write_bytes[0]), (2, &vec![4096, 0, 0, 512]));
        assert_eq!(map.write_bytes[3], [0, 8192]);
        heat.add(6, &entry(Operation::Write, 0, 1, 1020));
        let map = heat.finish();
        assert_eq!((map.column_width, &map.write_bytes[0]), (8, &vec![4608, 0, 1]));
    }

    #[test]
    fn other_axes_are_real_time_and_numbers() {
        for (axis, expected) in [(Axis::Real, vec![512, 0, 512]), (Axis::Number, vec![512, 512])] {
            let mut heat = Heat::new(4096, 8, 4, axis);
            for number in 0..2 {
                heat.add(number, &Entry { arrived_ns: 70 + 2 * number, ..entry(Operation::Read, 0, 512, 5) });
            }
            let map = heat.finish();
            assert_eq!(map.read_bytes, [expected], "a disk of one row");
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(
            requests in prop::collection::vec((any::<bool>(), any::<u64>(), 0_u64..1 << 40, any::<u64>()), 0..60),
            rows in 0_usize..9,
            columns in 0_usize..9,
            size in any::<u64>(),
        ) {
            let mut heat = Heat::new(size, rows, columns, Axis::Model);
            let mut sums = [0_u64; 2];
            for (reads, offset, length, issued) in requests {
                let operation = if reads { Operation::Read } else { Operation::Write };
                let entry = entry(operation, offset, length, issued);
                heat.add(0, &entry);
                sums[usize::from(reads)] += entry.request.end_bytes() - offset;
            }
            let map = heat.finish();
            prop_assert!(map.read_bytes.len() <= rows.max(1));
            prop_assert!(map.read_bytes.iter().all(|row| row.len() <= columns.max(2)));
            prop_assert_eq!(map.write_bytes.iter().flatten().sum::<u64>(), sums[0]);
            prop_assert_eq!(map.read_bytes.iter().flatten().sum::<u64>(), sums[1]);
        }
    }
}
