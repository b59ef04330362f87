//! The pieces of a log's entries, one after the other.

use super::number::{index, wide};
use super::piece::Piece;

/// Pieces of a segment: 640 KiB.
const SEGMENT_PIECES: usize = 1 << 14;

/// Segments for which the table has room before it grows.
const SEGMENT_ROOM: usize = 1 << 10;

/// Pieces in the order in which they were recorded; those of one request lie together.
///
/// Adding some copies them; nothing is allocated but a new segment now and then, the first of them
/// beforehand.
#[derive(Debug)]
pub struct Journal {
    /// Each with the number of its first piece. All but the last are full, or had no room for what came next.
    segments: Vec<(u64, Vec<Piece>)>,
    next: u64,
}

impl Default for Journal {
    fn default() -> Self {
        let mut segments = Vec::with_capacity(SEGMENT_ROOM);
        segments.push((0, Vec::with_capacity(SEGMENT_PIECES)));
        Self { segments, next: 0 }
    }
}

impl Journal {
    /// Adds the pieces of a request and says the number of the first.
    pub fn push(&mut self, pieces: &[Piece]) -> u64 {
        let first = self.next;
        self.next += wide(pieces.len());
        match self.segments.last_mut() {
            Some((_, segment)) if segment.capacity() - segment.len() >= pieces.len() => {
                segment.extend_from_slice(pieces);
            }
            _ => {
                let mut segment = Vec::with_capacity(pieces.len().max(SEGMENT_PIECES));
                segment.extend_from_slice(pieces);
                self.segments.push((first, segment));
            }
        }
        first
    }

    /// `count` pieces from number `first` on, which were added together; none if they never were.
    #[must_use]
    pub fn get(&self, first: u64, count: u32) -> &[Piece] {
        let behind = self.segments.partition_point(|(start, _)| *start <= first);
        let Some((start, segment)) = behind.checked_sub(1).and_then(|at| self.segments.get(at)) else {
            return &[];
        };
        let from = index(first - start);
        let to = from.saturating_add(index(u64::from(count)));
        segment.get(from..to).unwrap_or(&[])
    }

    /// All pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &[Piece]> {
        self.segments.iter().map(|(_, segment)| segment.as_slice())
    }

    /// Memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let pieces: usize = self.segments.iter().map(|(_, segment)| segment.capacity()).sum();
        let table = self.segments.capacity() * size_of::<(u64, Vec<Piece>)>();
        wide(pieces * size_of::<Piece>() + table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_were_added_together_are_found_together() {
        let mut journal = Journal::default();
        let pieces = |first: u64, count: u64| -> Vec<Piece> {
            (first..first + count).map(|number| Piece::zeros(number * 8192, 4096)).collect()
        };
        let mut added = Vec::new();
        let mut next = 0;
        for count in (0..200).chain([20_000, 1, 16_000, 400]) {
            assert_eq!(journal.push(&pieces(next, count)), next);
            added.push((next, count));
            next += count;
        }
        for (first, count) in added {
            assert_eq!(journal.get(first, u32::try_from(count).unwrap()), pieces(first, count));
        }
        assert!(journal.get(next, 1).is_empty());
        let all: Vec<Piece> = journal.pieces().flatten().copied().collect();
        assert_eq!(all, pieces(0, next));
        assert!(journal.memory_bytes() >= next * 40);
    }
}
