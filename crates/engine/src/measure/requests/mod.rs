//! Block requests during a measure, by the kernel's block tracepoints.
//!
//! A trace instance of our own is made in tracefs (`instances/fsage-…`), so that nobody else's tracing is
//! touched. It has a filter for the device, and is removed when the trace ends; what a killed agent left, the
//! lab's lease removes ([`remove_instance`]). Where tracefs is not mounted it is reached through a mount that
//! has no place in the tree and goes with its descriptor.
//!
//! Requests are taken when the device gets them (`block_rq_issue`: after merging and scheduling) and when
//! they are done (`block_rq_complete`). Devices without a request queue (device-mapper, md) have neither: for
//! them it is `block_bio_queue`, before any merging. On a file system of several devices only the given one
//! is seen.
//!
//! Known error: times are in whole microseconds; events of different CPUs that come within a few microseconds
//! may be taken in the wrong order. Events that did not fit the buffer are counted and warned of.

mod device;
mod event;
mod summary;

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_model::measure::RequestSummary;
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;

use crate::host::tracefs::{self, Instance, TraceError};
use device::Disk;
pub use event::{Event, EventKind, parse};
pub use summary::Collector;

/// Size of the ring buffer of each CPU: about 80,000 events.
const BUFFER_KIB: u64 = 8 << 10;

/// Time between two reads of the buffer. The reader must not take part in what is measured more than it has
/// to.
const PAUSE: Duration = Duration::from_millis(20);

/// Whether a name is that of an instance of ours: `fsage-` and then small letters, digits and dashes, at
/// most 64.
///
/// # Errors
/// It is not.
pub fn check_name(name: &str) -> Result<(), super::MeasureError> {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let ours = name.strip_prefix("fsage-").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(plain));
    if ours && name.len() <= 64 {
        return Ok(());
    }
    Err(super::MeasureError::InstanceName { name: name.to_owned() })
}

/// Removes a trace instance of ours that a killed agent left; one that is not there is fine.
///
/// # Errors
/// The name is not ours, or the kernel keeps it.
pub fn remove_instance(name: &str) -> Result<(), super::MeasureError> {
    check_name(name)?;
    tracefs::remove(name).map_err(super::MeasureError::io("remove trace instance", Path::new(name)))
}

/// A trace under way. Removes its instance when dropped.
#[derive(Debug)]
pub(super) struct Tracer {
    instance: Instance,
    reader: Option<JoinHandle<Collector>>,
    end: Arc<AtomicBool>,
    /// What the block layer cannot tell of this device.
    bio_based: bool,
}

impl Tracer {
    /// Makes the instance and starts reading; nothing is recorded before [`Tracer::on`].
    pub fn start(name: &str, directory: &Path, device: Option<&Path>) -> Result<Self, TraceError> {
        let disk = Disk::find(directory, device)?;
        let instance = Instance::make(name)?;
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        let events: &[&str] =
            if disk.bio_based { &["block_bio_queue"] } else { &["block_rq_issue", "block_rq_complete"] };
        for event in events {
            instance.write(&format!("events/block/{event}/filter"), &format!("dev == {}", disk.number()))?;
            instance.write(&format!("events/block/{event}/enable"), "1")?;
        }
        let pipe = instance.path("trace_pipe");
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        let pipe = File::options()
            .read(true)
            .custom_flags(nonblocking)
            .open(pipe)
            .map_err(instance.error("open", "trace_pipe"))?;
        let end = Arc::new(AtomicBool::new(false));
        let (reported, bio_based) = (Arc::clone(&end), disk.bio_based);
        let collector = Collector::new(disk.start_sector, disk.sectors);
        let reader = std::thread::Builder::new()
            .name("requests".to_owned())
            .spawn(move || read(pipe, &reported, collector))
            .map_err(instance.error("start a thread for", "trace_pipe"))?;
        Ok(Self { instance, reader: Some(reader), end, bio_based })
    }

    /// Records from now on.
    pub fn on(&mut self) {
        // A trace that could not be switched has no events, which the summary shows.
        let _ = self.instance.write("tracing_on", "1");
    }

    /// Records no more for now.
    pub fn off(&mut self) {
        let _ = self.instance.write("tracing_on", "0");
    }

    /// Takes what is left and removes the instance.
    pub fn finish(mut self) -> (Option<RequestSummary>, Vec<Warning>) {
        self.end.store(true, Ordering::Release);
        let Some(Ok(collector)) = self.reader.take().map(JoinHandle::join) else { return (None, Vec::new()) };
        let lost = self.instance.lost();
        let summary = collector.finish(lost, self.bio_based);
        let mut warnings = Vec::new();
        if lost > 0 {
            let message = format!("{lost} events of block requests were lost: the sums are too small");
            warnings.push(Warning { kind: WarningKind::LostRequests, message });
        }
        (Some(summary), warnings)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        if let Some(reader) = self.reader.take() {
            // The instance cannot go while its pipe is open.
            let _ = reader.join();
        }
    }
}

/// Reads events until told to end and the buffer is empty.
fn read(mut pipe: File, end: &AtomicBool, mut collector: Collector) -> Collector {
    let mut buffer = vec![0; 64 << 10];
    let mut kept = 0;
    loop {
        let ending = end.load(Ordering::Acquire);
        match pipe.read(&mut buffer[kept..]) {
            Ok(count) if count > 0 => kept = take_lines(&mut buffer, kept + count, &mut collector),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // Nothing there now, or (0 bytes) recording is off and all was read.
            _ if ending => return collector,
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Takes the whole lines of the first `length` bytes; moves the rest to the front and returns how much that
/// is.
fn take_lines(buffer: &mut [u8], length: usize, collector: &mut Collector) -> usize {
    let Some(last) = buffer[..length].iter().rposition(|byte| *byte == b'\n') else {
        // A line that fills the buffer is none of ours.
        return if length == buffer.len() { 0 } else { length };
    };
    for line in buffer[..last].split(|byte| *byte == b'\n') {
        if let Some(event) = std::str::from_utf8(line).ok().and_then(parse) {
            collector.add(&event);
        }
    }
    buffer.copy_within(last + 1..length, 0);
    length - last - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_are_taken() {
        for name in ["fsage-1", "fsage-grep-77-abc"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["fsage-", "other", "fsage-../x", "fsage-A", "", "fsage-a/b", &"fsage-".repeat(20)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn lines_that_come_in_pieces_are_put_together() {
        let line = "      x-1 [000] ..... 1.000001: block_rq_issue: 7,1 R 4096 () 8 + 8 none,0,0 [x]\n";
        let text = line.repeat(3);
        for cut in 1..text.len() - 1 {
            let mut collector = Collector::new(0, u64::MAX);
            let mut buffer = vec![0; 4096];
            buffer[..cut].copy_from_slice(&text.as_bytes()[..cut]);
            let kept = take_lines(&mut buffer, cut, &mut collector);
            let rest = &text.as_bytes()[cut..];
            buffer[kept..kept + rest.len()].copy_from_slice(rest);
            assert_eq!(take_lines(&mut buffer, kept + rest.len(), &mut collector), 0);
            assert_eq!(collector.finish(0, false).reads.requests, 3, "cut at {cut}");
        }
    }
}
