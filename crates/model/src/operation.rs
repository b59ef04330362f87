//! The operations a workload is made of: what is done, to which object, with which arguments.
//!
//! An operation names objects by numbers of the tree model, never by paths: the executor derives the
//! path. Sizes and offsets are bytes. The same operation sequence is valid on every file system.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an operation does. The name in snake case is the one used in TOML weights, JSON, trace
/// columns and charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum OperationKind {
    /// Make a new file and write its whole content.
    Create = 0,
    /// Write new data at the end of a file.
    Append = 1,
    /// Write whole blocks somewhere inside a file.
    RandomWrite = 2,
    /// Rewrite a whole file in place, keeping its size.
    Overwrite = 3,
    /// Cut a file to a smaller size.
    Truncate = 4,
    /// Reserve space beyond the end of a file (`FALLOC_FL_KEEP_SIZE`).
    Fallocate = 5,
    /// Read a whole file from its beginning.
    Read = 6,
    /// Read blocks at random places of a file.
    RandomRead = 7,
    /// Unlink a file.
    Delete = 8,
    /// Give a file another name in another directory.
    Rename = 9,
    /// Make a directory.
    Mkdir = 10,
    /// Remove an empty directory.
    Rmdir = 11,
    /// Make a symbolic link to a file.
    Symlink = 12,
    /// Make a hard link to a file.
    Link = 13,
    /// `fsync` of a file just written.
    Fsync = 14,
    /// `fdatasync` of a file just written.
    Fdatasync = 15,
}

impl OperationKind {
    /// Every kind, in discriminant order.
    pub const ALL: [Self; 16] = [
        Self::Create,
        Self::Append,
        Self::RandomWrite,
        Self::Overwrite,
        Self::Truncate,
        Self::Fallocate,
        Self::Read,
        Self::RandomRead,
        Self::Delete,
        Self::Rename,
        Self::Mkdir,
        Self::Rmdir,
        Self::Symlink,
        Self::Link,
        Self::Fsync,
        Self::Fdatasync,
    ];

    /// The name used in files, flags and charts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Append => "append",
            Self::RandomWrite => "random_write",
            Self::Overwrite => "overwrite",
            Self::Truncate => "truncate",
            Self::Fallocate => "fallocate",
            Self::Read => "read",
            Self::RandomRead => "random_read",
            Self::Delete => "delete",
            Self::Rename => "rename",
            Self::Mkdir => "mkdir",
            Self::Rmdir => "rmdir",
            Self::Symlink => "symlink",
            Self::Link => "link",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
        }
    }
}

/// A name in a directory: the number of a directory of the thread's tree and a number the name is made of. Name
/// numbers are never used twice by a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Directory number within the thread's tree; 0 is the thread's own top directory.
    pub directory: u32,
    /// Name number.
    pub name: u64,
}

/// One operation with everything needed to do it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// What is done.
    pub kind: OperationKind,
    /// Identity of the file's content (unique over all threads, never reused); 0 for directories.
    pub file: u64,
    /// The object.
    pub place: DirectoryEntry,
    /// Destination of `rename`, new name of `link` and `symlink`; else the default.
    pub target: DirectoryEntry,
    /// Byte offset of the (first) access; for `truncate` the new size; for `mkdir` and `rmdir` the parent
    /// directory's number.
    pub offset: u64,
    /// Bytes moved by each access.
    pub length: u64,
    /// Size of the file before the operation.
    pub size: u64,
    /// Version written into the data by this operation.
    pub version: u32,
    /// Accesses of a random read or write: the first at `offset`, the others by [`Operation::access`].
    pub accesses: u32,
}

/// How an operation went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// 0, or the errno.
    pub errno: i32,
    /// From before the first to after the last system call of the operation, open and close included.
    pub latency_ns: u64,
}

/// Block that file data is made of and random accesses are aligned to.
pub const BLOCK_BYTES: u64 = 4096;

/// Most accesses of one random read or write: an operation is not interrupted.
pub const ACCESSES_LIMIT: u32 = 1 << 16;

impl Operation {
    /// Offset of access `n` (0-based) of a random read or write: a block-aligned place inside the file,
    /// derived from the operation alone so that it need not be recorded.
    #[must_use]
    pub const fn access(&self, n: u32) -> u64 {
        if n == 0 {
            return self.offset;
        }
        let blocks = self.size.div_ceil(BLOCK_BYTES);
        let reach = self.length.div_ceil(BLOCK_BYTES);
        let places = if blocks > reach { blocks - reach + 1 } else { 1 };
        // SplitMix64 finaliser (Steele, Lea & Flood 2014) over what identifies the access.
        let mut z = self.file ^ (self.offset << 1) ^ ((self.version as u64) << 40) ^ ((n as u64) << 20);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % places) * BLOCK_BYTES
    }
}
