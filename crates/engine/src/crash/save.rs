//! What a device holds as a file, for stock tools.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use fsage_sys::new_file::{NewFile, Readers};

use crate::host::HostError;

/// Bytes that are either written or left out as a hole.
const PIECE: usize = 64 << 10;

/// Writes all of a device to a new file: zeros are holes, only the owner may read it, no link is followed and
/// no file replaced. It is there as a whole or not at all.
///
/// # Errors
/// The device cannot be read, or the file not be made.
pub fn save(device: &Path, file: &Path) -> Result<(), HostError> {
    let mut from = File::open(device).map_err(HostError::file("read", device))?;
    let mut to = NewFile::create(file, Readers::Owner).map_err(HostError::file("make", file))?;
    let written = copy(&mut from, &mut to).and_then(|()| to.commit_new().map(drop));
    written.map_err(HostError::file("write", file))
}

fn copy(from: &mut File, to: &mut NewFile) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut end = 0;
    loop {
        let count = from.read(&mut piece)?;
        let Some(bytes) = piece.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        if bytes.iter().any(|byte| *byte != 0) {
            to.seek(SeekFrom::Start(end))?;
            to.write_all(bytes)?;
        }
        end += u64::try_from(count).unwrap_or(0);
    }
    to.file().set_len(end)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn a_copy_has_the_same_bytes_and_holes_for_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let mut bytes = vec![0; 40 * PIECE + 4096];
        bytes[7 * PIECE + 5] = 1;
        std::fs::write(&from, &bytes).unwrap();
        save(&from, &to).unwrap();
        assert!(std::fs::read(&to).unwrap() == bytes);
        let found = to.metadata().unwrap();
        assert!(found.blocks() * 512 < 4 * PIECE as u64, "{} blocks", found.blocks());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        // What is there is neither replaced nor followed.
        assert!(save(&from, &to).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
        assert!(save(&from, &link).is_err() && !folder.path().join("elsewhere").exists());
    }
}
