//! Whether a block device may be overwritten: one pure decision over what is known about it.
//!
//! A device is written to only when **all** of this holds; each refusal names its rule and the way out.
//! 1. The command line repeats the study's path (`--erase PATH`).
//! 2. The path is stable: it will name the same device after a reboot. Kernel names (`/dev/sda`,
//!    `/dev/nvme0n1`, `/dev/loop3`) are not, and need an identifier as well (`--erase PATH=IDENTIFIER`).
//! 3. An identifier that is given is the device's own (the serial number of a disk, the `PARTUUID` of a
//!    partition), or that of what it carries (the UUID of the file system or partition table that rule 7
//!    found). A size identifies nothing.
//! 4. It has a size: it is there.
//! 5. It carries neither the root file system nor the store, and it and its partitions are not mounted.
//! 6. It is not swap, has no holders (LVM, md, crypt) and no partitions.
//! 7. Its first 4 MiB and last 1 MiB are zeros, or a file system of fsage's own (labelled `fsage`), or what a
//!    restore of an image left that did not end (its first block says `fsage-unfinished`); or the identifier
//!    given is that of exactly what it carries; or it is the device's own and the path names that device, not
//!    a place ([`names_the_device`]). Data of a format that we do not know, and what cannot be read, count as
//!    somebody's.
//! 8. It opens with `O_EXCL`: the kernel too says that nobody uses it.
//!
//! An identifier goes with the content that it is of: for the rest of the run the same device is known
//! without it ([`EraseConsent`](super::EraseConsent)), which fulfils rules 2 and 3, not 7.
//!
//! Limit: between this decision and mkfs somebody could write to the device. That it still is the same device
//! is checked then.

use std::path::{Path, PathBuf};

use fsage_engine::host::signature;
use fsage_model::filesystem;
use fsage_model::protocol::BlockFacts;
use fsage_model::study::LABEL;

use super::consent::Consent;

/// Why a device is not written to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Rule 1.
    #[error("the command line does not allow it to be erased")]
    NoConsent,
    /// Rule 2.
    #[error("its path is a kernel name, which may change at every boot")]
    Unstable {
        /// What would identify it, if anything does.
        identifier: Option<String>,
    },
    /// Rule 3.
    #[error("--erase says `{given}`, which identifies neither this device nor what it carries")]
    OtherDevice {
        /// What was given.
        given: String,
        /// What would identify it, if anything does.
        identifier: Option<String>,
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
        /// What would allow its loss, if anything does.
        identifier: Option<String>,
    },
    /// Rule 8.
    #[error("it cannot be opened exclusively: something uses it")]
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
            Self::Unstable { identifier: Some(identifier) } => format!(
                "name it by a link under /dev/disk/by-id, or add what identifies it: `--erase {path}={identifier}`"
            ),
            Self::Unstable { identifier: None } => {
                "name it by a link under /dev/disk/by-id: it has no serial number, and a size identifies nothing".to_owned()
            }
            Self::OtherDevice { identifier: Some(identifier), .. } => {
                format!("make sure that it is the device you mean; then `--erase {path}={identifier}`")
            }
            Self::OtherDevice { identifier: None, .. } => format!(
                "nothing identifies it: it has no serial number, and a size is not enough; name it by a link under /dev/disk/by-id without \
                 an identifier, and if what it carries can be lost, clear it first: `blkdiscard --zeroout {path}`"
            ),
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
            Self::Signature { identifier: Some(identifier), .. } => format!(
                "if what it carries can be lost, repeat what identifies it: `--erase {path}={identifier}`"
            ),
            Self::Signature { identifier: None, .. } => format!(
                "nothing identifies what it carries; if that can be lost, clear it first: `blkdiscard --zeroout {path}`, or name the \
                 device by its link under /dev/disk/by-id with its serial number"
            ),
            Self::InUse => format!("check what uses it: `lsblk {path}`, `fuser -v {path}`"),
        }
    }
}

/// What an identifier on the command line is that of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identified {
    /// The device itself.
    Device,
    /// What it carries.
    Content,
}

/// The device's own identifier: a disk's serial number, a partition's `PARTUUID`.
fn own_identifier(facts: &BlockFacts) -> Option<&str> {
    [&facts.serial, &facts.part_uuid].into_iter().map(String::as_str).find(|own| !own.is_empty())
}

/// The identifier of what the device carries; of two things on it neither identifies both.
fn content_identifier(facts: &BlockFacts) -> Option<&str> {
    (!facts.uuid.is_empty() && facts.beside.is_empty()).then_some(facts.uuid.as_str())
}

fn identified(given: &str, facts: &BlockFacts) -> Option<Identified> {
    // Case does not matter in UUIDs; a serial number is repeated as it is.
    if content_identifier(facts).is_some_and(|uuid| uuid.eq_ignore_ascii_case(given)) {
        return Some(Identified::Content);
    }
    let is_part = !facts.part_uuid.is_empty() && facts.part_uuid.eq_ignore_ascii_case(given);
    let is_serial = !facts.serial.is_empty() && facts.serial == given;
    (is_part || is_serial).then_some(Identified::Device)
}

/// What after the path would have the device accepted, if anything.
fn accepted_identifier(path: &Path, facts: &BlockFacts) -> Option<String> {
    let own = own_identifier(facts);
    let found = if is_foreign(facts) {
        content_identifier(facts).or_else(|| own.filter(|_| names_the_device(path)))
    } else {
        own.or_else(|| content_identifier(facts))
    };
    found.map(str::to_owned)
}

/// Whether a path names the same device after a reboot.
///
/// Links under `/dev/disk` that are named after the device or its place, and names given by an administrator
/// (device-mapper, md, LVM). Names after what is *on* the device (`by-uuid`, `by-label`) change with mkfs.
#[must_use]
pub fn is_stable(path: &Path) -> bool {
    const FOLDERS: [&str; 5] =
        ["/dev/disk/by-id", "/dev/disk/by-path", "/dev/disk/by-partuuid", "/dev/mapper", "/dev/md"];
    is_directly_in(&FOLDERS, path)
}

/// Whether a path names the device itself: not a place where another may be (`by-path`), nor what is on it.
#[must_use]
pub fn names_the_device(path: &Path) -> bool {
    is_directly_in(&["/dev/disk/by-id", "/dev/disk/by-partuuid", "/dev/mapper", "/dev/md"], path)
}

fn is_directly_in(folders: &[&str], path: &Path) -> bool {
    let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    plain
        && path.file_name().is_some_and(|name| name != "control")
        && path.parent().is_some_and(|folder| folders.iter().any(|stable| folder == Path::new(stable)))
}

/// Decides whether the device at `path`, of which `facts` are known, may be overwritten.
///
/// `store_mount` is the mount point of the file system that holds the store; `given_up`: an earlier decision
/// of this run accepted the same device by an identifier.
///
/// # Errors
/// The first rule that it breaks.
pub fn decide(
    path: &Path,
    facts: &BlockFacts,
    consent: Option<Consent<'_>>,
    given_up: bool,
    store_mount: &Path,
) -> Result<(), Refusal> {
    let consent = consent.ok_or(Refusal::NoConsent)?;
    if facts.size_bytes == 0 {
        return Err(Refusal::Gone);
    }
    in_use(facts, store_mount)?;
    identify(path, facts, consent, given_up)?;
    if facts.exclusive { Ok(()) } else { Err(Refusal::InUse) }
}

/// Rules 2, 3 and 7.
fn identify(path: &Path, facts: &BlockFacts, consent: Consent<'_>, given_up: bool) -> Result<(), Refusal> {
    let accepted = || accepted_identifier(path, facts);
    let named = consent.identifier.and_then(|given| identified(given, facts));
    if named.is_none() && !given_up {
        match consent.identifier {
            Some(given) => {
                return Err(Refusal::OtherDevice { given: given.to_owned(), identifier: accepted() });
            }
            None if is_stable(path) => {}
            None => return Err(Refusal::Unstable { identifier: accepted() }),
        }
    }
    let waived = match named {
        Some(Identified::Content) => true,
        Some(Identified::Device) => names_the_device(path),
        None => false,
    };
    if waived || !is_foreign(facts) {
        return Ok(());
    }
    let mut signature = match facts.label.as_str() {
        "" => facts.signature.clone(),
        label => format!("{} labelled `{label}`", facts.signature),
    };
    if !facts.beside.is_empty() {
        signature = format!("{signature}, and {}", facts.beside);
    }
    Err(Refusal::Signature { signature, identifier: accepted() })
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

/// Whether somebody's data may be there.
fn is_foreign(facts: &BlockFacts) -> bool {
    !facts.signature.is_empty() && !is_ours(facts)
}

fn is_ours(facts: &BlockFacts) -> bool {
    let can_carry_ours = || filesystem::by_name(&facts.signature).is_some_and(|row| row.label.is_some());
    let labelled = facts.label == LABEL && can_carry_ours() && facts.beside.is_empty();
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

    fn ask(facts: &BlockFacts, path: &str, identifier: Option<&str>) -> Result<(), Refusal> {
        decide(Path::new(path), facts, Some(Consent { identifier }), false, Path::new("/home"))
    }

    #[test]
    fn an_empty_device_named_twice_is_accepted() {
        assert_eq!(ask(&facts(), BY_ID, None), Ok(()));
        assert_eq!(ask(&facts(), BY_ID, Some("S1")), Ok(()));
        let refused = decide(Path::new(BY_ID), &facts(), None, true, Path::new("/home"));
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
            assert_eq!(
                ask(&facts(), path, None),
                Err(Refusal::Unstable { identifier: Some("S1".into()) }),
                "{path}"
            );
            assert_eq!(ask(&facts(), path, Some("S1")), Ok(()), "{path}");
        }
        assert!(matches!(ask(&facts(), BY_ID, Some("S2")), Err(Refusal::OtherDevice { .. })));
        assert!(matches!(ask(&facts(), BY_ID, Some("s1")), Err(Refusal::OtherDevice { .. })));
    }

    #[test]
    fn a_size_identifies_nothing() {
        let nameless = BlockFacts { serial: String::new(), ..facts() };
        let size = nameless.size_bytes.to_string();
        for path in ["/dev/loop3", BY_ID] {
            for given in [size.as_str(), "", "0"] {
                let refused = ask(&nameless, path, Some(given)).unwrap_err();
                assert!(matches!(&refused, Refusal::OtherDevice { identifier: None, .. }), "{refused}");
                assert!(refused.hint(Path::new(path)).contains("/dev/disk/by-id"));
            }
        }
        let refused = ask(&nameless, "/dev/loop3", None).unwrap_err();
        assert_eq!(refused, Refusal::Unstable { identifier: None });
        assert!(refused.hint(Path::new("/dev/loop3")).contains("a size identifies nothing"));
        assert_eq!(ask(&nameless, BY_ID, None), Ok(()));
    }

    #[test]
    fn a_partition_is_known_by_its_own_identifier() {
        let part = BlockFacts { serial: String::new(), part_uuid: "1badcafe-01".into(), ..facts() };
        let (kernel, by_part) = ("/dev/sda1", "/dev/disk/by-partuuid/1badcafe-01");
        assert_eq!(
            ask(&part, kernel, None),
            Err(Refusal::Unstable { identifier: Some("1badcafe-01".into()) })
        );
        for path in [kernel, by_part] {
            assert_eq!(ask(&part, path, Some("1BADCAFE-01")), Ok(()));
            assert!(matches!(ask(&part, path, Some("S1")), Err(Refusal::OtherDevice { .. })));
        }
        let full = BlockFacts { signature: "zfs".into(), ..part };
        assert_eq!(ask(&full, by_part, Some("1badcafe-01")), Ok(()));
        assert!(matches!(ask(&full, kernel, Some("1badcafe-01")), Err(Refusal::Signature { .. })));
    }

    #[test]
    fn what_was_given_up_needs_no_identifier_again_but_all_else() {
        let later =
            BlockFacts { signature: "ext4".into(), label: "fsage".into(), uuid: "new".into(), ..facts() };
        let decide = |facts: &BlockFacts| {
            let consent = Some(Consent { identifier: Some("old") });
            decide(Path::new("/dev/loop3"), facts, consent, true, Path::new("/home"))
        };
        assert_eq!(decide(&later), Ok(()));
        let foreign = BlockFacts { label: "precious".into(), ..later.clone() };
        assert!(matches!(decide(&foreign), Err(Refusal::Signature { .. })), "somebody's, made meanwhile");
        assert_eq!(decide(&BlockFacts { swap: true, ..later.clone() }), Err(Refusal::Swap));
        assert_eq!(decide(&BlockFacts { exclusive: false, ..later }), Err(Refusal::InUse));
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
    fn only_our_own_signature_may_be_overwritten_without_its_identifier() {
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
            let carrying = BlockFacts { uuid: "0123-AbCd".into(), ..carrying(signature, label) };
            let is_refused =
                |path, given| matches!(ask(&carrying, path, given), Err(Refusal::Signature { .. }));
            assert!(is_refused(BY_ID, None), "{signature} {label}");
            assert_eq!(ask(&carrying, BY_ID, Some("S1")), Ok(()));
            // The serial number behind a name or a place that may be another's does not do.
            assert!(is_refused("/dev/sda", Some("S1")) && is_refused("/dev/disk/by-path/pci-0", Some("S1")));
            for path in [BY_ID, "/dev/sda", "/dev/disk/by-path/pci-0"] {
                assert_eq!(ask(&carrying, path, Some("0123-abcd")), Ok(()), "{path}");
            }
        }
        let home = BlockFacts { uuid: "0123".into(), ..carrying("ext4", "home") };
        let refusal = ask(&home, BY_ID, None).unwrap_err();
        assert_eq!(refusal.to_string(), "it carries a signature that is not fsage's: ext4 labelled `home`");
        assert_eq!(
            refusal.hint(Path::new(BY_ID)),
            "if what it carries can be lost, repeat what identifies it: `--erase /dev/disk/by-id/ata-DISK_S1=0123`"
        );
        let refusal = ask(&carrying(signature::UNKNOWN, ""), "/dev/sda", Some("S1")).unwrap_err();
        assert!(refusal.hint(Path::new("/dev/sda")).contains("`blkdiscard --zeroout /dev/sda`"));
    }

    fn any_facts() -> impl Strategy<Value = BlockFacts> {
        let word = prop::sample::select(vec!["", "ext4", "xfs", "gpt", "fsage", signature::UNFINISHED]);
        let serial = prop::sample::select(vec!["", "S1"]);
        let uuid = prop::sample::select(vec!["", "U1"]);
        let words = prop::collection::vec("[a-z]{1,4}", 0..2);
        let points = prop::collection::vec(prop::sample::select(vec!["/", "/home", "/mnt"]), 0..2);
        let size = prop::sample::select(vec![0, 4096_u64]);
        (serial, uuid, word.clone(), word, words.clone(), words, points, size, any::<(bool, bool)>())
            .prop_map(
                |(
                    serial,
                    uuid,
                    signature,
                    label,
                    holders,
                    partitions,
                    points,
                    size_bytes,
                    (swap, exclusive),
                )| {
                    BlockFacts {
                        serial: serial.into(),
                        uuid: uuid.into(),
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
            given in prop::sample::select(vec![None, Some("S1"), Some("U1"), Some("4096"), Some(""), Some("ext4")]),
            path in prop::sample::select(vec![BY_ID, "/dev/sda"]),
        ) {
            let consent = consented.then_some(Consent { identifier: given });
            let accepted = decide(Path::new(path), &facts, consent, false, Path::new("/home")).is_ok();
            let idle = facts.mounted_at.is_empty()
                && !facts.swap
                && facts.holders.is_empty()
                && facts.partitions.is_empty()
                && facts.exclusive
                && facts.size_bytes > 0;
            let empty = facts.signature.is_empty();
            let ours = ["ext4", "xfs"].contains(&facts.signature.as_str()) && facts.label == "fsage"
                || facts.signature == "fsage-unfinished";
            let named = match given {
                Some("U1") => facts.uuid == "U1",
                Some("S1") => facts.serial == "S1" && (empty || ours || path == BY_ID),
                Some(_) => false,
                None => path == BY_ID && (empty || ours),
            };
            prop_assert_eq!(accepted, consented && idle && named);
        }
    }
}
