//! An entry as it lies in memory: 56 bytes. Length, operation, outcome and flags share one word.
//!
//! | bits | what |
//! | --- | --- |
//! | 0..48 | length in bytes |
//! | 48..51 | operation: read 0, write 1, flush 2, discard 3, zero 4 |
//! | 51 | fua |
//! | 52 | flush ignored |
//! | 53..55 | outcome: done 0, medium 1, space 2, range 3 |

use super::{Entry, LENGTH_LIMIT, Payload};
use crate::request::{IoError, Operation, Request};

const OPERATION: u32 = 48;
const FUA: u64 = 1 << 51;
const FLUSH_IGNORED: u64 = 1 << 52;
const OUTCOME: u32 = 53;

/// A packed entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    offset_bytes: u64,
    word: u64,
    issued_ns: u64,
    done_ns: u64,
    arrived_ns: u64,
    first: u64,
    count: u32,
}

const _: () = assert!(size_of::<Record>() == 56);

/// The number of an operation, here and in files.
pub(super) const fn operation_code(operation: Operation) -> u64 {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush => 2,
        Operation::Discard => 3,
        Operation::Zero => 4,
    }
}

/// The operation of a number.
pub(super) const fn operation_of(code: u64) -> Option<Operation> {
    match code {
        0 => Some(Operation::Read),
        1 => Some(Operation::Write),
        2 => Some(Operation::Flush),
        3 => Some(Operation::Discard),
        4 => Some(Operation::Zero),
        _ => None,
    }
}

/// The number of an outcome, here and in files.
pub(super) const fn outcome_code(result: Result<(), IoError>) -> u64 {
    match result {
        Ok(()) => 0,
        Err(IoError::Medium) => 1,
        Err(IoError::Space) => 2,
        Err(IoError::Range) => 3,
    }
}

/// The outcome of the lowest two bits of a number.
pub(super) const fn outcome_of(code: u64) -> Result<(), IoError> {
    match code & 3 {
        0 => Ok(()),
        1 => Err(IoError::Medium),
        2 => Err(IoError::Space),
        _ => Err(IoError::Range),
    }
}

impl Record {
    pub(super) fn pack(entry: &Entry) -> Self {
        let Entry { request, result, flush_ignored, issued_ns, done_ns, arrived_ns, payload } = *entry;
        let flags = if request.fua { FUA } else { 0 } | if flush_ignored { FLUSH_IGNORED } else { 0 };
        let word = request.length_bytes.min(LENGTH_LIMIT)
            | operation_code(request.operation) << OPERATION
            | outcome_code(result) << OUTCOME
            | flags;
        let Payload { first, count } = payload;
        Self { offset_bytes: request.offset_bytes, word, issued_ns, done_ns, arrived_ns, first, count }
    }

    pub(super) fn unpack(&self) -> Entry {
        let Self { offset_bytes, word, issued_ns, done_ns, arrived_ns, first, count } = *self;
        // `pack` writes no other operation.
        let operation = operation_of(word >> OPERATION & 7).unwrap_or(Operation::Read);
        Entry {
            request: Request {
                operation,
                offset_bytes,
                length_bytes: word & LENGTH_LIMIT,
                fua: word & FUA != 0,
            },
            result: outcome_of(word >> OUTCOME),
            flush_ignored: word & FLUSH_IGNORED != 0,
            issued_ns,
            done_ns,
            arrived_ns,
            payload: Payload { first, count },
        }
    }
}
