//! Programs of this host in a guest, with the libraries that they are linked with.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_engine::host::tool::look_up;

use super::cpio::Archive;
use super::{GuestError, everything};
use crate::tools::Invocation;

/// Files that programs read, where the host has them.
const SETTINGS: [&str; 2] = ["/etc/mke2fs.conf", "/etc/xfs_mkfs.conf"];

/// How long `ldd` may take.
const LISTING: Duration = Duration::from_secs(60);

/// Adds the programs, by the paths that they have here.
pub(super) fn pack(archive: &mut Archive, programs: &BTreeSet<String>) -> Result<(), GuestError> {
    let mut add = |path: &Path| {
        let bytes =
            std::fs::read(path).map_err(|source| GuestError::Read { path: path.to_owned(), source })?;
        archive.file(path, &bytes);
        Ok::<(), GuestError>(())
    };
    for name in programs {
        let path = look_up(name).ok_or_else(|| GuestError::NoProgram { program: name.clone() })?;
        add(&path)?;
        for library in libraries(&path)? {
            add(&library)?;
        }
    }
    for path in SETTINGS.iter().map(Path::new).filter(|path| path.is_file()) {
        add(path)?;
    }
    Ok(())
}

/// What the loader would load for a program, and the loader.
fn libraries(path: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let argv = vec!["ldd".to_owned(), path.to_string_lossy().into_owned()];
    let invocation = Invocation::new(argv, "libc-bin".to_owned(), LISTING);
    match invocation.stream(|_| {}, None, everything) {
        Ok(text) => Ok(paths(&String::from_utf8_lossy(&text))),
        // Its status for what is linked with nothing.
        Err(crate::tools::ToolError::Status { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
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
        let error = pack(&mut Archive::default(), &programs).unwrap_err();
        assert!(error.to_string().contains("mkfs.nowhere"), "{error}");
    }
}
