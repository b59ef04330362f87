//! A log as what matters for crash states: changes, flushes, and digests of what blocks hold.

use std::collections::HashMap;

use crate::request::Request;

/// A block of the disk, counted in [`Timeline::unit_bytes`].
pub type Unit = u64;

/// A request that changes the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its number in the log.
    pub entry: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// Bytes.
    pub length_bytes: u64,
    /// It was forced to the medium, and the drive did that.
    pub forced: bool,
    /// It is a write: a discard or zeroing programs nothing on flash.
    pub written: bool,
    /// Number of the first flush after it that was of its place and that the disk did.
    pub flushed: Option<u64>,
    /// Blocks and digests of what they hold after it.
    pub effects: Vec<(Unit, u64)>,
}

impl Change {
    /// Whether a flush of its place was done before a request.
    #[must_use]
    pub fn is_flushed_before(&self, entry: u64) -> bool {
        self.flushed.is_some_and(|flush| flush < entry)
    }
}

/// A log in short.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Bytes of a block.
    pub unit_bytes: u64,
    /// In the order of the log.
    pub changes: Vec<Change>,
    /// Numbers of the flushes that the disk did, in order.
    pub flushes: Vec<u64>,
    /// Requests in the log.
    pub entries: u64,
    /// What blocks held at the start of the log, of all that a change touches.
    pub base: HashMap<Unit, u64>,
}

/// What was written and not flushed since, by number and place. Several drives are ranges of one disk, and each is flushed by itself.
#[derive(Debug, Default)]
pub struct Unflushed(Vec<(usize, Request)>);

impl Unflushed {
    /// A request of this number was done.
    pub fn add(&mut self, number: usize, request: Request) {
        self.0.push((number, request));
    }

    /// The disk did a flush, of all that lies in its range; of everything where that is empty. Gives the numbers of what it was for.
    pub fn flush(&mut self, flush: &Request) -> Vec<usize> {
        let is_of = |request: &Request| {
            flush.length_bytes == 0
                || (flush.offset_bytes <= request.offset_bytes && request.end_bytes() <= flush.end_bytes())
        };
        self.0.extract_if(.., |(_, request)| is_of(request)).map(|(number, _)| number).collect()
    }
}

/// The digest of a block's bytes.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    if bytes.iter().all(|byte| *byte == 0) {
        return ZEROS;
    }
    blake3::hash(bytes).as_bytes().first_chunk().map_or(ZEROS, |word| u64::from_le_bytes(*word))
}

/// The digest of zeros.
pub const ZEROS: u64 = 0;

/// What a block adds to the digest of an image: images that differ in one block differ.
pub(super) const fn weight(unit: Unit, digest: u64) -> u64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014) over both.
    let mut word = unit.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ digest.rotate_left(17);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// What blocks hold at some point, and the digest of what differs from the start.
#[derive(Debug, Clone)]
pub(super) struct Image<'a> {
    base: &'a HashMap<Unit, u64>,
    now: HashMap<Unit, u64>,
    digest: u64,
}

impl<'a> Image<'a> {
    pub fn new(timeline: &'a Timeline) -> Self {
        Self { base: &timeline.base, now: HashMap::new(), digest: 0 }
    }

    pub const fn digest(&self) -> u64 {
        self.digest
    }

    fn start(&self, unit: Unit) -> u64 {
        self.base.get(&unit).copied().unwrap_or(ZEROS)
    }

    /// The digest of what a block holds.
    pub fn get(&self, unit: Unit) -> u64 {
        self.now.get(&unit).copied().unwrap_or_else(|| self.start(unit))
    }

    /// Puts a change there for good.
    pub fn apply(&mut self, change: &Change) {
        for &(unit, after) in &change.effects {
            let before = self.get(unit);
            self.digest ^= self.differs(unit, before) ^ self.differs(unit, after);
            self.now.insert(unit, after);
        }
    }

    /// What a block that holds this adds: nothing where it is as at the start.
    fn differs(&self, unit: Unit, digest: u64) -> u64 {
        if digest == self.start(unit) { 0 } else { weight(unit, digest) }
    }

    /// The digest with these blocks written on top, in order; `scratch` is cleared.
    pub fn with(&self, effects: impl Iterator<Item = (Unit, u64)>, scratch: &mut HashMap<Unit, u64>) -> u64 {
        scratch.clear();
        scratch.extend(effects);
        let changed = scratch
            .iter()
            .map(|(unit, after)| self.differs(*unit, self.get(*unit)) ^ self.differs(*unit, *after));
        changed.fold(self.digest, |sum, change| sum ^ change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_comes_back_has_its_digest_back() {
        let change = |entry, effects: &[(Unit, u64)]| Change {
            entry,
            offset_bytes: 0,
            length_bytes: 4096,
            forced: false,
            written: true,
            flushed: None,
            effects: effects.to_vec(),
        };
        let timeline = Timeline { unit_bytes: 4096, base: HashMap::from([(1, 7)]), ..Timeline::default() };
        let mut image = Image::new(&timeline);
        assert_eq!(image.digest(), 0);
        image.apply(&change(0, &[(1, 8), (2, 9)]));
        let there = image.digest();
        assert_ne!(there, 0);
        image.apply(&change(1, &[(2, 5)]));
        assert_ne!(image.digest(), there);
        image.apply(&change(2, &[(2, 9)]));
        assert_eq!(image.digest(), there);
        let mut scratch = HashMap::new();
        assert_eq!(image.with([(1, 7), (2, 0)].into_iter(), &mut scratch), 0);
        assert_eq!(image.with([(1, 3), (1, 8)].into_iter(), &mut scratch), there, "the last one counts");
        // Two blocks with the same bytes in each other's place are another image.
        assert_ne!(weight(1, 9), weight(2, 9));
    }

    #[test]
    fn digests_tell_blocks_apart() {
        assert_eq!(digest(&[0; 512]), ZEROS);
        assert_ne!(digest(&[1; 512]), digest(&[2; 512]));
        assert_ne!(digest(&[1; 512]), ZEROS);
    }
}
