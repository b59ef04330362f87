//! Whether a database is what it was promised to be.
//!
//! `sqlite3` opens it, which rolls an unfinished transaction back or takes over its write-ahead log, and prints what
//! `pragma integrity_check` says and every row. The rows must be those of a number of whole transactions: no fewer
//! than had been committed at the cut, no more than had begun. A database that is gone has no transactions.

use std::time::Duration;

use fsage_model::crash::{Acknowledgement, Attempt, AttemptSpec, Damage, DamageKind, DatabaseSpec};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::super::attempt::{Judge, open_load, whole};
use super::super::program::precede;
use super::super::wide;
use super::transactions::Transactions;
use super::{CHECK_LIMIT, DATABASE, command};
use crate::host::HostError;
use crate::host::supervise::{Supervised, Watch, run};
use crate::host::tool::Children;
use crate::location::Anchor;

/// What is asked of a database. Lines that none of the others prints are of the integrity check.
const QUESTIONS: &str = "select 'table' from sqlite_master where name = 'entry'; pragma integrity_check; \
                         select 'row', number, txn, checksum, contents from entry order by number;";

/// The database, and what SQLite may have beside it.
const FILES: [&str; 4] = [DATABASE, "fsage.db-journal", "fsage.db-wal", "fsage.db-shm"];

/// Lines that are read: the rows are fewer, and the integrity check says a hundred things at most. A damaged tree can
/// have rows without end.
const MOST_LINES: usize = 1000;

/// A row that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Its number.
    pub number: u64,
    /// The transaction that wrote it.
    pub transaction: u64,
    /// Its checksum.
    pub checksum: String,
    /// What it holds.
    pub contents: String,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// There is a file.
    pub is_there: bool,
    /// It has the table.
    pub has_table: bool,
    /// What the integrity check said; nothing of a database that is gone.
    pub integrity: Vec<String>,
    /// Rows in the order of their numbers.
    pub rows: Vec<Row>,
    /// Why it could not be read to the end.
    pub error: Option<String>,
    /// It did not end in time.
    pub is_late: bool,
    /// Processes that were left running.
    pub left: u64,
}

impl Watch for Seen {
    fn line(&mut self, line: &[u8]) -> Result<(), HostError> {
        let line = String::from_utf8_lossy(line);
        match (line.as_ref(), row(&line)) {
            ("table", _) => self.has_table = true,
            (_, Some(row)) => self.rows.push(row),
            _ => self.integrity.push(line.into_owned()),
        }
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        self.is_endless()
    }
}

impl Seen {
    /// Whether it says more than a database of the load can.
    fn is_endless(&self) -> bool {
        self.rows.len() + self.integrity.len() >= MOST_LINES
    }
}

fn row(line: &str) -> Option<Row> {
    let mut words = line.strip_prefix("row|")?.splitn(4, '|');
    let mut number = || words.next()?.parse().ok();
    let (number, transaction) = (number()?, number()?);
    let (checksum, contents) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Row { number, transaction, checksum, contents })
}

/// Opens the database of a directory, where there is one, and reads all of it.
pub(super) fn inspect(directory: &Anchor, children: &Children) -> Result<Seen, HostError> {
    let mut seen = Seen::default();
    for name in FILES {
        match is_regular(directory, name) {
            Ok(true) => {}
            Err(Errno::NOENT) if name == DATABASE => return Ok(seen),
            Err(Errno::NOENT) => continue,
            Ok(false) => seen.error = Some(format!("{name} is not a file")),
            Err(errno) => seen.error = Some(format!("{name} cannot be opened: {errno}")),
        }
        seen.is_there = true;
        // The program would follow what leads elsewhere.
        if seen.error.is_some() {
            return Ok(seen);
        }
    }
    let (argv, held) = (command(&[QUESTIONS]), directory.held());
    let what = Supervised {
        argv: &argv,
        directory: &held,
        environment: &[],
        input: None,
        limit: Duration::from_millis(CHECK_LIMIT),
    };
    let ended = run(children, what, &mut seen)?;
    seen.left = ended.left;
    if seen.is_endless() {
        seen.error = Some("it has more rows than the load makes".to_owned());
        return Ok(seen);
    }
    seen.is_late = ended.status.is_none();
    // Where there is no table the rows cannot be asked for.
    let is_asked = |seen: &Seen| seen.has_table || seen.integrity != ["ok"];
    if let Some(status) = ended.status.filter(|status| *status != 0 && is_asked(&seen)) {
        let reason = ended.error.lines().next_back().unwrap_or_default();
        seen.error = Some(format!("sqlite3 ends with status {status}: {reason}"));
    }
    Ok(seen)
}

/// Whether a name is that of a file.
fn is_regular(directory: &Anchor, name: &str) -> Result<bool, Errno> {
    let file = directory.open(name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
    Ok(FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile)
}

/// What is damaged. `committed`: the last transaction whose `COMMIT` had returned; none before the table was made.
pub(super) fn compare(database: DatabaseSpec, committed: Option<u64>, seen: &Seen) -> Vec<Damage> {
    let begun = committed.map_or(0, |committed| (committed + 1).min(u64::from(database.transactions)));
    let inconsistent = unreadable(seen).or_else(|| rows(Transactions::new(database), begun, &seen.rows));
    if let Some(what) = inconsistent {
        return vec![damage(DamageKind::Database, what)];
    }
    let there = seen.has_table.then(|| last(&seen.rows));
    let Some(committed) = committed.filter(|committed| there.is_none_or(|there| there < *committed)) else {
        return Vec::new();
    };
    let what = match there {
        Some(there) => {
            format!("transaction {there} is the last, although `COMMIT` of {committed} had returned")
        }
        None if seen.is_there => format!("it is empty, although `COMMIT` of {committed} had returned"),
        None => format!("it is gone, although `COMMIT` of {committed} had returned"),
    };
    let lost = committed - there.unwrap_or(0);
    match database.modes.promises().most_lost.filter(|most| *most > 0 && *most < lost) {
        // What a rollback of the last ones does not explain.
        Some(most) => {
            vec![damage(DamageKind::Database, format!("{what}, and {most} at most may be missing"))]
        }
        None => vec![damage(DamageKind::Transaction, what)],
    }
}

fn damage(kind: DamageKind, what: String) -> Damage {
    Damage { path: DATABASE.to_owned(), ..whole(kind, what) }
}

/// Why SQLite does not take it for a database that is in order.
fn unreadable(seen: &Seen) -> Option<String> {
    if let Some(error) = &seen.error {
        return Some(error.clone());
    }
    let is_well = !seen.is_there || seen.integrity == ["ok"];
    (!is_well).then(|| format!("integrity_check: {}", seen.integrity.join("; ")))
}

/// The transaction that wrote last.
fn last(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.transaction).max().unwrap_or(0)
}

/// Why the rows are not those of a number of whole transactions, of which `begun` may be the last.
fn rows(transactions: Transactions, begun: u64, rows: &[Row]) -> Option<String> {
    for Row { number, transaction, checksum, contents } in rows {
        if *checksum != transactions.checksum(*transaction, *number, contents) {
            return Some(format!("row {number} is not what its checksum says, or of another database"));
        }
    }
    let last = last(rows);
    if last > begun {
        return Some(format!("rows of transaction {last} are there, which had not begun"));
    }
    let expected = transactions.after(last);
    let found = |number| rows.iter().find(|row| row.number == number).map(|row| row.transaction);
    let numbers = expected.keys().copied().chain(rows.iter().map(|row| row.number));
    let wrong = numbers.map(|number| (number, expected.get(&number).copied(), found(number)));
    let (number, expected, found) = wrong.into_iter().find(|(_, expected, found)| expected != found)?;
    let of = |transaction: Option<u64>| {
        transaction.map_or("missing".to_owned(), |it| format!("of transaction {it}"))
    };
    Some(format!("transaction {last} is there in part: row {number} is {}, not {}", of(found), of(expected)))
}

/// Judges states by what is in the database.
pub struct DatabaseJudge<'a> {
    /// The load.
    pub database: DatabaseSpec,
    /// What it acknowledged, in the order of positions: the table, then each transaction.
    pub committed: &'a [Acknowledgement],
    /// Where programs are listed.
    pub children: &'a Children,
}

impl Judge for DatabaseJudge<'_> {
    fn returned(&self, spec: &AttemptSpec) -> u64 {
        wide(precede(self.committed, spec.cut).len())
    }

    fn judge(&self, spec: &AttemptSpec, attempt: &mut Attempt) -> Result<Vec<Damage>, HostError> {
        let directory = match open_load(spec, DamageKind::Name) {
            Ok(directory) => directory,
            Err(damage) => return Ok(vec![damage]),
        };
        let seen = inspect(&directory, self.children)?;
        attempt.compared = wide(seen.rows.len());
        (attempt.left, attempt.undecided) = (seen.left, seen.is_late);
        if seen.is_late {
            return Ok(Vec::new());
        }
        // The first line acknowledges the table: transaction 0.
        Ok(compare(self.database, self.returned(spec).checked_sub(1), &seen))
    }

    fn is_removable(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::DatabaseModes;

    use super::*;

    const DATABASE_OF: DatabaseSpec = DatabaseSpec { modes: MODES, transactions: 20, seed: 5 };
    const MODES: DatabaseModes = DatabaseModes {
        journal_mode: fsage_model::crash::JournalMode::Wal,
        synchronous: fsage_model::crash::Synchronous::Full,
    };

    /// A database after so many transactions of a seed.
    fn after(seed: u64, count: u64) -> Seen {
        let transactions = Transactions::new(DatabaseSpec { seed, ..DATABASE_OF });
        let rows = transactions.after(count).into_iter().map(|(number, transaction)| {
            let contents = transactions.contents(transaction, number);
            Row {
                number,
                transaction,
                checksum: transactions.checksum(transaction, number, &contents),
                contents,
            }
        });
        let (integrity, rows) = (vec!["ok".to_owned()], rows.collect());
        Seen { is_there: true, has_table: true, integrity, rows, ..Seen::default() }
    }

    fn said(committed: Option<u64>, seen: &Seen) -> String {
        let damage = compare(DATABASE_OF, committed, seen);
        let said = damage.iter().map(|one| format!("{} {}: {}", one.kind.name(), one.path, one.what));
        said.collect::<Vec<String>>().join("; ")
    }

    #[test]
    fn committed_transactions_and_the_one_under_way_may_be_there() {
        for (committed, there) in [(9, 9), (9, 10), (20, 20), (0, 0), (0, 1)] {
            assert_eq!(said(Some(committed), &after(5, there)), "", "{committed} {there}");
        }
        let before = [Seen::default(), Seen { has_table: false, ..after(5, 0) }, after(5, 0)];
        for seen in before {
            assert_eq!(said(None, &seen), "", "{seen:?}");
        }
    }

    #[test]
    fn a_lost_transaction_is_no_inconsistency() {
        let lost = "transaction fsage.db: transaction 8 is the last, although `COMMIT` of 9 had returned";
        assert_eq!(said(Some(9), &after(5, 8)), lost);
        assert!(said(Some(0), &Seen::default()).contains("transaction fsage.db: it is gone"));
        let empty = Seen { is_there: true, integrity: vec!["ok".to_owned()], ..Seen::default() };
        assert!(said(Some(3), &empty).contains("transaction fsage.db: it is empty"));
    }

    /// With a rollback journal that is removed, the next transaction makes the removal durable.
    #[test]
    fn more_transactions_than_may_be_lost_are_an_inconsistency() {
        let modes = DatabaseModes { journal_mode: fsage_model::crash::JournalMode::Delete, ..MODES };
        let kinds = |committed, there| {
            let damage = compare(DatabaseSpec { modes, ..DATABASE_OF }, Some(committed), &after(5, there));
            damage.into_iter().map(|one| one.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(9, 8), [DamageKind::Transaction]);
        assert_eq!(kinds(9, 7), [DamageKind::Database]);
        assert_eq!(kinds(9, 9), []);
    }

    #[test]
    fn rows_without_end_are_not_read_to_the_end() {
        let mut seen = Seen::default();
        for _ in 0..MOST_LINES {
            assert!(!seen.is_over());
            seen.line(b"row|7|3|0a|text").unwrap();
        }
        assert!(seen.is_over());
    }

    #[test]
    fn rows_that_are_not_those_of_the_load_are_found() {
        let damaged = |change: &dyn Fn(&mut Seen), words: &str| {
            let mut seen = after(5, 12);
            change(&mut seen);
            let said = said(Some(12), &seen);
            assert!(said.starts_with("database fsage.db: ") && said.contains(words), "{said}");
        };
        damaged(&|seen| seen.rows[2].contents.push('x'), "is not what its checksum says");
        damaged(&|seen| seen.rows[2].number += 100, "is not what its checksum says");
        // One that is not of the last transaction: without that the rows are those of the one before.
        let old = after(5, 12).rows.iter().position(|row| row.transaction < 12).unwrap();
        damaged(&|seen| drop(seen.rows.remove(old)), "there in part");
        damaged(&|seen| seen.rows[old] = after(5, 12).rows[old + 1].clone(), "there in part");
        damaged(&|seen| *seen = after(6, 12), "of another database");
        damaged(&|seen| *seen = after(5, 14), "transaction 14 are there, which had not begun");
        damaged(&|seen| seen.integrity = vec!["row 3 missing from index".to_owned()], "row 3 missing");
        damaged(&|seen| seen.integrity.clear(), "integrity_check: ");
        damaged(&|seen| seen.error = Some("sqlite3 ends with status 1".to_owned()), "status 1");
    }

    /// Some rows of a later transaction, though not all.
    #[test]
    fn a_transaction_is_there_as_a_whole_or_not_at_all() {
        let (mut torn, new) = (0, after(5, 13));
        for number in 0..new.rows.len() {
            let mut seen = after(5, 12);
            let row = &new.rows[number];
            let is_new = row.transaction == 13;
            seen.rows.retain(|old| old.number != row.number);
            seen.rows.push(row.clone());
            let whole = Transactions::new(DATABASE_OF).after(13).values().filter(|it| **it == 13).count();
            if is_new && whole > 1 {
                torn += 1;
                assert!(said(Some(12), &seen).contains("transaction 13 is there in part"), "{number}");
            }
        }
        assert!(torn > 1, "choose a transaction of several rows");
    }

    #[test]
    fn lines_are_rows_or_what_the_check_says() {
        let mut seen = Seen::default();
        for line in ["table", "ok", "row|7|3|0a|text", "row 5 missing from index x", "row|x|3|0a|text"] {
            seen.line(line.as_bytes()).unwrap();
        }
        let row = Row { number: 7, transaction: 3, checksum: "0a".to_owned(), contents: "text".to_owned() };
        assert_eq!((seen.has_table, &seen.rows[..]), (true, &[row][..]));
        assert_eq!(seen.integrity, ["ok", "row 5 missing from index x", "row|x|3|0a|text"]);
    }
}
