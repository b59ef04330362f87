//! What each transaction of a database does, known from the seed and its number: which rows it writes, what they hold,
//! and which row it removes.
//!
//! A row says its number, the transaction that wrote it, what it holds, and a checksum over all of that and the
//! seed. So a row that is torn, of another database or in the wrong place shows by itself, and all rows together
//! say how many transactions made them.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::crash::{DatabaseModes, DatabaseSpec};
use fsage_model::digest::Digest;

use super::super::generated::Dice;

/// Rows that there may be.
const ROWS: u64 = 64;

/// Most rows that a transaction writes.
const MOST_WRITTEN: u64 = 3;

/// Longest contents of most rows, in bytes.
const MOST_BYTES: u64 = 2000;

/// Contents of the others, which need a page of their own beside that of the row (pages have 4096 bytes).
const LONG_BYTES: u64 = 5000;

/// Pages of the write-ahead log after which it is written back to the database, so that this also happens under a
/// short load. SQLite's own number is 1000.
const CHECKPOINT_PAGES: u32 = 64;

/// The line with how SQLite is set, before it says so.
pub const MODES: &str = "modes|";

/// What a transaction does.
#[derive(Debug, PartialEq, Eq)]
struct Changes {
    /// Rows that it writes: one to three.
    written: BTreeSet<u64>,
    /// A row that it removes, if it is there.
    removed: Option<u64>,
}

/// Every transaction of a load.
#[derive(Debug, Clone, Copy)]
pub struct Transactions {
    seed: u64,
}

impl Transactions {
    /// Those of a load.
    pub const fn new(database: DatabaseSpec) -> Self {
        Self { seed: database.seed }
    }

    /// Numbers that belong to one transaction, or to one row of it.
    fn dice(self, transaction: u64, row: u64) -> Dice {
        let mut digest = Digest::default();
        digest.add(&[self.seed, transaction, row]);
        let text = digest.to_string();
        Dice::new(u64::from_str_radix(text.get(..16).unwrap_or_default(), 16).unwrap_or_default())
    }

    fn changes(self, transaction: u64) -> Changes {
        let mut dice = self.dice(transaction, ROWS);
        let count = 1 + dice.below(MOST_WRITTEN);
        let written: BTreeSet<u64> = (0..count).map(|_| dice.below(ROWS)).collect();
        let removed = Some(dice.below(4 * ROWS)).filter(|row| *row < ROWS && !written.contains(row));
        Changes { written, removed }
    }

    /// What a row holds that a transaction wrote: letters.
    pub fn contents(self, transaction: u64, row: u64) -> String {
        let mut dice = self.dice(transaction, row);
        let length = if dice.below(8) == 0 { LONG_BYTES } else { 1 + dice.below(MOST_BYTES) };
        let mut letter = || char::from(b'a' + u8::try_from(dice.below(26)).unwrap_or(0));
        (0..length).map(|_| letter()).collect()
    }

    /// The checksum of a row: 32 hexadecimal digits.
    pub fn checksum(self, transaction: u64, row: u64, contents: &str) -> String {
        let mut digest = Digest::default();
        digest.add_bytes(&[self.seed, transaction, row], contents.as_bytes(), b"");
        digest.to_string()
    }

    /// The rows after so many transactions, each with the transaction that wrote it.
    pub fn after(self, transactions: u64) -> BTreeMap<u64, u64> {
        let mut rows = BTreeMap::new();
        for transaction in 1..=transactions {
            let Changes { written, removed } = self.changes(transaction);
            rows.extend(written.into_iter().map(|row| (row, transaction)));
            removed.and_then(|row| rows.remove(&row));
        }
        rows
    }

    /// The statements of a transaction, in one line; the last one acknowledges it.
    pub fn statements(self, transaction: u64) -> String {
        let Changes { written, removed } = self.changes(transaction);
        let mut line = "begin;".to_owned();
        for row in written {
            let contents = self.contents(transaction, row);
            let checksum = self.checksum(transaction, row, &contents);
            line += &format!(
                " insert or replace into entry values ({row}, {transaction}, '{checksum}', '{contents}');"
            );
        }
        if let Some(row) = removed {
            line += &format!(" delete from entry where number = {row};");
        }
        line + &format!(" commit; select 'ack {transaction}';\n")
    }
}

/// The statements that set SQLite, say how it is set, and make the table, in one line.
pub fn beginning(modes: DatabaseModes) -> String {
    format!(
        "pragma synchronous = {}; pragma journal_mode = {}; pragma wal_autocheckpoint = {CHECKPOINT_PAGES}; \
         select 'modes', journal_mode, synchronous from pragma_journal_mode, pragma_synchronous; \
         create table entry (number integer primary key, txn integer not null, checksum text not null, \
         contents text not null); select 'ack 0';\n",
        modes.synchronous.name(),
        modes.journal_mode.name()
    )
}

/// What SQLite has to say of how it is set, after [`MODES`].
pub fn said_of(modes: DatabaseModes) -> String {
    format!("{}|{}", modes.journal_mode.name(), modes.synchronous.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seed: u64) -> Transactions {
        Transactions::new(DatabaseSpec { modes: DatabaseModes::default(), transactions: 200, seed })
    }

    #[test]
    fn the_last_transaction_can_be_told_by_the_rows() {
        for transactions in 1..200 {
            let rows = of(3).after(transactions);
            assert_eq!(rows.values().max(), Some(&transactions));
            assert!(rows.keys().all(|row| *row < ROWS));
        }
        assert_eq!(of(3).after(0), BTreeMap::new());
    }

    #[test]
    fn transactions_write_and_remove_rows_of_every_size() {
        let all: Vec<Changes> = (1..=200).map(|transaction| of(3).changes(transaction)).collect();
        for count in 1..=3 {
            assert!(all.iter().any(|changes| changes.written.len() == count), "{count}");
        }
        assert!(all.iter().any(|changes| changes.removed.is_some()));
        let lengths: BTreeSet<usize> =
            (1..=200).map(|transaction| of(3).contents(transaction, 5).len()).collect();
        assert!(lengths.contains(&5000) && lengths.iter().any(|length| *length < 100), "{lengths:?}");
    }

    #[test]
    fn a_row_is_of_its_seed_transaction_number_and_contents() {
        let sum = |seed, transaction, row, contents| of(seed).checksum(transaction, row, contents);
        let own = sum(1, 2, 3, "text");
        assert_eq!((own.len(), &own), (32, &sum(1, 2, 3, "text")));
        for other in [sum(2, 2, 3, "text"), sum(1, 3, 3, "text"), sum(1, 2, 4, "text"), sum(1, 2, 3, "texu")]
        {
            assert_ne!(own, other);
        }
        assert_eq!(of(1).statements(7), of(1).statements(7));
        assert_ne!(of(1).statements(7), of(2).statements(7));
    }

    #[test]
    fn a_transaction_is_one_line_that_a_pipe_holds() {
        for transaction in 1..=200 {
            let line = of(9).statements(transaction);
            assert!(
                line.ends_with(&format!("commit; select 'ack {transaction}';\n")) && line.len() < 32 << 10
            );
            assert_eq!(line.lines().count(), 1);
        }
    }
}
