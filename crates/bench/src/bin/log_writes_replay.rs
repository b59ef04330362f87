//! Replays a log of the device-mapper target `log-writes`, and runs a command after every flush: the rival of
//! `fsage crash` that stock kernels have. `scripts/power-rivals` runs it in a guest.
//!
//! `log_writes_replay LOG DEVICE MARK STATES COMMAND [ARGUMENT]…` writes the requests of LOG to DEVICE in their
//! order; discards change nothing. After the mark MARK it runs COMMAND after each flush and each write that is
//! forced to the medium, for at most STATES times, and prints how many of them there were, how many failed, and
//! seconds.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::Instant;

use fsage_disk::log::dm_log_writes::Reader;
use fsage_disk::log::stream::{Item, Source as _};
use fsage_disk::request::Operation;

fn main() -> io::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [log, device, mark, states, command, rest @ ..] = &arguments[..] else {
        return Err(io::Error::other("usage: log_writes_replay LOG DEVICE MARK STATES COMMAND [ARGUMENT]…"));
    };
    let states: usize =
        states.to_str().and_then(|text| text.parse().ok()).ok_or(io::Error::other("STATES is no number"))?;
    let mut log = Reader::new(File::open(log)?).map_err(io::Error::other)?;
    let device = OpenOptions::new().write(true).open(device)?;
    let (mut counts, mut tried, mut failed, mut data) = (false, 0, 0, Vec::new());
    let begun = Instant::now();
    while let Some(item) = log.next_item(&mut data).map_err(io::Error::other)? {
        let request = match item {
            Item::Mark(found) => {
                counts |= mark.to_str() == Some(found.name.as_str());
                continue;
            }
            Item::Entry(entry) => entry.request,
        };
        if request.operation == Operation::Write {
            device.write_all_at(&data, request.offset_bytes)?;
        }
        if counts && (request.operation == Operation::Flush || request.fua) {
            device.sync_data()?;
            failed += usize::from(!Command::new(command).args(rest).status()?.success());
            tried += 1;
            if tried == states {
                break;
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    writeln!(io::stdout(), "{tried} states, {failed} failed, {seconds:.2} s")
}
