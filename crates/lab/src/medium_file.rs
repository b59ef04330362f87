//! Media as files: TOML with the keys of a medium, such as `fsage device fit` writes. Where a medium is named, the path of such a
//! file stands in the place of a preset's name; it is known by its ending, `.toml`.
//!
//! The file is what a study's table says, `preset` and changed parameters, one key a line. It is read when the study or the flag
//! is, and its content takes its place: what runs later, and what a store keeps, is the content.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fsage_model::medium::{MediumError, MediumSpec};
use fsage_model::problem::{EXIT_USAGE, Explain};
use fsage_sys::input::{self, TEXT_LIMIT, Unfit};
use serde_json::{Map, Value};

/// What the name of a medium file ends with.
pub const ENDING: &str = ".toml";

/// Why a medium file is no medium.
#[derive(Debug, thiserror::Error)]
pub enum MediumFileError {
    /// The file is not there or cannot be read.
    #[error("cannot read the medium `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML.
    #[error("{}:{line}: {message}", path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// 1-based.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// No medium.
    #[error("the medium `{}` is invalid", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: MediumError,
    },
    /// A flag that names no file, and no medium either.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

impl Explain for MediumFileError {
    fn exit_code(&self) -> u8 {
        EXIT_USAGE
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Some("write one with `fsage device fit DEVICE -o FILE`; `fsage disk media` lists the media that need none".to_owned())
            }
            Self::Read { source, .. } => Unfit::hint(source).map(str::to_owned),
            Self::Form { .. } => Some("docs/media.md describes the format".to_owned()),
            Self::Content { source, .. } | Self::Medium(source) => source.hint(),
        }
    }
}

/// Whether a medium's name is that of a file.
#[must_use]
pub fn is_file(name: &str) -> bool {
    name.ends_with(ENDING)
}

/// The medium that a flag names: a preset or a file, and parameters, as in `medium.toml,rpm=5400`.
///
/// # Errors
/// The file cannot be read or is no medium; there is no such medium or parameter.
pub fn from_flag(flag: &str) -> Result<MediumSpec, MediumFileError> {
    let (name, more) = flag.split_once(',').unwrap_or((flag, ""));
    if !is_file(name.trim()) || flag.starts_with(['{', '"']) {
        return Ok(flag.parse()?);
    }
    let path = Path::new(name.trim());
    let spec = read(path)?;
    if more.is_empty() {
        return Ok(spec);
    }
    Ok(format!("{spec},{more}").parse()?)
}

/// Reads a medium from its file.
///
/// # Errors
/// It cannot be read or is no medium.
pub fn read(path: &Path) -> Result<MediumSpec, MediumFileError> {
    let text = input::read_text(path, TEXT_LIMIT);
    parse(path, &text.map_err(|source| MediumFileError::Read { path: path.to_owned(), source })?)
}

/// A medium from its text; `path` is only named in errors.
///
/// # Errors
/// It is no medium. Nothing of the text is quoted but the names of its keys: a study may point at any file.
pub fn parse(path: &Path, text: &str) -> Result<MediumSpec, MediumFileError> {
    let values = table(path, text)?;
    let of = |source| MediumFileError::Content { path: path.to_owned(), source };
    if !values.contains_key("preset") {
        return Err(of(MediumError::NoPreset));
    }
    Value::Object(values).to_string().parse().map_err(of)
}

/// The keys of a medium file, without their meaning.
fn table(path: &Path, text: &str) -> Result<Map<String, Value>, MediumFileError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        MediumFileError::Form {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            message: error.message().trim().replace('\n', ", "),
        }
    })
}

/// A line of a medium file: a key, its value, and what is to say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: &'static str,
    /// A number, or the name of a choice.
    pub value: String,
    /// Comment, one line.
    pub comment: String,
}

/// A medium file: what is to say of it, the preset, and its lines.
#[must_use]
pub fn to_toml(head: &[String], preset: &str, entries: &[Entry]) -> String {
    let one_line = |text: &str| text.replace(|c: char| c.is_control(), " ");
    let mut text = String::new();
    for line in head {
        let _ = writeln!(text, "# {}", one_line(line));
    }
    let _ = writeln!(text, "\npreset = {}", toml::Value::from(preset));
    for Entry { key, value, comment } in entries {
        let value = value
            .parse::<u64>()
            .map_or_else(|_| toml::Value::from(value.as_str()).to_string(), |n| n.to_string());
        let _ = writeln!(text, "\n# {}\n{key} = {value}", one_line(comment));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let entry = |key, value: &str| Entry {
            key,
            value: value.to_owned(),
            comment: "measured, 1 to 2\nrpm = 1".to_owned(),
        };
        vec![entry("rpm", "7100"), entry("arrival", "reads")]
    }

    #[test]
    fn what_is_written_is_read_again_and_stands_where_a_preset_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        let text = to_toml(&["a drive\nof mine".to_owned()], "hdd-7200", &entries());
        std::fs::write(&path, &text).unwrap();
        let wanted: MediumSpec = "hdd-7200,rpm=7100,arrival=reads".parse().unwrap();
        assert_eq!(read(&path).unwrap(), wanted, "{text}");
        let flag = path.display().to_string();
        assert_eq!(from_flag(&flag).unwrap(), wanted);
        let more = from_flag(&format!("{flag},rpm=5400,at=inner")).unwrap();
        assert_eq!(more, "hdd-7200,rpm=5400,arrival=reads,at=inner".parse().unwrap());
        assert_eq!(from_flag("ssd").unwrap(), "ssd".parse().unwrap());
        assert_eq!(from_flag("{\"preset\":\"ssd\"}").unwrap(), "ssd".parse().unwrap());
    }

    #[test]
    fn what_is_no_medium_is_refused_with_its_place() {
        for (text, said) in [
            ("preset = \"hdd-7200\"\nrpm = \n", "mine.toml:2: "),
            ("preset = \"hdd-720\"", "did you mean `hdd-7200`?"),
            ("preset = \"hdd-7200\"\nrmp = 1", "did you mean `rpm`?"),
            ("preset = \"hdd-7200\"\nrpm = 1", "rpm = 1 is not between"),
            ("preset = \"hdd-7200\"\n[rpm]\na = 1", "parameter `rpm`"),
            ("rpm = 7200", "`preset` is missing"),
            ("", "`preset` is missing"),
        ] {
            let error = parse(Path::new("mine.toml"), text).unwrap_err();
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let all = format!("{error} {source} {}", error.hint().unwrap_or_default());
            assert!(all.contains(said), "{text}: {all}");
            assert_eq!(error.exit_code(), EXIT_USAGE);
        }
        let missing = from_flag("/no/such.toml,rpm=5").unwrap_err();
        assert!(missing.to_string().contains("/no/such.toml"), "{missing}");
        assert!(missing.hint().is_some_and(|hint| hint.contains("fsage device fit")));
    }
}
