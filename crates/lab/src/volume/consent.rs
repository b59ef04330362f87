//! What the command line allows to be erased.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fsage_model::protocol::DeviceIdentity;

/// The `--erase` flags of one command line: `PATH`, or `PATH=IDENTIFIER`. Clones share what was given up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EraseConsent {
    entries: Vec<(PathBuf, Option<String>)>,
    given_up: GivenUp,
}

/// Devices whose content was given up by its identifier: that identifier went with the content, and the next
/// trial needs none.
#[derive(Debug, Clone, Default)]
struct GivenUp(Arc<Mutex<Vec<(PathBuf, DeviceIdentity)>>>);

/// What was given up so far makes no other consent of it.
impl PartialEq for GivenUp {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for GivenUp {}

/// What the command line says about one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consent<'a> {
    /// What was given to identify the device or what it carries.
    pub identifier: Option<&'a str>,
}

impl EraseConsent {
    /// Reads the flags' values. The identifier is what stands after the last `=`.
    #[must_use]
    pub fn parse(flags: &[String]) -> Self {
        let entries = flags.iter().map(|flag| match flag.rsplit_once('=') {
            Some((path, identifier)) if !path.is_empty() && !identifier.contains('/') => {
                (PathBuf::from(path), Some(identifier.to_owned()))
            }
            _ => (PathBuf::from(flag), None),
        });
        Self { entries: entries.collect(), given_up: GivenUp::default() }
    }

    /// What was said about `path`, which must be written as in the study. Given twice, an identifier counts.
    #[must_use]
    pub fn for_path(&self, path: &Path) -> Option<Consent<'_>> {
        let mut found = self.entries.iter().filter(|(named, _)| named.as_os_str() == path.as_os_str());
        let first = found.next()?;
        let identifier = first.1.as_deref().or_else(|| found.find_map(|(_, given)| given.as_deref()));
        Some(Consent { identifier })
    }

    /// Notes that the device at `path` may be written to from now on: a run takes it once per trial.
    pub(super) fn give_up(&self, path: &Path, identity: &DeviceIdentity) {
        if !self.has_given_up(path, identity) {
            self.given_up().push((path.to_owned(), *identity));
        }
    }

    /// Whether the same device, by its [`DeviceIdentity`], was given up before.
    pub(super) fn has_given_up(&self, path: &Path, identity: &DeviceIdentity) -> bool {
        identity.is_certain() && self.given_up().iter().any(|(known, same)| known == path && same == identity)
    }

    fn given_up(&self) -> std::sync::MutexGuard<'_, Vec<(PathBuf, DeviceIdentity)>> {
        self.given_up.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_paths_and_identifiers() {
        let flags = [
            "/dev/disk/by-id/a",
            "/dev/disk/by-id/b=S3R1AL",
            "/dev/c=",
            "/dev/x=/dev/y",
            "/dev/disk/by-id/a=7",
        ];
        let consent = EraseConsent::parse(&flags.map(str::to_owned));
        let given = |path: &str| consent.for_path(Path::new(path)).map(|consent| consent.identifier);
        assert_eq!(given("/dev/disk/by-id/a"), Some(Some("7")));
        assert_eq!(given("/dev/disk/by-id/b"), Some(Some("S3R1AL")));
        assert_eq!(given("/dev/c"), Some(Some("")));
        assert_eq!(given("/dev/x=/dev/y"), Some(None));
        assert_eq!(given("/dev/disk/by-id"), None);
        assert_eq!(given("/dev/disk/by-id/a/"), None, "written as in the study");
    }

    #[test]
    fn what_was_given_up_is_known_by_its_identity() {
        let consent = EraseConsent::default();
        let (path, other) = (Path::new("/dev/sdx"), Path::new("/dev/sdy"));
        let identity = DeviceIdentity { sequence: Some(7), size_bytes: 4096, ..DeviceIdentity::default() };
        consent.clone().give_up(path, &identity);
        assert!(consent.has_given_up(path, &identity) && !consent.has_given_up(other, &identity));
        assert!(!consent.has_given_up(path, &DeviceIdentity { sequence: Some(8), ..identity }));
        let unsure = DeviceIdentity { sequence: None, ..identity };
        consent.give_up(path, &unsure);
        assert!(!consent.has_given_up(path, &unsure), "without a sequence number it could be another");
    }
}
