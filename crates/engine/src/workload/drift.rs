//! A random mix of operations over a set of file slots (Petrovič 2017 §4.4), one thread's part.
//!
//! Each step draws a kind from the weights, then the slot it works on. Slots are kept by what they hold, so
//! that a draw always finds an object where there is one; a kind that has none (a create with every slot
//! live) is drawn again, which leaves the proportions of the others as they are, however rare those are. The
//! thesis and fs-drift count such draws as misses instead: near half of theirs.
//!
//! Choices that the sources leave open:
//! - `truncate` cuts to an even choice of all smaller sizes, 0 included; empty files are only appended to,
//!   renamed, linked and deleted.
//! - Hard links and symbolic links belong to the file they were made for: a `delete` of it takes its newest
//!   link first and the file itself last. At most half the slots' number of links exists at a time.
//! - `mkdir` makes leaf directories until there are twice as many as at the start (at least 16 more); `rmdir`
//!   removes empty ones.
//! - With non-even choice, the drawn slot number stands for the nearest slot (on the ring of slots) that can
//!   do what is asked; slots beside a gap are therefore drawn more often.
//!
//! With a profile (`like`), files are made in the sizes it has, and an append gives a file more of the size
//! it was meant to have; the share of files that come about like this is steered by what the volume's layout
//! is measured to be.
//!
//! Memory: 48 bytes a slot, and 16 where links have a weight. A step costs no allocation, but for one in
//! which only very rare kinds have an object.

mod account;
mod adopt;
mod attached;
mod bitmap;
mod choice;
mod directory;
mod grow;
mod resolve;
mod slot;
mod steer;
mod step;

use fsage_model::operation::{Action, Operation, OperationKind, Outcome};

use self::attached::Pool;
use self::choice::Choice;
use self::directory::DirectoryTable;
use self::grow::Grow;
use self::slot::{Set, SlotTable};
use self::steer::Steer;
use super::{Feedback, Workload};
use crate::distribution::{Alias, Random, Sizes};
use crate::tree::Directory;

/// Draws of a kind from all weights before one is drawn from those that have an object only.
const DRAWS: u32 = 2500;

/// The workload `drift` of one thread.
pub struct Drift {
    thread: u32,
    random: Random,
    slots: SlotTable,
    directories: DirectoryTable,
    attached: Pool,
    choice: Choice,
    file_sizes: Sizes,
    io_sizes: Sizes,
    /// Kinds by weight.
    mix: Alias,
    /// The same while fewer than `fill_slots` are live.
    filling_mix: Alias,
    fill_slots: u32,
    /// By kind, as given.
    weights: [f64; 16],
    steer: Option<Steer>,
    /// With a profile: files that have not their size yet.
    grow: Option<Grow>,
    /// Share of the files to be made that grow.
    grow_share: f64,
    /// Sizes are multiples of this: 4096 in direct mode, else 1.
    granule: u64,
    random_accesses: u32,
    fsync_probability: f64,
    fdatasync_probability: f64,
    initial: Vec<Directory>,
    next_file: u64,
    next_name: u64,
    /// Slot of the operation under way.
    slot: u32,
    fsync_due: bool,
    fdatasync_due: bool,
    upkeep: bool,
}

impl Workload for Drift {
    fn next(&mut self, feedback: &Feedback) -> Option<Operation> {
        self.upkeep = false;
        if self.fsync_due {
            self.fsync_due = false;
            return Some(self.on_file(Action::Fsync));
        }
        if self.fdatasync_due {
            self.fdatasync_due = false;
            return Some(self.on_file(Action::Fdatasync));
        }
        self.grow_share = feedback.grow_share;
        let mut excess = 0.0;
        if let Some(steer) = &mut self.steer {
            let live_bytes = self.slots.live_bytes();
            excess = steer.excess(feedback, live_bytes);
            if steer.must_release(live_bytes) {
                if let Some(operation) = self.release() {
                    return Some(operation);
                }
                self.give_up_release();
            }
        }
        let kind = self.draw_kind(excess)?;
        let operation = self.step(kind, excess)?;
        self.choice.advance();
        Some(operation)
    }

    fn release(&mut self) -> Option<Operation> {
        // What was to be synced may be what is deleted now.
        (self.fsync_due, self.fdatasync_due) = (false, false);
        self.slot = self.slots.any(Set::Live, &mut self.random)?;
        self.upkeep = true;
        Some(self.delete())
    }

    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        if outcome.errno == 0 {
            self.succeeded(operation);
        } else {
            self.failed(operation, outcome.errno);
        }
    }

    fn is_upkeep(&self) -> bool {
        self.upkeep
    }

    fn is_stuck(&self) -> bool {
        OperationKind::ALL.iter().all(|kind| !self.has_weight(*kind) || !self.is_possible(*kind))
    }
}

impl Drift {
    fn has_weight(&self, kind: OperationKind) -> bool {
        self.weights[usize::from(bit(kind))] > 0.0
    }

    /// Whether an object for this kind of operation exists.
    fn is_possible(&self, kind: OperationKind) -> bool {
        use OperationKind as K;
        match kind {
            K::Create => self.slots.members(Set::Dead) > 0,
            K::RandomWrite | K::Overwrite | K::Truncate | K::Read | K::RandomRead => {
                self.slots.members(Set::Sized) > 0
            }
            K::Append if self.grow.is_some() => self.grow.as_ref().is_some_and(|grow| !grow.is_idle()),
            K::Append | K::Fallocate | K::Delete | K::Rename | K::Fsync | K::Fdatasync => {
                self.slots.members(Set::Live) > 0
            }
            K::Symlink | K::Link => self.slots.members(Set::Live) > 0 && self.attached.has_room(),
            K::Mkdir => self.directories.can_make(),
            K::Rmdir => self.directories.can_remove(),
        }
    }

    /// Draws kinds until one has an object.
    #[inline]
    fn draw_kind(&mut self, excess: f64) -> Option<OperationKind> {
        let filling = self.slots.members(Set::Live) < self.fill_slots;
        for _ in 0..DRAWS {
            let mix = if filling { &self.filling_mix } else { &self.mix };
            let kind = OperationKind::ALL[mix.draw(&mut self.random)];
            let kind = if self.steer.is_some() { self.steered(kind, excess) } else { kind };
            let kind = match &self.grow {
                Some(grow) if kind == OperationKind::Create && grow.is_full() => OperationKind::Append,
                _ => kind,
            };
            if self.is_possible(kind) {
                return Some(kind);
            }
        }
        self.draw_possible()
    }

    /// A kind that has an object, in the proportion of the weights among those; none is possible where there
    /// is none.
    #[cold]
    fn draw_possible(&mut self) -> Option<OperationKind> {
        let possible = |kind: &OperationKind| self.has_weight(*kind) && self.is_possible(*kind);
        let kinds: Vec<_> = OperationKind::ALL.into_iter().filter(possible).collect();
        let last = *kinds.last()?;
        let weight = |kind: &OperationKind| self.weights[usize::from(bit(*kind))];
        let mut left = self.random.unit() * kinds.iter().map(weight).sum::<f64>();
        for kind in kinds {
            left -= self.weights[usize::from(bit(kind))];
            if left < 0.0 {
                return Some(kind);
            }
        }
        Some(last)
    }

    /// The kind that is done for the drawn one so that use stays at its target.
    fn steered(&mut self, kind: OperationKind, excess: f64) -> OperationKind {
        use OperationKind as K;
        let away = match kind {
            K::Create | K::Append | K::Fallocate => excess > 0.0,
            K::Delete | K::Truncate => excess < 0.0,
            _ => false,
        };
        if !away || !self.random.chance(Steer::chance(excess)) {
            return kind;
        }
        match kind {
            K::Create | K::Append | K::Fallocate if self.is_possible(K::Delete) => K::Delete,
            K::Delete | K::Truncate if self.is_possible(K::Create) => K::Create,
            K::Delete | K::Truncate if self.has_weight(K::Append) && self.is_possible(K::Append) => K::Append,
            _ => kind,
        }
    }

    fn give_up_release(&mut self) {
        if let Some(steer) = &mut self.steer {
            steer.give_up();
        }
    }
}

/// The number of a kind's bit.
const fn bit(kind: OperationKind) -> u8 {
    kind as u8
}
