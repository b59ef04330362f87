//! What fsage itself costs before any system call: an operation's generation, and a block of content made,
//! recognised and refused.
//!
//! Usage: `generator_bench`. Each row is the best and the median of its rounds; limits are printed beside.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use fsage_content::{fill, recognise};
use fsage_engine::workload::{Feedback, ResolveContext, Workload, resolve};
use fsage_model::load::WriteMode;
use fsage_model::operation::{OperationKind, Outcome};
use fsage_model::quantity::as_f64;
use fsage_model::size::Bytes;
use fsage_model::workload::{
    ChoiceSpec, DriftSpec, FsfbSpec, GitSpec, HistogramSpec, InterleavedAppendSpec, MailSpec, MobileSpec,
    SizeSpec, SnapshotsSpec, UtilisationSpec, WorkloadSpec,
};

const ROUNDS: usize = 11;

/// Nanoseconds of each round, sorted.
fn rounds(mut work: impl FnMut()) -> Vec<f64> {
    work();
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times
}

fn generate(name: &str, spec: DriftSpec) {
    const OPERATIONS: u32 = 1_000_000;
    let slots = u32::try_from(spec.slots).unwrap_or(u32::MAX);
    let context = ResolveContext { volume_bytes: 0, write_mode: WriteMode::Buffered };
    let Ok(mut workload) = resolve(&WorkloadSpec::Drift(spec), 0, 1, 1, &context) else {
        println!("| {name} | not a valid workload |");
        return;
    };
    let feedback = Feedback { used_share: 0.5, total_bytes: 1 << 40, grow_share: 0.0 };
    let mut run = |count: u32| {
        for _ in 0..count {
            if let Some(operation) = workload.next(black_box(&feedback)) {
                workload.completed(black_box(&operation), &Outcome { errno: 0, latency_ns: 1 });
            }
        }
    };
    run(slots.saturating_mul(3));
    let times = rounds(|| run(OPERATIONS));
    let each = |time: f64| time / f64::from(OPERATIONS);
    println!("| {name} | {:.0} ns | {:.0} ns |", each(times[0]), each(times[ROUNDS / 2]));
}

/// A workload that is steered by how full its volume is, from the first operation on: an ideal volume, on
/// which files take what they hold.
fn steered(name: &str, spec: &WorkloadSpec) {
    const OPERATIONS: u32 = 300_000;
    const VOLUME: u64 = 4 << 30;
    let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
    let mut times = Vec::new();
    for seed in 0..5 {
        let Ok(mut workload) = resolve(spec, 0, 1, seed, &context) else {
            println!("| {name} | not a valid workload |");
            return;
        };
        let (mut done, start) = (0, Instant::now());
        while done < OPERATIONS && !workload.is_finished() {
            let used_share = as_f64(workload.live_bytes()) / as_f64(VOLUME);
            let feedback = Feedback { used_share, total_bytes: VOLUME, grow_share: 0.0 };
            if let Some(operation) = workload.next(black_box(&feedback)) {
                workload.completed(black_box(&operation), &Outcome { errno: 0, latency_ns: 1 });
                done += 1;
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(done.max(1)));
    }
    times.sort_unstable_by(f64::total_cmp);
    println!("| {name} | {:.0} ns | {:.0} ns |", times[0], times[times.len() / 2]);
}

fn drift(slots: u64, choice: ChoiceSpec) -> DriftSpec {
    let io_size = SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(64 << 10) };
    let weights = BTreeMap::from([
        (OperationKind::Create, 10.0),
        (OperationKind::Append, 4.0),
        (OperationKind::Truncate, 2.0),
        (OperationKind::RandomWrite, 2.0),
        (OperationKind::Read, 2.0),
        (OperationKind::Delete, 8.0),
    ]);
    DriftSpec { slots, choice, weights, file_size: io_size.clone(), io_size, ..DriftSpec::default() }
}

fn content(name: &str, bytes: usize) {
    let mut buffer = vec![0_u8; bytes];
    let repeat = ((64 << 20) / bytes).max(1);
    let total = as_f64(u64::try_from(bytes * repeat).unwrap_or(0));
    let mut version = 0;
    let made = rounds(|| {
        for _ in 0..repeat {
            version += 1;
            fill(black_box(&mut buffer), 7, 0, version);
        }
    });
    println!("| fill, {name} | {:.1} GB/s | {:.1} GB/s |", total / made[0], total / made[ROUNDS / 2]);
    let reported = rounds(|| {
        for _ in 0..repeat {
            for block in black_box(&buffer).chunks(fsage_content::BLOCK_BYTES) {
                black_box(recognise(block));
            }
        }
    });
    println!(
        "| recognise, {name} | {:.1} GB/s | {:.1} GB/s |",
        total / reported[0],
        total / reported[ROUNDS / 2]
    );
}

fn refuse() {
    let foreign = vec![0x5a_u8; fsage_content::BLOCK_BYTES];
    let times = rounds(|| {
        for _ in 0..1_000_000 {
            black_box(recognise(black_box(&foreign)));
        }
    });
    println!("| refuse a foreign block | {:.1} ns | {:.1} ns |", times[0] / 1e6, times[ROUNDS / 2] / 1e6);
}

fn main() {
    println!("| what | best | median |\n| --- | --- | --- |");
    generate("operation, 20,000 slots, uniform", drift(20_000, ChoiceSpec::Uniform));
    let hold = Some(UtilisationSpec::Hold { target: 0.5 });
    generate(
        "operation, 20,000 slots, held at a target",
        DriftSpec { utilisation: hold, ..drift(20_000, ChoiceSpec::Uniform) },
    );
    let moving = ChoiceSpec::Moving { deviation: 0.05, velocity: 1.0, tick_operations: 100 };
    generate("operation, 20,000 slots, moving", drift(20_000, moving));
    let agrawal = SizeSpec::Agrawal { max: Bytes(1 << 30) };
    generate(
        "operation, 20,000 slots, lognormal sizes",
        DriftSpec { file_size: agrawal, ..drift(20_000, ChoiceSpec::Uniform) },
    );
    generate("operation, 1,000,000 slots, uniform", drift(1_000_000, ChoiceSpec::Uniform));
    for (name, spec) in [
        ("operation of fsfb", WorkloadSpec::Fsfb(FsfbSpec::default())),
        ("operation of mobile", WorkloadSpec::Mobile(MobileSpec::default())),
        (
            "operation of interleaved-append",
            WorkloadSpec::InterleavedAppend(InterleavedAppendSpec::default()),
        ),
        ("operation of mail", WorkloadSpec::Mail(MailSpec::default())),
        ("operation of histogram", WorkloadSpec::Histogram(HistogramSpec::default())),
        ("operation of git", WorkloadSpec::Git(GitSpec::default())),
        ("operation of snapshots", WorkloadSpec::Snapshots(SnapshotsSpec::default())),
    ] {
        steered(name, &spec);
    }
    content("in cache (64 KiB)", 64 << 10);
    content("from memory (64 MiB)", 64 << 20);
    refuse();
}
