//! External programs that fsage calls or tells the versions of, each once: the agent looks for them
//! ([`super::facts`]), `fsage doctor` names their packages, and the lab's `tools` call them.

/// An external program.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Name looked up in PATH, `/usr/sbin` and `/sbin`.
    pub name: &'static str,
    /// Debian package that has it; empty where none does, and for programs that are only looked for.
    pub package: &'static str,
    /// What fsage uses it for, after "to"; empty for programs that are only looked for.
    pub purpose: &'static str,
    /// The option that makes it print its version. None: it has no such option and might do something else
    /// instead; then only its path is known.
    pub version_option: Option<&'static str>,
}

/// A program that fsage calls.
const fn called(
    name: &'static str,
    package: &'static str,
    purpose: &'static str,
    version_option: Option<&'static str>,
) -> Program {
    Program { name, package, purpose, version_option }
}

/// A program whose presence and version belong to the facts about a host.
const fn looked_for(name: &'static str, version_option: Option<&'static str>) -> Program {
    Program { name, package: "", purpose: "", version_option }
}

/// Every program, those that fsage calls first, in the order in which `fsage doctor` lists them.
pub const PROGRAMS: &[Program] = &[
    called("mke2fs", "e2fsprogs", "make ext2, ext3 and ext4", Some("-V")),
    called("e2fsck", "e2fsprogs", "check ext2, ext3 and ext4", Some("-V")),
    called("mkfs.xfs", "xfsprogs", "make xfs", Some("-V")),
    called("xfs_repair", "xfsprogs", "check xfs", Some("-V")),
    called("mkfs.btrfs", "btrfs-progs", "make btrfs", Some("-V")),
    called("btrfs", "btrfs-progs", "check, defragment and balance btrfs", Some("--version")),
    called("e4defrag", "e2fsprogs", "defragment ext4 as a remedy", None),
    called("xfs_fsr", "xfsprogs", "defragment xfs as a remedy", Some("-V")),
    called("e2image", "e2fsprogs", "export and import ext metadata images", None),
    called("xfs_metadump", "xfsprogs", "export xfs metadata images", Some("-V")),
    called("xfs_mdrestore", "xfsprogs", "import xfs metadata images", Some("-V")),
    called("btrfs-image", "btrfs-progs", "export and import btrfs metadata images", None),
    called("fio", "fio", "run fio jobs as measures", Some("--version")),
    called("git", "git", "replay a repository's history", Some("--version")),
    called("smartctl", "smartmontools", "read the wear counters of real devices", Some("--version")),
    called("nvme", "nvme-cli", "read the wear counters of NVMe devices", Some("version")),
    called("sqlite3", "sqlite3", "commit transactions under power cuts", Some("--version")),
    called("blkdiscard", "util-linux", "zero the maps of layers", Some("--version")),
    called("dmsetup", "dmsetup", "make layers of the device mapper", Some("--version")),
    called("mdadm", "mdadm", "make arrays of drives", Some("--version")),
    called("lvm", "lvm2", "make logical volumes", Some("version")),
    called(
        "fsage-disk",
        "",
        "serve virtual disks; it lies beside fsage and fsage-agent (`make build`)",
        Some("--version"),
    ),
    looked_for("mkfs.ext2", Some("-V")),
    looked_for("mkfs.ext3", Some("-V")),
    looked_for("mkfs.ext4", Some("-V")),
    looked_for("tune2fs", None),
    looked_for("dumpe2fs", Some("-V")),
    looked_for("e2freefrag", None),
    looked_for("filefrag", None),
    looked_for("xfs_spaceman", Some("-V")),
    looked_for("xfs_io", Some("-V")),
    looked_for("mkfs.f2fs", Some("-V")),
    looked_for("fsck.f2fs", Some("-V")),
    looked_for("mkfs.vfat", None),
    looked_for("fsck.vfat", None),
    looked_for("mkfs.nilfs2", Some("-V")),
    looked_for("mkfs.jfs", Some("-V")),
    looked_for("mkfs.bcachefs", None),
    looked_for("mkfs.ntfs", Some("-V")),
    looked_for("mkfs.exfat", Some("-V")),
    looked_for("fsstress", None),
    looked_for("losetup", Some("--version")),
    looked_for("mount", Some("--version")),
    looked_for("fstrim", Some("--version")),
    looked_for("modprobe", Some("--version")),
    looked_for("cryptsetup", Some("--version")),
    looked_for("qemu-system-x86_64", Some("--version")),
    looked_for("qemu-nbd", Some("--version")),
    looked_for("ssh", Some("-V")),
];

/// Those that fsage calls.
pub fn all_called() -> impl Iterator<Item = &'static Program> {
    PROGRAMS.iter().filter(|program| !program.purpose.is_empty())
}

/// The package that has a program, where one does.
#[must_use]
pub fn package_of(program: &str) -> Option<&'static str> {
    let known = PROGRAMS.iter().find(|known| known.name == program);
    known.map(|known| known.package).filter(|package| !package.is_empty())
}

/// The program called `name`.
///
/// # Panics
/// There is none.
#[must_use]
pub const fn named(name: &str) -> &'static Program {
    let mut position = 0;
    while position < PROGRAMS.len() {
        if same(PROGRAMS[position].name, name) {
            return &PROGRAMS[position];
        }
        position += 1;
    }
    panic!("PROGRAMS has no program of this name")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut position = 0;
    while position < a.len() && position < b.len() && a[position] == b[position] {
        position += 1;
    }
    position == a.len() && position == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_once_and_those_that_are_called_have_packages() {
        let mut names: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROGRAMS.len());
        assert!(PROGRAMS.iter().all(|program| named(program.name) == program));
        let without: Vec<_> = all_called().filter(|p| p.package.is_empty()).map(|p| p.name).collect();
        assert_eq!(without, ["fsage-disk"], "it comes with fsage");
        assert_eq!(package_of("sqlite3"), Some("sqlite3"));
        assert_eq!((package_of("fsage-disk"), package_of("no-such-program")), (None, None));
    }
}
