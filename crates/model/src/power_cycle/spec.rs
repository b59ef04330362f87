//! The file of `fsage power-cycle`: how a board is cut, checked and loaded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names that every configuration has for its commands, beside its own.
pub const PLACES: [&str; 3] = ["configuration", "life", "cycle"];

/// A board or guest whose power is cut again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerCycleSpec {
    /// Folder of its record in the store: lower-case letters, digits and dashes.
    pub name: String,
    /// Random seed of the cut times.
    #[serde(default = "one")]
    pub seed: u64,
    /// Seconds that the load runs before the cut: uniformly distributed between these two values.
    pub cut_after_s: [f64; 2],
    /// Seconds without power: long enough for capacitors to discharge.
    #[serde(default = "off_for")]
    pub off_for_s: f64,
    /// What happens after damage.
    #[serde(default)]
    pub after_damage: AfterDamage,
    /// Number of cycles per configuration.
    #[serde(default = "cycles")]
    pub cycles: u64,
    /// Maximum number of cycles per file system, which is then made again, and the next configuration has its
    /// turn. Absent: no limit, so that a configuration continues until it is damaged or has all its cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_per_life: Option<u64>,
    /// Exit statuses of `check` that mean that it repaired something.
    #[serde(default = "repaired")]
    pub check_repaired: Vec<i32>,
    /// Exit statuses that say nothing about the file system.
    #[serde(default)]
    pub undecided: UndecidedSpec,
    /// Command lines, run on this host without a shell, in the folder of the file.
    pub command: CommandSpec,
    /// Time limits.
    #[serde(default)]
    pub timeout: TimeoutSpec,
    /// Configurations: name (lower-case letters, digits and dashes) → values for `{NAME}` in the commands.
    pub configuration: BTreeMap<String, BTreeMap<String, String>>,
}

/// The command lines: a program and its arguments, in which `{NAME}` is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// Switches the power off, also if it is off already.
    pub power_off: Vec<String>,
    /// Switches the power on, also if it is on already. What it starts in the background continues.
    pub power_on: Vec<String>,
    /// Prints, on its first line, a value that differs after each boot; retried until it exits with 0.
    pub boot_id: Vec<String>,
    /// Makes a new file system. Absent: the existing file system has only one life.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// Checks and repairs the file system, which is not mounted.
    pub check: Vec<String>,
    /// Mounts it.
    pub mount: Vec<String>,
    /// Compares its data with the acknowledged lines on standard input.
    pub verify: Vec<String>,
    /// Unmounts it.
    pub unmount: Vec<String>,
    /// Writes, prints `ack TEXT` for what has to survive, and runs until the power is cut.
    pub load: Vec<String>,
}

impl CommandSpec {
    /// Each with its key.
    #[must_use]
    pub fn all(&self) -> [(&'static str, &[String]); 9] {
        [
            ("power_off", &self.power_off),
            ("power_on", &self.power_on),
            ("boot_id", &self.boot_id),
            ("prepare", &self.prepare),
            ("check", &self.check),
            ("mount", &self.mount),
            ("verify", &self.verify),
            ("unmount", &self.unmount),
            ("load", &self.load),
        ]
    }
}

/// Time limits in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimeoutSpec {
    /// Of `check`, `verify` and `prepare`.
    pub check_s: f64,
    /// From `power_on` to the answer of `boot_id`.
    pub boot_s: f64,
    /// Of every other command but the load.
    pub command_s: f64,
}

impl Default for TimeoutSpec {
    fn default() -> Self {
        Self { check_s: 3600.0, boot_s: 300.0, command_s: 60.0 }
    }
}

/// Exit statuses that say nothing about the file system, such as those of ssh without a connection (255) or
/// of a shell without the program (126, 127). They leave the cycle undecided.
///
/// Each command has its own: 32 of e2fsck(8) says that it was cancelled, of mount(8) that nothing can be mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UndecidedSpec {
    /// Of `check`.
    pub check: Vec<i32>,
    /// Of `mount`.
    pub mount: Vec<i32>,
    /// Of `verify`.
    pub verify: Vec<i32>,
    /// Of `unmount`.
    pub unmount: Vec<i32>,
}

impl UndecidedSpec {
    /// Each with the key of its command.
    #[must_use]
    pub fn all(&self) -> [(&'static str, &[i32]); 4] {
        [("check", &self.check), ("mount", &self.mount), ("verify", &self.verify), ("unmount", &self.unmount)]
    }

    /// Whether this exit status of the command with this key says nothing.
    #[must_use]
    pub fn says_nothing(&self, key: &str, status: i32) -> bool {
        self.all().iter().any(|(own, statuses)| *own == key && statuses.contains(&status))
    }
}

impl Default for UndecidedSpec {
    fn default() -> Self {
        let [check, mount, verify, unmount] = std::array::from_fn(|_| vec![126, 127, 255]);
        Self { check, mount, verify, unmount }
    }
}

/// What happens after damage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AfterDamage {
    /// The configuration ends, and the file system stays as it is.
    #[default]
    Stop,
    /// A new file system is made for the next life.
    Prepare,
}

const fn one() -> u64 {
    1
}

const fn off_for() -> f64 {
    3.0
}

const fn cycles() -> u64 {
    1000
}

fn repaired() -> Vec<i32> {
    vec![1]
}
