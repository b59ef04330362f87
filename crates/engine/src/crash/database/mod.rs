//! SQLite as the load of a power cut, by its program `sqlite3`.
//!
//! Transactions are written to the program one at a time: the next one when the line that acknowledges the one
//! before has been read and marked in the disk's log. So at every cut it is known which transactions had been
//! committed, and which one may have begun. What the settings of SQLite promise is in `fsage_model::crash`.
//!
//! | module | what |
//! | --- | --- |
//! | `transactions` | what each transaction does |
//! | `judge` | whether a database is what some number of them leaves |

mod judge;
mod transactions;

use std::fs::File;
use std::io::{PipeWriter, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use fsage_model::crash::{ACKNOWLEDGES, DatabaseSpec, ProgramRun, ProgramSpec};

pub use judge::DatabaseJudge;

use self::transactions::{MODES, Transactions, beginning, said_of};
use super::CrashError;
use super::program::{IsOver, run_noting};
use crate::host::HostError;
use crate::host::supervise::Supervised;
use crate::host::tool::Children;
use crate::location::Anchor;

/// The database in the load's directory.
const DATABASE: &str = "fsage.db";

/// Longest that a load runs, in milliseconds.
const LOAD_LIMIT: u64 = 600_000;

/// Longest that a check runs, in milliseconds.
const CHECK_LIMIT: u64 = 60_000;

/// The command line that opens the database: no file of the user's is read, and the first error ends it.
fn command(words: &[&str]) -> Vec<String> {
    let program = ["sqlite3", "-init", "/dev/null", "-batch", "-bail", DATABASE];
    program.iter().chain(words).map(|word| (*word).to_owned()).collect()
}

/// The programs of the load, as reports name them, and their time limits.
#[must_use]
pub fn database_programs() -> ProgramSpec {
    ProgramSpec {
        load: command(&[]),
        check: command(&["pragma integrity_check; select max(txn) from entry;"]),
        load_timeout_ms: LOAD_LIMIT,
        check_timeout_ms: CHECK_LIMIT,
    }
}

/// Everything that `sqlite3` reads of a load, a line each: how it is set, then the transactions.
pub fn database_lines(database: &DatabaseSpec) -> impl Iterator<Item = String> {
    let transactions = Transactions::new(*database);
    let all = (1..=u64::from(database.transactions)).map(move |number| transactions.statements(number));
    std::iter::once(beginning(database.modes)).chain(all)
}

/// Commits the transactions on a virtual disk that keeps a log, and says where in it each was acknowledged; the
/// first acknowledgement is that of the table.
///
/// # Errors
/// As for a program of the user's; `sqlite3` is not installed, or is not set as it should be.
pub fn run_database(
    database: &DatabaseSpec,
    directory: &Anchor,
    children: &Children,
    is_over: IsOver<'_>,
) -> Result<ProgramRun, CrashError> {
    let (input, mut feed) = Feed::new(*database)?;
    let (argv, held) = (command(&[]), directory.held());
    let what = Supervised {
        argv: &argv,
        directory: &held,
        environment: &[],
        input: Some(input),
        limit: Duration::from_millis(LOAD_LIMIT),
    };
    let run = run_noting(what, directory, children, is_over, &mut |line| feed.answer(line))?;
    if run.timed_out {
        let (done, all) = (run.acknowledged.len().saturating_sub(1), database.transactions);
        let what = format!("sqlite3 committed {done} of {all} transactions in {} s", LOAD_LIMIT / 1000);
        return Err(CrashError::Database { what });
    }
    Ok(run)
}

/// What the program reads: the next transaction when it has acknowledged the one before.
struct Feed {
    database: DatabaseSpec,
    transactions: Transactions,
    /// How many were written to it.
    written: u64,
    /// None when there are no more.
    to: Option<PipeWriter>,
}

impl Feed {
    /// Its end of the pipe, with what SQLite is to begin with, and ours.
    fn new(database: DatabaseSpec) -> Result<(File, Self), HostError> {
        let (from, to) = std::io::pipe().map_err(HostError::file("make a pipe to", Path::new("sqlite3")))?;
        let transactions = Transactions::new(database);
        let mut feed = Self { database, transactions, written: 0, to: Some(to) };
        feed.write(&beginning(database.modes))?;
        Ok((File::from(OwnedFd::from(from)), feed))
    }

    /// A pipe holds more than the longest transaction, and the one before was read.
    fn write(&mut self, line: &str) -> Result<(), HostError> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.write_all(line.as_bytes()).map_err(HostError::file("write to", Path::new("sqlite3")))
    }

    fn answer(&mut self, line: &str) -> Result<(), CrashError> {
        if let Some(modes) = line.strip_prefix(MODES) {
            return self.check(modes);
        }
        if !line.starts_with(ACKNOWLEDGES) {
            return Ok(());
        }
        if self.written == u64::from(self.database.transactions) {
            self.to = None;
            return Ok(());
        }
        self.written += 1;
        Ok(self.write(&self.transactions.statements(self.written))?)
    }

    /// SQLite keeps its own journal mode where a file system does not allow another.
    fn check(&self, said: &str) -> Result<(), CrashError> {
        let wanted = said_of(self.database.modes);
        if said == wanted {
            return Ok(());
        }
        let what = format!("sqlite3 uses the journal mode and synchronous level `{said}`, not `{wanted}`");
        Err(CrashError::Database { what })
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::DatabaseModes;

    use super::*;

    #[test]
    fn settings_that_sqlite_does_not_take_end_the_load() {
        let database = DatabaseSpec { modes: DatabaseModes::default(), transactions: 12, seed: 4 };
        let (_input, mut feed) = Feed::new(database).unwrap();
        assert!(feed.answer("modes|delete|2").is_ok());
        let error = feed.answer("modes|wal|2").unwrap_err();
        assert!(error.to_string().contains("`wal|2`, not `delete|2`"), "{error}");
    }

    #[test]
    fn a_transaction_is_written_when_the_one_before_is_acknowledged() {
        let database = DatabaseSpec { modes: DatabaseModes::default(), transactions: 2, seed: 4 };
        let (_input, mut feed) = Feed::new(database).unwrap();
        for (line, written, is_open) in [
            ("delete", 0, true),
            ("ack 0", 1, true),
            ("64", 1, true),
            ("ack 1", 2, true),
            ("ack 2", 2, false),
        ] {
            feed.answer(line).unwrap();
            assert_eq!((feed.written, feed.to.is_some()), (written, is_open), "{line}");
        }
    }
}
