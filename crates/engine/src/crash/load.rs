//! The operations of a load, all of them known beforehand: the same seed gives the same ones on any file
//! system.

use fsage_model::crash::{CrashLoad, CrashLoadSpec, CrashOperation, MOST_THREADS, UpdateWay};

use super::append;
use super::data;
use super::generated::{Dice, Generated, MOST_BLOCKS};
use super::history::Update;
use super::sequences;
use super::tree::{BLOCK, Node, Tree};

/// The operations of a load; none of one that another program does.
pub fn generate(spec: CrashLoadSpec) -> Option<Generated> {
    let mut random = Dice::new(spec.seed);
    Some(match spec.load {
        CrashLoad::Update => update(spec, &mut random),
        CrashLoad::Metadata => metadata(spec, "", &mut random),
        CrashLoad::Sequences => sequences::load(spec.seed, spec.size, &mut random),
        CrashLoad::Data => data::load(spec, &mut random),
        CrashLoad::Append => append::load(spec, &mut random),
        CrashLoad::Database => return None,
    })
}

/// The same for each thread of it, in a directory of its own where there are several.
pub fn generate_threads(spec: CrashLoadSpec) -> Option<Vec<Generated>> {
    if spec.threads < 2 || spec.load != CrashLoad::Metadata {
        return Some(vec![generate(spec)?]);
    }
    let of = |thread: u32| {
        let seed = spec.seed.wrapping_mul(u64::from(MOST_THREADS)).wrapping_add(u64::from(thread));
        let size = spec.size / spec.threads + u32::from(thread < spec.size % spec.threads);
        metadata(CrashLoadSpec { seed, size, ..spec }, &format!("t{thread}"), &mut Dice::new(seed))
    };
    Some((0..spec.threads).map(of).collect())
}

fn create(path: &str) -> CrashOperation {
    CrashOperation::Create { path: path.to_owned() }
}

fn write(path: &str, length_bytes: u64) -> CrashOperation {
    CrashOperation::Write { path: path.to_owned(), offset_bytes: 0, length_bytes }
}

fn fsync(path: &str) -> CrashOperation {
    CrashOperation::Fsync { path: path.to_owned() }
}

fn update(spec: CrashLoadSpec, random: &mut Dice) -> Generated {
    let mut generated = Generated {
        root: String::new(),
        seed: spec.seed,
        base: Vec::new(),
        operations: Vec::new(),
        updates: Vec::new(),
    };
    let path = |way: UpdateWay, round| format!("{}-{round}", way.name());
    let mut sizes = Vec::new();
    for round in 0..spec.size {
        for way in UpdateWay::ALL {
            let size = random.size();
            sizes.push((round, way, size));
            generated.base.extend([create(&path(way, round)), write(&path(way, round), size)]);
        }
    }
    generated.base.push(CrashOperation::Sync);
    for (round, way, old) in sizes {
        let (path, first) = (path(way, round), generated.operations.len());
        let size = if way == UpdateWay::InPlace { old } else { random.size() };
        generated.operations.extend(replace(way, &path, size));
        let operations = first..generated.operations.len();
        generated.updates.push(Update { path, way, operations });
        // At the end of a round, but not of each: else nothing would be left to a later one.
        if way == UpdateWay::WriteFsyncRenameFsync && random.below(2) == 0 {
            generated.operations.push(CrashOperation::Sync);
        }
    }
    generated
}

/// Replaces what a file holds.
fn replace(way: UpdateWay, path: &str, size: u64) -> Vec<CrashOperation> {
    let temporary = format!("{path}.new");
    let rename = || CrashOperation::Rename { from: temporary.clone(), to: path.to_owned() };
    let other = || [create(&temporary), write(&temporary, size)].into_iter();
    match way {
        UpdateWay::InPlace => vec![write(path, size), fsync(path)],
        UpdateWay::TruncateWrite => {
            let truncate = CrashOperation::Truncate { path: path.to_owned(), size_bytes: 0 };
            vec![truncate, write(path, size), fsync(path)]
        }
        UpdateWay::WriteRename => other().chain([rename()]).collect(),
        UpdateWay::WriteFsyncRename => other().chain([fsync(&temporary), rename()]).collect(),
        UpdateWay::WriteFsyncRenameFsync => {
            let directory = CrashOperation::FsyncDirectory { path: String::new() };
            other().chain([fsync(&temporary), rename(), directory]).collect()
        }
    }
}

/// Names that `metadata` uses in each directory.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const DIRECTORIES: [&str; 4] = ["", "one", "two", "one/deep"];

/// A path below a directory; either may be empty.
fn join(directory: &str, path: &str) -> String {
    if directory.is_empty() || path.is_empty() {
        format!("{directory}{path}")
    } else {
        format!("{directory}/{path}")
    }
}

/// In the directory `root`; empty: the load's own.
fn metadata(spec: CrashLoadSpec, root: &str, random: &mut Dice) -> Generated {
    let mkdir = |path: &str| CrashOperation::Mkdir { path: join(root, path) };
    let mut base: Vec<CrashOperation> =
        ["", "one"].iter().filter(|path| !join(root, path).is_empty()).map(|path| mkdir(path)).collect();
    for path in ["a", "b", "one/a", "one/b"] {
        let path = join(root, path);
        base.extend([create(&path), write(&path, random.size())]);
    }
    base.push(CrashOperation::Sync);
    Generated {
        root: root.to_owned(),
        ..Generated::random(spec, base, random, |tree, random| next(tree, root, random))
    }
}

/// An operation in `root` that can be done on this tree; none where what was drawn cannot.
fn next(tree: &Tree, root: &str, random: &mut Dice) -> Option<CrashOperation> {
    let all = DIRECTORIES.map(|path| join(root, path));
    let files: Vec<&String> =
        tree.names.iter().filter(|(_, node)| **node != Node::Directory).map(|(path, _)| path).collect();
    let is_directory = |path: &str| path.is_empty() || tree.names.get(path) == Some(&Node::Directory);
    let directories: Vec<&String> = all.iter().filter(|path| is_directory(path)).collect();
    let directory = (*random.pick(&directories)?).clone();
    let name = random.pick(&NAMES)?;
    let new = join(&directory, name);
    let old = random.pick(&files).map(|path| (*path).clone());
    let is_new = !tree.names.contains_key(&new);
    match random.below(100) {
        0..18 => is_new.then(|| create(&new)),
        18..38 => overwrite(tree, &old?, random),
        38..42 => {
            let path = old?;
            let blocks = tree.contents(&path)?.size_bytes / BLOCK;
            Some(CrashOperation::Truncate { path, size_bytes: random.below(blocks + 1) * BLOCK })
        }
        42..56 => {
            let from = old?;
            // Onto another name of the same file nothing would happen.
            let ok = tree.names.get(&new) != Some(&Node::Directory) && tree.file(&new) != tree.file(&from);
            ok.then_some(CrashOperation::Rename { from, to: new })
        }
        56..62 => Some(CrashOperation::Link { from: old?, to: new }).filter(|_| is_new),
        62..71 => Some(CrashOperation::Unlink { path: old? }),
        71..75 => {
            let path =
                all.iter().find(|path| !is_directory(path) && is_directory(super::tree::parent(path)))?;
            Some(CrashOperation::Mkdir { path: path.clone() })
        }
        75..77 => {
            let within = format!("{directory}/");
            let empty = !tree.names.keys().any(|path| path.starts_with(&within));
            (empty && directory != root).then_some(CrashOperation::Rmdir { path: directory })
        }
        77..87 => Some(fsync(&old?)),
        87..90 => Some(CrashOperation::Fdatasync { path: old? }),
        90..98 => Some(CrashOperation::FsyncDirectory { path: directory }),
        _ => Some(CrashOperation::Sync),
    }
}

/// Overwrites a file from some block on, to its end or beyond.
fn overwrite(tree: &Tree, path: &str, random: &mut Dice) -> Option<CrashOperation> {
    let size = tree.contents(path)?.size_bytes;
    let offset_bytes = random.below(size / BLOCK + 1) * BLOCK;
    let end = size.max(offset_bytes + random.size()).min(MOST_BLOCKS * BLOCK);
    let length_bytes = end.checked_sub(offset_bytes).filter(|length| *length > 0)?;
    Some(CrashOperation::Write { path: path.to_owned(), offset_bytes, length_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(load: CrashLoad, seed: u64) -> CrashLoadSpec {
        CrashLoadSpec { load, size: 300, seed, threads: 1 }
    }

    #[test]
    fn the_same_seed_gives_the_same_operations() {
        let of = |load, seed| generate(spec(load, seed)).map(|generated| generated.operations);
        for load in CrashLoad::ALL {
            assert_eq!(of(load, 5).is_some(), CrashLoad::GENERATED.contains(&load), "{}", load.name());
        }
        for load in CrashLoad::GENERATED {
            assert_eq!(of(load, 5), of(load, 5));
            assert_ne!(of(load, 5), of(load, 6));
        }
    }

    #[test]
    fn every_operation_can_be_done_and_every_kind_comes() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..4 {
            let generated = generate(spec(CrashLoad::Metadata, seed)).unwrap();
            assert_eq!(generated.operations.len(), 300);
            let mut tree = generated.tree();
            for operation in &generated.operations {
                let text = operation.to_string();
                let words: Vec<&str> = text.split(' ').collect();
                kinds.insert((*words.first().unwrap()).to_owned());
                match operation {
                    CrashOperation::Create { path } | CrashOperation::Mkdir { path } => {
                        assert!(!tree.names.contains_key(path), "{text}");
                    }
                    CrashOperation::Rename { from, to } | CrashOperation::Link { from, to } => {
                        assert!(tree.file(from).is_some() && tree.file(from) != tree.file(to), "{text}");
                    }
                    CrashOperation::Write { path, offset_bytes, length_bytes } => {
                        let size = tree.contents(path).unwrap().size_bytes;
                        assert!(offset_bytes + length_bytes >= size && *length_bytes > 0, "{text}");
                    }
                    _ => {}
                }
                tree.apply(operation);
            }
        }
        assert_eq!(kinds.len(), 11, "{kinds:?}");
    }

    /// As `fsage crash --keep` writes it down.
    #[test]
    fn every_load_is_a_script() {
        for load in CrashLoad::GENERATED {
            let generated = generate(CrashLoadSpec { size: load.default_size(), ..spec(load, 7) }).unwrap();
            let base = generated.base.strip_suffix(&[CrashOperation::Sync]).unwrap();
            let lines = |operations: &[CrashOperation]| -> String {
                operations.iter().map(|operation| format!("{operation}\n")).collect()
            };
            let text = format!("{}---\n{}", lines(base), lines(&generated.operations));
            let read = super::super::script::generate(&text.parse().unwrap(), 7).unwrap();
            assert_eq!(
                (read.base, read.operations),
                (generated.base, generated.operations),
                "{}",
                load.name()
            );
        }
    }

    #[test]
    fn every_thread_has_operations_of_its_own_in_its_own_directory() {
        let spec = CrashLoadSpec { threads: 3, size: 100, ..spec(CrashLoad::Metadata, 5) };
        let parts = generate_threads(spec).unwrap();
        let sizes: Vec<usize> = parts.iter().map(|part| part.operations.len()).collect();
        assert_eq!(sizes, [34, 33, 33]);
        let mut files = std::collections::BTreeSet::new();
        for part in &parts {
            let mut tree = part.tree();
            for operation in &part.operations {
                let (path, other) = operation.paths();
                let is_within = |path: &str| super::super::known::is_within(path, &part.root);
                let is_own = is_within(path) && other.is_none_or(is_within);
                assert!(is_own || *operation == CrashOperation::Sync, "{}: {operation}", part.root);
                tree.apply(operation);
            }
            files.extend(tree.files.keys().copied());
        }
        let all: usize = parts.iter().map(|part| part.tree().files.len()).sum();
        assert!(files.len() > all, "no file of two threads has one identity");
        assert_eq!(generate_threads(CrashLoadSpec { threads: 1, ..spec }).unwrap().len(), 1);
    }

    #[test]
    fn updates_name_their_operations() {
        let generated = generate(spec(CrashLoad::Update, 1)).unwrap();
        assert_eq!(generated.updates.len(), 300 * 5);
        for update in &generated.updates {
            let operations = generated.operations.get(update.operations.clone()).unwrap();
            assert!(operations.iter().any(|operation| operation.to_string().contains(&update.path)));
        }
    }
}
