//! From a description to a workload: every value is checked, then each thread gets its share.

use std::collections::BTreeMap;

use fsage_model::load::WriteMode;
use fsage_model::operation::{ACCESSES_LIMIT, BLOCK_BYTES, OperationKind};
use fsage_model::workload::WorkloadError;
use fsage_model::workload::{ChoiceSpec, DirectorySpec, DriftSpec, UtilisationSpec};

use super::Drift;
use super::attached::Pool;
use super::choice::{Choice, share_of_motion};
use super::directory::{DirectoryTable, initial_parent};
use super::grow::Grow;
use super::slot::SlotTable;
use super::steer::Steer;
use crate::distribution::{Alias, Random, Sizes};
use crate::tree::Directory;
use crate::workload::ResolveContext;
use fsage_model::fit::derived;

/// Threads a load may have.
const MAX_THREADS: u32 = 64;

/// Slots and directories a thread may have: their numbers have 32 bits.
const MAX_NUMBER: u64 = u32::MAX as u64 - 1;

/// Slots of all threads: each takes up to 40 bytes.
const SLOTS_LIMIT: u64 = 1 << 26;

/// Directories of all threads, as many as a trace may number.
const DIRECTORIES_LIMIT: u64 = 1 << 24;

fn range(key: &str, value: impl ToString, limit: &str) -> WorkloadError {
    WorkloadError::Range { key: key.to_owned(), value: value.to_string(), limit: limit.to_owned() }
}

/// Checks a floating-point value; NaN never passes.
fn within(key: &str, value: f64, good: bool, limit: &str) -> Result<(), WorkloadError> {
    if good { Ok(()) } else { Err(range(key, value, limit)) }
}

fn share(key: &str, value: f64) -> Result<(), WorkloadError> {
    within(key, value, (0.0..=1.0).contains(&value), "in 0..=1")
}

fn at_least_one(key: &str, value: u64) -> Result<(), WorkloadError> {
    if value == 0 { Err(range(key, value, "at least 1")) } else { Ok(()) }
}

/// A thread's part of a count that is divided as evenly as it goes.
fn part(count: u64, thread: u32, threads: u32) -> u64 {
    let (thread, threads) = (u64::from(thread), u64::from(threads));
    count / threads + u64::from(thread < count % threads)
}

fn at_most(key: &str, value: u64, limit: u64) -> Result<(), WorkloadError> {
    if value > limit { Err(range(key, value, &format!("at most {limit}"))) } else { Ok(()) }
}

fn to_number(key: &str, value: u64) -> Result<u32, WorkloadError> {
    u32::try_from(value)
        .ok()
        .filter(|_| value <= MAX_NUMBER)
        .ok_or_else(|| range(key, value, "at most 4294967294 per thread"))
}

impl Drift {
    /// Validates a description and makes one thread's workload of it.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn resolve(
        spec: &DriftSpec,
        thread: u32,
        threads: u32,
        seed: u64,
        context: &ResolveContext,
    ) -> Result<Self, WorkloadError> {
        if let Some(like) = &spec.like {
            like.profile.check().map_err(|error| WorkloadError::Profile { source: error })?;
        }
        let spec = &derived(spec, context.volume_bytes, threads);
        check_threads(spec, thread, threads)?;
        check_shares(spec)?;
        let weights = weights(&spec.weights)?;
        at_most("slots", spec.slots, SLOTS_LIMIT)?;
        let slots = to_number("slots", part(spec.slots, thread, threads))?;
        let steer = steer(spec.utilisation.as_ref(), threads)?;
        let has = |kind: OperationKind| weights[usize::from(super::bit(kind))] > 0.0;
        let (directories, initial) =
            directories(&spec.directories, thread, threads, has(OperationKind::Mkdir))?;
        let links = has(OperationKind::Link) || has(OperationKind::Symlink);
        let (choice, indexed) = choice(&spec.choice, slots, spec.slots, threads)?;
        let mut filling = weights;
        filling[0] *= spec.fill_bias;
        Ok(Self {
            thread,
            random: Random::new(seed, thread),
            slots: SlotTable::new(slots, indexed),
            directories,
            attached: Pool::new(if links { (slots / 2).max(16) } else { 0 }),
            choice,
            file_sizes: Sizes::resolve(&spec.file_size, "file_size", context.volume_bytes)?,
            io_sizes: Sizes::resolve(&spec.io_size, "io_size", context.volume_bytes)?,
            mix: Alias::new(&weights),
            filling_mix: Alias::new(&filling),
            fill_slots: fill_slots(spec.fill_until, slots),
            weights,
            steer,
            grow: spec.like.as_ref().map(|_| Grow::new(slots)),
            grow_share: 0.0,
            granule: if context.write_mode == WriteMode::Direct { BLOCK_BYTES } else { 1 },
            random_accesses: spec.random_accesses,
            fsync_probability: spec.fsync_probability,
            fdatasync_probability: spec.fdatasync_probability,
            initial,
            next_file: 0,
            next_name: 0,
            slot: 0,
            fsync_due: false,
            fdatasync_due: false,
            upkeep: false,
        })
    }
}

fn fill_slots(share: f64, slots: u32) -> u32 {
    u32::try_from(fsage_model::quantity::to_u64(share * f64::from(slots))).unwrap_or(slots)
}

fn check_threads(spec: &DriftSpec, thread: u32, threads: u32) -> Result<(), WorkloadError> {
    if threads == 0 || threads > MAX_THREADS {
        return Err(range("threads", threads, "in 1..=64"));
    }
    if thread >= threads {
        return Err(range("thread", thread, "below the number of threads"));
    }
    at_least_one("slots", spec.slots)?;
    if spec.slots < u64::from(threads) {
        return Err(WorkloadError::Contradiction {
            key: "threads".to_owned(),
            value: threads.to_string(),
            other_key: "slots".to_owned(),
            other_value: spec.slots.to_string(),
            rule: "each thread needs a slot of its own".to_owned(),
        });
    }
    Ok(())
}

fn check_shares(spec: &DriftSpec) -> Result<(), WorkloadError> {
    share("fsync_probability", spec.fsync_probability)?;
    share("fdatasync_probability", spec.fdatasync_probability)?;
    share("fill_until", spec.fill_until)?;
    let bias = spec.fill_bias;
    within("fill_bias", bias, (1.0..=1e9).contains(&bias), "at least 1 and at most 1e9")?;
    let accesses = spec.random_accesses;
    within("random_accesses", f64::from(accesses), (1..=ACCESSES_LIMIT).contains(&accesses), "in 1..=65536")
}

fn weights(spec: &BTreeMap<OperationKind, f64>) -> Result<[f64; 16], WorkloadError> {
    let mut weights = [0.0; 16];
    for (kind, weight) in spec {
        let key = format!("weights.{}", kind.name());
        within(&key, *weight, (0.0..=1e9).contains(weight), "a number in 0..=1e9")?;
        weights[usize::from(super::bit(*kind))] = *weight;
    }
    let total: f64 = weights.iter().sum();
    if total <= 0.0 {
        return Err(WorkloadError::NoWeights);
    }
    let needs_files = |kind: &OperationKind| !matches!(kind, OperationKind::Mkdir | OperationKind::Rmdir);
    let on_files = OperationKind::ALL.iter().filter(|kind| needs_files(kind));
    let files: f64 = on_files.map(|kind| weights[usize::from(super::bit(*kind))]).sum();
    if files > 0.0 && weights[0] <= 0.0 {
        return Err(WorkloadError::NoCreate);
    }
    Ok(weights)
}

fn choice(spec: &ChoiceSpec, slots: u32, all: u64, threads: u32) -> Result<(Choice, bool), WorkloadError> {
    let check = |deviation: f64| {
        within("choice.deviation", deviation, deviation > 0.0 && deviation <= 1e6, "above 0 and at most 1e6")
    };
    match spec {
        ChoiceSpec::Uniform => Ok((Choice::gaussian(1.0, slots), false)),
        ChoiceSpec::Gaussian { deviation } => {
            check(*deviation)?;
            Ok((Choice::gaussian(*deviation, slots), true))
        }
        ChoiceSpec::Moving { deviation, velocity, tick_operations } => {
            check(*deviation)?;
            within(
                "choice.velocity",
                *velocity,
                velocity.abs() <= 1e12,
                "a number of slots in -1e12..=1e12",
            )?;
            at_least_one("choice.tick_operations", *tick_operations)?;
            let (motion, tick) = share_of_motion(*velocity, *tick_operations, all, threads);
            Ok((Choice::moving(*deviation, motion, tick, slots), true))
        }
    }
}

fn steer(spec: Option<&UtilisationSpec>, threads: u32) -> Result<Option<Steer>, WorkloadError> {
    match spec {
        None => Ok(None),
        Some(UtilisationSpec::Maintain { max, free, check_operations }) => {
            let key = "utilisation.max";
            within(key, *max, *max > 0.0 && *max <= 1.0, "above 0 and at most 1")?;
            let key = "utilisation.free";
            within(key, *free, *free > 0.0 && *free <= 1.0, "above 0 and at most 1")?;
            at_least_one("utilisation.check_operations", *check_operations)?;
            if free > max {
                return Err(WorkloadError::Contradiction {
                    key: key.to_owned(),
                    value: free.to_string(),
                    other_key: "utilisation.max".to_owned(),
                    other_value: max.to_string(),
                    rule: "no more can be released than is in use".to_owned(),
                });
            }
            // The executor looks, with the load stopped, and asks for deletes through `release`.
            Ok(None)
        }
        Some(UtilisationSpec::Hold { target }) => {
            let good = *target > 0.0 && *target < 1.0;
            within("utilisation.target", *target, good, "above 0 and below 1")?;
            Ok(Some(Steer::new(*target, threads)))
        }
    }
}

/// Directories of a tree with `fan_out` below each and `depth` levels below the top, the top included.
fn tree_room(fan_out: u64, depth: u32) -> u64 {
    let mut level = 1_u64;
    let mut room = 1_u64;
    for _ in 0..depth {
        level = level.saturating_mul(fan_out);
        room = room.saturating_add(level);
        if room > MAX_NUMBER {
            break;
        }
    }
    room
}

fn directories(
    spec: &DirectorySpec,
    thread: u32,
    threads: u32,
    grows: bool,
) -> Result<(DirectoryTable, Vec<Directory>), WorkloadError> {
    at_least_one("directories.count", spec.count)?;
    at_most("directories.count", spec.count, DIRECTORIES_LIMIT)?;
    at_least_one("directories.fan_out", spec.fan_out)?;
    at_least_one("directories.depth", u64::from(spec.depth))?;
    if spec.depth > 200 {
        return Err(range("directories.depth", spec.depth, "at most 200: paths have 4096 bytes at most"));
    }
    let needed = spec.count.div_ceil(u64::from(threads));
    let room = tree_room(spec.fan_out, spec.depth);
    if needed > room {
        let DirectorySpec { count, fan_out, depth } = *spec;
        return Err(WorkloadError::TreeTooSmall { count, needed, fan_out, depth, room });
    }
    let count = to_number("directories.count", part(spec.count, thread, threads).max(1))?;
    let fan_out = u32::try_from(spec.fan_out).unwrap_or(u32::MAX);
    let initial =
        (1..count).map(|number| Directory { number, parent: initial_parent(number, fan_out) }).collect();
    let more = if grows { count.max(16) } else { 0 };
    Ok((DirectoryTable::new(count, fan_out, spec.depth, more), initial))
}
