//! Programs in a guest, with the libraries that they are linked with: those of this host, or, for another architecture, of
//! packages that were fetched for it and unpacked in a folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_engine::host::tool::look_up;
use fsage_model::study::Architecture;

use super::cpio::Archive;
use super::machine::Machine;
use super::packages::{Packages, cache, lock, make, moved, workplace};
use super::{GuestError, everything};
use crate::tools::{Invocation, ToolError};

/// Files that programs read, where they are there.
const SETTINGS: [&str; 2] = ["/etc/mke2fs.conf", "/etc/xfs_mkfs.conf"];

/// Packages with the programs of the file systems that fsage makes and that its examples describe.
const PACKAGES: [&str; 4] = ["btrfs-progs", "e2fsprogs", "f2fs-tools", "xfsprogs"];

/// How long listing a program's libraries may take.
const LISTING: Duration = Duration::from_secs(60);

/// Where a guest's programs are.
#[derive(Debug)]
pub(super) enum Programs {
    /// This host's own.
    Own,
    /// Below a folder, as they would be below `/`.
    Fetched {
        /// The folder, without links in its path.
        root: PathBuf,
        /// What they were fetched for.
        machine: &'static Machine,
        /// The kernel that they run on.
        release: String,
    },
}

impl Programs {
    /// Those for a machine with a kernel of this release.
    pub fn of(machine: &'static Machine, release: &str) -> Result<Self, GuestError> {
        if machine.is_own() {
            return Ok(Self::Own);
        }
        let (tree, release) = (place(machine).join(TREE), release.to_owned());
        match tree.canonicalize() {
            Ok(root) => Ok(Self::Fetched { root, machine, release }),
            Err(_) => {
                let architecture = machine.architecture;
                Err(GuestError::NotFetched { what: "programs".to_owned(), architecture, release })
            }
        }
    }

    /// Whether there is a program.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The path of a program in the guest.
    fn find(&self, name: &str) -> Option<PathBuf> {
        const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        match self {
            Self::Own => look_up(name),
            Self::Fetched { .. } if name.contains('/') => {
                Some(PathBuf::from(name)).filter(|path| self.file(path).is_some())
            }
            Self::Fetched { .. } => {
                let paths = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
                paths.into_iter().find(|path| self.file(path).is_some())
            }
        }
    }

    /// Where the contents of a file of the guest are here; none: there is no such file.
    fn file(&self, path: &Path) -> Option<PathBuf> {
        let here = match self {
            Self::Own => path.to_owned(),
            Self::Fetched { root, .. } => {
                let below = path.strip_prefix("/").unwrap_or(path);
                // Where `/lib` is a link to `/usr/lib`, no package has the link.
                let places = [root.join(below), root.join("usr").join(below)];
                let there = places.iter().find_map(|place| place.canonicalize().ok());
                // A link out of the folder would lead to a file of this host.
                there.filter(|found| found.starts_with(root))?
            }
        };
        here.is_file().then_some(here)
    }

    /// The paths of a program's libraries, and of the loader.
    fn libraries(&self, path: &Path) -> Result<Vec<PathBuf>, GuestError> {
        match self {
            Self::Own => libraries(path),
            Self::Fetched { .. } => self.needed(path),
        }
    }

    /// What a program names as needed, and what that needs. A library that is nowhere is left out: the loader says which one it lacks. The
    /// loader itself has to be there.
    fn needed(&self, path: &Path) -> Result<Vec<PathBuf>, GuestError> {
        let mut found: Vec<PathBuf> = Vec::new();
        let mut open = vec![path.to_owned()];
        while let Some(next) = open.pop() {
            let Some(here) = self.file(&next) else { continue };
            for name in names(&dynamic(&here)?) {
                match self.library(&name) {
                    Some(path) if !found.contains(&path) => {
                        found.push(path.clone());
                        open.push(path);
                    }
                    None if name.starts_with('/') => return Err(self.missing(&name)),
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// Where the loader finds a library without any settings.
    fn library(&self, name: &str) -> Option<PathBuf> {
        if name.starts_with('/') {
            return Some(PathBuf::from(name)).filter(|path| self.file(path).is_some());
        }
        let Self::Fetched { machine, .. } = self else { return None };
        let own = format!("{}-linux-gnu", machine.architecture.name());
        let folders =
            ["/lib", "/usr/lib"].into_iter().flat_map(|lib| [Path::new(lib).join(&own), lib.into()]);
        folders.map(|folder| folder.join(name)).find(|path| self.file(path).is_some())
    }

    fn missing(&self, name: &str) -> GuestError {
        match self {
            Self::Own => GuestError::NoProgram { program: name.to_owned() },
            Self::Fetched { machine, release, .. } => {
                let (what, release) = (format!("`{name}`"), release.clone());
                GuestError::NotFetched { what, architecture: machine.architecture, release }
            }
        }
    }
}

/// Adds the programs, by their paths.
pub(super) fn pack(
    archive: &mut Archive,
    names: &BTreeSet<String>,
    programs: &Programs,
) -> Result<(), GuestError> {
    let mut add = |path: &Path| {
        let here = programs.file(path).unwrap_or_else(|| path.to_owned());
        let bytes = std::fs::read(&here).map_err(|source| GuestError::Read { path: here, source })?;
        archive.file(path, &bytes);
        Ok::<(), GuestError>(())
    };
    for name in names {
        let path = programs.find(name).ok_or_else(|| programs.missing(name))?;
        add(&path)?;
        for library in programs.libraries(&path)? {
            add(&library)?;
        }
    }
    for path in SETTINGS.iter().map(Path::new).filter(|path| programs.file(path).is_some()) {
        add(path)?;
    }
    Ok(())
}

/// What was fetched for a machine: a list of packages, and the tree in which they are unpacked.
fn place(machine: &Machine) -> PathBuf {
    cache().join("programs").join(machine.architecture.name())
}

const LIST: &str = "packages";
const TREE: &str = "tree";

/// Fetches the programs of file systems for an architecture, those of `more` packages, and those that were fetched before,
/// each with all it needs; where all was fetched before, it stays. Returns the names of the packages. For this host's architecture nothing is
/// fetched: guests have its own programs.
///
/// # Errors
/// The distribution has no such package, the package manager fails, or there is no room.
pub fn fetch(architecture: Architecture, more: &[String]) -> Result<Vec<String>, GuestError> {
    let machine = Machine::wanted(Some(architecture))?;
    if machine.is_own() {
        return Ok(Vec::new());
    }
    check(more)?;
    let place = place(machine);
    // What is unpacked keeps its set-user-ID bits.
    fsage_sys::new_file::make_folder(&place, 0o700)
        .map_err(|source| GuestError::Write { path: place.clone(), source })?;
    let _lock = lock(&place.join("lock"))?;
    let list = place.join(LIST);
    let before = std::fs::read_to_string(&list).unwrap_or_default();
    let before: BTreeSet<String> =
        before.lines().filter(|name| is_package(name)).map(str::to_owned).collect();
    let mut wanted = before.clone();
    wanted.extend(PACKAGES.iter().map(|name| (*name).to_owned()).chain(more.iter().cloned()));
    let names: Vec<String> = wanted.iter().cloned().collect();
    if wanted == before && place.join(TREE).is_dir() {
        return Ok(names);
    }
    let work = workplace(&place)?;
    let tree = work.path().join(TREE);
    make(&tree)?;
    Packages::of(machine)?.unpack(&names, &tree)?;
    let old = place.join(TREE);
    if old.is_dir() {
        moved(&old, &work.path().join("old"))?;
    }
    moved(&tree, &old)?;
    std::fs::write(&list, names.join("\n") + "\n")
        .map_err(|source| GuestError::Write { path: list, source })?;
    Ok(names)
}

/// Refuses what is not the name of a package.
///
/// # Errors
/// One is not.
pub fn check(packages: &[String]) -> Result<(), GuestError> {
    match packages.iter().find(|name| !is_package(name)) {
        Some(name) => Err(GuestError::PackageName { name: name.clone() }),
        None => Ok(()),
    }
}

/// Whether a text is the name of a package (Debian Policy, 5.6.1), and no option.
fn is_package(name: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    // A dash at the end would remove it.
    name.len() > 1
        && !name.ends_with('-')
        && name.starts_with(known)
        && name.chars().all(|c| known(c) || "+-.".contains(c))
}

/// What the loader would load for a program of this host, and the loader.
fn libraries(path: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let argv = vec!["ldd".to_owned(), path.to_string_lossy().into_owned()];
    let invocation = Invocation::new(argv, "libc-bin".to_owned(), LISTING);
    match invocation.stream(|_| {}, None, everything) {
        Ok(text) => Ok(paths(&String::from_utf8_lossy(&text))),
        // Its status for what is linked with nothing.
        Err(ToolError::Status { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// What a file says to the loader, of whatever architecture it is.
fn dynamic(path: &Path) -> Result<String, GuestError> {
    let words = ["readelf", "-W", "-l", "-d", "--"].map(str::to_owned).into_iter();
    let argv = words.chain([path.to_string_lossy().into_owned()]).collect();
    let invocation = Invocation::new(argv, "binutils".to_owned(), LISTING);
    let here = |command: &mut std::process::Command| {
        command.env("LC_ALL", "C.UTF-8");
    };
    match invocation.stream(here, None, everything) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        // A script.
        Err(ToolError::Status { .. }) => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
}

/// The loader and the libraries in what `readelf` prints.
fn names(text: &str) -> Vec<String> {
    const BEGINS: [&str; 2] = ["[Requesting program interpreter: ", "(NEEDED)"];
    let name = |line: &str| {
        let begin = BEGINS.iter().find(|begin| line.contains(*begin))?;
        let rest = line.split_once(begin)?.1;
        // The name of a library has brackets of its own.
        let rest = rest.split_once('[').map_or(rest, |(_, name)| name);
        rest.split_once(']').map(|(name, _)| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// The paths in what `ldd` prints.
fn paths(text: &str) -> Vec<PathBuf> {
    let word = |line: &str| {
        let line = line.split(" (0x").next().unwrap_or(line).trim();
        let path = line.rsplit_once("=> ").map_or(line, |(_, path)| path);
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    text.lines().filter_map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found_and_the_kernel_s_own_is_not() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t\
                    /lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tlibgone.so => not found\n";
        let paths = paths(text);
        assert_eq!(
            paths,
            [PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"), "/lib64/ld-linux-x86-64.so.2".into()]
        );
    }

    #[test]
    fn a_program_that_is_not_here_is_named() {
        let programs = BTreeSet::from(["mkfs.nowhere".to_owned()]);
        let error = pack(&mut Archive::default(), &programs, &Programs::Own).unwrap_err();
        assert!(error.to_string().contains("mkfs.nowhere"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let fetched = fetched(folder.path(), std::env::consts::ARCH);
        let error = pack(&mut Archive::default(), &programs, &fetched).unwrap_err();
        assert!(error.to_string().contains("`mkfs.nowhere`"), "{error}");
    }

    fn fetched(root: &Path, name: &str) -> Programs {
        let machine = Machine::of(Architecture::named(name).unwrap());
        Programs::Fetched { root: root.canonicalize().unwrap(), machine, release: "6.1".to_owned() }
    }

    #[test]
    fn names_are_read_of_what_readelf_prints() {
        let text = "      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]\n \
                    0x0000000000000001 (NEEDED)             Shared library: [libext2fs.so.2]\n \
                    0x000000000000000e (SONAME)             Library soname: [libno.so]\n";
        assert_eq!(names(text), ["/lib/ld-linux-aarch64.so.1", "libext2fs.so.2"]);
    }

    /// As in distributions without a `/lib` of their own.
    #[test]
    fn what_lies_below_usr_is_found_by_its_old_name_and_a_loader_has_to_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let sh = look_up("sh").unwrap();
        let put = |path: &Path| {
            let to = folder.path().join("usr").join(path.strip_prefix("/").unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(path, &to).unwrap();
        };
        std::fs::create_dir_all(folder.path().join("bin")).unwrap();
        std::fs::copy(&sh, folder.path().join("bin/sh")).unwrap();
        let programs = fetched(folder.path(), std::env::consts::ARCH);
        let error = programs.libraries(Path::new("/bin/sh")).unwrap_err().to_string();
        assert!(error.contains("`/lib") && error.contains("not fetched"), "{error}");
        let own = Programs::Own.libraries(&sh).unwrap();
        own.iter().for_each(|path| put(path));
        let found = programs.libraries(Path::new("/bin/sh")).unwrap();
        assert_eq!(found.len(), own.len(), "{found:?}");
        assert!(found.iter().all(|path| path.starts_with("/lib") || path.starts_with("/lib64")), "{found:?}");
        let mut archive = Archive::default();
        pack(&mut archive, &BTreeSet::from(["sh".to_owned()]), &programs).unwrap();
    }

    /// This host's own programs lie below `/` as those of another architecture do below their folder.
    #[test]
    fn what_the_loader_needs_is_found_without_it() {
        for name in ["mke2fs", "sh", "mkfs.xfs"] {
            let path = look_up(name).unwrap().canonicalize().unwrap();
            let real = |paths: Vec<PathBuf>| {
                paths.iter().map(|path| path.canonicalize().unwrap()).collect::<BTreeSet<_>>()
            };
            let own = real(Programs::Own.libraries(&path).unwrap());
            let found = real(fetched(Path::new("/"), std::env::consts::ARCH).libraries(&path).unwrap());
            assert!(own.len() > 1, "{own:?}");
            assert_eq!(found, own, "{name}");
        }
    }

    #[test]
    fn links_out_of_the_folder_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        std::fs::create_dir_all(root.join("usr/sbin")).unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        std::fs::write(root.join("usr/sbin/real"), "#!/bin/sh\n").unwrap();
        for (name, to) in [("in", "real"), ("up", "../../../secret"), ("away", "/proc/self/exe")] {
            std::os::unix::fs::symlink(to, root.join("usr/sbin").join(name)).unwrap();
        }
        let programs = fetched(&root, "aarch64");
        let there = ["real", "in", "up", "away", "/usr/sbin/in", "/proc/self/exe", "../../secret"];
        assert_eq!(there.map(|name| programs.has(name)), [true, true, false, false, true, false, false]);
        let mut archive = Archive::default();
        pack(&mut archive, &BTreeSet::from(["in".to_owned()]), &programs).unwrap();
        assert!(archive.bytes().windows(9).any(|part| part == b"#!/bin/sh"));
    }

    #[test]
    fn names_of_packages_are_no_options() {
        for (name, right) in [
            ("e2fsprogs", true),
            ("libstdc++6", true),
            ("-o", false),
            ("fio-", false),
            ("a/b", false),
            ("A", false),
            ("x", false),
            ("", false),
        ] {
            assert_eq!(is_package(name), right, "{name}");
        }
    }
}
