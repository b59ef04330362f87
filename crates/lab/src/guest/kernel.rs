//! Kernels of guests: packages of the distribution, unpacked and never installed, or a built tree.
//!
//! Each has a folder in `/var/cache/fsage/kernels` (or `kernels` in `$FSAGE_CACHE_DIR`) with `vmlinux` (the kernel, which starts without unpacking
//! itself: as ELF on x86) and `modules`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use fsage_model::study::Architecture;

use super::GuestError;
use super::machine::Machine;
use super::module::unpack;
use super::packages::{Packages, archives, cache, make, moved, unpack_one, workplace};

/// Folder of all kernels.
fn kernels() -> PathBuf {
    cache().join("kernels")
}

/// Bytes of the file with a kernel's release, at most.
const RELEASE_BYTES: u64 = 4096;

/// A kernel that a guest can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` says.
    pub release: String,
    /// The kernel, not compressed: as ELF on x86.
    pub image: PathBuf,
    /// Its modules.
    pub modules: PathBuf,
}

/// The kernels that were fetched, by release.
///
/// # Errors
/// The folder cannot be read.
pub fn list() -> Result<Vec<Kernel>, GuestError> {
    let place = kernels();
    let read = |source| GuestError::Read { path: place.clone(), source };
    let entries = match std::fs::read_dir(&place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(read)?,
    };
    let mut found: Vec<Kernel> = Vec::new();
    for entry in entries {
        let path = entry.map_err(read)?.path();
        found.extend(unpacked(&path));
    }
    found.sort_by_key(|kernel| numbers(&kernel.release));
    Ok(found)
}

fn unpacked(folder: &Path) -> Option<Kernel> {
    let (image, modules) = (folder.join("vmlinux"), folder.join("modules"));
    let release = folder.file_name()?.to_str()?.to_owned();
    (image.is_file() && modules.is_dir() && !release.starts_with('.')).then_some(Kernel {
        release,
        image,
        modules,
    })
}

/// The kernel that a study names: `debian` (the newest that was fetched), the beginning of a release (`6.1`), or the
/// path of a built tree; for guests of `architecture`, or of any.
///
/// # Errors
/// It was not fetched, or the tree has no kernel or no modules.
pub fn find(name: &str, architecture: Option<Architecture>) -> Result<Kernel, GuestError> {
    let machine = architecture.map(Machine::of);
    if name.starts_with('/') {
        return built(Path::new(name), machine.map_or_else(|| Machine::wanted(None), Ok)?);
    }
    let fetched = list()?;
    let found = match machine {
        Some(machine) => newest(&fetched, name, |release| machine.runs(release)),
        // This host's, if there is one.
        None => Machine::wanted(None)
            .ok()
            .and_then(|own| newest(&fetched, name, |release| own.runs(release)))
            .or_else(|| newest(&fetched, name, |_| true)),
    };
    found.cloned().ok_or_else(|| GuestError::NoKernel {
        name: name.to_owned(),
        architecture: machine.filter(|machine| !machine.is_own()).map(|machine| machine.architecture),
    })
}

/// The newest of a version, of those that a machine runs.
fn newest<'a>(fetched: &'a [Kernel], version: &str, runs: impl Fn(&str) -> bool) -> Option<&'a Kernel> {
    let matches = |release: &str| (version == "debian" || is_of(release, version)) && runs(release);
    fetched.iter().rev().find(|kernel| matches(&kernel.release))
}

/// Whether a release is one of a version such as `6.1`: not `6.12`.
fn is_of(release: &str, version: &str) -> bool {
    release.strip_prefix(version).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A tree in which `make vmlinux modules` has run (`make Image modules` for ARM), with its modules installed below it
/// (`make modules_install INSTALL_MOD_PATH=.`).
fn built(tree: &Path, machine: &Machine) -> Result<Kernel, GuestError> {
    let lacks = |what: &str| GuestError::NotBuilt { tree: tree.to_owned(), lacks: what.to_owned() };
    let image = tree.join(machine.image);
    if !image.is_file() {
        return Err(lacks(&format!("{} (`make {}`)", machine.image, machine.make)));
    }
    let path = tree.join("include/config/kernel.release");
    let release = fsage_sys::input::read_text(&path, RELEASE_BYTES)
        .map_err(|_| lacks("include/config/kernel.release (`make vmlinux`)"))?;
    let release = release.trim().to_owned();
    let modules = tree.join("lib/modules").join(&release);
    if release.is_empty() || release.contains('/') || !modules.is_dir() {
        let what = format!("lib/modules/{release} (`make modules_install INSTALL_MOD_PATH=.` in the tree)");
        return Err(lacks(&what));
    }
    Ok(Kernel { release, image, modules })
}

/// Digits of a text as numbers: 6.1.0-9 comes before 6.1.0-10.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Packages of kernels for a machine, without those for clouds, for real time, and unsigned ones.
fn packages_of(packages: &Packages, machine: &Machine) -> Result<Vec<String>, GuestError> {
    let names = packages.run("apt-cache", &["pkgnames", "linux-image-"], &kernels())?;
    let mut found: Vec<String> =
        names.lines().filter(|name| release_of(name, machine).is_some()).map(str::to_owned).collect();
    found.sort_by_key(|name| numbers(name));
    Ok(found)
}

/// The release in the name of a package of a kernel.
fn release_of<'a>(package: &'a str, machine: &Machine) -> Option<&'a str> {
    let release = package.strip_prefix("linux-image-")?;
    let version = release.strip_suffix(machine.debian)?.strip_suffix('-')?;
    let plain = |c: char| c.is_ascii_digit() || ".-+debpo~".contains(c);
    // Packages without a patch level only name the newest one.
    let whole = version.starts_with(|c: char| c.is_ascii_digit()) && numbers(version).len() >= 3;
    (whole && version.chars().all(plain)).then_some(release)
}

/// Releases of the kernels that the distribution has for an architecture, this host's if none is given.
///
/// # Errors
/// There is no `apt-get`, or it fails.
pub fn available(architecture: Option<Architecture>) -> Result<Vec<String>, GuestError> {
    let machine = Machine::wanted(architecture)?;
    let names = packages_of(&Packages::of(machine)?, machine)?;
    Ok(names.iter().filter_map(|name| release_of(name, machine)).map(str::to_owned).collect())
}

/// Fetches the newest kernel of a version such as `6.1` (`debian`: of any) and unpacks it. One that is there is not
/// fetched again. For guests of another architecture than this host's, see also [`super::program::fetch`].
///
/// # Errors
/// The distribution has none, the package manager fails, or there is no room.
pub fn fetch(version: &str, architecture: Option<Architecture>) -> Result<Kernel, GuestError> {
    let machine = Machine::wanted(architecture)?;
    let packages = Packages::of(machine)?;
    let known = packages_of(&packages, machine)?;
    let released = |name: &String| release_of(name, machine).map(str::to_owned);
    let matches = |release: &String| version == "debian" || is_of(release, version);
    let release =
        known.iter().rev().filter_map(released).find(matches).ok_or_else(|| GuestError::NoPackage {
            version: version.to_owned(),
            known: known.iter().filter_map(released).collect(),
        })?;
    let place = kernels().join(&release);
    if let Some(kernel) = unpacked(&place) {
        return Ok(kernel);
    }
    let work = workplace(&kernels())?;
    packages.run("apt-get", &["-q", "download", &format!("linux-image-{release}")], work.path())?;
    let archive = archives(work.path())?.into_iter().next();
    let archive =
        archive.ok_or_else(|| GuestError::NoPackage { version: release.clone(), known: Vec::new() })?;
    let tree = work.path().join("tree");
    unpack_one(&archive, &tree)?;
    let image = elf(&tree.join("boot").join(format!("vmlinuz-{release}")), work.path())?;
    let ready = work.path().join("ready");
    make(&ready)?;
    if !machine.starts(&image) {
        let lacks = "a kernel that starts without unpacking itself".to_owned();
        return Err(GuestError::NotBuilt { tree, lacks });
    }
    let path = ready.join("vmlinux");
    std::fs::write(&path, image).map_err(|source| GuestError::Write { path, source })?;
    let modules = ["lib", "usr/lib"].map(|lib| tree.join(lib).join("modules").join(&release));
    let modules = modules
        .iter()
        .find(|folder| folder.is_dir())
        .ok_or_else(|| GuestError::NotBuilt { tree: tree.clone(), lacks: "lib/modules".to_owned() })?;
    moved(modules, &ready.join("modules"))?;
    moved(&ready, &place)?;
    unpacked(&place).ok_or(GuestError::NoKernel { name: release, architecture })
}

/// The kernel within a compressed one: boot protocol 2.08 and later (Linux, `Documentation/arch/x86/boot.rst`). What
/// is no such file is taken as it is: kernels for ARM are not compressed.
fn elf(path: &Path, work: &Path) -> Result<Vec<u8>, GuestError> {
    let bytes = std::fs::read(path).map_err(|source| GuestError::Read { path: path.to_owned(), source })?;
    let Some(payload) = payload(&bytes) else { return Ok(bytes) };
    let magic: [(&[u8], &str); 3] =
        [(b"\xfd7zXZ\0", "xz"), (b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd")];
    let program = magic.iter().find(|(magic, _)| payload.starts_with(magic)).map(|(_, program)| *program);
    let packed = work.join("payload");
    std::fs::write(&packed, payload).map_err(|source| GuestError::Write { path: packed.clone(), source })?;
    match program {
        Some("zstd") => {
            let mut bytes = Vec::new();
            let decoder = zstd::Decoder::new(payload)
                .and_then(|decoder| decoder.single_frame().read_to_end(&mut bytes));
            decoder.map_err(|source| GuestError::Read { path: packed, source })?;
            Ok(bytes)
        }
        Some(program) => unpack(program, &packed),
        None => Err(GuestError::NotBuilt {
            tree: path.to_owned(),
            lacks: "a payload that can be unpacked".to_owned(),
        }),
    }
}

/// The compressed kernel in a bzImage, without its length at the end.
fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| {
        let four = bytes.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes([four[0], four[1], four[2], four[3]])).ok()
    };
    if bytes.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let sectors = match bytes.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let start = (sectors + 1) * 512 + number(0x248)?;
    let length = number(0x24c)?;
    bytes.get(start..start + length.checked_sub(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_not_mixed_up() {
        assert!(is_of("6.1.0-56-amd64", "6.1") && !is_of("6.12.95+deb12-amd64", "6.1"));
        assert!(numbers("6.1.0-9-amd64") < numbers("6.1.0-10-amd64"));
    }

    #[test]
    fn kernels_of_two_architectures_are_told_apart() {
        let kernel = |release: &str| Kernel {
            release: release.to_owned(),
            image: PathBuf::new(),
            modules: PathBuf::new(),
        };
        let fetched =
            ["6.1.0-56-amd64", "6.1.0-57-arm64", "6.1.0-57-amd64", "6.12.95+deb12-arm64"].map(kernel);
        let found = |version: &str, architecture| {
            let machine = Machine::of(architecture);
            newest(&fetched, version, |release| machine.runs(release)).map(|kernel| kernel.release.as_str())
        };
        assert_eq!(found("6.1", Architecture::X86_64), Some("6.1.0-57-amd64"));
        assert_eq!(found("6.1", Architecture::Aarch64), Some("6.1.0-57-arm64"));
        assert_eq!(found("debian", Architecture::Aarch64), Some("6.12.95+deb12-arm64"));
        assert_eq!(found("6.12", Architecture::X86_64), None);
        assert_eq!(found("6.1.0-57-arm64", Architecture::Aarch64), Some("6.1.0-57-arm64"));
    }

    #[test]
    fn packages_for_other_uses_are_left_out() {
        for architecture in Architecture::ALL {
            let machine = Machine::of(architecture);
            let kind = machine.debian;
            for (name, right) in [
                ("linux-image-6.1.0-56-", true),
                ("linux-image-6.12.95+deb12-", true),
                ("linux-image-6.1.0-56-cloud-", false),
                ("linux-image-6.1.0-56-rt-", false),
                ("linux-image-6.12-", false),
                ("linux-image-", false),
            ] {
                assert_eq!(release_of(&format!("{name}{kind}"), machine).is_some(), right, "{name}");
            }
            assert!(release_of(&format!("linux-image-6.1.0-56-{kind}-unsigned"), machine).is_none());
        }
    }

    #[test]
    fn the_payload_of_a_kernel_is_found_by_its_header() {
        let mut bytes = vec![0; 4096];
        bytes[0x1f1] = 1;
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        bytes[0x24c..0x250].copy_from_slice(&9_u32.to_le_bytes());
        bytes[1040..1045].copy_from_slice(b"kerne");
        assert_eq!(payload(&bytes), Some(&b"kerne"[..]));
        assert_eq!(payload(b"MZ"), None);
    }
}
