//! Whether a block device may be overwritten: one pure decision over what is known about it.
//!
//! A device is written to only when **all** of this holds; each refusal names its rule and the way out.
//! 1. The command line repeats the study's path (`--erase PATH`).
//! 2. The path is stable: it will name the same device after a reboot. Kernel names (`/dev/sda`,
//!    `/dev/nvme0n1`, `/dev/loop3`) are not, and need the serial number as well (`--erase PATH=SERIAL`).
//! 3. A serial number that is given is the device's. A device without one is known by its size in bytes.
//! 4. It has a size: it is there.
//! 5. It carries neither the root file system nor the store, and it and its partitions are not mounted.
//! 6. It is not swap, has no holders (LVM, md, crypt) and no partitions.
//! 7. Its first 4 MiB and last 1 MiB are zeros, or a file system of fsage's own (labelled `fsage`), or what a restore of an image
//!    left that did not end (its first block says `fsage-unfinished`), or its serial number was given. Data of a format that we do not know, and what cannot be read, count as somebody's.
//! 8. It opens with `O_EXCL`: the kernel too says that nobody uses it.
//!
//! Limit: between this decision and mkfs someone else could take the device; mkfs programs then refuse by
//! themselves because they look again.

use std::path::{Path, PathBuf};

use fsage_engine::host::signature;
use fsage_engine::protocol::BlockFacts;

use super::consent::Consent;
use crate::filesystem::LABEL;

/// Why a device is not written to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Rule 1.
    #[error("the command line does not allow it to be erased")]
    NoConsent,
    /// Rule 2.
    #[error("its path is a name that the kernel gives out anew at every boot")]
    Unstable {
        /// What identifies it.
        identity: String,
    },
    /// Rule 3.
    #[error("--erase names the device `{given}`, but this one is `{identity}`")]
    OtherDevice {
        /// Serial number given.
        given: String,
        /// What identifies it.
        identity: String,
    },
    /// Rule 4.
    #[error("it has no medium or is gone (its size is 0)")]
    Gone,
    /// Rule 5.
    #[error("it carries the root file system")]
    Root,
    /// Rule 5.
    #[error("it carries the store")]
    Store,
    /// Rule 5.
    #[error("it is mounted at {}", list(.points))]
    Mounted {
        /// Where.
        points: Vec<PathBuf>,
    },
    /// Rule 6.
    #[error("it is in use as swap")]
    Swap,
    /// Rule 6.
    #[error("it is held by {}", .holders.join(", "))]
    Held {
        /// By what.
        holders: Vec<String>,
    },
    /// Rule 6.
    #[error("it has partitions: {}", .partitions.join(", "))]
    Partitioned {
        /// Which.
        partitions: Vec<String>,
    },
    /// Rule 7.
    #[error("{}", in_words(.signature))]
    Signature {
        /// What it carries.
        signature: String,
        /// What identifies it.
        identity: String,
    },
    /// Rule 8.
    #[error("the kernel does not open it exclusively: something uses it")]
    InUse,
}

fn in_words(signature: &str) -> String {
    match signature {
        signature::UNREADABLE => "its beginning or its end cannot be read: data may be there".to_owned(),
        signature::UNKNOWN => "it carries data in no format that fsage knows".to_owned(),
        known => format!("it carries a signature that is not fsage's: {known}"),
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Refusal {
    /// The way out, for the device at `path`.
    #[must_use]
    pub fn hint(&self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::NoConsent => format!("everything on it will be lost; to allow that add `--erase {path}`"),
            Self::Unstable { identity } => format!(
                "name it by a link under /dev/disk/by-id, or add what identifies it: `--erase {path}={identity}`"
            ),
            Self::OtherDevice { identity, .. } => {
                format!("make sure that it is the device you mean; then `--erase {path}={identity}`")
            }
            Self::Gone => "plug it in, or name another device".to_owned(),
            Self::Root | Self::Store => "name another device".to_owned(),
            Self::Mounted { points } => {
                let commands: Vec<String> =
                    points.iter().map(|point| format!("umount {}", point.display())).collect();
                format!("if it can be erased, unmount it first: `{}`", commands.join("; "))
            }
            Self::Swap => format!("if it can be erased, switch it off first: `swapoff {path}`"),
            Self::Held { .. } => "take it out of the volume group, array or mapping first".to_owned(),
            Self::Partitioned { .. } => {
                format!("name one of its partitions, or remove the partition table first: `wipefs -a {path}`")
            }
            Self::Signature { identity, .. } => format!(
                "if what it carries can be lost, repeat what identifies it: `--erase {path}={identity}`"
            ),
            Self::InUse => format!("see who uses it: `lsblk {path}`, `fuser -v {path}`"),
        }
    }
}

/// What identifies a device on the command line: its serial number, or its size in bytes if it has none.
#[must_use]
pub fn identity(facts: &BlockFacts) -> String {
    if facts.serial.is_empty() { facts.size_bytes.to_string() } else { facts.serial.clone() }
}

/// Whether a path names the same device after a reboot.
///
/// Links under `/dev/disk` that are named after the device or its place, and names given by an administrator
/// (device-mapper, md, LVM). Names after what is *on* the device (`by-uuid`, `by-label`) change with mkfs.
#[must_use]
pub fn is_stable(path: &Path) -> bool {
    const FOLDERS: [&str; 5] =
        ["/dev/disk/by-id", "/dev/disk/by-path", "/dev/disk/by-partuuid", "/dev/mapper", "/dev/md"];
    let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    plain
        && path.file_name().is_some_and(|name| name != "control")
        && path.parent().is_some_and(|folder| FOLDERS.iter().any(|stable| folder == Path::new(stable)))
}

/// Decides whether the device at `path`, of which `facts` are known, may be overwritten.
///
/// `store_mount` is the mount point of the file system that holds the store.
///
/// # Errors
/// The first rule that it breaks.
pub fn decide(
    path: &Path,
    facts: &BlockFacts,
    consent: Option<Consent<'_>>,
    store_mount: &Path,
) -> Result<(), Refusal> {
    let consent = consent.ok_or(Refusal::NoConsent)?;
    let identity = identity(facts);
    if facts.size_bytes == 0 {
        return Err(Refusal::Gone);
    }
    in_use(facts, store_mount)?;
    if let Some(given) = consent.serial
        && given != identity
    {
        return Err(Refusal::OtherDevice { given: given.to_owned(), identity });
    }
    if consent.serial.is_none() && !is_stable(path) {
        return Err(Refusal::Unstable { identity });
    }
    if consent.serial.is_none() && !facts.signature.is_empty() && !is_ours(facts) {
        let signature = match facts.label.as_str() {
            "" => facts.signature.clone(),
            label => format!("{} labelled `{label}`", facts.signature),
        };
        return Err(Refusal::Signature { signature, identity });
    }
    if facts.exclusive { Ok(()) } else { Err(Refusal::InUse) }
}

fn in_use(facts: &BlockFacts, store_mount: &Path) -> Result<(), Refusal> {
    if facts.mounted_at.iter().any(|point| point == Path::new("/")) {
        return Err(Refusal::Root);
    }
    if facts.mounted_at.iter().any(|point| point == store_mount) {
        return Err(Refusal::Store);
    }
    if !facts.mounted_at.is_empty() {
        return Err(Refusal::Mounted { points: facts.mounted_at.clone() });
    }
    if facts.swap {
        return Err(Refusal::Swap);
    }
    if !facts.holders.is_empty() {
        return Err(Refusal::Held { holders: facts.holders.clone() });
    }
    if !facts.partitions.is_empty() {
        return Err(Refusal::Partitioned { partitions: facts.partitions.clone() });
    }
    Ok(())
}

fn is_ours(facts: &BlockFacts) -> bool {
    let labelled = facts.label == LABEL && super::LABELLED.contains(&facts.signature.as_str());
    labelled || facts.signature == signature::UNFINISHED
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BY_ID: &str = "/dev/disk/by-id/ata-DISK_S1";

    fn facts() -> BlockFacts {
        BlockFacts { size_bytes: 1 << 30, serial: "S1".into(), exclusive: true, ..BlockFacts::default() }
    }

    fn ask(facts: &BlockFacts, path: &str, serial: Option<&str>) -> Result<(), Refusal> {
        decide(Path::new(path), facts, Some(Consent { serial }), Path::new("/home"))
    }

    #[test]
    fn an_empty_device_named_twice_is_accepted() {
        assert_eq!(ask(&facts(), BY_ID, None), Ok(()));
        assert_eq!(ask(&facts(), BY_ID, Some("S1")), Ok(()));
        let refused = decide(Path::new(BY_ID), &facts(), None, Path::new("/home"));
        assert_eq!(refused, Err(Refusal::NoConsent));
    }

    #[test]
    fn kernel_names_need_the_serial() {
        for path in [
            "/dev/sda",
            "/dev/nvme0n1",
            "/dev/loop3",
            "/dev/disk/by-uuid/1",
            "/tmp/by-id/x",
            "/dev/mapper/control",
            "/dev/disk/by-id/../../sda",
            "/dev/disk/by-id",
        ] {
            assert_eq!(ask(&facts(), path, None), Err(Refusal::Unstable { identity: "S1".into() }), "{path}");
            assert_eq!(ask(&facts(), path, Some("S1")), Ok(()), "{path}");
        }
        let nameless = BlockFacts { serial: String::new(), ..facts() };
        assert_eq!(ask(&nameless, "/dev/loop3", Some("1073741824")), Ok(()));
        assert!(matches!(ask(&nameless, "/dev/loop3", Some("")), Err(Refusal::OtherDevice { .. })));
        assert!(matches!(ask(&facts(), BY_ID, Some("S2")), Err(Refusal::OtherDevice { .. })));
    }

    #[test]
    fn what_is_in_use_is_refused_even_with_the_serial() {
        let mounted = |at: &str| BlockFacts { mounted_at: vec![at.into()], ..facts() };
        let cases = [
            (mounted("/"), Refusal::Root),
            (mounted("/home"), Refusal::Store),
            (mounted("/mnt"), Refusal::Mounted { points: vec!["/mnt".into()] }),
            (BlockFacts { swap: true, ..facts() }, Refusal::Swap),
            (
                BlockFacts { holders: vec!["dm-0".into()], ..facts() },
                Refusal::Held { holders: vec!["dm-0".into()] },
            ),
            (
                BlockFacts { partitions: vec!["sda1".into()], ..facts() },
                Refusal::Partitioned { partitions: vec!["sda1".into()] },
            ),
            (BlockFacts { exclusive: false, ..facts() }, Refusal::InUse),
            (BlockFacts { size_bytes: 0, ..facts() }, Refusal::Gone),
        ];
        for (facts, refusal) in cases {
            for serial in [None, Some("S1")] {
                assert_eq!(ask(&facts, BY_ID, serial), Err(refusal.clone()));
            }
            assert!(!refusal.hint(Path::new(BY_ID)).is_empty());
        }
    }

    #[test]
    fn only_our_own_signature_may_be_overwritten_without_the_serial() {
        let carrying = |signature: &str, label: &str| BlockFacts {
            signature: signature.into(),
            label: label.into(),
            ..facts()
        };
        for ours in ["ext4", "xfs", "btrfs"] {
            assert_eq!(ask(&carrying(ours, "fsage"), BY_ID, None), Ok(()), "{ours}");
        }
        assert_eq!(ask(&carrying(signature::UNFINISHED, ""), BY_ID, None), Ok(()));
        for (signature, label) in [
            ("ext4", ""),
            ("ext4", "home"),
            ("xfs", "fsage2"),
            ("gpt", "fsage"),
            ("swap", "fsage"),
            (signature::UNKNOWN, ""),
            (signature::UNREADABLE, "fsage"),
        ] {
            let refused = ask(&carrying(signature, label), BY_ID, None);
            assert!(matches!(refused, Err(Refusal::Signature { .. })), "{signature} {label}");
            assert_eq!(ask(&carrying(signature, label), BY_ID, Some("S1")), Ok(()));
        }
        let refusal = ask(&carrying("ext4", "home"), BY_ID, None).unwrap_err();
        assert_eq!(refusal.to_string(), "it carries a signature that is not fsage's: ext4 labelled `home`");
        assert_eq!(
            refusal.hint(Path::new(BY_ID)),
            "if what it carries can be lost, repeat what identifies it: `--erase /dev/disk/by-id/ata-DISK_S1=S1`"
        );
    }

    fn any_facts() -> impl Strategy<Value = BlockFacts> {
        let word = prop::sample::select(vec!["", "ext4", "xfs", "gpt", "fsage", "S1", signature::UNFINISHED]);
        let words = prop::collection::vec("[a-z]{1,4}", 0..2);
        let points = prop::collection::vec(prop::sample::select(vec!["/", "/home", "/mnt"]), 0..2);
        let size = prop::sample::select(vec![0, 4096_u64]);
        (word.clone(), word.clone(), word, words.clone(), words, points, size, any::<(bool, bool)>())
            .prop_map(
                |(serial, signature, label, holders, partitions, points, size_bytes, (swap, exclusive))| {
                    BlockFacts {
                        serial: serial.into(),
                        signature: signature.into(),
                        label: label.into(),
                        holders,
                        partitions,
                        mounted_at: points.into_iter().map(PathBuf::from).collect(),
                        size_bytes,
                        swap,
                        exclusive,
                        ..BlockFacts::default()
                    }
                },
            )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// The rules once more, as one conjunction: accepted if and only if all of them hold.
        #[test]
        fn nothing_is_accepted_unless_every_rule_holds(
            facts in any_facts(),
            consented in any::<bool>(),
            serial in prop::sample::select(vec![None, Some("S1"), Some("4096"), Some(""), Some("ext4")]),
            path in prop::sample::select(vec![BY_ID, "/dev/sda"]),
        ) {
            let consent = consented.then_some(Consent { serial });
            let accepted = decide(Path::new(path), &facts, consent, Path::new("/home")).is_ok();
            let identity = if facts.serial.is_empty() { "4096" } else { facts.serial.as_str() };
            let idle = facts.mounted_at.is_empty()
                && !facts.swap
                && facts.holders.is_empty()
                && facts.partitions.is_empty()
                && facts.exclusive
                && facts.size_bytes > 0;
            let empty = facts.signature.is_empty();
            let ours = ["ext4", "xfs"].contains(&facts.signature.as_str()) && facts.label == "fsage"
                || facts.signature == "fsage-unfinished";
            let named = match serial {
                Some(given) => given == identity,
                None => path == BY_ID && (empty || ours),
            };
            prop_assert_eq!(accepted, consented && idle && named);
        }
    }
}
