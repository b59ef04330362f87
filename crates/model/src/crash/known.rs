//! Broken promises that were examined to their root: each is in docs/power.md with steps that reproduce it by
//! stock tools. They stay *broken*; a report names them, so that what nobody has explained yet stands out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Damage, DamageKind};

/// What the comparison says of a name that leads to a file that it led to before.
pub const OLDER_FILE: &str = "is an older file";

/// What it adds where the name was removed or renamed meanwhile.
pub const REMOVED_SINCE: &str = "and the name was removed later";

/// What it says of names that lead to one file, which never had so many.
pub const ONE_FILE: &str = "lead to one file, which never had more than";

/// What it adds to damage of overwritten blocks that no `fsync` of the file promised, but `syncfs`.
pub const SYNC_ALONE: &str = "which `syncfs` alone had promised";

/// A known finding (docs/power.md, *Findings*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KnownFinding {
    /// btrfs: a file was replaced by renaming another over it, that was synced, and the name was removed: after
    /// a sync of any other file, the replaced file is back.
    BtrfsReplacedFileReturns,
    /// btrfs: a file was renamed to another directory, and only the new directory was synced: it has both
    /// names.
    BtrfsRenamedFileHasBothNames,
    /// xfs: blocks of a file were overwritten within a tick of the clock of its last change, and `syncfs` returned
    /// without a flush: the drive may still lose them.
    XfsSyncfsWithoutFlush,
}

impl KnownFinding {
    /// All of them.
    pub const ALL: [Self; 3] =
        [Self::BtrfsReplacedFileReturns, Self::BtrfsRenamedFileHasBothNames, Self::XfsSyncfsWithoutFlush];

    /// As reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BtrfsReplacedFileReturns => "btrfs-replaced-file-returns",
            Self::BtrfsRenamedFileHasBothNames => "btrfs-renamed-file-has-both-names",
            Self::XfsSyncfsWithoutFlush => "xfs-syncfs-without-flush",
        }
    }

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::BtrfsReplacedFileReturns => {
                "btrfs: the file that was replaced comes back after the new one was removed"
            }
            Self::BtrfsRenamedFileHasBothNames => "btrfs: a renamed file has both names",
            Self::XfsSyncfsWithoutFlush => "xfs: syncfs leaves overwritten blocks in the cache of the drive",
        }
    }

    /// The finding that a piece of damage is, if it is a known one.
    #[must_use]
    pub fn of(file_system: &str, damage: &Damage) -> Option<Self> {
        if file_system == "xfs" && damage.kind == DamageKind::Content {
            return damage.what.ends_with(SYNC_ALONE).then_some(Self::XfsSyncfsWithoutFlush);
        }
        if file_system != "btrfs" || damage.kind != DamageKind::Name {
            return None;
        }
        if damage.what.starts_with(OLDER_FILE) && damage.what.ends_with(REMOVED_SINCE) {
            return Some(Self::BtrfsReplacedFileReturns);
        }
        damage.what.contains(ONE_FILE).then_some(Self::BtrfsRenamedFileHasBothNames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_damage_of_the_same_file_system_is_known() {
        let damage = |kind, what: &str| Damage { kind, path: "b".to_owned(), what: what.to_owned() };
        let returned = format!("{OLDER_FILE}, although `fsync b` had returned, {REMOVED_SINCE}");
        let returned = damage(DamageKind::Name, &returned);
        let both = damage(DamageKind::Name, &format!("b and c {ONE_FILE} 1"));
        assert_eq!(KnownFinding::of("btrfs", &returned), Some(KnownFinding::BtrfsReplacedFileReturns));
        assert_eq!(KnownFinding::of("btrfs", &both), Some(KnownFinding::BtrfsRenamedFileHasBothNames));
        assert_eq!((KnownFinding::of("ext4", &returned), KnownFinding::of("xfs", &both)), (None, None));
        // An old file under a name that was never removed since is another matter, and so is any other damage.
        let older = damage(DamageKind::Name, &format!("{OLDER_FILE}, although `fsync b` had returned"));
        assert_eq!(KnownFinding::of("btrfs", &older), None);
        assert_eq!(KnownFinding::of("btrfs", &damage(DamageKind::Content, &returned.what)), None);
        assert_eq!(KnownFinding::of("btrfs", &damage(DamageKind::Name, "is gone")), None);
        let lost = format!("at 0: version 17 of the file, {SYNC_ALONE}");
        let lost = damage(DamageKind::Content, &lost);
        assert_eq!(KnownFinding::of("xfs", &lost), Some(KnownFinding::XfsSyncfsWithoutFlush));
        assert_eq!((KnownFinding::of("ext4", &lost), KnownFinding::of("btrfs", &lost)), (None, None));
        let of_fsync = damage(DamageKind::Content, "at 0: version 17 of the file");
        assert_eq!(KnownFinding::of("xfs", &of_fsync), None);
    }

    #[test]
    fn every_known_finding_is_documented() {
        let page = include_str!("../../../../docs/power.md");
        for finding in KnownFinding::ALL {
            assert!(page.contains(&format!("`{}`", finding.name())), "{}", finding.name());
        }
    }
}
