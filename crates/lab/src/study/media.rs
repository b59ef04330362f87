//! The medium files that a study names, read with the study: their content takes the place of the path.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fsage_model::cause::in_one_line;
use fsage_model::problem::Explain as _;
use fsage_sys::input::TEXT_LIMIT;
use serde_json::{Map, Value};

use super::document::Segments;
use super::outside::{Reach, out_of_reach};
use super::schema::Problem;
use crate::medium_file::{self, MediumFileError};

/// Keys of a study below which media are named.
const ROOTS: [&str; 4] = ["drive", "volume", "stage", "price"];

/// Puts the content of each medium file in the place of its path, which is relative to `base`; the files that were read are added
/// to `read`. What cannot be read, or not from here, is a problem.
pub(super) fn embed(
    base: &Path,
    study: &mut Value,
    reach: &Reach,
    read: &mut BTreeSet<PathBuf>,
) -> Vec<Problem> {
    let mut walk = Walk { base, reach, read, problems: Vec::new(), path: Vec::new() };
    for root in ROOTS {
        if let Some(value) = study.get_mut(root) {
            walk.path.push(root.to_owned());
            let is_medium = root == "price";
            walk.value(value, is_medium);
            walk.path.pop();
        }
    }
    walk.problems
}

struct Walk<'a> {
    base: &'a Path,
    reach: &'a Reach,
    read: &'a mut BTreeSet<PathBuf>,
    problems: Vec<Problem>,
    path: Segments,
}

impl Walk<'_> {
    /// Walks through a value, which is a medium or a list of media if it `is_medium`.
    fn value(&mut self, value: &mut Value, is_medium: bool) {
        match value {
            Value::String(name) if is_medium && medium_file::is_file(name) => {
                if let Some(table) = self.table(&name.clone(), Map::new()) {
                    *value = Value::Object(table);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.below(&index.to_string(), item, is_medium);
                }
            }
            Value::Object(table) if is_medium => {
                let named = table.get("preset").and_then(Value::as_str);
                if let Some(name) = named.filter(|name| medium_file::is_file(name)).map(str::to_owned) {
                    let mut own = table.clone();
                    own.remove("preset");
                    if let Some(found) = self.table(&name, own) {
                        *table = found;
                    }
                }
            }
            Value::Object(table) => {
                for (key, item) in table.iter_mut() {
                    self.below(key, item, key == "medium");
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, key: &str, value: &mut Value, is_medium: bool) {
        self.path.push(key.to_owned());
        self.value(value, is_medium);
        self.path.pop();
    }

    /// The keys of a file, with the study's `own` in the place of some.
    fn table(&mut self, name: &str, own: Map<String, Value>) -> Option<Map<String, Value>> {
        // As the command line would name it, which may allow it.
        let file = self.base.join(name);
        if !self.reach.allows(&file) {
            self.problems.push(out_of_reach(&self.path, &file));
            return None;
        }
        let text = self.reach.read_text(&file, TEXT_LIMIT);
        let text = text.map_err(|source| MediumFileError::Read { path: file.clone(), source });
        match text.and_then(|text| medium_file::parse(&file, &text)) {
            Ok(spec) => {
                self.read.insert(file);
                let mut table = match serde_json::to_value(&spec) {
                    Ok(Value::Object(table)) => table,
                    Ok(preset) => Map::from_iter([("preset".to_owned(), preset)]),
                    Err(_) => return None,
                };
                table.extend(own);
                Some(table)
            }
            Err(error) => {
                let hint = error.hint();
                self.problems.push(Problem { hint, ..Problem::new(&self.path, in_one_line(&error)) });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::medium::MediumSpec;
    use fsage_model::study::VolumeSpec;

    use crate::study::{Consent, Overrides, Study, StudyError, load};

    /// A study on a volume, with its file in a folder of its own.
    fn study(
        volume: &str,
        more: &str,
        set: &[&str],
        files: &[(&str, &str)],
    ) -> Result<(tempfile::TempDir, Study), StudyError> {
        let folder = tempfile::tempdir().unwrap();
        let shipped = include_str!("../../../../studies/digest.toml");
        let (before, after) = shipped.split_once("[volume]\nkind = \"loop\"\nsize = \"1GiB\"\n").unwrap();
        let text =
            format!("{before}{after}").replace("seed = 4096\n", &format!("seed = 4096\nvolume = {volume}\n"));
        let text = text.replace("[matrix]\n", &format!("[matrix]\n{more}\n"));
        let path = folder.path().join("study.toml");
        std::fs::write(&path, text).unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let set = set.iter().map(|set| (*set).to_owned()).collect();
        let study = load(&path, &Overrides { preset: None, set }, Consent::Below(None))?;
        Ok((folder, study))
    }

    fn medium(study: &Study) -> MediumSpec {
        match &study.cells[0].spec.volume {
            VolumeSpec::Disk(disk) => disk.medium.clone(),
            other => panic!("{other:?}"),
        }
    }

    const MINE: &str = "# mine\npreset = \"hdd-7200\"\nrpm = 7100\n";

    #[test]
    fn a_file_stands_where_a_preset_does() {
        let files = [("mine.toml", MINE)];
        for (volume, wanted) in [
            (r#"{ medium = "mine.toml", size = "1GiB" }"#, "hdd-7200,rpm=7100"),
            (
                r#"{ medium = { preset = "mine.toml", surfaces = 2 }, size = "1GiB" }"#,
                "hdd-7200,rpm=7100,surfaces=2",
            ),
        ] {
            let (folder, study) = study(volume, "", &[], &files).unwrap();
            assert_eq!(medium(&study), wanted.parse().unwrap(), "{volume}");
            assert!(study.sources.contains(&folder.path().join("mine.toml")), "{:?}", study.sources);
        }
    }

    #[test]
    fn a_factor_names_a_file_and_keeps_its_name() {
        let factor = "\"volume.medium\" = [\"mine.toml\", \"ssd\"]";
        let volume = r#"{ medium = "ssd", size = "1GiB" }"#;
        let (_folder, study) = study(volume, factor, &[], &[("mine.toml", MINE)]).unwrap();
        let of = |medium: &str| {
            let cells = study.cells.iter().filter(|cell| cell.factors["volume.medium"] == medium);
            cells.count()
        };
        assert!(of("mine.toml") > 0 && of("mine.toml") == of("ssd"));
        assert_eq!(medium(&study), "hdd-7200,rpm=7100".parse().unwrap());
    }

    #[test]
    fn what_is_no_medium_or_elsewhere_is_refused() {
        let elsewhere = tempfile::tempdir().unwrap();
        let file = elsewhere.path().join("mine.toml");
        std::fs::write(&file, MINE).unwrap();
        let outside = format!(r#"{{ medium = "{}", size = "1GiB" }}"#, file.display());
        let inside = r#"{ medium = "mine.toml", size = "1GiB" }"#;
        for (volume, text, said) in [
            (&*outside, MINE, "neither below the study's own folder"),
            (inside, "preset = \"hdd-720\"", "there is no medium `hdd-720`"),
            (inside, "preset = ", "mine.toml:1"),
            (r#"{ medium = "other.toml", size = "1GiB" }"#, MINE, "cannot read the medium"),
            (r#"{ medium = { preset = "mine.toml", rmp = 1 }, size = "1GiB" }"#, MINE, "no parameter `rmp`"),
        ] {
            let error = study(volume, "", &[], &[("mine.toml", text)]).unwrap_err();
            let StudyError::Invalid { faults } = &error else { panic!("{error:?}") };
            assert!(faults.iter().any(|fault| fault.message.contains(said)), "{volume}: {faults:?}");
        }
        // The user's own word.
        let set = format!("volume.medium=\"{}\"", file.display());
        let (_folder, study) = study(r#"{ medium = "ssd", size = "1GiB" }"#, "", &[&set], &[]).unwrap();
        assert_eq!(medium(&study), "hdd-7200,rpm=7100".parse().unwrap());
    }
}
