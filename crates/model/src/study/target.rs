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
    /// Another host, reached by SSH: fsage sends itself there, works as root, and leaves nothing (docs/targets.md).
    Ssh(Box<SshSpec>),
    /// A guest in QEMU with a kernel of one's own (docs/targets.md).
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

    /// What of it affects a trial's result, as JSON: which host it is, not how it is reached.
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

    /// What it is called where it is not this host: `user@host:port`, `guest 6.1, 1GiB, 1 processor`.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Local => None,
            Self::Ssh(ssh) => Some(ssh.name()),
            Self::Guest(guest) => {
                let ending = if guest.cpus == 1 { "" } else { "s" };
                let time = if self.is_virtual() { ", virtual time" } else { "" };
                Some(format!(
                    "guest {}, {}, {} processor{ending}{time}",
                    guest.kernel, guest.memory, guest.cpus
                ))
            }
        }
    }
}

/// A host that is reached by SSH.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SshSpec {
    /// Name or address, or a `Host` of the user's `~/.ssh/config`.
    pub host: String,
    /// Port; absent: as SSH is configured, else 22.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// User there; absent: as SSH is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Private key; absent: as SSH is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PathBuf>,
    /// File with the keys of known hosts; absent: as SSH is configured. A host that is not in it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<PathBuf>,
    /// Become root there by `sudo -n`, which must ask for no password.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sudo: bool,
    /// Folder there for a temporary folder: of programs, loop files and results. It needs room for these.
    #[serde(default = "var_tmp", skip_serializing_if = "is_var_tmp")]
    pub directory: PathBuf,
}

/// A guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestSpec {
    /// Its kernel: a version that was fetched (`6.1`, `6.12`; `fsage kernel`), `debian` for the newest of these, or the path
    /// of a built tree with `vmlinux` and its modules.
    #[serde(default = "debian")]
    pub kernel: String,
    /// Its memory, virtual disks and loop files included.
    #[serde(default = "gibibyte")]
    pub memory: Bytes,
    /// Its processors.
    #[serde(default = "one")]
    pub cpus: u32,
    /// How its clock goes.
    #[serde(default, skip_serializing_if = "GuestTime::is_host")]
    pub time: GuestTime,
}

/// How the clock of a guest goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
pub enum GuestTime {
    /// As this host's.
    #[default]
    Host,
    /// By the instructions that the guest runs, 2 ns each, whatever else this host does: durations are the same each time.
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
        let TargetSpec::Ssh(other) = other else { unreachable!() };
        assert_eq!(other.name(), "root@board:22");
    }

    #[test]
    fn local_trials_keep_the_basis_that_their_ids_were_made_of() {
        assert_eq!(TargetSpec::Local.basis(), serde_json::to_value(TargetSpec::Local).unwrap());
    }
}
