//! The part of the map that the controller has at hand.
//!
//! The map itself is on flash, [`MAP_PAGE_BYTES`] of it for [`SEGMENT_UNITS`] units (4 bytes a unit). A drive with
//! memory of its own holds all of it; one without holds what fits into its controller, or into what the host lends
//! (host memory buffer). There a look-up elsewhere costs a read of flash before that of the data, and what was
//! changed and has to make way is programmed, as many of them together as a group of pages holds.
//!
//! Parts of the map are held in sets of [`WAYS`], the one not used for longest makes way: no search and no
//! allocation beyond one set.
//!
//! Known limits: where the map lies on flash is drawn from the segment's number; blocks of the map are never
//! collected nor erased; collecting and discards change the map for nothing.

use super::Ssd;
use super::flash::{For, Task};
use super::ftl::scattered;
use crate::media::number::index;

/// Units of a part of the map that is read or written as a whole.
pub(super) const SEGMENT_UNITS: u32 = 1024;

/// Its bytes.
const MAP_PAGE_BYTES: u64 = 4096;

const WAYS: u64 = 8;

/// No part of the map.
const NOTHING: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Way {
    segment: u32,
    used: u64,
    changed: bool,
}

/// What a look-up found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    held: bool,
    /// Whether a part that was changed had to make way.
    displaced: bool,
}

/// Which parts of the map are at hand.
#[derive(Debug, Clone)]
pub(super) struct MapCache {
    ways: Vec<Way>,
    sets: u64,
    uses: u64,
    /// Changed parts that made way and are not programmed yet.
    displaced: u64,
    pub reads: u64,
    pub writes: u64,
}

impl MapCache {
    /// Nothing when all of the map of so many units is held.
    pub(super) fn new(bytes: u64, units: u32) -> Option<Self> {
        let segments = u64::from(units.div_ceil(SEGMENT_UNITS));
        let sets = (bytes / MAP_PAGE_BYTES / WAYS).max(1);
        (bytes > 0 && bytes / MAP_PAGE_BYTES < segments).then(|| Self {
            ways: vec![Way { segment: NOTHING, used: 0, changed: false }; index(sets * WAYS)],
            sets,
            uses: 0,
            displaced: 0,
            reads: 0,
            writes: 0,
        })
    }

    fn look_up(&mut self, segment: u32, changes: bool) -> Found {
        self.uses += 1;
        let set = (u64::from(scattered(segment)) * self.sets) >> 32;
        let first = index(set * WAYS);
        let ways = &mut self.ways[first..first + index(WAYS)];
        if let Some(way) = ways.iter_mut().find(|way| way.segment == segment) {
            way.used = self.uses;
            way.changed |= changes;
            return Found { held: true, displaced: false };
        }
        let Some(oldest) = ways.iter_mut().min_by_key(|way| way.used) else {
            return Found { held: false, displaced: false };
        };
        let displaced = oldest.segment != NOTHING && oldest.changed;
        *oldest = Way { segment, used: self.uses, changed: changes };
        Found { held: false, displaced }
    }
}

impl Ssd {
    /// When it is known where a unit is, or when its new place can be noted, not before `ready_ns`.
    pub(super) fn looked_up(&mut self, unit: u32, ready_ns: u64, changes: bool) -> u64 {
        let Some(map) = &mut self.map else { return ready_ns };
        let segment = unit / SEGMENT_UNITS;
        let found = map.look_up(segment, changes);
        let layout = self.ftl.layout;
        // No group of data has these numbers.
        let (die, page) = (scattered(segment) % layout.dies, NOTHING - segment);
        if found.displaced {
            map.writes += 1;
            map.displaced += 1;
            let bytes = u64::from(layout.units_per_group) * layout.unit_bytes;
            if map.displaced * MAP_PAGE_BYTES >= bytes {
                map.displaced = 0;
                let task = Task::Program { group: page, bytes, slc: layout.slc_blocks > 0 };
                self.flash.ask(die, task, ready_ns, For::Collection, 0);
            }
        }
        if found.held || !self.ftl.has_map(unit) {
            return ready_ns;
        }
        map.reads += 1;
        self.flash.read(die, page, MAP_PAGE_BYTES, ready_ns).unwrap_or(ready_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_makes_way() {
        assert!(MapCache::new(1 << 20, 1 << 18).is_none(), "all of the map fits");
        let mut map = MapCache::new(8 * MAP_PAGE_BYTES, 1 << 20).unwrap();
        let held = |map: &mut MapCache, segment| map.look_up(segment, false).held;
        assert!((0..8).all(|segment| !held(&mut map, segment)));
        assert!((0..8).all(|segment| held(&mut map, segment)));
        assert!(!held(&mut map, 8) && held(&mut map, 1) && !held(&mut map, 0) && !held(&mut map, 2));
        assert_eq!(map.look_up(3, true), Found { held: false, displaced: false });
        for segment in 20..27 {
            assert!(!map.look_up(segment, false).displaced);
        }
        assert!(map.look_up(27, false).displaced, "the one that was changed");
    }
}
