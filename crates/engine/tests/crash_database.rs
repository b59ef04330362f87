//! The check of the load `database` on databases that `sqlite3` made: those of the load pass, others do not. One test, in a
//! process of its own: whatever this process starts meanwhile would be ended with the program that checks.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../sys/tests/support/skip.rs"]
mod skip;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fsage_engine::crash::{DatabaseJudge, Judge as _, database_lines, database_programs};
use fsage_engine::host::tool::{Children, look_up};
use fsage_model::crash::{
    Acknowledgement, Attempt, AttemptSpec, DamageKind, DatabaseModes, DatabaseSpec, JournalMode, Promises,
    Synchronous,
};
use fsage_model::location::Location;

struct Rig {
    folder: tempfile::TempDir,
    children: Children,
}

impl Rig {
    fn path(&self) -> PathBuf {
        self.folder.path().join("fsage.db")
    }

    /// Runs `sqlite3` as the load does; what it printed.
    fn sqlite(&self, more: &[&str], input: &str) -> String {
        let load = database_programs().load;
        let mut command = Command::new(&load[0]);
        command.args(&load[1..]).args(more).current_dir(self.folder.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{more:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A database after all transactions of a load, in the place of what was there; what was printed.
    fn make(&self, database: DatabaseSpec) -> String {
        let _ = std::fs::remove_file(self.path());
        self.sqlite(&[], &database_lines(&database).collect::<String>())
    }

    /// The damage, where so many transactions of a load were committed.
    fn judge(&self, database: DatabaseSpec, committed: u64) -> Option<DamageKind> {
        let line = |position: u64| Acknowledgement { text: position.to_string(), position };
        let lines: Vec<Acknowledgement> = (0..=u64::from(database.transactions)).map(line).collect();
        let judge = DatabaseJudge { database, committed: &lines, children: &self.children };
        let spec = AttemptSpec {
            device: PathBuf::new(),
            point: PathBuf::new(),
            directory: Location::from(self.folder.path()),
            file_system: String::new(),
            options: Vec::new(),
            promises: Promises::POSIX,
            honest: true,
            cut: committed,
            missing: Vec::new(),
            layers: None,
            used: false,
            check: None,
            check_timeout_ms: 0,
        };
        let damage = judge.judge(&spec, &mut Attempt::default()).unwrap();
        damage.first().map(|damage| damage.kind)
    }
}

#[test]
fn the_rows_and_the_file_of_a_load_pass_and_no_others() {
    if look_up("sqlite3").is_none() {
        return skip::skip("sqlite3 is not installed");
    }
    let rig = Rig { folder: tempfile::tempdir().unwrap(), children: Children::default() };
    every_setting_is_taken(&rig);
    other_rows_fail(&rig);
    other_files_fail(&rig);
}

fn every_setting_is_taken(rig: &Rig) {
    for journal_mode in JournalMode::ALL {
        for synchronous in Synchronous::ALL {
            let modes = DatabaseModes { journal_mode, synchronous };
            let database = DatabaseSpec { modes, ..OWN };
            let printed = rig.make(database);
            let said = format!("modes|{}|{}\n", journal_mode.name(), synchronous.number());
            assert!(printed.contains(&said) && printed.ends_with("ack 12\n"), "{modes}: {printed}");
            assert_eq!((rig.judge(database, 12), rig.judge(database, 11)), (None, None), "{modes}");
        }
    }
}

const OWN: DatabaseSpec = DatabaseSpec {
    modes: DatabaseModes { journal_mode: JournalMode::Delete, synchronous: Synchronous::Full },
    transactions: 12,
    seed: 4,
};

const DURABLE: DatabaseSpec = DatabaseSpec {
    modes: DatabaseModes { journal_mode: JournalMode::Delete, synchronous: Synchronous::Extra },
    ..OWN
};

fn other_rows_fail(rig: &Rig) {
    for statements in [
        "update entry set contents = contents || 'x' where number = (select max(number) from entry);",
        "update entry set number = 99 where number = (select max(number) from entry);",
        "update entry set txn = txn - 1 where txn = 12;",
        "delete from entry where txn = (select min(txn) from entry);",
    ] {
        rig.make(OWN);
        rig.sqlite(&[statements], "");
        assert_eq!(rig.judge(OWN, 12), Some(DamageKind::Database), "{statements}");
    }
    rig.make(DatabaseSpec { seed: 5, ..OWN });
    assert_eq!(rig.judge(OWN, 12), Some(DamageKind::Database), "the rows of another load");
    rig.make(OWN);
    assert_eq!(rig.judge(OWN, 10), Some(DamageKind::Database), "a transaction that had not begun");
}

fn other_files_fail(rig: &Rig) {
    rig.make(DatabaseSpec { transactions: 11, ..OWN });
    assert_eq!(rig.judge(OWN, 12), Some(DamageKind::Transaction), "an older file");
    rig.make(DatabaseSpec { transactions: 9, ..OWN });
    assert_eq!(rig.judge(OWN, 12), Some(DamageKind::Database), "more is lost than the last transaction");
    assert_eq!(rig.judge(DURABLE, 12), Some(DamageKind::Transaction), "none may be lost");
    rig.make(OWN);
    let mut bytes = std::fs::read(rig.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes.truncate(middle);
    std::fs::write(rig.path(), &bytes).unwrap();
    assert_eq!(rig.judge(OWN, 0), Some(DamageKind::Database), "half of the file");
    std::fs::write(rig.path(), "neither a database nor empty ".repeat(90)).unwrap();
    assert_eq!(rig.judge(OWN, 0), Some(DamageKind::Database), "a file that is no database");
    std::fs::write(rig.path(), "").unwrap();
    assert_eq!(rig.judge(DURABLE, 12), Some(DamageKind::Transaction), "an empty file");
    std::fs::remove_file(rig.path()).unwrap();
    rig.make(OWN);
    std::fs::rename(rig.path(), rig.folder.path().join("other.db")).unwrap();
    assert_eq!(rig.judge(DURABLE, 12), Some(DamageKind::Transaction), "the right rows under another name");
    assert!(!Path::new(&rig.path()).exists(), "the check makes no database");
}
