//! What is asked of a disk.
//!
//! Offsets and lengths are in bytes and may have any alignment: anyone who exports the disk refuses what its
//! block size does not allow. A request never reaches beyond the disk's end when it comes here.

use serde::{Deserialize, Serialize};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Everything written and answered before is on the medium when this is answered. Without a range it is of the whole disk, with one of
    /// the drives of an array that have it.
    Flush,
    /// The range is not needed any more; it reads as zeros afterwards.
    Discard,
    /// The range reads as zeros afterwards, and stays allocated on the medium.
    Zero,
}

/// One request, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What it does.
    pub operation: Operation,
    /// First byte; 0 of a flush of the whole disk.
    pub offset_bytes: u64,
    /// Bytes; 0 of a flush of the whole disk.
    pub length_bytes: u64,
    /// Of a write: it is on the medium when it is answered (force unit access).
    pub fua: bool,
}

impl Request {
    /// A request that is not forced to the medium.
    #[must_use]
    pub const fn new(operation: Operation, offset_bytes: u64, length_bytes: u64) -> Self {
        Self { operation, offset_bytes, length_bytes, fua: false }
    }

    /// The first byte behind it; saturates.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }

    /// The part of it that lies on a disk of that size.
    #[must_use]
    pub fn within(&self, size_bytes: u64) -> Self {
        let start = self.offset_bytes.min(size_bytes);
        let end = self.end_bytes().min(size_bytes);
        Self { offset_bytes: start, length_bytes: end - start, ..*self }
    }
}

/// Why a request failed, as the block layer knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoError {
    /// The medium cannot read or write there (`EIO`).
    #[error("input/output error")]
    Medium,
    /// The store has no memory or spill space left (`ENOSPC`).
    #[error("no space left for the disk's contents")]
    Space,
    /// Beyond the end, or not aligned to the block size (`EINVAL`).
    #[error("range that the disk does not have")]
    Range,
}

/// The bytes that go with a request.
#[derive(Debug)]
pub enum Data<'a> {
    /// None: flush, discard, zero.
    None,
    /// To be filled by a read, of the request's length.
    In(&'a mut [u8]),
    /// To be written, of the request's length.
    Out(&'a [u8]),
}

/// A request on its way through the disk.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// What is asked.
    pub request: Request,
    /// The bytes.
    pub data: Data<'a>,
    /// Set by the disk: whether it was done.
    pub result: Result<(), IoError>,
    /// Set by the disk: when it is done, in nanoseconds of the disk's clock.
    pub done_ns: u64,
}

impl<'a> Transfer<'a> {
    /// A transfer that has not been done yet.
    #[must_use]
    pub const fn new(request: Request, data: Data<'a>) -> Self {
        Self { request, data, result: Ok(()), done_ns: 0 }
    }
}
