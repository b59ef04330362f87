//! Text of blktrace's `blkparse`, in its default format.
//!
//! One event a line: `maj,min cpu seq time pid action rwbs`, then what the action has. Of a request that goes
//! to the device and comes back (`D`, `C`):
//!
//! ```text
//!   8,0    3       11     0.009507758   697  D   W 223490 + 56 [kjournald]
//!   8,0    3       12     0.009563600     0  C   W 223490 + 56 [0]
//! ```
//!
//! Sectors are of 512 bytes, times in seconds and nanoseconds; the number at the end of `C` is the negative
//! errno or 0. `rwbs`: `F` first is a flush before, then `R`, `W`, `D` (discard) or `N` (nothing), then `F`
//! forced to the medium, `A` read ahead, `S` synchronous, `M` metadata. A flush alone is `FN` without a
//! place. The format does not tell zeroing from writing, has no data and no size of the disk (the least that
//! fits is taken). Marks are messages: action `m`, `mark NAME`.
//!
//! Reading takes the requests in the order of their `D`, or of their `Q` (queued) where the device has no
//! queue ([`Issue`]), and their ends from `C`; other actions are only inspected as far as all lines are
//! alike. Lines from the summary on (`CPU0 (sda):`) are left out.

mod line;
mod reader;
mod writer;

pub use reader::{Issue, read};
pub use writer::{Clock, Writer};

/// The format's name in messages.
const FORMAT: &str = "text of blkparse";

const SECTOR_BYTES: u64 = 512;
const NS_IN_S: u64 = 1_000_000_000;

/// What stands before the name of a mark.
const MARK: &str = "mark ";
