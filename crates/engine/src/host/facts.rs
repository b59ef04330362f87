//! What this host is and can do, for `fsage doctor` and the report's setup table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use fsage_model::protocol::HostFacts;

use super::program::PROGRAMS;
use super::tool::{self, Children};
use super::{memory_group, read_trimmed};

/// Time a program may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// Everything [`HostFacts`] has to say. Takes some tens of milliseconds: programs are asked for versions.
#[must_use]
pub fn facts(children: &Children) -> HostFacts {
    let uname = rustix::system::uname();
    let kernel = uname.release().to_string_lossy().into_owned();
    HostFacts {
        machine: uname.machine().to_string_lossy().into_owned(),
        distribution: distribution(),
        cpu_model: cpu_model(),
        cpus: std::thread::available_parallelism()
            .ok()
            .and_then(|n| u32::try_from(n.get()).ok())
            .unwrap_or(1),
        memory_bytes: memory_bytes(),
        boot_id: boot_id(),
        root: rustix::process::geteuid().is_root(),
        kernel_file_systems: file_systems(),
        tools: tools(children),
        features: features(&kernel),
        virtualisation: virtualisation(),
        identity: own_identity(),
        kernel,
    }
}

/// What tells this host from others ([`HostFacts::identity`]).
#[must_use]
pub fn own_identity() -> String {
    let known = [read_trimmed("/etc/machine-id"), read_trimmed("/sys/class/dmi/id/product_uuid")].concat();
    if known.is_empty() {
        return identity(&rustix::system::uname().nodename().to_string_lossy());
    }
    identity(&known)
}

/// A hash: a machine id is not to be published as it is (machine-id(5)).
fn identity(of: &str) -> String {
    let hash = blake3::derive_key("fsage 2026 identity of a host", of.as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The number the kernel drew at this boot.
#[must_use]
pub fn boot_id() -> String {
    read_trimmed("/proc/sys/kernel/random/boot_id")
}

/// The value of `key` in lines of `key=value` or `key : value`.
fn value<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(separator)?;
        (found.trim() == key).then(|| value.trim().trim_matches('"'))
    })
}

fn distribution() -> String {
    let release = read_trimmed("/etc/os-release");
    value(&release, "PRETTY_NAME", '=').unwrap_or("unknown").to_owned()
}

fn cpu_model() -> String {
    let cpus = read_trimmed("/proc/cpuinfo");
    let keys = ["model name", "Model", "Processor", "CPU part"];
    keys.iter().find_map(|key| value(&cpus, key, ':')).unwrap_or("unknown").to_owned()
}

fn memory_bytes() -> u64 {
    let text = read_trimmed("/proc/meminfo");
    let kib = value(&text, "MemTotal", ':').and_then(|value| value.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn file_systems() -> Vec<String> {
    let text = read_trimmed("/proc/filesystems");
    text.lines().filter_map(|line| line.split_ascii_whitespace().last()).map(str::to_owned).collect()
}

fn tools(children: &Children) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for program in PROGRAMS {
        let Some(path) = tool::look_up(program.name) else { continue };
        let version = program.version_option.and_then(|option| {
            let argv = [path.display().to_string(), option.to_owned()];
            let output = tool::run(children, &argv, Some(VERSION_LIMIT)).ok()?;
            let said = if output.stdout.trim().is_empty() { output.stderr } else { output.stdout };
            said.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
        });
        found.insert(program.name.to_owned(), version.unwrap_or_else(|| path.display().to_string()));
    }
    found
}

/// Features that are there; each with what tells the reader most about it.
fn features(kernel: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut add = |name: &str, what: String| {
        if !what.is_empty() {
            found.insert(name.to_owned(), what);
        }
    };
    let device = |path: &str| if Path::new(path).exists() { path.to_owned() } else { String::new() };
    add("loop", device("/dev/loop-control"));
    add("fuse", device("/dev/fuse"));
    add("ublk", device("/dev/ublk-control"));
    add("nbd", device("/dev/nbd0"));
    add("kvm", device("/dev/kvm"));
    add("device_mapper", device("/dev/mapper/control"));
    add("fuse_uring", read_trimmed("/sys/module/fuse/parameters/enable_uring"));
    add("io_uring", io_uring());
    add("tracefs", super::tracefs::place().unwrap_or_default());
    add("cgroup", cgroup());
    add("schedulers", schedulers());
    add("clocksource", read_trimmed("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    add("cpu_governor", read_trimmed("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    add("lockdown", super::setting::chosen(&read_trimmed("/sys/kernel/security/lockdown")).to_owned());
    add(
        "transparent_hugepage",
        super::setting::chosen(&read_trimmed("/sys/kernel/mm/transparent_hugepage/enabled")).to_owned(),
    );
    add("swap", swap());
    add("file_system_modules", loadable_file_systems(kernel));
    found
}

fn io_uring() -> String {
    match read_trimmed("/proc/sys/kernel/io_uring_disabled").as_str() {
        "0" => "enabled".to_owned(),
        "1" => "for a group only".to_owned(),
        "2" => "disabled".to_owned(),
        // Kernels before 6.6 have no such switch: those with io_uring list its worker queue's symbols only.
        other => other.to_owned(),
    }
}

fn cgroup() -> String {
    let Some(hierarchy) = memory_group::usable() else { return String::new() };
    let version = if hierarchy.unified { 2 } else { 1 };
    format!("memory controller, version {version}, at {}", hierarchy.point.display())
}

/// Every I/O scheduler that some block device can have.
fn schedulers() -> String {
    let Ok(devices) = std::fs::read_dir("/sys/block") else { return String::new() };
    let lists = devices.flatten().map(|entry| read_trimmed(entry.path().join("queue/scheduler")));
    let names: BTreeSet<String> = lists
        .flat_map(|list| {
            list.split_ascii_whitespace()
                .map(|name| name.trim_matches(['[', ']']).to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    names.into_iter().collect::<Vec<_>>().join(" ")
}

fn swap() -> String {
    let text = read_trimmed("/proc/swaps");
    let devices: Vec<_> =
        text.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next()).collect();
    devices.join(" ")
}

/// File systems that are modules of this kernel and not loaded yet.
fn loadable_file_systems(kernel: &str) -> String {
    let known: BTreeSet<String> = file_systems().into_iter().collect();
    let list = read_trimmed(format!("/lib/modules/{kernel}/modules.dep"));
    let names: BTreeSet<&str> = list
        .lines()
        .filter_map(|line| line.split_once(':').map(|(path, _)| path))
        .filter(|path| path.starts_with("kernel/fs/"))
        .filter_map(|path| {
            let file = path.rsplit('/').next()?;
            let name = file.split_once(".ko").map(|(name, _)| name)?;
            // A file system's module lies in the folder of its name; libraries beside it do not count.
            path.contains(&format!("/{name}/")).then_some(name)
        })
        .filter(|name| !known.contains(*name))
        .collect();
    names.into_iter().collect::<Vec<_>>().join(" ")
}

fn virtualisation() -> String {
    let hypervisor = read_trimmed("/proc/cpuinfo")
        .lines()
        .any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor"));
    let product = read_trimmed("/sys/class/dmi/id/product_name");
    let vendor = read_trimmed("/sys/class/dmi/id/sys_vendor");
    let container = if Path::new("/run/.containerenv").exists() || Path::new("/.dockerenv").exists() {
        "container"
    } else {
        ""
    };
    let machine = match (hypervisor, vendor.is_empty() && product.is_empty()) {
        (true, true) => "virtual machine".to_owned(),
        (true, false) => format!("{vendor} {product}").trim().to_owned(),
        (false, _) => String::new(),
    };
    [machine.as_str(), container]
        .iter()
        .filter(|part| !part.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_apart_without_being_named() {
        let one = identity("0123456789abcdef0123456789abcdef");
        assert_eq!((one.len(), &one), (16, &identity("0123456789abcdef0123456789abcdef")));
        assert_ne!(one, identity("1123456789abcdef0123456789abcdef"));
        assert!(!one.contains("01234567"));
        assert_eq!(own_identity(), own_identity());
    }

    #[test]
    fn this_host_is_described() {
        let facts = facts(&Children::default());
        assert!(!facts.kernel.is_empty() && !facts.machine.is_empty() && facts.cpus > 0);
        assert!(facts.memory_bytes > 1 << 20);
        assert_eq!(facts.boot_id.len(), 36);
        assert!(facts.kernel_file_systems.iter().any(|name| name == "proc"));
        assert!(facts.tools.values().all(|version| !version.is_empty() && !version.contains('\n')));
        assert!(!facts.features.contains_key(""));
    }

    #[test]
    fn values_are_found_in_lines() {
        assert_eq!(value("A=1\nPRETTY_NAME=\"Some Linux\"\n", "PRETTY_NAME", '='), Some("Some Linux"));
        assert_eq!(value("model name\t: Fast CPU @ 3 GHz\n", "model name", ':'), Some("Fast CPU @ 3 GHz"));
    }
}
