//! What a load does to the tree that a power cut is to hit, and where in the request log it did so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The loads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CrashLoad {
    /// Replacing files as applications do.
    #[default]
    Update,
    /// Random operations on names: create, write, rename, link, unlink, mkdir, truncate, fsync.
    Metadata,
    /// Short sequences of operations on files, their attributes and directories, each followed by any sync or none:
    /// all of up to three operations, in a random order.
    Sequences,
    /// Random operations on file contents: buffered and direct writes, writes through a mapping, write-back,
    /// punching holes, allocating, exchanging, and linking unnamed files.
    Data,
    /// Appending records to logs, made durable in five ways, and rotating logs.
    Append,
    /// Transactions of SQLite, one after the other.
    Database,
}

impl CrashLoad {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Update, Self::Metadata, Self::Sequences, Self::Data, Self::Append, Self::Database];

    /// Those whose operations are fsage's own.
    pub const GENERATED: [Self; 5] =
        [Self::Update, Self::Metadata, Self::Sequences, Self::Data, Self::Append];

    /// As a flag names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Metadata => "metadata",
            Self::Sequences => "sequences",
            Self::Data => "data",
            Self::Append => "append",
            Self::Database => "database",
        }
    }

    /// Its default length: rounds of `update`, operations of `metadata` and `data`, number of `sequences`,
    /// records of `append`, transactions of `database`.
    #[must_use]
    pub const fn default_size(self) -> u32 {
        match self {
            Self::Update => 4,
            Self::Metadata | Self::Data => 200,
            Self::Sequences | Self::Append => 100,
            Self::Database => 40,
        }
    }
}

/// Maximum number of threads of a load.
pub const MOST_THREADS: u32 = 8;

const fn one_thread() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one_thread(threads: &u32) -> bool {
    *threads == 1
}

/// A load with its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrashLoadSpec {
    /// Which.
    pub load: CrashLoad,
    /// Of `update`: rounds, each of which replaces one file in every way. Of `metadata` and `data`: operations. Of
    /// `sequences`: how many. Of `append`: records and rotations. Of `database`: transactions.
    pub size: u32,
    /// Random seed.
    pub seed: u64,
    /// Threads that share the operations, each in a directory of its own (`t0`, `t1`, …): 1, or up to
    /// [`MOST_THREADS`] of `metadata`.
    #[serde(default = "one_thread", skip_serializing_if = "is_one_thread")]
    pub threads: u32,
}

/// A way to replace the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateWay {
    /// Overwrite it, `fsync`.
    InPlace,
    /// Truncate it to nothing, write, `fsync`.
    TruncateWrite,
    /// Write another file, rename it over the old one. Nothing is synced.
    WriteRename,
    /// Write another file, `fsync` it, rename.
    WriteFsyncRename,
    /// Write another file, `fsync` it, rename, `fsync` the directory.
    WriteFsyncRenameFsync,
}

impl UpdateWay {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::InPlace,
        Self::TruncateWrite,
        Self::WriteRename,
        Self::WriteFsyncRename,
        Self::WriteFsyncRenameFsync,
    ];

    /// As reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in-place",
            Self::TruncateWrite => "truncate-write",
            Self::WriteRename => "write-rename",
            Self::WriteFsyncRename => "write-fsync-rename",
            Self::WriteFsyncRenameFsync => "write-fsync-rename-fsync-dir",
        }
    }
}

/// Name of the extended attribute that a file may have.
pub const ATTRIBUTE_NAME: &str = "user.fsage";

/// An operation of a load. Paths are relative to the load's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "operation", rename_all = "kebab-case")]
pub enum CrashOperation {
    /// Makes an empty file.
    Create {
        /// Where.
        path: String,
    },
    /// Writes whole blocks of a new version, but for the last of the file.
    Write {
        /// The file.
        path: String,
        /// First byte, a multiple of 4096.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u64,
    },
    /// The same past the page cache (`O_DIRECT`), in whole blocks.
    DirectWrite {
        /// The file.
        path: String,
        /// First byte, a multiple of 4096.
        offset_bytes: u64,
        /// Bytes, a multiple of 4096.
        length_bytes: u64,
    },
    /// The same through a mapping (`mmap`), within the file.
    MappedWrite {
        /// The file.
        path: String,
        /// First byte, a multiple of 4096.
        offset_bytes: u64,
        /// Bytes, up to the end of a block or of the file.
        length_bytes: u64,
    },
    /// Writes the file's data to the drive, as the kernel does in time (`sync_file_range`). Promises nothing.
    WriteOut {
        /// The file.
        path: String,
    },
    /// Makes whole blocks a hole (`fallocate`, `FALLOC_FL_PUNCH_HOLE`).
    Punch {
        /// The file.
        path: String,
        /// First byte, a multiple of 4096.
        offset_bytes: u64,
        /// Bytes, a multiple of 4096.
        length_bytes: u64,
    },
    /// Allocates blocks up to a size, which the file has afterwards if it was smaller (`fallocate`).
    Allocate {
        /// The file.
        path: String,
        /// Size, a multiple of 4096.
        size_bytes: u64,
    },
    /// Sets the size.
    Truncate {
        /// The file.
        path: String,
        /// New size, a multiple of 4096.
        size_bytes: u64,
    },
    /// Renames a file or directory, over another one if that is there.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// Exchanges the names of two files (`renameat2`, `RENAME_EXCHANGE`).
    Exchange {
        /// One name.
        from: String,
        /// The other.
        to: String,
    },
    /// Makes a file without a name (`O_TMPFILE`), writes it, syncs it and then gives it its name.
    LinkUnnamed {
        /// Its name.
        path: String,
        /// Bytes.
        length_bytes: u64,
    },
    /// Gives a file one more name.
    Link {
        /// A name that it has.
        from: String,
        /// The new one.
        to: String,
    },
    /// Removes a name.
    Unlink {
        /// Which.
        path: String,
    },
    /// Makes a directory.
    Mkdir {
        /// Where.
        path: String,
    },
    /// Removes an empty directory.
    Rmdir {
        /// Which.
        path: String,
    },
    /// Sets the extended attribute of a file ([`ATTRIBUTE_NAME`]) to a new version.
    SetAttribute {
        /// The file.
        path: String,
    },
    /// Removes it.
    RemoveAttribute {
        /// The file.
        path: String,
    },
    /// `fsync` of a file.
    Fsync {
        /// Which.
        path: String,
    },
    /// `fdatasync` of a file.
    Fdatasync {
        /// Which.
        path: String,
    },
    /// `fsync` of a directory; an empty path is the load's own.
    FsyncDirectory {
        /// Which.
        path: String,
    },
    /// `syncfs`.
    Sync,
}

/// An operation and the position in the request log when it had returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadStep {
    /// What was done.
    #[serde(flatten)]
    pub operation: CrashOperation,
    /// Requests in the log when it had returned.
    pub position: u64,
}

impl CrashOperation {
    /// The name that it is about, empty for all; of a rename or link the new name as well.
    #[must_use]
    pub fn paths(&self) -> (&str, Option<&str>) {
        match self {
            Self::Rename { from, to } | Self::Link { from, to } | Self::Exchange { from, to } => {
                (from, Some(to))
            }
            Self::Create { path }
            | Self::LinkUnnamed { path, .. }
            | Self::Write { path, .. }
            | Self::DirectWrite { path, .. }
            | Self::MappedWrite { path, .. }
            | Self::WriteOut { path }
            | Self::Punch { path, .. }
            | Self::Allocate { path, .. }
            | Self::Truncate { path, .. }
            | Self::Unlink { path }
            | Self::Mkdir { path }
            | Self::Rmdir { path }
            | Self::SetAttribute { path }
            | Self::RemoveAttribute { path }
            | Self::Fsync { path }
            | Self::Fdatasync { path }
            | Self::FsyncDirectory { path } => (path, None),
            Self::Sync => ("", None),
        }
    }
}

impl std::fmt::Display for CrashOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create { path } => write!(f, "create {path}"),
            Self::Write { path, offset_bytes, length_bytes } => {
                write!(f, "write {path} {offset_bytes}+{length_bytes}")
            }
            Self::DirectWrite { path, offset_bytes, length_bytes } => {
                write!(f, "write-direct {path} {offset_bytes}+{length_bytes}")
            }
            Self::MappedWrite { path, offset_bytes, length_bytes } => {
                write!(f, "write-mapped {path} {offset_bytes}+{length_bytes}")
            }
            Self::WriteOut { path } => write!(f, "write-out {path}"),
            Self::Punch { path, offset_bytes, length_bytes } => {
                write!(f, "punch {path} {offset_bytes}+{length_bytes}")
            }
            Self::Allocate { path, size_bytes } => write!(f, "allocate {path} {size_bytes}"),
            Self::Truncate { path, size_bytes } => write!(f, "truncate {path} {size_bytes}"),
            Self::Exchange { from, to } => write!(f, "exchange {from} {to}"),
            Self::LinkUnnamed { path, length_bytes } => write!(f, "link-unnamed {path} 0+{length_bytes}"),
            Self::Rename { from, to } => write!(f, "rename {from} {to}"),
            Self::Link { from, to } => write!(f, "link {from} {to}"),
            Self::Unlink { path } => write!(f, "unlink {path}"),
            Self::Mkdir { path } => write!(f, "mkdir {path}"),
            Self::Rmdir { path } => write!(f, "rmdir {path}"),
            Self::SetAttribute { path } => write!(f, "setxattr {path}"),
            Self::RemoveAttribute { path } => write!(f, "removexattr {path}"),
            Self::Fsync { path } => write!(f, "fsync {path}"),
            Self::Fdatasync { path } => write!(f, "fdatasync {path}"),
            Self::FsyncDirectory { path } if path.is_empty() => f.write_str("fsync ."),
            Self::FsyncDirectory { path } => write!(f, "fsync {path}/"),
            Self::Sync => f.write_str("syncfs"),
        }
    }
}
