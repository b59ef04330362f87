//! The media that have a name, each after a device that somebody published figures of. They stand with their
//! kind.

use std::sync::LazyLock;

use super::kind::{self, Parameters};

/// A medium with a name.
#[derive(Debug)]
pub struct Preset {
    /// What a study or a flag calls it.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Where its figures come from.
    pub source: &'static str,
    pub(super) parameters: Parameters,
}

impl Preset {
    /// Whether it turns: what the kernel sees of the device, and file systems ask for.
    #[must_use]
    pub const fn is_rotational(&self) -> bool {
        self.parameters.turns()
    }
}

/// Presets are distinguished by their names.
impl PartialEq for Preset {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Preset {}

/// Every preset, in the order they are listed.
#[must_use]
pub fn presets() -> &'static [&'static Preset] {
    static ALL: LazyLock<Vec<&Preset>> = LazyLock::new(kind::presets);
    &ALL
}
