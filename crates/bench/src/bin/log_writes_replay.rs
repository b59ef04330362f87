//! Replays a log of the device-mapper target `log-writes`, and runs a command after every flush: the rival of
//! `fsage crash` that stock kernels have. `scripts/power-rivals` runs it in a guest.
//!
//! `log_writes_replay LOG DEVICE MARK STATES COMMAND [ARGUMENT]…` writes the entries of LOG to DEVICE in their
//! order. After the mark MARK it runs COMMAND after each entry that is a flush or is forced to the medium, for at
//! most STATES times, and prints how many of them there were, how many failed, and seconds.
//!
//! Format: `drivers/md/dm-log-writes.c` of Linux (a superblock in the first sector; entries of one sector each,
//! little-endian, each followed by its data unless it is a discard or a mark).

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::Instant;

/// `WRITE_LOG_MAGIC`.
const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
/// Data copied at once.
const CHUNK_BYTES: u64 = 1 << 20;

fn main() -> io::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [log, device, mark, states, command, rest @ ..] = &arguments[..] else {
        return Err(io::Error::other("usage: log_writes_replay LOG DEVICE MARK STATES COMMAND [ARGUMENT]…"));
    };
    let states: usize =
        states.to_str().and_then(|text| text.parse().ok()).ok_or(io::Error::other("STATES"))?;
    let log = Log::open(File::open(log)?)?;
    let device = OpenOptions::new().write(true).open(device)?;
    let mark = mark.as_encoded_bytes();
    let (mut counts, mut tried, mut failed, mut at) = (false, 0, 0, log.sector_bytes);
    let begun = Instant::now();
    for _ in 0..log.entries {
        let entry = log.entry(at)?;
        at += log.sector_bytes;
        if entry.flags & MARK != 0 {
            counts |= log.text(at - log.sector_bytes, entry.text_bytes)? == mark;
            continue;
        }
        if entry.flags & DISCARD == 0 {
            let bytes = entry.sectors * log.sector_bytes;
            copy(&log.file, at, &device, entry.sector * log.sector_bytes, bytes)?;
            at += bytes;
        }
        if counts && entry.flags & (FLUSH | FUA) != 0 {
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

struct Log {
    file: File,
    entries: u64,
    sector_bytes: u64,
}

struct Entry {
    sector: u64,
    sectors: u64,
    flags: u64,
    text_bytes: u64,
}

impl Log {
    fn open(file: File) -> io::Result<Self> {
        let [magic, _version, entries, sector_bytes] = words(&file, 0)?;
        if magic != MAGIC {
            return Err(io::Error::other("no log of dm-log-writes"));
        }
        // The last field has 32 bits.
        Ok(Self { file, entries, sector_bytes: sector_bytes & u64::from(u32::MAX) })
    }

    fn entry(&self, at: u64) -> io::Result<Entry> {
        let [sector, sectors, flags, text_bytes] = words(&self.file, at)?;
        Ok(Entry { sector, sectors, flags, text_bytes })
    }

    /// The name of a mark, which follows its entry in the same sector.
    fn text(&self, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let mut text = vec![0; usize::try_from(bytes.min(self.sector_bytes - 32)).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut text, at + 32)?;
        text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(text.len()));
        Ok(text)
    }
}

/// Four little-endian numbers.
fn words(file: &File, at: u64) -> io::Result<[u64; 4]> {
    let mut bytes = [0; 32];
    file.read_exact_at(&mut bytes, at)?;
    let mut words = [0; 4];
    for (word, part) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(part.try_into().map_err(io::Error::other)?);
    }
    Ok(words)
}

fn copy(from: &File, from_byte: u64, to: &File, to_byte: u64, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(bytes.min(CHUNK_BYTES)).map_err(io::Error::other)?];
    let mut done = 0;
    while done < bytes {
        let length = (bytes - done).min(CHUNK_BYTES);
        let part = &mut buffer[..usize::try_from(length).map_err(io::Error::other)?];
        from.read_exact_at(part, from_byte + done)?;
        to.write_all_at(part, to_byte + done)?;
        done += length;
    }
    Ok(())
}
