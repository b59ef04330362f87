//! Control groups that limit memory (cgroups(7)): where they are mounted, the group of this process, and the
//! limits that apply to it.
//!
//! Both versions are inspected, every group from that of this process up to the root; in a container its own
//! root may be a limited group of the host's.

use std::fs;
use std::path::{Path, PathBuf};

/// A limit on the memory of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// The group's directory.
    pub group: PathBuf,
    /// The file in it that holds the limit.
    pub file: &'static str,
    /// The limit.
    pub bytes: u64,
    /// Where a process is put that shall be under no limit: the hierarchy's root.
    pub root: PathBuf,
}

/// Version 1 has no word for "no limit": it is the largest multiple of a page. Anything above this is none.
const LARGEST_BYTES: u64 = 1 << 60;

/// The tightest limit on the memory of this process.
#[must_use]
pub fn limit_of_self() -> Option<Limited> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    limit(&groups, &mounts)
}

fn limit(groups: &str, mounts: &str) -> Option<Limited> {
    let found = hierarchies(groups, mounts).into_iter().flat_map(|hierarchy| {
        let ancestors: Vec<PathBuf> = hierarchy
            .own
            .ancestors()
            .take_while(|path| path.starts_with(&hierarchy.point))
            .map(Path::to_owned)
            .collect();
        ancestors.into_iter().flat_map(move |group| {
            let root = hierarchy.point.clone();
            hierarchy.limits().iter().filter_map(move |file| {
                let bytes = fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()?;
                (bytes < LARGEST_BYTES).then(|| Limited {
                    group: group.clone(),
                    file,
                    bytes,
                    root: root.clone(),
                })
            })
        })
    });
    found.min_by_key(|limited| limited.bytes)
}

/// A mounted hierarchy that can limit memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted: its root group.
    pub point: PathBuf,
    /// The group of this process.
    pub own: PathBuf,
    /// Whether it is of version 2.
    pub unified: bool,
}

impl Hierarchy {
    /// The files of a group that hold its limits.
    const fn limits(&self) -> &'static [&'static str] {
        if self.unified { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] }
    }
}

/// The hierarchies that can limit the memory of this process.
#[must_use]
pub fn hierarchies_of_self() -> Vec<Hierarchy> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    hierarchies(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

/// Those in a mount table (`proc(5)`: … point options … - type source options), for a process in these groups.
fn hierarchies(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    let hierarchy = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let point = PathBuf::from(before.split(' ').nth(4)?);
        let mut after = after.split(' ');
        let unified = match (after.next()?, after.nth(1)?) {
            ("cgroup2", _) => true,
            ("cgroup", options) if options.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        let own = point.join(group(groups, unified).unwrap_or_default().trim_start_matches('/'));
        // Where the group's path leads nowhere, this is a container that sees only part of it: its root counts.
        let own = if own.is_dir() { own } else { point.clone() };
        Some(Hierarchy { point, own, unified })
    };
    mounts.lines().filter_map(hierarchy).collect()
}

/// The group of a process in one of them (`proc(5)`: number:controllers:path).
fn group(groups: &str, unified: bool) -> Option<&str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it =
            if unified { controllers.is_empty() } else { controllers.split(',').any(|one| one == "memory") };
        is_it.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy in a temporary directory, with the limit of some of its groups.
    fn made(kind: &str, limits: &[(&str, &str, &str)]) -> (tempfile::TempDir, String) {
        let directory = tempfile::tempdir().unwrap();
        for (group, file, text) in limits {
            let group = directory.path().join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join(file), text).unwrap();
        }
        let point = directory.path().display();
        let mounts = match kind {
            "v1" => {
                format!("30 20 0:27 / {point} rw - cgroup cgroup rw,memory\n31 20 0:1 / /x rw - proc proc rw")
            }
            _ => format!("30 20 0:27 / {point} rw shared:9 - cgroup2 cgroup2 rw"),
        };
        (directory, mounts)
    }

    const NONE: &str = "9223372036854771712\n";

    #[test]
    fn limits_of_version_1_are_found_up_to_the_root() {
        let file = "memory.limit_in_bytes";
        let (directory, mounts) = made("v1", &[("", file, NONE), ("a", file, "4096\n"), ("a/b", file, NONE)]);
        let groups = "5:cpu:/\n4:memory:/a/b\n0::/z\n";
        let found = limit(groups, &mounts).unwrap();
        assert_eq!((found.group, found.bytes), (directory.path().join("a"), 4096));
        assert_eq!(limit("4:memory:/\n", &mounts), None);
        assert_eq!(limit("4:memory,cpu:/a\n", &mounts).unwrap().bytes, 4096);
    }

    #[test]
    fn limits_of_version_2_are_found_and_max_is_none() {
        let (_directory, mounts) = made(
            "v2",
            &[("a", "memory.max", "max\n"), ("a", "memory.high", "8192\n"), ("b", "memory.max", "max\n")],
        );
        assert_eq!(limit("0::/a\n", &mounts).unwrap().file, "memory.high");
        assert_eq!(limit("0::/b\n", &mounts), None);
        assert_eq!(limit("0::/\n", &mounts), None);
    }

    #[test]
    fn the_root_of_a_container_counts() {
        let (_directory, mounts) = made("v2", &[("", "memory.max", "12345\n")]);
        assert_eq!(limit("0::/\n", &mounts).unwrap().bytes, 12_345);
        assert_eq!(limit("0::/of/the/host\n", &mounts).unwrap().bytes, 12_345);
    }
}
