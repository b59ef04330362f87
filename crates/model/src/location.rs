//! Where a directory is.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a directory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Location {
    /// Its path.
    pub path: PathBuf,
    /// The mount point that it must be on and below; absent where the directory is the user's own choice,
    /// links in its path included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<PathBuf>,
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self { path, mount: None }
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

impl Location {
    /// The directory `name` on the volume mounted at `mount`.
    #[must_use]
    pub fn on(mount: &Path, name: &str) -> Self {
        Self { path: mount.join(name), mount: Some(mount.to_owned()) }
    }
}
