//! A folder that all may write to, with root's own file elsewhere, for tests that attack what root writes.

#![allow(dead_code, reason = "every test uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use crate::image_rig::Rig;

/// Nobody in particular.
pub const USER: u32 = 65534;

pub const SECRET: &[u8] = b"root's own";

/// A folder that all may write to, with the sticky bit as `/tmp` has it, and a file of root's elsewhere.
pub struct Shared {
    pub rig: Rig,
}

impl Shared {
    pub fn new() -> Self {
        let rig = Rig::new();
        std::fs::write(rig.path("victim"), SECRET).unwrap();
        std::fs::set_permissions(rig.path("victim"), PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::create_dir(rig.path("shared")).unwrap();
        std::fs::set_permissions(rig.path("shared"), PermissionsExt::from_mode(0o1777)).unwrap();
        Self { rig }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.rig.path("shared").join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Another user's link to the victim.
    pub fn plant(&self, name: &str) {
        plant(&self.rig.path("victim"), &self.path(name));
    }

    pub fn assert_unharmed(&self, what: &str) {
        let victim = self.rig.path("victim");
        assert_eq!(std::fs::read(&victim).unwrap(), SECRET, "{what}: root's file was written to");
        let found = victim.metadata().unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600), "{what}");
    }
}

pub fn plant(target: &Path, link: &Path) {
    symlink(target, link).unwrap();
    lchown(link, Some(USER), Some(USER)).unwrap();
}

pub fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

/// A trace of a few operations.
pub fn trace(rig: &Rig) -> String {
    let (csv, trace) = (rig.text("recorded.csv"), rig.text("recorded.parquet"));
    std::fs::write(
        &csv,
        "time_s,operation,path,offset,length,target\n0,create,/a/b,,,\n1,append,/a/b,0,4096,\n",
    )
    .unwrap();
    let run = rig.fsage(&["trace", "import", "--from", "csv", &csv, "-o", &trace]);
    assert_eq!(run.code, 0, "{run:?}");
    trace
}
