//! What becomes of pages that are not used: packed, spilled, brought back.
//!
//! A hand goes round the groups, as in the clock algorithm (Corbató 1968): a group that was used since it passed is spared once. Above the
//! mark for packing, each group that is taken into use has one cold group packed, so that the cost is spread; above the limit,
//! what cannot be packed goes to the spill file, and then what is packed too. Group `g` lies at `g` × 2 MiB in the file.
//! A group that is read again and again comes back into memory; a page of it that is written gets a new place.

use fsage_sys::memory::HUGE_BYTES;

use super::arena::{Arena, GROUP_PAGES, Place, place};
use super::code::BLOCK_BYTES;
use super::error::StoreError;

/// Reads of a packed or spilled group after which it is brought back.
const READS_TO_RETURN: u8 = 32;

/// Groups that the hand passes for each that is taken into use.
const STEPS: usize = 64;

impl Arena {
    /// Sees to it that one more group may be in memory.
    pub(super) fn make_room(&mut self) -> Result<(), StoreError> {
        if self.in_memory >= self.pack_above
            && let Some(group) = self.find(STEPS.min(self.groups.len()), false)
        {
            self.pack(group);
        }
        while self.limit_groups.is_some_and(|limit| self.taken() >= limit) {
            self.shrink()?;
        }
        Ok(())
    }

    /// Memory as a number of groups.
    fn taken(&self) -> usize {
        self.in_memory + self.packed_bytes.div_ceil(HUGE_BYTES)
    }

    /// A group in memory that was not used lately, or is free; `any`: it may be one that does not shrink.
    fn find(&mut self, steps: usize, any: bool) -> Option<usize> {
        for _ in 0..steps {
            let group = self.hand;
            self.hand = (self.hand + 1) % self.groups.len();
            let busy = self.current.is_some_and(|(current, _)| current == group);
            let state = &mut self.groups[group];
            if busy || !matches!(state.place, Place::Memory) {
                continue;
            }
            let spared = std::mem::take(&mut state.recent) || (state.stubborn && !any);
            if state.used == 0 && any || state.used > 0 && !spared {
                return Some(group);
            }
        }
        None
    }

    /// Takes less memory by packing or spilling one group.
    fn shrink(&mut self) -> Result<(), StoreError> {
        // Twice round: the first clears what keeps the second from finding one.
        match self.find(2 * self.groups.len(), true) {
            Some(group) if self.groups[group].used == 0 => {
                self.vacate(group);
                Ok(())
            }
            Some(group) if self.pack(group) => Ok(()),
            Some(group) => self.spill_group(group),
            None => {
                let packed = |group: &usize| matches!(self.groups[*group].place, Place::Packed(_));
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
        let Some(packed) = self.packer.pack(bytes) else {
            state.stubborn = true;
            return false;
        };
        self.packed_bytes += packed.memory_bytes();
        (state.place, state.reads) = (Place::Packed(packed), 0);
        self.in_memory -= 1;
        self.give_back(group);
        true
    }

    /// Writes a group to the file.
    fn spill_group(&mut self, group: usize) -> Result<(), StoreError> {
        let spill = self.spill.as_mut().ok_or(StoreError::Full)?;
        let (segment, at) = place(group);
        let bytes = &mut self.segments[segment][at..at + HUGE_BYTES];
        let state = &mut self.groups[group];
        match &state.place {
            Place::Packed(packed) => {
                // Its own memory, which nobody else uses meanwhile, takes it for the moment.
                self.packer.read(packed, 0, bytes)?;
                let written = spill.write(group, bytes);
                self.packed_bytes -= if written.is_ok() { packed.memory_bytes() } else { 0 };
                self.give_back(group);
                written?;
            }
            _ => {
                spill.write(group, bytes)?;
                self.give_back(group);
                self.in_memory -= 1;
            }
        }
        let state = &mut self.groups[group];
        (state.place, state.reads) = (Place::File, 0);
        self.in_file += 1;
        Ok(())
    }

    /// Drops what is packed or spilled of a group.
    pub(super) fn forget(&mut self, group: usize) {
        match std::mem::replace(&mut self.groups[group].place, Place::Nowhere) {
            Place::Packed(packed) => self.packed_bytes -= packed.memory_bytes(),
            Place::File => {
                self.in_file -= 1;
                if let Some(spill) = &mut self.spill {
                    spill.forget(group);
                }
            }
            Place::Memory | Place::Nowhere => {}
        }
    }

    /// Brings a group back into memory.
    fn bring_back(&mut self, group: usize) -> Result<(), StoreError> {
        self.make_room()?;
        let (segment, at) = place(group);
        let bytes = &mut self.segments[segment][at..at + HUGE_BYTES];
        match (&self.groups[group].place, &mut self.spill) {
            (Place::Packed(packed), _) => self.packer.read(packed, 0, bytes)?,
            (Place::File, Some(spill)) => spill.read(group, 0, bytes)?,
            _ => return Ok(()),
        }
        self.forget(group);
        let state = &mut self.groups[group];
        (state.place, state.recent, state.stubborn) = (Place::Memory, true, false);
        self.in_memory += 1;
        self.list(group);
        Ok(())
    }

    /// Reads from a byte of a group on.
    pub(super) fn read_group(&mut self, group: usize, at: usize, buffer: &mut [u8]) -> Result<(), StoreError> {
        debug_assert!(at + buffer.len() <= GROUP_PAGES * BLOCK_BYTES, "read beyond a group");
        let state = &mut self.groups[group];
        if !matches!(state.place, Place::Memory) {
            state.reads = state.reads.saturating_add(1);
            match (&state.place, &mut self.spill) {
                (Place::Packed(packed), _) if state.reads < READS_TO_RETURN => {
                    return self.packer.read(packed, at, buffer);
                }
                (Place::File, Some(spill)) if state.reads < READS_TO_RETURN => {
                    return spill.read(group, at, buffer);
                }
                _ => self.bring_back(group)?,
            }
        }
        self.groups[group].recent = true;
        let (segment, start) = place(group);
        let start = start + at;
        buffer.copy_from_slice(&self.segments[segment][start..start + buffer.len()]);
        Ok(())
    }
}
