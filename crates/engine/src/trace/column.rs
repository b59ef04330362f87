//! The columns of a trace: names, types, encodings, and how they come from a record and go back.
//!
//! Columns of which earlier rows of a file say most are null there ([`super::follow`]). Numbers that rise
//! (sequence, start) are delta-encoded; the others are bit-packed by the same encoding with a delta of about
//! their spread, which beats plain numbers under zstd. Columns of few values (thread, kind, errno, accesses,
//! version) use a dictionary.

use fsage_model::operation::{DirectoryEntry, Operation, OperationKind, Outcome};
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

/// A column of numbers.
pub struct Column {
    pub name: &'static str,
    pub bits: u32,
    pub coding: Coding,
    /// The bit of [`super::follow`] with which it is null; 0: it never is.
    pub part: u8,
    pub get: fn(&Record) -> u64,
    pub set: fn(&mut Record, u64),
}

const fn column(
    name: &'static str,
    bits: u32,
    coding: Coding,
    get: fn(&Record) -> u64,
    set: fn(&mut Record, u64),
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
    column("thread", 32, Dictionary, |r| u64::from(r.thread), |r, v| r.thread = narrow(v)),
    column("sequence", 64, Delta, |r| r.sequence, |r, v| r.sequence = v),
    column("file", 64, Delta, |r| r.operation.file, |r, v| r.operation.file = v),
    following(
        PLACE,
        column(
            "directory",
            32,
            Delta,
            |r| u64::from(r.operation.place.directory),
            |r, v| {
                r.operation.place.directory = narrow(v);
            },
        ),
    ),
    following(
        PLACE,
        column("name", 64, Delta, |r| r.operation.place.name, |r, v| r.operation.place.name = v),
    ),
    column(
        "target_directory",
        32,
        Dictionary,
        |r| u64::from(r.operation.target.directory),
        |r, v| {
            r.operation.target.directory = narrow(v);
        },
    ),
    column("target_name", 64, Dictionary, |r| r.operation.target.name, |r, v| r.operation.target.name = v),
    column("offset", 64, Dictionary, |r| r.operation.offset, |r, v| r.operation.offset = v),
    column("length", 64, Delta, |r| r.operation.length, |r, v| r.operation.length = v),
    following(SIZE, column("size", 64, Delta, |r| r.operation.size, |r, v| r.operation.size = v)),
    following(
        VERSION,
        column(
            "version",
            32,
            Dictionary,
            |r| u64::from(r.operation.version),
            |r, v| r.operation.version = narrow(v),
        ),
    ),
    column(
        "accesses",
        32,
        Dictionary,
        |r| u64::from(r.operation.accesses),
        |r, v| {
            r.operation.accesses = narrow(v);
        },
    ),
    column(
        "errno",
        32,
        Dictionary,
        |r| u64::from(r.outcome.errno.cast_unsigned()),
        |r, v| {
            r.outcome.errno = narrow(v).cast_signed();
        },
    ),
    column("start_ns", 64, Delta, |r| r.start_ns, |r, v| r.start_ns = v),
    column("latency_ns", 64, Delta, |r| r.outcome.latency_ns, |r, v| r.outcome.latency_ns = v),
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

/// A record of nothing, for the reader to fill.
pub const fn blank(kind: OperationKind) -> Record {
    let place = DirectoryEntry { directory: 0, name: 0 };
    Record {
        thread: 0,
        sequence: 0,
        operation: Operation {
            kind,
            file: 0,
            place,
            target: place,
            offset: 0,
            length: 0,
            size: 0,
            version: 0,
            accesses: 0,
        },
        outcome: Outcome { errno: 0, latency_ns: 0 },
        start_ns: 0,
    }
}
