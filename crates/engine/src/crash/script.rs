//! A load that somebody wrote down: whether each operation can be done on the tree before it.

use fsage_model::crash::{CrashOperation, CrashScript, LARGEST_SCRIPTED_FILE_BYTES};

use super::generated::Generated;
use super::tree::{BLOCK, Node, Tree, parent};

/// Most names in all trees that a script goes through, all of which are kept.
const MOST_NAMES: usize = 1_000_000;

/// The load of a script; the identities of its files come from the seed.
///
/// # Errors
/// What cannot be done, and why.
pub fn generate(script: &CrashScript, seed: u64) -> Result<Generated, String> {
    let mut base = script.base.clone();
    base.push(CrashOperation::Sync);
    let (mut tree, mut names) = (Tree::new(seed), 0);
    for operation in base.iter().chain(&script.operations) {
        obstacle(&tree, operation)
            .map_or(Ok(()), |why| Err(format!("`{operation}` cannot be done: {why}")))?;
        tree.apply(operation);
        names += tree.names.len();
        if names > MOST_NAMES {
            return Err(format!(
                "`{operation}` cannot be done: so many names after so many operations take too much memory"
            ));
        }
    }
    Ok(Generated {
        root: String::new(),
        seed,
        base,
        operations: script.operations.clone(),
        updates: Vec::new(),
    })
}

/// Why an operation cannot be done on a tree.
fn obstacle(tree: &Tree, operation: &CrashOperation) -> Option<String> {
    let no_file = |path: &str| tree.file(path).is_none().then(|| format!("{path} is not a file"));
    let not_free = |path: &str| {
        let is_taken = tree.names.contains_key(path).then(|| format!("{path} already exists"));
        is_taken.or_else(|| no_parent(tree, path))
    };
    match operation {
        CrashOperation::Create { path } | CrashOperation::Mkdir { path } => not_free(path),
        CrashOperation::LinkUnnamed { path, length_bytes } => {
            let is_fine = (1..=LARGEST_SCRIPTED_FILE_BYTES).contains(length_bytes);
            not_free(path).or_else(|| (!is_fine).then(|| out_of_range(0, *length_bytes)))
        }
        CrashOperation::Write { path, offset_bytes, length_bytes }
        | CrashOperation::DirectWrite { path, offset_bytes, length_bytes }
        | CrashOperation::MappedWrite { path, offset_bytes, length_bytes }
        | CrashOperation::Punch { path, offset_bytes, length_bytes } => {
            no_file(path).or_else(|| wrong_range(tree, operation, *offset_bytes, *length_bytes))
        }
        CrashOperation::Allocate { path, size_bytes } | CrashOperation::Truncate { path, size_bytes } => {
            let is_fine = *size_bytes <= LARGEST_SCRIPTED_FILE_BYTES;
            let too_large = || (!is_fine).then(|| out_of_range(0, *size_bytes));
            no_file(path).or_else(too_large).or_else(|| not_whole(*size_bytes))
        }
        CrashOperation::Rename { from, to } => no_move(tree, from, to),
        CrashOperation::Exchange { from, to } => no_file(from).or_else(|| no_file(to)),
        CrashOperation::Link { from, to } => no_file(from).or_else(|| not_free(to)),
        CrashOperation::RemoveAttribute { path } => {
            let has_one = tree.contents(path).is_some_and(|held| held.attribute > 0);
            no_file(path).or_else(|| (!has_one).then(|| format!("{path} has no extended attribute")))
        }
        CrashOperation::Unlink { path }
        | CrashOperation::SetAttribute { path }
        | CrashOperation::Fsync { path }
        | CrashOperation::Fdatasync { path }
        | CrashOperation::WriteOut { path } => no_file(path),
        CrashOperation::Rmdir { path } => {
            let is_empty = tree.names.get(path) == Some(&Node::Directory) && !has_names(tree, path);
            (!is_empty).then(|| format!("{path} is not an empty directory"))
        }
        CrashOperation::FsyncDirectory { path } => no_directory(tree, path),
        CrashOperation::Sync => None,
    }
}

fn no_directory(tree: &Tree, path: &str) -> Option<String> {
    let is_directory = path.is_empty() || tree.names.get(path) == Some(&Node::Directory);
    (!is_directory).then(|| format!("{path} is not a directory"))
}

fn no_parent(tree: &Tree, path: &str) -> Option<String> {
    no_directory(tree, parent(path))
}

fn has_names(tree: &Tree, directory: &str) -> bool {
    let within = format!("{directory}/");
    tree.names.keys().any(|name| name.starts_with(&within))
}

fn not_whole(bytes: u64) -> Option<String> {
    (!bytes.is_multiple_of(BLOCK)).then(|| format!("{bytes} is not a multiple of {BLOCK}"))
}

fn out_of_range(offset: u64, length: u64) -> String {
    format!("{length} bytes at {offset} are not within 1 to {LARGEST_SCRIPTED_FILE_BYTES}")
}

/// A block has one version, so what is written ends with a block or with the file.
fn wrong_range(tree: &Tree, operation: &CrashOperation, offset: u64, length: u64) -> Option<String> {
    let size = tree.contents(operation.paths().0).map_or(0, |held| held.size_bytes);
    let Some(end) = offset.checked_add(length) else { return Some(out_of_range(offset, length)) };
    let at_end = match operation {
        CrashOperation::Write { .. } => end >= size,
        CrashOperation::MappedWrite { .. } if end > size => {
            return Some(format!("a mapped write ends within the file, whose size is {size}"));
        }
        CrashOperation::MappedWrite { .. } => end == size,
        _ => false,
    };
    if length == 0 || end > LARGEST_SCRIPTED_FILE_BYTES {
        return Some(out_of_range(offset, length));
    }
    not_whole(offset).or_else(|| not_whole(end).filter(|_| !at_end))
}

fn no_move(tree: &Tree, from: &str, to: &str) -> Option<String> {
    let same = || tree.file(from).is_some() && tree.file(from) == tree.file(to);
    let is_fine = match (tree.names.get(from), tree.names.get(to)) {
        (Some(Node::File(_)), target) => target != Some(&Node::Directory) && !same(),
        (Some(Node::Directory), target) => {
            let free = target.is_none() || (target == Some(&Node::Directory) && !has_names(tree, to));
            free && from != to && !to.starts_with(&format!("{from}/"))
        }
        (None, _) => return Some(format!("{from} is not there")),
    };
    no_parent(tree, to).or_else(|| (!is_fine).then(|| format!("{to} cannot be replaced by {from}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(text: &str) -> Result<Generated, String> {
        generate(&text.parse().unwrap(), 1)
    }

    #[test]
    fn a_script_is_what_it_says() {
        let load = generated("mkdir one\ncreate one/a\nwrite one/a 0+5000\n---\nrename one two\nfsync two/a")
            .unwrap();
        let tree = load.tree();
        assert_eq!((load.base.len(), load.operations.len()), (4, 2));
        assert!(tree.file("one/a").is_some(), "as it is before the load");
    }

    #[test]
    fn a_directory_is_renamed_with_what_is_in_it() {
        let text =
            "mkdir a\nmkdir a/b\ncreate a/b/c\ncreate ab\nmkdir d\n---\nrename a d\nunlink d/b/c\ncreate a";
        let load = generated(text).unwrap();
        let mut tree = load.tree();
        let file = tree.file("a/b/c");
        tree.apply(&load.operations[0]);
        assert!(file.is_some() && tree.file("d/b/c") == file);
        let names: Vec<&str> = tree.names.keys().map(String::as_str).collect();
        assert_eq!(names, ["ab", "d", "d/b", "d/b/c"]);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let base = "create a\nwrite a 0+8192\ncreate b\nlink b c\nmkdir one\ncreate one/x\n---\n";
        let refused = |operation: &str, why: &str| {
            let error = generated(&format!("{base}{operation}")).unwrap_err();
            assert!(error.contains(why), "{operation}: {error}");
        };
        for (operation, why) in [
            ("create a", "already exists"),
            ("mkdir one", "already exists"),
            ("link-unnamed a 0+1", "already exists"),
            ("link-unnamed d 0+0", "not within"),
            ("create two/a", "two is not a directory"),
            ("create a/b", "a is not a directory"),
            ("write d 0+1", "not a file"),
            ("write one 0+1", "not a file"),
            ("write a 1+8191", "multiple"),
            ("write a 0+100", "multiple"),
            ("write a 0+0", "not within"),
            ("write-direct a 0+100", "multiple"),
            ("write-mapped a 4096+8192", "within the file"),
            ("write-mapped a 0+100", "multiple"),
            ("punch a 0+100", "multiple"),
            ("allocate a 100", "multiple"),
            ("truncate a 100", "multiple"),
            ("rename d e", "not there"),
            ("rename a one", "cannot be replaced"),
            ("rename b c", "cannot be replaced"),
            ("rename one one/two", "cannot be replaced"),
            ("rename one a", "cannot be replaced"),
            ("rename a two/a", "not a directory"),
            ("exchange a one", "not a file"),
            ("link one d", "not a file"),
            ("link a b", "already exists"),
            ("unlink one", "not a file"),
            ("rmdir one", "not an empty directory"),
            ("rmdir a", "not an empty directory"),
            ("setxattr one", "not a file"),
            ("removexattr d", "not a file"),
            ("removexattr a", "no extended attribute"),
            ("fsync one", "not a file"),
            ("fsync a/", "not a directory"),
        ] {
            refused(operation, why);
        }
        let many: String = (0..1500).map(|number| format!("create {number}\n")).collect();
        refused(&many, "too much memory");
        let beyond = CrashOperation::Punch { path: "a".to_owned(), offset_bytes: u64::MAX, length_bytes: 2 };
        let create = vec![CrashOperation::Create { path: "a".to_owned() }];
        let error = generate(&CrashScript { base: create, operations: vec![beyond] }, 1).unwrap_err();
        assert!(error.contains("not within"), "{error}");
        for operation in ["write a 4096+5000", "write a 0+4096", "write-mapped a 4096+4096", "punch a 0+4096"]
        {
            generated(&format!("{base}{operation}")).unwrap();
        }
    }
}
