//! Guests: a machine in QEMU with a kernel of one's own, made for one run and gone with it.
//!
//! A guest has nothing of the host but what is packed for it: this program, the modules and programs that the study
//! needs, and their libraries, in the kernel's first file system. One of another architecture has nothing of the host's at all: all this was
//! built or fetched for it. fsage is its first process (`boot`) and serves trials
//! on a serial port, as it does on other hosts.

mod cpio;
mod error;
pub mod kernel;
mod machine;
mod module;
mod monitor;
mod packages;
pub mod program;
pub(crate) mod saved;
pub(crate) mod sharing;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{BufRead, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_engine::host::tool::look_up;
use fsage_model::study::{Architecture, GuestSpec, GuestTime, TargetSpec};

use crate::study::Study;
use crate::target::program as own;
use crate::volume::Served;
use cpio::Archive;
pub use error::GuestError;
use kernel::Kernel;
use machine::Machine;
use module::Modules;
use program::Programs;
use saved::Saved;

/// How long unpacking one file may take.
const UNPACKING: Duration = Duration::from_secs(300);

/// Modules that every guest needs: its serial port, and what virtual disks and loop files are made of.
const MODULES: [&str; 4] = ["virtio_mmio", "virtio_console", "fuse", "loop"];

/// Modules that a guest gets where its kernel has them: I/O schedulers.
const OPTIONAL_MODULES: [&str; 3] = ["mq_deadline", "bfq", "kyber_iosched"];

/// What makes encryption fast, where it is encrypted and the kernel has it.
const FAST_CIPHER: &str = "aesni_intel";

/// Folder of our programs in a guest.
pub(crate) const PROGRAMS: &str = "/fsage";

/// Folder of the modules in a guest, named in the order of loading.
pub(crate) const MODULES_FOLDER: &str = "/fsage-modules";

/// Name of the serial port for frames.
pub(crate) const PORT: &str = "fsage";

/// How the names of guests' folders begin, in the folder for temporary files.
const PREFIX: &str = "fsage-guest-";

/// Bytes of a guest's console that are read.
const CONSOLE_BYTES: u64 = 16 << 10;

/// What trials need in a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Names of modules.
    pub modules: BTreeSet<String>,
    /// Names or paths of programs.
    pub programs: BTreeSet<String>,
    /// Names of programs that are packed where this host has them.
    pub optional_programs: BTreeSet<String>,
}

/// A guest ready to be started; its files go with it.
#[derive(Debug)]
pub struct Guest {
    folder: tempfile::TempDir,
    /// Says that somebody uses the folder.
    _lock: File,
    /// QEMU.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What it is called.
    pub name: String,
    /// Architecture of its processor, as `uname -m` names it.
    pub machine: &'static str,
    /// Tells what it is made of, the trial left out: 16 hexadecimal digits of a hash of its archive, its kernel and QEMU.
    pub build: String,
    /// Its state after booting, for one that may start from it: emulated, and like any other that is made of the same.
    pub(crate) saved: Option<Saved>,
}

impl Guest {
    /// Folder of its files, and of the sockets at which others meet it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What its kernel wrote to its console: the lines that say what is wrong, and the end.
    #[must_use]
    pub fn console(&self) -> String {
        let mut text = Vec::new();
        // A guest that writes without end is not read to its end.
        let read = File::open(self.folder.path().join("console")).and_then(|mut file| {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(CONSOLE_BYTES)))?;
            file.take(CONSOLE_BYTES).read_to_end(&mut text)
        });
        let text = read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&text).into_owned());
        telling(&text)
    }
}

/// The end of what a kernel wrote, after the lines before it in which it says what is wrong: registers and stacks follow these.
fn telling(text: &str) -> String {
    const WORDS: [&str; 10] = [
        "BUG: ",
        "Kernel panic",
        "Oops",
        "general protection fault",
        "Internal error",
        "Unable to handle",
        "INFO: task",
        "RIP: 0010:",
        " pc : ",
        // In virtual time, the steps of a trial are there, too.
        "fsage: cannot ",
    ];
    const LINES: usize = 12;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let (before, end) = lines.split_at(lines.len().saturating_sub(LINES / 2));
    let says = |line: &&&str| WORDS.iter().any(|word| line.contains(word));
    let mut found: Vec<&str> = before.iter().filter(says).take(LINES / 2 - 1).copied().collect();
    if lines.len() <= LINES || found.is_empty() {
        return lines[lines.len().saturating_sub(LINES)..].join("\n");
    }
    found.push("…");
    found.extend(end);
    found.join("\n")
}

/// Gives each guest of a study the release of its kernel, as found now: trials of another one are others. This host's
/// architecture is the same whether it is named or not.
///
/// # Errors
/// A kernel was not fetched, or a tree was not built.
pub fn settle(study: &mut Study) -> Result<(), GuestError> {
    for cell in &mut study.cells {
        if let TargetSpec::Guest(guest) = &mut cell.spec.target {
            let machine = Machine::wanted(guest.architecture)?;
            guest.architecture = guest.architecture.filter(|_| !machine.is_own());
            if !guest.kernel.starts_with('/') {
                guest.kernel = kernel::find(&guest.kernel, Some(machine.architecture))?.release;
            }
        }
    }
    Ok(())
}

/// What runs a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// This host's processor.
    Kvm,
    /// QEMU, which emulates one.
    Emulated,
}

/// In the folder of what lasts as long as this boot: says that guests do not start by KVM, though it is there, as on
/// hosts that are virtual themselves.
const NO_KVM: &str = "no-kvm";

impl Processor {
    /// Those to be tried for a guest, the best first.
    #[must_use]
    pub fn choices(guest: &GuestSpec) -> Vec<Self> {
        if guest.architecture.is_some_and(|architecture| !Machine::of(architecture).is_own()) {
            return vec![Self::Emulated];
        }
        let there = File::options().read(true).write(true).open("/dev/kvm").is_ok();
        let works = there && !crate::lease::runtime::shared().join(NO_KVM).exists();
        if works { vec![Self::Kvm, Self::Emulated] } else { vec![Self::Emulated] }
    }

    /// How long a guest may take until fsage in it answers.
    #[must_use]
    pub const fn boots_within(self) -> Duration {
        match self {
            Self::Kvm => Duration::from_secs(10),
            Self::Emulated => Duration::from_secs(120),
        }
    }

    /// Remembers that no guest started by it. What cannot be written is found out again.
    pub fn failed(self) {
        if self == Self::Kvm
            && let Ok(folder) = crate::lease::runtime::make(Path::new(""))
        {
            let _ = std::fs::write(folder.join(NO_KVM), "");
        }
    }
}

/// The trial of a guest that does it without a word of the host's, in its first file system.
pub(crate) const BATCH: &str = "/fsage/batch.json";

/// In a guest's first file system: which one it is of several that share a disk.
pub(crate) const MEMBER: &str = "/fsage/member.json";

/// What a guest is besides its kernel and programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Part<'a> {
    /// The trial that it does before it speaks.
    pub batch: Option<&'a [u8]>,
    /// Its place among guests that share a disk of this host.
    pub sharing: Option<Sharing<'a>>,
}

/// A place among guests that share a disk of this host.
#[derive(Debug, Clone, Copy)]
pub struct Sharing<'a> {
    pub(crate) member: sharing::Member,
    /// The disk.
    pub(crate) served: &'a Served,
    /// Folder of the sockets at which guests meet: that of the first one; none: this is the first.
    pub(crate) meeting: Option<&'a Path>,
}

/// Packs a guest for `needs`.
///
/// # Errors
/// QEMU, the kernel, a module or a program is not there; there is no room.
pub fn prepare(
    spec: &GuestSpec,
    needs: &Needs,
    processor: Processor,
    part: Part<'_>,
) -> Result<Guest, GuestError> {
    let machine = Machine::wanted(spec.architecture)?;
    let qemu = GuestError::NoQemu { program: machine.program, package: machine.package };
    let program = look_up(machine.program).ok_or(qemu)?;
    let kernel = kernel::find(&spec.kernel, Some(machine.architecture))?;
    let mut archive = pack(&kernel, needs, machine, processor)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(archive.bytes());
    for path in [&kernel.image, &program] {
        let file = File::open(path);
        file.and_then(|mut file| std::io::copy(&mut file, &mut hasher))
            .map_err(|source| GuestError::Read { path: path.clone(), source })?;
    }
    if processor == Processor::Emulated && spec.time == GuestTime::Host {
        hasher.update(machine.processor.as_bytes());
    }
    let build = hasher.finalize().to_hex()[..16].to_owned();
    if let Some(batch) = part.batch {
        archive.file(Path::new(BATCH), batch);
    }
    if let Some(sharing) = part.sharing {
        let member = serde_json::to_vec(&sharing.member).unwrap_or_default();
        archive.file(Path::new(MEMBER), &member);
    }
    let archive = archive.finish();
    remove_left(&std::env::temp_dir());
    let folder = tempfile::Builder::new()
        .prefix(PREFIX)
        // Its sockets are ways into the guest.
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|source| GuestError::Write { path: std::env::temp_dir(), source })?;
    let path = folder.path().join("lock");
    let lock =
        File::create(&path).and_then(|file| file.try_lock().map(|()| file).map_err(std::io::Error::from));
    let lock = lock.map_err(|source| GuestError::Write { path, source })?;
    let path = folder.path().join("initramfs");
    std::fs::write(&path, archive).map_err(|source| GuestError::Write { path: path.clone(), source })?;
    let mut arguments = arguments(spec, &kernel, machine, processor, folder.path());
    arguments.extend(part.sharing.iter().flat_map(|sharing| sharing::arguments(sharing, folder.path())));
    let booting = booting(machine);
    let (name, machine) = (format!("guest {}", kernel.release), machine.architecture.name());
    // With KVM, booting takes little, and a state is of one processor only.
    let is_plain = spec.time == GuestTime::Host && part.batch.is_none() && part.sharing.is_none();
    let saved = (processor == Processor::Emulated && is_plain).then(|| Saved::of(&build, &booting, spec));
    Ok(Guest { folder, _lock: lock, program, arguments, name, machine, build, saved })
}

/// Removes the folders of guests whose fsage was killed: nobody holds their locks.
fn remove_left(temporary: &Path) {
    let entries = std::fs::read_dir(temporary).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let place = entry.path();
        let ours = place
            .symlink_metadata()
            .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw());
        let lock = ours.then(|| File::open(place.join("lock")).ok()).flatten();
        if lock.is_some_and(|lock| lock.try_lock().is_ok()) {
            // What cannot be removed is tried again by the next.
            let _ = std::fs::remove_dir_all(&place);
        }
    }
}

/// Everything that a program of the host writes.
fn everything(output: &mut dyn BufRead) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes).map(|_| bytes).map_err(|error| error.to_string())
}

/// LVM in a guest, which has no udev and keeps nothing.
const LVM_SETTINGS: &str = "devices {
    obtain_device_list_from_udev = 0
    external_device_info_source = \"none\"
    use_devicesfile = 0
}
activation {
    udev_sync = 0
    udev_rules = 0
    verify_udev_operations = 0
    monitoring = 0
}
backup {
    backup = 0
    archive = 0
}
";

/// The kernel's first file system.
fn pack(
    kernel: &Kernel,
    needs: &Needs,
    machine: &'static Machine,
    processor: Processor,
) -> Result<Archive, GuestError> {
    let mut archive = Archive::default();
    for folder in ["/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp", "/var/lib", "/etc"] {
        archive.folder(Path::new(folder));
    }
    for name in ["fsage", own::OTHERS[0], own::OTHERS[1]] {
        let bytes = own::for_machine(name, machine.architecture.name())?;
        archive.file(&Path::new(PROGRAMS).join(name), &bytes);
    }
    // Also where all is in the kernel itself.
    archive.folder(Path::new(MODULES_FOLDER));
    let modules = Modules::below(&kernel.modules, &kernel.release)?;
    let names = MODULES.into_iter().chain(needs.modules.iter().map(String::as_str));
    // An emulated processor gains nothing by it.
    let fast = (processor == Processor::Kvm && needs.modules.contains("dm_crypt")).then_some(FAST_CIPHER);
    let names = names.chain(OPTIONAL_MODULES.into_iter().chain(fast).filter(|name| modules.has(name)));
    for (number, module) in modules.for_names(names)?.into_iter().enumerate() {
        let name = format!("{number:03}-{}.ko", module.name);
        archive.file(&Path::new(MODULES_FOLDER).join(name), &module.bytes);
    }
    let programs = Programs::of(machine, &kernel.release)?;
    let optional = needs.optional_programs.iter().filter(|name| programs.has(name));
    let names: BTreeSet<String> = needs.programs.iter().chain(optional).cloned().collect();
    program::pack(&mut archive, &names, &programs)?;
    if names.contains("lvm") {
        archive.file(Path::new("/etc/lvm/lvm.conf"), LVM_SETTINGS.as_bytes());
    }
    Ok(archive)
}

/// Kernel line: quiet, and ended by a panic, or when a task hangs for ten minutes.
const KERNEL_LINE: &str = "quiet panic=-1 random.trust_cpu=on hung_task_panic=1 \
                           sysctl.kernel.hung_task_timeout_secs=600";

/// Its end: words before `rdinit` that the kernel does not know are no arguments of the first process.
const INIT_LINE: &str = "rdinit=/fsage/fsage -- boot";

/// How fast the processor's clock counts; an emulated one takes long to find out, or never does on a busy host.
fn kilohertz() -> u64 {
    const USUAL: u64 = 2_000_000;
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = facts.lines().find(|line| line.starts_with("cpu MHz"));
    let value = line.and_then(|line| line.rsplit_once(':')).map(|(_, value)| value.trim());
    // Whole megahertz are enough.
    let whole = value.and_then(|value| value.split('.').next()?.parse::<u64>().ok());
    whole.filter(|megahertz| *megahertz > 0).map_or(USUAL, |megahertz| megahertz * 1000)
}

/// What a guest boots with that its archive does not have, for the name of its saved state. The rate of its clock is in it as far as it is the same
/// each time that it is read.
fn booting(machine: &Machine) -> String {
    const STEP: u64 = 50_000;
    let words = [KERNEL_LINE, INIT_LINE, machine.emulated_line];
    format!("{words:?} {:?} {}", machine.board, kilohertz().saturating_add(STEP / 2) / STEP)
}

/// How fast the clock of a processor counts whose instructions take 2 ns each (`-icount shift=1`).
const VIRTUAL_KILOHERTZ: u64 = 1_000_000;

/// The clock of a guest in virtual time begins at the same moment in each run.
const VIRTUAL_CLOCK: &str = "base=2024-01-01T00:00:00,clock=vm";

/// The kernel line.
fn kernel_line(machine: &Machine, processor: Processor, is_virtual: bool) -> String {
    let mut words = vec![format!("console={}", machine.console), KERNEL_LINE.to_owned()];
    if processor == Processor::Emulated {
        words.push(machine.emulated_line.to_owned());
        words.extend(is_virtual.then(|| "norandmaps".to_owned()));
        if machine.architecture == Architecture::X86_64 {
            let kilohertz = if is_virtual { VIRTUAL_KILOHERTZ } else { kilohertz() };
            words.push(format!("tsc_early_khz={kilohertz}"));
        }
    }
    words.push(INIT_LINE.to_owned());
    words.join(" ")
}

/// Arguments of QEMU: the smallest machine that it has, its serial port for frames on its standard input and output.
fn arguments(
    spec: &GuestSpec,
    kernel: &Kernel,
    machine: &Machine,
    processor: Processor,
    folder: &Path,
) -> Vec<OsString> {
    let is_virtual = spec.time == GuestTime::Virtual;
    let (accelerator, model) = match processor {
        // What a processor says of its own mitigations cannot always be set, and guests have none.
        Processor::Kvm => ("kvm", "host,-arch-capabilities"),
        Processor::Emulated if is_virtual => ("tcg", machine.repeatable),
        Processor::Emulated => ("tcg", machine.processor),
    };
    let text = |text: String| OsString::from(text);
    let path = |name: &str| folder.join(name).into_os_string();
    let mut console = OsString::from("file:");
    console.push(path("console"));
    let memory = spec.memory.0.div_ceil(1 << 20);
    let pairs: [(&str, OsString); 14] = [
        ("-accel", accelerator.into()),
        ("-cpu", model.into()),
        ("-smp", text(spec.cpus.to_string())),
        ("-m", text(memory.to_string())),
        ("-display", "none".into()),
        ("-kernel", kernel.image.clone().into_os_string()),
        ("-initrd", path("initramfs")),
        ("-append", text(kernel_line(machine, processor, is_virtual))),
        ("-serial", console),
        ("-chardev", text(format!("stdio,id={PORT},signal=off"))),
        ("-device", "virtio-serial-device".into()),
        ("-device", text(format!("virtserialport,chardev={PORT},name={PORT}"))),
        ("-monitor", "none".into()),
        ("-rtc", if is_virtual { VIRTUAL_CLOCK.into() } else { "base=utc".into() }),
    ];
    let flags = ["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from);
    let counted: &[(&str, &str)] =
        if is_virtual { &[("-icount", "shift=1,sleep=off"), ("-seed", "42")] } else { &[] };
    let fixed = machine.board.iter().chain(counted).map(|(key, value)| (*key, OsString::from(value)));
    let pairs = fixed.chain(pairs).flat_map(|(key, value)| [OsString::from(key), value]);
    flags.into_iter().chain(pairs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> GuestSpec {
        serde_json::from_str(json).unwrap()
    }

    /// Trials that were done before there were other architectures keep their ids.
    #[test]
    fn a_guest_with_this_host_s_processor_is_what_it_was() {
        let plain = spec("{}");
        assert!(!serde_json::to_string(&plain).unwrap().contains("architecture"));
        let x86 = Machine::of(Architecture::X86_64);
        assert_eq!(
            kernel_line(x86, Processor::Kvm, false),
            "console=ttyS0 quiet panic=-1 random.trust_cpu=on hung_task_panic=1 \
             sysctl.kernel.hung_task_timeout_secs=600 rdinit=/fsage/fsage -- boot"
        );
        let line = kernel_line(x86, Processor::Emulated, true);
        assert_eq!(
            line,
            "console=ttyS0 quiet panic=-1 random.trust_cpu=on hung_task_panic=1 sysctl.kernel.hung_task_timeout_secs=600 \
             mitigations=off nokaslr tsc=reliable no_timer_check lpj=4000000 cryptomgr.notests rcupdate.rcu_expedited=1 \
             norandmaps tsc_early_khz=1000000 rdinit=/fsage/fsage -- boot"
        );
    }

    #[test]
    fn each_machine_has_its_own_board_processor_and_console() {
        let kernel = Kernel { release: "6.1".to_owned(), image: "/k".into(), modules: "/m".into() };
        let words = |architecture, json: &str, processor| -> Vec<String> {
            let machine = Machine::of(architecture);
            let found = arguments(&spec(json), &kernel, machine, processor, Path::new("/f"));
            found.iter().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let has = |words: &[String], pair: [&str; 2]| words.windows(2).any(|found| found == pair);
        let x86 = words(Architecture::X86_64, r#"{"cpus":2}"#, Processor::Emulated);
        assert!(has(&x86, ["-M", "microvm,x-option-roms=off"]) && has(&x86, ["-bios", "qboot.rom"]));
        assert!(
            has(&x86, ["-cpu", "max,-erms,-fsrm"]) && has(&x86, ["-smp", "2"]) && has(&x86, ["-m", "1024"])
        );
        let arm = words(Architecture::Aarch64, r#"{"time":"virtual"}"#, Processor::Emulated);
        assert!(has(&arm, ["-M", "virt,gic-version=2"]) && has(&arm, ["-cpu", "cortex-a57"]));
        assert!(has(&arm, ["-icount", "shift=1,sleep=off"]) && !arm.contains(&"-bios".to_owned()));
        assert!(arm.iter().any(|word| word.starts_with("console=ttyAMA0 ") && !word.contains("tsc")));
        let kvm = words(Architecture::X86_64, "{}", Processor::Kvm);
        assert!(has(&kvm, ["-accel", "kvm"]) && has(&kvm, ["-cpu", "host,-arch-capabilities"]));
    }

    #[test]
    fn a_kernel_s_last_words_begin_with_what_is_wrong() {
        let short = "one\n\n two\n";
        assert_eq!(telling(short), "one\n two");
        let trace: String = (0..30).map(|number| format!("[ 2.1] R{number}: 0\n")).collect();
        let steps: String = (0..9).map(|number| format!("fsage: mount /dev/loop{number}\n")).collect();
        let text =
            format!("{steps}[ 2.0] Kernel panic - not syncing: x\n[ 2.0] RIP: 0010:ext4_foo+0x1\n{trace}");
        let lines = telling(&text);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 9);
        assert_eq!(
            lines[..3],
            ["[ 2.0] Kernel panic - not syncing: x", "[ 2.0] RIP: 0010:ext4_foo+0x1", "…"]
        );
        assert_eq!(lines[3..], [24, 25, 26, 27, 28, 29].map(|number| format!("[ 2.1] R{number}: 0")));
        // Neither lost nor twice where it is near the end.
        for after in 0..20 {
            let trace: String = (0..after).map(|number| format!("R{number}: 0\n")).collect();
            let text = format!("{steps}BUG: a\n{steps}Kernel panic: b\n{trace}");
            let text = telling(&text);
            for line in ["BUG: a", "Kernel panic: b"] {
                assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{after}: {text}");
            }
            assert!(text.lines().count() <= 12, "{text}");
        }
    }

    #[test]
    fn another_architecture_is_emulated() {
        assert_eq!(Processor::choices(&spec(r#"{"architecture":"aarch64"}"#)), [Processor::Emulated]);
        assert!(Processor::choices(&spec("{}")).contains(&Processor::Emulated));
    }
}
