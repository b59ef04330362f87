//! A database as the load of a power cut: SQLite, how it is set, and what its documentation promises of each setting.
//!
//! Transactions are committed one after the other; after a cut the database must be as a number of whole
//! transactions leave it, and (where commits are durable) no fewer than those whose `COMMIT` had returned.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CrashLoad, CrashLoadSpec};

/// Journal mode of SQLite (`pragma journal_mode`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JournalMode {
    /// A rollback journal; removing it commits.
    #[default]
    Delete,
    /// A rollback journal; truncating it to nothing commits.
    Truncate,
    /// A rollback journal; zeros over its header commit.
    Persist,
    /// A write-ahead log; a record of it commits.
    Wal,
}

impl JournalMode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Delete, Self::Truncate, Self::Persist, Self::Wal];

    /// As SQLite, studies and flags name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Persist => "persist",
            Self::Wal => "wal",
        }
    }
}

/// When SQLite syncs (`pragma synchronous`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Synchronous {
    /// Never.
    Off,
    /// At the most critical moments.
    Normal,
    /// Before everything that relies on what was written.
    #[default]
    Full,
    /// As `full`, and the directory after a rollback journal was removed.
    Extra,
}

impl Synchronous {
    /// All of them, in the order of the numbers that SQLite gives them, from 0.
    pub const ALL: [Self; 4] = [Self::Off, Self::Normal, Self::Full, Self::Extra];

    /// As SQLite, studies and flags name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Normal => "normal",
            Self::Full => "full",
            Self::Extra => "extra",
        }
    }

    /// The number that `pragma synchronous` prints.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Off => 0,
            Self::Normal => 1,
            Self::Full => 2,
            Self::Extra => 3,
        }
    }
}

/// How SQLite is set. The default is SQLite's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseModes {
    /// Journal.
    pub journal_mode: JournalMode,
    /// Syncs.
    pub synchronous: Synchronous,
}

impl std::fmt::Display for DatabaseModes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, synchronous {}", self.journal_mode.name(), self.synchronous.name())
    }
}

/// The load `database`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSpec {
    /// How SQLite is set.
    pub modes: DatabaseModes,
    /// How many transactions are committed.
    pub transactions: u32,
    /// Random seed of the rows that a transaction writes, and of their contents.
    pub seed: u64,
}

impl DatabaseSpec {
    /// The same as a load, without how SQLite is set.
    #[must_use]
    pub const fn load(&self) -> CrashLoadSpec {
        CrashLoadSpec { load: CrashLoad::Database, size: self.transactions, seed: self.seed, threads: 1 }
    }
}

/// What SQLite promises of a power cut, on a file system that keeps what `fsync` promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabasePromises {
    /// The database is as a number of whole transactions leave it.
    pub consistent: bool,
    /// Transactions whose `COMMIT` had returned are among them.
    pub durable: bool,
    /// How many of the last ones may be missing; `None`: any number.
    pub most_lost: Option<u64>,
    /// Where SQLite says so.
    pub source: &'static str,
}

impl DatabasePromises {
    /// In words.
    #[must_use]
    pub const fn words(&self) -> &'static str {
        match (self.consistent, self.most_lost) {
            (true, Some(0)) => "consistent and durable",
            (true, Some(1)) => "consistent, the last transaction may be lost",
            (true, _) => "consistent, the last transactions may be lost",
            (false, _) => "nothing",
        }
    }
}

/// Rows of the table: a journal mode and a level of `synchronous` are in one of them.
struct Row {
    journal_modes: &'static [JournalMode],
    synchronous: &'static [Synchronous],
    promises: DatabasePromises,
}

const fn row(
    journal_modes: &'static [JournalMode],
    synchronous: &'static [Synchronous],
    (consistent, most_lost): (bool, Option<u64>),
    source: &'static str,
) -> Row {
    let durable = matches!(most_lost, Some(0));
    Row { journal_modes, synchronous, promises: DatabasePromises { consistent, durable, most_lost, source } }
}

/// What is promised where no row says so; a test finds a row for every setting.
const NOTHING: DatabasePromises =
    DatabasePromises { consistent: false, durable: false, most_lost: None, source: "" };

/// Our reading of SQLite's documentation. What it calls a small or probable risk is not promised.
const ROWS: [Row; 8] = [
    row(
        &JournalMode::ALL,
        &[Synchronous::Off],
        (false, None),
        "sqlite.org/pragma.html#pragma_synchronous: with OFF the database might become corrupted if power is lost",
    ),
    row(
        &[JournalMode::Delete, JournalMode::Truncate, JournalMode::Persist],
        &[Synchronous::Normal],
        (false, None),
        "sqlite.org/pragma.html#pragma_synchronous: with NORMAL a very small chance of corruption in DELETE mode \
         on an older file system, and probably none on newer ones",
    ),
    row(
        &[JournalMode::Delete],
        &[Synchronous::Full],
        (true, Some(1)),
        "sqlite.org/pragma.html#pragma_synchronous: FULL does not corrupt; only EXTRA syncs the directory after \
         the journal was removed, for a commit that is closely followed by a power loss; the next commit syncs it",
    ),
    row(
        &[JournalMode::Delete],
        &[Synchronous::Extra],
        (true, Some(0)),
        "sqlite.org/pragma.html#pragma_synchronous: EXTRA; sqlite.org/atomiccommit.html, section 3",
    ),
    row(
        &[JournalMode::Truncate],
        &[Synchronous::Full, Synchronous::Extra],
        (true, Some(0)),
        "sqlite.org/atomiccommit.html, section 7.6; src/pager.c, pager_end_transaction(): the journal is synced \
         after it was truncated, lest the last transaction roll back",
    ),
    row(
        &[JournalMode::Persist],
        &[Synchronous::Full, Synchronous::Extra],
        (true, Some(0)),
        "sqlite.org/atomiccommit.html, section 7.6; src/pager.c, zeroJournalHdr(): the journal is synced after \
         its header was zeroed",
    ),
    row(
        &[JournalMode::Wal],
        &[Synchronous::Normal],
        (true, None),
        "sqlite.org/pragma.html#pragma_synchronous: always consistent with NORMAL, but a committed transaction \
         might roll back; sqlite.org/wal.html, Performance Considerations",
    ),
    row(
        &[JournalMode::Wal],
        &[Synchronous::Full, Synchronous::Extra],
        (true, Some(0)),
        "sqlite.org/pragma.html#pragma_synchronous: the log is synced after each commit, which makes it durable; \
         sqlite.org/wal.html, Performance Considerations",
    ),
];

impl DatabaseModes {
    /// What SQLite promises.
    #[must_use]
    pub fn promises(self) -> DatabasePromises {
        let is = |row: &&Row| {
            row.journal_modes.contains(&self.journal_mode) && row.synchronous.contains(&self.synchronous)
        };
        ROWS.iter().find(is).map_or(NOTHING, |row| row.promises)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = DatabaseModes> {
        JournalMode::ALL.into_iter().flat_map(|journal_mode| {
            Synchronous::ALL.map(|synchronous| DatabaseModes { journal_mode, synchronous })
        })
    }

    #[test]
    fn every_setting_is_in_one_row_which_cites_sqlite() {
        for modes in all() {
            let rows = ROWS.iter().filter(|row| {
                row.journal_modes.contains(&modes.journal_mode)
                    && row.synchronous.contains(&modes.synchronous)
            });
            assert_eq!(rows.count(), 1, "{modes}");
            assert!(modes.promises().source.starts_with("sqlite.org/"), "{modes}");
        }
    }

    /// Syncing more never promises less, and what is durable is consistent.
    #[test]
    fn more_syncs_promise_no_less() {
        for modes in all() {
            let own = modes.promises();
            assert!(own.consistent || !own.durable, "{modes}");
            for synchronous in
                Synchronous::ALL.into_iter().filter(|more| more.number() > modes.synchronous.number())
            {
                let more = DatabaseModes { synchronous, ..modes }.promises();
                assert!(more.consistent >= own.consistent && more.durable >= own.durable, "{modes}");
            }
        }
    }

    #[test]
    fn what_the_documentation_says_of_the_settings_in_common_use() {
        let words =
            |journal_mode, synchronous| DatabaseModes { journal_mode, synchronous }.promises().words();
        let lost = "consistent, the last transactions may be lost";
        assert_eq!(words(JournalMode::Wal, Synchronous::Normal), lost);
        assert_eq!(words(JournalMode::Wal, Synchronous::Full), "consistent and durable");
        assert_eq!(
            words(JournalMode::Delete, Synchronous::Full),
            "consistent, the last transaction may be lost"
        );
        assert_eq!(words(JournalMode::Delete, Synchronous::Extra), "consistent and durable");
        assert_eq!(words(JournalMode::Wal, Synchronous::Off), "nothing");
        let default = DatabaseModes::default();
        assert_eq!(default.to_string(), "delete, synchronous full");
    }
}
