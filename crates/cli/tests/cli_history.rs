//! Real histories: repositories made with the system's git, trees and tar files, from their paths to the tree
//! on a volume.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod cli_support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{FSAGE, Mounted, Run, fsage, root, skip};
use fsage_lab::source::Contents;
use fsage_model::workload::{HistorySpec, RecordedHistory};
use serde_json::{Value, json};

fn run(directory: &Path, argv: &[&str]) -> String {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).current_dir(directory);
    // Within a hook git's own variables name the developer's repository.
    for (key, _) in std::env::vars_os().filter(|(key, _)| key.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(key);
    }
    for (key, value) in [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "safe.directory"),
        ("GIT_CONFIG_VALUE_0", "*"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
    ] {
        command.env(key, value);
    }
    let run = Run::of(&mut command);
    assert_eq!(run.code, 0, "{argv:?}: {run:?}");
    run.stdout
}

fn write(directory: &Path, name: &str, content: &str) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn commit(directory: &Path, message: &str) {
    run(directory, &["git", "add", "--all"]);
    run(directory, &["git", "commit", "--quiet", "--allow-empty", "--message", message]);
}

/// A repository with what there can be in one: 8 commits on the first-parent line.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    run(top, &["git", "init", "--quiet", "--initial-branch=main"]);
    write(top, "README", "hello\n");
    write(top, "src/deep/er/main.c", &"int main;\n".repeat(300));
    write(top, "src/empty", "");
    std::os::unix::fs::symlink("src/deep", top.join("link")).unwrap();
    commit(top, "begin");
    write(top, "name with\nlines and ünïcode \"q\"", "text");
    write(top, "src/deep/er/main.c", &"int main;\n".repeat(900));
    commit(top, "more");
    run(top, &["git", "checkout", "--quiet", "-b", "side"]);
    write(top, "side/one", "1");
    commit(top, "side one");
    write(top, "side/two", "22");
    commit(top, "side two");
    run(top, &["git", "checkout", "--quiet", "main"]);
    run(top, &["git", "mv", "src/deep/er/main.c", "src/renamed.c"]);
    commit(top, "rename");
    run(top, &["git", "merge", "--quiet", "--no-edit", "side"]);
    commit(top, "nothing");
    run(top, &["git", "rm", "--quiet", "README", "side/one"]);
    commit(top, "remove");
    // A file where a directory was, a directory where a file was, a file that comes back, a mode.
    run(top, &["git", "rm", "--quiet", "-r", "side"]);
    write(top, "side", "now a file");
    run(top, &["git", "rm", "--quiet", "src/empty"]);
    write(top, "src/empty/not", "any more");
    write(top, "README", "again");
    run(top, &["chmod", "+x", "src/renamed.c"]);
    commit(top, "turn");
    std::fs::remove_file(top.join("link")).unwrap();
    write(top, "link", "a file now");
    write(top, ".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n");
    let cache = format!("160000,{},sub", run(top, &["git", "rev-parse", "HEAD"]).trim());
    run(top, &["git", "add", "--all"]);
    run(top, &["git", "update-index", "--add", "--cacheinfo", &cache]);
    run(top, &["git", "commit", "--quiet", "--message", "submodule"]);
    folder
}

/// Sizes of a commit's files as git tells them to people, sorted.
fn sizes_at(repository: &Path, commit: &str) -> Vec<u64> {
    let listed = run(repository, &["git", "ls-tree", "-r", "-z", "-l", "--full-tree", commit]);
    let size = |entry: &str| entry.split('\t').next()?.split_whitespace().nth(3)?.parse().ok();
    let mut sizes: Vec<u64> = listed.split('\0').filter(|entry| !entry.is_empty()).filter_map(size).collect();
    sizes.sort_unstable();
    sizes
}

fn line(repository: &Path, last: &str) -> Vec<String> {
    let listed = run(repository, &["git", "log", "--reverse", "--first-parent", "--format=%H", last]);
    listed.lines().map(str::to_owned).collect()
}

fn recorded(history: &Value) -> Result<RecordedHistory, String> {
    let mut workload = json!({ "kind": "git", "history": history });
    Contents::default().embed(&mut workload).map_err(|refusal| refusal.error.to_string())?;
    match serde_json::from_value(workload["history"].take()).unwrap() {
        HistorySpec::Recorded(history) => Ok(history),
        HistorySpec::Synthetic(_) => Err("not recorded".to_owned()),
    }
}

/// Sizes of each state's files, sorted.
fn states(history: &RecordedHistory) -> Vec<Vec<u64>> {
    let mut files = BTreeMap::new();
    let state = |commit: &fsage_model::workload::RecordedCommit| {
        for (path, size) in &commit.written {
            files.insert(*path, size.0);
        }
        for path in &commit.removed {
            assert!(files.remove(path).is_some(), "{path} was not there");
        }
        let mut sizes: Vec<u64> = files.values().copied().collect();
        sizes.sort_unstable();
        sizes
    };
    history.commits.iter().map(state).collect()
}

/// This project's own work tree, where it is one with a history.
fn own_repository() -> Option<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    if !top.join(".git").exists() {
        skip("this is no git work tree");
        return None;
    }
    let commits = line(&top, "HEAD").len();
    if commits < 2 {
        skip(format!("a history of {commits} commits is too short"));
        return None;
    }
    Some(top)
}

/// What `git` on a mounted volume leaves: the sizes of each clone's work tree, sorted.
fn clones(below: &Path) -> Vec<Vec<u64>> {
    let directories = |path: &Path| {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        // More than four digits come after four.
        found.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        found
    };
    let work_tree = |top: &PathBuf| {
        let mut sizes = Vec::new();
        // Numbers rise, and a clone's own files are begun before its work tree.
        let own = directories(top).first().cloned().unwrap();
        let mut pending = vec![top.clone()];
        while let Some(directory) = pending.pop() {
            pending.extend(directories(&directory).into_iter().filter(|path| *path != own));
            let entries =
                std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
            sizes.extend(entries.filter(std::fs::Metadata::is_file).map(|facts| facts.len()));
        }
        sizes.sort_unstable();
        sizes
    };
    directories(&below.join("t00")).iter().map(work_tree).collect()
}

/// Empty files are made with one byte.
fn as_made(sizes: &[u64]) -> Vec<u64> {
    let mut sizes: Vec<u64> = sizes.iter().map(|size| (*size).max(1)).collect();
    sizes.sort_unstable();
    sizes
}

fn age(directory: &str, repository: &Path, more: &[&str]) -> Run {
    let path = format!("history.path={}", repository.display());
    let fixed =
        ["age", directory, "--json", "--workload", "git", "--set", "history.kind=repository", "--set", &path];
    let ends = ["--set", "steps=1000000", "--operations", "10000000"];
    fsage(&[&fixed[..], more, &ends[..]].concat())
}

#[test]
fn every_state_is_what_git_says_of_its_commit() {
    let repository = repository();
    let top = repository.path();
    let commits = line(top, "HEAD");
    let history = recorded(&json!({ "kind": "repository", "path": top })).unwrap();
    let states_found = states(&history);
    assert_eq!((states_found.len(), commits.len()), (8, 8));
    for (state, commit) in states_found.iter().zip(&commits) {
        assert_eq!(*state, sizes_at(top, commit), "{commit}");
    }
    assert_eq!(history.paths.len(), 11, "README has one number though it was gone");

    let bare = tempfile::tempdir().unwrap();
    run(bare.path(), &["git", "clone", "--quiet", "--bare", top.to_str().unwrap(), "bare"]);
    let path = bare.path().join("bare");
    assert_eq!(recorded(&json!({ "kind": "repository", "path": path })).unwrap(), history);
    let linked = bare.path().join("linked");
    run(top, &["git", "worktree", "add", "--quiet", "--detach", linked.to_str().unwrap()]);
    assert_eq!(recorded(&json!({ "kind": "repository", "path": linked })).unwrap(), history);

    let url = format!("file://{}", top.display());
    run(bare.path(), &["git", "clone", "--quiet", "--depth", "3", &url, "shallow"]);
    let shallow = recorded(&json!({ "kind": "repository", "path": bare.path().join("shallow") })).unwrap();
    assert_eq!(states(&shallow), states_found[5..]);

    let part =
        json!({ "kind": "repository", "path": top, "from": commits[2], "revision": "main~1", "commits": 3 });
    assert_eq!(states(&recorded(&part).unwrap()), states_found[2..5]);
}

#[test]
fn a_repository_that_cannot_be_taken_says_why() {
    let repository = repository();
    let top = repository.path();
    let refused = |more: Value| {
        let mut source = json!({ "kind": "repository", "path": top });
        source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        recorded(&source).unwrap_err()
    };
    assert!(refused(json!({ "revision": "nowhere" })).starts_with("`nowhere` is not a commit"));
    assert!(refused(json!({ "revision": "--all" })).starts_with("`--all` is not a commit"));
    assert!(refused(json!({ "from": "side" })).starts_with("`side` is not on the first-parent line"));
    assert!(refused(json!({ "from": "HEAD" })).starts_with("only 1 commit leads to `HEAD`"));
    assert!(refused(json!({ "commits": 1 })).starts_with("1 is too few"));
    assert!(refused(json!({ "path": "/nonexistent" })).contains("there is no such folder"));
    let empty = tempfile::tempdir().unwrap();
    let error = refused(json!({ "path": empty.path() }));
    assert!(error.contains("is not a repository: ") && error.contains("not a git repository"), "{error}");
    // Nothing is looked for further up.
    assert!(refused(json!({ "path": top.join("src") })).contains("is not a repository"));
    run(empty.path(), &["git", "init", "--quiet"]);
    assert!(refused(json!({ "path": empty.path() })).starts_with("`HEAD` is not a commit"));

    let partial = tempfile::tempdir().unwrap();
    run(top, &["git", "config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", top.display());
    run(partial.path(), &["git", "clone", "--quiet", "--bare", "--filter=blob:none", &url, "p"]);
    let error = refused(json!({ "path": partial.path().join("p") }));
    assert!(error.contains("lacks some contents of its files"), "{error}");
}

#[test]
fn nothing_that_a_repository_names_is_run() {
    let repository = repository();
    let top = repository.path();
    let mark = top.join("was-run");
    let trap = top.join("trap");
    std::fs::write(&trap, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    run(top, &["chmod", "+x", "trap"]);
    let trap = trap.to_str().unwrap();
    for (key, value) in [
        ("core.fsmonitor", trap),
        ("core.pager", trap),
        ("core.sshCommand", trap),
        ("diff.external", trap),
        ("gpg.program", trap),
        ("log.showSignature", "true"),
        ("diff.renames", "copies"),
        ("diff.relative", "true"),
        ("log.showRoot", "false"),
        ("alias.rev-list", &format!("!{trap}")),
    ] {
        run(top, &["git", "config", key, value]);
    }
    let history = recorded(&json!({ "kind": "repository", "path": top })).unwrap();
    assert_eq!(history.commits.len(), 8);
    assert!(!mark.exists());
    if !root() {
        return;
    }
    // A user's repository, read by root.
    run(top, &["chown", "--recursive", "nobody", "."]);
    let plain = Run::of(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(top));
    assert_ne!(plain.code, 0, "git alone refuses it: {plain:?}");
    assert_eq!(recorded(&json!({ "kind": "repository", "path": top })).unwrap(), history);
}

#[test]
fn the_clones_on_a_volume_are_what_git_would_check_out() {
    if !root() {
        return;
    }
    let repository = repository();
    let mounted = Mounted::ext4("64M");
    let result = age(&mounted.join(""), repository.path(), &["--set", "fill=0.08"]).result();
    assert!(result["failed"].as_object().is_some_and(serde_json::Map::is_empty), "{result}");
    let found = clones(&mounted.path());
    assert!(found.len() > 10, "{} clones", found.len());
    let wanted = as_made(&sizes_at(repository.path(), "HEAD"));
    assert!(found.iter().all(|clone| *clone == wanted), "{found:?} instead of {wanted:?}");
}

#[test]
fn this_projects_own_history_is_followed_to_its_end() {
    let Some(top) = own_repository() else { return };
    let commits = line(&top, "HEAD");
    let history = recorded(&json!({ "kind": "repository", "path": top })).unwrap();
    let states = states(&history);
    assert_eq!(states.len(), commits.len());
    for at in [0, states.len() / 2, states.len() - 1] {
        assert_eq!(states[at], sizes_at(&top, &commits[at]), "{}", commits[at]);
    }
    if !root() {
        return;
    }
    let mounted = Mounted::ext4("512M");
    let from = format!("history.from={}", commits[commits.len() - commits.len().min(30)]);
    let result = age(&mounted.join(""), &top, &["--set", "fill=0.15", "--set", &from]).result();
    assert!(result["failed"].as_object().is_some_and(serde_json::Map::is_empty), "{result}");
    let found = clones(&mounted.path());
    assert!(!found.is_empty());
    let wanted = as_made(states.last().unwrap());
    for clone in &found {
        assert_eq!(clone.len(), wanted.len());
        assert_eq!(*clone, wanted);
    }
}

/// Two states of a tree, the second also as tar files of several formats.
struct Days {
    folder: tempfile::TempDir,
}

impl Days {
    fn new() -> Self {
        let days = Self { folder: tempfile::tempdir().unwrap() };
        let day = days.path("monday");
        write(&day, "same", "the same");
        write(&day, "a/grows", "1");
        write(&day, "a/touched", "t");
        write(&day, "a/b/goes", "gone tomorrow");
        write(&day, "empty", "");
        std::os::unix::fs::symlink("same", day.join("link")).unwrap();
        std::fs::hard_link(day.join("same"), day.join("second")).unwrap();
        run(days.folder.path(), &["cp", "-a", "monday", "tuesday"]);
        let day = days.path("tuesday");
        write(&day, "a/grows", "123");
        run(&day, &["touch", "-d", "2001-01-01", "a/touched"]);
        std::fs::remove_dir_all(day.join("a/b")).unwrap();
        write(&day, &format!("new/{}end", "long/name/".repeat(15)), "new");
        run(&day, &["truncate", "--size=3M", "sparse"]);
        days
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn history(&self, names: &[&str]) -> Result<RecordedHistory, String> {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
        recorded(&json!({ "kind": "listings", "paths": paths }))
    }

    /// Sizes of all but directories, sorted.
    fn sizes(&self, name: &str) -> Vec<u64> {
        let found = run(&self.path(name), &["find", ".", "!", "-type", "d", "-printf", "%s\n"]);
        let mut sizes: Vec<u64> = found.lines().map(|line| line.parse().unwrap()).collect();
        sizes.sort_unstable();
        sizes
    }

    fn tar(&self, name: &str, more: &[&str]) {
        run(self.folder.path(), &[&["tar", "--create", "--file", name], more].concat());
    }
}

#[test]
fn directories_and_tar_files_of_one_tree_are_one_listing() {
    let days = Days::new();
    days.tar("gnu.tar", &["--format=gnu", "tuesday"]);
    days.tar("pax.tar", &["--format=pax", "--sparse", "--directory=tuesday", "."]);
    days.tar("sparse.tar", &["--format=gnu", "--sparse", "tuesday"]);
    days.tar("pax.tar.gz", &["--gzip", "--format=pax", "tuesday"]);
    let wanted = days.history(&["monday", "tuesday"]).unwrap();
    assert_eq!(states(&wanted), [days.sizes("monday"), days.sizes("tuesday")]);
    assert_eq!((wanted.commits[1].written.len(), wanted.commits[1].removed.len()), (4, 1));
    for name in ["gnu.tar", "pax.tar", "sparse.tar", "pax.tar.gz"] {
        assert_eq!(days.history(&["monday", name]).unwrap(), wanted, "{name}");
    }
    let there_and_back = days.history(&["monday", "pax.tar", "gnu.tar", "monday"]).unwrap();
    assert_eq!(there_and_back.commits[2], fsage_model::workload::RecordedCommit::default());
    assert_eq!(states(&there_and_back)[3], days.sizes("monday"));

    let whole = std::fs::read(days.path("gnu.tar")).unwrap();
    std::fs::write(days.path("cut.tar"), &whole[..2000]).unwrap();
    let error = days.history(&["monday", "cut.tar"]).unwrap_err();
    assert!(error.contains("cut.tar` is not a complete tar file: at byte "), "{error}");
    assert!(days.history(&["monday", "nowhere"]).unwrap_err().contains("cannot read"));
    assert!(days.history(&["monday"]).unwrap_err().contains("at least 2 listings"));
    assert!(days.history(&["monday", "monday/same"]).unwrap_err().contains("at byte 0: it ends 8 bytes"));
}

#[test]
fn a_top_directory_counts_only_where_all_tar_files_have_one() {
    let days = Days::new();
    days.tar("one.tar", &["--directory=monday", "a"]);
    days.tar("more.tar", &["--directory=monday", "a", "same"]);
    for names in [["one.tar", "more.tar"], ["more.tar", "one.tar"]] {
        let history = days.history(&names).unwrap();
        let changes = &history.commits[1];
        assert_eq!(changes.written.len() + changes.removed.len(), 1, "{names:?}: `same` comes or goes");
    }
}

#[test]
fn snapshots_leaves_the_last_listing_on_the_volume() {
    if !root() {
        return;
    }
    let days = Days::new();
    days.tar("wednesday.tar", &["--format=pax", "--directory=monday", "."]);
    let names = ["tuesday", "monday", "wednesday.tar", "tuesday"];
    let paths = names.map(|name| format!("{:?}", days.path(name)));
    let paths = format!("history.paths=[{}]", paths.join(", "));
    let mounted = Mounted::ext4("64M");
    let result = fsage(&[
        "age",
        &mounted.join(""),
        "--json",
        "--workload",
        "snapshots",
        "--set",
        "history.kind=listings",
        "--set",
        &paths,
        "--operations",
        "100000",
    ])
    .result();
    assert!(result["failed"].as_object().is_some_and(serde_json::Map::is_empty), "{result}");
    let found = run(&mounted.path().join("t00"), &["find", ".", "-type", "f", "-printf", "%s\n"]);
    let mut found: Vec<u64> = found.lines().map(|line| line.parse().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, as_made(&days.sizes("tuesday")));
}

/// A repository that leads git to a file of root's, and what a command says that reads its history.
fn alternates_to(secret: &Path, owner: Option<u32>) -> (tempfile::TempDir, Run) {
    let repository = repository();
    let top = repository.path();
    let tree = run(top, &["git", "rev-parse", "HEAD~1^{tree}"]);
    let (folder, name) = tree.trim().split_at(2);
    std::fs::remove_file(top.join(".git/objects").join(folder).join(name)).unwrap();
    std::os::unix::fs::symlink(secret, top.join(".git/objects/info/alternates")).unwrap();
    if let Some(owner) = owner {
        std::fs::set_permissions(top, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        run(top, &["chown", "--recursive", "--no-dereference", &owner.to_string(), "."]);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut age = Command::new(FSAGE);
    age.args(["age"]).arg(folder.path()).args(["--workload", "git", "--operations", "10"]);
    age.args(["--set", "history.kind=repository", "--set", &format!("history.path={}", top.display())]);
    (repository, Run::of(&mut age))
}

#[test]
fn a_repository_makes_fsage_show_nothing_of_the_files_it_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "root:$y$HASH:19000::\nadmin:$y$OTHER:1::\n").unwrap();
    let root = rustix::process::geteuid().is_root();
    for owner in [None, root.then_some(65534)] {
        let (_repository, run) = alternates_to(&secret, owner);
        assert_ne!(run.code, 0, "{run:?}");
        assert!(!run.stderr.contains("HASH") && !run.stderr.contains("OTHER"), "{run:?}");
        assert!(run.stderr.contains("fsck"), "{run:?}");
    }
}

#[test]
fn a_strangers_repository_is_read_as_the_stranger() {
    if !root() {
        return;
    }
    let repository = repository();
    let top = repository.path();
    std::fs::set_permissions(top, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    run(top, &["chown", "--recursive", "65534", "."]);
    let read = || {
        let folder = tempfile::tempdir().unwrap();
        let mut age = Command::new(FSAGE);
        age.args(["age"]).arg(folder.path()).args(["--workload", "git", "--operations", "10"]);
        age.args(["--set", "history.kind=repository", "--set", &format!("history.path={}", top.display())]);
        Run::of(&mut age)
    };
    assert_eq!(read().code, 0);
    // What the stranger cannot read, git does not read for him.
    run(top, &["chown", "0", ".git/HEAD"]);
    std::fs::set_permissions(top.join(".git/HEAD"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    let refused = read();
    assert!(refused.code != 0 && refused.stderr.contains("as user 65534"), "{refused:?}");
}
