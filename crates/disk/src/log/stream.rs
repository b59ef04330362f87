//! Logs as streams: every format is read by a [`Source`] and written by a [`Sink`], so that each converts
//! into each, and a log larger than memory passes through.

use std::io;

use fsage_model::disk::call::Converted;

use super::{Entry, Geometry, Log, LogError, Mark};

/// Most bytes of one write that a stream carries. The exports take no larger one.
pub const DATA_LIMIT_BYTES: usize = 32 << 20;

/// What a stream consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A request.
    Entry(Entry),
    /// A name for the position between the entries before and behind it.
    Mark(Mark),
}

/// Gives a log from its beginning.
pub trait Source {
    /// The disk it is of. Where the format does not say it: the least size that all requests fit.
    fn geometry(&self) -> Geometry;

    /// The next item; `None` at the end. `data` is cleared, and filled with the bytes of a write if they were
    /// kept.
    ///
    /// # Errors
    /// What comes next is damaged, cut off, or cannot be read.
    fn next_item(&mut self, data: &mut Vec<u8>) -> Result<Option<Item>, LogError>;
}

/// Takes a log from its beginning.
pub trait Sink {
    /// Adds an item. `data` holds the bytes of a write, and nothing where they were not kept.
    ///
    /// # Errors
    /// The format cannot say it, or the file cannot be written.
    fn put(&mut self, item: &Item, data: &[u8]) -> Result<(), LogError>;

    /// Ends the log: without this it is incomplete.
    ///
    /// # Errors
    /// The file cannot be written.
    fn finish(self) -> Result<Converted, LogError>
    where
        Self: Sized;
}

/// Finds the data of a log's writes.
pub trait Contents {
    /// Appends the bytes of `entry`, which is a write, to `data`, or nothing where they were not kept.
    ///
    /// # Errors
    /// They cannot be read.
    fn read(&self, entry: &Entry, data: &mut Vec<u8>) -> io::Result<()>;
}

/// No data: only what was asked.
#[derive(Debug, Clone, Copy)]
pub struct NoContents;

impl Contents for NoContents {
    fn read(&self, _entry: &Entry, _data: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
}

/// A log in memory, from its beginning.
#[derive(Debug)]
pub struct LogSource<'a, C> {
    log: &'a Log,
    contents: C,
    position: Position,
}

/// How far a log was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    entry: u64,
    mark: usize,
}

impl<'a, C: Contents> LogSource<'a, C> {
    /// A stream of `log`, with the data that `contents` finds.
    pub const fn new(log: &'a Log, contents: C) -> Self {
        Self::at(log, contents, Position { entry: 0, mark: 0 })
    }

    /// The same from a position on.
    pub const fn at(log: &'a Log, contents: C, position: Position) -> Self {
        Self { log, contents, position }
    }

    /// How far it was read.
    pub const fn position(&self) -> Position {
        self.position
    }
}

impl<C: Contents> Source for LogSource<'_, C> {
    fn geometry(&self) -> Geometry {
        self.log.geometry()
    }

    fn next_item(&mut self, data: &mut Vec<u8>) -> Result<Option<Item>, LogError> {
        data.clear();
        if let Some(mark) = self.log.marks().get(self.position.mark)
            && mark.position <= self.position.entry
        {
            self.position.mark += 1;
            return Ok(Some(Item::Mark(mark.clone())));
        }
        let number = self.position.entry;
        let Some(entry) = self.log.get(number) else { return Ok(None) };
        if entry.request.operation == crate::request::Operation::Write {
            self.contents.read(&entry, data).map_err(|source| LogError::Data { number, source })?;
        }
        self.position.entry += 1;
        Ok(Some(Item::Entry(entry)))
    }
}

/// Copies a stream to its end.
///
/// # Errors
/// Those of either side.
pub fn copy<S: Sink>(source: &mut dyn Source, mut sink: S) -> Result<Converted, LogError> {
    let mut data = Vec::new();
    while let Some(item) = source.next_item(&mut data)? {
        sink.put(&item, &data)?;
    }
    sink.finish()
}

/// Takes a stream into memory, without its data.
///
/// # Errors
/// Those of the source.
pub fn collect(source: &mut dyn Source) -> Result<Log, LogError> {
    let mut log = Log::new(source.geometry());
    let mut data = Vec::new();
    while let Some(item) = source.next_item(&mut data)? {
        match item {
            Item::Entry(entry) => {
                log.push(&entry);
            }
            Item::Mark(mark) => log.mark(&mark.name, mark.set_ns),
        }
    }
    Ok(log)
}
