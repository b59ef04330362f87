//! Holding use at a target, against a modelled volume that accounts late and has less room than it says.

use std::collections::{BTreeMap, VecDeque};

use fsage_engine::workload::{AnyWorkload, Feedback, Workload};
use fsage_model::operation::{OperationKind as K, Outcome};
use fsage_model::size::Bytes;
use fsage_model::workload::{DriftSpec, SizeSpec, UtilisationSpec};

use super::{make, small};

struct Volume {
    total: u64,
    /// Bytes beyond which a write gets ENOSPC.
    usable: u64,
    /// Metadata: so much at the start and so much a file.
    fixed: u64,
    a_file: u64,
    /// Inspects `statfs` come every so many operations and see what was so many looks ago. In between the
    /// estimate follows what the workloads hold themselves, as the executor's does (`load/fullness.rs`): only
    /// what comes on top of that, metadata here, is known late.
    look_every: u32,
    lag: usize,
}

#[derive(Debug, Default)]
struct Run {
    /// True use at the end of each 100 operations.
    used: Vec<f64>,
    shortages: u32,
    upkeep: u32,
    deletes_of_mix: u32,
}

impl Volume {
    fn overhead(&self, workloads: &[AnyWorkload]) -> u64 {
        workloads.iter().map(|workload| workload.files() * self.a_file).sum::<u64>() + self.fixed
    }

    fn used(&self, workloads: &[AnyWorkload]) -> u64 {
        live(workloads) + self.overhead(workloads)
    }

    #[expect(clippy::cast_precision_loss, reason = "test volumes are small")]
    fn run(&self, spec: &DriftSpec, threads: u32, operations: u32) -> Run {
        let mut workloads: Vec<_> = (0..threads).map(|thread| make(spec, thread, threads, 21)).collect();
        let mut run = Run::default();
        let mut late: VecDeque<u64> = VecDeque::new();
        let mut overhead = self.fixed;
        for step in 0..operations {
            let turn = usize::try_from(step % threads).expect("small");
            let used = self.used(&workloads);
            if step % self.look_every == 0 {
                late.push_back(self.overhead(&workloads));
                if late.len() > self.lag {
                    overhead = late.pop_front().unwrap_or(0);
                }
            }
            let estimate = live(&workloads) + overhead;
            let feedback = Feedback {
                used_share: estimate as f64 / self.total as f64,
                total_bytes: self.total,
                grow_share: 0.0,
            };
            if step % 100 == 0 {
                run.used.push(used as f64 / self.total as f64);
            }
            let workload = &mut workloads[turn];
            let Some(operation) = workload.next(&feedback) else { continue };
            let adds = matches!(operation.kind(), K::Create | K::Append | K::Fallocate);
            let full = adds && used + operation.length() + self.a_file > self.usable;
            run.shortages += u32::from(full);
            run.upkeep += u32::from(workload.is_upkeep());
            run.deletes_of_mix += u32::from(operation.kind() == K::Delete && !workload.is_upkeep());
            workload.completed(&operation, &Outcome { errno: if full { 28 } else { 0 }, latency_ns: 0 });
        }
        run
    }
}

/// What the workloads hold, in whole blocks.
fn live(workloads: &[AnyWorkload]) -> u64 {
    workloads.iter().map(AnyWorkload::live_bytes).sum()
}

const MIB: u64 = 1 << 20;

fn hold(target: f64) -> DriftSpec {
    let weights = BTreeMap::from([
        (K::Create, 10.0),
        (K::Append, 4.0),
        (K::RandomWrite, 2.0),
        (K::Truncate, 2.0),
        (K::Read, 2.0),
        (K::Delete, 5.0),
        (K::Fallocate, 1.0),
    ]);
    DriftSpec {
        slots: 100_000,
        weights,
        file_size: SizeSpec::Uniform { min: Bytes(4096), max: Bytes(64 << 10) },
        utilisation: Some(UtilisationSpec::Hold { target }),
        ..small()
    }
}

/// From the first time that use is within 1 % of the target it stays there.
fn assert_held(run: &Run, target: f64, context: &str) {
    let filled = run.used.iter().position(|used| (used - target).abs() < 0.01).expect(context);
    assert!(filled < run.used.len() / 2, "{context}: filled at {filled} of {}", run.used.len());
    let worst = run.used[filled..].iter().fold(0.0_f64, |worst, used| worst.max((used - target).abs()));
    assert!(worst <= 0.01, "{context}: {worst} away from {target}");
}

#[test]
fn use_is_held_at_every_target_with_prompt_feedback() {
    for target in [0.1, 0.5, 0.8, 0.95, 0.99] {
        for threads in [1, 4] {
            let volume = Volume {
                total: 512 * MIB,
                usable: 512 * MIB,
                fixed: 9 * MIB,
                a_file: 256,
                look_every: 1,
                lag: 0,
            };
            let run = volume.run(&hold(target), threads, 120_000);
            assert_held(&run, target, &format!("{target} with {threads} threads"));
            assert_eq!((run.shortages, run.upkeep), (0, 0));
            assert!(run.deletes_of_mix > 1000);
        }
    }
}

#[test]
fn use_is_held_through_late_feedback() {
    for (look_every, lag) in [(100, 0), (1000, 1), (2000, 3)] {
        let volume =
            Volume { total: 512 * MIB, usable: 512 * MIB, fixed: 9 * MIB, a_file: 4096, look_every, lag };
        let run = volume.run(&hold(0.8), 2, 200_000);
        let context = format!("a look every {look_every}, {lag} late");
        // Filling may overshoot by what is not yet seen; the second half of the run is held.
        let tail = Run { used: run.used[run.used.len() / 2..].to_vec(), ..Run::default() };
        assert_held(&tail, 0.8, &context);
    }
}

#[test]
fn use_is_held_against_a_volume_that_is_full_below_its_target() {
    let volume =
        Volume { total: 512 * MIB, usable: 460 * MIB, fixed: 9 * MIB, a_file: 256, look_every: 50, lag: 0 };
    let run = volume.run(&hold(0.95), 1, 120_000);
    // Held just below what is usable, 89.8 %, and neither spinning on ENOSPC nor emptied by it.
    let tail = &run.used[run.used.len() / 2..];
    assert!(tail.iter().all(|used| (0.88..0.90).contains(used)), "{tail:?}");
    assert!(run.shortages < 200, "{}", run.shortages);
    assert!(run.upkeep > 10 && run.shortages > 0);
}
