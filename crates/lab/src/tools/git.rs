//! `git`: the commits of a repository, the files that each changed and their sizes.
//!
//! A repository may be a stranger's, so only plumbing is used, which runs nothing that the repository's own
//! settings name (no hooks, no pager, no file system monitor, no signature check, no filter), and nothing is
//! fetched. The repository is named by `--git-dir`: then git neither looks further up nor asks whose it is,
//! as it does since 2.35.2 when it finds one by itself. Neither the user's settings nor the variables `GIT_*`
//! count, so a history does not depend on who reads it.
//!
//! A repository leads git to other files (`objects/info/alternates`, links, included settings), and git quotes
//! them in its errors. So root reads another user's repository as that user, what git says is never passed on,
//! and its memory has a limit.
//!
//! Formats: git-diff-tree(1) "RAW OUTPUT FORMAT" and git-ls-tree(1), both with `-z`; git-cat-file(1) "BATCH
//! OUTPUT".

use std::io::BufRead;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fsage_sys::input;
use fsage_sys::owners::is_trusted;
use fsage_sys::process::own_session;

use super::{Input, Invocation, Program, ToolError};

/// The program.
pub static PROGRAM: Program = Program::new("git", Duration::from_secs(3600));

/// Said before every subcommand.
const GUARDS: [&str; 9] = [
    "--no-pager",
    "--no-replace-objects",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "safe.directory=*",
    "--literal-pathspecs",
];

/// What git says when it wants to fetch what a partial clone does not have, and is not allowed to.
const PARTIAL: [&str; 2] = ["promisor", "not allowed"];

/// Mode of a submodule, which is a commit of another repository.
const SUBMODULE: &[u8] = b"160000";
/// Mode of what is not there.
const NOTHING: &[u8] = b"000000";

/// A repository on this machine.
#[derive(Debug, Clone)]
pub struct Repository {
    directory: PathBuf,
    /// User and group who read it in root's place: its owner, if root does not trust him.
    reader: Option<(u32, u32)>,
}

/// What a commit did to a path, or that the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// What follows is of this commit.
    Commit(&'a str),
    /// The path has this blob now.
    Written {
        /// Name, with `/` between its parts.
        path: &'a [u8],
        /// Object.
        blob: &'a str,
    },
    /// The path is gone.
    Removed {
        /// Name.
        path: &'a [u8],
    },
}

/// The group that a user has by /etc/passwd; that of nobody where there is no such user.
fn primary_group(user: u32) -> u32 {
    const NOBODY: u32 = 65_534;
    let table = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut lines = table.lines().map(|line| line.split(':').skip(2));
    let found = lines.find_map(|mut fields| (fields.next()?.parse() == Ok(user)).then(|| fields.next())?);
    found.and_then(|group| group.parse().ok()).unwrap_or(NOBODY)
}

impl Repository {
    /// The repository whose work tree or bare folder is `folder`. Nothing is read yet.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        let inner = folder.join(".git");
        // Of a work tree or submodule it is a file that says where.
        let directory = if inner.exists() { inner } else { folder.to_owned() };
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        let inside = ["objects", "objects/info", "refs", "config", "HEAD"].map(|name| directory.join(name));
        let looked_at =
            [folder.to_owned(), directory.clone()].into_iter().chain(pointed_at(&directory)).chain(inside);
        let owner = |path: PathBuf| path.metadata().ok().map(|found| found.uid());
        let mut owners = looked_at.filter_map(owner).filter(|_| rustix::process::geteuid().is_root());
        // Not the group of their file: it may be root's.
        let reader = owners.find(|user| !is_trusted(*user)).map(|user| (user, primary_group(user)));
        Self { directory, reader }
    }

    fn invoke(&self, words: &[&str]) -> Invocation {
        let mut arguments = vec![format!("--git-dir={}", self.directory.display())];
        arguments.extend(GUARDS.iter().chain(words).map(|word| (*word).to_owned()));
        PROGRAM.invoke(arguments)
    }

    fn run<T>(
        &self,
        words: &[&str],
        input: Option<Input>,
        read: impl FnOnce(&mut dyn BufRead) -> Result<T, String>,
    ) -> Result<T, ToolError> {
        let prepare = |command: &mut Command| {
            guard(command);
            if let Some((user, group)) = self.reader {
                // Without root's other groups: they go with the user. He can look into a process of his: it has
                // nothing of root's, neither variables nor directory nor terminal.
                command.env_clear().current_dir("/");
                command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
                guard(command);
                own_session(command);
                command.uid(user).gid(group);
            }
        };
        self.invoke(words).stream(prepare, input, read).map_err(|error| self.in_own_words(error))
    }

    /// An error without what git said.
    fn in_own_words(&self, error: ToolError) -> ToolError {
        let ToolError::Status { command, status, tail } = error else { return error };
        let reader =
            self.reader.map_or(String::new(), |(user, _)| format!(", read as user {user}, its owner"));
        let tail = if PARTIAL.iter().any(|word| tail.contains(word)) {
            "it lacks objects that it would have to fetch from a promisor".to_owned()
        } else if tail.contains("not a git repository") {
            format!("it is not a git repository{reader}")
        } else {
            let path = self.directory.display();
            format!("git cannot read it{reader}; `git --git-dir={path} fsck` tells more")
        };
        ToolError::Status { command, status, tail }
    }

    /// Whether git takes it for a repository.
    ///
    /// # Errors
    /// It does not; or there is no git.
    pub fn check(&self) -> Result<(), ToolError> {
        self.run(&["rev-parse", "--git-dir"], None, lines).map(|_| ())
    }

    /// The commit that a revision means; nothing when there is none.
    ///
    /// # Errors
    /// git cannot be run.
    pub fn commit(&self, revision: &str) -> Result<Option<String>, ToolError> {
        if revision.is_empty() || revision.starts_with('-') {
            return Ok(None);
        }
        let commit = format!("{revision}^{{commit}}");
        match self.run(&["rev-parse", "--verify", "--quiet", &commit], None, lines) {
            Ok(ids) => Ok(ids.into_iter().next()),
            Err(ToolError::Status { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The commits from the oldest to `commit`, each the first parent of the next. A shallow repository's
    /// begin where it does.
    ///
    /// # Errors
    /// git fails.
    pub fn line(&self, commit: &str) -> Result<Vec<String>, ToolError> {
        self.run(&["rev-list", "--first-parent", "--reverse", commit, "--"], None, lines)
    }

    /// The files of a commit, as if all were new.
    ///
    /// # Errors
    /// git fails.
    pub fn files(&self, commit: &str, take: &mut dyn FnMut(Record<'_>)) -> Result<(), ToolError> {
        self.run(&["ls-tree", "-r", "-z", "--full-tree", commit], None, |output| tree(output, take))
    }

    /// What each commit after the first changed against the one before it in the list; merges too. Renames
    /// are not sought.
    ///
    /// # Errors
    /// git fails.
    pub fn changes(&self, commits: &[String], take: &mut dyn FnMut(Record<'_>)) -> Result<(), ToolError> {
        let pairs: Vec<String> =
            commits.windows(2).map(|pair| format!("{} {}\n", pair[1], pair[0])).collect();
        let input: Input =
            Box::new(move |pipe| pairs.iter().try_for_each(|it| pipe.write_all(it.as_bytes())));
        let words = ["diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--always"];
        self.run(&words, Some(input), |output| raw(output, take))
    }

    /// Bytes of each object, in their order; nothing for one that is not there.
    ///
    /// # Errors
    /// git fails.
    pub fn sizes(&self, objects: Vec<String>) -> Result<Vec<Option<u64>>, ToolError> {
        let count = objects.len();
        let input: Input = Box::new(move |pipe| objects.iter().try_for_each(|id| writeln!(pipe, "{id}")));
        let words = ["cat-file", "--buffer", "--batch-check=%(objecttype) %(objectsize)"];
        let sizes = self.run(&words, Some(input), batch)?;
        if sizes.len() == count {
            return Ok(sizes);
        }
        let message = format!("{} sizes for {count} objects", sizes.len());
        Err(ToolError::Output { command: self.invoke(&words).to_string(), message })
    }
}

/// The folder that a `.git` file names, as a work tree's or submodule's does.
fn pointed_at(directory: &Path) -> Option<PathBuf> {
    let text = input::read_text(directory, 4096).ok()?;
    let target = text.strip_prefix("gitdir: ")?.trim_end();
    Some(directory.parent()?.join(target))
}

/// Settles the environment: nothing of the user's, nothing fetched, nothing asked, nothing locked.
fn guard(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
    // The second is for versions before 2.45, which do not know the first: no protocol is allowed.
    command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "");
}

fn lines(output: &mut dyn BufRead) -> Result<Vec<String>, String> {
    output.lines().collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// The next field, without the zero byte that ends it; nothing at the end.
fn field<'a>(output: &mut dyn BufRead, buffer: &'a mut Vec<u8>) -> Result<Option<&'a [u8]>, String> {
    buffer.clear();
    output.read_until(0, buffer).map_err(|error| error.to_string())?;
    match buffer.split_last() {
        None => Ok(None),
        Some((0, field)) => Ok(Some(field)),
        Some(_) => Err(format!("it ends within `{}`", String::from_utf8_lossy(buffer))),
    }
}

fn id(bytes: &[u8]) -> Option<&str> {
    let hex = matches!(bytes.len(), 40 | 64) && bytes.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(bytes).ok().filter(|_| hex)
}

/// Reads `MODE TYPE ID<tab>PATH<zero>`.
fn tree(output: &mut dyn BufRead, take: &mut dyn FnMut(Record<'_>)) -> Result<(), String> {
    let mut buffer = Vec::new();
    while let Some(entry) = field(output, &mut buffer)? {
        let strange = || format!("`{}` is not a tree entry", String::from_utf8_lossy(entry));
        let tab = entry.iter().position(|byte| *byte == b'\t').ok_or_else(strange)?;
        let mut words = entry[..tab].split(|byte| *byte == b' ');
        let (Some(_mode), Some(kind), Some(object)) = (words.next(), words.next(), words.next()) else {
            return Err(strange());
        };
        let blob = id(object).ok_or_else(strange)?;
        if kind == b"blob" {
            take(Record::Written { path: &entry[tab + 1..], blob });
        }
    }
    Ok(())
}

/// Reads `COMMIT<zero>`, and for each change `:MODE MODE ID ID STATUS<zero>PATH<zero>`.
fn raw(output: &mut dyn BufRead, take: &mut dyn FnMut(Record<'_>)) -> Result<(), String> {
    let (mut head, mut name) = (Vec::new(), Vec::new());
    while let Some(entry) = field(output, &mut head)? {
        let strange = || format!("`{}` is neither a commit nor a change", String::from_utf8_lossy(entry));
        let Some(change) = entry.strip_prefix(b":") else {
            take(Record::Commit(id(entry).ok_or_else(strange)?));
            continue;
        };
        let words: Vec<&[u8]> = change.split(|byte| *byte == b' ').collect();
        let [old_mode, new_mode, _, object, _] = words[..] else { return Err(strange()) };
        let blob = id(object).ok_or_else(strange)?;
        let Some(path) = field(output, &mut name)? else {
            return Err(format!("{} has no path", strange()));
        };
        let is_file = |mode: &[u8]| mode != NOTHING && mode != SUBMODULE;
        if is_file(new_mode) {
            take(Record::Written { path, blob });
        } else if is_file(old_mode) {
            take(Record::Removed { path });
        }
    }
    Ok(())
}

/// Reads `TYPE SIZE` or `ID missing`, a line each.
fn batch(output: &mut dyn BufRead) -> Result<Vec<Option<u64>>, String> {
    let mut sizes = Vec::new();
    for line in output.lines() {
        let line = line.map_err(|error| error.to_string())?;
        let size = match line.split_once(' ') {
            Some((_, "missing")) => None,
            Some(("blob", size)) => Some(size.parse().map_err(|_| format!("`{line}` has no size"))?),
            _ => return Err(format!("`{line}` is not a blob")),
        };
        sizes.push(size);
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "01d2cb9443af2f9ceb7aae41d92ae88643d1fe21";
    const TWO: &str = "9cdffc920cb2bb73e085c77164b312a9c04259ac";
    const ZERO: &str = "0000000000000000000000000000000000000000";

    type Parser = fn(&mut dyn BufRead, &mut dyn FnMut(Record<'_>)) -> Result<(), String>;

    fn reported(parse: Parser, text: &str) -> Result<Vec<String>, String> {
        let mut reported = Vec::new();
        let mut take = |record: Record<'_>| {
            reported.push(match record {
                Record::Commit(commit) => format!("commit {}", &commit[..2]),
                Record::Written { path, blob } => {
                    format!("{} = {}", String::from_utf8_lossy(path), &blob[..2])
                }
                Record::Removed { path } => format!("{} gone", String::from_utf8_lossy(path)),
            });
        };
        parse(&mut text.as_bytes(), &mut take)?;
        Ok(reported)
    }

    #[test]
    fn a_change_is_what_it_leaves_and_a_submodule_is_no_file() {
        let text = format!(
            "{TWO}\0:000000 100644 {ZERO} {ONE} A\0new\nline\0:100644 000000 {ONE} {ZERO} D\0d/old\0\
             :100644 100755 {ONE} {ONE} M\0mode\0{ONE}\0:120000 100644 {ONE} {TWO} T\0was a link\0\
             :000000 160000 {ZERO} {TWO} A\0sub\0:160000 160000 {ONE} {TWO} M\0sub\0:160000 000000 {TWO} {ZERO} D\0sub\0\
             :100644 160000 {ONE} {TWO} T\0turned\0:160000 120000 {ONE} {TWO} T\0back\0"
        );
        let wanted = [
            "commit 9c",
            "new\nline = 01",
            "d/old gone",
            "mode = 01",
            "commit 01",
            "was a link = 9c",
            "turned gone",
            "back = 9c",
        ];
        assert_eq!(reported(raw, &text).unwrap(), wanted);
        let text =
            format!("100644 blob {ONE}\ta\ttab\0160000 commit {TWO}\tsub\0120000 blob {TWO}\td/link\0");
        assert_eq!(reported(tree, &text).unwrap(), ["a\ttab = 01", "d/link = 9c"]);
    }

    #[test]
    fn what_is_cut_off_or_strange_is_refused() {
        let change = format!("{TWO}\0:000000 100644 {ZERO} {ONE} A\0path\0");
        let ends = [41, change.len()];
        for end in 1..change.len() {
            assert_eq!(reported(raw, &change[..end]).is_ok(), ends.contains(&end), "{end}");
        }
        for wrong in ["HEAD\0", ":100644 100644 1 2 M\0p\0", ":100644\0p\0"] {
            assert!(reported(raw, wrong).is_err(), "{wrong}");
        }
        for wrong in ["100644 blob\ta\0", &format!("100644 blob {ONE} a\0"), "100644 blob xyz\ta\0"] {
            assert!(reported(tree, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_come_in_order_and_missing_objects_are_told() {
        let text = format!("blob 3\n{ONE} missing\nblob 0\n");
        assert_eq!(batch(&mut text.as_bytes()).unwrap(), [Some(3), None, Some(0)]);
        for wrong in ["tree 34\n", "blob x\n", "\n"] {
            assert!(batch(&mut wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
