//! Doing what a client asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fsage_model::disk::call::{self, Call, Handle, Kept, MOST_LEAD_NS, Marked, Refusal};
use fsage_model::disk::{DiskCpu, DiskTime, ProcessRecord, ServerStat};

use super::exported::{BUSY, Exported};
use super::{ServerDirectory, log_save};
use crate::disk::{Disk, DiskError};
use crate::export::{Gate, nbd};
use crate::fault::Faults;
use crate::store::StoreError;

/// Longest wait for the last user of the file to be gone: a loop device lets go of it a moment after it was
/// detached.
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// What commands are about.
pub(super) struct Shared {
    pub medium: String,
    pub cpu: DiskCpu,
    pub place: ServerDirectory,
    pub process: ProcessRecord,
    pub gate: Arc<Gate<Disk>>,
    pub exported: Exported,
    /// Taken away when the server ends.
    pub nbd: Mutex<Option<nbd::Server>>,
}

impl Shared {
    /// The network block device, where it is one.
    pub fn nbd(&self) -> MutexGuard<'_, Option<nbd::Server>> {
        self.nbd.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has each call done as `|shared| its reply` says, where `?` ends it with a refusal.
macro_rules! handlers {
    ($shared:ident: $($call:ident $({ $($field:ident),* })? => $reply:expr;)*) => {$(
        impl Handle<call::$call> for Shared {
            fn handle(&self, asked: call::$call) -> Result<<call::$call as Call>::Reply, Refusal> {
                let $shared = self;
                let call::$call $({ $($field),* })? = asked;
                Ok($reply)
            }
        }
    )*};
}

handlers! { shared:
    Stat => ServerStat {
        process: shared.process,
        medium: shared.medium.clone(),
        time: shared.gate.time(),
        cpu: shared.cpu,
        transport: shared.exported.transport(),
        nbd_clients: shared.nbd().as_ref().map(nbd::Server::clients),
        disk: shared.gate.with(|disk| {
            disk.take_think_time();
            disk.stat()
        }),
        gate: shared.gate.counts(),
        delay_error: shared.gate.delay_error(),
    };
    Rest => shared.gate.rest(|disk| {
        disk.rest();
        disk.clock_ns()
    });
    Snapshot => Kept { snapshot: shared.gate.with(Disk::snapshot) };
    Revert { snapshot } => shared.gate.with(|disk| disk.revert(snapshot)).map_err(store_refusal)?;
    DeleteSnapshot { snapshot } =>
        shared.gate.with(|disk| disk.store_mut().delete_snapshot(snapshot)).map_err(store_refusal)?;
    StartLog { for_states } => shared.gate.with(|disk| {
        disk.start_log();
        disk.leave_room(for_states);
    });
    EndLog => shared.gate.with(Disk::end_log).then_some(()).ok_or_else(|| refusal(&DiskError::NoLog))?;
    Mark { name } => {
        let mark = |disk: &mut Disk| Ok(Marked { position: disk.mark(&name)?, full: disk.is_log_full() });
        shared.gate.with(mark).map_err(|error| refusal(&error))?
    };
    Blocks => shared.gate.with(Disk::block_log).map_err(|error| refusal(&error))?;
    BeginCrash { spec } => shared.gate.with(|disk| disk.begin_crash(&spec)).map_err(|error| refusal(&error))?;
    NextCrash => shared.gate.with(Disk::next_crash).map_err(|error| refusal(&error))?;
    ShowCrash { state } => shared.gate.with(|disk| disk.show_crash(&state)).map_err(|error| refusal(&error))?;
    StateRanOut => shared.gate.with(|disk| disk.state_ran_out());
    EndCrash => shared.gate.with(Disk::end_crash);
    SaveLog { file, without_data } => log_save::save(&shared.gate, &file, !without_data)
        .map_err(|error| Refusal::because(&error, error.hint()))?;
    SetFaults { faults } => {
        let faults = Faults::new(&faults, shared.gate.size_bytes())
            .map_err(|error| Refusal::because(&error, Some(error.hint())))?;
        shared.gate.with(|disk| disk.set_faults(faults));
    };
    ClearFaults => shared.gate.with(|disk| disk.set_faults(Faults::default()));
    SetLead { lead_ns } => {
        check_lead(shared.gate.time(), lead_ns)?;
        shared.gate.set_lead(lead_ns);
    };
    Down => shared.down()?;
}

impl Shared {
    fn down(&self) -> Result<(), Refusal> {
        let in_use = |hint| Refusal { error: "the disk is in use".to_owned(), hint: Some(hint) };
        if let Some(nbd) = self.nbd().as_ref().filter(|nbd| nbd.clients() > 0) {
            return Err(in_use(format!("end its NBD clients: ss -x src {}", nbd.path().display())));
        }
        self.exported.release(BUSY_WAIT).map_err(|error| {
            if error.errno() == BUSY {
                in_use(self.exported.in_use_hint())
            } else {
                Refusal::because(&error, error.hint())
            }
        })
    }
}

fn check_lead(time: DiskTime, lead_ns: u64) -> Result<(), Refusal> {
    let refuse = |error: String, hint: &str| Err(Refusal { error, hint: Some(hint.to_owned()) });
    match time {
        DiskTime::Model => {
            refuse("replies are not delayed in model time".to_owned(), "start the disk with `--time real`")
        }
        DiskTime::Real if lead_ns > MOST_LEAD_NS => refuse(
            format!("a lead of {lead_ns} ns is longer than {MOST_LEAD_NS} ns"),
            "give a shorter one: beyond, the host is too busy to stand in for a drive",
        ),
        DiskTime::Real => Ok(()),
    }
}

fn store_refusal(error: StoreError) -> Refusal {
    refusal(&DiskError::from(error))
}

fn refusal(error: &DiskError) -> Refusal {
    Refusal::because(error, error.hint())
}
