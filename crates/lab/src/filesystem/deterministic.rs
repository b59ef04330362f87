//! What a file system needs so that two trials with one seed ask the same of their disks.
//!
//! On a virtual disk in model time the processor's speed counts for nothing, but it settles how many
//! operations fall between two ticks of the kernel's timers, and with them what is written when. There the
//! timers are put off, chance is replaced by the trial's seed, and times of access are not kept: one that is
//! as old as the last change is written, and whether it is depends on the kernel's tick. Whatever the study
//! says itself stands: it comes after, and the last word counts.

use super::parameter::Value;

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
}

/// What a driver adds to what a study gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions {
    /// Values of mkfs parameters that the study does not give; the driver's own, so that they need no check.
    pub mkfs: Vec<(&'static str, Value)>,
    /// Mount options, before the study's.
    pub mount: Vec<&'static str>,
}

impl Additions {
    /// Only these mount options.
    pub(super) fn mounted(mount: &[&'static str]) -> Self {
        Self { mkfs: Vec::new(), mount: mount.to_vec() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::{DRIVERS, FileSystem, Registry};
    use fsage_model::study::FileSystemSpec;

    const NEW: Kernel = Kernel(6, 18);

    fn settled(kind: &str, options: &str, kernel: Kernel) -> FileSystem {
        let options = serde_json::from_str(options).unwrap();
        let spec = FileSystemSpec { kind: kind.to_owned(), options: [(kind.to_owned(), options)].into() };
        Registry::new(&std::collections::BTreeMap::new()).resolve(&spec).unwrap().deterministic(7, kernel)
    }

    #[test]
    fn every_driver_takes_what_it_gets() {
        for driver in DRIVERS {
            let settled = settled(driver.name(), "{}", NEW);
            assert!(settled.mount_options().iter().any(|option| option == "noatime"), "{}", driver.name());
            let journalled = !matches!(driver.name(), "ext2" | "xfs");
            assert_eq!(settled.mount_options().iter().any(|option| option == COMMIT), journalled);
            // What it adds, a study may give.
            let values = super::super::Values::parse(driver.name(), driver.parameters(), &[].into()).unwrap();
            for (name, value) in driver.deterministic(&values, 7, NEW).mkfs {
                let Value::Text(text) = value else { panic!("{name}") };
                let given = [(name.to_owned(), text.into())].into();
                assert!(super::super::Values::parse(driver.name(), driver.parameters(), &given).is_ok());
            }
        }
    }

    #[test]
    fn what_the_study_says_stands() {
        let said = r#"{"mkfs": {"hash_seed": "x"}, "mount": ["relatime", "commit=5"]}"#;
        let settled = settled("ext4", said, NEW);
        assert!(settled.mkfs(std::path::Path::new("/d")).to_string().contains("hash_seed=x"));
        let own = ["relatime".to_owned(), "commit=5".to_owned()];
        assert!(settled.mount_options().ends_with(&own), "{settled:?}");
        assert_eq!(settled.mount_options()[1], "noatime");
        assert_eq!(settled.deterministic(7, NEW), settled, "nothing is added twice");
        assert_ne!(settled.deterministic(7, Kernel(5, 10)), settled);
    }

    #[test]
    fn no_commit_without_a_journal_and_no_option_that_the_kernel_lacks() {
        for without in [r#"{"mkfs": {"journal": false}}"#, r#"{"mkfs": {"features": ["^has_journal"]}}"#] {
            let settled = settled("ext4", without, Kernel(5, 10));
            assert_eq!(settled.mount_options()[1..], ["noatime", "dioread_lock"], "{without}");
        }
        assert_eq!(settled("ext4", "{}", Kernel(5, 13)).mount_options().len(), 5);
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
