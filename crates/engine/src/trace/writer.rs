//! Writes a trace beside the load: threads hand over batches of records, one thread makes columns of them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use fsage_model::operation::OperationKind;
use parquet::basic::Type as PhysicalType;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::column::{COLUMNS, Column, Row, properties, schema};
use super::follow::Followed;
use super::{Checkpoint, FORMAT_VERSION, Origin, Preamble, Record};

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 16;

/// Records that a thread hands over at once.
const BATCH_ROWS: usize = 1024;

/// Batches of each thread that may be under way.
const BATCHES: usize = 16;

/// Nanoseconds of the load after which a batch is handed over though it is not full, so that the rows of
/// threads of unequal pace lie near each other in the file: a replay with the recorded times must not look
/// far ahead.
const BATCH_NS: u64 = 200_000_000;

/// A thread's end: the way of batches to the writer and of empty ones back.
#[derive(Debug)]
pub struct Feed {
    full: Sender<Vec<Record>>,
    empty: Receiver<Vec<Record>>,
    batch: Vec<Record>,
    checkpoints: Arc<Mutex<Vec<Checkpoint>>>,
}

impl Feed {
    /// Adds a record; waits for the writer once all batches are under way.
    #[inline]
    pub fn push(&mut self, record: Record) {
        let first_ns = self.batch.first().map_or(record.start_ns, |first| first.start_ns);
        self.batch.push(record);
        if self.batch.len() >= BATCH_ROWS || record.start_ns.saturating_sub(first_ns) > BATCH_NS {
            self.flush();
        }
    }

    /// Hands over what is there.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        // When the writer has failed it is gone; it has said so itself, and the batch is dropped.
        let empty = self.empty.recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, empty);
        let _ = self.full.send(batch);
    }

    /// Notes what the thread's tree comes to now.
    pub fn checkpoint(&self, checkpoint: Checkpoint) {
        lock(&self.checkpoints).push(checkpoint);
    }
}

/// A thread that panicked has pushed a whole one or none.
fn lock(checkpoints: &Mutex<Vec<Checkpoint>>) -> MutexGuard<'_, Vec<Checkpoint>> {
    checkpoints.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writer's end.
#[derive(Debug)]
pub struct Batches {
    full: Receiver<Vec<Record>>,
    recycle: Vec<Sender<Vec<Record>>>,
    checkpoints: Arc<Mutex<Vec<Checkpoint>>>,
}

impl Batches {
    /// Feeds of `threads` threads and the end where they come out.
    pub fn open(threads: usize) -> (Vec<Feed>, Self) {
        let (full, batches) = bounded(BATCHES * threads);
        let checkpoints = Arc::new(Mutex::new(Vec::new()));
        let mut recycle = Vec::new();
        let mut feeds = Vec::new();
        for _ in 0..threads {
            let (back, empty) = bounded(BATCHES);
            for _ in 1..BATCHES {
                // The channel has room for them.
                let _ = back.send(Vec::with_capacity(BATCH_ROWS));
            }
            recycle.push(back);
            let (full, checkpoints) = (full.clone(), Arc::clone(&checkpoints));
            feeds.push(Feed { full, empty, batch: Vec::with_capacity(BATCH_ROWS), checkpoints });
        }
        (feeds, Self { full: batches, recycle, checkpoints })
    }

    /// Writes until every feed is gone; `send` gets the bytes of the file in order and returns whether to
    /// continue.
    ///
    /// # Errors
    /// What the Parquet writer says.
    pub fn write(
        self,
        preamble: &Preamble,
        send: impl FnMut(Vec<u8>) -> bool + Send,
    ) -> Result<(), ParquetError> {
        let mut writer = TraceWriter::new(Chunks { send, pending: Vec::new() }, preamble)?;
        while let Ok(mut batch) = self.full.recv() {
            writer.extend(&batch)?;
            let thread = batch.first().and_then(|record| usize::try_from(record.thread).ok());
            batch.clear();
            if let Some(back) = thread.and_then(|thread| self.recycle.get(thread)) {
                let _ = back.try_send(batch);
            }
        }
        let checkpoints = std::mem::take(&mut *lock(&self.checkpoints));
        writer.finish(&checkpoints)
    }
}

/// Writes a trace to anything, row group after row group. Memory: one row group, and about 60 bytes a live
/// file.
pub struct TraceWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Vec<Row>,
    scratch: Scratch,
    followed: Followed,
    origin: Option<Origin>,
}

impl<W: Write + Send> std::fmt::Debug for TraceWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

impl<W: Write + Send> TraceWriter<W> {
    /// A trace that begins with `preamble`.
    ///
    /// # Errors
    /// What the Parquet writer says.
    pub fn new(out: W, preamble: &Preamble) -> Result<Self, ParquetError> {
        let schema = Arc::new(parse_message_type(&schema())?);
        let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties()))?;
        for (key, value) in metadata(preamble) {
            file.append_key_value_metadata(KeyValue::new(key, value));
        }
        let rows = Vec::with_capacity(GROUP_ROWS + BATCH_ROWS);
        let origin = preamble.origin.clone();
        Ok(Self { file, rows, scratch: Scratch::new(), followed: Followed::default(), origin })
    }

    /// Says where the rows come from, once that is known.
    pub fn set_origin(&mut self, origin: Origin) {
        self.origin = Some(origin);
    }

    /// Adds rows.
    ///
    /// # Errors
    /// What the Parquet writer says.
    pub fn extend(&mut self, rows: &[Record]) -> Result<(), ParquetError> {
        for record in rows {
            self.scratch.follow(record, &mut self.followed);
            self.rows.push(Row::of(record));
        }
        if self.rows.len() >= GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        write_group(&mut self.file, &self.rows, &mut self.scratch)?;
        self.rows.clear();
        self.scratch.left_out.clear();
        Ok(())
    }

    /// Writes what is left, and the footer.
    ///
    /// # Errors
    /// What the Parquet writer says.
    pub fn finish(mut self, checkpoints: &[Checkpoint]) -> Result<(), ParquetError> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        let mut sorted: Vec<&Checkpoint> = checkpoints.iter().collect();
        sorted.sort_by_key(|checkpoint| (checkpoint.thread, checkpoint.sequence));
        sorted.dedup_by_key(|checkpoint| (checkpoint.thread, checkpoint.sequence));
        let stored: Vec<(u32, u64, String)> = sorted
            .into_iter()
            .map(|Checkpoint { thread, sequence, digest }| (*thread, *sequence, digest.to_string()))
            .collect();
        self.file.append_key_value_metadata(KeyValue::new("fsage.checkpoints".to_owned(), json(&stored)));
        if let Some(origin) = &self.origin {
            self.file.append_key_value_metadata(KeyValue::new("fsage.origin".to_owned(), json(origin)));
        }
        self.file.finish()?;
        self.file.inner_mut().flush()?;
        Ok(())
    }
}

/// Plain data: making JSON of it does not fail.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn metadata(preamble: &Preamble) -> Vec<(String, String)> {
    let pairs: Vec<Vec<[u32; 2]>> = preamble
        .directories
        .iter()
        .map(|thread| thread.iter().map(|directory| [directory.number, directory.parent]).collect())
        .collect();
    vec![
        ("fsage.format".to_owned(), FORMAT_VERSION.to_string()),
        ("fsage.load".to_owned(), json(&preamble.load)),
        ("fsage.directories".to_owned(), json(&pairs)),
        ("fsage.prelude".to_owned(), preamble.prelude.to_string()),
    ]
}

/// Passes a file on in pieces of about a row group.
struct Chunks<F> {
    send: F,
    pending: Vec<u8>,
}

impl<F: FnMut(Vec<u8>) -> bool> Write for Chunks<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() && !(self.send)(std::mem::take(&mut self.pending)) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }
}

/// Columns under way.
struct Scratch {
    kinds: Vec<ByteArray>,
    names: Vec<ByteArray>,
    narrow: Vec<i32>,
    wide: Vec<i64>,
    /// For each row, what is left out of it.
    left_out: Vec<u8>,
    /// For each row, whether it has a value in the column under way (Parquet's definition level).
    present: Vec<i16>,
}

impl Scratch {
    fn new() -> Self {
        let kinds = OperationKind::ALL.iter().map(|kind| ByteArray::from(kind.name())).collect();
        let (narrow, wide, left_out, present) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { kinds, names: Vec::new(), narrow, wide, left_out, present }
    }

    /// Finds out what of the next row follows from earlier ones.
    fn follow(&mut self, record: &Record, followed: &mut Followed) {
        self.left_out.push(followed.left_out(&record.operation));
        followed.take(&record.operation, record.outcome.errno);
    }
}

fn write_group<W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    rows: &[Row],
    scratch: &mut Scratch,
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    if let Some(mut kind) = group.next_column()? {
        scratch.names.clear();
        scratch
            .names
            .extend(rows.iter().map(|row| scratch.kinds[row.record.operation.kind() as usize].clone()));
        if let ColumnWriter::ByteArrayColumnWriter(writer) = kind.untyped() {
            writer.write_batch(&scratch.names, None, None)?;
        }
        kind.close()?;
    }
    for column in &COLUMNS {
        let Some(mut writer) = group.next_column()? else { break };
        write_numbers(&mut writer, column, rows, scratch)?;
        writer.close()?;
    }
    group.close()?;
    file.inner_mut().flush()?;
    Ok(())
}

fn write_numbers(
    writer: &mut SerializedColumnWriter<'_>,
    column: &Column,
    rows: &[Row],
    scratch: &mut Scratch,
) -> Result<(), ParquetError> {
    let Scratch { narrow, wide, left_out, present, .. } = scratch;
    let levels = (column.part != 0).then(|| {
        present.clear();
        present.extend(left_out.iter().map(|parts| i16::from(parts & column.part == 0)));
        present.as_slice()
    });
    let there = rows.iter().zip(left_out.iter()).filter(|(_, parts)| *parts & column.part == 0);
    let values = there.map(|(row, _)| (column.get)(row));
    match writer.untyped() {
        ColumnWriter::Int32ColumnWriter(writer) => {
            narrow.clear();
            // Columns of 32 bits come from 32-bit numbers.
            narrow.extend(values.map(|value| u32::try_from(value).unwrap_or(u32::MAX).cast_signed()));
            writer.write_batch(narrow, levels, None)?;
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            wide.clear();
            wide.extend(values.map(u64::cast_signed));
            writer.write_batch(wide, levels, None)?;
        }
        _ => return Err(ParquetError::General(format!("trace has no column of {:?}", PhysicalType::INT96))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fsage_model::load::{LoadSpec, StopSpec, WriteMode};
    use fsage_model::workload::{DriftSpec, WorkloadSpec};

    use super::*;

    /// Kinds that are 10 MiB of one letter each: some kilobytes in the file.
    #[test]
    fn a_small_file_that_unpacks_to_much_is_refused() {
        let load = LoadSpec {
            workload: WorkloadSpec::Drift(DriftSpec::default()),
            directory: "/nowhere".into(),
            threads: 1,
            seed: 7,
            stop: StopSpec::default(),
            write_mode: WriteMode::Buffered,
            probe_every: 0,
            probe_share: None,
            probe_layout: false,
            trim: false,
            trace: true,
            deterministic: false,
            pace: None,
            continues: false,
        };
        let mut bytes = Vec::new();
        let mut writer = TraceWriter::new(&mut bytes, &Preamble::of_load(load, vec![Vec::new()])).unwrap();
        writer.scratch.kinds =
            (b'a'..).take(OperationKind::ALL.len()).map(|letter| vec![letter; 10 << 20].into()).collect();
        let rows = OperationKind::ALL.map(|kind| Row::blank(kind).into_record());
        writer.extend(&rows).unwrap();
        writer.finish(&[]).unwrap();
        assert!(bytes.len() < 1 << 20, "{}", bytes.len());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(&path, bytes).unwrap();
        let error = crate::trace::read(&path).unwrap().next().unwrap().unwrap_err();
        assert!(error.to_string().contains("unpack to more"), "{error}");
    }
}
