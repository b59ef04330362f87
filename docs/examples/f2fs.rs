//! f2fs, made by mkfs.f2fs.

use std::time::Duration;

use fsage_model::filesystem::{FileSystemFacts, IdentifierForm, Ink, Magic};

use super::Driver;
use super::parameter::{Flag, Parameter, ParameterError, ParameterType, Preset, Values};
use crate::tools::{Invocation, Program};

/// f2fs.
#[derive(Debug)]
pub struct F2fs;

/// Its facts. In the model: `crates/model/src/filesystem/f2fs.rs`.
static FACTS: FileSystemFacts = FileSystemFacts {
    title: "a log in segments, for flash",
    statfs_type: Some(0xF2F5_2010),
    counts_at_once: true,
    magics: &[Magic::new(1024, &[0x10, 0x20, 0xf5, 0xf2], 1024 + 108, IdentifierForm::Uuid)],
    ink: Some(Ink::new("#9a6a00", "#f0b83a", "cross", "dashdot")),
    ..FileSystemFacts::unknown("f2fs")
};

static MKFS: Program = Program::new("mkfs.f2fs", Duration::from_secs(3600));
static FSCK: Program = Program::new("fsck.f2fs", Duration::from_secs(4 * 3600));

static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "segments",
        kind: ParameterType::Count { min: 1, max: 4096 },
        preset: Preset::Own("1"),
        flag: Flag::Argument("-s"),
        doc: "Segments (of 2 MiB) in a section.",
        only: &[],
    },
    Parameter {
        name: "label",
        kind: ParameterType::Text { max: 512 },
        preset: Preset::Text(fsage_model::study::LABEL),
        flag: Flag::Argument("-l"),
        doc: "Label. The default is how a later run recognises a device as its own to overwrite.",
        only: &[],
    },
];

impl Driver for F2fs {
    fn facts(&self) -> &'static FileSystemFacts {
        &FACTS
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn mkfs(&self) -> &'static Program {
        &MKFS
    }

    fn fsck(&self) -> &'static Program {
        &FSCK
    }

    fn fixed_arguments(&self) -> &'static [&'static str] {
        &["-q", "-f"]
    }

    fn mount_options(&self) -> &'static [&'static str] {
        &["background_gc", "discard", "nodiscard"]
    }

    fn validate(&self, _: &Values) -> Result<(), ParameterError> {
        Ok(())
    }

    fn block_bytes(&self, _: &Values) -> u64 {
        4096
    }

    fn minimum_bytes(&self, _: &Values) -> u64 {
        64 << 20
    }

    fn check(&self, device: &str) -> Invocation {
        FSCK.invoke(vec!["--dry-run".to_owned(), device.to_owned()])
    }
}
