//! A program of the user's as the load, and the one that judges what is left of its work.
//!
//! Both run in the load's directory, which they also find in the environment, and are ended with everything
//! that they started ([`supervise`](crate::host::supervise)).

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use fsage_model::crash::{
    ACKNOWLEDGED_VARIABLE, ACKNOWLEDGES, Acknowledgement, Attempt, AttemptSpec, DIRECTORY_VARIABLE, Damage,
    DamageKind, LONGEST_ACKNOWLEDGEMENT, MOST_ACKNOWLEDGED_BYTES, ProgramRun, ProgramSpec, StateCheck,
};
use fsage_model::disk::call;
use rustix::fs::{Mode, OFlags};

use super::attempt::{Judge, open_load, whole};
use super::{CrashError, duration_ns, wide};
use crate::disk::VirtualDisk;
use crate::host::HostError;
use crate::host::supervise::{Ended, Supervised, Watch, run};
use crate::host::tool::Children;
use crate::location::Anchor;

/// Longest name of a mark.
const LONGEST_MARK: usize = 200;

/// What is asked of the run while a program works: with the number of acknowledgements so far, whether it is
/// to end.
pub type IsOver<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Runs the load on a virtual disk that keeps a log, and says what it acknowledged where in the log.
///
/// # Errors
/// There is no virtual disk below, or it keeps no log; the program cannot be started, or fails; it acknowledges more
/// than is kept. When the log is full the program is ended, and that it fails is no error.
pub fn run_load(
    program: &ProgramSpec,
    directory: &Anchor,
    children: &Children,
    is_over: IsOver<'_>,
) -> Result<ProgramRun, CrashError> {
    let held = directory.held();
    let what = Supervised {
        argv: &program.load,
        directory: &held,
        environment: &[(DIRECTORY_VARIABLE, directory.path())],
        input: None,
        limit: Duration::from_millis(program.load_timeout_ms),
    };
    run_noting(what, directory, children, is_over, &mut |_| Ok(()))
}

/// What is done with each line of a load after an acknowledgement in it was noted.
pub(super) type Answer<'a> = &'a mut dyn FnMut(&str) -> Result<(), CrashError>;

/// Runs a load, and notes what it acknowledges.
///
/// # Errors
/// As [`run_load`]; what `answer` says.
pub(super) fn run_noting(
    what: Supervised<'_>,
    directory: &Anchor,
    children: &Children,
    is_over: IsOver<'_>,
    answer: Answer<'_>,
) -> Result<ProgramRun, CrashError> {
    let disk = VirtualDisk::under(directory.path());
    let disk = disk.ok_or_else(|| CrashError::NoDisk { path: directory.path().display().to_string() })?;
    disk.ask(call::Mark { name: "load".to_owned() })?;
    let before = counts(&disk)?;
    let mut reader = Reader {
        disk: &disk,
        acknowledged: Vec::new(),
        bytes: 0,
        error: None,
        over: false,
        full: false,
        is_over,
        answer,
    };
    let argv = what.argv.join(" ");
    let ended = run(children, what, &mut reader);
    let Reader { acknowledged, error, over, .. } = reader;
    let full = disk.ask(call::Mark { name: "load ended".to_owned() })?.full;
    let ended = match (error, ended) {
        // What is written to a program that the full disk has ended meets nobody.
        (Some(CrashError::Host(HostError::File { .. })), _) if full => Ended::default(),
        (Some(error), _) => return Err(error),
        (None, ended) => ended?,
    };
    let after = counts(&disk)?;
    if let Some(status) = ended.status.filter(|status| *status != 0 && !full) {
        return Err(CrashError::Load { argv, status, said: said(&ended) });
    }
    Ok(ProgramRun {
        acknowledged,
        left: ended.left,
        timed_out: ended.status.is_none() && !over && !full,
        stopped: over,
        flushes: after.0.saturating_sub(before.0),
        changes: after.1.saturating_sub(before.1),
        elapsed_ns: duration_ns(ended.elapsed),
    })
}

/// Flushes and changes that the disk counted.
fn counts(disk: &VirtualDisk) -> Result<(u64, u64), CrashError> {
    let counted = disk.ask(call::Stat)?.disk.requests;
    let changes = [counted.write, counted.discard, counted.zero];
    Ok((counted.flush.requests, changes.iter().map(|count| count.requests).sum()))
}

/// Takes note of acknowledgements.
struct Reader<'a> {
    disk: &'a VirtualDisk,
    acknowledged: Vec<Acknowledgement>,
    bytes: usize,
    error: Option<CrashError>,
    over: bool,
    /// The log is: what the program says from now on may not be in it.
    full: bool,
    is_over: IsOver<'a>,
    answer: Answer<'a>,
}

impl Reader<'_> {
    fn note(&mut self, text: &str) -> Result<(), CrashError> {
        self.bytes += text.len();
        if text.len() > LONGEST_ACKNOWLEDGEMENT || self.bytes > MOST_ACKNOWLEDGED_BYTES {
            return Err(CrashError::TooMuch { lines: wide(self.acknowledged.len()) });
        }
        let mut name = format!("{ACKNOWLEDGES}{text}").replace(char::is_control, " ");
        name.truncate(name.floor_char_boundary(LONGEST_MARK));
        let marked = self.disk.ask(call::Mark { name })?;
        self.full = marked.full;
        if !self.full {
            self.acknowledged.push(Acknowledgement { text: text.to_owned(), position: marked.position });
        }
        Ok(())
    }
}

impl Watch for Reader<'_> {
    fn line(&mut self, line: &[u8]) -> Result<(), HostError> {
        let line = String::from_utf8_lossy(line);
        let noted = match line.strip_prefix(ACKNOWLEDGES) {
            Some(text) => self.note(text.trim_end_matches('\r')),
            None => Ok(()),
        };
        noted.and_then(|()| (self.answer)(&line)).map_err(|error| {
            let what = error.to_string();
            self.error = Some(error);
            HostError::Senseless { what }
        })
    }

    fn is_over(&mut self) -> bool {
        self.over = (self.is_over)(wide(self.acknowledged.len()));
        // A program that acknowledges nothing would go on against a disk that refuses everything.
        let stat = self.disk.ask(call::Stat).ok();
        self.full |= stat.and_then(|stat| stat.disk.log).is_some_and(|log| log.full);
        self.over || self.full
    }
}

/// What a program said last: the reason that it gives.
pub(super) fn said(ended: &Ended) -> String {
    let error = ended.error.lines().next_back().unwrap_or_default();
    if ended.last_line.is_empty() { error.to_owned() } else { ended.last_line.clone() }
}

/// Asked nothing.
struct Unwatched;

impl Watch for Unwatched {
    fn line(&mut self, _: &[u8]) -> Result<(), HostError> {
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        false
    }
}

/// What was acknowledged before a cut.
pub(super) fn precede(acknowledged: &[Acknowledgement], cut: u64) -> &[Acknowledgement] {
    let count = acknowledged.partition_point(|one| one.position <= cut);
    acknowledged.get(..count).unwrap_or_default()
}

/// Judges states by the user's check.
pub struct ProgramJudge<'a> {
    /// The programs, and where the check finds what was acknowledged.
    pub check: &'a StateCheck,
    /// What the load acknowledged, in the order of positions.
    pub acknowledged: &'a [Acknowledgement],
    /// Where programs are listed.
    pub children: &'a Children,
}

impl ProgramJudge<'_> {
    fn run(&self, spec: &AttemptSpec, directory: &Anchor) -> Result<Ended, HostError> {
        let path = self.check.acknowledged.as_path();
        write(path, precede(self.acknowledged, spec.cut)).map_err(HostError::file("write", path))?;
        let held = directory.held();
        let what = Supervised {
            argv: &self.check.program.check,
            directory: &held,
            environment: &[(DIRECTORY_VARIABLE, directory.path()), (ACKNOWLEDGED_VARIABLE, path)],
            input: Some(File::open(path).map_err(HostError::file("open", path))?),
            limit: Duration::from_millis(self.check.program.check_timeout_ms),
        };
        run(self.children, what, &mut Unwatched)
    }
}

impl Judge for ProgramJudge<'_> {
    fn returned(&self, spec: &AttemptSpec) -> u64 {
        wide(precede(self.acknowledged, spec.cut).len())
    }

    fn judge(&self, spec: &AttemptSpec, attempt: &mut Attempt) -> Result<Vec<Damage>, HostError> {
        let directory = match open_load(spec, DamageKind::Program) {
            Ok(directory) => directory,
            Err(damage) => return Ok(vec![damage]),
        };
        let ended = self.run(spec, &directory)?;
        attempt.compared = 1;
        attempt.left = ended.left;
        attempt.undecided = ended.status.is_none();
        let Some(status) = ended.status.filter(|status| *status != 0) else { return Ok(Vec::new()) };
        let reason = said(&ended);
        let what = if reason.is_empty() { format!("exit status {status}") } else { reason };
        Ok(vec![whole(DamageKind::Program, what)])
    }

    /// A program may leave what nobody can remove: immutable files, snapshots for reading only.
    fn is_removable(&self) -> bool {
        false
    }
}

/// Writes acknowledgements to a file in a folder that only this user may enter.
fn write(path: &Path, acknowledged: &[Acknowledgement]) -> std::io::Result<()> {
    let mut lines = String::new();
    for one in acknowledged {
        lines.push_str(&one.text);
        lines.push('\n');
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(lines.as_bytes())
}
