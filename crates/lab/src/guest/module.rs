//! Kernel modules: which files a list of names needs, in the order in which they are loaded.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{GuestError, everything};
use crate::tools::Invocation;

/// Algorithms that file systems ask the kernel for by name, which no module names as what it needs.
const ALGORITHMS: [&str; 8] = [
    "crc32c_generic",
    "crc32_generic",
    "crct10dif_generic",
    "xxhash_generic",
    "blake2b_generic",
    "sha256_generic",
    "crc32c_intel",
    "crc32_pclmul",
];

/// The modules of one kernel.
#[derive(Debug)]
pub struct Modules {
    release: String,
    /// By name, with `_` for `-`.
    files: BTreeMap<String, PathBuf>,
    /// Those in the kernel itself.
    built_in: String,
}

/// A module to be loaded.
#[derive(Debug)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its file, uncompressed.
    pub bytes: Vec<u8>,
}

impl Modules {
    /// Those below `folder`, `lib/modules/RELEASE` of a package or of a built tree.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn below(folder: &Path, release: &str) -> Result<Self, GuestError> {
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let read = |source| GuestError::Read { path: folder.clone(), source };
            for entry in std::fs::read_dir(&folder).map_err(read)? {
                let entry = entry.map_err(read)?;
                let (path, kind) = (entry.path(), entry.file_type().map_err(read)?);
                if kind.is_dir() {
                    folders.push(path);
                } else if let Some(name) = name_of(&path) {
                    files.insert(name, path);
                }
            }
        }
        let built_in = std::fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        Ok(Self { release: release.to_owned(), files, built_in })
    }

    /// Whether there is a module of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(&name.replace('-', "_"))
    }

    /// The modules that are to be loaded for `names`, each after those it needs. What is in the kernel itself is left
    /// out.
    ///
    /// # Errors
    /// The kernel lacks one, or a file cannot be read.
    pub fn for_names<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Module>, GuestError> {
        let mut found = Vec::new();
        // Those that a kernel lacks are in it, or not needed by it.
        for name in ALGORITHMS.iter().filter(|name| self.has(name)) {
            self.add(name, &mut found, 0)?;
        }
        for name in names {
            self.add(name, &mut found, 0)?;
        }
        Ok(found)
    }

    fn add(&self, name: &str, found: &mut Vec<Module>, depth: usize) -> Result<(), GuestError> {
        let name = name.replace('-', "_");
        if found.iter().any(|module| module.name == name) || depth > 32 {
            return Ok(());
        }
        let Some(path) = self.files.get(&name) else {
            let is_built_in =
                self.built_in.lines().any(|line| name_of(Path::new(line)).as_ref() == Some(&name));
            let lacks = || GuestError::NoModule { module: name.clone(), release: self.release.clone() };
            return if is_built_in { Ok(()) } else { Err(lacks()) };
        };
        let bytes = uncompressed(path)?;
        for needed in needs(&bytes) {
            self.add(&needed, found, depth + 1)?;
        }
        found.push(Module { name, bytes });
        Ok(())
    }
}

/// The name of a module by that of its file.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stem = ["", ".xz", ".zst", ".gz"].iter().find_map(|end| name.strip_suffix(&format!(".ko{end}")));
    stem.map(|stem| stem.replace('-', "_"))
}

fn uncompressed(path: &Path) -> Result<Vec<u8>, GuestError> {
    let read = |source| GuestError::Read { path: path.to_owned(), source };
    let name = path.to_string_lossy();
    let program = match name.rsplit_once('.').map(|(_, end)| end) {
        Some("xz") => "xz",
        Some("gz") => "gzip",
        Some("zst") => {
            let file = std::fs::File::open(path).map_err(read)?;
            return zstd::decode_all(file).map_err(read);
        }
        _ => return std::fs::read(path).map_err(read),
    };
    unpack(program, path)
}

/// What `xz -dc` and the like make of a file.
pub(super) fn unpack(program: &str, path: &Path) -> Result<Vec<u8>, GuestError> {
    let words = [program, "-dc", "--"].map(str::to_owned).into_iter();
    let argv = words.chain([path.to_string_lossy().into_owned()]).collect();
    let package = if program == "xz" { "xz-utils" } else { program };
    let invocation = Invocation::new(argv, package.to_owned(), super::UNPACKING);
    Ok(invocation.stream(|_| {}, None, everything)?)
}

/// The modules that a module says it needs: `depends=` in its section `.modinfo` (Linux, `include/linux/module.h`).
fn needs(bytes: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = bytes.windows(KEY.len()).position(|part| part == KEY) else { return Vec::new() };
    let mut value = Vec::new();
    // Bounded: what is no module may have no end.
    let _ = bytes[at + KEY.len()..].take(4096).read_to_end(&mut value);
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&value[..end]).into_owned();
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_after_what_it_needs_and_what_is_built_in_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, needs: &str| {
            let path = folder.path().join("kernel").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("\x7fELF\0license=GPL\0depends={needs}\0name=x\0")).unwrap();
        };
        make("fs/ext4.ko", "mbcache,jbd2");
        make("fs/jbd2.ko", "crc32c-lib");
        make("fs/mbcache.ko", "");
        make("lib/crc32c-lib.ko", "");
        make("crypto/crc32c_generic.ko", "");
        std::fs::write(folder.path().join("modules.builtin"), "kernel/drivers/virtio/virtio.ko\n").unwrap();
        let modules = Modules::below(folder.path(), "6.1").unwrap();
        let found = modules.for_names(["virtio", "ext4"]).unwrap();
        let names: Vec<&str> = found.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["crc32c_generic", "mbcache", "crc32c_lib", "jbd2", "ext4"]);
        let error = modules.for_names(["f2fs"]).unwrap_err().to_string();
        assert!(error.contains("f2fs") && error.contains("6.1"), "{error}");
    }
}
