//! One run of fio, followed while it runs.
//!
//! With `--status-interval` fio writes a JSON document with everything since the ramp at each interval, and a last
//! one at its end (`fio(1)`), one after the other and with notes between them. Rates are differences of
//! neighbouring documents, and where the caller wants that, fio is asked to end (SIGINT, on which it writes its
//! last document as usual) once the rates are steady ([`fsage_model::steady_state`]). Only documents that are
//! complete count: what is cut off is none.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_model::fio::{FioRun, FioSample, steady_window};
use fsage_model::memory::MemoryGroup;
use fsage_model::protocol::Event;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Deserialize;

use crate::device::Device;
use crate::disk::VirtualDisk;
use crate::host::memory_group::Group;
use crate::host::tool::{self, Children, Course};
use crate::host::{HostError, mount};
use crate::load::Control;
use crate::measure::MeasureError;

/// Longest that fio may take to say its version.
const STARTS: Duration = Duration::from_secs(60);

/// Bytes of notes that are kept.
const NOTES: usize = 4096;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Order {
    /// `fio` and its arguments; the interval of its reports is added.
    pub argv: Vec<String>,
    /// Longest that it may run.
    pub limit: Duration,
    /// Milliseconds between two reports.
    pub round_ms: u64,
    /// Bytes read and written from which on it ends when it is steady; absent: it does not.
    pub steady_from: Option<u64>,
    /// The block device whose counters are read.
    pub device: PathBuf,
    /// The control group that it runs in, with the limit of its memory; absent: the agent's own.
    pub memory: Option<MemoryGroup>,
}

/// Runs fio.
///
/// # Errors
/// It is missing, does not end in time, or `control` stops it. A status other than 0 is a result.
pub fn run(
    order: &Order,
    children: &Children,
    control: &Control,
    progress: &mut dyn FnMut(Event),
) -> Result<FioRun, MeasureError> {
    // Until fio has ended.
    let _claim = claim(&order.device)?;
    let device = Device::of_node(&order.device);
    let disk = VirtualDisk::of_device(&order.device);
    let stat = || disk.as_ref().and_then(|disk| disk.stat().ok());
    let (counts, stat_before) = (device.as_ref().and_then(Device::counts), stat());
    let mut argv = order.argv.clone();
    argv.insert(1.min(argv.len()), format!("--status-interval={}ms", order.round_ms));
    let has_ramp = argv.iter().any(|word| word.starts_with("--ramp_time"));
    let mut group = order.memory.as_ref().map(Group::make).transpose()?;
    if group.is_some() {
        // Its program and libraries are in the page cache then, at the expense of the agent's group.
        tool::run(children, &[argv[0].clone(), "--version".to_owned()], Some(STARTS))?;
    }
    let procs = group.as_ref().map(Group::procs).transpose()?;
    let block_bytes = block_bytes(&order.argv);
    let mut follower = Follower { round_ms: order.round_ms, has_ramp, block_bytes, ..Follower::default() };
    let mut watch = |bytes: &[u8]| {
        let known = follower.samples.len();
        follower.add(bytes);
        if control.is_stopped() {
            return Course::Kill;
        }
        if follower.samples.len() > known {
            progress(follower.event());
            group.iter_mut().for_each(Group::sample);
        }
        // From here on it only has to end.
        follower.is_over |= follower.may_end(order.steady_from);
        if follower.is_over { Course::Interrupt } else { Course::Continue }
    };
    let watched =
        tool::run_watched(children, (&argv, procs), order.limit, &mut watch).map_err(
            |error| match error {
                _ if control.is_stopped() => MeasureError::Stopped,
                error => MeasureError::Host(error),
            },
        )?;
    if control.is_stopped() {
        return Err(MeasureError::Stopped);
    }
    let after = device.as_ref().and_then(Device::counts);
    // What the page cache has is still the group's.
    group.iter_mut().for_each(Group::sample);
    let json = follower.end();
    let Follower { notes, samples, .. } = follower;
    Ok(FioRun {
        status: watched.status,
        ended_steady: watched.interrupted,
        json,
        said: format!("{}{}", String::from_utf8_lossy(&notes), watched.stderr),
        samples,
        device: after.zip(counts).map(|(after, before)| after.since(&before)),
        disk: stat().zip(stat_before).map(|(after, before)| after.since(&before)),
        elapsed_ns: watched.elapsed_ns,
        memory: group.map(|group| group.used()),
    })
}

/// Claims a device that is not mounted, as mkfs and mount claim theirs: while this is held nobody makes a file
/// system, swap or a part of a larger device of it, and it is refused where somebody has.
fn claim(device: &Path) -> Result<Option<File>, HostError> {
    let exclusive = OFlags::EXCL.bits().cast_signed();
    match File::options().read(true).custom_flags(exclusive).open(device) {
        Ok(claimed) => Ok(Some(claimed)),
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            // What is mounted has claimed it.
            let is_mounted = mount::table().iter().any(|entry| entry.source == device);
            if is_mounted { Ok(None) } else { Err(HostError::Claimed { device: device.to_owned() }) }
        }
        Err(error) => Err(HostError::file("open", device)(error)),
    }
}

/// Bytes of an operation, where all jobs have one block size in bytes.
fn block_bytes(argv: &[String]) -> Option<u64> {
    const OTHERS: [&str; 4] = ["--bsrange", "--bssplit", "--blocksize", "--bs_unaligned"];
    let sizes: Vec<&str> = argv.iter().filter_map(|word| word.strip_prefix("--bs=")).collect();
    let jobs = argv.iter().filter(|word| word.starts_with("--name=")).count();
    let has_other = argv.iter().any(|word| OTHERS.iter().any(|other| word.starts_with(other)));
    let first = *sizes.first()?;
    let is_one = sizes.len() == jobs && !has_other && sizes.iter().all(|size| *size == first);
    first.parse().ok().filter(|bytes| is_one && *bytes > 0)
}

/// What one of fio's documents says of the run so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Total {
    at_ms: u64,
    /// Operations that were complete; of jobs that count no latencies, those that were begun.
    operations: u64,
    bytes: u64,
    /// Operations whose latency fio counted: none during the ramp.
    timed: u64,
}

#[derive(Deserialize)]
struct Document {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    read: Direction,
    #[serde(default)]
    write: Direction,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Direction {
    total_ios: u64,
    io_bytes: u64,
    /// Milliseconds.
    runtime: u64,
    clat_ns: Latency,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Latency {
    #[serde(rename = "N")]
    operations: u64,
}

/// Reads fio's output as it comes.
#[derive(Debug, Default)]
struct Follower {
    round_ms: u64,
    /// Bytes of an operation, where all have as many.
    block_bytes: Option<u64>,
    /// Whether the job has a ramp, of which fio's documents tell as of any other time, but for the latencies.
    has_ramp: bool,
    /// The line that is not over, then those of the document that is not.
    line: Vec<u8>,
    document: Option<Vec<u8>>,
    /// The last complete document.
    last: String,
    notes: Vec<u8>,
    total: Total,
    samples: Vec<FioSample>,
    /// Nothing more is counted.
    is_over: bool,
}

impl Follower {
    /// The last document, fio's figures of the whole run; empty where it was cut off, because the one before it
    /// says less.
    fn end(&mut self) -> String {
        let is_whole = self.document.is_none() && self.line.trim_ascii().is_empty();
        if is_whole { std::mem::take(&mut self.last) } else { String::new() }
    }

    /// Whether the rates are steady, once so many bytes were read and written after the ramp. What is shorter than a
    /// round does not count yet.
    fn may_end(&self, steady_from: Option<u64>) -> bool {
        steady_from.is_some_and(|bytes| self.total.bytes >= bytes) && steady_window(&self.samples).is_some()
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.line.push(byte);
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.take_line(&line);
            }
        }
    }

    /// fio begins and ends a document with a brace alone in its line, without indentation.
    fn take_line(&mut self, line: &[u8]) {
        let text = line.trim_ascii_end();
        match &mut self.document {
            None if text == b"{" => self.document = Some(line.to_vec()),
            None => {
                if self.notes.len() < NOTES {
                    self.notes.extend_from_slice(line);
                }
            }
            Some(document) => {
                document.extend_from_slice(line);
                if text == b"}" {
                    let document = self.document.take().unwrap_or_default();
                    self.take_document(&document);
                }
            }
        }
    }

    fn take_document(&mut self, document: &[u8]) {
        let Ok(read) = serde_json::from_slice::<Document>(document) else { return };
        let mut total = Total::default();
        for direction in read.jobs.iter().flat_map(|job| [&job.read, &job.write]) {
            total.at_ms = total.at_ms.max(direction.runtime);
            total.operations += direction.total_ios;
            total.bytes += direction.io_bytes;
            total.timed += direction.clat_ns.operations;
        }
        self.last = String::from_utf8_lossy(document).into_owned();
        if total.timed > 0 {
            // What is only begun is not done. fio reads time and bytes of complete operations together; the numbers of operations it
            // reads later, once every thread has answered, which one that waits for its requests does not at once.
            total.operations = self.block_bytes.map_or(total.timed, |block_bytes| total.bytes / block_bytes);
        }
        // The ramp is over, and counting begins again.
        let is_reset = total.operations < self.total.operations
            || total.bytes < self.total.bytes
            || total.at_ms < self.total.at_ms;
        let is_ramp = self.has_ramp && total.timed == 0;
        if is_reset || is_ramp {
            self.samples.clear();
            self.total = Total::default();
        }
        if is_ramp {
            return;
        }
        let interval_ms = total.at_ms - self.total.at_ms;
        // The first and the last report come when they come: what is much shorter than a round belongs to the
        // next one.
        if !self.is_over && interval_ms >= (self.round_ms * 3 / 4).max(1) {
            self.samples.push(FioSample {
                at_ms: total.at_ms,
                interval_ms,
                operations: total.operations - self.total.operations,
                bytes: total.bytes - self.total.bytes,
            });
            self.total = total;
        }
    }

    fn event(&self) -> Event {
        let rate = self.samples.last().map_or(0.0, FioSample::iops);
        Event::Progress {
            operations: self.total.operations,
            elapsed_ns: self.total.at_ms.saturating_mul(1_000_000),
            share: None,
            note: format!("{rate:.0} operations/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(at_ms: u64, operations: u64) -> String {
        format!(
            "{{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n    {{ \"read\" : {{ \"runtime\" : {at_ms}, \"total_ios\" : {operations}, \
             \"io_bytes\" : {} }} }}\n  ]\n}}\n",
            operations * 4096
        )
    }

    fn follower() -> Follower {
        Follower { round_ms: 250, ..Follower::default() }
    }

    #[test]
    fn documents_are_found_between_notes_however_they_are_cut() {
        let output = format!(
            "note\n{}{}fio: terminating on signal 2\n{}",
            document(17, 400),
            document(267, 9000),
            document(270, 9100)
        );
        for size in [1, 7, 64, output.len()] {
            let mut follower = follower();
            output.as_bytes().chunks(size).for_each(|part| follower.add(part));
            assert_eq!(follower.last, document(270, 9100));
            let sample = FioSample { at_ms: 267, interval_ms: 267, operations: 9000, bytes: 9000 * 4096 };
            assert_eq!(follower.samples, [sample], "what is too short is no round");
            assert!(follower.notes.starts_with(b"note\nfio: terminating"));
        }
    }

    #[test]
    fn a_document_that_is_cut_off_is_none() {
        let whole = document(300, 10);
        let mut follower = follower();
        follower.add(whole.as_bytes());
        follower.add(&document(600, 20).as_bytes()[..whole.len() - 4]);
        assert_eq!((follower.last.as_str(), follower.samples.len()), (whole.as_str(), 1));
        assert_eq!(follower.end(), "", "what came before says less");
        let mut all = self::follower();
        all.add(whole.as_bytes());
        assert_eq!(all.end(), whole);
        let mut none = self::follower();
        none.add(&whole.as_bytes()[..whole.len() - 2]);
        assert_eq!(none.last, "");
    }

    #[test]
    fn a_ramp_is_never_steady() {
        let round = |at_ms: u64, timed: u64| {
            format!(
                "{{\n  \"jobs\" : [\n    {{ \"read\" : {{ \"runtime\" : {at_ms}, \"total_ios\" : {at_ms}, \"io_bytes\" : 4096, \
                 \"clat_ns\" : {{ \"N\" : {timed} }} }} }}\n  ]\n}}\n"
            )
        };
        let mut follower = Follower { has_ramp: true, ..follower() };
        (1..=8).for_each(|number| follower.add(round(number * 250, 0).as_bytes()));
        assert!(follower.samples.is_empty() && steady_window(&follower.samples).is_none());
        (1..=8).for_each(|number| follower.add(round(number * 250, number).as_bytes()));
        assert_eq!(follower.samples.len(), 8);
        assert!(steady_window(&follower.samples).is_some());
        // Jobs whose latencies are not counted at all have no ramp to be distinguished from.
        let mut without = self::follower();
        (1..=8).for_each(|number| without.add(round(number * 250, 0).as_bytes()));
        assert_eq!(without.samples.len(), 8);
    }

    #[test]
    fn a_steady_rate_ends_nothing_before_enough_bytes_moved() {
        let mut follower = follower();
        (1..=5).for_each(|round| follower.add(document(round * 250, round * 100).as_bytes()));
        let bytes = 500 * 4096;
        assert!(follower.may_end(Some(0)) && follower.may_end(Some(bytes)));
        assert!(!follower.may_end(Some(bytes + 1)) && !follower.may_end(None));
        follower.add(document(6 * 250, 600).as_bytes());
        assert!(follower.may_end(Some(bytes + 1)));
        follower.add(document(7 * 250, 900).as_bytes());
        assert!(!follower.may_end(Some(bytes)), "the rate rose");
    }

    /// With large blocks and many threads the counts of operations come a second later than the bytes.
    #[test]
    fn operations_are_those_of_the_bytes_where_all_have_one_size() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (argv, expected) in [
            ("fio --name=a --bs=4096 --name=b --bs=4096", Some(4096)),
            ("fio --name=a --bs=4096 --name=b --bs=8192", None),
            ("fio --name=a --bs=4096 --name=b", None),
            ("fio --name=a --bs=4096 --bsrange=4k-8k", None),
            ("fio --name=a --bs=4k", None),
            ("fio --name=a", None),
        ] {
            assert_eq!(block_bytes(&words(argv)), expected, "{argv}");
        }
        let report = |at_ms: u64, begun: u64, bytes: u64, timed: u64| {
            format!(
                "{{\n  \"jobs\" : [\n    {{ \"write\" : {{ \"runtime\" : {at_ms}, \"total_ios\" : {begun}, \"io_bytes\" : {bytes}, \
                 \"clat_ns\" : {{ \"N\" : {timed} }} }} }}\n  ]\n}}\n"
            )
        };
        let large = 4 << 20;
        let mut follower = Follower { block_bytes: Some(large), ..follower() };
        for (at_ms, begun, blocks, timed) in [(1522, 78, 15, 46), (1772, 90, 22, 58)] {
            follower.add(report(at_ms, begun, blocks * large, timed).as_bytes());
        }
        let found: Vec<u64> = follower.samples.iter().map(|one| one.operations).collect();
        assert_eq!(found, [15, 7]);
    }

    #[test]
    fn counting_begins_again_after_the_ramp() {
        let mut follower = follower();
        for (at_ms, operations) in [(250, 100), (500, 200), (100, 50), (350, 150), (600, 260)] {
            follower.add(document(at_ms, operations).as_bytes());
        }
        let found: Vec<(u64, u64)> = follower.samples.iter().map(|one| (one.at_ms, one.operations)).collect();
        assert_eq!(found, [(350, 150), (600, 110)]);
    }
}
