//! SQLite as the load: its options, and what is said of them.

use clap::ValueEnum;
use fsage_model::crash::{CrashLoad, DatabaseModes, JournalMode, Synchronous};
use fsage_model::problem::{EXIT_USAGE, Problem};

use super::CrashArgs;

/// How SQLite keeps what it needs to undo a transaction.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum JournalChoice {
    /// A rollback journal that is removed
    Delete,
    /// A rollback journal that is truncated
    Truncate,
    /// A rollback journal whose header is zeroed
    Persist,
    /// A write-ahead log
    Wal,
}

/// When SQLite syncs.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SynchronousChoice {
    /// Never
    Off,
    /// At the most critical moments
    Normal,
    /// Before everything that relies on what was written
    Full,
    /// As full, and the directory after a journal was removed
    Extra,
}

impl From<JournalChoice> for JournalMode {
    fn from(choice: JournalChoice) -> Self {
        match choice {
            JournalChoice::Delete => Self::Delete,
            JournalChoice::Truncate => Self::Truncate,
            JournalChoice::Persist => Self::Persist,
            JournalChoice::Wal => Self::Wal,
        }
    }
}

impl From<SynchronousChoice> for Synchronous {
    fn from(choice: SynchronousChoice) -> Self {
        match choice {
            SynchronousChoice::Off => Self::Off,
            SynchronousChoice::Normal => Self::Normal,
            SynchronousChoice::Full => Self::Full,
            SynchronousChoice::Extra => Self::Extra,
        }
    }
}

/// How SQLite is to be set; only the load `database` has it.
pub(super) fn modes(args: &CrashArgs, load: CrashLoad) -> Result<DatabaseModes, Problem> {
    let is_given =
        [("--journal-mode", args.journal_mode.is_some()), ("--synchronous", args.synchronous.is_some())];
    let given = is_given.into_iter().find(|(_, is_given)| *is_given && load != CrashLoad::Database);
    if let Some((option, _)) = given {
        let problem = Problem::new(
            EXIT_USAGE,
            format!("the load `{}` has no database: `{option}` does not apply", load.name()),
        );
        return Err(problem.hint("give it with `--load database`"));
    }
    Ok(DatabaseModes {
        journal_mode: args.journal_mode.map(Into::into).unwrap_or_default(),
        synchronous: args.synchronous.map(Into::into).unwrap_or_default(),
    })
}

/// What SQLite promises with these settings, and where it says so.
pub(super) fn promised(modes: DatabaseModes) -> String {
    let promises = modes.promises();
    format!("  SQLite promises ({modes}): {}\n    {}\n", promises.words(), promises.source)
}
