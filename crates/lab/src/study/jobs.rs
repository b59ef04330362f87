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

    /// Puts the text of each job file that a stage names beside its name; what cannot be read or run. Paths are absolute
    /// by now ([`anchor`]); what stays of one is the file's name.
    pub(super) fn embed(&mut self, study: &mut Value, reach: &Reach) -> Vec<Problem> {
        let mut problems = Vec::new();
        each_job(study, &mut |job, path| match self.text(job, reach) {
            Ok(Some(text)) => {
                let name = Path::new(job).file_name().unwrap_or_default().to_string_lossy().into_owned();
                vec![("job", json!(name)), ("text", json!(text))]
            }
            Ok(None) => Vec::new(),
            Err(refused) => {
                problems.push(Problem { path: path.to_vec(), ..refused });
                Vec::new()
            }
        });
        problems
    }

    /// The text of a job; nothing for a preset, which is known by its name. A problem has no path yet.
    fn text(&mut self, job: &str, reach: &Reach) -> Result<Option<String>, Problem> {
        if preset(job).is_some() {
            return Ok(None);
        }
        let path = PathBuf::from(job);
        if let Some(text) = self.0.get(&path) {
            return Ok(Some(text.clone()));
        }
        if !reach.allows(&path) {
            return Err(out_of_reach(&[], &path));
        }
        let refused = |error: JobError| {
            // What is in the file is reported only to the user who named it.
            let message = if reach.is_named(&path) { in_one_line(&error) } else { error.without_text() };
            Problem { hint: error.hint(), ..Problem::new(&[], message) }
        };
        let text = reach
            .read_text(&path, TEXT_LIMIT)
            .map_err(|source| refused(JobError::Read { name: job.to_owned(), source }))?;
        Job::parse(job, &text).map_err(refused)?;
        self.0.insert(path, text.clone());
        Ok(Some(text))
    }
}

/// Makes the paths of job files absolute: relative ones are below `base`.
pub(super) fn anchor(base: &Path, study: &mut Value) {
    each_job(study, &mut |job, _| {
        let there = std::path::absolute(base.join(job)).ok().filter(|_| preset(job).is_none());
        // JSON has no other paths than text; one that is not stays relative.
        there.as_deref().and_then(Path::to_str).map(|path| ("job", json!(path))).into_iter().collect()
    });
}

/// Sees a job and the path to it, and gives keys with values to put beside it.
type Visit<'a> = &'a mut dyn FnMut(&str, &[String]) -> Vec<(&'static str, Value)>;

/// Shows each job that a stage's measures name, with the path to it, and puts what is given for it in their tables.
fn each_job(study: &mut Value, visit: Visit<'_>) {
    if let Some(stages) = study.get_mut("stage") {
        walk(stages, &mut vec!["stage".to_owned()], visit);
    }
}

fn walk(value: &mut Value, path: &mut Segments, visit: Visit<'_>) {
    let mut below = |name: String, item: &mut Value| {
        path.push(name);
        walk(item, path, visit);
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
            let Some(job) = table.get("job").and_then(Value::as_str).map(str::to_owned) else { return };
            path.push("job".to_owned());
            let put = visit(&job, path);
            path.pop();
            table.extend(put.into_iter().map(|(key, value)| (key.to_owned(), value)));
        }
        _ => {}
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
        assert!(refused.contains("line 2") && !refused.contains("no-such-key"), "{refused}");
        // The user who names it on the command line sees what is in it.
        let set = vec![format!("stage.measure.measures=[{{kind=\"fio\", job=\"{}\"}}]", job.display())];
        let refused = load(&file, &Overrides { preset: None, set }, Consent::Below(None)).unwrap_err();
        assert!(refused.to_string().contains("no-such-key"), "{refused}");
    }

    /// The name of a study is part of the path of its store, where it may read.
    #[test]
    fn no_name_of_a_study_makes_a_folder_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (own, elsewhere) = (folder.path().join("own"), folder.path().join("elsewhere"));
        std::fs::create_dir(&own).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        let secret = elsewhere.join("secret");
        std::fs::write(&secret, "root:hash\n").unwrap();
        let shipped = include_str!("../../../../studies/aging.toml");
        let (preset, name) = ("job = \"many-small-files\"", "name = \"aging\"");
        assert!(shipped.contains(preset) && shipped.contains(name));
        for taken in [elsewhere.to_str().unwrap(), "/", "..", "../../.."] {
            let text = shipped.replace(name, &format!("name = \"{taken}\""));
            let text = text.replace(preset, &format!("job = \"{}\"", secret.display()));
            std::fs::write(own.join("study.toml"), text).unwrap();
            let refused = loaded(&own.join("study.toml")).unwrap_err().to_string();
            assert!(refused.contains("neither below") && !refused.contains("hash"), "{taken}: {refused}");
        }
    }
}
