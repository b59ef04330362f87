//! Doing what a client asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::control::{Answer, Command, Stat, chain};
use super::exported::Exported;
use super::log_save;
use super::{ProcessRecord, ServerDirectory};
use crate::disk::{Disk, DiskError};
use crate::export::{Gate, nbd};
use crate::fault::Faults;
use fsage_model::fault::FaultSpec;

/// Longest wait for the last user of the file to be gone: a loop device lets go of it a moment after it was detached.
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// `EBUSY`.
pub(super) const BUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();

/// What commands are about.
pub(super) struct Shared {
    pub medium: String,
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

    /// Does it.
    pub fn obey(&self, command: Command) -> Answer {
        let gate = &self.gate;
        match command {
            Command::Stat => self.stat(),
            Command::Rest => {
                gate.rest(|disk| {
                    disk.rest();
                    disk.clock_ns()
                });
                Answer::done(Value::Null)
            }
            Command::Snapshot => Answer::done(json!({ "snapshot": gate.with(Disk::snapshot) })),
            Command::Revert { snapshot } => {
                nothing(gate.with(|disk| disk.revert(snapshot)).map_err(DiskError::from))
            }
            Command::DeleteSnapshot { snapshot } => {
                nothing(gate.with(|disk| disk.store_mut().delete_snapshot(snapshot)).map_err(DiskError::from))
            }
            Command::StartLog => {
                gate.with(Disk::start_log);
                Answer::done(Value::Null)
            }
            Command::EndLog => {
                let kept = gate.with(Disk::end_log);
                nothing(if kept { Ok(()) } else { Err(DiskError::NoLog) })
            }
            Command::Mark { name } => nothing(gate.with(|disk| disk.mark(&name))),
            Command::SaveLog { file, without_data } => match log_save::save(gate, &file, !without_data) {
                Ok(converted) => done(&converted),
                Err(error) => Answer::failed(&error, error.hint()),
            },
            Command::SetFaults { faults } => set_faults(gate, &faults),
            Command::ClearFaults => {
                gate.with(|disk| disk.set_faults(Faults::default()));
                Answer::done(Value::Null)
            }
            Command::Down => self.down(),
        }
    }

    fn stat(&self) -> Answer {
        done(&Stat {
            process: self.process,
            medium: self.medium.clone(),
            time: self.gate.time(),
            transport: self.exported.transport(),
            nbd_clients: self.nbd().as_ref().map(nbd::Server::clients),
            disk: self.gate.with(|disk| disk.stat()),
            gate: self.gate.counts(),
            delay_error: self.gate.delay_error(),
        })
    }

    fn down(&self) -> Answer {
        if let Some(nbd) = self.nbd().as_ref().filter(|nbd| nbd.clients() > 0) {
            return Answer {
                error: Some("the disk is in use".to_owned()),
                hint: Some(format!("end its NBD clients: ss -x src {}", nbd.path().display())),
                ..Answer::default()
            };
        }
        match self.exported.release(BUSY_WAIT) {
            Ok(()) => Answer::done(Value::Null),
            Err(error) if error.errno() == BUSY => Answer {
                error: Some("the disk is in use".to_owned()),
                hint: Some(self.exported.in_use_hint()),
                ..Answer::default()
            },
            Err(error) => Answer { error: Some(chain(&error)), hint: error.hint(), ..Answer::default() },
        }
    }
}

fn set_faults(gate: &Gate<Disk>, spec: &FaultSpec) -> Answer {
    match Faults::new(spec, gate.size_bytes()) {
        Ok(faults) => {
            gate.with(|disk| disk.set_faults(faults));
            Answer::done(Value::Null)
        }
        Err(error) => Answer::failed(&error, Some(error.hint())),
    }
}

fn nothing(result: Result<(), DiskError>) -> Answer {
    match result {
        Ok(()) => Answer::done(Value::Null),
        Err(error) => Answer::failed(&error, error.hint()),
    }
}

fn done<T: Serialize>(value: &T) -> Answer {
    match serde_json::to_value(value) {
        Ok(value) => Answer::done(value),
        Err(error) => Answer::failed(&error, None),
    }
}
