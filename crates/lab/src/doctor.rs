//! What this host can do: a pure judgement of the facts that an agent reports.
//!
//! A check is needed, without which `fsage run` cannot run the shipped studies, or it is of use to something
//! else. What can be installed names its Debian package, so that one command installs it all.

use fsage_engine::host::program::{Program, all_called};
use fsage_model::filesystem;
use fsage_model::protocol::HostFacts;
use serde::Serialize;

use crate::filesystem::{DRIVERS, built_in};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// There.
    Ok,
    /// Missing, and `fsage run` needs it.
    Missing,
    /// Missing, and only some things need it.
    Absent,
}

/// One thing inspected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it belongs to: `host`, `file systems`, `programs`, `kernel`.
    pub group: &'static str,
    /// What was looked for.
    pub name: String,
    /// How it came out.
    pub state: State,
    /// What was found, or what it is needed for.
    pub detail: String,
    /// Debian package that has it; empty when no package helps.
    pub package: &'static str,
}

/// Everything that was inspected.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Everything `fsage run` needs is there.
    pub ready: bool,
    /// In the order they are shown.
    pub checks: Vec<Check>,
    /// The one command that installs what is missing; empty when no package would help.
    pub install: String,
    /// The facts behind it.
    pub host: HostFacts,
}

/// Whether the shipped studies need a program: one that makes or checks a file system of theirs.
fn is_needed(program: &str) -> bool {
    let needed = DRIVERS.iter().filter(|driver| driver.facts().needed);
    needed.flat_map(|driver| [driver.mkfs(), driver.fsck()]).any(|known| known.name == program)
}

/// A feature of the kernel, whether it is needed, and what for.
const FEATURES: [(&str, bool, &str); 6] = [
    ("loop", true, "volumes that are files"),
    ("tracefs", false, "following requests through the block layer"),
    ("cgroup", false, "limiting the page cache"),
    ("schedulers", false, "choosing an I/O scheduler"),
    ("fuse", false, "the virtual disk"),
    ("io_uring", false, "asynchronous loads"),
];

/// Judges.
#[must_use]
pub fn examine(host: HostFacts) -> Diagnosis {
    let mut checks = vec![root(&host)];
    let driven = filesystem::ALL.iter().filter(|row| built_in(row.name).is_some());
    checks.extend(driven.map(|row| file_system(&host, row.name, row.needed)));
    checks.extend(all_called().map(|&Program { name, package, purpose, .. }| Check {
        group: "programs",
        name: name.to_owned(),
        state: state(host.tools.contains_key(name), is_needed(name)),
        detail: host.tools.get(name).cloned().unwrap_or_else(|| format!("to {purpose}")),
        package,
    }));
    checks.extend(FEATURES.map(|(name, needed, what)| Check {
        group: "kernel",
        name: name.to_owned(),
        state: state(host.features.contains_key(name), needed),
        detail: host.features.get(name).cloned().unwrap_or_else(|| format!("for {what}")),
        package: "",
    }));
    let ready = checks.iter().all(|check| check.state != State::Missing);
    Diagnosis { ready, install: install(&checks, host.root), checks, host }
}

const fn state(found: bool, needed: bool) -> State {
    match (found, needed) {
        (true, _) => State::Ok,
        (false, true) => State::Missing,
        (false, false) => State::Absent,
    }
}

fn root(host: &HostFacts) -> Check {
    let detail = if host.root { "yes" } else { "no: `fsage run` mounts file systems; use sudo" };
    Check {
        group: "host",
        name: "root".to_owned(),
        state: state(host.root, true),
        detail: detail.to_owned(),
        package: "",
    }
}

/// The kernel has it, or has it as a module, or (ext2, ext3) ext4 stands in for it.
fn file_system(host: &HostFacts, name: &str, needed: bool) -> Check {
    let known = |name: &str| host.kernel_file_systems.iter().any(|known| known == name);
    let module = |name: &str| {
        host.features.get("file_system_modules").is_some_and(|list| list.split(' ').any(|m| m == name))
    };
    let detail = if known(name) {
        "in the kernel"
    } else if module(name) {
        "as a module"
    } else {
        "this kernel does not have it"
    };
    Check {
        group: "file systems",
        name: name.to_owned(),
        state: state(known(name) || module(name), needed),
        detail: detail.to_owned(),
        package: "",
    }
}

/// Needed packages before the others; nothing twice.
fn install(checks: &[Check], root: bool) -> String {
    let mut packages: Vec<&str> = Vec::new();
    for wanted in [State::Missing, State::Absent] {
        for check in checks.iter().filter(|c| c.state == wanted && !c.package.is_empty()) {
            if !packages.contains(&check.package) {
                packages.push(check.package);
            }
        }
    }
    if packages.is_empty() {
        return String::new();
    }
    format!("{}apt-get install -y {}", if root { "" } else { "sudo " }, packages.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn able() -> HostFacts {
        let mut host = HostFacts { root: true, ..HostFacts::default() };
        host.kernel_file_systems = ["ext4", "xfs"].map(str::to_owned).to_vec();
        host.features.insert("file_system_modules".to_owned(), "btrfs f2fs".to_owned());
        host.features.insert("loop".to_owned(), "/dev/loop-control".to_owned());
        for program in all_called() {
            host.tools.insert(program.name.to_owned(), "1.0".to_owned());
        }
        host
    }

    #[test]
    fn a_host_with_everything_needed_is_ready() {
        let diagnosis = examine(able());
        assert!(diagnosis.ready, "{:?}", diagnosis.checks);
        assert_eq!(diagnosis.install, "");
        assert!(diagnosis.checks.iter().any(|c| c.name == "btrfs" && c.detail == "as a module"));
    }

    #[test]
    fn one_command_installs_all_that_is_missing() {
        let mut host = able();
        host.root = false;
        for program in ["mkfs.xfs", "xfs_repair", "fio"] {
            host.tools.remove(program);
        }
        let diagnosis = examine(host);
        assert!(!diagnosis.ready);
        assert_eq!(diagnosis.install, "sudo apt-get install -y xfsprogs fio");
    }

    #[test]
    fn every_program_is_listed_wherever_it_is_missing() {
        let diagnosis = examine(HostFacts::default());
        for (name, package) in [
            ("mke2fs", "e2fsprogs"),
            ("e2image", "e2fsprogs"),
            ("xfs_metadump", "xfsprogs"),
            ("xfs_mdrestore", "xfsprogs"),
            ("btrfs-image", "btrfs-progs"),
            ("fio", "fio"),
        ] {
            let check = diagnosis.checks.iter().find(|check| check.name == name).unwrap();
            let wanted = if is_needed(name) { State::Missing } else { State::Absent };
            assert_eq!((check.package, check.state), (package, wanted), "{name}");
        }
    }

    #[test]
    fn what_nobody_needs_to_run_does_not_stop_anyone() {
        let mut host = able();
        host.tools.remove("fio");
        let diagnosis = examine(host);
        assert!(diagnosis.ready);
        assert_eq!(diagnosis.install, "apt-get install -y fio");
        let mut host = able();
        host.features.remove("loop");
        assert!(!examine(host).ready);
    }
}
