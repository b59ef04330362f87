//! The structure of the workspace, read from its own source: which module of a crate uses which, which crate
//! uses which, how long functions are and where `unsafe` stands.
//!
//! A module here is a top-level one (`src/NAME.rs` or `src/NAME/`): what lies within it may refer to its
//! parents and siblings as it likes. Code below `#[cfg(test)]` does not count. Inside macros only paths that
//! begin with `crate::` are seen.

mod draw;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use draw::picture;
pub use read::read;

/// Why the source could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StructureError {
    /// A file or folder cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not Rust, or not TOML.
    #[error("cannot parse {}: {reason}", .path.display())]
    Parse {
        /// Which.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
}

/// A function that is too long, or a place with `unsafe`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLocation {
    /// File below the workspace.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// The function's name, or what is unsafe.
    pub what: String,
    /// Lines from the first to the last, both included.
    pub lines: usize,
}

/// One crate.
#[derive(Debug, Clone, Default)]
pub struct Crate {
    /// Top-level modules and the top-level modules of the same crate that each uses.
    pub uses: BTreeMap<String, BTreeSet<String>>,
    /// Lines of source by module, tests not counted.
    pub lines: BTreeMap<String, usize>,
    /// Crates of the workspace among its dependencies, without `fsage-`.
    pub dependencies: BTreeSet<String>,
    /// Every function, in no order.
    pub functions: Vec<CodeLocation>,
    /// Every `unsafe` block, function, trait and implementation.
    pub unsafes: Vec<CodeLocation>,
}

#[cfg(test)]
impl Crate {
    /// Sets of modules that use each other in a circle, each sorted; the same for every run.
    #[must_use]
    pub fn cycles(&self) -> Vec<BTreeSet<String>> {
        let mut found: Vec<BTreeSet<String>> = Vec::new();
        for module in self.uses.keys() {
            let reached = self.reach(module);
            if !reached.contains(module) || found.iter().any(|cycle| cycle.contains(module)) {
                continue;
            }
            let back = |other: &&String| *other == module || self.reach(other).contains(module);
            found.push(reached.iter().filter(back).cloned().collect());
        }
        found
    }

    /// What `module` uses, directly or through others; itself only if it lies in a circle.
    fn reach(&self, module: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&String> = self.uses.get(module).into_iter().flatten().collect();
        while let Some(module) = next.pop() {
            if reached.insert(module.clone()) {
                next.extend(self.uses.get(module).into_iter().flatten());
            }
        }
        reached
    }
}

/// The crates below `workspace/crates`, by folder name.
pub type Workspace = BTreeMap<String, Crate>;

/// The workspace that this program was built from.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which crates each may use. What stands here is the house's order from the bottom up; benchmarks may
    /// use all.
    const LAYERS: [(&str, &[&str]); 8] = [
        ("sys", &[]),
        ("content", &["sys"]),
        ("model", &["content", "sys"]),
        ("analysis", &["model"]),
        ("disk", &["content", "model", "sys"]),
        ("engine", &["content", "disk", "model", "sys"]),
        ("lab", &["disk", "engine", "model", "sys"]),
        ("cli", &["analysis", "content", "disk", "engine", "lab", "model", "sys"]),
    ];
    /// Functions end here.
    const LONGEST_FUNCTION: usize = 70;

    fn workspace() -> Workspace {
        read(root()).unwrap()
    }

    #[test]
    fn no_crate_uses_one_above_it() {
        let workspace = workspace();
        for (name, allowed) in LAYERS {
            for used in &workspace[name].dependencies {
                assert!(allowed.contains(&used.as_str()), "{name} must not depend on {used}");
            }
        }
        let known: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).chain(["bench"]).collect();
        assert!(workspace.keys().all(|name| known.contains(name.as_str())), "{:?}", workspace.keys());
    }

    #[test]
    fn no_modules_use_each_other_in_a_circle() {
        for (name, krate) in &workspace() {
            assert!(krate.cycles().is_empty(), "modules of `{name}` in circles: {:?}", krate.cycles());
        }
    }

    #[test]
    fn unsafe_stands_in_one_crate() {
        for (name, krate) in workspace().iter().filter(|(name, _)| *name != "sys") {
            assert_eq!(krate.unsafes, [], "`unsafe` in {name}");
        }
        assert!(!workspace()["sys"].unsafes.is_empty(), "the search for `unsafe` finds it");
    }

    #[test]
    fn functions_are_short() {
        for krate in workspace().values() {
            let long: Vec<&CodeLocation> =
                krate.functions.iter().filter(|function| function.lines > LONGEST_FUNCTION).collect();
            assert!(long.is_empty(), "{long:#?}");
        }
    }

    #[test]
    fn circles_are_found() {
        let uses = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "e2"), ("e2", "e"), ("f", "a")];
        let mut krate = Crate::default();
        for (from, to) in uses {
            krate.uses.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        let cycle =
            |modules: &[&str]| modules.iter().map(|&module| module.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(krate.cycles(), [cycle(&["a", "b", "c"]), cycle(&["e", "e2"])]);
    }
}
