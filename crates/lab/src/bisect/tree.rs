//! The commits of a tree, built one after the other in a work tree of its own.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Explain};
use fsage_sys::signal;
use rustix::process::{Pid, Signal, kill_process_group};

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its hash.
    pub id: String,
    /// Its first line.
    pub subject: String,
}

/// Why there are no commits to try.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// git cannot be started.
    #[error("cannot run git")]
    Git(#[source] io::Error),
    /// git refuses.
    #[error("git {what}: {said}")]
    Refused {
        /// What was asked of it.
        what: String,
        /// What it said.
        said: String,
    },
    /// The place of the work tree is something else.
    #[error("{} is not a work tree of {}", work.display(), repository.display())]
    Place {
        /// The place.
        work: PathBuf,
        /// The repository.
        repository: PathBuf,
    },
    /// Nothing lies between.
    #[error("{bad} does not follow {good} by first parents")]
    Order {
        /// The good revision.
        good: String,
        /// The bad one.
        bad: String,
    },
}

impl Explain for TreeError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Git(_) => EXIT_FAILED,
            Self::Refused { .. } | Self::Place { .. } | Self::Order { .. } => EXIT_USAGE,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Git(_) => Some("install it with `apt-get install git`".to_owned()),
            Self::Refused { .. } => Some("name a repository and revisions that it has; `git worktree prune` removes leftovers of an interrupted search".to_owned()),
            Self::Place { .. } => Some("remove it, or use another `--store`".to_owned()),
            Self::Order { .. } => Some(
                "name an ancestor as good; for another branch use the merge base".to_owned(),
            ),
        }
    }
}

/// Bytes of a build's output that are read, from its end.
const OUTPUT_BYTES: u64 = 64 << 10;

/// What a build makes, which is removed before the next one: a command that fails and says that it did well leaves none.
const MADE: [&str; 3] = ["vmlinux", "arch/arm64/boot/Image", "include/config/kernel.release"];

/// How often is looked whether a build has ended, or is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What became of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Built {
    /// It ended well.
    Yes,
    /// It did not: why.
    No(String),
    /// This signal asked to end.
    Interrupted(i32),
}

/// Lines of it that are reported.
const OUTPUT_LINES: usize = 3;

/// A tree with a work tree of its own, which goes with it.
#[derive(Debug)]
pub struct Tree {
    repository: PathBuf,
    work: PathBuf,
    /// Commits from the good one to the bad one, both included, along first parents.
    pub commits: Vec<Commit>,
}

impl Tree {
    /// The commits of `repository` from `good` to `bad`, and a work tree at `work`, which is made.
    ///
    /// # Errors
    /// As [`TreeError`].
    pub fn open(repository: &Path, work: &Path, good: &str, bad: &str) -> Result<Self, TreeError> {
        // What was left by a killed search is in nobody's way.
        let _ = git(repository, &["worktree", "prune"]);
        let resolve = |revision: &str| {
            let commit = format!("{revision}^{{commit}}");
            git(repository, &["rev-parse", "--verify", "--end-of-options", &commit])
                .map(|id| id.trim().to_owned())
        };
        let (first, last) = (resolve(good)?, resolve(bad)?);
        let range = format!("{first}..{last}");
        let list = git(repository, &["log", "--first-parent", "--reverse", "--format=%H %P%x09%s", &range])?;
        let lines: Vec<(&str, &str)> = list.lines().filter_map(|line| line.split_once('\t')).collect();
        // The oldest of them has the good one as its first parent, or the good one lies on another line.
        let parent = lines.first().and_then(|(ids, _)| ids.split(' ').nth(1));
        if parent != Some(first.as_str()) {
            return Err(TreeError::Order { good: good.to_owned(), bad: bad.to_owned() });
        }
        let own = git(repository, &["log", "-1", "--format=%s", &first])?;
        let mut commits = vec![Commit { id: first.clone(), subject: own.trim().to_owned() }];
        let commit = |(ids, subject): (&str, &str)| {
            let id = ids.split(' ').next().unwrap_or_default().to_owned();
            Commit { id, subject: subject.to_owned() }
        };
        commits.extend(lines.into_iter().map(commit));
        if work.exists() {
            is_work_tree(repository, work)?;
        } else {
            let place = work.to_string_lossy();
            git(repository, &["worktree", "add", "--quiet", "--force", "--detach", &place, &first])?;
        }
        Ok(Self { repository: repository.to_owned(), work: work.to_owned(), commits })
    }

    /// Where commits are built.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Checks a commit out and builds it by a command of the user's, in a process group of its own that ends with it.
    ///
    /// # Errors
    /// The commit cannot be checked out.
    pub fn build(&self, commit: &Commit, command: &str) -> Result<Built, TreeError> {
        // In a folder that is no work tree any more git would take the one around it.
        is_work_tree(&self.repository, &self.work)?;
        git(&self.work, &["checkout", "--quiet", "--force", "--detach", &commit.id])?;
        for made in MADE {
            let _ = std::fs::remove_file(self.work.join(made));
        }
        let mut build = Command::new("sh");
        build.args(["-c", command]).current_dir(&self.work).env("FSAGE_COMMIT", &commit.id);
        Ok(match run(build) {
            Ok((Ended::Status(status), _)) if status.success() => Built::Yes,
            Ok((Ended::Status(_), said)) => Built::No(format!("it does not build: {}", last_lines(&said))),
            Ok((Ended::By(signal), _)) => Built::Interrupted(signal),
            Err(error) => Built::No(format!("it does not build: {error}")),
        })
    }
}

/// Whether `work` is the top of a work tree of this repository.
fn is_work_tree(repository: &Path, work: &Path) -> Result<(), TreeError> {
    let common = |folder: &Path| -> Result<Option<PathBuf>, TreeError> {
        let said = git(folder, &["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        Ok(Path::new(said.trim()).canonicalize().ok())
    };
    let top = git(work, &["rev-parse", "--show-toplevel"])?;
    let is_top = Path::new(top.trim()).canonicalize().ok() == work.canonicalize().ok();
    if is_top && common(work)? == common(repository)? {
        Ok(())
    } else {
        Err(TreeError::Place { work: work.to_owned(), repository: repository.to_owned() })
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // What stays is a folder of its own, and pruned by the next search.
        let _ = git(&self.repository, &["worktree", "remove", "--force", &self.work.to_string_lossy()]);
    }
}

/// How a build ended.
enum Ended {
    Status(ExitStatus),
    By(i32),
}

/// Runs a build, and gives the end of what it said. What it leaves running is ended with it.
fn run(mut command: Command) -> io::Result<(Ended, String)> {
    let mut said = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said.try_clone()?).process_group(0);
    fsage_sys::process::die_with_parent(&mut command);
    let flags = signal::Flags::install(&signal::Signal::ALL).map_err(io::Error::other)?;
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Ended::Status(status);
        }
        let asked = [(signal::Signal::Interrupt, 2), (signal::Signal::Terminate, 15)];
        if let Some((_, number)) = asked.into_iter().find(|(signal, _)| flags.is_set(*signal)) {
            break Ended::By(number);
        }
        std::thread::sleep(LOOK_EVERY);
    };
    // Nobody is left in it, or those who are have nothing more to do.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    Ok((ended, end_of(&mut said)?))
}

fn end_of(file: &mut File) -> io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES)))?;
    let mut text = Vec::new();
    file.take(OUTPUT_BYTES).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(OUTPUT_LINES)..].join("; ")
}

fn git(folder: &Path, words: &[&str]) -> Result<String, TreeError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(words).stdin(Stdio::null()).env("GIT_TERMINAL_PROMPT", "0");
    // Hooks of the repository are not part of a search.
    command.env("GIT_CONFIG_COUNT", "1");
    command.env("GIT_CONFIG_KEY_0", "core.hooksPath").env("GIT_CONFIG_VALUE_0", "/dev/null");
    fsage_sys::process::die_with_parent(&mut command);
    let output = command.output().map_err(TreeError::Git)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = last_lines(&String::from_utf8_lossy(&output.stderr));
    Err(TreeError::Refused { what: words.first().copied().unwrap_or_default().to_owned(), said })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(commits: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let run = |words: &[&str]| git(folder.path(), words).unwrap();
        run(&["init", "--quiet"]);
        for text in commits {
            std::fs::write(folder.path().join("file"), text).unwrap();
            run(&["add", "file"]);
            run(&["-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", text]);
        }
        folder
    }

    #[test]
    fn commits_are_built_in_a_work_tree_of_their_own() {
        let repository = repository(&["one", "two", "three"]);
        let scratch = tempfile::tempdir().unwrap();
        let work = scratch.path().join("work");
        let tree = Tree::open(repository.path(), &work, "HEAD~2", "HEAD").unwrap();
        let subjects: Vec<&str> = tree.commits.iter().map(|commit| commit.subject.as_str()).collect();
        assert_eq!(subjects, ["one", "two", "three"]);
        let build = "echo begin; test \"$(cat file)\" != two || { echo no two; exit 1; }";
        assert_eq!(tree.build(&tree.commits[0], build).unwrap(), Built::Yes);
        // A build that says nothing of its failure leaves no kernel of another commit.
        std::fs::write(work.join("vmlinux"), "of another").unwrap();
        let why = "it does not build: begin; no two".to_owned();
        assert_eq!(tree.build(&tree.commits[1], build).unwrap(), Built::No(why));
        assert!(!work.join("vmlinux").exists());
        assert_eq!(tree.build(&tree.commits[2], build).unwrap(), Built::Yes);
        assert_eq!(std::fs::read_to_string(work.join("file")).unwrap(), "three");
        drop(tree);
        assert!(!work.exists());
        // Again, and what is open is its own.
        assert_eq!(std::fs::read_to_string(repository.path().join("file")).unwrap(), "three");
    }

    #[test]
    fn a_folder_that_is_no_work_tree_is_left_alone() {
        let repository = repository(&["one", "two"]);
        // Inside of the repository: git would take the repository itself.
        let work = repository.path().join("store/tree");
        std::fs::create_dir_all(&work).unwrap();
        std::fs::write(repository.path().join("file"), "not committed").unwrap();
        let error = Tree::open(repository.path(), &work, "HEAD~1", "HEAD").unwrap_err();
        assert!(error.to_string().contains("is not a work tree of"), "{error}");
        assert_eq!(std::fs::read_to_string(repository.path().join("file")).unwrap(), "not committed");
        // And one that stops being one in the middle of a search.
        std::fs::remove_dir(&work).unwrap();
        let tree = Tree::open(repository.path(), &work, "HEAD~1", "HEAD").unwrap();
        std::fs::remove_file(work.join(".git")).unwrap();
        assert!(tree.build(&tree.commits[1], "true").is_err());
        assert_eq!(std::fs::read_to_string(repository.path().join("file")).unwrap(), "not committed");
    }

    #[test]
    fn what_is_no_way_from_good_to_bad_is_refused() {
        let repository = repository(&["one", "two"]);
        let scratch = tempfile::tempdir().unwrap();
        let work = scratch.path().join("work");
        for (good, bad, wanted) in [
            ("HEAD", "HEAD~1", "does not follow"),
            ("HEAD", "HEAD", "does not follow"),
            ("nowhere", "HEAD", "git rev-parse"),
            ("--help", "HEAD", "git rev-parse"),
        ] {
            let error = Tree::open(repository.path(), &work, good, bad).unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
            assert!(!work.exists());
        }
    }
}
