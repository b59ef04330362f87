//! Where raw blocks are kept: pages in groups the size of a huge page.
//!
//! Pages are handed out in ascending order within a group, so that what is written together lies together; a
//! write never reuses a page that anybody still refers to. Each page counts its references: one from every
//! map that holds it and one from every piece of a recorded write. A group whose last page is let go of
//! returns its memory to the kernel, except for a few that are kept so that the next write finds memory which
//! is there already.
//!
//! Groups that were not used lately are packed or spilled (`cold`): the contents of a page are in memory,
//! packed **or** in the file, never in two places.
//!
//! Known limit: a group in memory with a single page in use keeps its 2 MiB until it is packed.

use fsage_sys::memory::{HUGE_BYTES, Region};

use super::code::{BLOCK_BYTES, Page};
use super::error::StoreError;
use super::number::{index, wide};
use super::pack::{Packed, Packer, Refusals};
use super::spill::Spill;

/// Pages of a group.
pub(super) const GROUP_PAGES: usize = HUGE_BYTES / BLOCK_BYTES;

/// Bytes mapped at once: a call to the kernel for every 64 MiB.
const SEGMENT_BYTES: usize = 32 * HUGE_BYTES;

/// Groups that are free and keep their memory: 16 MiB.
const SPARE_GROUPS: usize = 8;

/// A packed group with no more pages in use than this is brought back to be filled before a new one is taken:
/// or groups would be left with a few pages each, and what is packed in vain would never be less.
const HOLLOW_PAGES: u16 = 256;

/// Where a group's contents are.
#[derive(Debug)]
pub(super) enum Backing {
    /// It has none, and no memory.
    Nowhere,
    Memory,
    Packed(Packed),
    File,
}

/// References to the pages of a group.
type References = [u32; GROUP_PAGES];

#[derive(Debug)]
pub(super) struct Group {
    /// `None` while no page is in use.
    pub references: Option<Box<References>>,
    /// Pages in use.
    pub used: u16,
    pub place: Backing,
    /// It is in the list of groups with free pages, or of hollow ones.
    pub listed: bool,
    /// It was used since the hand passed that looks for cold groups.
    pub recent: bool,
    /// Its contents do not shrink.
    pub stubborn: bool,
    /// Units read of it since it was packed or spilled.
    pub reads: u16,
}

/// Limits of an arena.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// Bytes of memory for pages.
    pub memory_bytes: Option<u64>,
    /// Where what goes beyond is put.
    pub spill: Option<Spill>,
    /// Bytes of memory beyond which groups that were not used lately are packed.
    pub pack_above_bytes: u64,
    /// Bytes of memory that are touched now and never released.
    pub reserve_bytes: u64,
}

/// What an arena takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ArenaUsage {
    /// Pages in use.
    pub pages: u64,
    /// Bytes of memory, spare groups and reference counts included.
    pub memory_bytes: u64,
    /// Of these, what packed pages take.
    pub packed_bytes: u64,
    /// Bytes in the spill file.
    pub spilled_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Arena {
    pub(super) segments: Vec<Region>,
    pub(super) groups: Vec<Group>,
    /// The group that pages are taken from, and the page to inspect next.
    pub(super) current: Option<(usize, usize)>,
    /// Groups with free pages, or what was one when it was put here.
    partly: Vec<usize>,
    /// Packed groups of which little is in use, or what was one when it was put here.
    hollow: Vec<usize>,
    /// Groups without memory.
    empty: Vec<usize>,
    /// Groups in memory that are free.
    pub(super) spare: usize,
    spare_wanted: usize,
    pub(super) in_memory: usize,
    pub(super) packed_bytes: usize,
    pub(super) in_file: usize,
    pages: u64,
    limit_groups: Option<usize>,
    /// The last eighth of it is left for later.
    pub(super) held_back: bool,
    pub(super) pack_above: usize,
    pub(super) packer: Packer,
    /// How often in a row packing was not worth it: the next tries wait for the longer.
    pub(super) refusals: Refusals,
    pub(super) spill: Option<Spill>,
    /// Where the search for a cold group continues.
    pub(super) hand: usize,
}

impl Arena {
    pub fn new(limits: Limits) -> Result<Self, StoreError> {
        let Limits { memory_bytes, spill, pack_above_bytes, reserve_bytes } = limits;
        let groups_of = |bytes: u64| index(bytes.div_ceil(wide(HUGE_BYTES)));
        let mut arena = Self {
            segments: Vec::new(),
            groups: Vec::new(),
            current: None,
            partly: Vec::new(),
            hollow: Vec::new(),
            empty: Vec::new(),
            spare: 0,
            spare_wanted: groups_of(reserve_bytes).max(SPARE_GROUPS),
            in_memory: 0,
            packed_bytes: 0,
            in_file: 0,
            pages: 0,
            // Two: the one that is written and one to bring back.
            limit_groups: memory_bytes.map(|bytes| groups_of(bytes).max(2)),
            held_back: false,
            pack_above: groups_of(pack_above_bytes),
            packer: Packer::new()?,
            refusals: Refusals::default(),
            spill,
            hand: 0,
        };
        arena.reserve(groups_of(reserve_bytes))?;
        Ok(arena)
    }

    /// Groups that may be in memory.
    pub(super) fn limit(&self) -> Option<usize> {
        let held_back = |groups: usize| if self.held_back { groups.div_ceil(8) } else { 0 };
        self.limit_groups.map(|groups| (groups - held_back(groups)).max(2))
    }

    /// Touches the memory of so many groups.
    fn reserve(&mut self, groups: usize) -> Result<(), StoreError> {
        while self.groups.len() < groups {
            self.map_segment()?;
        }
        for group in 0..groups {
            let (segment, at) = place(group);
            self.segments[segment].populate(at..at + HUGE_BYTES).map_err(StoreError::Memory)?;
            self.groups[group].place = Backing::Memory;
        }
        self.in_memory = groups;
        self.spare = groups;
        self.empty.retain(|group| *group >= groups);
        self.partly = (0..groups).rev().collect();
        self.groups[..groups].iter_mut().for_each(|group| group.listed = true);
        Ok(())
    }

    fn map_segment(&mut self) -> Result<(), StoreError> {
        self.segments.push(Region::map(SEGMENT_BYTES).map_err(StoreError::Memory)?);
        let first = self.groups.len();
        let more = SEGMENT_BYTES / HUGE_BYTES;
        self.groups.extend((0..more).map(|_| Group {
            references: None,
            used: 0,
            place: Backing::Nowhere,
            listed: false,
            recent: false,
            stubborn: false,
            reads: 0,
        }));
        self.empty.extend((first..first + more).rev());
        Ok(())
    }

    /// Takes up to `wanted` consecutive pages, at least one; each has one reference. What they hold is left
    /// over.
    pub fn allocate(&mut self, wanted: usize) -> Result<(Page, usize), StoreError> {
        loop {
            let (group, at) = match self.current {
                Some(current) => current,
                None => (self.next_group()?, 0),
            };
            let state = &mut self.groups[group];
            let references = state.references.get_or_insert_with(|| Box::new([0; GROUP_PAGES]));
            let Some(free) = references[at..].iter().position(|count| *count == 0) else {
                self.current = None;
                self.list(group);
                continue;
            };
            let first = at + free;
            let most = GROUP_PAGES.min(first + wanted.max(1));
            let length = references[first..most].iter().take_while(|count| **count == 0).count();
            references[first..first + length].fill(1);
            if state.used == 0 {
                self.spare = self.spare.saturating_sub(1);
            }
            state.used += u16::try_from(length).unwrap_or(0);
            (state.recent, state.stubborn) = (true, false);
            self.pages += wide(length);
            self.current = Some((group, first + length));
            return Ok((Page(wide(group * GROUP_PAGES + first)), length));
        }
    }

    /// A group with free pages, in memory.
    fn next_group(&mut self) -> Result<usize, StoreError> {
        while let Some(group) = self.partly.pop() {
            self.groups[group].listed = false;
            if self.has_room(group) {
                return Ok(group);
            }
            // It may have been packed meanwhile.
            self.list(group);
        }
        while let Some(group) = self.hollow.pop() {
            self.groups[group].listed = false;
            if self.is_hollow(group) {
                self.bring_back(group).inspect_err(|_| self.list(group))?;
            }
            if self.has_room(group) {
                return Ok(group);
            }
        }
        if self.empty.is_empty() {
            self.map_segment()?;
        }
        self.make_room()?;
        let group = self.empty.pop().ok_or(StoreError::Full)?;
        self.groups[group].place = Backing::Memory;
        self.in_memory += 1;
        self.spare += 1;
        Ok(group)
    }

    /// Whether a group has free pages in memory, and is not the one that pages are taken from.
    fn has_room(&self, group: usize) -> bool {
        let state = &self.groups[group];
        let free = usize::from(state.used) < GROUP_PAGES && matches!(state.place, Backing::Memory);
        free && self.current.is_none_or(|(current, _)| current != group)
    }

    /// Whether so little of a packed group is in use that it should be filled.
    fn is_hollow(&self, group: usize) -> bool {
        let state = &self.groups[group];
        state.used <= HOLLOW_PAGES && matches!(state.place, Backing::Packed(_))
    }

    /// Notes that a group has free pages, in memory or packed.
    pub(super) fn list(&mut self, group: usize) {
        if self.groups[group].listed {
            return;
        }
        let list = if self.has_room(group) {
            &mut self.partly
        } else if self.is_hollow(group) {
            &mut self.hollow
        } else {
            return;
        };
        list.push(group);
        self.groups[group].listed = true;
    }

    /// Returns the memory of a free group.
    pub(super) fn vacate(&mut self, group: usize) {
        self.discard(group);
        let state = &mut self.groups[group];
        (state.place, state.references) = (Backing::Nowhere, None);
        self.in_memory -= 1;
        self.spare = self.spare.saturating_sub(1);
        self.empty.push(group);
    }

    pub(super) fn discard(&mut self, group: usize) {
        let (segment, at) = place(group);
        // Refused only for locked memory before Linux 5.18: then the memory stays, to be used again.
        let _ = self.segments[segment].release(at..at + HUGE_BYTES);
    }

    /// Adds a reference to each of these pages, which are in use.
    pub fn retain(&mut self, page: Page, pages: u64) {
        self.each_group(page, pages, |arena, group, from, to| {
            if let Some(references) = &mut arena.groups[group].references {
                for count in &mut references[from..to] {
                    debug_assert!(*count > 0, "a page that is not in use was shared");
                    *count += 1;
                }
            }
        });
    }

    /// Takes a reference from each of these pages.
    pub fn release(&mut self, page: Page, pages: u64) {
        self.each_group(page, pages, Self::release_in_group);
    }

    fn release_in_group(&mut self, group: usize, from: usize, to: usize) {
        let state = &mut self.groups[group];
        let Some(references) = &mut state.references else { return };
        let mut freed = 0_u16;
        for count in &mut references[from..to] {
            debug_assert!(*count > 0, "a page was let go of twice");
            *count = count.saturating_sub(1);
            freed += u16::from(*count == 0);
        }
        if freed == 0 {
            return;
        }
        state.used -= freed;
        self.pages -= u64::from(freed);
        if state.used > 0 {
            self.list(group);
        } else {
            self.freed(group);
        }
    }

    /// The last page of a group was let go of.
    fn freed(&mut self, group: usize) {
        if !matches!(self.groups[group].place, Backing::Memory) {
            self.forget(group);
            self.groups[group].references = None;
            self.empty.push(group);
            return;
        }
        self.spare += 1;
        let current = self.current.is_some_and(|(current, _)| current == group);
        if current {
            // Begin again at its start.
            self.current = Some((group, 0));
        } else if self.spare > self.spare_wanted {
            self.vacate(group);
        } else {
            self.list(group);
        }
    }

    /// Calls `work` for each group that the pages lie in, with the range in it.
    fn each_group(&mut self, page: Page, pages: u64, mut work: impl FnMut(&mut Self, usize, usize, usize)) {
        let (mut at, end) = (index(page.0), index(page.0 + pages));
        while at < end {
            let group = at / GROUP_PAGES;
            let to = end.min((group + 1) * GROUP_PAGES);
            work(self, group, at % GROUP_PAGES, to - group * GROUP_PAGES);
            at = to;
        }
    }

    /// How many of these pages, from the first on, may be written where they are: nobody else refers to them,
    /// and they are in memory.
    pub fn writable(&mut self, page: Page, pages: u64) -> u64 {
        let (group, at) = split(page);
        let state = &mut self.groups[group];
        if !matches!(state.place, Backing::Memory) {
            return 0;
        }
        state.recent = true;
        let most = GROUP_PAGES.min(at + index(pages));
        let Some(references) = &state.references else { return 0 };
        wide(references[at..most].iter().take_while(|count| **count == 1).count())
    }

    /// The bytes of a page and those behind it, as far as they lie in one group, in memory.
    pub fn bytes_mut(&mut self, page: Page, pages: usize) -> &mut [u8] {
        let (group, at) = split(page);
        let (segment, start) = place(group);
        let most = pages.min(GROUP_PAGES - at) * BLOCK_BYTES;
        let start = start + at * BLOCK_BYTES;
        &mut self.segments[segment][start..start + most]
    }

    /// Reads from byte `skip` of a page on; continues in the pages behind.
    pub fn read(&mut self, page: Page, skip: usize, buffer: &mut [u8]) -> Result<(), StoreError> {
        let mut from = index(page.0) * BLOCK_BYTES + skip;
        let mut rest = buffer;
        while !rest.is_empty() {
            let (group, at) = (from / HUGE_BYTES, from % HUGE_BYTES);
            let length = rest.len().min(HUGE_BYTES - at);
            let (now, later) = rest.split_at_mut(length);
            self.read_group(group, at, now)?;
            rest = later;
            from += length;
        }
        Ok(())
    }

    /// What it takes. Cost: one step a group.
    pub fn usage(&self) -> ArenaUsage {
        let counts = wide(self.groups.iter().filter(|group| group.references.is_some()).count())
            * wide(size_of::<References>());
        let tables = wide(self.groups.capacity() * size_of::<Group>());
        ArenaUsage {
            pages: self.pages,
            memory_bytes: wide(self.in_memory * HUGE_BYTES + self.packed_bytes) + counts + tables,
            packed_bytes: wide(self.packed_bytes),
            spilled_bytes: wide(self.in_file * HUGE_BYTES),
        }
    }
}

/// The group of a page, and which of its pages it is.
#[inline]
fn split(page: Page) -> (usize, usize) {
    let page = index(page.0);
    (page / GROUP_PAGES, page % GROUP_PAGES)
}

/// The segment of a group, and the byte at which it begins there.
#[inline]
pub(super) const fn place(group: usize) -> (usize, usize) {
    let at = group * HUGE_BYTES;
    (at / SEGMENT_BYTES, at % SEGMENT_BYTES)
}
