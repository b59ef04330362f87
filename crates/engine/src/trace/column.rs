//! The columns of a trace: names, types, encodings, and how they come from a record and go back.
//!
//! Columns of which earlier rows of a file say most are null there ([`super::follow`]). Numbers that rise
//! (sequence, start) are delta-encoded; the others are bit-packed by the same encoding with a delta of about
//! their spread, which beats plain numbers under zstd. Columns of few values (thread, kind, errno, accesses,
//! version) use a dictionary.

use fsage_model::operation::{Action, ActionColumns, DirectoryEntry, Operation, OperationKind, Outcome};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::Record;
use super::follow::{PLACE, SIZE, VERSION};

/// How a number column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    Delta,
    Dictionary,
}

/// A row under way: the record, with its action as it stands in columns. While columns are read, the record's
/// own action says only the kind.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub record: Record,
    pub columns: ActionColumns,
}

impl Row {
    /// The row of a record.
    pub fn of(record: &Record) -> Self {
        Self { record: *record, columns: record.operation.columns() }
    }

    /// A row of nothing, for the reader to fill.
    pub fn blank(kind: OperationKind) -> Self {
        let columns = ActionColumns::default();
        let action = Action::from_columns(kind, columns);
        let place = DirectoryEntry::default();
        let operation = Operation { action, file: 0, place, size: 0, version: 0 };
        let outcome = Outcome::default();
        Self { record: Record { thread: 0, sequence: 0, operation, outcome, start_ns: 0 }, columns }
    }

    /// The record that the columns say.
    pub fn into_record(self) -> Record {
        let action = Action::from_columns(self.record.operation.kind(), self.columns);
        Record { operation: Operation { action, ..self.record.operation }, ..self.record }
    }
}

/// A column of numbers.
pub struct Column {
    pub name: &'static str,
    pub bits: u32,
    pub coding: Coding,
    /// The bit of [`super::follow`] with which it is null; 0: it never is.
    pub part: u8,
    pub get: fn(&Row) -> u64,
    pub set: fn(&mut Row, u64),
}

const fn column(
    name: &'static str,
    bits: u32,
    coding: Coding,
    get: fn(&Row) -> u64,
    set: fn(&mut Row, u64),
) -> Column {
    Column { name, bits, coding, part: 0, get, set }
}

/// The same column, null where earlier rows say what it has.
const fn following(part: u8, column: Column) -> Column {
    Column { part, ..column }
}

/// 32-bit numbers are read back from columns of 32 bits: nothing is cut.
fn narrow(value: u64) -> u32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or(0)
}

use Coding::{Delta, Dictionary};

/// Name of the column of kinds, the only one of text and the first.
pub const KIND: &str = "kind";

/// Every other column, in the order of the file.
pub const COLUMNS: [Column; 15] = [
    column("thread", 32, Dictionary, |r| u64::from(r.record.thread), |r, v| r.record.thread = narrow(v)),
    column("sequence", 64, Delta, |r| r.record.sequence, |r, v| r.record.sequence = v),
    column("file", 64, Delta, |r| r.record.operation.file, |r, v| r.record.operation.file = v),
    following(
        PLACE,
        column(
            "directory",
            32,
            Delta,
            |r| u64::from(r.record.operation.place.directory),
            |r, v| {
                r.record.operation.place.directory = narrow(v);
            },
        ),
    ),
    following(
        PLACE,
        column(
            "name",
            64,
            Delta,
            |r| r.record.operation.place.name,
            |r, v| r.record.operation.place.name = v,
        ),
    ),
    column(
        "target_directory",
        32,
        Dictionary,
        |r| u64::from(r.columns.target.directory),
        |r, v| {
            r.columns.target.directory = narrow(v);
        },
    ),
    column("target_name", 64, Dictionary, |r| r.columns.target.name, |r, v| r.columns.target.name = v),
    column("offset", 64, Dictionary, |r| r.columns.offset, |r, v| r.columns.offset = v),
    column("length", 64, Delta, |r| r.columns.length, |r, v| r.columns.length = v),
    following(
        SIZE,
        column("size", 64, Delta, |r| r.record.operation.size, |r, v| r.record.operation.size = v),
    ),
    following(
        VERSION,
        column(
            "version",
            32,
            Dictionary,
            |r| u64::from(r.record.operation.version),
            |r, v| r.record.operation.version = narrow(v),
        ),
    ),
    column(
        "accesses",
        32,
        Dictionary,
        |r| u64::from(r.columns.accesses),
        |r, v| {
            r.columns.accesses = narrow(v);
        },
    ),
    column(
        "errno",
        32,
        Dictionary,
        |r| u64::from(r.record.outcome.errno.cast_unsigned()),
        |r, v| {
            r.record.outcome.errno = narrow(v).cast_signed();
        },
    ),
    column("start_ns", 64, Delta, |r| r.record.start_ns, |r, v| r.record.start_ns = v),
    column("latency_ns", 64, Delta, |r| r.record.outcome.latency_ns, |r, v| r.record.outcome.latency_ns = v),
];

/// The schema in Parquet's own language.
pub fn schema() -> String {
    let mut text = format!("message trace {{ required binary {KIND} (STRING);");
    for column in &COLUMNS {
        let signed = column.name == "errno";
        let repetition = if column.part == 0 { "required" } else { "optional" };
        text.push_str(&format!(
            " {repetition} int{} {} (INTEGER({}, {signed}));",
            column.bits, column.name, column.bits
        ));
    }
    text.push('}');
    text
}

/// Compression and encodings.
pub fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(format!("fsage {}", env!("CARGO_PKG_VERSION")));
    for column in &COLUMNS {
        let path = ColumnPath::from(column.name);
        builder = match column.coding {
            Delta => builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Dictionary => builder.set_column_dictionary_enabled(path, true),
        };
    }
    builder.build()
}
