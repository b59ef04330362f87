//! What a file system promises of a power cut, as a table: one row for each file system and option that
//! changes anything.
//!
//! The rows are our reading of each file system's own documentation (docs/power.md cites it). A row says what
//! may be relied on *on a drive that keeps its word*. Rows of options come after the row of the file system
//! and change it.

use serde::{Deserialize, Serialize};

use super::{DamageKind, DatabasePromises};

/// What may be relied on after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "a row of a table")]
pub struct Promises {
    /// It mounts, and its check finds nothing, without a repair.
    pub consistent: bool,
    /// What fsync, fdatasync and sync returned for is there.
    pub durable: bool,
    /// The name of a new file is durable with `fsync` of the file, also without `fsync` of its directory.
    pub fsync_names: bool,
    /// `fsync` of a file makes its extended attributes durable too.
    pub fsync_attributes: bool,
    /// No file shows bytes that were never written to it.
    pub no_stale: bool,
    /// A database of the load is consistent: what its own program promises.
    pub database_consistent: bool,
    /// Its committed transactions are there, likewise.
    pub database_durable: bool,
}

impl Promises {
    const JOURNAL: Self = Self {
        consistent: true,
        durable: true,
        fsync_names: true,
        fsync_attributes: true,
        no_stale: true,
        database_consistent: true,
        database_durable: true,
    };

    /// The same where the load is a database that promises this.
    #[must_use]
    pub const fn of_database(self, database: DatabasePromises) -> Self {
        Self { database_consistent: database.consistent, database_durable: database.durable, ..self }
    }

    /// Whether damage of this kind is excluded.
    #[must_use]
    pub const fn exclude(&self, kind: DamageKind) -> bool {
        match kind {
            DamageKind::Mount | DamageKind::Check | DamageKind::Use => self.consistent,
            DamageKind::Name | DamageKind::Content | DamageKind::Program => self.durable && self.consistent,
            DamageKind::Foreign => self.no_stale,
            // A database can rely on no more than its file system keeps.
            DamageKind::Database => self.exclude(DamageKind::Program) && self.database_consistent,
            DamageKind::Transaction => self.exclude(DamageKind::Program) && self.database_durable,
        }
    }
}

/// What an option changes.
struct Row {
    file_system: &'static str,
    /// The mount option or `PARAMETER=VALUE` of mkfs that it is about.
    option: &'static str,
    change: fn(Promises) -> Promises,
}

const fn no_barrier(promises: Promises) -> Promises {
    Promises { consistent: false, durable: false, no_stale: false, ..promises }
}

const fn no_journal(promises: Promises) -> Promises {
    Promises { consistent: false, fsync_attributes: false, no_stale: false, ..promises }
}

const fn stale(promises: Promises) -> Promises {
    Promises { no_stale: false, ..promises }
}

/// `fsync` of f2fs "in line with xfs, ext4 and btrfs": with names and attributes, and nodes that reach the drive after their data.
const fn strict(promises: Promises) -> Promises {
    Promises { fsync_names: true, fsync_attributes: true, no_stale: true, ..promises }
}

/// Nothing that was synced is durable. Of f2fs without flushes this takes too much: what ends with a checkpoint, such as `syncfs`, has a flush.
const fn not_durable(promises: Promises) -> Promises {
    Promises { durable: false, ..promises }
}

/// Options that change a row of a file system.
const ROWS: &[Row] = &[
    Row { file_system: "ext3", option: "data=writeback", change: stale },
    Row { file_system: "ext4", option: "data=writeback", change: stale },
    Row { file_system: "ext3", option: "barrier=0", change: no_barrier },
    Row { file_system: "ext4", option: "barrier=0", change: no_barrier },
    Row { file_system: "ext3", option: "nobarrier", change: no_barrier },
    Row { file_system: "ext4", option: "nobarrier", change: no_barrier },
    Row { file_system: "ext3", option: "journal=false", change: no_journal },
    Row { file_system: "ext4", option: "journal=false", change: no_journal },
    Row { file_system: "ext3", option: "features=^has_journal", change: no_journal },
    Row { file_system: "ext4", option: "features=^has_journal", change: no_journal },
    Row { file_system: "btrfs", option: "nobarrier", change: no_barrier },
    Row { file_system: "f2fs", option: "fsync_mode=strict", change: strict },
    Row { file_system: "f2fs", option: "fsync_mode=nobarrier", change: not_durable },
    Row { file_system: "f2fs", option: "nobarrier", change: no_barrier },
    Row { file_system: "f2fs", option: "checkpoint=disable", change: not_durable },
];

/// Options with which tests of crash states on an honest drive broke promises that no documentation cancels (docs/power.md, *Results*, has the
/// kernels and the numbers of states).
const FOUND_BROKEN: &[(&str, &str)] =
    &[("ext4", "features=fast_commit"), ("ext4", "features=feature_c10"), ("ext4", "journal_async_commit")];

/// Whether power cuts were found to break promises with one of these options, on a drive that keeps its word; options as
/// [`promises`] takes them.
#[must_use]
pub fn is_found_broken(file_system: &str, options: &[String]) -> bool {
    let is_listed = |option: &String| {
        let is_it = |(kind, known): &(&str, &str)| *kind == file_system && option.eq_ignore_ascii_case(known);
        FOUND_BROKEN.iter().any(is_it)
    };
    options.iter().any(is_listed)
}

/// What a file system promises with these mount options and mkfs parameters (`journal=false`). `None`: no row
/// says so; then only what POSIX says of `fsync` is expected of it.
#[must_use]
pub fn promises(file_system: &str, options: &[String]) -> Option<Promises> {
    let base = match file_system {
        "ext3" | "ext4" | "xfs" | "btrfs" => Promises::JOURNAL,
        "ext2" => Promises { fsync_names: false, ..no_journal(Promises::JOURNAL) },
        // `fsync_mode=posix`, the default (Documentation/filesystems/f2fs.rst): a node may reach the drive before its data
        // (`f2fs_do_sync_file()` in fs/f2fs/file.c).
        "f2fs" => Promises { no_stale: false, ..Promises::POSIX },
        _ => return None,
    };
    let rows = ROWS.iter().filter(|row| row.file_system == file_system);
    let options: Vec<&str> = options.iter().map(|option| plain(option)).collect();
    let rows = rows.filter(|row| options.contains(&row.option));
    Some(rows.fold(base, |promises, row| (row.change)(promises)))
}

/// The one spelling of an option that has several: the kernel reads the number of `barrier` in any base, so that only `1` is
/// taken for what it is; `mke2fs` reads features in any case and by number, and `none` leaves the journal out.
fn plain(option: &str) -> &str {
    if option.strip_prefix("barrier=").is_some_and(|value| value != "1") {
        return "barrier=0";
    }
    // With a share or a size of what may be used meanwhile.
    if option.starts_with("checkpoint=disable:") {
        return "checkpoint=disable";
    }
    let is_without = |feature: &str| {
        ["^has_journal", "^feature_c2", "none"].iter().any(|known| feature.eq_ignore_ascii_case(known))
    };
    if option.strip_prefix("features=").is_some_and(is_without) { "features=^has_journal" } else { option }
}

impl Promises {
    /// What POSIX says of any file system: data that `fsync` returned for is durable; names need `fsync` of
    /// their directory, and extended attributes are not mentioned.
    pub const POSIX: Self = Self { fsync_names: false, fsync_attributes: false, ..Self::JOURNAL };
}

#[cfg(test)]
mod tests {
    use super::super::{DatabaseModes, JournalMode, Synchronous};
    use super::*;

    fn of(file_system: &str, options: &[&str]) -> Promises {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        promises(file_system, &options).unwrap()
    }

    #[test]
    fn options_take_away_from_what_the_file_system_promises() {
        let ext4 = of("ext4", &["noatime"]);
        assert!(DamageKind::Check != DamageKind::Name && ext4.exclude(DamageKind::Check));
        assert!(ext4.exclude(DamageKind::Foreign));
        let writeback = of("ext4", &["data=writeback"]);
        assert!(!writeback.exclude(DamageKind::Foreign) && writeback.exclude(DamageKind::Content));
        assert!(!of("ext4", &["barrier=0"]).exclude(DamageKind::Content));
        assert!(!of("ext4", &["journal=false"]).exclude(DamageKind::Mount));
        assert!(!of("ext4", &["features=^has_journal"]).exclude(DamageKind::Mount));
        assert!(!of("ext4", &["features=^HAS_JOURNAL"]).exclude(DamageKind::Mount));
        assert!(!of("ext4", &["features=none"]).exclude(DamageKind::Mount));
        for zero in ["barrier=00", "barrier=0x0", "barrier=+0"] {
            assert!(!of("ext4", &[zero]).exclude(DamageKind::Content));
        }
        assert!(of("ext4", &["barrier=1", "features=extents"]).exclude(DamageKind::Content));
        assert!(of("ext4", &["journal=true"]).exclude(DamageKind::Mount));
        // An option of another file system takes nothing away.
        assert_eq!(of("xfs", &["data=writeback"]), ext4);
        assert!(!of("ext2", &[]).exclude(DamageKind::Check));
        assert_eq!(promises("zfs", &[]), None);
    }

    #[test]
    fn a_database_is_promised_what_both_it_and_the_file_system_promise() {
        let of = |file_system, options, modes: DatabaseModes| {
            of(file_system, options).of_database(modes.promises())
        };
        let wal = |synchronous| DatabaseModes { journal_mode: JournalMode::Wal, synchronous };
        let (lost, torn) = (DamageKind::Transaction, DamageKind::Database);
        let excluded = |promises: Promises| [promises.exclude(torn), promises.exclude(lost)];
        assert_eq!(excluded(of("ext4", &[], wal(Synchronous::Full))), [true, true]);
        assert_eq!(excluded(of("ext4", &[], wal(Synchronous::Normal))), [true, false]);
        assert_eq!(excluded(of("ext4", &[], wal(Synchronous::Off))), [false, false]);
        assert_eq!(excluded(of("ext4", &["barrier=0"], wal(Synchronous::Full))), [false, false]);
        assert_eq!(excluded(of("ext2", &[], wal(Synchronous::Extra))), [false, false]);
        // What the database promises changes nothing of what the file system does.
        assert!(of("ext4", &[], wal(Synchronous::Off)).exclude(DamageKind::Check));
    }

    #[test]
    fn what_tests_found_broken_is_no_row_of_the_promises() {
        let found = |kind, option: &str| is_found_broken(kind, &["noatime".to_owned(), option.to_owned()]);
        for option in ["features=fast_commit", "features=FAST_COMMIT", "journal_async_commit"] {
            assert!(found("ext4", option) && !found("xfs", option), "{option}");
            assert_eq!(of("ext4", &[option]), of("ext4", &[]), "power cuts are judged by what is documented");
        }
        assert!(!found("ext4", "features=^fast_commit") && !found("ext4", "commit=30"));
    }

    #[test]
    fn f2fs_promises_what_its_mode_of_fsync_says() {
        let posix = of("f2fs", &[]);
        assert_eq!(posix, Promises { no_stale: false, ..Promises::POSIX });
        assert_eq!(of("f2fs", &["fsync_mode=posix"]), posix);
        assert_eq!(of("f2fs", &["fsync_mode=strict"]), of("ext4", &[]));
        for not_durable in ["fsync_mode=nobarrier", "checkpoint=disable", "checkpoint=disable:10%"] {
            let not_durable = of("f2fs", &[not_durable]);
            assert!(!not_durable.exclude(DamageKind::Content) && not_durable.exclude(DamageKind::Mount));
        }
        assert!(!of("f2fs", &["nobarrier"]).exclude(DamageKind::Mount));
    }

    #[test]
    fn every_row_is_of_a_file_system_with_promises_and_changes_something() {
        for row in ROWS {
            let base = promises(row.file_system, &[]).unwrap();
            let with = promises(row.file_system, &[row.option.to_owned()]).unwrap();
            assert_ne!(base, with, "{} {}", row.file_system, row.option);
        }
    }
}
