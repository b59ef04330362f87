//! Guests: a machine in QEMU with a kernel of one's own, made for one run and gone with it.
//!
//! A guest has nothing of the host but what is packed for it: this program, the modules and programs that the study
//! needs, and their libraries, in the kernel's first file system. fsage is its first process (`boot`) and serves trials
//! on a serial port, as it does on other hosts.

mod cpio;
pub mod kernel;
mod module;
mod program;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_engine::host::tool::look_up;
use fsage_model::problem::{EXIT_FAILED, EXIT_INTERNAL, EXIT_MISSING, EXIT_USAGE, Explain};
use fsage_model::study::GuestSpec;

use crate::target::{TargetError, program as own};
use crate::tools::ToolError;
use cpio::Archive;
use kernel::Kernel;
use module::Modules;

/// How long unpacking one file may take.
const UNPACKING: Duration = Duration::from_secs(300);

/// Modules that every guest needs: its serial port, and what virtual disks and loop files are made of.
const MODULES: [&str; 4] = ["virtio_mmio", "virtio_console", "fuse", "loop"];

/// Folder of our programs in a guest.
const PROGRAMS: &str = "/fsage";

/// Folder of the modules in a guest, named in the order of loading.
pub(crate) const MODULES_FOLDER: &str = "/fsage-modules";

/// Name of the serial port for frames.
pub(crate) const PORT: &str = "fsage";

/// Why there is no guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// No kernel of that version was fetched.
    #[error("there is no kernel `{name}` for guests")]
    NoKernel {
        /// As the study names it.
        name: String,
    },
    /// The distribution has no such kernel.
    #[error("the distribution has no kernel {version}{}", known_in_words(known))]
    NoPackage {
        /// What was asked for.
        version: String,
        /// Releases that it has.
        known: Vec<String>,
    },
    /// A tree, or a package, lacks something.
    #[error("{} lacks {lacks}", tree.display())]
    NotBuilt {
        /// Folder.
        tree: PathBuf,
        /// What.
        lacks: String,
    },
    /// The kernel has no module of that name.
    #[error("kernel {release} has no module `{module}`")]
    NoModule {
        /// Its name.
        module: String,
        /// The kernel.
        release: String,
    },
    /// A program for the guest is not installed here.
    #[error("`{program}`, which the guest needs, is not installed here")]
    NoProgram {
        /// Its name.
        program: String,
    },
    /// QEMU is not installed.
    #[error("`{program}` is not installed")]
    NoQemu {
        /// Its name.
        program: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A program of the host failed.
    #[error("cannot prepare a guest")]
    Tool(#[from] ToolError),
    /// Our own programs are not there.
    #[error("cannot prepare a guest")]
    Own(#[from] TargetError),
    /// The first process of a guest could not do its work.
    #[error("cannot {what}")]
    Boot {
        /// What.
        what: String,
        /// Why.
        source: std::io::Error,
    },
}

fn known_in_words(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(" (it has {})", known.join(", ")) }
}

impl Explain for GuestError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoKernel { .. } | Self::NoProgram { .. } | Self::NoQemu { .. } | Self::NoModule { .. } => {
                EXIT_MISSING
            }
            Self::NoPackage { .. } | Self::NotBuilt { .. } => EXIT_USAGE,
            Self::Read { .. } | Self::Write { .. } => EXIT_FAILED,
            Self::Tool(error) => error.exit_code(),
            Self::Own(error) => Explain::exit_code(error),
            Self::Boot { .. } => EXIT_INTERNAL,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoKernel { name } if name.starts_with('/') => None,
            Self::NoKernel { name } => Some(format!(
                "`fsage kernel fetch {name}` fetches it; `fsage kernel list` shows what is there"
            )),
            Self::NoModule { .. } => Some(
                "take another kernel: those for clouds leave file systems out (`fsage kernel list`)"
                    .to_owned(),
            ),
            Self::NoProgram { program } => {
                Some(fsage_engine::host::program::package_of(program).map_or_else(
                    || "install it here: guests take programs from this host".to_owned(),
                    |package| format!("install it with `apt-get install {package}`"),
                ))
            }
            Self::NoQemu { .. } => Some("install it with `apt-get install qemu-system-x86`".to_owned()),
            Self::Tool(error) => error.hint(),
            Self::Own(error) => Explain::hint(error),
            Self::NoPackage { .. }
            | Self::NotBuilt { .. }
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Boot { .. } => None,
        }
    }
}

/// What trials need in a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Names of modules.
    pub modules: BTreeSet<String>,
    /// Names or paths of programs.
    pub programs: BTreeSet<String>,
}

/// A guest ready to be started; its files go with it.
#[derive(Debug)]
pub struct Guest {
    folder: tempfile::TempDir,
    /// QEMU.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What it is called.
    pub name: String,
}

impl Guest {
    /// What its kernel wrote to its console, the end of it.
    #[must_use]
    pub fn console(&self) -> String {
        let text = std::fs::read(self.folder.path().join("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
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
    /// Those to be tried, the best first.
    #[must_use]
    pub fn choices() -> Vec<Self> {
        let there = std::fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
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

/// Packs a guest for `needs`.
///
/// # Errors
/// QEMU, the kernel, a module or a program is not there; there is no room.
pub fn prepare(spec: &GuestSpec, needs: &Needs, processor: Processor) -> Result<Guest, GuestError> {
    const QEMU: &str = "qemu-system-x86_64";
    let program = look_up(QEMU).ok_or(GuestError::NoQemu { program: QEMU })?;
    let kernel = kernel::find(&spec.kernel)?;
    let archive = pack(&kernel, needs)?;
    let folder = tempfile::Builder::new()
        .prefix("fsage-guest-")
        .tempdir()
        .map_err(|source| GuestError::Write { path: std::env::temp_dir(), source })?;
    let path = folder.path().join("initramfs");
    std::fs::write(&path, archive).map_err(|source| GuestError::Write { path: path.clone(), source })?;
    let arguments = arguments(spec, &kernel, processor, folder.path());
    Ok(Guest { folder, program, arguments, name: format!("guest {}", kernel.release) })
}

/// The kernel's first file system.
fn pack(kernel: &Kernel, needs: &Needs) -> Result<Vec<u8>, GuestError> {
    let mut archive = Archive::default();
    for folder in ["/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp", "/var/lib", "/etc"] {
        archive.folder(Path::new(folder));
    }
    for name in ["fsage", own::OTHERS[0], own::OTHERS[1]] {
        let bytes = own::for_machine(name, std::env::consts::ARCH)?;
        archive.file(&Path::new(PROGRAMS).join(name), &bytes);
    }
    let modules = Modules::below(&kernel.modules, &kernel.release)?;
    let names = MODULES.into_iter().chain(needs.modules.iter().map(String::as_str));
    for (number, module) in modules.for_names(names)?.into_iter().enumerate() {
        let name = format!("{number:03}-{}.ko", module.name);
        archive.file(&Path::new(MODULES_FOLDER).join(name), &module.bytes);
    }
    program::pack(&mut archive, &needs.programs)?;
    Ok(archive.finish())
}

/// Kernel line: quiet, fast to boot, and ended by a panic.
const KERNEL_LINE: &str = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check lpj=4000000 cryptomgr.notests \
                           random.trust_cpu=on rcupdate.rcu_expedited=1 rdinit=/fsage/fsage";

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

/// Arguments of QEMU: the smallest machine that it has, its serial port for frames on its standard input and output.
fn arguments(spec: &GuestSpec, kernel: &Kernel, processor: Processor, folder: &Path) -> Vec<OsString> {
    let (accelerator, model) = match processor {
        // What a processor says of its own mitigations cannot always be set, and guests have none.
        Processor::Kvm => ("kvm", "host,-arch-capabilities"),
        Processor::Emulated => ("tcg", "max"),
    };
    let text = |text: String| OsString::from(text);
    let path = |name: &str| folder.join(name).into_os_string();
    let mut console = OsString::from("file:");
    console.push(path("console"));
    let memory = spec.memory.0.div_ceil(1 << 20);
    let pairs: [(&str, OsString); 16] = [
        ("-M", "microvm,x-option-roms=off".into()),
        ("-bios", "qboot.rom".into()),
        ("-accel", accelerator.into()),
        ("-cpu", model.into()),
        ("-smp", text(spec.cpus.to_string())),
        ("-m", text(memory.to_string())),
        ("-display", "none".into()),
        ("-kernel", kernel.image.clone().into_os_string()),
        ("-initrd", path("initramfs")),
        ("-append", text(format!("{KERNEL_LINE} tsc_early_khz={} -- boot", kilohertz()))),
        ("-serial", console),
        ("-chardev", text(format!("stdio,id={PORT},signal=off"))),
        ("-device", "virtio-serial-device".into()),
        ("-device", text(format!("virtserialport,chardev={PORT},name={PORT}"))),
        ("-monitor", "none".into()),
        ("-rtc", "base=utc".into()),
    ];
    let flags = ["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from);
    let pairs = pairs.into_iter().flat_map(|(key, value)| [OsString::from(key), value]);
    flags.into_iter().chain(pairs).collect()
}
