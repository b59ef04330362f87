//! Trials of guests that share a disk of this host: the disk is leased here, and the guests are made for the trial and end with it.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use fsage_model::study::{GuestSpec, TargetSpec};

use super::guest::{HostError, needs_of, with_console};
use super::{Asked, Done, Host, Introduction, Others};
use crate::guest::sharing::{self, Member, Relay};
use crate::guest::{self, Guest, GuestError, Part, Processor, Sharing};
use crate::plan::PlannedTrial;
use crate::run::RunEvent;
use crate::run::interrupt::Interrupt;
use crate::run::observer::RunObserver;
use crate::run::trial::Lab;
use crate::store::TrialFolder;
use crate::study::Cell;
use crate::target::{Companion, Connection, Patience, Session, TargetError};
use crate::volume::{self, Served};

/// How long QEMU may take until it listens where the first guest connects.
const LISTENS: Duration = Duration::from_secs(30);

/// What works beside the guest that does a trial.
#[derive(Debug)]
pub(super) struct Beside {
    /// Fields are dropped in this order: machines before the sockets that they use.
    machines: Vec<Companion>,
    guests: Vec<Guest>,
    _relays: Vec<Relay>,
}

impl Beside {
    /// Number of a guest that has ended by itself.
    fn ended(&self) -> Option<usize> {
        self.machines.iter().position(Companion::has_ended).map(|index| index + 2)
    }

    /// The error of a trial whose other guest has ended.
    pub(super) fn lost(&self) -> Option<TargetError> {
        let status = format!("guest {} ended", self.ended()?);
        let (request, last) = ("trial".to_owned(), "nothing".to_owned());
        Some(TargetError::Lost { request, status, last, stderr: self.said().trim().to_owned() })
    }

    /// What is known of why a guest does not answer that boots beside others.
    fn why(&self) -> String {
        let ended = self.ended().map(|number| format!("guest {number} ended\n")).unwrap_or_default();
        format!("{ended}{}", self.said().trim())
    }

    /// What is known of why the other guests ended, should they have.
    pub(super) fn said(&self) -> String {
        let consoles = self.guests.iter().map(Guest::console);
        let errors = self.machines.iter().map(Companion::said);
        let all = (2..).zip(consoles.zip(errors));
        all.map(|(number, (console, error))| format!("\nguest {number}: {error}\n{console}")).collect()
    }
}

impl Lab<'_> {
    /// Does a trial whose volume this host serves to guests, and releases it in every case.
    pub(in crate::run) fn on_served_disk(
        &mut self,
        others: &Others,
        (study, planned, cell): (&str, &PlannedTrial, &Cell),
        folder: &mut TrialFolder,
        observer: &mut dyn RunObserver,
    ) -> Done {
        let mut session = (self.start)()?;
        let own = self.journal.attach(&session)?;
        let asked = Asked { study, planned, cell, served: None };
        let outcome = self.with_served_disk(&mut session, others, asked, folder, observer);
        let released = if session.is_lost() { Ok(false) } else { self.clean(&mut session, folder) };
        drop(session);
        self.journal.release(own)?;
        let through_another = !released? && !self.release_all(folder)?;
        if through_another || !self.journal.outstanding().is_empty() {
            let text = "not everything was released: `fsage clean` or the next run tries again".to_owned();
            folder.log(&text);
            observer.event(RunEvent::Note { text });
        }
        outcome.map_err(|error| self.or_interrupted(error))
    }

    fn with_served_disk(
        &mut self,
        session: &mut Session,
        others: &Others,
        asked: Asked<'_>,
        folder: &mut TrialFolder,
        observer: &mut dyn RunObserver,
    ) -> Done {
        let mut volume = volume::resolve(&asked.cell.spec.volume, &self.consent, &self.root)?;
        volume.of_host();
        let served = volume.serve_to_guests(session, &mut self.journal, &asked.planned.id)?;
        let asked = Asked { served: Some(&served), ..asked };
        let done = others.trial(asked, folder, &self.interrupt, observer);
        let (mut record, error) =
            done.unwrap_or_else(|| unreachable!("only guests share a disk of this host"))?;
        record.commands.splice(0..0, served.commands);
        Ok((record, error))
    }
}

impl Others {
    /// The guests of a trial, which share the disk that is served: the first one, with the others beside it.
    pub(super) fn sharing(
        &self,
        name: &str,
        cell: &Cell,
        served: &Served,
        interrupt: &Interrupt,
    ) -> Result<Host, HostError> {
        let TargetSpec::Guest(spec) = &cell.spec.target else {
            unreachable!("only guests share a disk of this host")
        };
        // Guests of a study are run by the kind of processor that the first ones had.
        let mut known = self.processors.lock().unwrap_or_else(PoisonError::into_inner);
        let choices = known.get(name).map_or_else(|| Processor::choices(spec), |found| vec![*found]);
        let (mut choices, mut failed) = (choices.into_iter().peekable(), Vec::new());
        loop {
            let processor = choices.next().unwrap_or(Processor::Emulated);
            let may_go_on = choices.peek().is_some() && interrupt.by().is_none();
            match self.started(spec, cell, served, processor, interrupt) {
                Err(HostError::Target(TargetError::Unreachable { .. })) if may_go_on => {
                    failed.push(processor)
                }
                Ok(host) => {
                    failed.into_iter().for_each(Processor::failed);
                    known.insert(name.to_owned(), processor);
                    return Ok(host);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn started(
        &self,
        spec: &GuestSpec,
        cell: &Cell,
        served: &Served,
        processor: Processor,
        interrupt: &Interrupt,
    ) -> Result<Host, HostError> {
        let (needs, hosts) = (needs_of(cell), spec.hosts.unwrap_or(1));
        let cluster = cell.file_system.cluster();
        let member = |number| Member { number, hosts, cluster };
        let prepared = |number, meeting| -> Result<(Guest, Relay), HostError> {
            let sharing = Some(Sharing { member: member(number), served, meeting });
            let guest = guest::prepare(spec, &needs, processor, Part { batch: None, sharing })?;
            let relay = Relay::start(guest.folder(), &served.control)
                .map_err(|source| GuestError::Write { path: guest.folder().to_owned(), source })?;
            Ok((guest, relay))
        };
        let (first, relay) = prepared(0, None)?;
        let mut beside = Beside { machines: Vec::new(), guests: Vec::new(), _relays: vec![relay] };
        for number in 1..hosts {
            let (guest, relay) = prepared(number, Some(first.folder()))?;
            // They boot at the same time.
            let machine = Companion::start(guest.program.clone(), guest.arguments.clone())?;
            beside.machines.push(machine);
            beside.guests.push(guest);
            beside._relays.push(relay);
            let listens = sharing::agent_socket(first.folder(), number);
            let deadline = Instant::now() + LISTENS;
            while !listens.exists() {
                if beside.ended().is_some() || Instant::now() > deadline || interrupt.by().is_some() {
                    let (host, said) = (first.name.clone(), beside.why());
                    return Err(TargetError::Unreachable { host, said }.into());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let patience = Patience {
            longest: processor.boots_within().saturating_mul(hosts).max(Duration::from_secs(1)),
            is_given_up: &|| interrupt.by().is_some() || beside.ended().is_some(),
        };
        let (program, arguments) = (first.program.clone(), first.arguments.clone());
        let connection =
            Connection::guest(program, arguments, (first.name.clone(), first.machine), patience, None)
                .map_err(|error| match with_console(error, &first) {
                    TargetError::Unreachable { host, said } => {
                        TargetError::Unreachable { host, said: format!("{said}\n{}", beside.why()) }
                    }
                    other => other,
                })?;
        let guest = Some((first, processor));
        let (how, notes) = (String::new(), Vec::new());
        let mut host = Host { connection, guest, how, notes, beside: Some(beside) };
        match Host::introduce(&host.connection, &self.begin) {
            Ok(notes) => {
                host.notes = notes;
                Ok(host)
            }
            Err(Introduction::Wire(error)) => Err(host.lost("hello", &error).into()),
            Err(Introduction::Target(error)) => Err(error.into()),
        }
    }
}
