//! fio's job files: `[section]` lines and `key=value` or `key` lines, comments from `#` or `;` on.
//!
//! A job is turned into arguments for fio, with where it works set by us. Each key becomes a word
//! `--key=value`, and among those words fio has some that write files, run programs or begin another job. A
//! study must not be able to do that, so only keys that are known to stay within the measured directory pass,
//! each by its full name, with values of few characters: fio takes beginnings of words and splits file names
//! from values, and we need not know how.

use std::path::Path;

use fsage_model::measure::FioSpec;
use fsage_model::nearest::nearest;
use fsage_sys::input::{self, TEXT_LIMIT, Unfit};

/// Jobs that come with fsage: name and text.
pub const PRESETS: &[(&str, &str)] =
    &[("many-small-files", include_str!("../../../../studies/jobs/many-small-files.fio"))];

/// Keys that have a value.
const VALUES: &[&str] = &[
    "blockalign",
    "blocksize",
    "blocksize_range",
    "bs",
    "bsrange",
    "bssplit",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "dedupe_percentage",
    "fadvise_hint",
    "fallocate",
    "fdatasync",
    "file_service_type",
    "filesize",
    "fsync",
    "io_size",
    "iodepth",
    "iodepth_batch",
    "iodepth_low",
    "ioengine",
    "loops",
    "nrfiles",
    "number_ios",
    "numjobs",
    "offset",
    "offset_increment",
    "openfiles",
    "percentage_random",
    "ramp_time",
    "random_distribution",
    "random_generator",
    "rate",
    "rate_iops",
    "rate_process",
    "readwrite",
    "runtime",
    "rw",
    "rwmixread",
    "rwmixwrite",
    "size",
    "sync",
    "sync_file_range",
    "thinktime",
    "thinktime_blocks",
];

/// Keys that stand for `key=1` when they have no value.
const SWITCHES: &[&str] = &[
    "buffered",
    "create_fsync",
    "create_on_open",
    "create_serialize",
    "direct",
    "end_fsync",
    "file_append",
    "fsync_on_close",
    "group_reporting",
    "invalidate",
    "norandommap",
    "overwrite",
    "randrepeat",
    "refill_buffers",
    "scramble_buffers",
    "thread",
    "time_based",
    "zero_buffers",
];

/// Keys that make jobs run one after the other.
const SEQUENCE: &[&str] = &["stonewall", "wait_for", "wait_for_previous", "startdelay"];

/// Engines that work on files; others reach devices, networks or programs.
const ENGINES: &[&str] =
    &["psync", "sync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap"];

/// Bytes of each of the files that `{files}` counts.
const SMALL_FILE: u64 = 4096;

/// Keys that end a job by wall-clock time, or begin its measurement by it.
const TIMES: &[&str] = &["time_based", "runtime", "ramp_time"];

/// How long a job continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// As it says itself.
    AsSaid,
    /// So many seconds, again and again.
    Seconds(u64),
    /// Through its `size` (and `loops`), or `number_ios`, however long that takes.
    Once,
}

/// Why a job cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// There is no such file, and no such preset.
    #[error("cannot read fio job `{name}`")]
    Read {
        /// Its name or path.
        name: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line is not of a job file.
    #[error("line {line} of fio job `{name}` cannot be parsed: `{text}`")]
    Line {
        /// The job.
        name: String,
        /// From 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A key may reach beyond the directory under test: it is none of those known not to.
    #[error("line {line} of fio job `{name}` has `{key}`, which is not among the keys known to stay within the measured directory{}", meant(*.nearest))]
    Key {
        /// The job.
        name: String,
        /// From 1.
        line: usize,
        /// The key.
        key: String,
        /// The allowed key that may have been meant.
        nearest: Option<&'static str>,
    },
    /// An allowed key has a value that it cannot have.
    #[error("line {line} of fio job `{name}` has `{key}={value}`, which is not a value of `{key}`")]
    Value {
        /// The job.
        name: String,
        /// From 1.
        line: usize,
        /// The key.
        key: String,
        /// Its value; empty when it has none.
        value: String,
    },
    /// Jobs would run one after the other.
    #[error(
        "line {line} of fio job `{name}` has `{key}`: jobs that run one after the other are separate measures"
    )]
    Sequence {
        /// The job.
        name: String,
        /// From 1.
        line: usize,
        /// The key.
        key: String,
    },
    /// A section has a name that could be more than a name: fio makes files of it.
    #[error("line {line} of fio job `{name}`: a section cannot be called `{section}`")]
    Section {
        /// The job.
        name: String,
        /// From 1.
        line: usize,
        /// Its name.
        section: String,
    },
    /// It has only a `[global]` section.
    #[error("fio job `{name}` has no job section")]
    NoJob {
        /// The job.
        name: String,
    },
}

impl JobError {
    /// What is wrong, without a word of what is in the file: for who may not be allowed to read it.
    #[must_use]
    pub fn without_text(&self) -> String {
        let (name, line, what) = match self {
            Self::Read { name, source } => return format!("cannot read fio job `{name}`: {source}"),
            Self::NoJob { name } => return format!("fio job `{name}` has no job section"),
            Self::Line { name, line, .. } => (name, line, "cannot be parsed"),
            Self::Key { name, line, .. } => {
                (name, line, "has a key that is not among those known to stay within the measured directory")
            }
            Self::Value { name, line, .. } => (name, line, "has a value that its key cannot have"),
            Self::Sequence { name, line, .. } => (name, line, "makes jobs run one after the other"),
            Self::Section { name, line, .. } => (name, line, "has a name that no section can have"),
        };
        format!("line {line} of fio job `{name}` {what}")
    }

    /// The next step.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { source, .. } if Unfit::hint(source).is_some() => {
                Unfit::hint(source).map(str::to_owned)
            }
            Self::Read { .. } => {
                let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
                Some(format!("give the path of a job file, or a preset: {}", names.join(", ")))
            }
            Self::Key { .. } => Some(
                "remove it: fsage sets the folder of a job and removes its files; docs/measures.md lists the allowed keys"
                    .to_owned(),
            ),
            Self::Value { key, .. } if key == "ioengine" => Some(format!("it is one of {}", ENGINES.join(", "))),
            Self::Sequence { .. } => {
                Some("make a job file of each and measure them one by one: their rates would be added up".to_owned())
            }
            Self::Section { .. } => {
                Some("use letters, digits, `-` and `_`, and `global` only for settings of all jobs".to_owned())
            }
            Self::Value { .. } | Self::Line { .. } | Self::NoJob { .. } => None,
        }
    }
}

/// The text of a preset.
#[must_use]
pub fn preset(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, text)| *text)
}

/// A job, read and found harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// As the job file has it: what is stored with the trial.
    pub text: String,
    /// Sections in order: name, and `key` or `key=value` words.
    sections: Vec<(String, Vec<String>)>,
}

impl Job {
    /// Reads a preset or a file.
    ///
    /// # Errors
    /// It cannot be read, is no job file, or would reach beyond its directory.
    pub fn read(name: &str) -> Result<Self, JobError> {
        if let Some(text) = preset(name) {
            return Self::parse(name, text);
        }
        let text = input::read_text(Path::new(name), TEXT_LIMIT)
            .map_err(|source| JobError::Read { name: name.to_owned(), source })?;
        Self::parse(name, &text)
    }

    /// The job of a measure: its text where that was read before, or else what it names.
    ///
    /// # Errors
    /// As [`Job::read`].
    pub fn of(spec: &FioSpec) -> Result<Self, JobError> {
        spec.text.as_ref().map_or_else(|| Self::read(&spec.job), |text| Self::parse(&spec.job, text))
    }

    /// A job by its text; errors call it `name`.
    ///
    /// # Errors
    /// It is no job file, or would reach beyond its directory.
    pub fn parse(name: &str, text: &str) -> Result<Self, JobError> {
        let mut sections: Vec<(String, Vec<String>)> = Vec::new();
        for (index, full) in text.lines().enumerate() {
            let line = full.split(['#', ';']).next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let place = JobLine { name, line: index + 1 };
            if let Some(section) = line.strip_prefix('[') {
                let section = section.strip_suffix(']').ok_or_else(|| place.odd(line))?;
                sections.push((place.section(section)?, Vec::new()));
                continue;
            }
            let word = place.word(line)?;
            sections.last_mut().ok_or_else(|| place.odd(line))?.1.push(word);
        }
        if sections.iter().all(|(section, _)| section == "global") {
            return Err(JobError::NoJob { name: name.to_owned() });
        }
        Ok(Self { text: text.to_owned(), sections })
    }

    /// Whether it has as many small files as its space takes (`{files}`).
    #[must_use]
    pub fn fills_with_files(&self) -> bool {
        self.sections.iter().flat_map(|(_, keys)| keys).any(|key| key.contains("{files}"))
    }

    /// The job as arguments, at work in `directory`, its files removed at the end, with `{files}` and
    /// `{size}` filled in for `space` bytes.
    #[must_use]
    pub fn words(&self, directory: &str, space: u64, length: Length, seed: u64) -> Vec<String> {
        // What comes from us is said in each section: what stands last in one counts.
        let mut own = vec![
            // A colon would separate several directories.
            format!("--directory={}", directory.replace(':', "\\:")),
            "--group_reporting=1".to_owned(),
            // Processes leave fio's process group and would continue working when it is killed.
            "--thread=1".to_owned(),
            "--unlink=1".to_owned(),
            format!("--randseed={seed}"),
        ];
        if let Length::Seconds(seconds) = length {
            own.extend(["--time_based=1".to_owned(), format!("--runtime={seconds}")]);
        }
        let timed = |key: &&String| TIMES.contains(&key.split('=').next().unwrap_or(key));
        let files = space / SMALL_FILE;
        let mut words = Vec::new();
        for (section, keys) in &self.sections {
            words.push(format!("--name={section}"));
            let kept = keys.iter().filter(|key| length != Length::Once || !timed(key));
            let filled = kept.map(|key| {
                let key = key.replace("{files}", &files.to_string());
                format!("--{}", key.replace("{size}", &(files * SMALL_FILE).to_string()))
            });
            words.extend(filled);
            words.extend(own.iter().cloned());
        }
        words
    }
}

/// Where in a job file we are.
struct JobLine<'a> {
    name: &'a str,
    line: usize,
}

impl JobLine<'_> {
    fn odd(&self, text: &str) -> JobError {
        JobError::Line { name: self.name.to_owned(), line: self.line, text: text.to_owned() }
    }

    /// A section's name. fio names files by it, and takes whatever begins with `global` for defaults.
    fn section(&self, section: &str) -> Result<String, JobError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let global = section.starts_with("global") && section != "global";
        if section.is_empty() || global || !section.chars().all(plain) {
            let (name, section) = (self.name.to_owned(), section.to_owned());
            return Err(JobError::Section { name, line: self.line, section });
        }
        Ok(section.to_owned())
    }

    /// The word `key=value` of a line. There is always a value: fio would take the next word for a missing
    /// one.
    fn word(&self, line: &str) -> Result<String, JobError> {
        let (key, value) =
            line.split_once('=').map_or((line, None), |(key, value)| (key.trim(), Some(value)));
        if key.is_empty() || key.contains(char::is_whitespace) || key.starts_with('-') {
            return Err(self.odd(line));
        }
        let (name, line) = (self.name.to_owned(), self.line);
        let is_switch = SWITCHES.contains(&key);
        if SEQUENCE.contains(&key) {
            return Err(JobError::Sequence { name, line, key: key.to_owned() });
        }
        if !is_switch && !VALUES.contains(&key) {
            let nearest = nearest(key, VALUES.iter().chain(SWITCHES).copied());
            return Err(JobError::Key { name, line, key: key.to_owned(), nearest });
        }
        let value = value.map_or(if is_switch { "1" } else { "" }, str::trim);
        if !is_value(key, value) {
            return Err(JobError::Value { name, line, key: key.to_owned(), value: value.to_owned() });
        }
        Ok(format!("{key}={value}"))
    }
}

/// Whether it is made only of what numbers, units, words and lists of them need.
fn is_value(key: &str, value: &str) -> bool {
    if key == "ioengine" {
        return ENGINES.contains(&value);
    }
    let rest = value.replace("{files}", "0").replace("{size}", "0");
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | ':' | '/' | '%' | '-' | '_');
    !rest.is_empty() && rest.chars().all(plain)
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_jobs() {
        for (name, text) in PRESETS {
            let job = Job::read(name).unwrap();
            assert_eq!(job.text, *text);
            let words = job.words("/mnt/x", 1 << 20, Length::Seconds(7), 3);
            assert_eq!(words[0], "--name=global");
            for word in
                ["--nrfiles=256", "--size=1048576", "--openfiles=100", "--create_on_open=1", "--bs=4k"]
            {
                assert!(words.iter().any(|other| other == word), "{word}: {words:?}");
            }
            let last = |key: &str| words.iter().rfind(|word| word.starts_with(key)).cloned();
            assert_eq!(last("--runtime=").as_deref(), Some("--runtime=7"));
            assert_eq!(last("--directory=").as_deref(), Some("--directory=/mnt/x"));
            assert!(!words.iter().any(|word| word.contains(['{', '}'])), "{words:?}");
        }
    }

    #[test]
    fn what_may_reach_beyond_the_directory_is_refused() {
        for line in [
            "filename=/dev/sda",
            "filename = /dev/sda",
            "filen=/dev/sda",
            "filename_format=../x",
            "directory=/",
            "opendir=/",
            "output=/etc/passwd",
            "output-format=json",
            "name=x",
            "name=global",
            "mem=mmap:/etc/passwd",
            "iomem=mmap:/etc/passwd",
            "ioscheduler=none",
            "daemonize=/tmp/pid",
            "merge_blktrace_file=/etc/passwd",
            "profile=tiobench",
            "exec_prerun=rm -rf /",
            "include=other.fio",
            "write_iolog=/etc/passwd",
            "verify_state_save=1",
            "buffer_pattern='/etc/shadow'",
            "unlink=0",
            "randseed=3",
            "RW=read",
        ] {
            let job = Job::parse("test", &format!("[a]\nbs=4k\n{line}\n"));
            let key = line.split('=').next().unwrap().trim();
            let refused =
                matches!(&job, Err(JobError::Key { line: 3, key: found, .. }) if found.as_str() == key);
            assert!(refused, "{line}: {job:?}");
        }
        for line in [
            "ioengine=exec",
            "ioengine=sg",
            "ioengine=external:x.so",
            "ioengine",
            "size",
            "size=",
            "bs=$(id)",
            "bs=4k 8k",
        ] {
            let job = Job::parse("test", &format!("[a]\n{line}\n"));
            assert!(matches!(job, Err(JobError::Value { line: 2, .. })), "{line}: {job:?}");
        }
        for section in ["../x", "", "a/b", "a b", "a:b", "global2", "a]["] {
            let job = Job::parse("test", &format!("[a]\n[{section}]\n"));
            assert!(matches!(job, Err(JobError::Section { line: 2, .. })), "{section}: {job:?}");
        }
    }

    #[test]
    fn a_refusal_says_where_and_what_was_meant() {
        let text = |line: &str| Job::parse("test", &format!("[a]\n{line}\n")).unwrap_err();
        let error = text("iodeph=4");
        let said = error.to_string();
        assert!(
            said.contains("line 2") && said.contains("`iodeph`") && said.contains("`iodepth`?"),
            "{said}"
        );
        assert!(!text("output=/x").to_string().contains("did you mean"));
        assert!(text("ioengine=sg").hint().is_some_and(|hint| hint.contains("libaio")));
        for line in ["stonewall", "stonewall=1", "wait_for=b", "startdelay=5"] {
            let error = text(line);
            assert!(matches!(error, JobError::Sequence { line: 2, .. }), "{line}: {error:?}");
            assert!(error.hint().is_some_and(|hint| hint.contains("one by one")));
        }
    }

    #[test]
    fn a_typical_job_passes() {
        let text = "; a mix\n[global]\nioengine = libaio\niodepth=16 # deep\ndirect=1\nbssplit=4k/10:64k/90\ngroup_reporting\n\
                    time_based\nruntime=30s\nsize=10%\n[seq-read]\nrw=read\nnumjobs=2\nrandom_distribution=zipf:1.2\n\
                    [log_write] ; appended\nrw=randwrite:8\nfsync=1\nfallocate=none\nrate=1m,2m\n";
        let job = Job::parse("test", text).unwrap();
        let words = job.words("/mnt/a:b", 1 << 20, Length::AsSaid, 1);
        for word in [
            "--name=seq-read",
            "--name=log_write",
            "--iodepth=16",
            "--time_based=1",
            "--bssplit=4k/10:64k/90",
            "--directory=/mnt/a\\:b",
        ] {
            assert!(words.iter().any(|other| other == word), "{word}: {words:?}");
        }
        let once = job.words("/mnt/a:b", 1 << 20, Length::Once, 1);
        let clocks = |word: &String| word.contains("time_based") || word.contains("runtime");
        assert!(words.iter().any(clocks) && !once.iter().any(clocks), "{once:?}");
        assert!(once.iter().any(|word| word == "--size=10%"), "{once:?}");
        // What is ours stands last in each section, and no word could take the next for its value.
        assert_eq!(words.iter().filter(|word| *word == "--thread=1").count(), 3);
        assert_eq!(words.iter().filter(|word| *word == "--unlink=1").count(), 3);
        assert!(words.iter().all(|word| word.starts_with("--") && word.contains('=')), "{words:?}");
    }

    #[test]
    fn what_is_no_job_file_is_refused() {
        for line in ["--filename=/dev/sda", "a b", "=3", "[", "[a"] {
            let job = Job::parse("test", &format!("[a]\n{line}\n"));
            assert!(matches!(job, Err(JobError::Line { line: 2, .. })), "{line}: {job:?}");
        }
        assert!(matches!(Job::parse("test", "bs=4k\n"), Err(JobError::Line { line: 1, .. })));
        assert!(matches!(Job::parse("test", "[global]\nbs=4k\n"), Err(JobError::NoJob { .. })));
        let error = Job::read("no-such-preset").unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.contains("many-small-files")));
    }
}
