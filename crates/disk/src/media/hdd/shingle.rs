//! Bands of overlapping tracks behind a persistent cache: where a disk that is shingled, and manages that by
//! itself, keeps what was written.
//!
//! Follows what was found on such disks from outside (Aghayev and Desnoyers, *Skylight—a window on shingled
//! disk operation*, FAST 2015; Aghayev, Ts'o, Gibson, Desnoyers, *Evolving ext4 for shingled disks*, FAST 2017):
//! a static map from addresses to bands, one persistent cache that is a log on the outermost tracks, and
//! cleaning of the band that has the oldest data in the log. What continues a band, or covers all of it, is
//! written to the band itself.
//!
//! Addresses here are the host's; places are bytes from the outer edge of the platters. The persistent cache is
//! outermost, so the home of address 0 is behind it.
//!
//! Memory: some 100 bytes for each range in the persistent cache, which holds `media_cache_ranges` at most, and
//! for each band that was written to. Known limits: no guard tracks between bands; what the log has lost at its
//! end, where the next range does not fit, is not counted; the map itself is not written to the platters.

use std::collections::{BTreeMap, VecDeque};

use fsage_model::medium::hdd::{Bands, Parameters};

/// A range of addresses whose data is in the persistent cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cached {
    end: u64,
    place: u64,
}

/// One range of the log.
#[derive(Debug, Clone, Copy)]
struct Entry {
    band: u64,
    number: u64,
    bytes: u64,
}

/// What is known of a band that was written to.
#[derive(Debug, Clone, Copy)]
struct Band {
    /// Bytes from its beginning behind which it holds nothing.
    filled: u64,
    /// Entries of the log before this one are not needed for it any more.
    cleaned: u64,
}

/// What the persistent cache and the bands did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub cached_bytes: u64,
    pub direct_bytes: u64,
    pub band_cleans: u64,
    pub cleaning_bytes: u64,
}

/// Where everything is.
#[derive(Debug, Clone)]
pub(super) struct Shingle {
    size_bytes: u64,
    band_bytes: u64,
    /// Bytes of the log; behind it is room for one band, then the home of address 0.
    log_bytes: u64,
    /// Place of address 0.
    home: u64,
    most_ranges: usize,
    direct_bytes: u64,
    pub idle_ns: u64,
    filled_before: bool,
    bands: BTreeMap<u64, Band>,
    cached: BTreeMap<u64, Cached>,
    log: VecDeque<Entry>,
    /// Where the log continues.
    head: u64,
    used_bytes: u64,
    number: u64,
    /// How far the last range that went home reaches, and to where data waited in sequence behind its beginning.
    continues: (u64, u64),
    /// What is left to write of the band that is being cleaned, last first: place and bytes.
    unwritten: [(u64, u64); 2],
    unwritten_steps: usize,
    pub tally: Tally,
}

impl Shingle {
    /// The bands of a disk that holds `size_bytes`; nothing when its tracks do not overlap.
    pub(super) fn new(parameters: &Parameters, size_bytes: u64) -> Option<Self> {
        (parameters.band_bytes > 0).then(|| Self {
            size_bytes,
            band_bytes: parameters.band_bytes,
            log_bytes: parameters.media_cache_bytes.saturating_sub(parameters.band_bytes),
            home: parameters.media_cache_bytes,
            most_ranges: crate::media::number::index(parameters.media_cache_ranges),
            direct_bytes: parameters.direct_write_bytes,
            idle_ns: parameters.idle_ns,
            filled_before: parameters.bands == Bands::Written,
            bands: BTreeMap::new(),
            cached: BTreeMap::new(),
            log: VecDeque::new(),
            head: 0,
            used_bytes: 0,
            number: 0,
            continues: (u64::MAX, 0),
            unwritten: [(0, 0); 2],
            unwritten_steps: 0,
            tally: Tally::default(),
        })
    }

    /// Beginning and end of the band of an address.
    pub(super) fn band(&self, address: u64) -> (u64, u64) {
        let start = address / self.band_bytes * self.band_bytes;
        (start, (start + self.band_bytes).min(self.size_bytes))
    }

    /// The address whose home is at a place, or 0.
    pub(super) const fn address(&self, place: u64) -> u64 {
        place.saturating_sub(self.home)
    }

    /// The home of an address.
    pub(super) const fn home(&self, address: u64) -> u64 {
        self.home + address
    }

    /// Where the data of an address is, and up to which address, `end` at most, it continues there.
    pub(super) fn locate(&self, address: u64, end: u64) -> (u64, u64) {
        if let Some((start, cached)) = self.cached.range(..=address).next_back()
            && cached.end > address
        {
            return (cached.place + (address - start), cached.end.min(end));
        }
        let next = self.cached.range(address..end).next().map_or(end, |(start, _)| *start);
        (self.home(address), next)
    }

    /// Bytes from the beginning of a band behind which it holds nothing.
    fn filled(&self, band_start: u64) -> u64 {
        let before = if self.filled_before { self.band(band_start).1 - band_start } else { 0 };
        self.bands.get(&(band_start / self.band_bytes)).map_or(before, |band| band.filled)
    }

    fn entry(&mut self, band_start: u64) -> &mut Band {
        let filled = self.filled(band_start);
        self.bands.entry(band_start / self.band_bytes).or_insert(Band { filled, cleaned: 0 })
    }

    /// Whether data from `start` to `until`, which waits in sequence and may reach into the next band, continues
    /// or replaces its band, so that it can be written there without loss of other data.
    pub(super) fn goes_home(&self, start: u64, until: u64) -> bool {
        let (band_start, band_end) = self.band(start);
        if start == band_start && until >= band_end {
            return true;
        }
        let is_next = start == band_start + self.filled(band_start);
        let is_long = until.min(band_end) - start >= self.direct_bytes.min(band_end - start);
        is_next && (is_long || (start, until) == self.continues)
    }

    /// The range, of one band, is written to its home.
    pub(super) fn written_home(&mut self, start: u64, end: u64, until: u64) {
        self.continues = (end, until);
        self.forget(start, end);
        let (band_start, _) = self.band(start);
        let band = self.entry(band_start);
        band.filled = band.filled.max(end - band_start);
        self.tally.direct_bytes += end - start;
    }

    /// Whether the log has room for that many bytes.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let lost_bytes = if self.wraps(bytes) { self.log_bytes - self.head } else { 0 };
        let taken_bytes = self.used_bytes + lost_bytes + bytes;
        self.log.is_empty() || (taken_bytes <= self.log_bytes && self.log.len() < self.most_ranges)
    }

    /// Whether that many bytes do not fit between the log's head and its end, and go to its beginning.
    const fn wraps(&self, bytes: u64) -> bool {
        self.head + bytes > self.log_bytes
    }

    /// Puts a range, of one band, at the end of the log; gives its place.
    pub(super) fn append(&mut self, start: u64, end: u64) -> u64 {
        self.forget(start, end);
        let bytes = end - start;
        let (place, lost_bytes) =
            if self.wraps(bytes) { (0, self.log_bytes.saturating_sub(self.head)) } else { (self.head, 0) };
        self.head = place + bytes;
        self.used_bytes += lost_bytes + bytes;
        self.number += 1;
        let entry = Entry { band: start / self.band_bytes, number: self.number, bytes: lost_bytes + bytes };
        self.log.push_back(entry);
        self.cached.insert(start, Cached { end, place });
        self.tally.cached_bytes += end - start;
        place
    }

    /// The data of these addresses is not in the persistent cache any more.
    fn forget(&mut self, start: u64, end: u64) {
        let from = self.cached.range(..=start).next_back().map_or(start, |(first, _)| *first);
        while let Some((first, cached)) =
            self.cached.range(from..end).find(|(_, cached)| cached.end > start).map(|(f, c)| (*f, *c))
        {
            self.cached.remove(&first);
            if first < start {
                self.cached.insert(first, Cached { end: start, place: cached.place });
            }
            if cached.end > end {
                let place = cached.place + (end - first);
                self.cached.insert(end, Cached { end: cached.end, place });
                break;
            }
        }
    }

    /// The band whose data is the oldest of the log, by its first address.
    pub(super) fn oldest(&mut self) -> Option<u64> {
        while let Some(entry) = self.log.front() {
            if self.bands.get(&entry.band).is_none_or(|band| band.cleaned < entry.number) {
                return Some(entry.band * self.band_bytes);
            }
            self.used_bytes -= entry.bytes;
            self.log.pop_front();
        }
        None
    }

    /// The first range from an address of a band on that is in the persistent cache: place and bytes, and the
    /// address behind it.
    pub(super) fn next_cached(&self, address: u64, band_end: u64) -> Option<((u64, u64), u64)> {
        let (start, cached) = self.cached.range(address..band_end).next()?;
        Some(((cached.place, cached.end - start), cached.end))
    }

    /// What a band holds at home: place and bytes.
    pub(super) fn at_home(&self, band_start: u64) -> (u64, u64) {
        (self.home(band_start), self.filled(band_start))
    }

    /// All of a band's data has been read; it is written beside the log first, so that it is not lost without
    /// power, and then home.
    pub(super) fn clean(&mut self, band_start: u64) {
        let (_, band_end) = self.band(band_start);
        let last = self.cached.range(band_start..band_end).next_back().map_or(band_start, |(_, c)| c.end);
        self.forget(band_start, band_end);
        let number = self.number;
        let band = self.entry(band_start);
        band.filled = band.filled.max(last - band_start);
        band.cleaned = number;
        let bytes = band.filled;
        self.unwritten = [(self.home(band_start), bytes), (self.log_bytes, bytes)];
        self.unwritten_steps = 2;
        self.tally.band_cleans += 1;
        let _ = self.oldest();
    }

    /// The next part of the band that is being cleaned: place and bytes.
    pub(super) fn unwritten(&mut self) -> Option<(u64, u64)> {
        self.unwritten_steps = self.unwritten_steps.checked_sub(1)?;
        let step = self.unwritten[self.unwritten_steps];
        self.tally.cleaning_bytes += step.1;
        Some(step)
    }

    /// Whether a band has been read that is not written yet.
    pub(super) const fn is_cleaning(&self) -> bool {
        self.unwritten_steps > 0
    }

    /// Bytes of the log that are taken.
    pub(super) const fn used_bytes(&self) -> u64 {
        self.used_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::hdd_parameters;
    use proptest::prelude::*;

    /// 64 addresses in bands of 16, a log of 40.
    fn small(bands: Bands, most_ranges: u64) -> Shingle {
        let parameters = Parameters {
            band_bytes: 16,
            media_cache_bytes: 56,
            media_cache_ranges: most_ranges,
            direct_write_bytes: 4,
            bands,
            ..hdd_parameters("smr")
        };
        Shingle::new(&parameters, 64).unwrap()
    }

    #[test]
    fn only_what_continues_or_replaces_a_band_goes_home() {
        let mut empty = small(Bands::Empty, 100);
        assert!(empty.goes_home(0, 4) && empty.goes_home(16, 40));
        assert!(!empty.goes_home(0, 3), "too little in sequence");
        assert!(!empty.goes_home(4, 16), "does not begin where the band's data ends");
        empty.written_home(0, 6, 6);
        assert!(empty.goes_home(6, 10) && !empty.goes_home(0, 10) && empty.goes_home(0, 16));
        let written = small(Bands::Written, 100);
        assert!(!written.goes_home(0, 15) && written.goes_home(0, 16) && written.goes_home(48, 64));
    }

    #[test]
    fn cleaning_makes_room_for_the_oldest() {
        let mut shingle = small(Bands::Written, 3);
        for start in [17, 33, 20] {
            assert!(shingle.has_room(2));
            shingle.append(start, start + 2);
        }
        assert!(!shingle.has_room(2), "three ranges are all it maps");
        assert_eq!(shingle.oldest(), Some(16));
        shingle.clean(16);
        // Both ranges of the band are home; behind the second band's, the third entry still holds its place.
        assert_eq!((shingle.locate(17, 18), shingle.used_bytes()), ((56 + 17, 18), 4));
        assert_eq!(
            [shingle.unwritten(), shingle.unwritten(), shingle.unwritten()],
            [Some((40, 16)), Some((56 + 16, 16)), None]
        );
        assert_eq!(shingle.oldest(), Some(32));
        shingle.clean(32);
        assert_eq!((shingle.used_bytes(), shingle.oldest()), (0, None));
    }

    proptest! {
        /// Every address has one place, the one it was written to last, whatever was written and cleaned.
        #[test]
        fn an_address_is_where_it_was_written_last(
            steps in proptest::collection::vec((0_u8..4, 0_u64..64, 1_u64..12), 1..80),
        ) {
            let mut shingle = small(Bands::Empty, 1000);
            let mut places: Vec<u64> = (0..64).map(|address| 56 + address).collect();
            for (kind, start, length) in steps {
                let (band_start, band_end) = shingle.band(start);
                let end = (start + length).min(band_end);
                if kind == 0 {
                    shingle.clean(band_start);
                    for address in band_start..band_end {
                        places[usize::try_from(address).unwrap()] = 56 + address;
                    }
                } else {
                    while !shingle.has_room(end - start) {
                        let band = shingle.oldest().unwrap();
                        shingle.clean(band);
                        for address in band..band + 16 {
                            places[usize::try_from(address).unwrap()] = 56 + address;
                        }
                    }
                    let place = shingle.append(start, end);
                    prop_assert!(place + (end - start) <= 40);
                    for address in start..end {
                        places[usize::try_from(address).unwrap()] = place + (address - start);
                    }
                }
                let mut at = 0;
                while at < 64 {
                    let (place, until) = shingle.locate(at, 64);
                    prop_assert!(until > at);
                    for address in at..until {
                        prop_assert_eq!(place + (address - at), places[usize::try_from(address).unwrap()]);
                    }
                    at = until;
                }
            }
        }
    }
}
