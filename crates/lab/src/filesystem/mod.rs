//! File systems: how each is made, mounted and checked.
//!
//! A built-in driver is a file here that implements [`Driver`], with one table of typed mkfs parameters, and
//! its line in [`DRIVERS`]. Any other file system is described in the study's TOML ([`described`]). Either
//! way a study's `[file_system]` resolves to a [`FileSystem`]: a checked value that needs neither driver nor
//! study any more, and touches nothing until it is given a session.

use std::fmt::Debug;
use std::path::Path;

use fsage_engine::host::program::all_called;
use fsage_model::filesystem::{BARE, FileSystemFacts};
use fsage_model::protocol::{HostFacts, Usage, call};
use fsage_model::study::{ClusterStack, DriverSpec, FileSystemOptions, FileSystemSpec};

use crate::target::Session;
use crate::tools::{Invocation, Program, ToolError};

mod bare;
pub mod btrfs;
pub mod described;
pub mod deterministic;
mod discard;
mod error;
pub mod ext;
pub mod mount_option;
pub mod parameter;
pub mod reference;
pub mod xfs;

use deterministic::{Additions, Kernel};
pub(crate) use discard::{mkfs_discards, mount_discards};
pub use error::FileSystemError;
use parameter::{Parameter, ParameterError, Values};

pub use fsage_model::filesystem::{FreeSpaceTolerance, StatfsField};

/// Every built-in driver, in the order that documentation lists them.
pub static DRIVERS: &[&dyn Driver] = &[&ext::EXT2, &ext::EXT3, &ext::EXT4, &xfs::XFS, &btrfs::BTRFS];

/// A built-in file system.
pub trait Driver: Sync + Debug {
    /// What is known of it: its row.
    fn facts(&self) -> &'static FileSystemFacts;
    /// Name in studies, and the type given to mount(2).
    fn name(&self) -> &'static str {
        self.facts().name
    }
    /// Its mkfs parameters; those of other members of a family are marked so.
    fn parameters(&self) -> &'static [Parameter];
    /// The program that makes it.
    fn mkfs(&self) -> &'static Program;
    /// The program that checks it.
    fn fsck(&self) -> &'static Program;
    /// Arguments before those of the parameters.
    fn fixed_arguments(&self) -> &'static [&'static str];
    /// Mount options given before the study's.
    fn default_mount_options(&self) -> &'static [&'static str] {
        &[]
    }
    /// Names of the mount options that a study may give: those known to concern nothing but the volume and
    /// its speed.
    fn mount_options(&self) -> &'static [&'static str];
    /// What `values` need besides so that what it asks of a disk follows from what is asked of it, and not
    /// from clocks and chance, on a kernel of this release; `seed` takes the place of chance. See [`deterministic`].
    fn deterministic(&self, values: &Values, seed: u64, kernel: Kernel) -> Additions {
        let _ = (values, seed, kernel);
        Additions::mounted(&["noatime"])
    }
    /// Checks what the table alone cannot say.
    ///
    /// # Errors
    /// Values that exclude or need each other.
    fn validate(&self, values: &Values) -> Result<(), ParameterError>;
    /// Unit of allocation.
    fn block_bytes(&self, values: &Values) -> u64;
    /// Smallest volume it can be made on.
    fn minimum_bytes(&self, values: &Values) -> u64;
    /// A check of `device` that changes nothing; status 0 is clean.
    fn check(&self, device: &str) -> Invocation;
}

/// The drivers that a study can name: built-in ones and those it describes.
#[derive(Debug)]
pub struct Registry<'a> {
    described: &'a std::collections::BTreeMap<String, DriverSpec>,
}

impl<'a> Registry<'a> {
    /// The built-in drivers and `described`, the study's `[driver]` table.
    #[must_use]
    pub const fn new(described: &'a std::collections::BTreeMap<String, DriverSpec>) -> Self {
        Self { described }
    }

    /// Names of all, built-in ones first.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let built_in = DRIVERS.iter().map(|driver| driver.name().to_owned());
        let bare = std::iter::once(BARE.name.to_owned());
        built_in.chain(bare).chain(self.described.keys().cloned()).collect()
    }

    /// Checks everything that `spec` says, options of drivers it does not use included.
    ///
    /// # Errors
    /// An unknown driver, parameter or mount option, a value out of range, a description that is invalid.
    pub fn resolve(&self, spec: &FileSystemSpec) -> Result<FileSystem, FileSystemError> {
        if let Some(name) = self.described.keys().find(|name| built_in(name).is_some() || *name == BARE.name)
        {
            return Err(FileSystemError::Taken { name: name.clone() });
        }
        for (kind, options) in &spec.options {
            self.resolve_one(kind, options)?;
        }
        let none = FileSystemOptions::default();
        self.resolve_one(&spec.kind, spec.options.get(&spec.kind).unwrap_or(&none))
    }

    fn resolve_one(&self, kind: &str, options: &FileSystemOptions) -> Result<FileSystem, FileSystemError> {
        if let Some(driver) = built_in(kind) {
            return resolve_built_in(driver, options);
        }
        if kind == BARE.name {
            return bare::resolve(options);
        }
        let Some(description) = self.described.get(kind) else {
            let known = self.names();
            let suggestion = parameter::closest(kind, known.iter().map(String::as_str));
            return Err(FileSystemError::UnknownKind { kind: kind.to_owned(), suggestion, known });
        };
        described::resolve(kind, description, options)
    }
}

/// The built-in driver of that name.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static dyn Driver> {
    DRIVERS.iter().find(|driver| driver.name() == name).copied()
}

fn resolve_built_in(
    driver: &'static dyn Driver,
    options: &FileSystemOptions,
) -> Result<FileSystem, FileSystemError> {
    let values = Values::parse(driver.name(), driver.parameters(), &options.mkfs)?;
    driver.validate(&values)?;
    let file_system = BuiltIn { driver, values, mount: options.mount.clone() }.with(&Additions::default());
    mount_option::validate_known(driver, &file_system.mount_options)?;
    Ok(file_system)
}

/// A built-in driver and what a study gave it, checked.
#[derive(Debug, Clone)]
struct BuiltIn {
    driver: &'static dyn Driver,
    values: Values,
    mount: Vec<String>,
}

impl PartialEq for BuiltIn {
    fn eq(&self, other: &Self) -> bool {
        // The values know their driver.
        (&self.values, &self.mount) == (&other.values, &other.mount)
    }
}

impl BuiltIn {
    fn with(self, more: &Additions) -> FileSystem {
        let driver = self.driver;
        let values = self.values.with_defaults(more.mkfs.iter().cloned());
        let own = driver.default_mount_options().iter().chain(&more.mount);
        let words = driver.fixed_arguments().iter().map(|argument| (*argument).to_owned());
        let device = ["{device}".to_owned()];
        FileSystem {
            kind: driver.name().to_owned(),
            mount_type: driver.name().to_owned(),
            mount_options: own.map(|option| (*option).to_owned()).chain(self.mount.iter().cloned()).collect(),
            mkfs: driver
                .mkfs()
                .invoke(words.chain(values.arguments(driver.parameters())).chain(device).collect()),
            fsck: Some(driver.check("{device}")),
            mount: None,
            before_mount: Vec::new(),
            cluster: None,
            after_mount: Vec::new(),
            block_bytes: driver.block_bytes(&values),
            minimum_bytes: driver.minimum_bytes(&values),
            free_space_tolerance: driver.facts().free_space_tolerance,
            afresh: false,
            bare: false,
            built_in: Some(self),
        }
    }
}

/// Options that every mount has: what is on a volume gives no rights, is no device and does not run.
const RESTRICTED: &str = "nosuid,nodev,noexec";

/// A file system ready to be made, mounted and checked. Its commands have `{device}` and `{point}` where the
/// volume and the mount point will stand.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSystem {
    kind: String,
    mount_type: String,
    mount_options: Vec<String>,
    mkfs: Invocation,
    fsck: Option<Invocation>,
    mount: Option<Invocation>,
    before_mount: Vec<Invocation>,
    /// What hosts need that mount it at the same time; none: only one can.
    cluster: Option<ClusterStack>,
    after_mount: Vec<Invocation>,
    block_bytes: u64,
    minimum_bytes: u64,
    free_space_tolerance: FreeSpaceTolerance,
    /// The agent may mount it afresh by itself.
    afresh: bool,
    /// There is none, only the device.
    bare: bool,
    /// What it was made of, for [`FileSystem::deterministic`].
    built_in: Option<BuiltIn>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// `None`: it could not be checked.
    pub clean: Option<bool>,
    /// `clean`, `not checked: why`, or the exit status and the end of what the program said.
    pub summary: String,
}

const NOWHERE: &str = "";

impl FileSystem {
    /// Name in the study.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The same with what its driver adds for trials on a disk in model time ([`deterministic`]). What a study
    /// describes itself stays as it is.
    #[must_use]
    pub fn deterministic(&self, seed: u64, kernel: Kernel) -> Self {
        let Some(built_in) = self.built_in.clone() else { return self.clone() };
        let more = built_in.driver.deterministic(&built_in.values, seed, kernel);
        built_in.with(&more)
    }

    /// The same, which the agent unmounts and mounts again wherever nothing of it is to be in memory, without the
    /// lab; a file system that takes more than mount(2) stays as it is.
    #[must_use]
    pub fn forgotten_alone(mut self) -> Self {
        self.afresh = self.mounts_by_kernel();
        self
    }

    /// Whether mount(2) is all that it takes to mount it.
    #[must_use]
    pub const fn mounts_by_kernel(&self) -> bool {
        self.mount.is_none() && self.before_mount.is_empty() && self.after_mount.is_empty()
    }

    /// Whether a study describes it: its commands are the study's.
    #[must_use]
    pub const fn is_described(&self) -> bool {
        self.built_in.is_none() && !self.bare
    }

    /// Whether there is no file system, but the bare device alone: nothing is made, mounted or checked.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        self.bare
    }

    /// Its commands, as far as it has them.
    fn invocations(&self) -> impl Iterator<Item = &Invocation> {
        let mkfs = Some(&self.mkfs).filter(|_| !self.bare);
        let mkfs = mkfs.into_iter().chain(&self.fsck);
        mkfs.chain(&self.before_mount).chain(&self.mount).chain(&self.after_mount)
    }

    /// What hosts need that mount it at the same time; none: only one host can.
    #[must_use]
    pub const fn cluster(&self) -> Option<ClusterStack> {
        self.cluster
    }

    /// The programs that it needs.
    pub fn programs(&self) -> impl Iterator<Item = String> {
        self.invocations().filter_map(|invocation| invocation.argv().first().cloned())
    }

    /// Type given to mount(2).
    #[must_use]
    pub fn mount_type(&self) -> &str {
        &self.mount_type
    }

    /// Mount options, the driver's before the study's.
    #[must_use]
    pub fn mount_options(&self) -> &[String] {
        &self.mount_options
    }

    /// The command that makes it.
    #[must_use]
    pub fn mkfs(&self, device: &Path) -> Invocation {
        self.mkfs.placed(device, Path::new(NOWHERE))
    }

    /// The words of the command that makes it.
    #[must_use]
    pub fn mkfs_argv(&self, device: &Path) -> Vec<String> {
        self.mkfs(device).argv().to_vec()
    }

    /// The command that checks it and changes nothing, where there is one.
    #[must_use]
    pub fn fsck(&self, device: &Path) -> Option<Invocation> {
        self.fsck.as_ref().map(|fsck| fsck.placed(device, Path::new(NOWHERE)))
    }

    /// The words of the command that checks it, where there is one.
    #[must_use]
    pub fn fsck_argv(&self, device: &Path) -> Option<Vec<String>> {
        self.fsck(device).map(|fsck| fsck.argv().to_vec())
    }

    /// Whether the check's exit status means clean.
    #[must_use]
    pub const fn clean_status(&self, status: i32) -> bool {
        status == 0
    }

    /// Unit of allocation in bytes.
    #[must_use]
    pub const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Smallest volume it can be made on.
    #[must_use]
    pub const fn minimum_bytes(&self) -> u64 {
        self.minimum_bytes
    }

    /// How far its free-space map may be from `statfs`.
    #[must_use]
    pub const fn free_space_tolerance(&self) -> FreeSpaceTolerance {
        self.free_space_tolerance
    }

    /// Programs it needs, each with its Debian package (empty when unknown).
    #[must_use]
    pub fn tools(&self) -> Vec<(String, String)> {
        let all = self.invocations();
        let mut tools: Vec<(String, String)> =
            all.map(|command| (command.program().to_owned(), command.package().to_owned())).collect();
        tools.dedup();
        tools
    }

    /// Its commands, with `{device}` and `{point}` where a device and a mount point will stand.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        self.invocations().map(ToString::to_string).collect()
    }

    /// Checks that it fits on a volume.
    ///
    /// # Errors
    /// The volume is smaller than [`FileSystem::minimum_bytes`].
    pub fn fits(&self, volume_bytes: u64) -> Result<(), FileSystemError> {
        if volume_bytes >= self.minimum_bytes {
            return Ok(());
        }
        let (kind, minimum_bytes) = (self.kind.clone(), self.minimum_bytes);
        Err(FileSystemError::TooSmall { kind, minimum_bytes, volume_bytes })
    }

    /// Checks that the host's programs, as far as its facts list them, are there. The kernel is asked by
    /// mounting, because it loads what it has as a module only then.
    ///
    /// # Errors
    /// The first program that is missing.
    pub fn check_host(&self, facts: &HostFacts) -> Result<(), FileSystemError> {
        let known = |name: &str| all_called().any(|program| program.name == name);
        for (program, package) in self.tools() {
            if known(&program) && !facts.tools.contains_key(&program) {
                return Err(ToolError::Missing { program, package }.into());
            }
        }
        Ok(())
    }

    /// Every command and mount, in order, as a shell would read them.
    #[must_use]
    pub fn describe(&self, device: &Path, point: &Path) -> Vec<String> {
        if self.bare {
            return Vec::new();
        }
        let mut lines = vec![self.mkfs(device).to_string()];
        lines.extend(self.before_mount_lines(device, point));
        lines.push(self.mount_line(device, point));
        lines.extend(self.restrict_line(point));
        lines.extend(self.after_mount.iter().map(|command| command.placed(device, point).to_string()));
        lines.push(
            Invocation::new(
                vec!["umount".to_owned(), point.display().to_string()],
                String::new(),
                std::time::Duration::ZERO,
            )
            .to_string(),
        );
        lines.extend(self.fsck(device).map(|fsck| fsck.to_string()));
        lines
    }

    /// What is done to a mount that a command made, as a shell would read it; other mounts have these options
    /// from the start.
    #[must_use]
    pub fn restrict_line(&self, point: &Path) -> Option<String> {
        let line = || format!("mount -o remount,bind,{RESTRICTED} {}", point.display());
        self.mount.as_ref().map(|_| line())
    }

    /// What comes before the mount, as a shell would read it.
    #[must_use]
    pub fn before_mount_lines(&self, device: &Path, point: &Path) -> Vec<String> {
        self.before_mount.iter().map(|command| command.placed(device, point).to_string()).collect()
    }

    /// The mount, as a shell would read it.
    #[must_use]
    pub fn mount_line(&self, device: &Path, point: &Path) -> String {
        if let Some(mount) = &self.mount {
            return mount.placed(device, point).to_string();
        }
        let mut words = vec!["mount".to_owned(), "-t".to_owned(), self.mount_type.clone()];
        let options: Vec<&str> = self.mount_options.iter().map(String::as_str).chain([RESTRICTED]).collect();
        words.extend(["-o".to_owned(), options.join(",")]);
        words.extend([device.display().to_string(), point.display().to_string()]);
        Invocation::new(words, String::new(), std::time::Duration::ZERO).to_string()
    }

    /// Makes it on `device`, destroying what is there: the caller has checked that it may.
    ///
    /// # Errors
    /// mkfs is missing or fails, or the agent is lost.
    pub fn make(&self, session: &mut Session, device: &Path) -> Result<(), FileSystemError> {
        self.mkfs(device).run_checked(session)?;
        Ok(())
    }

    /// Mounts it and runs the commands that come before and after a mount. The lease of the mount is the caller's.
    ///
    /// # Errors
    /// The kernel does not have it or refuses, a command fails, or the agent is lost.
    pub fn mount(&self, session: &mut Session, device: &Path, point: &Path) -> Result<(), FileSystemError> {
        for command in &self.before_mount {
            command.placed(device, point).run_checked(session)?;
        }
        match &self.mount {
            Some(mount) => {
                mount.placed(device, point).run_checked(session)?;
                session.call(call::RestrictMount { point: point.to_owned() })?;
            }
            None => self.mount_by_kernel(session, device, point)?,
        }
        for command in &self.after_mount {
            command.placed(device, point).run_checked(session)?;
        }
        Ok(())
    }

    fn mount_by_kernel(
        &self,
        session: &mut Session,
        device: &Path,
        point: &Path,
    ) -> Result<(), FileSystemError> {
        const ENODEV: i32 = 19;
        let mount = call::Mount {
            device: device.to_owned(),
            point: point.to_owned(),
            file_system: self.mount_type.clone(),
            options: self.mount_options.clone(),
            afresh: self.afresh,
        };
        match session.call(mount) {
            Ok(()) => Ok(()),
            Err(error) if error.errno() == Some(ENODEV) => {
                Err(FileSystemError::Kernel { mount_type: self.mount_type.clone() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Unmounts whatever is mounted at `point`.
    ///
    /// # Errors
    /// It stays busy, or the agent is lost.
    pub fn unmount(&self, session: &mut Session, point: &Path) -> Result<(), FileSystemError> {
        Ok(session.call(call::Unmount { point: point.to_owned() })?)
    }

    /// Checks it, unmounted, and changes nothing.
    ///
    /// # Errors
    /// The program is missing or does not end in time, or the agent is lost. Damage is a result, not an
    /// error.
    pub fn check(&self, session: &mut Session, device: &Path) -> Result<CheckResult, FileSystemError> {
        let Some(fsck) = self.fsck(device) else {
            let summary = format!("not checked: {} has no check command", self.kind);
            return Ok(CheckResult { clean: None, summary });
        };
        let output = fsck.run(session)?;
        let clean = self.clean_status(output.status);
        let summary = if clean {
            "clean".to_owned()
        } else {
            format!("{} ended with status {}: {}", fsck.program(), output.status, output.tail())
        };
        Ok(CheckResult { clean: Some(clean), summary })
    }

    /// Bytes used, in all and available, by `statfs`.
    ///
    /// # Errors
    /// `statfs` fails, or the agent is lost.
    pub fn usage(&self, session: &mut Session, point: &Path) -> Result<Usage, FileSystemError> {
        Ok(session.call(call::Usage { directory: point.to_owned() })?)
    }
}

/// The example of docs/adding-a-file-system.md.
#[cfg(test)]
#[path = "../../../../docs/examples/f2fs.rs"]
mod f2fs;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value as Json, json};

    use fsage_model::problem::Explain as _;

    use super::*;

    fn resolve(kind: &str, mkfs: Json, mount: &[&str]) -> Result<FileSystem, FileSystemError> {
        let mkfs = serde_json::from_value(mkfs).expect("a table");
        let options = FileSystemOptions { mkfs, mount: mount.iter().map(|o| (*o).to_owned()).collect() };
        let spec = FileSystemSpec { kind: kind.into(), options: BTreeMap::from([(kind.into(), options)]) };
        Registry::new(&BTreeMap::new()).resolve(&spec)
    }

    fn command(kind: &str, mkfs: Json) -> String {
        resolve(kind, mkfs, &[]).expect("resolved").mkfs(Path::new("/dev/x")).to_string()
    }

    fn refusal(kind: &str, mkfs: Json) -> String {
        resolve(kind, mkfs, &[]).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_not_given_is_left_to_mkfs() {
        let lazy = "-E lazy_itable_init=0,lazy_journal_init=0";
        for kind in ["ext2", "ext3", "ext4"] {
            let expected = format!("mke2fs -q -F -t {kind} -b 4096 {lazy} -L fsage /dev/x");
            assert_eq!(command(kind, json!({})), expected);
        }
        assert_eq!(command("xfs", json!({})), "mkfs.xfs -q -f -b size=4096 -L fsage /dev/x");
        assert_eq!(command("btrfs", json!({})), "mkfs.btrfs -q -f --sectorsize 4096 --label fsage /dev/x");
    }

    #[test]
    fn parameters_become_arguments() {
        let ext4 = json!({"journal": false, "features": ["^resize_inode"], "stride": 16, "stripe_width": 64,
            "discard": false, "reserved_percent": 0, "cluster_size": "64KiB"});
        assert_eq!(
            command("ext4", ext4),
            "mke2fs -q -F -t ext4 -b 4096 -C 65536 -O bigalloc,^has_journal,^resize_inode \
             -E lazy_itable_init=0,lazy_journal_init=0,stride=16,stripe_width=64,nodiscard -m 0 -L fsage /dev/x"
        );
        assert!(command("ext3", json!({"journal_size": "32MiB"})).contains(" -J size=32 "));
        let xfs = json!({"agcount": 8, "su": "64KiB", "sw": 8, "rmapbt": true, "reflink": false, "discard": false,
            "log_size": "64MiB"});
        assert_eq!(
            command("xfs", xfs),
            "mkfs.xfs -q -f -b size=4096 -d agcount=8,su=65536,sw=8 -m rmapbt=1,reflink=0 -l size=67108864 -K \
             -L fsage /dev/x"
        );
        let btrfs =
            json!({"nodesize": "32KiB", "metadata_profile": "single", "mixed": false, "checksum": "xxhash"});
        assert_eq!(
            command("btrfs", btrfs),
            "mkfs.btrfs -q -f --nodesize 32768 --sectorsize 4096 --metadata single --checksum xxhash \
             --label fsage /dev/x"
        );
        assert_eq!(
            resolve("ext4", json!({"cluster_size": "64KiB"}), &[]).expect("fine").block_bytes(),
            65_536
        );
    }

    #[test]
    fn slips_are_answered_with_the_nearest_right_name() {
        assert_eq!(
            refusal("ext4", json!({"blocksize": 4096})),
            "`blocksize` is not a mkfs parameter of ext4; did you mean `block_size`?"
        );
        assert_eq!(
            refusal("btrfs", json!({"node_size": 1})),
            "`node_size` is not a mkfs parameter of btrfs; did you mean `nodesize`?"
        );
        assert_eq!(refusal("xfs", json!({"zzz": 1})), "`zzz` is not a mkfs parameter of xfs");
        assert_eq!(
            refusal("ext2", json!({"journal": true})),
            "`journal` is a mkfs parameter of ext4, not of ext2"
        );
        assert_eq!(refusal("btrfz", json!({})), "no file system `btrfz`; did you mean `btrfs`?");
        assert_eq!(
            refusal("ext4", json!({"features": ["has_jurnal"]})),
            "`has_jurnal` in `features` of ext4: did you mean `has_journal`?"
        );
        assert!(resolve("ext4", json!({"features": ["a_feature_of_tomorrow"]}), &[]).is_ok());
    }

    #[test]
    fn wrong_types_and_ranges_say_what_is_right() {
        assert_eq!(
            refusal("ext4", json!({"block_size": "3KiB"})),
            "`block_size` of ext4 must be a size of 1KiB to 64KiB that is a power of two, not `3KiB`"
        );
        assert_eq!(
            refusal("ext4", json!({"journal": "off"})),
            "`journal` of ext4 must be true or false, not `off`"
        );
        assert_eq!(
            refusal("ext3", json!({"journal_size": 5_000_000})),
            "`journal_size` of ext3 must be a size of 1MiB to 40GiB that is a multiple of 1MiB, not `5000000`"
        );
        for (kind, mkfs) in [
            ("ext4", json!({"reserved_percent": 51})),
            ("ext4", json!({"reserved_percent": -1})),
            ("ext4", json!({"label": "seventeen letters"})),
            ("ext4", json!({"label": "-x"})),
            ("ext4", json!({"features": "extent"})),
            ("ext4", json!({"features": ["a,b"]})),
            ("ext4", json!({"features": ["-x"]})),
            ("xfs", json!({"agcount": 0})),
            ("xfs", json!({"agcount": 1.5})),
            ("xfs", json!({"label": "{device}"})),
            ("btrfs", json!({"checksum": "md5"})),
            ("btrfs", json!({"data_profile": "raid1"})),
        ] {
            let error = resolve(kind, mkfs.clone(), &[]).expect_err("refused");
            assert!(
                matches!(error, FileSystemError::Parameter(ParameterError::Value { .. })),
                "{mkfs}: {error}"
            );
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn values_that_do_not_go_together_are_refused() {
        for (kind, mkfs) in [
            ("ext4", json!({"inode_size": 4096, "block_size": 2048})),
            ("ext4", json!({"cluster_size": 4096})),
            ("ext4", json!({"flex_bg_size": 3})),
            ("ext4", json!({"journal_size": "3MiB"})),
            ("ext4", json!({"journal": false, "journal_size": "64MiB"})),
            ("ext4", json!({"stride": 16, "stripe_width": 40})),
            ("xfs", json!({"su": "64KiB"})),
            ("xfs", json!({"sunit": 8})),
            ("xfs", json!({"su": "64KiB", "sw": 2, "sunit": 8, "swidth": 16})),
            ("xfs", json!({"sunit": 8, "swidth": 12})),
            ("xfs", json!({"su": "6KiB", "sw": 1})),
            ("xfs", json!({"sector_size": 4096, "block_size": 2048})),
            ("xfs", json!({"directory_block_size": 4096, "block_size": 8192})),
            ("xfs", json!({"crc": false, "reflink": true})),
            ("xfs", json!({"inode_size": 256})),
            ("btrfs", json!({"nodesize": 4096, "sectorsize": 8192})),
            ("btrfs", json!({"mixed": true, "nodesize": "16KiB"})),
            ("btrfs", json!({"mixed": true, "data_profile": "dup"})),
        ] {
            let error = resolve(kind, mkfs.clone(), &[]).expect_err("refused");
            assert!(
                matches!(error, FileSystemError::Parameter(ParameterError::Together { .. })),
                "{mkfs}: {error}"
            );
        }
    }

    #[test]
    fn volumes_that_are_too_small_are_refused() {
        let xfs = resolve("xfs", json!({}), &[]).expect("fine");
        let error = xfs.fits(256 << 20).expect_err("too small");
        assert_eq!(error.to_string(), "xfs needs a volume of at least 300MiB, this one has 256MiB");
        assert_eq!(error.hint().as_deref(), Some("set volume.size to 300MiB or more"));
        assert!(xfs.fits(300 << 20).is_ok());
        assert!(resolve("btrfs", json!({"mixed": true}), &[]).expect("fine").fits(16 << 20).is_ok());
    }

    #[test]
    fn options_of_drivers_that_are_not_used_are_checked_too() {
        let bad = FileSystemOptions { mkfs: BTreeMap::from([("agcuont".into(), json!(1))]), mount: vec![] };
        let spec = FileSystemSpec { kind: "ext4".into(), options: BTreeMap::from([("xfs".into(), bad)]) };
        let error = Registry::new(&BTreeMap::new()).resolve(&spec).expect_err("refused");
        assert_eq!(error.to_string(), "`agcuont` is not a mkfs parameter of xfs; did you mean `agcount`?");
    }

    #[test]
    fn commands_are_described_in_order() {
        let ext4 = resolve("ext4", json!({"label": "x"}), &["noatime"]).expect("fine");
        assert_eq!(
            ext4.describe(Path::new("/dev/loop3"), Path::new("/mnt/a b")),
            [
                "mke2fs -q -F -t ext4 -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 -L x /dev/loop3",
                "mount -t ext4 -o errors=remount-ro,noatime,nosuid,nodev,noexec /dev/loop3 '/mnt/a b'",
                "umount '/mnt/a b'",
                "e2fsck -f -n /dev/loop3",
            ]
        );
        let tools = [("mke2fs", "e2fsprogs"), ("e2fsck", "e2fsprogs")];
        assert_eq!(ext4.tools(), tools.map(|(name, package)| (name.to_owned(), package.to_owned())));
    }

    #[test]
    fn a_host_without_the_programs_is_told() {
        let xfs = resolve("xfs", json!({}), &[]).expect("fine");
        let error = xfs.check_host(&HostFacts::default()).expect_err("nothing there");
        assert_eq!(error.exit_code(), 3);
        assert_eq!(error.hint().as_deref(), Some("install it with `apt-get install xfsprogs`"));
        let tools = ["mkfs.xfs", "xfs_repair"].map(|name| (name.to_owned(), String::new()));
        assert!(xfs.check_host(&HostFacts { tools: tools.into(), ..HostFacts::default() }).is_ok());
    }

    #[test]
    fn the_example_of_the_guide_is_a_driver_like_any_other() {
        let mkfs = BTreeMap::from([("segments".to_owned(), json!(4))]);
        let options = FileSystemOptions { mkfs, mount: vec!["nodiscard".to_owned()] };
        let f2fs = resolve_built_in(&f2fs::F2fs, &options).expect("fine");
        let device = Path::new("/dev/x");
        assert_eq!(f2fs.mkfs(device).to_string(), "mkfs.f2fs -q -f -s 4 -l fsage /dev/x");
        assert_eq!(f2fs.fsck_argv(device).expect("given"), ["fsck.f2fs", "--dry-run", "/dev/x"]);
        assert_eq!(f2fs.deterministic(1, Kernel(6, 18)).mount_options(), ["noatime", "nodiscard"]);
        let wrong =
            FileSystemOptions { mkfs: BTreeMap::from([("segmnts".to_owned(), json!(4))]), mount: vec![] };
        let error = resolve_built_in(&f2fs::F2fs, &wrong).expect_err("refused").to_string();
        assert_eq!(error, "`segmnts` is not a mkfs parameter of f2fs; did you mean `segments`?");
        let facts = f2fs::F2fs.facts();
        let mut head = vec![0; 2048];
        head[1024..1028].copy_from_slice(&[0x10, 0x20, 0xf5, 0xf2]);
        assert!(facts.magic_in(&head).is_some() && facts.magic_in(&[0; 2048]).is_none());
    }

    #[test]
    fn tables_are_sound() {
        for driver in DRIVERS {
            let table = driver.parameters();
            let mut names: Vec<_> = table.iter().map(|parameter| parameter.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), table.len(), "{}: a name twice", driver.name());
            for parameter in table {
                let plain = |c: char| c.is_ascii_lowercase() || c == '_';
                assert!(parameter.name.chars().all(plain), "{}", parameter.name);
                assert!(parameter.doc.ends_with('.'), "{}", parameter.name);
                assert!(parameter.only.iter().all(|name| built_in(name).is_some()), "{}", parameter.name);
            }
            let label =
                table.iter().find(|parameter| parameter.name == "label").and_then(Parameter::preset_value);
            assert_eq!(label, Some(parameter::Value::Text(fsage_model::study::LABEL.into())));
        }
    }
}
