//! What is done before the cut: each kind is prepared, done and judged by the agent in its own way.

use fsage_engine::crash::database_programs;
use fsage_model::crash::{
    Attempt, AttemptSpec, CrashLoad, CrashLoadSpec, CrashOperation, CrashScript, DatabaseModes, DatabaseSpec,
    LoadStep, ProgramReport, ProgramRun, ProgramSpec, Promises, StateCheck,
};
use fsage_model::protocol::call;

use super::{ACKNOWLEDGED, Bench, CrashError, Watch, program};

/// What is done before the cut.
#[derive(Debug, Clone)]
pub enum CrashWork {
    /// Operations of fsage, which knows what it was promised.
    Load(CrashLoadSpec),
    /// Operations that somebody wrote down.
    Script(Box<CrashScript>),
    /// A program of the user's, and one that judges what is left.
    Program(Box<ProgramSpec>),
    /// Transactions of SQLite.
    Database(DatabaseSpec),
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// What a load of fsage began with, as the operations that made it; nothing where it had several threads.
    pub base: Vec<CrashOperation>,
    /// By a load of fsage.
    pub steps: Vec<LoadStep>,
    /// By another program.
    pub program: Option<ProgramRun>,
}

impl CrashWork {
    /// A load by its name. `modes` are of `database`.
    #[must_use]
    pub const fn of(load: CrashLoadSpec, modes: DatabaseModes) -> Self {
        match load.load {
            CrashLoad::Database => {
                Self::Database(DatabaseSpec { modes, transactions: load.size, seed: load.seed })
            }
            _ => Self::Load(load),
        }
    }

    /// The load, where it has a name.
    pub(super) const fn named(&self) -> Option<CrashLoadSpec> {
        match self {
            Self::Load(load) => Some(*load),
            Self::Database(database) => Some(database.load()),
            Self::Script(_) | Self::Program(_) => None,
        }
    }

    /// The script, where it is one.
    pub(super) fn script(&self) -> Option<&CrashScript> {
        if let Self::Script(script) = self { Some(script) } else { None }
    }

    /// How SQLite is set, where it is the load.
    pub(super) const fn modes(&self) -> Option<DatabaseModes> {
        if let Self::Database(database) = self { Some(database.modes) } else { None }
    }

    /// Whether several threads do it.
    pub(super) const fn has_threads(&self) -> bool {
        matches!(self, Self::Load(load) if load.threads > 1)
    }

    /// The programs that it runs as, where it does.
    pub(super) fn programs(&self) -> Option<ProgramSpec> {
        match self {
            Self::Program(program) => Some((**program).clone()),
            Self::Database(_) => Some(database_programs()),
            Self::Load(_) | Self::Script(_) => None,
        }
    }

    /// What is promised on a file system that promises this.
    pub(super) fn promises(&self, file_system: Promises) -> Promises {
        self.modes().map_or(file_system, |modes| file_system.of_database(modes.promises()))
    }

    /// What a report says of its programs, before any state was tried.
    pub(super) fn report(&self, done: &Done) -> Option<ProgramReport> {
        Some(ProgramReport::new(self.programs()?, done.program.as_ref()?))
    }

    /// Makes what it begins with, durably, and says by which operations where they are fsage's. `seed` gives the files of a script their identities.
    pub(super) fn prepare(
        &self,
        place: &mut Bench<'_>,
        seed: u64,
    ) -> Result<Vec<CrashOperation>, CrashError> {
        let directory = place.folder();
        let used = match self {
            Self::Load(load) => {
                return Ok(place.session.call(call::CrashPrepare { load: *load, directory })?);
            }
            Self::Script(script) => {
                let script = (**script).clone();
                return Ok(place.session.call(call::CrashPrepareScript { script, seed, directory })?);
            }
            Self::Program(_) => false,
            Self::Database(_) => true,
        };
        place.session.call(call::CrashMake { directory, used })?;
        Ok(Vec::new())
    }

    /// Does it, while the disk keeps a log.
    pub(super) fn perform(&self, place: &mut Bench<'_>, watch: &mut dyn Watch) -> Result<Done, CrashError> {
        let directory = place.folder();
        let run = match self {
            Self::Load(_) | Self::Script(_) => {
                let steps = place.session.call(call::CrashLoad { directory })?;
                return Ok(Done { steps, ..Done::default() });
            }
            Self::Program(program) => {
                program::run(place, call::CrashProgram { program: (**program).clone(), directory }, watch)?
            }
            Self::Database(database) => {
                program::run(place, call::CrashDatabase { database: *database, directory }, watch)?
            }
        };
        Ok(Done { program: Some(run), ..Done::default() })
    }

    /// Tries a state of it.
    pub(super) fn judge(&self, place: &mut Bench<'_>, attempt: AttemptSpec) -> Result<Attempt, CrashError> {
        let attempt = Box::new(attempt);
        Ok(match self {
            Self::Load(_) | Self::Script(_) => place.session.call(call::CrashTry { attempt })?,
            Self::Program(program) => {
                let check =
                    StateCheck { program: (**program).clone(), acknowledged: place.scratch(ACKNOWLEDGED) };
                place.session.call(call::CrashCheck { attempt, check: Box::new(check) })?
            }
            Self::Database(database) => {
                place.session.call(call::CrashCheckDatabase { attempt, database: *database })?
            }
        })
    }
}
