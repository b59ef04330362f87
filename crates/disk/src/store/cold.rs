//! What becomes of pages that are not used: packed, spilled, brought back.
//!
//! A hand goes round the groups, as in the clock algorithm (Corbató 1968): a group that was used since it
//! passed is spared once. Above the mark for packing, each group that is taken into use has up to two cold
//! groups packed, so that the cost is spread. Above the limit, what cannot be packed goes to the spill file,
//! and then what is packed too. Group `g` lies at `g` × 2 MiB in the file. A group that is read again and
//! again comes back into memory; a page of it that is written gets a new place, so that nothing is unpacked
//! for it.
//!
//! The mark is for what is in memory and what is packed together. Where what is packed comes near it alone, a
//! quarter as much is left unpacked: a fifth of all memory for the pages that are in use now.

use fsage_sys::memory::HUGE_BYTES;

use super::arena::{Arena, Backing, GROUP_PAGES, place};
use super::code::BLOCK_BYTES;
use super::error::StoreError;
use super::pack::UNIT_BYTES;

/// Units of [`UNIT_BYTES`] read of a spilled group after which it is brought back.
const SPILLED_UNITS_TO_RETURN: u16 = 32;

/// The same for a packed group: by then as much time went into unpacking units as bringing it back and
/// packing another one takes.
const PACKED_UNITS_TO_RETURN: u16 = 256;

/// Groups in memory that the hand passes for each that is taken into use.
const STEPS: usize = 64;

/// Which groups in memory are looked for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// Also those without a page in use.
    free: bool,
    /// Also those that do not shrink.
    stubborn: bool,
}

/// Groups that are packed for each that is taken into use: more than one, so that less than before is left.
const PACKED_AT_ONCE: usize = 2;

impl Arena {
    /// Sees to it that one more group may be in memory.
    pub(super) fn make_room(&mut self) -> Result<(), StoreError> {
        for _ in 0..PACKED_AT_ONCE {
            if self.in_memory.saturating_sub(self.spare) < self.unpacked() || !self.refusals.try_again() {
                break;
            }
            match self.find(STEPS, Wanted { free: false, stubborn: false }) {
                Some(group) => self.pack(group),
                None => break,
            };
        }
        while self.limit().is_some_and(|limit| self.taken() >= limit) {
            self.shrink()?;
        }
        Ok(())
    }

    /// So many groups may be in memory before others are packed.
    fn unpacked(&self) -> usize {
        let packed = self.packed_bytes / HUGE_BYTES;
        self.pack_above.saturating_sub(packed).max(packed / 4)
    }

    /// Memory as a number of groups.
    fn taken(&self) -> usize {
        self.in_memory + self.packed_bytes.div_ceil(HUGE_BYTES)
    }

    /// A group in memory that was not used lately. Inspects so many that are in memory.
    fn find(&mut self, steps: usize, wanted: Wanted) -> Option<usize> {
        let mut left = steps.min(2 * self.in_memory);
        // Twice round: the first clears what keeps the second from finding one.
        for _ in 0..2 * self.groups.len() {
            let group = self.hand;
            self.hand = (self.hand + 1) % self.groups.len();
            let busy = self.current.is_some_and(|(current, _)| current == group);
            let state = &mut self.groups[group];
            if busy || !matches!(state.place, Backing::Memory) {
                continue;
            }
            let recent = std::mem::take(&mut state.recent);
            let fits = !recent && (wanted.stubborn || !state.stubborn);
            if if state.used == 0 { wanted.free } else { fits } {
                return Some(group);
            }
            left = left.checked_sub(1)?;
        }
        None
    }

    /// Takes less memory by packing or spilling one group.
    fn shrink(&mut self) -> Result<(), StoreError> {
        match self.find(usize::MAX, Wanted { free: true, stubborn: self.spill.is_some() }) {
            Some(group) if self.groups[group].used == 0 => {
                self.vacate(group);
                Ok(())
            }
            Some(group) if self.pack(group) => Ok(()),
            Some(group) => self.spill_group(group),
            None => {
                let packed = |group: &usize| matches!(self.groups[*group].place, Backing::Packed(_));
                let group = (0..self.groups.len()).find(packed).ok_or(StoreError::Full)?;
                self.spill_group(group)
            }
        }
    }

    /// Packs a group that is in memory. False: its contents do not shrink.
    fn pack(&mut self, group: usize) -> bool {
        if self.groups[group].stubborn {
            return false;
        }
        let (segment, at) = place(group);
        let bytes = &mut self.segments[segment][at..at + HUGE_BYTES];
        let state = &mut self.groups[group];
        if let Some(references) = &state.references {
            // What is left over in pages that are free need not be kept.
            for (page, count) in bytes.chunks_exact_mut(BLOCK_BYTES).zip(references.iter()) {
                if *count == 0 {
                    page.fill(0);
                }
            }
        }
        let packed = self.packer.pack(bytes);
        self.refusals.note(packed.is_none());
        let Some(packed) = packed else {
            state.stubborn = true;
            return false;
        };
        self.packed_bytes += packed.memory_bytes();
        (state.place, state.reads) = (Backing::Packed(packed), 0);
        self.in_memory -= 1;
        self.discard(group);
        true
    }

    /// Writes a group to the file.
    fn spill_group(&mut self, group: usize) -> Result<(), StoreError> {
        let spill = self.spill.as_mut().ok_or(StoreError::Full)?;
        let (segment, at) = place(group);
        let bytes = &mut self.segments[segment][at..at + HUGE_BYTES];
        match &self.groups[group].place {
            Backing::Packed(packed) => {
                // Its own memory, which nobody else uses meanwhile, takes it for the moment.
                let written =
                    self.packer.read(group, packed, 0, bytes).and_then(|()| spill.write(group, bytes));
                self.packed_bytes -= if written.is_ok() { packed.memory_bytes() } else { 0 };
                self.discard(group);
                written?;
            }
            _ => {
                spill.write(group, bytes)?;
                self.discard(group);
                self.in_memory -= 1;
            }
        }
        let state = &mut self.groups[group];
        (state.place, state.reads) = (Backing::File, 0);
        self.in_file += 1;
        Ok(())
    }

    /// Drops what is packed or spilled of a group.
    pub(super) fn forget(&mut self, group: usize) {
        match std::mem::replace(&mut self.groups[group].place, Backing::Nowhere) {
            Backing::Packed(packed) => self.packed_bytes -= packed.memory_bytes(),
            Backing::File => {
                self.in_file -= 1;
                if let Some(spill) = &mut self.spill {
                    spill.forget(group);
                }
            }
            Backing::Memory | Backing::Nowhere => {}
        }
    }

    /// Brings a packed or spilled group back into memory.
    pub(super) fn bring_back(&mut self, group: usize) -> Result<(), StoreError> {
        self.make_room()?;
        let (segment, at) = place(group);
        let bytes = &mut self.segments[segment][at..at + HUGE_BYTES];
        let read = match (&self.groups[group].place, &mut self.spill) {
            (Backing::Packed(packed), _) => self.packer.read(group, packed, 0, bytes),
            (Backing::File, Some(spill)) => spill.read(group, 0, bytes),
            _ => return Ok(()),
        };
        if let Err(error) = read {
            self.discard(group);
            return Err(error);
        }
        self.forget(group);
        let state = &mut self.groups[group];
        (state.place, state.recent, state.stubborn) = (Backing::Memory, true, false);
        self.in_memory += 1;
        self.list(group);
        Ok(())
    }

    /// Reads from a byte of a group on.
    pub(super) fn read_group(
        &mut self,
        group: usize,
        at: usize,
        buffer: &mut [u8],
    ) -> Result<(), StoreError> {
        debug_assert!(at + buffer.len() <= GROUP_PAGES * BLOCK_BYTES, "read beyond a group");
        if !matches!(self.groups[group].place, Backing::Memory) && !self.returns(group, buffer.len()) {
            return match (&self.groups[group].place, &mut self.spill) {
                (Backing::Packed(packed), _) => self.packer.read(group, packed, at, buffer),
                (Backing::File, Some(spill)) => spill.read(group, at, buffer),
                _ => Err(StoreError::Full),
            };
        }
        self.groups[group].recent = true;
        let (segment, start) = place(group);
        let start = start + at;
        buffer.copy_from_slice(&self.segments[segment][start..start + buffer.len()]);
        Ok(())
    }

    /// Brings a group back of which so many bytes are read now, if it is read often and there is room.
    fn returns(&mut self, group: usize, bytes: usize) -> bool {
        let state = &mut self.groups[group];
        let units = u16::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u16::MAX);
        state.reads = state.reads.saturating_add(units);
        let enough = match state.place {
            Backing::Packed(_) => PACKED_UNITS_TO_RETURN,
            _ => SPILLED_UNITS_TO_RETURN,
        };
        if state.reads < enough {
            return false;
        }
        state.reads = 0;
        // It can be read where it is.
        self.bring_back(group).is_ok()
    }
}
