//! The archive that a kernel unpacks into its first file system: "newc" (Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeSet;
use std::path::{Component, Path};

/// An archive under construction; folders are made as they are needed.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    files: BTreeSet<String>,
    entries: u32,
}

/// Bits of `st_mode`.
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// What ends an archive.
const TRAILER: &str = "TRAILER!!!";

impl Archive {
    /// Adds a file that can be run, by its absolute path. One that is there stays.
    pub fn file(&mut self, path: &Path, contents: &[u8]) {
        let name = self.above(path);
        if self.files.insert(name.clone()) {
            self.entry(&name, FILE, contents);
        }
    }

    /// Adds an empty folder.
    pub fn folder(&mut self, path: &Path) {
        let _ = self.above(&path.join("x"));
    }

    /// What it has so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The archive.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, &[]);
        self.bytes
    }

    /// Makes the folders above a path; its name in the archive.
    fn above(&mut self, path: &Path) -> String {
        let mut name = String::new();
        let parts: Vec<String> = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
                _ => None,
            })
            .collect();
        for (index, part) in parts.iter().enumerate() {
            if !name.is_empty() {
                name.push('/');
            }
            name.push_str(part);
            if index + 1 < parts.len() && self.folders.insert(name.clone()) {
                let folder = name.clone();
                self.entry(&folder, FOLDER, &[]);
            }
        }
        name
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(contents.len()).unwrap_or(u32::MAX);
        let length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        // inode, mode, uid, gid, links, mtime, size, device ×2, node ×2, length of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them_and_once() {
        let mut archive = Archive::default();
        archive.file(Path::new("/usr/bin/a"), b"abc");
        archive.file(Path::new("/usr/bin/b"), b"");
        archive.file(Path::new("/usr/bin/a"), b"again");
        archive.folder(Path::new("/proc"));
        let text = String::from_utf8(archive.finish()).unwrap();
        let at = |what: &str| text.find(what).unwrap();
        assert!(at("usr\0") < at("usr/bin\0") && at("usr/bin\0") < at("usr/bin/a\0"));
        assert_eq!(text.matches("usr/bin\0").count(), 1);
        assert!(!text.contains("again") && text.contains("proc\0") && text.contains(TRAILER));
        assert_eq!(text.matches("070701").count(), 6);
        assert_eq!(text.len() % 4, 0);
        // Mode and size of the file, in hexadecimal digits.
        let header = &text[at("usr/bin/a\0") - 110..at("usr/bin/a\0")];
        assert_eq!((&header[14..22], &header[54..62]), ("000081ed", "00000003"));
    }
}
