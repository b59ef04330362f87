//! The bytes of a disk, in memory, by what they are.
//!
//! A disk of up to 16 TiB is a map from blocks of 4096 bytes to codes. Zeros are not kept. Self-describing
//! blocks (see [`fsage_content`]; whole, or a prefix with zeros behind it) are kept as runs of what they say
//! they are: a file that lies in one piece costs 24 bytes. Everything else lies in pages of an arena that
//! returns its memory to the kernel when it is not needed any more; what was not used lately is compressed,
//! and can be spilled to a file.
//!
//! | module | what |
//! | --- | --- |
//! | `code` | what a run of blocks holds |
//! | `chunk`, `map` | which block holds what; copies share what they have in common |
//! | `arena` | raw pages and who refers to them |
//! | `cold`, `pack`, `spill` | what becomes of pages that are not used |
//! | `read`, `write` | between bytes and codes |
//! | `piece`, `journal` | what a recorded request put where: the log's payload |
//! | `view` | other states of the disk beside it |
//!
//! **Snapshots** share everything with the disk until one of them is written. Any number may exist; each can
//! be read and deleted.
//!
//! **For the log.** [`Store::write`] and [`Store::zero`] append [`Piece`]s to a list when one is given; while
//! one is given, nothing is overwritten in place, so that every piece stays readable ([`Store::read_piece`]).
//! A piece holds references to its pages: who drops pieces calls [`Store::release`] with them first, who
//! copies them [`Store::retain`]. A log that begins with a snapshot and keeps the pieces of each entry can
//! give every state in between: [`Store::view`] of that snapshot, then [`Store::step`] with the entries'
//! pieces, in any selection, and [`Store::back`].
//!
//! **Cost.** A block that is refused costs about 10 ns, one that is recognised as long as making it; an
//! aligned raw write in place is a search in a chunk and a copy. Memory beside raw pages: 24 bytes a run,
//! about 100 a 2 MiB chunk in use, 8 KiB a GiB in use.

mod arena;
mod chunk;
mod code;
mod cold;
mod error;
mod journal;
mod map;
mod number;
mod pack;
mod piece;
mod read;
mod spill;
mod view;
mod write;

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsage_model::disk::StoreUsage;
use fsage_model::disk::call::SnapshotId;
use serde::{Deserialize, Serialize};

pub use self::code::{BLOCK_BYTES, Described};
pub use self::error::StoreError;
pub use self::journal::Journal;
pub use self::piece::{Content, Piece};

use self::arena::{Arena, Limits};
use self::code::BLOCK;
use self::map::{Map, Pool};
use self::number::wide;
use self::spill::Spill;
use self::view::View;
use self::write::Pen;

/// The largest disk: 16 TiB.
pub const MAX_BYTES: u64 = 16 << 40;

/// How a store keeps its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Bytes of memory for raw pages, packed ones too; without a spill folder, writes beyond fail. Rounded up
    /// to 2 MiB, at least 4 MiB.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes of memory for raw pages, packed ones too, beyond which those that were not used lately are
    /// packed. Costs some 4 ms for each 2 MiB of new pages that are written then, if they can be packed at
    /// all, and next to nothing if not.
    pub pack_above_bytes: u64,
    /// Folder for the file that takes what goes beyond the limit.
    pub spill_folder: Option<PathBuf>,
    /// Bytes of memory that are touched when the store is made and kept, so that no write has to wait for
    /// them.
    pub reserve_bytes: u64,
}

impl Default for StoreOptions {
    /// No limit; packed above 48 MiB; nothing reserved.
    fn default() -> Self {
        Self { memory_limit_bytes: None, pack_above_bytes: 48 << 20, spill_folder: None, reserve_bytes: 0 }
    }
}

/// Name of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ViewId(pub u32);

/// The bytes of a disk. Ranges must lie on the disk: see [`Store::size_bytes`].
#[derive(Debug)]
pub struct Store {
    size_bytes: u64,
    pool: Pool,
    disk: Map,
    snapshots: BTreeMap<SnapshotId, Map>,
    views: BTreeMap<ViewId, View>,
    /// Number of the next snapshot or view.
    next: u32,
}

impl Store {
    /// A store of zeros.
    ///
    /// # Errors
    /// A size that no disk has, no memory for the reserve, no spill file.
    pub fn new(size_bytes: u64, options: &StoreOptions) -> Result<Self, StoreError> {
        if !(BLOCK..=MAX_BYTES).contains(&size_bytes) {
            return Err(StoreError::Size { size_bytes });
        }
        let limits = Limits {
            memory_bytes: options.memory_limit_bytes,
            spill: options.spill_folder.as_deref().map(Spill::new).transpose()?,
            pack_above_bytes: options.pack_above_bytes,
            reserve_bytes: options.reserve_bytes,
        };
        Ok(Self {
            size_bytes,
            pool: Pool { arena: Arena::new(limits)?, map_bytes: 0 },
            disk: Map::new(size_bytes.div_ceil(BLOCK)),
            snapshots: BTreeMap::new(),
            views: BTreeMap::new(),
            next: 1,
        })
    }

    /// Bytes of the disk.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether writes leave the last eighth of the memory limit alone, for what has to be written later.
    pub const fn hold_back(&mut self, held_back: bool) {
        self.pool.arena.held_back = held_back;
    }

    /// Reads from a byte on.
    ///
    /// # Errors
    /// The spill file cannot be read.
    pub fn read(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        read::read(&self.disk, &mut self.pool.arena, offset_bytes, buffer)
    }

    /// Writes from a byte on; appends to `record` what was written.
    ///
    /// # Errors
    /// No memory or spill space: then a part of the bytes may be written, and `record` says which.
    pub fn write(
        &mut self,
        offset_bytes: u64,
        data: &[u8],
        record: Option<&mut Vec<Piece>>,
    ) -> Result<(), StoreError> {
        Pen { map: &mut self.disk, pool: &mut self.pool, record }.write(offset_bytes, data)
    }

    /// Lets a range read as zeros and gives its memory back; appends to `record` what was done.
    ///
    /// # Errors
    /// As for [`Store::write`]: the first and the last block may have to be kept in part.
    pub fn zero(
        &mut self,
        offset_bytes: u64,
        length_bytes: u64,
        record: Option<&mut Vec<Piece>>,
    ) -> Result<(), StoreError> {
        Pen { map: &mut self.disk, pool: &mut self.pool, record }.zero(offset_bytes, length_bytes)
    }

    fn name(&mut self) -> u32 {
        let name = self.next;
        self.next = self.next.wrapping_add(1);
        name
    }

    /// Keeps the present state of the disk. Cost: one step a GiB of the disk, and one for each 2 MiB written
    /// since the last time.
    pub fn snapshot(&mut self) -> SnapshotId {
        let id = SnapshotId(self.name());
        self.snapshots.insert(id, self.disk.share(&mut self.pool));
        id
    }

    /// The snapshots that exist, the oldest first.
    pub fn snapshots(&self) -> impl Iterator<Item = SnapshotId> {
        self.snapshots.keys().copied()
    }

    /// Reads from a snapshot.
    ///
    /// # Errors
    /// There is none of that name; the spill file cannot be read.
    pub fn read_snapshot(
        &mut self,
        id: SnapshotId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<(), StoreError> {
        let map = self.snapshots.get(&id).ok_or(StoreError::NoSnapshot { id: id.0 })?;
        read::read(map, &mut self.pool.arena, offset_bytes, buffer)
    }

    /// Lets the disk hold again what a snapshot holds; the snapshot stays. What was recorded does not say so:
    /// a log ends here.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn revert(&mut self, id: SnapshotId) -> Result<(), StoreError> {
        let map = self.snapshots.get_mut(&id).ok_or(StoreError::NoSnapshot { id: id.0 })?;
        let map = map.share(&mut self.pool);
        std::mem::replace(&mut self.disk, map).release(&mut self.pool);
        Ok(())
    }

    /// Deletes a snapshot. Cost: what only it holds.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn delete_snapshot(&mut self, id: SnapshotId) -> Result<(), StoreError> {
        let map = self.snapshots.remove(&id).ok_or(StoreError::NoSnapshot { id: id.0 })?;
        map.release(&mut self.pool);
        Ok(())
    }

    /// Makes a view that shows a snapshot. The snapshot may be deleted before the view.
    ///
    /// # Errors
    /// There is no such snapshot.
    pub fn view(&mut self, of: SnapshotId) -> Result<ViewId, StoreError> {
        let map = self.snapshots.get_mut(&of).ok_or(StoreError::NoSnapshot { id: of.0 })?;
        let state = map.share(&mut self.pool);
        let id = ViewId(self.name());
        self.views.insert(id, View::new(state));
        Ok(id)
    }

    fn view_mut(&mut self, id: ViewId) -> Result<(&mut View, &mut Pool), StoreError> {
        let view = self.views.get_mut(&id).ok_or(StoreError::NoView { id: id.0 })?;
        Ok((view, &mut self.pool))
    }

    /// Moves a view one entry of a log on: puts its pieces there. What was written to the view itself is
    /// dropped.
    ///
    /// # Errors
    /// No such view; no memory, and then the view has not moved.
    pub fn step(&mut self, id: ViewId, pieces: &[Piece]) -> Result<(), StoreError> {
        let (view, pool) = self.view_mut(id)?;
        view.step(pool, pieces)
    }

    /// Takes the last step of a view back, and drops what was written to it. False if it shows its snapshot
    /// already.
    ///
    /// # Errors
    /// No such view.
    pub fn back(&mut self, id: ViewId) -> Result<bool, StoreError> {
        let (view, pool) = self.view_mut(id)?;
        Ok(view.back(pool))
    }

    /// Drops what was written to a view.
    ///
    /// # Errors
    /// No such view.
    pub fn reset(&mut self, id: ViewId) -> Result<(), StoreError> {
        let (view, pool) = self.view_mut(id)?;
        view.reset(pool);
        Ok(())
    }

    /// Steps that a view is from its snapshot.
    ///
    /// # Errors
    /// No such view.
    pub fn position(&self, id: ViewId) -> Result<u64, StoreError> {
        self.views.get(&id).map(|view| wide(view.position())).ok_or(StoreError::NoView { id: id.0 })
    }

    /// Reads from a view.
    ///
    /// # Errors
    /// No such view; the spill file cannot be read.
    pub fn read_view(&mut self, id: ViewId, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let (view, pool) = self.view_mut(id)?;
        read::read(view.map(), &mut pool.arena, offset_bytes, buffer)
    }

    /// Writes to a view, until it is moved or reset.
    ///
    /// # Errors
    /// No such view; as for [`Store::write`].
    pub fn write_view(&mut self, id: ViewId, offset_bytes: u64, data: &[u8]) -> Result<(), StoreError> {
        let (view, pool) = self.view_mut(id)?;
        Pen { map: view.overlay(pool), pool, record: None }.write(offset_bytes, data)
    }

    /// Lets a range of a view read as zeros, until it is moved or reset.
    ///
    /// # Errors
    /// No such view; as for [`Store::write`].
    pub fn zero_view(&mut self, id: ViewId, offset_bytes: u64, length_bytes: u64) -> Result<(), StoreError> {
        let (view, pool) = self.view_mut(id)?;
        Pen { map: view.overlay(pool), pool, record: None }.zero(offset_bytes, length_bytes)
    }

    /// Deletes a view.
    ///
    /// # Errors
    /// No such view.
    pub fn delete_view(&mut self, id: ViewId) -> Result<(), StoreError> {
        let view = self.views.remove(&id).ok_or(StoreError::NoView { id: id.0 })?;
        view.release(&mut self.pool);
        Ok(())
    }

    /// Copies bytes of a piece, from its byte `from` on; `buffer` must not reach beyond it.
    ///
    /// # Errors
    /// The spill file cannot be read.
    pub fn read_piece(&mut self, piece: &Piece, from: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        debug_assert!(from + wide(buffer.len()) <= piece.length_bytes, "read beyond a piece");
        if buffer.is_empty() { Ok(()) } else { piece.read(&mut self.pool.arena, from, buffer) }
    }

    /// Announces a copy of pieces.
    pub fn retain(&mut self, pieces: &[Piece]) {
        pieces.iter().for_each(|piece| piece.retain(&mut self.pool));
    }

    /// Lets go of pieces: they must not be used any more.
    pub fn release(&mut self, pieces: &[Piece]) {
        pieces.iter().for_each(|piece| piece.release(&mut self.pool));
    }

    /// What it holds and takes. Cost: a step for every 2 MiB of raw pages.
    #[must_use]
    pub fn usage(&self) -> StoreUsage {
        let held = self.disk.held();
        let arena = self.pool.arena.usage();
        let maps = std::iter::once(&self.disk).chain(self.snapshots.values());
        let maps: usize = maps.map(Map::memory_bytes).sum();
        let views: usize = self.views.values().map(View::memory_bytes).sum();
        let map_bytes = wide(self.pool.map_bytes + maps + views);
        StoreUsage {
            held_bytes: (held.raw + held.described) * BLOCK,
            raw_blocks: held.raw,
            described_blocks: held.described,
            zero_blocks: self.size_bytes.div_ceil(BLOCK) - held.raw - held.described,
            pages: arena.pages,
            memory_bytes: arena.memory_bytes + map_bytes,
            map_bytes,
            packed_bytes: arena.packed_bytes,
            spilled_bytes: arena.spilled_bytes,
            snapshots: wide(self.snapshots.len()),
        }
    }
}
