//! A virtual disk under a loop device: a medium of choice, in memory.
//!
//! The disk's folder lies below the runtime folder, because the path of a Unix socket is short, and is named
//! after the store and the volume, so that two runs never share one. One lease covers all of it: the server,
//! its mount and the folder.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_engine::host::disk::FILE;
use fsage_model::disk::DiskTime;
use fsage_model::disk::call as disk_call;
use fsage_model::extent::Extent;
use fsage_model::fault::FaultSpec;
use fsage_model::medium::PartitionSpec;
use fsage_model::protocol::{BlockFacts, call};
use fsage_model::size::Bytes;
use fsage_model::study::{DiskOptions, QueueSpec, SIZES, stack as study_stack};

use super::{Taking, VolumeError, stack};
use crate::lease::record::Lease;
use crate::lease::runtime;
use crate::target::Session;
use crate::tools::Invocation;
use crate::tools::fsage_disk::{self, Up};

/// Largest request that reaches the server in one piece, in KiB: the kernel's FUSE takes no more, and a
/// larger limit would only split requests unevenly.
const REQUEST_KIB: &str = "1024";

/// Longest that saving a log may take: some 100 million requests on a slow disk.
const SAVE_LOG: Duration = Duration::from_secs(3600);

/// Memory of the host, in percent, that a trial's disk may fill before it packs what was not used lately:
/// packing costs a trial more time than its memory is worth.
const TRIAL_UNPACKED_PERCENT: u8 = 4;

/// A virtual disk, checked, not yet taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskVolume {
    options: DiskOptions,
    place: DiskDirectory,
    /// Trials that run at the same time, whose disks share the host's memory.
    trials: u32,
    /// It is a guest's, whose host serves it.
    is_of_host: bool,
}

/// Where a disk is served from, and how long.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DiskDirectory {
    /// A folder named after this path and the volume, for as long as the agent lives.
    Of(PathBuf),
    /// This folder, until it is taken down.
    At(PathBuf),
}

impl DiskVolume {
    /// One for as long as the agent lives; `owner` (the store) tells it from others.
    ///
    /// # Errors
    /// Its options are invalid.
    pub fn new(options: DiskOptions, owner: &Path) -> Result<Self, VolumeError> {
        Self::at(options, DiskDirectory::Of(owner.to_owned()))
    }

    /// One that is served from `directory` until it is taken down.
    ///
    /// # Errors
    /// Its options are invalid.
    pub fn lasting(options: DiskOptions, directory: &Path) -> Result<Self, VolumeError> {
        Self::at(options, DiskDirectory::At(directory.to_owned()))
    }

    fn at(options: DiskOptions, place: DiskDirectory) -> Result<Self, VolumeError> {
        let wrong = |key, what: String| Err(VolumeError::Spec { key, what });
        let size = options.size;
        if !matches!(options.block_bytes, 512 | 4096) {
            return wrong("block_bytes", format!("must be 512 or 4096, not {}", options.block_bytes));
        }
        if !SIZES.contains(&size.0) {
            let (least, most) = (Bytes(*SIZES.start()), Bytes(*SIZES.end()));
            return wrong("size", format!("must be from {least} to {most}, not {size}"));
        }
        if !size.0.is_multiple_of(4096) {
            return wrong("size", format!("must be a multiple of 4096 bytes, not {} bytes", size.0));
        }
        let bytes = |sum: u64, partition: &PartitionSpec| sum.saturating_add(partition.size.0);
        if !options.partitions.is_empty() && options.partitions.iter().fold(0, bytes) != size.0 {
            return wrong("size", "must be that of all partitions together".to_owned());
        }
        if let Some((_, what)) = study_stack::problem(
            options.drives,
            options.fast.as_ref().map(|(size, _)| size.0),
            &options.stack,
        ) {
            return wrong("stack", what);
        }
        if options.spill.as_ref().is_some_and(|spill| spill.is_relative()) {
            return wrong("spill", "must be an absolute path".to_owned());
        }
        Ok(Self { options, place, trials: 1, is_of_host: false })
    }

    /// The same beside so many trials in all, whose disks share the host's memory.
    pub(super) const fn beside(&mut self, trials: u32) {
        self.trials = trials;
    }

    /// The same where it is a guest's, whose host serves it.
    pub(super) const fn of_host(&mut self) {
        self.is_of_host = true;
    }

    /// What it is to be.
    #[must_use]
    pub const fn options(&self) -> &DiskOptions {
        &self.options
    }

    /// Whether layers lie between its drives and the file system.
    pub(super) const fn is_stack(&self) -> bool {
        !self.options.stack.is_empty()
    }

    /// Size of the disk.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.options.size.0
    }

    /// Scheduler and settings of the queue wanted, if any.
    #[must_use]
    pub fn queue(&self) -> (Option<&str>, &QueueSpec) {
        (self.options.scheduler.as_deref(), &self.options.queue)
    }

    /// The folder of the disk called `name`.
    #[must_use]
    pub fn directory(&self, name: &str) -> PathBuf {
        let owner = match &self.place {
            DiskDirectory::At(directory) => return directory.clone(),
            DiskDirectory::Of(owner) => owner,
        };
        let mut hash = blake3::Hasher::new();
        hash.update(owner.as_os_str().as_bytes()).update(b"\n").update(name.as_bytes());
        let name = hash.finalize().to_hex();
        runtime::shared().join("volumes").join(name.as_str().get(..16).unwrap_or("volume"))
    }

    fn up<'a>(&'a self, directory: &'a Path) -> Up<'a> {
        let options = &self.options;
        Up {
            directory,
            size_bytes: options.size.0,
            partitions: &options.partitions,
            drives: options.drives,
            fast: options.fast.as_ref().map(|(size, medium)| (size.0, medium.as_str())),
            medium: &options.medium,
            block_bytes: options.block_bytes,
            time: options.time,
            cpu: options.cpu,
            log: options.log,
            memory_bytes: options.memory.map(|bytes| bytes.0),
            memory_shares: self.trials,
            spill: options.spill.as_deref(),
            pack_above_percent: matches!(self.place, DiskDirectory::Of(_)).then_some(TRIAL_UNPACKED_PERCENT),
            nbd: options.nbd || self.is_of_host,
            faults: options.faults.as_deref(),
        }
    }

    pub(super) fn describe(&self, name: &str) -> Vec<String> {
        let mut lines = vec![self.serve_line(name)];
        if self.is_of_host {
            return lines;
        }
        for part in self.parts() {
            lines.extend(self.describe_part(name, part));
        }
        let DiskOptions { stack: layers, drives, .. } = &self.options;
        let drive = Bytes(self.drive_bytes());
        lines.extend(stack::describe(layers, &self.layer_name(name), *drives, drive, self.fast_bytes()));
        lines
    }

    /// What serves it, as a shell would read it.
    pub(super) fn serve_line(&self, name: &str) -> String {
        fsage_disk::up(&self.up(&self.directory(name))).to_string()
    }

    /// What attaches a part of it, as a shell would read it.
    pub(super) fn describe_part(&self, name: &str, part: Option<Extent>) -> [String; 2] {
        [
            self.attach_line(&self.directory(name).join(FILE), part),
            format!("echo {REQUEST_KIB} >/sys/block/loopN/queue/max_sectors_kb"),
        ]
    }

    fn attach_line(&self, file: &Path, part: Option<Extent>) -> String {
        let part = part.map_or_else(String::new, |part| {
            format!(" --offset {} --sizelimit {}", part.start_bytes, part.size_bytes)
        });
        let block_bytes = self.options.block_bytes;
        format!("losetup --find --show --direct-io=on -b {block_bytes}{part} {}", file.display())
    }

    /// What each block device has of the file that is served: all of it, or one partition after the other.
    fn parts(&self) -> Vec<Option<Extent>> {
        let DiskOptions { partitions, drives, .. } = &self.options;
        let sizes: Vec<u64> = match (partitions.is_empty(), *drives, self.fast_bytes()) {
            (true, 0 | 1, None) => return vec![None],
            (true, drives, fast) => (0..drives).map(|_| self.drive_bytes()).chain(fast).collect(),
            (false, ..) => partitions.iter().map(|partition| partition.size.0).collect(),
        };
        let place = |start_bytes: &mut u64, size_bytes| {
            let extent = Extent { start_bytes: *start_bytes, size_bytes };
            *start_bytes = extent.end_bytes();
            Some(Some(extent))
        };
        sizes.into_iter().scan(0, place).collect()
    }

    /// Size of the drive for a layer that caches, if there is one.
    fn fast_bytes(&self) -> Option<u64> {
        self.options.fast.as_ref().map(|(size, _)| size.0)
    }

    /// Size of each of the other drives.
    fn drive_bytes(&self) -> u64 {
        let DiskOptions { size, drives, .. } = &self.options;
        size.0.saturating_sub(self.fast_bytes().unwrap_or(0)) / u64::from((*drives).max(1))
    }

    /// Whether it keeps a log of its requests.
    pub(super) const fn keeps_log(&self) -> bool {
        self.options.log
    }

    /// Names the present position in its log, where it keeps one.
    pub(super) fn mark(&self, session: &mut Session, name: &str, mark: &str) -> Result<(), VolumeError> {
        if self.options.log {
            let mark = disk_call::Mark { name: mark.to_owned() };
            fsage_disk::ask(&self.directory(name), &mark.into())
                .run_checked(session)
                .map_err(VolumeError::Log)?;
        }
        Ok(())
    }

    /// Brings faults into the disk in the place of those it has, or takes all out.
    pub(super) fn set_faults(
        &self,
        session: &mut Session,
        name: &str,
        faults: Option<FaultSpec>,
    ) -> Result<(), VolumeError> {
        let directory = self.directory(name);
        let ask = match faults {
            Some(faults) => fsage_disk::ask(&directory, &disk_call::SetFaults { faults }.into()),
            None => fsage_disk::ask(&directory, &disk_call::ClearFaults.into()),
        };
        ask.run_checked(session)?;
        Ok(())
    }

    /// What writes its log, without what was written to the disk, to a file that is not there yet; nothing
    /// where it keeps none.
    pub(super) fn save_log(&self, name: &str, file: &Path) -> Option<Invocation> {
        let save = disk_call::SaveLog { file: file.to_owned(), without_data: true };
        self.options.log.then(|| fsage_disk::ask(&self.directory(name), &save.into()).within(SAVE_LOG))
    }

    /// Serves it and attaches it: the facts of its block devices, one for each partition.
    pub(super) fn take(&self, taking: &mut Taking<'_>, name: &str) -> Result<Vec<BlockFacts>, VolumeError> {
        if self.is_of_host {
            return Ok(vec![self.take_from_host(taking)?]);
        }
        let file = self.serve(taking, name)?;
        let attached = self.parts().into_iter().map(|part| self.attach(taking, &file, part));
        let mut drives = attached.collect::<Result<Vec<_>, _>>()?;
        let fast = if self.options.fast.is_some() { drives.pop() } else { None };
        stack::build(taking, &self.options.stack, &self.layer_name(name), drives, fast)
    }

    /// The block device by which this guest's host serves it.
    fn take_from_host(&self, taking: &mut Taking<'_>) -> Result<BlockFacts, VolumeError> {
        let device = taking.session.call(call::ServedDevice)?.ok_or(VolumeError::NoServedDisk)?;
        let facts = taking.facts(&device)?;
        taking.hold(&facts)?;
        for (setting, value) in self.queue_settings() {
            taking.queue_setting(&device, setting, value)?;
        }
        taking.facts(&device)
    }

    /// The same on another host that shares it, whose settings end with that host.
    pub(super) fn take_there(&self, session: &mut Session) -> Result<(), VolumeError> {
        let device = session.call(call::ServedDevice)?.ok_or(VolumeError::NoServedDisk)?;
        let facts = session.call(call::BlockFacts { device: device.clone() })?;
        session.call(call::HoldDevice { device: device.clone(), identity: facts.identity })?;
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (setting, value) in self.queue_settings() {
            let path = super::queue_setting(&name, setting);
            // As on the first host, one that its kernel does not have is left alone.
            if session.call(call::Get { path: path.clone() }).is_ok() {
                session.call(call::Set { path, value: value.to_owned() })?;
            }
        }
        Ok(())
    }

    /// Settings of its queue and their values.
    const fn queue_settings(&self) -> [(&'static str, &'static str); 3] {
        let rotational = if self.options.rotational { "1" } else { "0" };
        [("max_sectors_kb", REQUEST_KIB), ("wbt_lat_usec", "0"), ("rotational", rotational)]
    }

    /// What the names of its layers tell it by: 16 hexadecimal digits, as its folder has.
    fn layer_name(&self, name: &str) -> String {
        self.directory(name).file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Serves it, and gives the file.
    pub(super) fn serve(&self, taking: &mut Taking<'_>, name: &str) -> Result<PathBuf, VolumeError> {
        let directory = &self.directory(name);
        if matches!(self.place, DiskDirectory::Of(_)) {
            // Nobody else may have made it: what lies in it decides which processes are ended.
            runtime::make(Path::new("volumes"))?;
        }
        taking.lease(Lease::Disk { directory: directory.to_owned() })?;
        // A run that was killed may have left one of this name.
        taking.session.call(call::EndDisk { directory: directory.to_owned() })?;
        taking.session.call(call::MakeDirectory { directory: directory.to_owned() })?;
        let invocation = fsage_disk::up(&self.up(directory));
        let invocation =
            if matches!(self.place, DiskDirectory::At(_)) { invocation.outliving() } else { invocation };
        taking.commands.push(invocation.to_string());
        let output = invocation.run_checked(taking.session)?;
        let served = fsage_disk::served(&output)
            .map_err(|_| VolumeError::NotServed { command: invocation.to_string(), said: output.tail() })?;
        Ok(served.file)
    }

    /// Attaches the file that is served, or a part of it.
    pub(super) fn attach(
        &self,
        taking: &mut Taking<'_>,
        file: &Path,
        part: Option<Extent>,
    ) -> Result<BlockFacts, VolumeError> {
        taking.lease(match part {
            Some(part) => Lease::loop_at(file, part.start_bytes),
            None => Lease::loop_over(file),
        })?;
        taking.commands.push(self.attach_line(file, part));
        let device = taking.session.call(call::LoopAttach {
            file: file.to_owned(),
            size_bytes: None,
            sector_bytes: self.options.block_bytes,
            direct_io: true,
            part,
        })?;
        for (setting, value) in self.queue_settings() {
            taking.queue_setting(&device, setting, value)?;
        }
        // Its reads would be in the log, and faults count them. One of several devices stands for all.
        let first = part.is_none_or(|part| part.start_bytes == 0);
        let counted = self.options.log || self.options.faults.is_some();
        if self.options.time == DiskTime::Real && first && !counted {
            taking.session.call(call::CompensateDelay { device: device.clone() })?;
        }
        taking.facts(&device)
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::disk::DiskCpu;
    use fsage_model::layer::LayerDevice;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::lease::Journal;
    use crate::target::Target;
    use crate::volume::Volume;
    use fsage_model::protocol::{Call as _, Reply, Request, ToolOutput};

    fn options() -> DiskOptions {
        DiskOptions {
            size: Bytes(1 << 30),
            partitions: Vec::new(),
            drives: 1,
            fast: None,
            stack: Vec::new(),
            medium: "hdd-7200".to_owned(),
            rotational: true,
            block_bytes: 4096,
            time: DiskTime::Model,
            cpu: DiskCpu::Ignored,
            log: false,
            memory: None,
            spill: None,
            nbd: false,
            faults: None,
            scheduler: None,
            queue: QueueSpec::default(),
        }
    }

    /// A session whose disk says `stdout`, and what it is asked.
    fn session(stdout: &'static str) -> (Session, Arc<Mutex<Vec<String>>>) {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let mut max_sectors_kb = "1280".to_owned();
        let session = Target::scripted(Box::new(move |request, _| {
            seen.lock().unwrap().push(request.name());
            Some(match request {
                Request::RunTool(call::RunTool { argv, .. })
                | Request::StartServer(call::StartServer { argv, .. }) => {
                    Reply::of::<call::RunTool>(&ToolOutput {
                        argv: argv.clone(),
                        status: i32::from(stdout.is_empty()),
                        stdout: stdout.to_owned(),
                        stderr: "no such medium".to_owned(),
                        elapsed_ns: 1,
                    })
                }
                Request::LoopAttach(attach) => attach.reply(&"/dev/loop77".into()),
                // One setting as it should be, one that is not, and one that this kernel does not have.
                Request::Get(get) if get.path.ends_with("max_sectors_kb") => get.reply(&max_sectors_kb),
                Request::Set(set) => set.reply(&std::mem::replace(&mut max_sectors_kb, set.value.clone())),
                Request::Get(get) if get.path.ends_with("rotational") => get.reply(&"1".to_owned()),
                Request::Get(_) => Err(missing()),
                Request::BlockFacts(facts) => {
                    facts.reply(&BlockFacts { size_bytes: 1 << 30, ..BlockFacts::default() })
                }
                _ => Ok(Reply::done()),
            })
        }));
        (session, asked)
    }

    fn missing() -> fsage_model::protocol::Failure {
        fsage_model::protocol::Failure {
            message: "no".to_owned(),
            hint: String::new(),
            errno: Some(2),
            kind: fsage_model::protocol::FailureKind::Failed,
        }
    }

    const SERVED: &str = r#"{"pid":7,"start_ticks":9,"file":"/run/fsage/volumes/x/mount/disk","control":"/run/fsage/volumes/x/control"}"#;

    #[test]
    fn it_is_leased_before_it_is_started_and_released_in_reverse() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        let (mut session, asked) = session(SERVED);
        let volume = Volume::Disk(DiskVolume::new(options(), Path::new("/store")).unwrap());
        let acquired = volume.acquire(&mut session, &mut journal, "t1").unwrap();
        let taken: Vec<_> = journal.outstanding().iter().map(|record| record.lease.clone()).collect();
        assert!(
            matches!(&taken[0], Lease::Disk { directory } if directory.parent().is_some_and(|folder| folder.ends_with("volumes")))
        );
        assert!(matches!(&taken[1], Lease::Loop { .. }) && matches!(&taken[2], Lease::Setting { .. }));
        assert_eq!(taken.len(), 3);
        volume.release(acquired, &mut session, &mut journal).unwrap();
        let order = "end-disk make-directory run-tool loop-attach get set get get get block-facts restore loop-detach end-disk";
        assert_eq!(asked.lock().unwrap().join(" "), order);
        assert!(journal.outstanding().is_empty());
    }

    #[test]
    fn each_partition_of_a_drive_is_a_device_with_a_lease_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        let (mut session, asked) = session(SERVED);
        let partitions = vec!["1GiB@outer".parse().unwrap(), "2GiB@inner".parse().unwrap()];
        let options = DiskOptions { size: Bytes(3 << 30), partitions, ..options() };
        let volume = Volume::Disk(DiskVolume::new(options, Path::new("/store")).unwrap());
        let lines = volume.describe("d");
        assert!(
            lines[0].contains(" --partition 1073741824@outer --partition 2147483648@inner "),
            "{lines:?}"
        );
        assert!(lines[3].contains(" --offset 1073741824 --sizelimit 2147483648 "), "{lines:?}");
        let acquired = volume.acquire(&mut session, &mut journal, "d").unwrap();
        assert_eq!(acquired.devices.len(), 2);
        let offsets: Vec<Option<u64>> = journal
            .outstanding()
            .iter()
            .filter_map(|record| match record.lease {
                Lease::Loop { offset_bytes, .. } => Some(offset_bytes),
                _ => None,
            })
            .collect();
        assert_eq!(offsets, [Some(0), Some(1 << 30)]);
        volume.release(acquired, &mut session, &mut journal).unwrap();
        let asked = asked.lock().unwrap().join(" ");
        assert!(asked.ends_with("loop-detach restore loop-detach end-disk"), "{asked}");
        assert!(journal.outstanding().is_empty());
    }

    #[test]
    fn layers_are_leased_before_they_are_made_and_taken_down_from_the_top() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        let (mut session, asked) = session(SERVED);
        let stack = serde_json::from_str(r#"[{"kind":"raid","level":1},{"kind":"crypt"}]"#).unwrap();
        let options = DiskOptions { size: Bytes(2 << 30), drives: 2, stack, ..options() };
        let volume = Volume::Disk(DiskVolume::new(options, Path::new("/store")).unwrap());
        let lines = volume.describe("d").join("\n");
        for wanted in [
            " --drives 2 ",
            " --offset 1073741824 --sizelimit 1073741824 ",
            "mdadm --create ",
            " crypt aes-xts-plain64 ",
        ] {
            assert!(lines.contains(wanted), "{wanted}: {lines}");
        }
        let acquired = volume.acquire(&mut session, &mut journal, "d").unwrap();
        // The uppermost layer is the volume, and below it are the others and the drives.
        assert_eq!(acquired.devices.len(), 4);
        let layers: Vec<LayerDevice> = journal
            .outstanding()
            .iter()
            .filter_map(|record| match record.lease {
                Lease::Layer { device, .. } => Some(device),
                _ => None,
            })
            .collect();
        assert_eq!(layers, [LayerDevice::Array, LayerDevice::Mapped]);
        volume.release(acquired, &mut session, &mut journal).unwrap();
        let asked = asked.lock().unwrap().join(" ");
        assert!(
            asked.contains("run-tool block-facts hold-device run-tool block-facts hold-device let-device-go end-layer let-device-go end-layer"),
            "{asked}"
        );
        assert!(asked.ends_with("loop-detach end-disk"), "{asked}");
        assert!(journal.outstanding().is_empty());
    }

    #[test]
    fn one_that_does_not_come_up_leaves_nothing() {
        for (stdout, wanted) in [("", "no such medium"), ("up\n", "did not say where the disk is")] {
            let folder = tempfile::tempdir().unwrap();
            let mut journal = Journal::open(folder.path()).unwrap();
            let (mut session, asked) = session(stdout);
            let volume = Volume::Disk(DiskVolume::new(options(), Path::new("/store")).unwrap());
            let error = volume.acquire(&mut session, &mut journal, "t1").unwrap_err();
            let text = fsage_model::problem::Problem::from(error).render(false);
            assert!(text.contains(wanted), "{text}");
            assert_eq!(asked.lock().unwrap().last().map(String::as_str), Some("end-disk"));
            assert!(journal.outstanding().is_empty());
        }
    }

    #[test]
    fn paths_are_as_the_kernel_spells_them() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&plain, plain.join("link")).unwrap();
        assert_eq!(runtime::real(&plain.join("link/not/there")), plain.join("not/there"));
        assert_eq!(runtime::real(&plain.join("link")), plain);
    }

    #[test]
    fn two_stores_and_two_volumes_have_disks_of_their_own() {
        let at =
            |owner: &str, name: &str| DiskVolume::new(options(), Path::new(owner)).unwrap().directory(name);
        let folders = [at("/a", "t1"), at("/a", "t2"), at("/b", "t1")];
        assert!(folders[0] != folders[1] && folders[0] != folders[2]);
        assert_eq!(folders[0], at("/a", "t1"));
        assert!(folders[0].join("control").as_os_str().len() < 100);
        let lasting = DiskVolume::lasting(options(), Path::new("/run/fsage/disks/a/served")).unwrap();
        assert_eq!(lasting.directory("t1"), Path::new("/run/fsage/disks/a/served"));
    }

    #[test]
    fn trials_side_by_side_share_the_hosts_memory() {
        let mut trial = Volume::Disk(DiskVolume::new(options(), Path::new("/store")).unwrap());
        assert!(!trial.describe("t1")[0].contains("--memory"));
        trial.beside(2);
        assert!(trial.describe("t1")[0].contains(" --memory-shares 2 "), "{:?}", trial.describe("t1"));
        let limited = DiskOptions { memory: Some(Bytes(1 << 30)), ..options() };
        let mut limited = Volume::Disk(DiskVolume::new(limited, Path::new("/store")).unwrap());
        limited.beside(2);
        assert!(!limited.describe("t1")[0].contains("--memory-shares"));
    }

    #[test]
    fn a_trials_disk_keeps_more_unpacked_than_one_that_lasts() {
        let trial = DiskVolume::new(options(), Path::new("/store")).unwrap();
        assert!(trial.describe("t1")[0].ends_with(" --pack-above 4%"), "{:?}", trial.describe("t1"));
        let lasting = DiskVolume::lasting(options(), Path::new("/run/fsage/disks/a/served")).unwrap();
        assert!(!lasting.describe("a")[0].contains("--pack-above"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |options: DiskOptions| {
            let error = DiskVolume::new(options, Path::new("/a")).unwrap_err();
            match error {
                VolumeError::Spec { key, .. } => key,
                other => panic!("{other}"),
            }
        };
        assert_eq!(refused(DiskOptions { size: Bytes(4096), ..options() }), "size");
        assert_eq!(refused(DiskOptions { size: Bytes((16 << 40) + 4096), ..options() }), "size");
        assert_eq!(refused(DiskOptions { size: Bytes((1 << 30) + 512), ..options() }), "size");
        let partitions = vec!["1MiB".parse().unwrap()];
        assert_eq!(refused(DiskOptions { partitions, ..options() }), "size");
        assert_eq!(refused(DiskOptions { block_bytes: 1024, ..options() }), "block_bytes");
        assert_eq!(refused(DiskOptions { spill: Some("spill".into()), ..options() }), "spill");
    }
}
