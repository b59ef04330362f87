//! Probes: what the volume looks like, with the load stopped and everything written out.

use fsage_model::layout::{FreeSpace, LayoutSummary};
use fsage_model::load::Probe;
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;

use super::fullness::Usage;
use super::setup::TestDirectory;
use super::{LoadError, LoadSink};
use crate::device::Device;
use crate::layout;

/// Makes the probes of a load.
#[derive(Debug)]
pub struct Prober {
    test_directory: TestDirectory,
    threads: usize,
    layout: bool,
    /// Layouts are scanned in detail.
    detail: bool,
    trim: bool,
    counts_at_once: bool,
    device: Option<Device>,
    device_start: Option<u64>,
    device_bytes: Option<u64>,
    last_operations: Option<u64>,
    warned: Vec<WarningKind>,
}

impl Prober {
    pub fn new(
        test_directory: &TestDirectory,
        threads: usize,
        layout: bool,
        detail: bool,
        trim: bool,
        counts_at_once: bool,
    ) -> Self {
        let device = Device::under(&test_directory.held());
        let device_start = device.as_ref().and_then(Device::bytes_written);
        Self {
            test_directory: test_directory.clone(),
            threads,
            layout,
            detail,
            trim,
            counts_at_once,
            device,
            device_start,
            device_bytes: None,
            last_operations: None,
            warned: Vec::new(),
        }
    }

    /// Whether each probe inspects every file.
    pub const fn walks(&self) -> bool {
        self.layout
    }

    /// Whether the volume's use is known without writing anything out.
    pub const fn counts_at_once(&self) -> bool {
        self.counts_at_once
    }

    /// Operations at the last probe.
    pub const fn last_operations(&self) -> Option<u64> {
        self.last_operations
    }

    /// Bytes written to the device since the load began, as of the last probe.
    pub const fn device_bytes(&self) -> Option<u64> {
        self.device_bytes
    }

    /// Bytes written to the device since the load began, as of now.
    pub fn device_bytes_now(&self) -> Option<u64> {
        let now = self.device.as_ref()?.bytes_written()?;
        Some(now.saturating_sub(self.device_start?))
    }

    /// Use of the volume, right on every file system.
    pub fn usage(&self) -> Result<Usage, LoadError> {
        if !self.counts_at_once {
            self.test_directory.sync()?;
        }
        self.test_directory.settled_usage()
    }

    /// Makes a probe; latencies are left to the caller.
    pub fn probe(
        &mut self,
        operations: u64,
        elapsed_ns: u64,
        files: u64,
        sink: &mut dyn LoadSink,
    ) -> Result<Probe, LoadError> {
        self.test_directory.sync()?;
        self.device_bytes = self.device_bytes_now();
        self.last_operations = Some(operations);
        let usage = self.test_directory.settled_usage()?;
        let free_space = self.free_space(sink);
        let layout = if self.layout { Some(self.scan()?) } else { None };
        if self.trim
            && let Err(error) = fsage_sys::fitrim::trim(self.test_directory.fd())
        {
            self.warn(
                sink,
                WarningKind::Trim,
                &format!("fstrim did nothing: {}", fsage_sys::errno::name(error.errno())),
            );
        }
        Ok(Probe {
            operations,
            elapsed_ns,
            used_bytes: usage.used_bytes,
            total_bytes: usage.total_bytes,
            files,
            device_bytes_written: self.device_bytes,
            free_space,
            layout,
            latency: std::collections::BTreeMap::new(),
            interval_log: Vec::new(),
            disk: None,
        })
    }

    /// Layout of what the load made.
    pub fn scan(&self) -> Result<LayoutSummary, LoadError> {
        let path = self.test_directory.path();
        layout::scan_load(&self.test_directory.held(), self.threads, self.detail)
            .map_err(|error| LoadError::Layout { path: path.to_owned(), what: error.to_string() })
    }

    /// Free space, where it can be known.
    pub fn free_space_now(&self) -> Option<FreeSpace> {
        layout::free_space(&self.test_directory.held()).ok()
    }

    fn free_space(&mut self, sink: &mut dyn LoadSink) -> Option<FreeSpace> {
        match layout::free_space(&self.test_directory.held()) {
            Ok(free) => Some(free),
            Err(error) => {
                self.warn(
                    sink,
                    WarningKind::FragmentationEstimate,
                    &format!("free space cannot be mapped: {error}"),
                );
                None
            }
        }
    }

    /// Says something once.
    fn warn(&mut self, sink: &mut dyn LoadSink, kind: WarningKind, message: &str) {
        if !self.warned.contains(&kind) {
            self.warned.push(kind.clone());
            sink.warning(Warning { kind, message: message.to_owned() });
        }
    }
}
