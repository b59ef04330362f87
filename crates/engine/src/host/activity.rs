//! What this host did since it was booted.

use std::path::{Path, PathBuf};

use fsage_model::protocol::HostActivity;

/// Where the kernel shows CPUs.
const CPUS: &str = "/sys/devices/system/cpu";

/// Reads /proc/stat, /proc/diskstats, /proc/vmstat, /proc/pressure/memory and what the kernel says of each CPU;
/// what cannot be read is 0.
#[must_use]
pub fn now() -> HostActivity {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (throttles, frequency_khz) = cpus(Path::new(CPUS));
    HostActivity {
        memory_wait_us: memory_wait_us(&read("/proc/pressure/memory")),
        throttles,
        frequency_khz,
        ..parse(&read("/proc/stat"), &read("/proc/diskstats"), &read("/proc/vmstat"))
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234` (Documentation/accounting/psi.rst), in microseconds.
fn memory_wait_us(pressure: &str) -> u64 {
    let some = pressure.lines().find(|line| line.starts_with("some "));
    let total =
        some.and_then(|line| line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total=")));
    total.and_then(|total| total.parse().ok()).unwrap_or(0)
}

/// How often CPUs were throttled (`core_throttle_count`, summed), and their mean frequency (`scaling_cur_freq`).
fn cpus(folder: &Path) -> (u64, u64) {
    let number = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_cpu = |name: &str| {
        name.strip_prefix("cpu").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let cpus =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(is_cpu)).map(|entry| entry.path());
    let (mut throttles, mut sum, mut known) = (0_u64, 0_u64, 0_u64);
    for cpu in cpus {
        throttles += number(cpu.join("thermal_throttle/core_throttle_count")).unwrap_or(0);
        if let Some(khz) = number(cpu.join("cpufreq/scaling_cur_freq")) {
            (sum, known) = (sum + khz, known + 1);
        }
    }
    (throttles, sum.checked_div(known).unwrap_or(0))
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
        busy_ticks: [0_usize, 1, 2, 5, 6].iter().filter_map(|place| ticks.get(*place)).sum(),
        stolen_ticks: ticks.get(7).copied().unwrap_or(0),
        disk_bytes_written: diskstats.lines().filter_map(disk_bytes_written).sum(),
        cache_drops: counted(vmstat, &["drop_pagecache", "drop_slab"]),
        swapped_pages: counted(vmstat, &["pswpin", "pswpout"]),
        ..HostActivity::default()
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

/// The sum of what lines of /proc/vmstat count.
fn counted(vmstat: &str, names: &[&str]) -> u64 {
    let lines = vmstat.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(|(name, _)| names.contains(name))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 0 50 800 10 0 5 35 0 0\ncpu0 1 2 3\n";
    const DISKS: &str = " 254 0 vda 1 0 8 1 10 0 2048 1 0 1 1\n 254 1 vda1 1 0 8 1 10 0 2000 1 0 1 1\n   7 0 loop0 1 0 8 1 10 0 999 1 0 1 1\n 259 0 nvme0n1 1 0 8 1 10 0 16 1 0 1 1\n 259 1 nvme0n1p1 1 0 8 1 10 0 16 1 0 1 1\n";

    #[test]
    fn host_activity_counts_whole_disks_once() {
        let vmstat = "nr_free_pages 7\npswpin 5\npswpout 6\npswpin_zero 9\ndrop_pagecache 3\ndrop_slab 4\n";
        let activity = parse(STAT, DISKS, vmstat);
        assert_eq!((activity.cache_drops, activity.swapped_pages), (7, 11));
        assert_eq!((activity.total_ticks, activity.busy_ticks, activity.stolen_ticks), (1000, 155, 35));
        let before = HostActivity { busy_ticks: 5, total_ticks: 700, ..activity };
        assert_eq!(activity.busy_ns_since(&before), Some(1_500_000_000));
        assert_eq!(HostActivity::default().busy_ns_since(&HostActivity::default()), None);
        assert_eq!(activity.disk_bytes_written, (2048 + 16) * 512);
    }

    #[test]
    fn pressure_throttling_and_frequency_are_read() {
        let psi = "some avg10=0.00 avg60=0.00 avg300=0.00 total=4321\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";
        assert_eq!((memory_wait_us(psi), memory_wait_us("")), (4321, 0));
        let folder = tempfile::tempdir().unwrap();
        for (cpu, khz, count) in [("cpu0", 1_000_000, 2), ("cpu1", 3_000_000, 5), ("cpufreq", 7, 7)] {
            let cpu = folder.path().join(cpu);
            std::fs::create_dir_all(cpu.join("cpufreq")).unwrap();
            std::fs::create_dir_all(cpu.join("thermal_throttle")).unwrap();
            std::fs::write(cpu.join("cpufreq/scaling_cur_freq"), format!("{khz}\n")).unwrap();
            std::fs::write(cpu.join("thermal_throttle/core_throttle_count"), format!("{count}\n")).unwrap();
        }
        assert_eq!(cpus(folder.path()), (7, 2_000_000));
        assert_eq!(cpus(&folder.path().join("none")), (0, 0));
    }
}
