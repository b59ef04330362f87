//! Broken promises that were examined to their root: each is in docs/power.md with steps that reproduce it by
//! stock tools. They stay *broken*; a report names them, so that what nobody has explained yet stands out.
//!
//! A finding is not recognised by what is wrong alone, which may have another cause. Who compares a state with
//! what was promised knows the operations and the request log, and says of each piece of damage whether every
//! condition under which the finding comes up was met ([`Damage::pattern`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Damage, DamageKind};

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
    /// btrfs: a name was synced, and a file or directory was moved over it: after a sync of something else, nothing has that
    /// name.
    BtrfsReplacedNameIsGone,
    /// btrfs: a directory was renamed, and a file in it was synced by its new path: the directory has its old name.
    BtrfsRenamedDirectoryHasOldName,
    /// f2fs: a file was renamed, and another one got its old name and was synced: the first one is gone.
    F2fsRenamedFileIsGone,
    /// xfs: blocks of a file were overwritten within a tick of the clock of its last change, and `syncfs` returned
    /// without a flush: the drive may still lose them.
    XfsSyncfsWithoutFlush,
}

impl KnownFinding {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::BtrfsReplacedFileReturns,
        Self::BtrfsRenamedFileHasBothNames,
        Self::BtrfsReplacedNameIsGone,
        Self::BtrfsRenamedDirectoryHasOldName,
        Self::F2fsRenamedFileIsGone,
        Self::XfsSyncfsWithoutFlush,
    ];

    /// As reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BtrfsReplacedFileReturns => "btrfs-replaced-file-returns",
            Self::BtrfsRenamedFileHasBothNames => "btrfs-renamed-file-has-both-names",
            Self::BtrfsReplacedNameIsGone => "btrfs-replaced-name-is-gone",
            Self::BtrfsRenamedDirectoryHasOldName => "btrfs-renamed-directory-has-old-name",
            Self::F2fsRenamedFileIsGone => "f2fs-renamed-file-is-gone",
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
            Self::BtrfsReplacedNameIsGone => "btrfs: a name that was replaced is gone",
            Self::BtrfsRenamedDirectoryHasOldName => {
                "btrfs: a renamed directory has its old name after a file in it was synced"
            }
            Self::F2fsRenamedFileIsGone => {
                "f2fs: a renamed file is gone after another one got its name and was synced"
            }
            Self::XfsSyncfsWithoutFlush => "xfs: syncfs leaves overwritten blocks in the cache of the drive",
        }
    }

    /// The file system that has it.
    #[must_use]
    pub const fn file_system(self) -> &'static str {
        match self {
            Self::BtrfsReplacedFileReturns
            | Self::BtrfsRenamedFileHasBothNames
            | Self::BtrfsReplacedNameIsGone
            | Self::BtrfsRenamedDirectoryHasOldName => "btrfs",
            Self::F2fsRenamedFileIsGone => "f2fs",
            Self::XfsSyncfsWithoutFlush => "xfs",
        }
    }

    /// What it damages.
    #[must_use]
    pub const fn damages(self) -> DamageKind {
        match self {
            Self::BtrfsReplacedFileReturns
            | Self::BtrfsRenamedFileHasBothNames
            | Self::BtrfsReplacedNameIsGone
            | Self::BtrfsRenamedDirectoryHasOldName
            | Self::F2fsRenamedFileIsGone => DamageKind::Name,
            Self::XfsSyncfsWithoutFlush => DamageKind::Content,
        }
    }

    /// The finding that a piece of damage is, if it is a known one of this file system.
    #[must_use]
    pub fn of(file_system: &str, damage: &Damage) -> Option<Self> {
        damage
            .pattern
            .filter(|finding| finding.file_system() == file_system && finding.damages() == damage.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_damage_of_the_same_file_system_is_known() {
        for finding in KnownFinding::ALL {
            let damage = |kind, pattern| Damage {
                kind,
                path: "b".to_owned(),
                what: "is an older file".to_owned(),
                pattern,
            };
            for file_system in ["ext4", "xfs", "btrfs", "f2fs"] {
                let found = KnownFinding::of(file_system, &damage(finding.damages(), Some(finding)));
                assert_eq!(found, (file_system == finding.file_system()).then_some(finding));
                // What does not meet its conditions is another matter, whatever it looks like.
                assert_eq!(KnownFinding::of(file_system, &damage(finding.damages(), None)), None);
                assert_eq!(KnownFinding::of(file_system, &damage(DamageKind::Foreign, Some(finding))), None);
            }
        }
    }

    #[test]
    fn every_known_finding_is_documented() {
        let page = include_str!("../../../../docs/power.md");
        for finding in KnownFinding::ALL {
            assert!(page.contains(&format!("`{}`", finding.name())), "{}", finding.name());
        }
    }
}
