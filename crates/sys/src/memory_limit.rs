//! How much of the host's memory a program may take.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// No program is limited to less than this.
const LEAST_BYTES: u64 = 256 << 20;

/// Memory that the host can give now without swapping: `MemAvailable` of proc(5).
///
/// # Errors
/// `/proc/meminfo` cannot be read.
pub fn available_bytes() -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/meminfo")?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    Ok(kib << 10)
}

/// Limits the memory of this process, and of each child that does not limit itself, to three quarters of what
/// the host can give now (`RLIMIT_DATA`, setrlimit(2); mapped files and shared memory do not count): input
/// that takes more ends the program and not the host. Beyond the limit an allocation fails, which ends a Rust
/// program with `SIGABRT`. Where the host does not say what it has, there is no limit.
pub fn limit() {
    let Ok(available) = available_bytes() else { return };
    let bytes = (available / 4 * 3).max(LEAST_BYTES);
    set(|maximum| Some(maximum.map_or(bytes, |maximum| bytes.min(maximum))));
}

/// Takes back the limit that this process inherited from [`limit`].
pub fn lift() {
    set(|maximum| maximum);
}

fn set(current: impl Fn(Option<u64>) -> Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Data);
    // Within the hard limit nothing is refused.
    let _ = setrlimit(Resource::Data, Rlimit { current: current(maximum), maximum });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_below_what_the_host_has_and_can_be_lifted() {
        let before = getrlimit(Resource::Data);
        let available = available_bytes().unwrap();
        assert!(available > 0);
        limit();
        let limited = getrlimit(Resource::Data).current.unwrap();
        assert!(limited >= LEAST_BYTES && (limited < available || available < 2 * LEAST_BYTES), "{limited}");
        lift();
        assert_eq!(getrlimit(Resource::Data), before);
    }
}
