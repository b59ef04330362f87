//! Reads at the boundaries of a block device, timed: by wall-clock time, or by the disk's own on a virtual disk in model
//! time. Nothing is written: the device is opened for reading, past the page cache, and everything is asked of that
//! descriptor.

mod hint;
mod opened;
mod plan;

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use fsage_model::geometry::{Alignment, BoundarySpec, BoundaryTimes, DeviceHints, Triple};
use fsage_sys::aligned::AlignedBuffer;
use rustix::fs::OFlags;

use crate::host::HostError;
use crate::load::Control;

pub(crate) use opened::Opened;
pub use plan::{Reading, Side, plan};

/// Receives the number of reads that are done and of all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// What the kernel says of a device's geometry.
///
/// # Errors
/// It is no block device, or cannot be opened.
pub fn hints(device: &Path) -> Result<DeviceHints, HostError> {
    Opened::new(device, OFlags::empty())?.hints()
}

/// Reads around boundaries in random order.
///
/// # Errors
/// It is no block device or cannot be opened or read; `spec` does not fit it; [`HostError::Ended`] when the end is asked.
pub fn read_boundaries(
    device: &Path,
    spec: &BoundarySpec,
    control: &Control,
    progress: Progress<'_>,
) -> Result<BoundaryTimes, HostError> {
    let opened = Opened::new(device, OFlags::DIRECT)?;
    let hints = opened.hints()?;
    let senseless = |what: String| HostError::Senseless { what };
    let checked = BoundarySpec::new(
        hints.size_bytes,
        hints.sector_bytes,
        Some(spec.block_bytes),
        spec.triples,
        spec.seed,
    )
    .map_err(|error| senseless(format!("{}: {error}", opened.path.display())))?;
    if spec.align_bytes.iter().any(|align| !checked.align_bytes.contains(align)) {
        let path = opened.path.display();
        return Err(senseless(format!("{path} has too few boundaries of a requested alignment")));
    }
    let clock = opened.clock()?;
    let readings = plan(spec, hints.start_bytes, hints.size_bytes);
    let started = Instant::now();
    let mut alignments = empty(spec);
    let block = usize::try_from(spec.block_bytes).unwrap_or(usize::MAX);
    let mut buffer = AlignedBuffer::new(block);
    for (done, reading) in (0..).zip(&readings) {
        if control.is_asked() && !control.wait(&|| false) {
            return Err(HostError::Ended { what: "the boundary test" });
        }
        let failed = |error| HostError::file("read", &opened.path)(error);
        let before_ns = clock.now_ns();
        opened.file.read_exact_at(&mut buffer, reading.offset_bytes).map_err(failed)?;
        let second = reading.offset_bytes + u64::from(spec.block_bytes);
        opened.file.read_exact_at(&mut buffer, second).map_err(failed)?;
        let taken_ns = clock.now_ns().saturating_sub(before_ns);
        *time(&mut alignments[reading.alignment].triples[reading.triple], reading.side) = taken_ns;
        progress(done + 1, readings.len() as u64);
    }
    let read_bytes = 2 * u64::from(spec.block_bytes) * readings.len() as u64;
    let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(BoundaryTimes { alignments, read_bytes, elapsed_ns })
}

/// Room for the times of every boundary.
#[must_use]
pub fn empty(spec: &BoundarySpec) -> Vec<Alignment> {
    let none = Triple { before_ns: 0, across_ns: 0, after_ns: 0 };
    let triples = vec![none; usize::try_from(spec.triples).unwrap_or(0)];
    spec.align_bytes.iter().map(|align| Alignment { align_bytes: *align, triples: triples.clone() }).collect()
}

/// The time of a triple that a reading is for.
pub const fn time(triple: &mut Triple, side: Side) -> &mut u64 {
    match side {
        Side::Before => &mut triple.before_ns,
        Side::Across => &mut triple.across_ns,
        Side::After => &mut triple.after_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_device_is_refused() {
        assert!(matches!(hints(Path::new("/dev/null")), Err(HostError::Senseless { .. })));
        assert!(matches!(hints(Path::new("/dev/no-such")), Err(HostError::File { .. })));
        let spec = BoundarySpec { block_bytes: 1024, align_bytes: vec![2048], triples: 30, seed: 1 };
        let found = read_boundaries(Path::new("/dev/null"), &spec, &Control::new(), &mut |_, _| {});
        assert!(matches!(found, Err(HostError::Senseless { .. } | HostError::File { .. })), "{found:?}");
    }
}
