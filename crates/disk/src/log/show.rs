//! Entries as text: one line each, fields between single spaces, for people, `awk` and `diff`.
//!
//! | field | what |
//! | --- | --- |
//! | 1 | number of the entry, from 0 |
//! | 2 | when it arrived, seconds of `CLOCK_MONOTONIC` |
//! | 3 | when its batch came to the medium, seconds of the disk's clock |
//! | 4 | when it was done, seconds of the disk's clock |
//! | 5 | `read`, `write`, `flush`, `discard`, `zero`, `mark` |
//! | 6 | first byte |
//! | 7 | bytes |
//! | 8 | `-`, or of these, with commas: `fua`, `ignored`, `medium`, `space`, `range` (the last three are errors) |
//!
//! Times have nine places behind the point. A mark has the number of the entry behind it, `-` for what it has
//! not, and its name at the end of the line. Fields may be added at the end of entries; none changes its
//! place or meaning.

use std::fmt;

use serde::Serialize;

use super::stream::Item;
use super::{Entry, Mark};
use crate::request::{IoError, Operation};

/// The line above all entries.
pub const HEADING: &str = "number arrived_s issued_s done_s operation offset_bytes length_bytes flags";

/// Nanoseconds, shown as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The name of an operation.
#[must_use]
pub const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        Operation::Discard => "discard",
        Operation::Zero => "zero",
    }
}

const fn error_name(error: IoError) -> &'static str {
    match error {
        IoError::Medium => "medium",
        IoError::Space => "space",
        IoError::Range => "range",
    }
}

/// An item with its number, as a line without its end.
#[derive(Debug)]
pub struct Line<'a> {
    /// Of an entry its number, of a mark that of the entry behind it.
    pub number: u64,
    /// What it is.
    pub item: &'a Item,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            Item::Entry(entry) => show_entry(f, self.number, entry),
            Item::Mark(Mark { set_ns, name, .. }) => {
                write!(f, "{} {} - - mark - - {name}", self.number, Seconds(*set_ns))
            }
        }
    }
}

fn show_entry(f: &mut fmt::Formatter<'_>, number: u64, entry: &Entry) -> fmt::Result {
    let request = &entry.request;
    let [arrived, issued, done] = [entry.arrived_ns, entry.issued_ns, entry.done_ns].map(Seconds);
    let operation = operation_name(request.operation);
    write!(f, "{number} {arrived} {issued} {done} {operation} ")?;
    write!(f, "{} {} ", request.offset_bytes, request.length_bytes)?;
    let flags = [
        request.fua.then_some("fua"),
        entry.flush_ignored.then_some("ignored"),
        entry.result.err().map(error_name),
    ];
    let mut separator = "";
    for flag in flags.into_iter().flatten() {
        write!(f, "{separator}{flag}")?;
        separator = ",";
    }
    if separator.is_empty() { write!(f, "-") } else { Ok(()) }
}

/// An entry for JSON: the same fields under the same names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// Number of the entry, from 0; of a mark that of the entry behind it.
    pub number: u64,
    /// When it arrived (a mark: was set), in nanoseconds of `CLOCK_MONOTONIC`.
    pub arrived_ns: u64,
    /// When its batch came to the medium, in nanoseconds of the disk's clock.
    pub issued_ns: Option<u64>,
    /// When it was done, in nanoseconds of the disk's clock.
    pub done_ns: Option<u64>,
    /// `read`, `write`, `flush`, `discard`, `zero`, `mark`.
    pub operation: &'static str,
    /// First byte.
    pub offset_bytes: Option<u64>,
    /// Bytes.
    pub length_bytes: Option<u64>,
    /// It was forced to the medium.
    pub fua: bool,
    /// The disk only said that it brought everything to the medium.
    pub flush_ignored: bool,
    /// `medium`, `space`, `range`; absent where it was done.
    pub error: Option<&'static str>,
    /// Of a mark.
    pub name: Option<String>,
}

impl Row {
    /// The fields of an item.
    #[must_use]
    pub fn new(number: u64, item: &Item) -> Self {
        match item {
            Item::Entry(entry) => Self {
                number,
                arrived_ns: entry.arrived_ns,
                issued_ns: Some(entry.issued_ns),
                done_ns: Some(entry.done_ns),
                operation: operation_name(entry.request.operation),
                offset_bytes: Some(entry.request.offset_bytes),
                length_bytes: Some(entry.request.length_bytes),
                fua: entry.request.fua,
                flush_ignored: entry.flush_ignored,
                error: entry.result.err().map(error_name),
                name: None,
            },
            Item::Mark(mark) => Self {
                number,
                arrived_ns: mark.set_ns,
                issued_ns: None,
                done_ns: None,
                operation: "mark",
                offset_bytes: None,
                length_bytes: None,
                fua: false,
                flush_ignored: false,
                error: None,
                name: Some(mark.name.clone()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    fn entry() -> Entry {
        Entry {
            issued_ns: 4_183_250,
            done_ns: 4_266_350,
            arrived_ns: 12_000_000_007,
            ..Entry::new(Request::new(Operation::Write, 1 << 20, 4096))
        }
    }

    #[test]
    fn lines_stay_as_they_are() {
        let line = |number, item: &Item| Line { number, item }.to_string();
        let plain = Item::Entry(entry());
        assert_eq!(line(12, &plain), "12 12.000000007 0.004183250 0.004266350 write 1048576 4096 -");
        let fields = line(12, &plain).split(' ').count();
        assert_eq!(HEADING.split(' ').count(), fields);
        let request = Request { fua: true, ..entry().request };
        let all = Entry { request, flush_ignored: true, result: Err(IoError::Medium), ..entry() };
        let shown = line(0, &Item::Entry(all));
        assert!(shown.ends_with(" write 1048576 4096 fua,ignored,medium"), "{shown}");
        let flush = Entry::new(Request::new(Operation::Flush, 0, 0));
        assert_eq!(line(3, &Item::Entry(flush)), "3 0.000000000 0.000000000 0.000000000 flush 0 0 -");
        let mark = Mark { position: 9, set_ns: 1_500_000_000, name: "after mkfs".to_owned() };
        assert_eq!(line(9, &Item::Mark(mark)), "9 1.500000000 - - mark - - after mkfs");
    }

    #[test]
    fn rows_have_the_fields_of_the_line() {
        let row = serde_json::to_value(Row::new(12, &Item::Entry(entry()))).unwrap();
        assert_eq!(row["operation"], "write");
        assert_eq!((&row["offset_bytes"], &row["length_bytes"]), (&(1 << 20).into(), &4096.into()));
        assert_eq!((&row["error"], &row["fua"]), (&serde_json::Value::Null, &false.into()));
        let mark = Mark { position: 9, set_ns: 1, name: "here".to_owned() };
        let row = serde_json::to_value(Row::new(9, &Item::Mark(mark))).unwrap();
        assert_eq!((&row["name"], &row["offset_bytes"]), (&"here".into(), &serde_json::Value::Null));
    }
}
