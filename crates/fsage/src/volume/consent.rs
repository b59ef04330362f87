//! What the command line allows to be erased.

use std::path::{Path, PathBuf};

/// The `--erase` flags of one command line: `PATH`, or `PATH=SERIAL`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EraseConsent {
    entries: Vec<(PathBuf, Option<String>)>,
}

/// What the command line says about one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consent<'a> {
    /// The serial number (or the word that stands for it) that was given.
    pub serial: Option<&'a str>,
}

impl EraseConsent {
    /// Reads the flags' values. The serial number is what stands after the last `=`.
    #[must_use]
    pub fn parse(flags: &[String]) -> Self {
        let entries = flags.iter().map(|flag| match flag.rsplit_once('=') {
            Some((path, serial)) if !path.is_empty() && !serial.contains('/') => {
                (PathBuf::from(path), Some(serial.to_owned()))
            }
            _ => (PathBuf::from(flag), None),
        });
        Self { entries: entries.collect() }
    }

    /// What was said about `path`, which must be written as in the study. Given twice, a serial number counts.
    #[must_use]
    pub fn for_path(&self, path: &Path) -> Option<Consent<'_>> {
        let mut found = self.entries.iter().filter(|(named, _)| named.as_os_str() == path.as_os_str());
        let first = found.next()?;
        let serial = first.1.as_deref().or_else(|| found.find_map(|(_, serial)| serial.as_deref()));
        Some(Consent { serial })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_paths_and_serials() {
        let flags = [
            "/dev/disk/by-id/a",
            "/dev/disk/by-id/b=S3R1AL",
            "/dev/c=",
            "/dev/x=/dev/y",
            "/dev/disk/by-id/a=7",
        ];
        let consent = EraseConsent::parse(&flags.map(str::to_owned));
        let serial = |path: &str| consent.for_path(Path::new(path)).map(|consent| consent.serial);
        assert_eq!(serial("/dev/disk/by-id/a"), Some(Some("7")));
        assert_eq!(serial("/dev/disk/by-id/b"), Some(Some("S3R1AL")));
        assert_eq!(serial("/dev/c"), Some(Some("")));
        assert_eq!(serial("/dev/x=/dev/y"), Some(None));
        assert_eq!(serial("/dev/disk/by-id"), None);
        assert_eq!(serial("/dev/disk/by-id/a/"), None, "written as in the study");
    }
}
