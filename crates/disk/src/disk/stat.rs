//! Counting requests.

use fsage_model::disk::Counts;

use crate::request::{IoError, Operation, Request};

/// Counts a request that was answered.
pub(super) const fn count(counts: &mut Counts, request: &Request, result: Result<(), IoError>) {
    let count = match request.operation {
        Operation::Read => &mut counts.read,
        Operation::Write => &mut counts.write,
        Operation::Flush => &mut counts.flush,
        Operation::Discard => &mut counts.discard,
        Operation::Zero => &mut counts.zero,
    };
    count.requests += 1;
    match result {
        Ok(()) => count.bytes += request.length_bytes,
        Err(_) => count.errors += 1,
    }
}
