//! What this host did since it was booted.

use fsage_model::protocol::HostActivity;

/// Reads /proc/stat, /proc/diskstats and /proc/vmstat; what cannot be read is 0.
#[must_use]
pub fn now() -> HostActivity {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    parse(&read("/proc/stat"), &read("/proc/diskstats"), &read("/proc/vmstat"))
}

fn parse(stat: &str, diskstats: &str, vmstat: &str) -> HostActivity {
    // `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guest is part of user.
    let ticks: Vec<u64> = stat
        .lines()
        .find_map(|l| l.strip_prefix("cpu "))
        .map(|l| l.split_ascii_whitespace().take(8).filter_map(|n| n.parse().ok()).collect())
        .unwrap_or_default();
    HostActivity {
        total_ticks: ticks.iter().sum(),
        stolen_ticks: ticks.get(7).copied().unwrap_or(0),
        disk_bytes_written: diskstats.lines().filter_map(disk_bytes_written).sum(),
        cache_drops: vmstat.lines().filter_map(cache_drops).sum(),
    }
}

/// Bytes written by one line of /proc/diskstats (Documentation/admin-guide/iostats.rst: field 10 counts
/// 512-byte sectors), for whole physical or virtual disks.
fn disk_bytes_written(line: &str) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let name = fields.get(2)?;
    let disk = (name.starts_with("sd") || name.starts_with("vd") || name.starts_with("xvd"))
        && !name.ends_with(|c: char| c.is_ascii_digit())
        || (name.starts_with("nvme") || name.starts_with("mmcblk")) && !name.contains('p');
    disk.then(|| fields.get(9)?.parse::<u64>().ok()).flatten().map(|sectors| sectors * 512)
}

/// What a line of /proc/vmstat counts of dropped caches.
fn cache_drops(line: &str) -> Option<u64> {
    let (name, count) = line.split_once(' ')?;
    matches!(name, "drop_pagecache" | "drop_slab").then(|| count.trim().parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 0 50 800 10 0 5 35 0 0\ncpu0 1 2 3\n";
    const DISKS: &str = " 254 0 vda 1 0 8 1 10 0 2048 1 0 1 1\n 254 1 vda1 1 0 8 1 10 0 2000 1 0 1 1\n   7 0 loop0 1 0 8 1 10 0 999 1 0 1 1\n 259 0 nvme0n1 1 0 8 1 10 0 16 1 0 1 1\n 259 1 nvme0n1p1 1 0 8 1 10 0 16 1 0 1 1\n";

    #[test]
    fn host_activity_counts_whole_disks_once() {
        let vmstat = "nr_free_pages 7\ndrop_pagecache 3\ndrop_slab 4\n";
        let activity = parse(STAT, DISKS, vmstat);
        assert_eq!(activity.cache_drops, 7);
        assert_eq!((activity.total_ticks, activity.stolen_ticks), (1000, 35));
        assert_eq!(activity.disk_bytes_written, (2048 + 16) * 512);
    }
}
