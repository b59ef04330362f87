//! The `cluster` stage and what a file system needs that several hosts mount at the same time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::FileSet;
use crate::fio::{FioEngine, FioPattern, FioPoint};
use crate::one_or_many::OneOrMany;
use crate::size::Bytes;

/// What the hosts of a cluster file system use to know of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterStack {
    /// The cluster stack of OCFS2 in the kernel: nodes in configfs, heartbeats on the volume, locks over TCP (Linux,
    /// `fs/ocfs2/cluster`).
    O2cb,
}

impl ClusterStack {
    /// Modules that it is, beside the file system's.
    #[must_use]
    pub const fn modules(self) -> &'static [&'static str] {
        match self {
            Self::O2cb => &["ocfs2_stack_o2cb", "virtio_net"],
        }
    }

    /// Programs that set it up.
    #[must_use]
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::O2cb => &["ip", "ocfs2_hb_ctl"],
        }
    }
}

/// Parameters of the `cluster` stage: every guest of the target mounts the volume and loads it with fio at the same time, with
/// direct I/O at random offsets, first all guests on the same files or each on files of its own, in an order that the seed
/// shuffles. Needs `target.hosts`; times are those of the drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterStage {
    /// Name in dotted paths; absent: `cluster`.
    #[serde(default = "cluster_name")]
    pub name: String,
    /// States that the stage runs in; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Files that guests share: all of them (`same`), or for each guest a part that no other one uses (`disjoint`).
    #[serde(default = "both")]
    pub sets: OneOrMany<FileSet>,
    /// Pattern: `randread`, `randwrite` or `randrw`.
    pub rw: OneOrMany<FioPattern>,
    /// Percentage of reads in a mixed pattern (1..=99).
    #[serde(default = "seventy")]
    pub rwmixread: u32,
    /// Block size: a multiple of the file system's.
    #[serde(default = "four_kib")]
    pub bs: OneOrMany<Bytes>,
    /// Requests in flight per guest (1..=16): as many as QEMU sends to a network block device at a time.
    #[serde(default = "one")]
    pub iodepth: OneOrMany<u32>,
    /// Number of files of equal size: a multiple of the number of guests (1..=1024).
    #[serde(default = "sixteen")]
    pub files: u32,
    /// Total size of all files.
    pub size: Bytes,
    /// Operations of all guests together per point, each guest's on another block: a multiple of the number of guests. `operations` × `bs` must not
    /// exceed `size`.
    pub operations: u64,
}

fn cluster_name() -> String {
    "cluster".to_owned()
}

fn both() -> OneOrMany<FileSet> {
    OneOrMany(FileSet::ALL.to_vec())
}

const fn seventy() -> u32 {
    70
}

fn four_kib() -> OneOrMany<Bytes> {
    OneOrMany::one(Bytes(4096))
}

fn one() -> OneOrMany<u32> {
    OneOrMany::one(1)
}

const fn sixteen() -> u32 {
    16
}

impl ClusterStage {
    /// Files that each of so many guests uses.
    #[must_use]
    pub const fn files_of_each(&self, set: FileSet, hosts: u32) -> u32 {
        match set {
            FileSet::Same => self.files,
            FileSet::Disjoint => self.files / if hosts == 0 { 1 } else { hosts },
        }
    }

    /// Bytes of each file.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        let files = if self.files == 0 { 1 } else { self.files as u64 };
        self.size.0 / files / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Every point of so many guests, in the order of the lists.
    #[must_use]
    pub fn points(&self, hosts: u32) -> Vec<(FileSet, FioPoint)> {
        let mut points = Vec::new();
        for &set in &self.sets {
            for &rw in &self.rw {
                for &bs in &self.bs {
                    for &iodepth in &self.iodepth {
                        let point = FioPoint {
                            rw,
                            rwmixread: rw.is_mixed().then_some(self.rwmixread),
                            bs,
                            ioengine: FioEngine::Libaio,
                            iodepth,
                            numjobs: 1,
                            files: self.files_of_each(set, hosts),
                            direct: true,
                            memory: None,
                        };
                        points.push((set, point));
                    }
                }
            }
        }
        points
    }
}

/// Files are whole blocks of this size.
const BLOCK_BYTES: u64 = 4096;
