//! The settings of the host that fsage changes, all of them.
//!
//! One table, asked before a setting is taken and before it is released: what is not in it is not written.

use std::path::Path;

/// Which values a setting has.
#[derive(Debug, Clone, Copy)]
enum Syntax {
    /// A decimal number, which may be negative.
    Number,
    /// Groups of hexadecimal digits with commas between them.
    Mask,
    /// The name of a scheduler.
    Name,
}

/// Settings of the whole host.
const HOST: &[(&str, Syntax)] = &[
    ("/sys/devices/virtual/workqueue/cpumask", Syntax::Mask),
    ("/proc/sys/vm/dirty_writeback_centisecs", Syntax::Number),
    ("/proc/sys/fs/xfs/xfssyncd_centisecs", Syntax::Number),
    ("/proc/sys/fs/xfs/speculative_prealloc_lifetime", Syntax::Number),
];

/// Settings of a block device, in `/sys/class/block/NAME/queue`.
const QUEUE: &[(&str, Syntax)] = &[
    ("scheduler", Syntax::Name),
    ("max_sectors_kb", Syntax::Number),
    ("wbt_lat_usec", Syntax::Number),
    ("rotational", Syntax::Number),
];

/// Whether fsage sets this setting to such a value.
///
/// # Errors
/// Why not.
pub(super) fn check(path: &Path, value: &str) -> Result<(), String> {
    let Some(syntax) = path.to_str().and_then(syntax) else {
        return Err(format!("fsage never changes {}", path.display()));
    };
    if syntax.holds(value) {
        return Ok(());
    }
    Err(format!("{} cannot be {value:?}", path.display()))
}

fn syntax(path: &str) -> Option<Syntax> {
    let find = |table: &[(&str, Syntax)], name: &str| {
        table.iter().find(|(known, _)| *known == name).map(|(_, syntax)| *syntax)
    };
    let Some(rest) = path.strip_prefix("/sys/class/block/") else { return find(HOST, path) };
    let (device, setting) = rest.split_once("/queue/")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-!:".contains(&byte);
    (!device.is_empty() && device.bytes().all(plain)).then(|| find(QUEUE, setting))?
}

impl Syntax {
    fn holds(self, value: &str) -> bool {
        if value.is_empty() || value.len() > 4096 {
            return false;
        }
        match self {
            Self::Number => value.strip_prefix('-').unwrap_or(value).parse::<u64>().is_ok(),
            Self::Mask => value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b','),
            Self::Name => value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_table_has_is_set() {
        let right = |path: &str, value: &str| check(Path::new(path), value).is_ok();
        assert!(right("/sys/class/block/loop7/queue/scheduler", "mq-deadline"));
        assert!(right("/sys/class/block/nvme0n1/queue/rotational", "0"));
        assert!(right("/sys/class/block/sda/queue/wbt_lat_usec", "-1"));
        assert!(right("/sys/devices/virtual/workqueue/cpumask", "ffffffff,00000003"));
        assert!(!right("/sys/class/block/loop7/queue/read_ahead_kb", "4"));
        assert!(!right("/sys/class/block/loop7/../loop8/queue/scheduler", "none"));
        assert!(!right("/sys/class/block//queue/scheduler", "none"));
        assert!(!right("/sys/class/block/loop7/queue/scheduler", "none\nbfq"));
        assert!(!right("/sys/class/block/loop7/queue/rotational", ""));
        assert!(!right("/proc/sys/kernel/core_pattern", "0"));
        assert!(!right("/sys/devices/virtual/workqueue/cpumask", "0x3"));
    }
}
