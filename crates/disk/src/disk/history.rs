//! The log of a disk, and views of the states that it went through.

use std::cell::RefCell;
use std::io;

use rustix::time::{ClockId, clock_gettime};

use super::recorder::Recorder;
use super::{Disk, DiskError};
use crate::log::own::{self, OwnMark};
use crate::log::stream::{Contents, LogSource};
use crate::log::{Entry, Log};
use crate::store::{Store, ViewId};

/// The data of a log's writes, from the disk that keeps it.
pub struct LogContents<'a> {
    recorder: &'a Recorder,
    /// Reading what was spilled changes what is in memory.
    store: RefCell<&'a mut Store>,
}

impl Contents for LogContents<'_> {
    fn read(&self, entry: &Entry, data: &mut Vec<u8>) -> io::Result<()> {
        self.recorder.read(&mut self.store.borrow_mut(), entry, data).map_err(io::Error::other)
    }
}

impl Disk {
    /// Keeps a log of every request from now on, from which every state that the disk went through can be had
    /// again. A log that was kept before is dropped.
    pub fn start_log(&mut self) {
        self.end_log();
        let mut recorder = Recorder::new(&mut self.store, self.block_bytes, self.log_limit_bytes);
        if let Some(name) = &self.medium_name {
            recorder.log.mark(&OwnMark::Medium(name).to_string(), monotonic_ns());
        }
        if let Some(partitions) = &self.partitions {
            recorder.log.mark(&OwnMark::Partitions(partitions).to_string(), monotonic_ns());
        }
        self.recorder = Some(recorder);
    }

    /// Whether the last eighth of the memory is left, while the log is kept, for what will be written to crash states.
    pub const fn leave_room(&mut self, left: bool) {
        self.room_left = left;
        self.store.hold_back(left);
    }

    /// Drops the log and what only it held. Views stay where they are. False if none was kept.
    pub fn end_log(&mut self) -> bool {
        self.end_crash();
        self.leave_room(false);
        let recorder = self.recorder.take();
        let kept = recorder.is_some();
        if let Some(recorder) = recorder {
            recorder.release(&mut self.store);
        }
        kept
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> Option<&Log> {
        self.recorder.as_ref().map(|recorder| &recorder.log)
    }

    /// Names the present position in the log, and says which it is: the number of requests before it.
    ///
    /// # Errors
    /// No log is kept; the name is one of the disk's own marks.
    pub fn mark(&mut self, name: &str) -> Result<u64, DiskError> {
        if name.starts_with(own::OWN) {
            return Err(DiskError::OwnMark { name: name.to_owned() });
        }
        let recorder = self.recorder.as_mut().ok_or(DiskError::NoLog)?;
        recorder.log.mark(name, monotonic_ns());
        Ok(recorder.log.len())
    }

    /// Whether nothing more is logged, because the log or what it holds took the most memory that it may: changes fail
    /// since then.
    #[must_use]
    pub fn is_log_full(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::is_full)
    }

    /// The log with the data of its writes, from its beginning.
    ///
    /// # Errors
    /// No log is kept.
    pub fn log_source(&mut self) -> Result<LogSource<'_, LogContents<'_>>, DiskError> {
        let recorder = self.recorder.as_ref().ok_or(DiskError::NoLog)?;
        let contents = LogContents { recorder, store: RefCell::new(&mut self.store) };
        Ok(LogSource::new(&recorder.log, contents))
    }

    /// Appends the bytes that an entry of the log wrote.
    ///
    /// # Errors
    /// No log is kept; the spill file cannot be read.
    pub fn read_entry(&mut self, entry: &Entry, data: &mut Vec<u8>) -> Result<(), DiskError> {
        let recorder = self.recorder.as_ref().ok_or(DiskError::NoLog)?;
        Ok(recorder.read(&mut self.store, entry, data)?)
    }

    /// Makes a view that shows the disk as it was when the log began.
    ///
    /// # Errors
    /// No log is kept.
    pub fn view(&mut self) -> Result<ViewId, DiskError> {
        let base = self.recorder.as_ref().ok_or(DiskError::NoLog)?.base;
        Ok(self.store.view(base)?)
    }

    /// Moves a view to where it shows the first `position` entries of the log done, and drops what was
    /// written to it. Cost: that of the entries between.
    ///
    /// # Errors
    /// No log is kept, or it is shorter; no such view; no memory, and then the view is somewhere between.
    pub fn move_view(&mut self, id: ViewId, position: u64) -> Result<(), DiskError> {
        let recorder = self.recorder.as_ref().ok_or(DiskError::NoLog)?;
        let entries = recorder.log.len();
        if position > entries {
            return Err(DiskError::Position { position, entries });
        }
        self.store.reset(id)?;
        let mut at = self.store.position(id)?;
        while at > position {
            self.store.back(id)?;
            at -= 1;
        }
        for entry in recorder.log.entries(at).take(usize::try_from(position - at).unwrap_or(usize::MAX)) {
            self.store.step(id, recorder.pieces(&entry))?;
        }
        Ok(())
    }
}

/// The clock of the kernel's tracepoints.
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, rest) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + rest.unwrap_or(0)
}
