//! Limits of the memory of a load, its page cache included: a control group that the load runs in
//! (cgroups(7); `Documentation/admin-guide/cgroup-v1/memory.rst` and `cgroup-v2.rst` of the kernel).

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Folder below which all control groups are mounted.
pub const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// A control group that a program runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryGroup {
    /// Its directory.
    pub path: PathBuf,
    /// Most bytes of memory and page cache that its processes may have.
    pub limit_bytes: u64,
}

/// What a program used of its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MemoryUse {
    /// The limit in bytes.
    pub limit_bytes: u64,
    /// Most bytes of page cache at one time, as far as it was sampled (once per round).
    pub cache_bytes: u64,
    /// Most bytes of the processes' own memory at one time, sampled likewise.
    pub process_bytes: u64,
    /// Bytes of all files of the load.
    pub file_bytes: u64,
    /// Processes that were killed because the limit was too low for them.
    pub killed: u64,
}

/// Whether this is the directory of a control group that fsage may have made: below [`CONTROL_GROUPS`], and called
/// `fsage-PID-NUMBER`.
#[must_use]
pub fn is_group(path: &Path) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let numbers = name.strip_prefix("fsage-").and_then(|rest| rest.split_once('-'));
    let is_plain =
        path.components().all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
    // What `components` leaves out (`.`, `//`) is no path that fsage writes.
    let is_as_written = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    is_plain
        && is_as_written
        && path.starts_with(CONTROL_GROUPS)
        && numbers.is_some_and(|(pid, count)| number(pid) && number(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_this_name_below_the_mounts_of_control_groups_count() {
        for right in ["/sys/fs/cgroup/fsage-12-0", "/sys/fs/cgroup/memory/user.slice/fsage-1-22"] {
            assert!(is_group(Path::new(right)), "{right}");
        }
        for wrong in [
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/fsage-12",
            "/sys/fs/cgroup/fsage-x-1",
            "/sys/fs/cgroup/fsage-1-",
            "/sys/fs/cgroup/../cgroup/fsage-1-1",
            "/sys/fs/cgroup/./fsage-1-1",
            "/sys/fs/cgroup//fsage-1-1",
            "/sys/fs/cgroups/fsage-1-1",
            "/tmp/fsage-1-1",
            "fsage-1-1",
            "",
        ] {
            assert!(!is_group(Path::new(wrong)), "{wrong}");
        }
    }
}
