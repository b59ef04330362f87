//! Where trials run.

use std::path::PathBuf;

use crate::size::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where trials run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TargetSpec {
    /// This host.
    #[default]
    Local,
    /// Another host, over SSH: fsage copies itself there, works as root, and leaves only an empty folder behind
    /// (docs/targets.md).
    Ssh(Box<SshSpec>),
    /// A QEMU guest with a kernel of your choice (docs/targets.md).
    Guest(Box<GuestSpec>),
}

impl TargetSpec {
    /// Whether trials run on this host.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::Local)
    }

    /// Whether its clock counts instructions.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        matches!(self, Self::Guest(guest) if guest.time == GuestTime::Virtual)
    }

    /// Number of guests that share a virtual disk of this host, where they do.
    #[must_use]
    pub const fn hosts(&self) -> Option<u32> {
        match self {
            Self::Guest(guest) => guest.hosts,
            Self::Local | Self::Ssh(_) => None,
        }
    }

    /// The part of it that affects a trial's result, as JSON: which host it is, not how it is reached.
    #[must_use]
    pub fn basis(&self) -> serde_json::Value {
        match self {
            Self::Local => serde_json::json!({"kind": "local"}),
            // Loop files are made in the directory: it settles which device is measured.
            Self::Ssh(ssh) => serde_json::json!({
                "kind": "ssh", "host": ssh.host, "port": ssh.port.unwrap_or(22), "directory": ssh.directory,
            }),
            Self::Guest(_) => serde_json::to_value(self).unwrap_or_default(),
        }
    }

    /// Its name if it is not this host: `user@host:port`, `guest 6.1, 1GiB, 1 processor`.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Local => None,
            Self::Ssh(ssh) => Some(ssh.name()),
            Self::Guest(guest) => {
                let ending = if guest.cpus == 1 { "" } else { "s" };
                let time = if self.is_virtual() { ", virtual time" } else { "" };
                let hosts = match guest.hosts {
                    None => String::new(),
                    Some(1) => ", on a disk of this host".to_owned(),
                    Some(hosts) => format!(", {hosts} on a disk of this host"),
                };
                let architecture =
                    guest.architecture.map(|found| format!(" {}", found.name())).unwrap_or_default();
                Some(format!(
                    "guest {}, {}, {}{architecture} processor{ending}{time}{hosts}",
                    guest.kernel, guest.memory, guest.cpus
                ))
            }
        }
    }
}

/// A host that is reached over SSH.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SshSpec {
    /// Host name, address, or a `Host` of the user's `~/.ssh/config`.
    pub host: String,
    /// Port; absent: as SSH is configured, else 22.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// User on that host; absent: as SSH is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Path of the private key; absent: as SSH is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PathBuf>,
    /// Path of the file of known host keys; absent: as SSH is configured. A host that is not in it is
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<PathBuf>,
    /// Become root on that host with `sudo -n`, which must not ask for a password.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sudo: bool,
    /// Folder on that host (absent: `/var/tmp`) for a temporary folder with programs, loop files and results,
    /// for which it needs space.
    #[serde(default = "var_tmp", skip_serializing_if = "is_var_tmp")]
    pub directory: PathBuf,
}

/// A QEMU guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestSpec {
    /// Kernel: a fetched version (`6.1`, `6.12`; `fsage kernel`), `debian` for the newest fetched one, or the
    /// path of a built tree with `vmlinux` and its modules.
    #[serde(default = "debian")]
    pub kernel: String,
    /// Memory, which also holds virtual disks and loop files.
    #[serde(default = "gibibyte")]
    pub memory: Bytes,
    /// Number of CPUs.
    #[serde(default = "one")]
    pub cpus: u32,
    /// Architecture of its processor; absent: that of this host. Another one is emulated, and its kernel, its programs and
    /// fsage for it have to be there (docs/targets.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Clock: `host` (default), or `virtual`, which counts the instructions of the guest, 2 ns each.
    #[serde(default, skip_serializing_if = "GuestTime::is_host")]
    pub time: GuestTime,
    /// Number of guests that share one virtual disk (1 or 2), which this host serves to them by NBD; each trial has guests of
    /// its own. Only for the stage `cluster` (docs/cluster.md). Absent: one guest, which serves its disks itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
}

/// Architecture of a guest's processor, as `uname -m` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Architecture {
    /// 64-bit x86.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit ARM.
    #[serde(rename = "aarch64")]
    Aarch64,
}

impl Architecture {
    /// Those that guests can have.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// As `uname -m` names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The architecture of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|architecture| architecture.name() == name)
    }
}

/// Clock of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
pub enum GuestTime {
    /// That of this host.
    #[default]
    Host,
    /// Counts the instructions that the guest runs, 2 ns each, independent of the load of this host:
    /// durations are the same in every run.
    Virtual,
}

impl GuestTime {
    const fn is_host(&self) -> bool {
        matches!(self, Self::Host)
    }
}

fn debian() -> String {
    "debian".to_owned()
}

const fn gibibyte() -> Bytes {
    Bytes(1 << 30)
}

const fn one() -> u32 {
    1
}

fn var_tmp() -> PathBuf {
    PathBuf::from("/var/tmp")
}

fn is_var_tmp(path: &PathBuf) -> bool {
    *path == var_tmp()
}

impl SshSpec {
    /// `user@host:port in /directory`, as far as given.
    #[must_use]
    pub fn name(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let place = match is_var_tmp(&self.directory) {
            true => String::new(),
            false => format!(" in {}", self.directory.display()),
        };
        format!("{user}{}{port}{place}", self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_host_is_reached_is_no_part_of_what_it_is() {
        let read = |text: &str| serde_json::from_str::<TargetSpec>(text).unwrap();
        let plain = read(r#"{"kind":"ssh","host":"board"}"#);
        let other =
            read(r#"{"kind":"ssh","host":"board","user":"root","sudo":true,"identity":"k","port":22}"#);
        assert_eq!(plain.basis(), other.basis());
        for other in
            [r#"{"kind":"ssh","host":"other"}"#, r#"{"kind":"ssh","host":"board","directory":"/mnt"}"#]
        {
            assert_ne!(plain.basis(), read(other).basis());
        }
        assert!(serde_json::from_str::<TargetSpec>(r#"{"kind":"ssh","host":"a","hots":1}"#).is_err());
        let guest = read(r#"{"kind":"guest"}"#).name();
        assert_eq!(guest.as_deref(), Some("guest debian, 1GiB, 1 processor"));
        let guest = read(r#"{"kind":"guest","architecture":"aarch64","cpus":2}"#).name();
        assert_eq!(guest.as_deref(), Some("guest debian, 1GiB, 2 aarch64 processors"));
        let TargetSpec::Ssh(other) = other else { unreachable!() };
        assert_eq!(other.name(), "root@board:22");
    }

    #[test]
    fn architectures_have_the_names_that_studies_use() {
        for architecture in Architecture::ALL {
            assert_eq!(serde_json::to_value(architecture).unwrap(), architecture.name());
            assert_eq!(Architecture::named(architecture.name()), Some(architecture));
        }
        assert_eq!(Architecture::named("amd64"), None);
    }

    #[test]
    fn local_trials_keep_the_basis_that_their_ids_were_made_of() {
        assert_eq!(TargetSpec::Local.basis(), serde_json::to_value(TargetSpec::Local).unwrap());
    }
}
