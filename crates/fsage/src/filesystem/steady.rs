//! What a file system needs so that two trials with one seed ask the same of their disks.
//!
//! On a virtual disk in model time the processor's speed counts for nothing, but it settles how many operations fall between
//! two ticks of the kernel's timers, and with them what is written when. There the timers are put off, chance is replaced
//! by the trial's seed, and times of access are not kept: one that is as old as the last change is written, and whether it is
//! depends on the kernel's tick. Whatever the study says itself stands: it comes after, and the last word counts.

use super::built_in;
use crate::spec::{FileSystemOptions, FileSystemSpec};

/// Put off commits of a journal or a transaction until one is asked for: an hour.
pub(super) const COMMIT: &str = "commit=3600";

/// A kernel's release, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel(pub u32, pub u32);

impl Kernel {
    /// Of `6.18.44-generic` the 6 and the 18; 0 where there is no number.
    #[must_use]
    pub fn of(release: &str) -> Self {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        Self(numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// This host's.
    #[must_use]
    pub fn here() -> Self {
        Self::of(&std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())
    }
}

/// Only these mount options.
pub(super) fn mounted(mount: &[&str]) -> FileSystemOptions {
    FileSystemOptions {
        mount: mount.iter().map(|option| (*option).to_owned()).collect(),
        ..FileSystemOptions::default()
    }
}

/// A UUID (version 4 by its bits) that follows from `seed`.
pub(super) fn uuid(seed: u64) -> String {
    let hash = blake3::hash(&seed.to_le_bytes());
    let mut bits = u128::from_be_bytes(std::array::from_fn(|at| hash.as_bytes()[at]));
    bits = bits & !(0xf << 76) | 4 << 76;
    bits = bits & !(0x3 << 62) | 2 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// `spec` with what its driver needs besides. What a study describes itself stays as it is.
#[must_use]
pub fn steady(spec: &FileSystemSpec, seed: u64, kernel: Kernel) -> FileSystemSpec {
    let mut spec = spec.clone();
    let Some(driver) = built_in(&spec.kind) else { return spec };
    let options = spec.options.entry(spec.kind.clone()).or_default();
    let more = driver.steady(options, seed, kernel);
    for (name, value) in more.mkfs {
        options.mkfs.entry(name).or_insert(value);
    }
    options.mount.splice(0..0, more.mount);
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::{DRIVERS, Registry};

    const NEW: Kernel = Kernel(6, 18);

    fn spec(kind: &str, options: &str) -> FileSystemSpec {
        let options = serde_json::from_str(options).unwrap();
        FileSystemSpec { kind: kind.to_owned(), options: [(kind.to_owned(), options)].into() }
    }

    #[test]
    fn every_driver_takes_what_it_gets() {
        let none = std::collections::BTreeMap::new();
        for driver in DRIVERS {
            let plain = spec(driver.name(), "{}");
            let steadied = Registry::new(&none).resolve(&steady(&plain, 7, NEW)).unwrap();
            assert!(steadied.mount_options().iter().any(|option| option == "noatime"), "{}", driver.name());
            let journalled = !matches!(driver.name(), "ext2" | "xfs");
            assert_eq!(steadied.mount_options().iter().any(|option| option == COMMIT), journalled);
        }
        let mine = FileSystemSpec { kind: "mine".to_owned(), options: [].into() };
        assert_eq!(steady(&mine, 7, NEW), mine);
    }

    #[test]
    fn what_the_study_says_stands() {
        let said = spec("ext4", r#"{"mkfs": {"hash_seed": "x"}, "mount": ["relatime", "commit=5"]}"#);
        let options = &steady(&said, 7, NEW).options["ext4"];
        assert_eq!(options.mkfs["hash_seed"], "x");
        assert!(options.mount.ends_with(&["relatime".to_owned(), "commit=5".to_owned()]));
        assert_eq!(options.mount[0], "noatime");
    }

    #[test]
    fn no_commit_without_a_journal_and_no_option_that_the_kernel_lacks() {
        for without in [r#"{"mkfs": {"journal": false}}"#, r#"{"mkfs": {"features": ["^has_journal"]}}"#] {
            let options = &steady(&spec("ext4", without), 7, Kernel(5, 10)).options["ext4"];
            assert_eq!(options.mount, ["noatime", "dioread_lock"], "{without}");
        }
        assert!(steady(&spec("ext4", "{}"), 7, Kernel(5, 13)).options["ext4"].mount.len() == 4);
    }

    #[test]
    fn seeds_make_uuids() {
        assert_eq!(uuid(7), uuid(7));
        assert_ne!(uuid(7), uuid(8));
        let parts: Vec<usize> = uuid(7).split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid(7)[14..15], "4");
        assert_eq!(
            (Kernel::of("6.18.44-x"), Kernel::of("5.10+"), Kernel::of("x")),
            (NEW, Kernel(5, 10), Kernel(0, 0))
        );
    }
}
