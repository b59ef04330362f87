//! Where requests go on the platters: to their addresses, or where a disk with bands of overlapping tracks keeps
//! their data (see [`shingle`](super::shingle)); and what such a disk does by itself.

use super::{DESTAGE_BYTES, Hdd};

impl Hdd {
    /// The place of an address, and up to which address, `end` at most, it continues there.
    pub(super) fn place(&self, address: u64, end: u64) -> (u64, u64) {
        self.shingle.as_ref().map_or((address, end), |shingle| shingle.locate(address, end))
    }

    /// The next range of the write buffer to destage, from where the head is.
    pub(super) fn next_waiting(&self) -> Option<(u64, u64)> {
        let head = self.mechanism.at.byte;
        let Some(shingle) = &self.shingle else { return self.write_cache.next(head, DESTAGE_BYTES) };
        let mut found = self.write_cache.next(shingle.address(head), DESTAGE_BYTES)?;
        let until = self.write_cache.until(found.0);
        if until == self.buffered_to && !shingle.goes_home(found.0, until) {
            // It still grows, perhaps to a whole band: another range goes before it, if there is one.
            found = self.write_cache.next(self.buffered_to, DESTAGE_BYTES)?;
        }
        let (band_start, band_end) = shingle.band(found.0);
        // A band that waits as a whole is written in one go: half written, it would have lost what it held.
        let is_whole = self.write_cache.holds(band_start, band_end);
        Some(if is_whole { (band_start, band_end) } else { (found.0, found.1.min(band_end)) })
    }

    /// Brings a range to the platters, not before `from_ns`; gives when it is there. What waits in sequence
    /// from its beginning on ends at `until`.
    pub(super) fn store(&mut self, from_ns: u64, start: u64, end: u64, until: u64) -> u64 {
        let mut at = start;
        let mut done_ns = from_ns;
        while at < end {
            let next = self.shingle.as_ref().map_or(end, |shingle| shingle.band(at).1.min(end));
            let place = self.prepared(from_ns, at, next, until);
            if self.shingle.is_some() {
                self.overwritten(place, place + (next - at), from_ns);
            }
            let to = self.mechanism.geometry.locate(place);
            done_ns = self.mechanism.access(from_ns, &to, next - at, true);
            at = next;
        }
        done_ns
    }

    /// Makes room for a range, of one band on a disk that has them, and gives its place.
    fn prepared(&mut self, from_ns: u64, start: u64, end: u64, until: u64) -> u64 {
        loop {
            let Some(shingle) = &mut self.shingle else { return start };
            if shingle.goes_home(start, until) {
                shingle.written_home(start, end, until);
                return shingle.home(start);
            }
            if shingle.has_room(end - start) {
                return shingle.append(start, end);
            }
            // All of a band, so that its room in the log is free.
            while self.clean(from_ns) && self.shingle.as_ref().is_some_and(|s| s.is_cleaning()) {}
        }
    }

    /// One step of cleaning, not before `from_ns`: a band is read, its data is written beside the log, and home.
    /// Whether there was one.
    fn clean(&mut self, from_ns: u64) -> bool {
        let Some(shingle) = &mut self.shingle else { return false };
        if let Some((place, bytes)) = shingle.unwritten() {
            self.overwritten(place, place + bytes, from_ns);
            let to = self.mechanism.geometry.locate(place);
            self.mechanism.access(from_ns, &to, bytes, true);
            return true;
        }
        let Some(band_start) = shingle.oldest() else { return false };
        let (_, band_end) = shingle.band(band_start);
        let (place, bytes) = shingle.at_home(band_start);
        self.fetch(from_ns, place, bytes);
        let mut address = band_start;
        while let Some((place, end)) = self.shingle.as_ref().and_then(|s| s.next_cached(address, band_end)) {
            self.fetch(from_ns, place.0, place.1);
            address = end;
        }
        if let Some(shingle) = &mut self.shingle {
            shingle.clean(band_start);
        }
        true
    }

    /// Reads for cleaning.
    fn fetch(&mut self, from_ns: u64, place: u64, bytes: u64) {
        if bytes > 0 {
            let from = self.mechanism.geometry.locate(place);
            self.mechanism.access(from_ns, &from, bytes, false);
        }
    }

    /// A disk with bands that had nothing to do until now: its buffer is destaged, then bands are cleaned, step by
    /// step, until a request comes. One that is under way is finished before that request.
    pub(super) fn idle(&mut self, now_ns: u64) {
        let Some(idle_ns) = self.shingle.as_ref().map(|shingle| shingle.idle_ns).filter(|ns| *ns > 0) else {
            return;
        };
        let from_ns = self.answered_ns.max(self.mechanism.free_ns).saturating_add(idle_ns);
        if from_ns >= now_ns {
            return;
        }
        self.stop_stream(from_ns);
        while self.mechanism.free_ns.max(from_ns) < now_ns
            && (self.destage_next(from_ns).is_some() || self.clean(from_ns))
        {}
    }
}
