//! Named media (presets), each modelled after a device with published figures. They are declared with their
//! kind.

use std::sync::LazyLock;

use super::kind::{self, Parameters};

/// A medium with a name.
#[derive(Debug)]
pub struct Preset {
    /// Name in studies and flags.
    pub name: &'static str,
    /// Description, one line.
    pub summary: &'static str,
    /// Source of its figures.
    pub source: &'static str,
    pub(super) parameters: Parameters,
}

impl Preset {
    /// Whether it is rotational, as the kernel reports it to file systems.
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
