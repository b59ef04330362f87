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

    /// Whether it writes data of a new version into a file that is there.
    #[must_use]
    pub const fn writes_again(self) -> bool {
        matches!(self, Self::Append | Self::RandomWrite | Self::Overwrite)
    }

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

/// A name in a directory: the number of a directory of the thread's tree and a number the name is made of.
/// Name numbers are never used twice by a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Directory number within the thread's tree; 0 is the thread's own top directory.
    pub directory: u32,
    /// Name number.
    pub name: u64,
}

/// What is done, with what only operations of its kind have. Ranges are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Make a file of `length` bytes.
    Create {
        /// Bytes written.
        length: u64,
    },
    /// Write from the last block boundary within the file to beyond its end.
    Append {
        /// Where the range begins.
        offset: u64,
        /// Bytes written.
        length: u64,
    },
    /// Write at random places: [`Operation::accesses`].
    RandomWrite {
        /// Where the first access begins.
        offset: u64,
        /// Bytes of each access.
        length: u64,
        /// How many; 0 counts as 1.
        accesses: u32,
    },
    /// Rewrite the whole file.
    Overwrite,
    /// Cut the file.
    Truncate {
        /// Its size afterwards.
        new_size: u64,
    },
    /// Reserve space.
    Fallocate {
        /// Where the range begins.
        offset: u64,
        /// Bytes reserved.
        length: u64,
    },
    /// Read the whole file.
    Read {
        /// The bytes that a trace says are read: the file's size; 0 in an imported trace.
        length: u64,
    },
    /// Read at random places: [`Operation::accesses`].
    RandomRead {
        /// Where the first access begins.
        offset: u64,
        /// Bytes of each access.
        length: u64,
        /// How many; 0 counts as 1.
        accesses: u32,
    },
    /// Unlink the file.
    Delete,
    /// Give the file another name.
    Rename {
        /// The new name.
        target: DirectoryEntry,
    },
    /// Make the directory.
    Mkdir {
        /// Number of the directory that it is made in.
        parent: u32,
    },
    /// Remove the directory.
    Rmdir {
        /// Number of the directory that it is in.
        parent: u32,
    },
    /// Make a symbolic link to the file.
    Symlink {
        /// Name of the link.
        target: DirectoryEntry,
    },
    /// Make a hard link to the file.
    Link {
        /// The further name.
        target: DirectoryEntry,
    },
    /// `fsync` of the file.
    Fsync,
    /// `fdatasync` of the file.
    Fdatasync,
}

/// What an action has besides its kind, in the columns of a trace. What a kind does not use is 0; `accesses`
/// is 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ActionColumns {
    /// The new name of `rename`, `link` and `symlink`.
    pub target: DirectoryEntry,
    /// Where a range begins; the new size of `truncate`, the parent of `mkdir` and `rmdir`.
    pub offset: u64,
    /// Bytes of a range.
    pub length: u64,
    /// Accesses of a random read or write.
    pub accesses: u32,
}

impl Action {
    /// What is done.
    #[must_use]
    pub const fn kind(&self) -> OperationKind {
        match self {
            Self::Create { .. } => OperationKind::Create,
            Self::Append { .. } => OperationKind::Append,
            Self::RandomWrite { .. } => OperationKind::RandomWrite,
            Self::Overwrite => OperationKind::Overwrite,
            Self::Truncate { .. } => OperationKind::Truncate,
            Self::Fallocate { .. } => OperationKind::Fallocate,
            Self::Read { .. } => OperationKind::Read,
            Self::RandomRead { .. } => OperationKind::RandomRead,
            Self::Delete => OperationKind::Delete,
            Self::Rename { .. } => OperationKind::Rename,
            Self::Mkdir { .. } => OperationKind::Mkdir,
            Self::Rmdir { .. } => OperationKind::Rmdir,
            Self::Symlink { .. } => OperationKind::Symlink,
            Self::Link { .. } => OperationKind::Link,
            Self::Fsync => OperationKind::Fsync,
            Self::Fdatasync => OperationKind::Fdatasync,
        }
    }

    /// The action that a row of a trace says. A parent beyond all numbers becomes the largest one.
    #[must_use]
    pub fn from_columns(kind: OperationKind, columns: ActionColumns) -> Self {
        let ActionColumns { target, offset, length, accesses } = columns;
        let parent = u32::try_from(offset).unwrap_or(u32::MAX);
        match kind {
            OperationKind::Create => Self::Create { length },
            OperationKind::Append => Self::Append { offset, length },
            OperationKind::RandomWrite => Self::RandomWrite { offset, length, accesses },
            OperationKind::Overwrite => Self::Overwrite,
            OperationKind::Truncate => Self::Truncate { new_size: offset },
            OperationKind::Fallocate => Self::Fallocate { offset, length },
            OperationKind::Read => Self::Read { length },
            OperationKind::RandomRead => Self::RandomRead { offset, length, accesses },
            OperationKind::Delete => Self::Delete,
            OperationKind::Rename => Self::Rename { target },
            OperationKind::Mkdir => Self::Mkdir { parent },
            OperationKind::Rmdir => Self::Rmdir { parent },
            OperationKind::Symlink => Self::Symlink { target },
            OperationKind::Link => Self::Link { target },
            OperationKind::Fsync => Self::Fsync,
            OperationKind::Fdatasync => Self::Fdatasync,
        }
    }
}

/// One operation with everything needed to do it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What is done.
    pub action: Action,
    /// Identity of the file's content (unique over all threads, never reused); 0 for directories.
    pub file: u64,
    /// The object.
    pub place: DirectoryEntry,
    /// Size of the file before the operation.
    pub size: u64,
    /// Version written into the data by this operation.
    pub version: u32,
}

// Generated, recorded and replayed by the million: one cache line.
const _: () = assert!(size_of::<Operation>() == 64);

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
    /// Makes or removes the directory of that number.
    #[must_use]
    pub const fn on_directory(action: Action, number: u32) -> Self {
        Self { action, file: 0, place: DirectoryEntry { directory: number, name: 0 }, size: 0, version: 0 }
    }

    /// What is done.
    #[must_use]
    pub const fn kind(&self) -> OperationKind {
        self.action.kind()
    }

    /// Bytes that it writes, reserves or reads; those of each access of a random one.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.columns().length
    }

    /// The action in the columns of a trace.
    #[must_use]
    pub fn columns(&self) -> ActionColumns {
        let columns = ActionColumns { accesses: 1, ..ActionColumns::default() };
        match self.action {
            Action::Create { length } | Action::Read { length } => ActionColumns { length, ..columns },
            Action::Append { offset, length } | Action::Fallocate { offset, length } => {
                ActionColumns { offset, length, ..columns }
            }
            Action::RandomWrite { offset, length, accesses }
            | Action::RandomRead { offset, length, accesses } => {
                ActionColumns { offset, length, accesses, ..columns }
            }
            Action::Overwrite => ActionColumns { length: self.size, ..columns },
            Action::Truncate { new_size } => ActionColumns { offset: new_size, ..columns },
            Action::Rename { target } | Action::Symlink { target } | Action::Link { target } => {
                ActionColumns { target, ..columns }
            }
            Action::Mkdir { parent } | Action::Rmdir { parent } => {
                ActionColumns { offset: u64::from(parent), ..columns }
            }
            Action::Delete | Action::Fsync | Action::Fdatasync => columns,
        }
    }

    /// Offset and length of each access of a random read or write, cut at the end of the file: the first
    /// where the action says, the others at block-aligned places inside the file. These are derived from the
    /// operation alone, so that they need not be recorded. Nothing for other actions.
    pub fn accesses(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (first, length, count) = match self.action {
            Action::RandomWrite { offset, length, accesses }
            | Action::RandomRead { offset, length, accesses } => (offset, length, accesses.max(1)),
            _ => (0, 0, 0),
        };
        let Self { file, size, version, .. } = *self;
        let blocks = size.div_ceil(BLOCK_BYTES);
        let reach = length.div_ceil(BLOCK_BYTES);
        let places = if blocks > reach { blocks - reach + 1 } else { 1 };
        (0..count).map(move |n| {
            // SplitMix64 finaliser (Steele, Lea & Flood 2014) over what identifies the access.
            let mut z = file ^ (first << 1) ^ (u64::from(version) << 40) ^ (u64::from(n) << 20);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let offset = if n == 0 { first } else { ((z ^ (z >> 31)) % places) * BLOCK_BYTES };
            (offset, length.min(size.saturating_sub(offset)))
        })
    }
}
