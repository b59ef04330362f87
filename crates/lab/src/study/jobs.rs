//! The job files of a study's measures, read once and with the study: what a trial runs hours later is what was
//! checked, and is part of what makes two trials the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsage_model::cause::in_one_line;
use fsage_sys::input::TEXT_LIMIT;
use serde_json::{Value, json};

use super::document::Segments;
use super::outside::{Reach, out_of_reach};
use super::schema::Problem;
use crate::measure::{Job, JobError, preset};

/// Job files that were read.
#[derive(Debug, Default)]
pub(super) struct Jobs(BTreeMap<PathBuf, String>);

impl Jobs {
    /// The paths of those that were read.
    pub(super) fn into_paths(self) -> BTreeSet<PathBuf> {
        self.0.into_keys().collect()
    }

    /// Puts the text of each job file that a stage names beside its name; what cannot be read or run. Relative paths
    /// are below the study's `folder`, or, where nothing is there, below the working directory.
    pub(super) fn embed(&mut self, study: &mut Value, folder: &Path, reach: &Reach) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(stages) = study.get_mut("stage") {
            self.walk(stages, &mut vec!["stage".to_owned()], (folder, reach), &mut problems);
        }
        problems
    }

    fn walk(
        &mut self,
        value: &mut Value,
        path: &mut Segments,
        place: (&Path, &Reach),
        problems: &mut Vec<Problem>,
    ) {
        let mut below = |name: String, item: &mut Value| {
            path.push(name);
            self.walk(item, path, place, problems);
            path.pop();
        };
        match value {
            Value::Array(items) => {
                items.iter_mut().enumerate().for_each(|(index, item)| below(index.to_string(), item));
            }
            Value::Object(table) => {
                table.iter_mut().for_each(|(key, item)| below(key.clone(), item));
                let is_read = table.get("text").is_some_and(Value::is_string);
                if table.get("kind").and_then(Value::as_str) != Some("fio") || is_read {
                    return;
                }
                let Some(name) = table.get("job").and_then(Value::as_str) else { return };
                match self.text(name, place) {
                    Ok(Some(text)) => {
                        table.insert("text".to_owned(), json!(text));
                    }
                    Ok(None) => {}
                    Err(refused) => {
                        let at = [path.as_slice(), &["job".to_owned()]].concat();
                        problems.push(Problem { path: at, ..refused });
                    }
                }
            }
            _ => {}
        }
    }

    /// The text of a job; nothing for a preset, which is known by its name. A problem has no path yet.
    fn text(&mut self, name: &str, (folder, reach): (&Path, &Reach)) -> Result<Option<String>, Problem> {
        if preset(name).is_some() {
            return Ok(None);
        }
        let own = folder.join(name);
        let named = if own.symlink_metadata().is_ok() { own } else { PathBuf::from(name) };
        let path = std::path::absolute(&named).unwrap_or(named);
        if let Some(text) = self.0.get(&path) {
            return Ok(Some(text.clone()));
        }
        if !reach.allows(&path) {
            return Err(out_of_reach(&[], &path));
        }
        let refused =
            |error: JobError| Problem { hint: error.hint(), ..Problem::new(&[], in_one_line(&error)) };
        let text = reach
            .read_text(&path, TEXT_LIMIT)
            .map_err(|source| refused(JobError::Read { name: path.display().to_string(), source }))?;
        Job::parse(name, &text).map_err(refused)?;
        self.0.insert(path, text.clone());
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use crate::study::{Consent, Overrides, Study, StudyError, identity, load};
    use std::path::Path;

    fn loaded(file: &Path) -> Result<Study, StudyError> {
        load(file, &Overrides { preset: None, set: Vec::new() }, Consent::Below(None))
    }

    #[test]
    fn a_job_file_is_read_with_the_study_and_is_part_of_its_trials() {
        let folder = tempfile::tempdir().unwrap();
        let (file, job) = (folder.path().join("study.toml"), folder.path().join("own.fio"));
        let shipped = include_str!("../../../../studies/aging.toml");
        let preset = "job = \"many-small-files\"";
        assert!(shipped.contains(preset));
        std::fs::write(&file, shipped.replace(preset, "job = \"own.fio\"")).unwrap();
        let missing = loaded(&file).unwrap_err().to_string();
        assert!(missing.contains("cannot read fio job"), "{missing}");
        let text = "[a]\nrw=randread\nsize=1m\n";
        std::fs::write(&job, text).unwrap();
        let of = |study: &Study| identity::canonical(&study.cells[0].spec);
        let first = of(&loaded(&file).unwrap());
        assert!(serde_json::to_string(&first).unwrap().contains("rw=randread"));
        std::fs::write(&job, text.replace("randread", "read")).unwrap();
        assert_ne!(of(&loaded(&file).unwrap()), first, "another job, another trial");
        std::fs::write(&job, "[a]\nno-such-key=1\n").unwrap();
        let refused = loaded(&file).unwrap_err().to_string();
        assert!(refused.contains("no-such-key"), "{refused}");
    }
}
