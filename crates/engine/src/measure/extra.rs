//! Requests that a control adds to the load of a measure: direct reads of 4 KiB at random places of the block device
//! below, until the measure has taken a given share longer (docs/controls.md).
//!
//! Neither the file system nor the disk knows of them: to both they are requests like any others. How long they took
//! the measure's own clock says. They come where the clock is about to be held, so that none is between two requests of
//! the measure; where they leave a head or a cache, the next stretch of the measure finds it.

use std::path::{Path, PathBuf};

use fsage_model::measure::{EXTRA_FACTOR, EXTRA_REQUESTS, MeasureMetric};
use fsage_model::quantity::{as_f64, share, to_u64};
use fsage_sys::aligned::AlignedBuffer;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, open, seek};
use rustix::io::{Errno, pread, retry_on_intr};

use super::MeasureError;
use crate::disk::Clock;
use crate::distribution::Random;

/// Bytes of a request.
const BLOCK: u16 = 4096;
/// Requests in a row that may take no time: then the device takes none, and no number of them would add any.
const PATIENCE: u32 = 1000;
/// The random stream of the places; measures have smaller numbers.
const STREAM: u32 = 1000;

/// Requests beside a measure's own.
pub(super) struct Extra {
    device: OwnedFd,
    path: PathBuf,
    /// Of the measure's own time.
    share: f64,
    blocks: u64,
    random: Random,
    buffer: AlignedBuffer,
    requests: u64,
    added_ns: u64,
    failed: Option<Errno>,
}

impl Extra {
    /// Opens `device` for reading, past the page cache. `share`: how much of the measure's time is added, above 0 and
    /// at most 1.
    ///
    /// # Errors
    /// The share is out of range, or `device` is no block device or cannot be read.
    pub fn on(device: &Path, share: f64, seed: u64) -> Result<Self, MeasureError> {
        super::check_share("extra", "share", share, 1.0, "above 0 and at most 1")?;
        let failed = |errno| MeasureError::system("read", device)(errno);
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let fd = open(device, flags, Mode::empty()).map_err(failed)?;
        let is_block =
            fstat(&fd).map(|found| FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice);
        if !is_block.map_err(failed)? {
            return Err(failed(Errno::NOTBLK));
        }
        let blocks = seek(&fd, SeekFrom::End(0)).map_err(failed)? / u64::from(BLOCK);
        if blocks == 0 {
            return Err(failed(Errno::NXIO));
        }
        Ok(Self {
            device: fd,
            path: device.to_owned(),
            share,
            blocks,
            random: Random::new(seed, STREAM),
            buffer: AlignedBuffer::new(usize::from(BLOCK)),
            requests: 0,
            added_ns: 0,
            failed: None,
        })
    }

    /// Adds requests until they took their share of what the measure took by `clock`: `elapsed_ns` until now, those of
    /// before among it. A request that fails is kept for [`Extra::metrics`], so that nobody who times something is
    /// held up by it.
    pub fn add(&mut self, elapsed_ns: u64, clock: &Clock) {
        let own_ns = elapsed_ns.saturating_sub(self.added_ns);
        let wanted_ns = to_u64(as_f64(own_ns) * self.share);
        let mut in_vain = 0;
        while self.failed.is_none() && self.added_ns < wanted_ns && in_vain < PATIENCE {
            let place = self.random.below(self.blocks) * u64::from(BLOCK);
            let before_ns = clock.now_ns();
            if let Err(errno) = retry_on_intr(|| pread(&self.device, &mut self.buffer[..], place)) {
                self.failed = Some(errno);
            }
            let took_ns = clock.now_ns().saturating_sub(before_ns);
            in_vain = if took_ns == 0 { in_vain + 1 } else { 0 };
            self.requests += 1;
            self.added_ns += took_ns;
        }
    }

    /// How many there were, and how many times as long the measure took for them. `elapsed_ns`: of the whole measure.
    ///
    /// # Errors
    /// One of them failed.
    pub fn metrics(self, elapsed_ns: u64) -> Result<[MeasureMetric; 2], MeasureError> {
        if let Some(errno) = self.failed {
            return Err(MeasureError::system("read", &self.path)(errno));
        }
        let own_ns = elapsed_ns.saturating_sub(self.added_ns);
        let factor = if own_ns == 0 { 1.0 } else { share(elapsed_ns, own_ns) };
        Ok([
            MeasureMetric::cost(EXTRA_FACTOR, "1", factor),
            MeasureMetric::cost(EXTRA_REQUESTS, "1", as_f64(self.requests)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_block_devices_are_read_and_only_a_share_of_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, [0; 8192]).unwrap();
        for share in [0.0, -0.1, 1.5, f64::NAN] {
            assert!(matches!(Extra::on(&file, share, 1), Err(MeasureError::Range { .. })), "{share}");
        }
        assert!(matches!(Extra::on(&file, 0.1, 1), Err(MeasureError::System { .. })), "a file is none");
        assert!(matches!(Extra::on(&folder.path().join("none"), 0.1, 1), Err(MeasureError::System { .. })));
    }

    #[test]
    fn requests_come_until_their_share_is_full_and_the_factor_is_what_they_took() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 64 * usize::from(BLOCK)]).unwrap();
        let mut extra = Extra {
            device: open(&path, OFlags::RDONLY, Mode::empty()).unwrap(),
            path,
            share: 0.5,
            blocks: 64,
            random: Random::new(1, STREAM),
            buffer: AlignedBuffer::new(usize::from(BLOCK)),
            requests: 0,
            added_ns: 0,
            failed: None,
        };
        let clock = Clock::Host;
        extra.add(1_000_000, &clock);
        assert!(extra.requests > 0 && extra.added_ns >= 500_000, "{} ns", extra.added_ns);
        // What was added before is neither the measure's own nor added again.
        let (requests, added_ns) = (extra.requests, extra.added_ns);
        extra.add(1_000_000 + added_ns, &clock);
        assert_eq!(extra.requests, requests);
        let [factor, count] = extra.metrics(1_000_000 + added_ns).unwrap();
        assert!((factor.value - (1.0 + as_f64(added_ns) / 1e6)).abs() < 1e-9, "{factor:?}");
        assert!((count.value - as_f64(requests)).abs() < 1e-9);
    }
}
