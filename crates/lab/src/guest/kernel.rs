//! Kernels of guests: packages of the distribution, unpacked and never installed, or a built tree.
//!
//! Each has a folder in `/var/cache/fsage/kernels` (or `kernels` in `$FSAGE_CACHE_DIR`) with `vmlinux` (the kernel as ELF, which starts without unpacking
//! itself) and `modules`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::module::unpack;
use super::{GuestError, everything};
use crate::tools::Invocation;

/// Folder of all kernels: below `$FSAGE_CACHE_DIR`, or `/var/cache/fsage`.
fn cache() -> PathBuf {
    let named = std::env::var_os("FSAGE_CACHE_DIR").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from("/var/cache/fsage")).join("kernels")
}

/// Bytes of the file with a kernel's release, at most.
const RELEASE_BYTES: u64 = 4096;

/// Lists of packages are fetched again when they are so old.
const LISTS: Duration = Duration::from_secs(24 * 3600);

/// How the names of folders begin in which kernels are unpacked.
const FETCH: &str = ".fetch-";

/// How long a program of the package manager may take.
const PACKAGES: Duration = Duration::from_secs(900);

/// A kernel that a guest can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` says.
    pub release: String,
    /// The kernel as ELF.
    pub image: PathBuf,
    /// Its modules.
    pub modules: PathBuf,
}

/// The kernels that were fetched, by release.
///
/// # Errors
/// The folder cannot be read.
pub fn list() -> Result<Vec<Kernel>, GuestError> {
    let cache = cache();
    let read = |source| GuestError::Read { path: cache.clone(), source };
    let entries = match std::fs::read_dir(&cache) {
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
/// path of a built tree.
///
/// # Errors
/// It was not fetched, or the tree has no kernel or no modules.
pub fn find(name: &str) -> Result<Kernel, GuestError> {
    if name.starts_with('/') {
        return built(Path::new(name));
    }
    let matches = |release: &str| name == "debian" || is_of(release, name);
    let found = list()?.into_iter().rev().find(|kernel| matches(&kernel.release));
    found.ok_or_else(|| GuestError::NoKernel { name: name.to_owned() })
}

/// Whether a release is one of a version such as `6.1`: not `6.12`.
fn is_of(release: &str, version: &str) -> bool {
    release.strip_prefix(version).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A tree in which `make vmlinux modules` has run, with its modules installed below it
/// (`make modules_install INSTALL_MOD_PATH=.`).
fn built(tree: &Path) -> Result<Kernel, GuestError> {
    let lacks = |what: &str| GuestError::NotBuilt { tree: tree.to_owned(), lacks: what.to_owned() };
    let image = tree.join("vmlinux");
    if !image.is_file() {
        return Err(lacks("vmlinux (`make vmlinux`)"));
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

/// The package manager with state of its own: nothing of the host's is read but its sources, and nothing written.
struct Packages {
    state: PathBuf,
}

impl Packages {
    fn new() -> Result<Self, GuestError> {
        let state = cache().join(".packages");
        for folder in ["lists/partial", "cache/archives/partial"] {
            make(&state.join(folder))?;
        }
        let status = state.join("status");
        std::fs::write(&status, "").map_err(|source| GuestError::Write { path: status, source })?;
        Ok(Self { state })
    }

    fn run(&self, program: &str, words: &[&str], folder: &Path) -> Result<String, GuestError> {
        let state = self.state.display();
        let options = [
            format!("Dir::State::lists={state}/lists"),
            format!("Dir::Cache={state}/cache"),
            format!("Dir::State::status={state}/status"),
            "APT::Sandbox::User=root".to_owned(),
        ];
        let mut argv = vec![program.to_owned()];
        options.into_iter().for_each(|option| argv.extend(["-o".to_owned(), option]));
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        run(argv, "apt", folder)
    }

    fn update(&self) -> Result<(), GuestError> {
        let lists = self.state.join("lists");
        let age =
            lists.join("fetched").metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        if age.is_none_or(|age| age > LISTS) {
            self.run("apt-get", &["-q", "update"], &self.state)?;
            let path = lists.join("fetched");
            std::fs::write(&path, "").map_err(|source| GuestError::Write { path, source })?;
        }
        Ok(())
    }

    /// Packages of kernels for this kind of processor, without those for clouds, for real time, and unsigned ones.
    fn kernels(&self) -> Result<Vec<String>, GuestError> {
        let names = self.run("apt-cache", &["pkgnames", "linux-image-"], &self.state)?;
        let mut found: Vec<String> =
            names.lines().filter(|name| release_of(name).is_some()).map(str::to_owned).collect();
        found.sort_by_key(|name| numbers(name));
        Ok(found)
    }
}

/// The release in the name of a package of a kernel.
fn release_of(package: &str) -> Option<&str> {
    let release = package.strip_prefix("linux-image-")?;
    let kind = if std::env::consts::ARCH == "aarch64" { "-arm64" } else { "-amd64" };
    let version = release.strip_suffix(kind)?;
    let plain = |c: char| c.is_ascii_digit() || ".-+debpo~".contains(c);
    // Packages without a patch level only name the newest one.
    let whole = version.starts_with(|c: char| c.is_ascii_digit()) && numbers(version).len() >= 3;
    (whole && version.chars().all(plain)).then_some(release)
}

/// Releases of the kernels that the distribution has.
///
/// # Errors
/// There is no `apt-get`, or it fails.
pub fn available() -> Result<Vec<String>, GuestError> {
    let packages = Packages::new()?;
    packages.update()?;
    Ok(packages.kernels()?.iter().filter_map(|name| release_of(name)).map(str::to_owned).collect())
}

/// Fetches the newest kernel of a version such as `6.1` (`debian`: of any) and unpacks it. One that is there is not
/// fetched again.
///
/// # Errors
/// The distribution has none, the package manager fails, or there is no room.
pub fn fetch(version: &str) -> Result<Kernel, GuestError> {
    let packages = Packages::new()?;
    remove_left();
    packages.update()?;
    let known = packages.kernels()?;
    let matches = |name: &&String| {
        release_of(name).is_some_and(|release| version == "debian" || is_of(release, version))
    };
    let package = known.iter().rev().find(matches).ok_or_else(|| GuestError::NoPackage {
        version: version.to_owned(),
        known: known.iter().filter_map(|name| release_of(name)).map(str::to_owned).collect(),
    })?;
    let release = release_of(package).unwrap_or_default().to_owned();
    let place = cache().join(&release);
    if let Some(kernel) = unpacked(&place) {
        return Ok(kernel);
    }
    let work = tempfile::Builder::new()
        .prefix(FETCH)
        .tempdir_in(cache())
        .map_err(|source| GuestError::Write { path: cache(), source })?;
    packages.run("apt-get", &["-q", "download", package], work.path())?;
    let archive = std::fs::read_dir(work.path())
        .ok()
        .and_then(|entries| {
            entries
                .flatten()
                .map(|entry| entry.path())
                .find(|path| path.extension().is_some_and(|end| end == "deb"))
        })
        .ok_or_else(|| GuestError::NoPackage { version: release.clone(), known: Vec::new() })?;
    let words = ["dpkg-deb".to_owned(), "-x".to_owned(), archive.display().to_string(), "tree".to_owned()];
    run(words.to_vec(), "dpkg", work.path())?;
    let tree = work.path().join("tree");
    let image = elf(&tree.join("boot").join(format!("vmlinuz-{release}")), work.path())?;
    let ready = work.path().join("ready");
    make(&ready)?;
    let path = ready.join("vmlinux");
    std::fs::write(&path, image).map_err(|source| GuestError::Write { path, source })?;
    let modules = ["lib", "usr/lib"].map(|lib| tree.join(lib).join("modules").join(&release));
    let modules = modules
        .iter()
        .find(|folder| folder.is_dir())
        .ok_or_else(|| GuestError::NotBuilt { tree: tree.clone(), lacks: "lib/modules".to_owned() })?;
    let moved = |from: &Path, to: &Path| {
        std::fs::rename(from, to).map_err(|source| GuestError::Write { path: to.to_owned(), source })
    };
    moved(modules, &ready.join("modules"))?;
    moved(&ready, &place)?;
    unpacked(&place).ok_or(GuestError::NoKernel { name: release })
}

/// Removes what a fetch that was killed left a day ago.
fn remove_left() {
    let entries = std::fs::read_dir(cache()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(FETCH)) {
        let age = entry.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > LISTS) {
            // What cannot be removed is tried again by the next.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
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

fn run(argv: Vec<String>, package: &str, folder: &Path) -> Result<String, GuestError> {
    let invocation = Invocation::new(argv, package.to_owned(), PACKAGES);
    let here = |command: &mut std::process::Command| {
        command.current_dir(folder).env("LC_ALL", "C.UTF-8");
    };
    let text = invocation.stream(here, None, everything)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn make(folder: &Path) -> Result<(), GuestError> {
    fsage_sys::new_file::make_folder(folder, 0o755)
        .map(drop)
        .map_err(|source| GuestError::Write { path: folder.to_owned(), source })
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
    fn packages_for_other_uses_are_left_out() {
        let kind = if std::env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" };
        for (name, right) in [
            ("linux-image-6.1.0-56-", true),
            ("linux-image-6.12.95+deb12-", true),
            ("linux-image-6.1.0-56-cloud-", false),
            ("linux-image-6.1.0-56-rt-", false),
            ("linux-image-6.12-", false),
            ("linux-image-", false),
        ] {
            assert_eq!(release_of(&format!("{name}{kind}")).is_some(), right, "{name}");
        }
        assert!(release_of(&format!("linux-image-6.1.0-56-{kind}-unsigned")).is_none());
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
