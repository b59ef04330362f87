//! Counts what a disk does in stretches of time, leaving out what happens between them.

use std::path::Path;

use fsage_model::disk::call::Mark;
use fsage_model::disk::{DiskStat, DiskUse};

use super::{ControlError, VirtualDisk};

/// A meter on the virtual disk under a directory, if there is one; else it counts nothing. What goes wrong is
/// kept for [`take`](Meter::take), so that anyone who times something is not held up by it.
#[derive(Debug)]
pub struct Meter {
    disk: Option<VirtualDisk>,
    before: Option<DiskStat>,
    used: Option<DiskUse>,
    failed: Option<ControlError>,
}

impl Meter {
    /// A meter, not running, for what is done below `directory`.
    #[must_use]
    pub fn under(directory: &Path) -> Self {
        Self::on(VirtualDisk::under(directory))
    }

    /// A meter on `disk`.
    #[must_use]
    pub const fn on(disk: Option<VirtualDisk>) -> Self {
        Self { disk, before: None, used: None, failed: None }
    }

    /// Brings the disk to rest: what is done on it next takes as long as after any other rest.
    pub fn rest(&mut self) {
        if let Some(Err(error)) = self.disk.as_ref().map(VirtualDisk::rest) {
            self.failed.get_or_insert(error);
        }
    }

    /// Names the present position in the log that the disk keeps.
    pub fn mark(&mut self, name: String) {
        if let Some(Err(error)) = self.disk.as_ref().map(|disk| disk.ask(Mark { name })) {
            self.failed.get_or_insert(error);
        }
    }

    /// Starts or continues. Asks the disk: call it before the clock is started.
    pub fn start(&mut self) {
        self.before = self.look();
    }

    /// Holds. Asks the disk: call it after the clock was stopped.
    pub fn stop(&mut self) {
        let Some(before) = self.before.take() else { return };
        let Some(now) = self.look() else { return };
        let stretch = now.since(&before);
        match &mut self.used {
            Some(used) => used.add(stretch),
            None => self.used = Some(stretch),
        }
    }

    /// What was counted since it was made or last taken; `None` when there is no virtual disk or nothing was
    /// counted.
    ///
    /// # Errors
    /// The disk once did not answer.
    pub fn take(&mut self) -> Result<Option<DiskUse>, ControlError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(self.used.take()),
        }
    }

    fn look(&mut self) -> Option<DiskStat> {
        match self.disk.as_ref()?.stat() {
            Ok(stat) => Some(stat),
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::tests::scripted;
    use super::*;

    fn at(now_ns: u64) -> String {
        let counter = format!("{{\"name\":\"seeks\",\"unit\":\"1\",\"value\":{now_ns}}}");
        format!("{{\"ok\":{{\"disk\":{{\"clock_ns\":{now_ns},\"medium\":[{counter}]}}}}}}\n")
    }

    #[test]
    fn only_what_happens_while_it_runs_counts() {
        let folder = tempfile::tempdir().unwrap();
        let answers = [10, 15, 100, 101, 200, 230].map(at);
        let server =
            scripted(&folder.path().join("control"), &answers.iter().map(String::as_str).collect::<Vec<_>>());
        let mut meter = Meter::on(Some(VirtualDisk::at(folder.path().to_owned())));
        meter.stop();
        for _ in 0..2 {
            meter.start();
            meter.stop();
        }
        let found = meter.take().unwrap().unwrap();
        assert_eq!((found.elapsed_ns, found.counter("seeks")), (6, Some(6.0)));
        meter.start();
        meter.stop();
        assert_eq!(meter.take().unwrap().unwrap().elapsed_ns, 30);
        server.join().unwrap();
        meter.start();
        assert!(meter.take().is_err(), "nobody answers any more");
        assert_eq!(meter.take().unwrap(), None);
    }

    #[test]
    fn elsewhere_nothing_is_counted() {
        let mut meter = Meter::under(Path::new("/proc"));
        meter.start();
        meter.stop();
        assert_eq!(meter.take().unwrap(), None);
    }
}
