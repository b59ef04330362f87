//! Every workload against a real directory: the kernel takes all its operations, and leaves the tree that its
//! model says.

use std::cell::Cell;
use std::os::fd::AsFd as _;
use std::path::Path;

use fsage_engine::disk::Clock;
use fsage_engine::executor::{Executor, ExecutorOptions, Interrupt, WriteBack};
use fsage_engine::tree::walk;
use fsage_engine::workload::{Feedback, ResolveContext, Workload, resolve};
use fsage_model::load::WriteMode;
use fsage_model::operation::{Action, DirectoryEntry, Operation, OperationKind as K};
use fsage_model::quantity::as_f64;
use fsage_model::size::Bytes;
use fsage_model::workload::{
    FsfbSpec, GitSpec, HistogramSpec, HistorySpec, InterleavedAppendSpec, MailSpec, MobileSpec, SizeSpec,
    SnapshotsSpec, SyntheticHistory, WorkloadSpec,
};
use rustix::io::Errno;

/// What the workloads take the volume for; the directory has more room.
const VOLUME: u64 = 16 << 20;

/// Most operations of one.
const OPERATIONS: u32 = 4000;

fn small() -> SizeSpec {
    SizeSpec::Uniform { min: Bytes(1 << 10), max: Bytes(40 << 10) }
}

fn workloads() -> Vec<WorkloadSpec> {
    let history = HistorySpec::Synthetic(SyntheticHistory {
        files: 80,
        directories: 10,
        commits: 40,
        changes: 8.0,
        added: 0.3,
        removed: 0.3,
        ..SyntheticHistory::default()
    });
    vec![
        WorkloadSpec::Fsfb(FsfbSpec {
            directories: 20,
            rounds: 10,
            file_size: small(),
            ..FsfbSpec::default()
        }),
        WorkloadSpec::Mobile(MobileSpec {
            large: SizeSpec::Fixed { size: Bytes(300 << 10) },
            target: 0.9,
            cycles: 5,
            ..MobileSpec::default()
        }),
        WorkloadSpec::InterleavedAppend(InterleavedAppendSpec {
            file_size: small(),
            append_size: SizeSpec::Fixed { size: Bytes(5000) },
            ..InterleavedAppendSpec::default()
        }),
        WorkloadSpec::Mail(MailSpec { boxes: 10, message_size: small(), ..MailSpec::default() }),
        WorkloadSpec::Histogram(HistogramSpec { rounds: 3, ..HistogramSpec::default() }),
        WorkloadSpec::Git(GitSpec {
            history: history.clone(),
            fill: 0.1,
            gc_every: 10,
            ..GitSpec::default()
        }),
        WorkloadSpec::Snapshots(SnapshotsSpec { history }),
    ]
}

/// An executor in an empty directory.
fn executor(directory: &Path) -> Executor {
    std::fs::create_dir(directory.join("t00")).expect("the directory is ours");
    let open = std::fs::File::open(directory).expect("it is ours");
    let options = ExecutorOptions {
        write_mode: WriteMode::Buffered,
        in_place: true,
        open_directories: 8,
        write_back: WriteBack::Kernel,
        pause: std::time::Duration::ZERO,
        burst: 1,
    };
    Executor::open(open.as_fd(), 0, options, Clock::Host).expect("it is there")
}

/// Runs a workload in `directory`; gives the operations of each kind.
fn run(spec: &WorkloadSpec, directory: &Path) -> [u32; 16] {
    let mut executor = executor(directory);
    let context = ResolveContext { volume_bytes: VOLUME, write_mode: WriteMode::Buffered };
    let mut workload = resolve(spec, 0, 1, 1, &context).expect("it makes sense");
    for initial in workload.initial_directories() {
        executor.make_directory(initial).expect("there is room");
    }
    let mut counts = [0; 16];
    while !workload.is_finished() && counts.iter().sum::<u32>() < OPERATIONS {
        let used_share = as_f64(workload.live_bytes()) / as_f64(VOLUME);
        let feedback = Feedback { used_share, total_bytes: VOLUME, grow_share: 0.0 };
        let Some(operation) = workload.next(&feedback) else { continue };
        let outcome = executor.execute(&operation).outcome;
        assert_eq!(outcome.errno, 0, "{operation:?}");
        workload.completed(&operation, &outcome);
        counts[operation.kind() as usize] += 1;
    }
    assert_eq!(walk(directory).expect("it can be read"), workload.shape(), "{spec:?}");
    counts
}

#[test]
fn the_kernel_leaves_what_the_model_says() {
    let mut all = [0; 16];
    for spec in workloads() {
        let directory = tempfile::tempdir().expect("there is room");
        for (all, own) in all.iter_mut().zip(run(&spec, directory.path())) {
            *all += own;
        }
    }
    for kind in [K::Create, K::Append, K::Delete, K::Rename, K::Mkdir, K::Rmdir, K::Fsync, K::Read] {
        assert!(all[kind as usize] > 0, "no {} was done", kind.name());
    }
}

/// Lets reads and writes go on so many times.
#[derive(Debug)]
struct After {
    reads: Cell<u32>,
    writes: Cell<u32>,
}

impl After {
    const fn new(reads: u32, writes: u32) -> Self {
        Self { reads: Cell::new(reads), writes: Cell::new(writes) }
    }

    fn goes_on(left: &Cell<u32>) -> bool {
        left.replace(left.get().saturating_sub(1)) > 0
    }
}

impl Interrupt for After {
    fn goes_on_reading(&self) -> bool {
        Self::goes_on(&self.reads)
    }

    fn goes_on_writing(&self) -> bool {
        Self::goes_on(&self.writes)
    }
}

#[test]
fn an_operation_that_is_ended_early_leaves_the_size_that_the_model_has() {
    const MIB: u64 = 1 << 20;
    let directory = tempfile::tempdir().expect("there is room");
    let mut executor = executor(directory.path());
    let place = |name| DirectoryEntry { directory: 0, name };
    let operation =
        |action, name, size| Operation { action, file: name, place: place(name), size, version: 1 };
    let file = directory.path().join("t00/f00000001");
    let size = || file.metadata().map_or(0, |facts| facts.len());

    // As often as it is asked: not before the first part.
    let make = operation(Action::Create { length: 3 * MIB }, 1, 0);
    for (times, interrupted, left) in [(0, true, 0), (1, true, 0), (2, false, 3 * MIB)] {
        let done = executor.execute_until(&make, &After::new(0, times));
        let errno = if interrupted { Errno::CANCELED.raw_os_error() } else { 0 };
        assert_eq!((done.interrupted, done.outcome.errno, size()), (interrupted, errno, left), "{times}");
    }
    for (action, asked) in [
        (Action::Append { offset: 3 * MIB, length: 2 * MIB }, 1),
        (Action::Overwrite, 2),
        (Action::RandomWrite { offset: 0, length: 4096, accesses: 3 }, 2),
        (Action::Read { length: 3 * MIB }, 2),
        (Action::RandomRead { offset: 0, length: 4096, accesses: 3 }, 2),
    ] {
        let reads = matches!(action, Action::Read { .. } | Action::RandomRead { .. });
        let after = |times| if reads { After::new(times, 0) } else { After::new(0, times) };
        for times in 0..asked {
            let done = executor.execute_until(&operation(action, 1, 3 * MIB), &after(times));
            assert!(done.interrupted, "{action:?} {times}");
            assert_eq!(size(), 3 * MIB, "{action:?} {times}");
        }
        let done = executor.execute_until(&operation(action, 1, 3 * MIB), &after(asked));
        assert_eq!((done.interrupted, done.outcome.errno), (false, 0), "{action:?}");
        if let Action::Append { .. } = action {
            assert_eq!(size(), 5 * MIB);
            let cut = operation(Action::Truncate { new_size: 3 * MIB }, 1, 5 * MIB);
            assert_eq!(executor.execute(&cut).outcome.errno, 0);
        }
    }
}
