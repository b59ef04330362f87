//! The drift workload against a simple model, a real directory and a modelled volume.

mod mix;
mod model;
mod real;
mod refusal;
mod volume;

use std::collections::BTreeMap;

use fsage_engine::workload::{AnyWorkload, Feedback, ResolveContext, Workload, resolve};
use fsage_model::load::WriteMode;
use fsage_model::operation::{Operation, OperationKind, Outcome};
use fsage_model::size::Bytes;
use fsage_model::workload::{ChoiceSpec, DirectorySpec, DriftSpec, SizeSpec, WorkloadSpec};
use proptest::prelude::*;

use model::Model;

const CONTEXT: ResolveContext = ResolveContext { volume_bytes: 0, write_mode: WriteMode::Buffered };

fn make(spec: &DriftSpec, thread: u32, threads: u32, seed: u64) -> AnyWorkload {
    resolve(&WorkloadSpec::Drift(spec.clone()), thread, threads, seed, &CONTEXT).expect("a valid description")
}

fn done(errno: i32) -> Outcome {
    Outcome { errno, latency_ns: 1 }
}

/// The next operations, all successful.
fn operations(workload: &mut AnyWorkload, count: usize) -> Vec<Operation> {
    (0..count)
        .map_while(|_| {
            let operation = workload.next(&Feedback::default())?;
            workload.completed(&operation, &done(0));
            Some(operation)
        })
        .collect()
}

fn every_weight(weight: f64) -> BTreeMap<OperationKind, f64> {
    OperationKind::ALL.iter().map(|kind| (*kind, weight)).collect()
}

/// Small files, few slots, every operation.
fn small() -> DriftSpec {
    DriftSpec {
        slots: 64,
        weights: every_weight(1.0),
        file_size: SizeSpec::Uniform { min: Bytes(1), max: Bytes(30_000) },
        io_size: SizeSpec::Uniform { min: Bytes(1), max: Bytes(20_000) },
        directories: DirectorySpec { count: 9, fan_out: 3, depth: 3 },
        random_accesses: 3,
        ..DriftSpec::default()
    }
}

fn any_choice() -> impl Strategy<Value = ChoiceSpec> {
    prop_oneof![
        Just(ChoiceSpec::Uniform),
        (0.001..3.0_f64).prop_map(|deviation| ChoiceSpec::Gaussian { deviation }),
        (0.001..1.0_f64, -9.0..9.0_f64, 1..50_u64).prop_map(|(deviation, velocity, tick_operations)| {
            ChoiceSpec::Moving { deviation, velocity, tick_operations }
        }),
    ]
}

fn any_weights() -> impl Strategy<Value = BTreeMap<OperationKind, f64>> {
    let weight = prop_oneof![Just(0.0), 0.01..10.0_f64];
    (prop::array::uniform16(weight), 0.01..10.0_f64).prop_map(|(weights, create)| {
        let mut weights: BTreeMap<_, _> = OperationKind::ALL.into_iter().zip(weights).collect();
        weights.insert(OperationKind::Create, create);
        weights
    })
}

prop_compose! {
    fn any_spec()(
        slots in 1..60_u64,
        weights in any_weights(),
        choice in any_choice(),
        count in 1..14_u64,
        fsync_probability in prop_oneof![Just(0.0), 0.0..=1.0_f64],
        fdatasync_probability in prop_oneof![Just(0.0), 0.0..=1.0_f64],
        fill_until in 0.0..=1.0_f64,
    ) -> DriftSpec {
        DriftSpec {
            slots,
            weights,
            choice,
            directories: DirectorySpec { count, ..small().directories },
            fsync_probability,
            fdatasync_probability,
            fill_until,
            ..small()
        }
    }
}

proptest! {
    /// Whatever the description and whatever fails, the workload's tree is that of the model, and an
    /// operation finds its object as long as any is possible.
    #[test]
    fn the_tree_is_that_of_a_simple_model(
        spec in any_spec(),
        seed: u64,
        direct: bool,
        failing in prop_oneof![Just(0.0), 0.0..0.5_f64],
    ) {
        let write_mode = if direct { WriteMode::Direct } else { WriteMode::Buffered };
        let context = ResolveContext { write_mode, ..CONTEXT };
        let mut workload = resolve(&WorkloadSpec::Drift(spec.clone()), 0, 1, seed, &context).expect("valid");
        let mut model = Model::new(&workload, direct);
        let mut random = fsage_engine::distribution::Random::new(seed, 1);
        for step in 0..600 {
            let released = step % 97 == 96;
            let given = if released { workload.release() } else { workload.next(&Feedback::default()) };
            let Some(operation) = given else {
                let right = if released { model.files.is_empty() } else { workload.is_stuck() };
                prop_assert!(right);
                continue;
            };
            prop_assert_eq!(workload.is_upkeep(), released);
            prop_assert!(released || !workload.is_stuck() || operation.kind() == OperationKind::Fsync
                || operation.kind() == OperationKind::Fdatasync);
            model.check(&operation, spec.random_accesses);
            if random.chance(failing) {
                model.fail(&operation);
                workload.completed(&operation, &done(28));
            } else {
                model.apply(&operation);
                workload.completed(&operation, &done(0));
            }
        }
        model.compare(&workload, 0);
        let slots = usize::try_from(spec.slots).expect("small");
        prop_assert!(model.files.len() <= slots);
    }
}

#[test]
fn the_same_seed_gives_the_same_operations() {
    let first = operations(&mut make(&small(), 0, 2, 42), 5000);
    assert_eq!(first.len(), 5000);
    assert_eq!(first, operations(&mut make(&small(), 0, 2, 42), 5000));
    assert_ne!(first, operations(&mut make(&small(), 0, 2, 43), 5000));
    assert_ne!(first, operations(&mut make(&small(), 1, 2, 42), 5000));
}

/// What seed 1 stands for must not change: a change here is a change of every stored result.
#[test]
fn the_operations_are_what_they_were() {
    let mut workload = make(&small(), 0, 1, 1);
    let _ = operations(&mut workload, 10_000);
    assert_eq!(workload.digest().to_string(), GOLDEN_SMALL);
    let choice = ChoiceSpec::Moving { deviation: 0.1, velocity: 3.0, tick_operations: 20 };
    let spec = DriftSpec { choice, ..DriftSpec::default() };
    let mut workload = make(&spec, 0, 1, 1);
    let _ = operations(&mut workload, 10_000);
    assert_eq!(workload.digest().to_string(), GOLDEN_DEFAULT);
}

const GOLDEN_SMALL: &str = "f6b93e18af41ace09bc9697f9865fafb";
const GOLDEN_DEFAULT: &str = "5e8e093cf1eff7e3f2443d9505583f32";

/// Threads know nothing of each other: any interleaving gives the same digest, and contents differ.
#[test]
fn interleaving_does_not_matter() {
    let threads = 4;
    let digest = |order: &mut dyn FnMut(usize) -> usize| {
        let mut workloads: Vec<_> = (0..threads).map(|thread| make(&small(), thread, threads, 9)).collect();
        let mut left = [2000_usize; 4];
        let mut step = 0;
        while let Some(first) = left.iter().position(|left| *left > 0) {
            let wanted = order(step) % 4;
            let thread = if left[wanted] > 0 { wanted } else { first };
            let _ = operations(&mut workloads[thread], 1);
            left[thread] -= 1;
            step += 1;
        }
        let mut digest = fsage_model::digest::Digest::default();
        let mut files = std::collections::BTreeSet::new();
        for workload in &workloads {
            digest.merge(&workload.digest());
            assert!(workload.live_files().all(|file| files.insert(file.file)), "identities are unique");
        }
        digest
    };
    let turns = digest(&mut |step| step);
    assert_eq!(turns, digest(&mut |_| 0));
    assert_eq!(turns, digest(&mut |step| step * step / 7 + step % 3));
}

/// Slots and directories are divided among the threads without rest.
#[test]
fn threads_share_slots_and_directories() {
    let spec = DriftSpec {
        slots: 103,
        weights: BTreeMap::from([(OperationKind::Create, 1.0)]),
        directories: DirectorySpec { count: 23, fan_out: 4, depth: 2 },
        ..small()
    };
    let (mut files, mut directories) = (0, 0);
    for thread in 0..5 {
        let mut workload = make(&spec, thread, 5, 1);
        let _ = operations(&mut workload, 1000);
        assert!(workload.is_stuck(), "every slot is live and only creates have a weight");
        assert_eq!(workload.next(&Feedback::default()), None);
        files += workload.files();
        directories += workload.directories().count() + 1;
    }
    assert_eq!((files, directories), (103, 23));
}
