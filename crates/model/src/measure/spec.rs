//! Measures as a study or a command line describes them: plain data that touches nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::size::Bytes;
use crate::workload::SizeSpec;

macro_rules! measures {
    ($($(#[doc = $about:literal])+ $name:literal $Name:ident($Spec:ident) $purpose:literal, $effect:ident, $works_on:ident;)+) => {
        /// A measure, distinguished by `kind`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", deny_unknown_fields)]
        pub enum MeasureSpec {
            $($(#[doc = $about])+ #[serde(rename = $name)] $Name($Spec),)+
        }

        /// Every measure, in the order in which they disturb each other least.
        #[must_use]
        pub fn registry() -> Vec<MeasureInfo> {
            vec![$(MeasureInfo {
                name: $name,
                purpose: $purpose,
                effect: Effect::$effect,
                works_on: WorksOn::$works_on,
                default: MeasureSpec::$Name($Spec::default()),
            }),+]
        }

        impl MeasureSpec {
            /// Its name, as TOML and the command line have it.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$Name(_) => $name,)+
                }
            }

            /// What it leaves behind.
            #[must_use]
            pub const fn effect(&self) -> Effect {
                match self {
                    $(Self::$Name(_) => Effect::$effect,)+
                }
            }

            /// What it needs.
            #[must_use]
            pub const fn works_on(&self) -> WorksOn {
                match self {
                    $(Self::$Name(_) => WorksOn::$works_on,)+
                }
            }
        }

        /// Does the same with a measure of any kind.
        #[macro_export]
        macro_rules! with_measure {
            ($measure:expr, $it:ident => $call:expr) => {
                match $measure {
                    $($crate::measure::MeasureSpec::$Name($it) => $call,)+
                }
            };
        }
    };
}

// Every measure, one line each: its name in studies and on the command line, its parameters, what it measures in
// a few words, what it leaves behind, what it needs. From harmless to harmful.
measures! {
    /// Read every byte of every file in readdir order, with cold caches.
    "grep" Grep(GrepSpec) "read every old file, cold, in readdir order", Nothing, OldFiles;
    /// Read random blocks of existing files, with cold caches.
    "cold-random-read" ColdRandomRead(ColdRandomReadSpec) "read random 4 KiB of old files, cold", Nothing, OldFiles;
    /// Inspect every name and inode, with cold caches, without reading data (as `find` and `du` do).
    "walk" Walk(WalkSpec) "inspect every name and inode, cold (find, du)", Nothing, OldFiles;
    /// Write one large file into the free space, fsync it, then read it back with cold caches.
    "large-file" LargeFile(LargeFileSpec) "write a large file into free space, read it back cold", FreeSpace, Space;
    /// Create new files in the free space, synced at the end.
    "create" Create(CreateSpec) "create new files in free space, synced", FreeSpace, Space;
    /// Run a fio job.
    "fio" Fio(FioSpec) "run a job of fio", FreeSpace, Space;
    /// Append to existing files, synced.
    "append" Append(AppendSpec) "append to old files, synced", Tree, OldFiles;
    /// Remove whole directories (`rm -r`), synced.
    "delete" Delete(DeleteSpec) "remove old directories (rm -r), synced", Tree, OldFiles;
}

/// Parameters of `grep`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrepSpec {
    /// Bytes per read (4 KiB to 16 MiB).
    pub read_size: Bytes,
}

/// Parameters of `cold-random-read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ColdRandomReadSpec {
    /// Number of reads (1 to 100,000,000); files are chosen in proportion to their size, so that every block
    /// is equally likely.
    pub reads: u64,
    /// Allow read-ahead by the kernel.
    pub readahead: bool,
}

/// Parameters of `walk`: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WalkSpec {}

/// Parameters of `create`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CreateSpec {
    /// Number of files to create.
    pub files: Option<u64>,
    /// Without `files`: total bytes to write (at least 1); the last file is truncated to fit. Absent: a study
    /// derives it from the state with the least free space, so that every trial does the same work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Without `files` and `bytes`: share of the free space to fill (above 0, at most 0.9).
    pub free_share: f64,
    /// Without `files` and `bytes`: maximum number of bytes to write.
    pub max_bytes: Bytes,
    /// Size of a file.
    pub file_size: SizeSpec,
}

/// Parameters of `large-file`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LargeFileSpec {
    /// Size of the file; absent: a study derives it from the state with the least free space, so that every
    /// trial does the same work.
    pub size: Option<Bytes>,
    /// Without `size`: share of the free space (above 0, at most 0.9).
    pub free_share: f64,
    /// Without `size`: maximum number of bytes to write.
    pub max_bytes: Bytes,
}

/// Parameters of `append`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AppendSpec {
    /// Number of files to append to (at least 1); absent: a study derives it from the state with the least
    /// free space, so that every trial does the same work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Without `files`: share of the existing files to append to (above 0, at most 1).
    pub file_share: f64,
    /// Without `files`: maximum number of files to append to.
    pub max_files: u64,
    /// Bytes to append per file (1 byte to 1 GiB).
    pub size: Bytes,
    /// Sync each file after its append (`fsync`), instead of the whole file system once at the end.
    pub fsync: bool,
}

/// Parameters of `delete`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeleteSpec {
    /// Approximate share of the existing files to remove (above 0, at most 1); only whole directories are
    /// removed.
    pub file_share: f64,
}

/// Parameters of `fio`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FioSpec {
    /// Path of a job file (in a study, relative to its folder), or name of a preset (`many-small-files`).
    pub job: String,
    /// Text of the job; absent: that of `job`. A study's job files are read together with the study.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Run time of a time-based job in seconds; 0: as in the job file.
    pub seconds: u64,
    /// Space for the job, to which `{size}` refers; absent: a study derives it from the state with the least
    /// free space, so that every trial runs the same job; else half of the free space, at most 1 GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<Bytes>,
}

impl Default for GrepSpec {
    fn default() -> Self {
        Self { read_size: Bytes(1 << 20) }
    }
}

impl Default for ColdRandomReadSpec {
    fn default() -> Self {
        Self { reads: 2000, readahead: false }
    }
}

impl Default for CreateSpec {
    /// File sizes of FSFB (Conway et al. 2019, §3): 1 to 150 KiB, uniform.
    fn default() -> Self {
        Self {
            files: None,
            bytes: None,
            free_share: 0.1,
            max_bytes: Bytes(1 << 30),
            file_size: SizeSpec::Uniform { min: Bytes(1 << 10), max: Bytes(150 << 10) },
        }
    }
}

impl Default for LargeFileSpec {
    fn default() -> Self {
        Self { size: None, free_share: 0.1, max_bytes: Bytes(4 << 30) }
    }
}

impl Default for AppendSpec {
    fn default() -> Self {
        Self { files: None, file_share: 0.1, max_files: 1000, size: Bytes(16 << 10), fsync: false }
    }
}

impl Default for DeleteSpec {
    fn default() -> Self {
        Self { file_share: 0.1 }
    }
}

impl Default for FioSpec {
    fn default() -> Self {
        Self { job: "many-small-files".to_owned(), text: None, seconds: 0, space: None }
    }
}

/// What a measure leaves behind. Measures run in this order between two restores of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The volume as it was (access times aside: mount with `noatime`).
    Nothing,
    /// The same tree, but space was taken and released: the next allocations may go elsewhere.
    FreeSpace,
    /// Another tree.
    Tree,
}

/// What a measure needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorksOn {
    /// Files that are there.
    OldFiles,
    /// Room for new ones.
    Space,
}

/// One line of the registry.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasureInfo {
    /// The `kind` in TOML and the name on the command line.
    pub name: &'static str,
    /// What it measures, in a few words.
    pub purpose: &'static str,
    /// What it leaves behind.
    pub effect: Effect,
    /// What it needs.
    pub works_on: WorksOn,
    /// With every parameter at its default.
    pub default: MeasureSpec,
}

impl MeasureSpec {
    /// The measure of this name with every parameter at its default.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        registry().into_iter().find(|info| info.name == name).map(|info| info.default)
    }

    /// Whether the tree below the directory is another one afterwards.
    #[must_use]
    pub fn changes_tree(&self) -> bool {
        self.effect() == Effect::Tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_whole_and_goes_from_harmless_to_harmful() {
        let lines = registry();
        assert!(lines.is_sorted_by_key(|line| line.effect));
        for line in &lines {
            assert_eq!(line.default, MeasureSpec::by_name(line.name).expect(line.name));
            let text = format!(r#"{{"kind":"{}"}}"#, line.name);
            assert_eq!(serde_json::from_str::<MeasureSpec>(&text).expect(&text), line.default);
            let wrong = format!(r#"{{"kind":"{}","nonsense":1}}"#, line.name);
            assert!(serde_json::from_str::<MeasureSpec>(&wrong).is_err(), "{wrong}");
        }
        let schema = serde_json::to_value(schemars::schema_for!(MeasureSpec)).expect("a schema");
        assert_eq!(schema["oneOf"].as_array().map(Vec::len), Some(lines.len()));
        assert_eq!(MeasureSpec::by_name("nothing"), None);
    }
}
