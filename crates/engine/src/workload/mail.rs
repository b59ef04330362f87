//! `mail`: a mail server's boxes in the form of Maildir (D. J. Bernstein, "Using maildir format",
//! cr.yp.to/proto/maildir.html).
//!
//! Each box is a directory with `tmp`, `new` and `cur`. A delivery writes the message into `tmp`, syncs it
//! and renames it into `new`; anyone who has seen it renames it into `cur`. Boxes are chosen by Zipf's law,
//! messages of a box alike. When the volume is fuller than asked, the oldest message of all boxes is deleted,
//! as a server does that keeps mail for a time; as long as it is more than 1 % emptier, messages are only
//! delivered.
//!
//! Limits: the directory is not synced after the rename, for which there is no operation. A message whose
//! delivery failed halfway stays in `tmp` and counts as one of the box. Cost: about three hash look-ups an
//! operation; memory: about 200 bytes a message.

use std::collections::{HashMap, VecDeque};

use fsage_model::operation::{Operation, OperationKind, Outcome};
use fsage_model::quantity::{as_f64, index};
use fsage_model::workload::WorkloadError;
use fsage_model::workload::{MailSpec, MailWeights};

use super::population::{Population, is_shortage};
use super::room::Room;
use super::{Feedback, ResolveContext, Workload};
use crate::distribution::{Random, Sizes, exponential, logarithm};
use crate::tree::Directory;

/// Most boxes: each has four directories.
const MAX_BOXES: u64 = 1_000_000;

/// Share of the volume below the target where messages are only delivered.
const SLACK: f64 = 0.01;

/// What is done to a box, with the shares of the whole up to it.
#[derive(Debug, Clone, Copy)]
struct Mix {
    deliver: f64,
    read: f64,
    seen: f64,
}

/// A box: its messages in no order.
#[derive(Debug, Default)]
struct Mailbox {
    new: Vec<u64>,
    seen: Vec<u64>,
}

/// Where a message is.
#[derive(Debug, Clone, Copy)]
struct Message {
    mailbox: u32,
    is_new: bool,
    /// Position in the box's list.
    position: usize,
}

/// What is left to do of a delivery.
#[derive(Debug, Clone, Copy)]
enum Delivery {
    None,
    Sync(u64),
    Rename(u64),
}

/// The workload `mail` of one thread.
#[derive(Debug)]
pub struct Mail {
    population: Population,
    random: Random,
    sizes: Sizes,
    mix: Mix,
    fsync: bool,
    room: Room,
    /// Share of the choices that fall on a box and those before it.
    choices: Vec<f64>,
    boxes: Vec<Mailbox>,
    messages: HashMap<u64, Message>,
    /// Messages in the order they came; some may be gone.
    oldest: VecDeque<u64>,
    delivery: Delivery,
    /// The box that the delivery under way goes to.
    addressee: u32,
    shortage: bool,
    upkeep: bool,
}

/// The directory of `tmp`; `new` and `cur` follow it.
const fn tmp_of(mailbox: u32) -> u32 {
    4 * mailbox + 2
}

impl Mail {
    /// Validates a description and makes one thread's workload of it.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn resolve(
        spec: &MailSpec,
        thread: u32,
        threads: u32,
        seed: u64,
        context: &ResolveContext,
    ) -> Result<Self, WorkloadError> {
        let (own, all) = (u64::from(thread), u64::from(threads));
        WorkloadError::within("boxes", spec.boxes, all..=MAX_BOXES)?;
        if !(0.0..=4.0).contains(&spec.skew) {
            return Err(WorkloadError::range("skew", spec.skew, "in 0..=4"));
        }
        let boxes = u32::try_from(spec.boxes / all + u64::from(own < spec.boxes % all)).unwrap_or(u32::MAX);
        let tree = (0..boxes).flat_map(|mailbox| {
            let tmp = tmp_of(mailbox);
            let inside = (tmp..tmp + 3).map(move |number| Directory { number, parent: tmp - 1 });
            std::iter::once(Directory { number: tmp - 1, parent: 0 }).chain(inside)
        });
        Ok(Self {
            population: Population::with(thread, tree.collect(), context.write_mode).without_list(),
            random: Random::new(seed, thread),
            sizes: Sizes::resolve(&spec.message_size, "message_size", context.volume_bytes)?,
            mix: mix(&spec.weights)?,
            fsync: spec.fsync,
            room: Room::new(WorkloadError::share("target", spec.target)?, threads),
            choices: zipf(boxes, spec.skew),
            boxes: (0..boxes).map(|_| Mailbox::default()).collect(),
            messages: HashMap::new(),
            oldest: VecDeque::new(),
            delivery: Delivery::None,
            addressee: 0,
            shortage: false,
            upkeep: false,
        })
    }

    /// Files and directories.
    pub(super) const fn population(&self) -> &Population {
        &self.population
    }

    fn any_box(&mut self) -> u32 {
        let share = self.random.unit();
        let mailbox = self.choices.partition_point(|upto| *upto <= share).min(self.choices.len() - 1);
        u32::try_from(mailbox).unwrap_or(0)
    }

    fn deliver(&mut self, mailbox: u32) -> Operation {
        self.addressee = mailbox;
        let size = self.sizes.draw(&mut self.random);
        self.population.create(tmp_of(mailbox), size)
    }

    /// A message of a box, new or not.
    fn any_message(&mut self, mailbox: u32) -> Option<u64> {
        let Mailbox { new, seen } = self.boxes.get(index(mailbox))?;
        let count = u64::try_from(new.len() + seen.len()).unwrap_or(u64::MAX);
        let number = usize::try_from(self.random.below(count)).ok()?;
        new.get(number).or_else(|| seen.get(number - new.len())).copied()
    }

    /// What the mix says; where the box has no such message, one is delivered to it.
    fn step(&mut self) -> Operation {
        let mailbox = self.any_box();
        let share = self.random.unit();
        let operation = if share < self.mix.deliver {
            None
        } else if share < self.mix.read {
            self.any_message(mailbox).and_then(|file| self.population.read(file))
        } else if share < self.mix.seen {
            let new = self.boxes.get(index(mailbox)).and_then(|it| it.new.first().copied());
            new.and_then(|file| self.population.rename(file, tmp_of(mailbox) + 2))
        } else {
            self.any_message(mailbox).and_then(|file| self.population.delete(file))
        };
        operation.unwrap_or_else(|| self.deliver(mailbox))
    }

    /// The delete of the oldest message.
    fn expire(&mut self) -> Option<Operation> {
        while self.oldest.front().is_some_and(|file| !self.messages.contains_key(file)) {
            self.oldest.pop_front();
        }
        let operation = self.population.delete(*self.oldest.front()?)?;
        self.upkeep = true;
        Some(operation)
    }

    /// Puts a message into a list of its box.
    fn put(&mut self, file: u64, mailbox: u32, is_new: bool) {
        let Some(home) = self.boxes.get_mut(index(mailbox)) else { return };
        let list = if is_new { &mut home.new } else { &mut home.seen };
        self.messages.insert(file, Message { mailbox, is_new, position: list.len() });
        list.push(file);
    }

    /// Takes a message out of the list it is in; the box.
    fn take(&mut self, file: u64) -> Option<u32> {
        let Message { mailbox, is_new, position } = self.messages.remove(&file)?;
        let home = self.boxes.get_mut(index(mailbox))?;
        let list = if is_new { &mut home.new } else { &mut home.seen };
        list.swap_remove(position);
        if let Some(moved) = list.get(position).and_then(|moved| self.messages.get_mut(moved)) {
            moved.position = position;
        }
        Some(mailbox)
    }

    /// A message is in its box, or where its delivery failed.
    fn arrived(&mut self, file: u64, is_new: bool) {
        self.delivery = Delivery::None;
        self.put(file, self.addressee, is_new);
        self.oldest.push_back(file);
        if self.oldest.len() > 64 + 2 * self.messages.len() {
            let Self { oldest, messages, .. } = self;
            oldest.retain(|file| messages.contains_key(file));
        }
    }

    fn delivered(&mut self, operation: &Operation, ok: bool) {
        let file = operation.file;
        self.delivery = match (operation.kind(), ok) {
            (OperationKind::Create, true) if self.fsync => Delivery::Sync(file),
            (OperationKind::Create, true) => Delivery::Rename(file),
            (OperationKind::Create, false) => Delivery::None,
            (OperationKind::Fsync, true) => Delivery::Rename(file),
            (_, ok) => return self.arrived(file, ok),
        };
    }
}

/// The shares of a mix.
fn mix(weights: &MailWeights) -> Result<Mix, WorkloadError> {
    let MailWeights { deliver, read, seen, delete } = *weights;
    for (key, value) in [("deliver", deliver), ("read", read), ("seen", seen), ("delete", delete)] {
        if !(value >= 0.0 && value.is_finite()) || (key == "deliver" && value == 0.0) {
            let limit = if key == "deliver" { "above 0" } else { "0 or more" };
            return Err(WorkloadError::range(&format!("weights.{key}"), value, limit));
        }
    }
    let total = deliver + read + seen + delete;
    Ok(Mix {
        deliver: deliver / total,
        read: (deliver + read) / total,
        seen: (deliver + read + seen) / total,
    })
}

/// Shares of the choices up to each of `count` things, of which number n (from 1) has a weight of 1 /
/// n^`skew`.
fn zipf(count: u32, skew: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut upto: Vec<f64> = (1..=count)
        .map(|n| {
            sum += exponential(-skew * logarithm(as_f64(n.into())));
            sum
        })
        .collect();
    upto.iter_mut().for_each(|share| *share /= sum);
    upto
}

impl Workload for Mail {
    fn next(&mut self, feedback: &Feedback) -> Option<Operation> {
        self.upkeep = false;
        let due = match self.delivery {
            Delivery::None => None,
            Delivery::Sync(file) => self.population.fsync(file),
            Delivery::Rename(file) => self.population.rename(file, tmp_of(self.addressee) + 1),
        };
        if due.is_some() {
            return due;
        }
        let room = self.room.bytes(feedback, self.population.model().block_bytes());
        if (self.shortage || room < 0.0)
            && let Some(operation) = self.expire()
        {
            return Some(operation);
        }
        self.shortage = false;
        if room > SLACK * as_f64(feedback.total_bytes) {
            let mailbox = self.any_box();
            return Some(self.deliver(mailbox));
        }
        Some(self.step())
    }

    fn release(&mut self) -> Option<Operation> {
        self.expire()
    }

    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        self.population.completed(operation, outcome);
        let ok = outcome.errno == 0;
        let is_delivery = matches!(self.delivery, Delivery::Rename(file) if file == operation.file);
        match operation.kind() {
            OperationKind::Create | OperationKind::Fsync => self.delivered(operation, ok),
            OperationKind::Rename if is_delivery => self.delivered(operation, ok),
            OperationKind::Rename if ok => {
                if let Some(mailbox) = self.take(operation.file) {
                    self.put(operation.file, mailbox, false);
                }
            }
            OperationKind::Delete if ok => drop(self.take(operation.file)),
            _ => {}
        }
        self.shortage = is_shortage(outcome);
    }

    fn is_upkeep(&self) -> bool {
        self.upkeep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::simulated::Simulated;
    use crate::workload::{AnyWorkload, resolve};
    use fsage_model::load::WriteMode;
    use fsage_model::size::Bytes;
    use fsage_model::workload::{SizeSpec, WorkloadSpec};

    const VOLUME: u64 = 64 << 20;

    fn spec() -> MailSpec {
        let message_size =
            SizeSpec::Lognormal { mu: 9.0, sigma: 1.4, min: Bytes(400), max: Bytes(256 << 10) };
        MailSpec { boxes: 20, message_size, ..MailSpec::default() }
    }

    fn workload(spec: &MailSpec, seed: u64) -> AnyWorkload {
        let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
        resolve(&WorkloadSpec::Mail(spec.clone()), 0, 1, seed, &context).unwrap()
    }

    fn operations(spec: &MailSpec, seed: u64, count: u64) -> Vec<Operation> {
        let done = Simulated::new(VOLUME).drive_for(&mut workload(spec, seed), count);
        done.into_iter().map(|(_, operation, _)| operation).collect()
    }

    #[test]
    fn a_message_is_made_in_tmp_synced_and_renamed_into_new() {
        for delivery in operations(&spec(), 1, 300).chunks_exact(3) {
            let [made, synced, moved] = delivery else { unreachable!() };
            assert_eq!(
                [made.kind(), synced.kind(), moved.kind()],
                [OperationKind::Create, OperationKind::Fsync, OperationKind::Rename]
            );
            assert!(made.file == synced.file && made.file == moved.file);
            assert_eq!(made.place.directory % 4, 2, "tmp");
            assert_eq!(moved.columns().target.directory, made.place.directory + 1, "new of the same box");
        }
        let unsynced = operations(&MailSpec { fsync: false, ..spec() }, 1, 300);
        assert!(unsynced.iter().all(|o| o.kind() != OperationKind::Fsync));
    }

    #[test]
    fn boxes_are_as_unequal_as_asked() {
        let deliveries = |skew| {
            let mut counts = [0.0; 20];
            for operation in operations(&MailSpec { skew, ..spec() }, 3, 9_000) {
                if operation.kind() == OperationKind::Create {
                    counts[index(operation.place.directory / 4)] += 1.0;
                }
            }
            counts
        };
        let (even, zipf) = (deliveries(0.0), deliveries(1.0));
        assert!((0.7..1.4).contains(&(even[0] / even[9])), "{even:?}");
        assert!((7.0..14.0).contains(&(zipf[0] / zipf[9])), "{zipf:?}");
    }

    #[test]
    fn use_is_held_and_everything_is_done() {
        let (mut workload, mut volume) = (workload(&spec(), 5), Simulated::new(VOLUME));
        volume.look_every = 16;
        volume.drive_for(&mut workload, 40_000);
        let mut counts = [0; 16];
        for _ in 0..200 {
            for (_, operation, _) in volume.drive_for(&mut workload, 100) {
                counts[operation.kind() as usize] += 1;
            }
            assert!((volume.used_share() - 0.8).abs() <= 0.011, "{}", volume.used_share());
        }
        let count = |kind: OperationKind| counts[kind as usize];
        assert!(count(OperationKind::Read) > 4_000 && count(OperationKind::Delete) > 1_500, "{counts:?}");
        assert!(
            count(OperationKind::Rename) > count(OperationKind::Create),
            "new to cur as well: {counts:?}"
        );
    }

    #[test]
    fn one_seed_is_one_sequence() {
        assert_eq!(operations(&spec(), 1, 30_000), operations(&spec(), 1, 30_000));
        assert_ne!(operations(&spec(), 1, 3000), operations(&spec(), 2, 3000));
    }

    #[test]
    fn a_full_volume_is_survived() {
        let (mut workload, mut volume) = (workload(&spec(), 1), Simulated::with_room(VOLUME, VOLUME / 4));
        let done = volume.drive_for(&mut workload, 50_000);
        let failed = done.iter().filter(|(.., outcome)| outcome.errno != 0).count();
        assert!((100..25_000).contains(&failed), "{failed} failed");
        assert!(volume.used_share() > 0.24);
    }

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        let refused = |spec: MailSpec, key: &str| {
            let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
            let error = resolve(&WorkloadSpec::Mail(spec), 0, 2, 1, &context).err().expect(key);
            assert_eq!(error.key(), key, "{error}");
        };
        let weights = |deliver, read| MailWeights { deliver, read, ..MailWeights::default() };
        refused(MailSpec { boxes: 1, ..spec() }, "boxes");
        refused(MailSpec { skew: f64::NAN, ..spec() }, "skew");
        refused(MailSpec { target: 0.0, ..spec() }, "target");
        refused(MailSpec { weights: weights(0.0, 1.0), ..spec() }, "weights.deliver");
        refused(MailSpec { weights: weights(1.0, -1.0), ..spec() }, "weights.read");
        refused(MailSpec { message_size: SizeSpec::Fixed { size: Bytes(0) }, ..spec() }, "message_size.size");
    }
}
