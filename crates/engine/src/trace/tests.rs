//! Whole traces of a workload that runs on no file system: what comes back, and how many bytes it takes.

use std::collections::BTreeMap;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use fsage_model::load::{StopSpec, WriteMode};
use fsage_model::operation::OperationKind as K;
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::size::Bytes;
use fsage_model::workload::{DirectorySpec, DriftSpec, SizeSpec, WorkloadSpec};

use super::*;
use crate::distribution::Random;
use crate::workload::{AnyWorkload, Feedback, ResolveContext, Workload as _, resolve};

/// The mix that the executor is measured with (`ageing_bench`), or one of everything.
fn mix(everything: bool) -> DriftSpec {
    let few = [
        (K::Create, 10.0),
        (K::Append, 5.0),
        (K::Truncate, 3.0),
        (K::RandomWrite, 5.0),
        (K::Read, 8.0),
        (K::Delete, 9.0),
    ];
    let all = K::ALL.into_iter().filter(|kind| !matches!(kind, K::Fsync | K::Fdatasync));
    DriftSpec {
        slots: if everything { 500 } else { 20_000 },
        weights: if everything { all.map(|kind| (kind, 3.0)).collect() } else { BTreeMap::from(few) },
        file_size: SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(64 << 10) },
        io_size: SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(16 << 10) },
        directories: DirectorySpec { count: 100, fan_out: 10, depth: 2 },
        fsync_probability: if everything { 0.05 } else { 0.0 },
        ..DriftSpec::default()
    }
}

fn workload(drift: &DriftSpec, thread: u32, threads: u32) -> AnyWorkload {
    let context = ResolveContext { volume_bytes: 0, write_mode: WriteMode::Buffered };
    resolve(&WorkloadSpec::Drift(drift.clone()), thread, threads, 7, &context).unwrap()
}

/// A latency as a small file's operation has it: log-normal around 12 µs, with a tail.
fn latency_ns(random: &mut Random) -> u64 {
    // Irwin and Hall: twelve even numbers make a normal one, near enough.
    let normal: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    to_u64(12_000.0 * (0.5 * normal).exp()) + if random.below(1000) == 0 { 1_000_000 } else { 0 }
}

/// Operations of some threads that take turns by batches; one in `fails` fails.
fn records(drift: &DriftSpec, threads: u32, number: usize, fails: u64) -> Vec<Record> {
    let mut random = Random::new(9, 0);
    let mut workloads: Vec<_> = (0..threads).map(|thread| (workload(drift, thread, threads), 0, 0)).collect();
    let mut records = Vec::new();
    while records.len() < number {
        for (thread, (workload, sequence, now_ns)) in (0..).zip(&mut workloads) {
            let end = records.len() + 700;
            while records.len() < end {
                let Some(operation) = workload.next(&Feedback::default()) else { continue };
                let errno = if random.below(fails) == 0 { 28 } else { 0 };
                let outcome = Outcome { errno, latency_ns: latency_ns(&mut random) };
                workload.completed(&operation, &outcome);
                records.push(Record { thread, sequence: *sequence, operation, outcome, start_ns: *now_ns });
                *sequence += 1;
                *now_ns += outcome.latency_ns + 300 + random.below(200);
            }
        }
    }
    records
}

fn write(drift: &DriftSpec, records: &[Record], threads: u32) -> Vec<u8> {
    let load = LoadSpec {
        workload: WorkloadSpec::Drift(drift.clone()),
        directory: "/nowhere".into(),
        threads,
        seed: 7,
        stop: StopSpec::default(),
        write_mode: WriteMode::Buffered,
        probe_every: 0,
        probe_share: None,
        probe_layout: false,
        trim: false,
        trace: true,
        deterministic: false,
        pace: None,
        continues: false,
    };
    let directories = (0..threads).map(|t| workload(drift, t, threads).initial_directories()).collect();
    let (mut feeds, batches) = Batches::open(usize::try_from(threads).unwrap());
    let mut bytes = Vec::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            batches.write(&Preamble::of_load(load, directories), |chunk| {
                bytes.extend(chunk);
                true
            })
        });
        for record in records {
            feeds[usize::try_from(record.thread).unwrap()].push(*record);
        }
        feeds.iter_mut().for_each(Feed::flush);
        drop(feeds);
        writer.join().unwrap().unwrap();
    });
    bytes
}

fn read_back(path: &Path, bytes: &[u8]) -> Result<Vec<Record>, TraceError> {
    std::fs::write(path, bytes).unwrap();
    read(path)?.collect()
}

#[test]
fn every_row_comes_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let drift = mix(true);
    // More than one row group.
    let mut wanted = records(&drift, 3, 150_000, 50);
    let bytes = write(&drift, &wanted, 3);
    let mut found = read_back(&folder.path().join("trace"), &bytes).unwrap();
    // Threads are interleaved in batches of the writer's own.
    for rows in [&mut wanted, &mut found] {
        rows.sort_by_key(|record| (record.thread, record.sequence));
    }
    assert_eq!(found.len(), wanted.len());
    assert!(found.iter().zip(&wanted).all(|(one, other)| one == other));
    let kinds: std::collections::BTreeSet<K> = found.iter().map(|record| record.operation.kind()).collect();
    assert_eq!(kinds.len(), 15, "{kinds:?}");
}

#[test]
fn an_operation_takes_at_most_twelve_bytes() {
    let drift = mix(false);
    let rows = records(&drift, 1, 200_000, 1 << 40);
    let bytes = write(&drift, &rows, 1);
    let each = as_f64(u64::try_from(bytes.len()).unwrap()) / as_f64(u64::try_from(rows.len()).unwrap());
    assert!(each <= 12.0, "{each:.2} bytes per operation");
}

#[test]
fn no_cut_or_changed_trace_makes_the_reader_panic() {
    let folder = tempfile::tempdir().unwrap();
    let drift = mix(true);
    let bytes = write(&drift, &records(&drift, 1, 3000, 50), 1);
    let mut random = Random::new(3, 0);
    let length = u64::try_from(bytes.len()).unwrap();
    for _ in 0..300 {
        let mut changed = bytes.clone();
        let at = usize::try_from(random.below(length)).unwrap();
        changed[at] ^= u8::try_from(random.below(255) + 1).unwrap();
        // Reported as damage, or a row that says something else: never a panic.
        let _ = read_back(&folder.path().join("trace"), &changed);
    }
    for cut in [4, bytes.len() / 2, bytes.len() - 1] {
        assert!(read_back(&folder.path().join("trace"), &bytes[..cut]).is_err());
    }
}

#[test]
fn a_footer_that_claims_gigabytes_is_not_read() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let claimed = 0xF000_0000_u32;
    file.write_all(b"PAR1").unwrap();
    // Sparse: it takes a few KiB of the disk.
    file.as_file().set_len(4 + u64::from(claimed)).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(&claimed.to_le_bytes()).unwrap();
    file.write_all(b"PAR1").unwrap();
    let error = read(file.path()).unwrap_err();
    assert!(error.to_string().contains("its footer claims"), "{error}");
}
