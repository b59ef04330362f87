//! The mix of operations that the executor is measured with: 20,000 slots, files of 4–64 KiB; create, append,
//! truncate, random write, read, delete.

use std::collections::BTreeMap;
use std::path::Path;

use fsage_model::load::{LoadSpec, StopSpec, WriteMode};
use fsage_model::operation::OperationKind as K;
use fsage_model::size::Bytes;
use fsage_model::workload::{DirectorySpec, DriftSpec, SizeSpec, WorkloadSpec};

/// The mix as a workload.
#[must_use]
pub fn workload() -> WorkloadSpec {
    WorkloadSpec::Drift(DriftSpec {
        slots: 20_000,
        weights: BTreeMap::from([
            (K::Create, 10.0),
            (K::Append, 5.0),
            (K::Truncate, 3.0),
            (K::RandomWrite, 5.0),
            (K::Read, 8.0),
            (K::Delete, 9.0),
        ]),
        file_size: SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(64 << 10) },
        io_size: SizeSpec::Uniform { min: Bytes(4 << 10), max: Bytes(16 << 10) },
        directories: DirectorySpec { count: 100, fan_out: 10, depth: 2 },
        ..DriftSpec::default()
    })
}

/// A load of `operations` of the mix below `directory`, one thread, buffered.
#[must_use]
pub fn load(directory: &Path, operations: u64, trace: bool) -> LoadSpec {
    LoadSpec {
        workload: workload(),
        directory: directory.to_owned(),
        threads: 1,
        seed: 1,
        stop: StopSpec { operations: Some(operations), ..StopSpec::default() },
        write_mode: WriteMode::Buffered,
        probe_every: 0,
        probe_share: None,
        probe_layout: false,
        trim: false,
        trace,
        deterministic: false,
        pace: None,
        continues: false,
    }
}
