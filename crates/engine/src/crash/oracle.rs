//! What is there after a cut against what was promised.
//!
//! Of each name and each file the trees from its floor to the last that may have begun are candidates
//! ([`super::history`]): a name must lead to what it led to in one of them, a file's size must lie between
//! those that it had in them, and each of its blocks must hold what it held in one of them, or zeros where
//! in one of them nothing was written there. So a mixture of old and new blocks is no damage where nothing
//! was synced between them; bytes that are nobody's, or another file's, always are.
//!
//! **Known limits.** Candidates of different names and blocks are not held against each other, but for
//! files that vanish or multiply by renaming. Which operations reached the medium together is not checked.

use std::collections::{BTreeMap, BTreeSet};

use fsage_content::{BLOCK_BYTES, Block, recognise};
use fsage_model::crash::{Damage, DamageKind, KnownFinding, UpdateOutcome, UpdateWay};

use super::history::{Floors, History};
use super::known;
use super::links::{Links, OldNames};
use super::tree::{ATTRIBUTE_OFFSET, Contents, Identity, Node, Written, block_bytes, parent};

/// A file that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundFile {
    /// What it holds.
    pub bytes: Vec<u8>,
    /// The value of its extended attribute, if it has one.
    pub attribute: Option<Vec<u8>>,
    /// The number of its inode, which names of one file share; 0: not known.
    pub inode: u64,
}

/// What was found under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A directory.
    Directory,
    /// A file.
    File(FoundFile),
    /// Neither, or it cannot be read: why.
    Unreadable(String),
}

/// Everything below the load's directory.
pub type FoundTree = BTreeMap<String, Found>;

/// What the comparison says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What is not as promised.
    pub damage: Vec<Damage>,
    /// What became of files that may have been either.
    pub updates: Vec<(UpdateWay, UpdateOutcome)>,
    /// Names that were compared.
    pub compared: u64,
}

/// Compares.
pub fn judge(history: &History, floors: &Floors, found: &FoundTree) -> Judgement {
    let mut renamed = known::renamed_directories(history, floors);
    // By its old path, and in every other way as it should be.
    renamed.retain(|(from, to)| {
        relocated(found, from, to).is_some_and(|found| {
            let damage = compare(history, floors, &found, Vec::new()).damage;
            damage.iter().all(|damage| [from, to].iter().all(|path| !known::is_within(&damage.path, path)))
        })
    });
    compare(history, floors, found, renamed)
}

fn compare(history: &History, floors: &Floors, found: &FoundTree, old_paths: Vec<(&str, &str)>) -> Judgement {
    let (judgement, right) = (Judgement::default(), BTreeSet::new());
    let mut judge = Judge { history, floors, found, judgement, right, old_paths };
    // A name that was gone before is asked for only where it is there.
    let mut names = history.all_names(floors.all(), floors.last);
    names.extend(found.keys().map(String::as_str));
    for name in names {
        judge.name(name);
    }
    judge.renamed();
    judge.updates();
    judge.judgement
}

/// What was found, with the directory `from` as `to`; none where there is no such directory, or both have the same name in them.
fn relocated(found: &FoundTree, from: &str, to: &str) -> Option<FoundTree> {
    if found.get(from) != Some(&Found::Directory) {
        return None;
    }
    let mut moved = FoundTree::new();
    for (name, what) in found {
        let name = known::moved(name, from, to).unwrap_or_else(|| name.clone());
        let before = moved.insert(name.clone(), what.clone());
        if before.is_some_and(|_| name != to) {
            return None;
        }
    }
    Some(moved)
}

/// What is wrong with a name or a file.
#[derive(Debug)]
struct Wrong {
    kind: DamageKind,
    what: String,
    pattern: Option<KnownFinding>,
}

impl Wrong {
    const fn new(kind: DamageKind, what: String) -> Self {
        Self { kind, what, pattern: None }
    }
}

impl known::Whereabouts for Judge<'_> {
    fn is_at(&self, name: &str, node: Node) -> bool {
        // Of an empty file only its name says which it is.
        let may_be_empty =
            |file| self.history.held(file, 0, self.floors.last).iter().any(|held| held.size_bytes == 0);
        match (self.found.get(name), node) {
            (Some(Found::File(found)), Node::File(file)) if found.bytes.is_empty() => may_be_empty(file),
            (Some(Found::File(found)), Node::File(file)) => sole_owner(&found.bytes) == Some(file),
            (found, Node::Directory) => found == Some(&Found::Directory),
            _ => false,
        }
    }

    fn is_somewhere(&self, file: Identity) -> bool {
        self.files().any(|(_, found)| sole_owner(&found.bytes) == Some(file))
    }
}

struct Judge<'a> {
    history: &'a History,
    floors: &'a Floors,
    found: &'a FoundTree,
    judgement: Judgement,
    /// Files that are where they may be.
    right: BTreeSet<Identity>,
    /// Directories that have their old path by a known finding: the old and the new one.
    old_paths: Vec<(&'a str, &'a str)>,
}

impl<'a> Judge<'a> {
    fn damage(&mut self, kind: DamageKind, path: &str, what: impl Into<String>) {
        self.matched(path, Wrong { kind, what: what.into(), pattern: None });
    }

    fn matched(&mut self, path: &str, wrong: Wrong) {
        let Wrong { kind, what, pattern } = wrong;
        self.judgement.damage.push(Damage { kind, path: path.to_owned(), what, pattern });
    }

    fn name(&mut self, name: &str) {
        let parent = parent(name);
        if !parent.is_empty() && self.found.get(parent) != Some(&Found::Directory) {
            // Whether its directory must be there is asked of that.
            return;
        }
        self.judgement.compared += 1;
        let floor = self.floors.name(name);
        let nodes = self.history.nodes(name, floor, self.floors.last);
        match self.found.get(name) {
            Some(Found::Unreadable(why)) => self.damage(DamageKind::Use, name, why.clone()),
            None if nodes.contains(&None) => {}
            None => {
                let pattern = self.is_gone_by(name);
                let what = self.since(floor, "is gone");
                self.matched(name, Wrong { kind: DamageKind::Name, what, pattern });
            }
            Some(Found::Directory) if nodes.contains(&Some(Node::Directory)) => {}
            Some(Found::Directory) => {
                let (what, pattern) = (self.since(floor, "is a directory"), self.has_old_name(name));
                self.matched(name, Wrong { kind: DamageKind::Name, what, pattern });
            }
            Some(Found::File(found)) => self.file(name, found, &nodes, floor),
        }
    }

    /// The finding by which a name that was promised is gone.
    fn is_gone_by(&self, name: &str) -> Option<KnownFinding> {
        known::replaced_name_is_gone(self.history, self.floors, name, self)
            .then_some(KnownFinding::BtrfsReplacedNameIsGone)
            .or_else(|| self.has_old_name(name))
    }

    /// The finding by which a name is there, or not, because its directory has its old one.
    fn has_old_name(&self, name: &str) -> Option<KnownFinding> {
        let is_in = |(from, to): &(&str, &str)| known::is_within(name, from) || known::is_within(name, to);
        self.old_paths.iter().any(is_in).then_some(KnownFinding::BtrfsRenamedDirectoryHasOldName)
    }

    fn since(&self, floor: usize, what: &str) -> String {
        if self.floors.promised_by_another(floor).is_some() {
            return format!("{what}, although `syncfs` of another thread had returned");
        }
        match floor.checked_sub(1).and_then(|step| self.history.steps().get(step)) {
            Some(step) => format!("{what}, although `{}` had returned", step.operation),
            None => format!("{what}, although it was there and synced before the load"),
        }
    }

    fn file(&mut self, name: &str, found: &FoundFile, nodes: &[Option<Node>], floor: usize) {
        let bytes = found.bytes.as_slice();
        let mut mildest: Option<((bool, bool, DamageKind), Wrong)> = None;
        let mut is_right = false;
        let owners = owners(bytes);
        for node in nodes {
            let Some(Node::File(file)) = node else { continue };
            let attribute = found.attribute.as_deref();
            match self.contents(*file, bytes).and_then(|()| self.attribute(*file, attribute)) {
                // It may be any of those that have the same bytes.
                Ok(()) => {
                    is_right = true;
                    self.right.insert(*file);
                }
                // Of several one whose blocks are there, and of these the one with the mildest damage, which nobody excludes if there
                // is such: it may have been that one.
                Err(found) => {
                    let excluded = self.floors.promises.is_none_or(|promises| promises.exclude(found.kind));
                    let rank = (!owners.contains(file), excluded, found.kind);
                    if mildest.as_ref().is_none_or(|(known, _)| rank < *known) {
                        mildest = Some((rank, found));
                    }
                }
            }
        }
        if is_right {
            return;
        }
        let earlier = self.history.nodes(name, 0, floor);
        let older = sole_owner(bytes).or_else(|| self.empty_before(name, found)).map(Node::File);
        let older = older.filter(|node| !nodes.contains(&Some(*node)));
        match (mildest, older) {
            (_, Some(Node::File(file))) if earlier.contains(&Some(Node::File(file))) => {
                let what = self.since(floor, "is an older file");
                // Whether it may be what a removal brought back.
                let removed = if nodes.contains(&None) { ", and the name was removed later" } else { "" };
                let pattern = known::replaced_file_returns(self.history, self.floors, name, file)
                    .then_some(KnownFinding::BtrfsReplacedFileReturns);
                let what = format!("{what}{removed}");
                self.matched(name, Wrong { kind: DamageKind::Name, what, pattern });
            }
            (Some((_, wrong)), _) => self.matched(name, wrong),
            (None, _) => {
                let pattern = self.has_old_name(name);
                let what = self.since(floor, "is there");
                self.matched(name, Wrong { kind: DamageKind::Name, what, pattern });
            }
        }
    }

    /// The file that an empty one was before, by which it would come back by a known finding. Nothing in it says which it is:
    /// it is the one that the name led to, empty, at the last whole sync, or one of which another name is there, or one that
    /// may be empty while the file that the name should lead to is there as another inode.
    fn empty_before(&self, name: &str, found: &FoundFile) -> Option<Identity> {
        let all = self.floors.all();
        let is_empty_at = |tree: usize, file: Identity| {
            self.history.held(file, tree, tree).last().is_some_and(|held| held.size_bytes == 0)
        };
        let was_empty = |file: Identity| {
            let then = self.history.names(all).and_then(|names| names.get(name));
            then == Some(&Node::File(file)) && is_empty_at(all, file)
        };
        let files = self.history.nodes(name, 0, self.floors.name(name)).into_iter().flatten();
        let mut files = files.filter_map(|node| if let Node::File(file) = node { Some(file) } else { None });
        files.find(|file| {
            found.bytes.is_empty()
                && (was_empty(*file)
                    || self.has_name_of(name, found, *file)
                    || self.is_another(name, found) && self.contents(*file, &found.bytes).is_ok())
                && known::replaced_file_returns(self.history, self.floors, name, *file)
        })
    }

    /// Every file that was found.
    fn files(&self) -> impl Iterator<Item = (&'a str, &'a FoundFile)> + use<'a> {
        self.found.iter().filter_map(|(name, found)| match found {
            Found::File(file) => Some((name.as_str(), file)),
            _ => None,
        })
    }

    /// Whether every file that the name may lead to is there by another name, recognised by its bytes, as another inode than
    /// what was found, which has no other name.
    fn is_another(&self, name: &str, found: &FoundFile) -> bool {
        let others = || self.files().filter(|(other, _)| *other != name);
        let is_there = |file: Identity| {
            others().any(|(_, there)| there.inode > 0 && sole_owner(&there.bytes) == Some(file))
        };
        let nodes = self.history.nodes(name, self.floors.name(name), self.floors.last);
        found.inode > 0
            && others().all(|(_, there)| there.inode != found.inode)
            && nodes.into_iter().flatten().all(|node| matches!(node, Node::File(file) if is_there(file)))
    }

    /// Whether another name leads to the inode that was found, which can be of no other file than this.
    fn has_name_of(&self, name: &str, found: &FoundFile, file: Identity) -> bool {
        self.files().any(|(other, there)| {
            let nodes = self.history.nodes(other, self.floors.name(other), self.floors.last);
            let mut fitting = nodes.into_iter().flatten().filter(|node| match node {
                Node::File(file) => self.contents(*file, &there.bytes).is_ok(),
                Node::Directory => false,
            });
            found.inode > 0
                && there.inode == found.inode
                && other != name
                && fitting.next() == Some(Node::File(file))
                && fitting.next().is_none()
        })
    }

    /// Whether a file holds what it may.
    fn contents(&self, file: Identity, bytes: &[u8]) -> Result<(), Wrong> {
        let floor = self.floors.file(file);
        self.contents_since(file, bytes, floor).map_err(|wrong| {
            let synced = self.floors.synced_file(file);
            let alone = wrong.kind == DamageKind::Content && self.contents_since(file, bytes, synced).is_ok();
            if !alone {
                return wrong;
            }
            let what = format!("{}, which `syncfs` alone had promised", wrong.what);
            let pattern =
                self.is_unflushed(file, bytes, floor).then_some(KnownFinding::XfsSyncfsWithoutFlush);
            Wrong { what, pattern, ..wrong }
        })
    }

    /// Whether a file has the extended attribute that it had in one of the trees from its floor on.
    fn attribute(&self, file: Identity, found: Option<&[u8]>) -> Result<(), Wrong> {
        let held = self.history.held(file, self.floors.attribute(file), self.floors.last);
        let is_one_of = |held: &&Contents| held.attribute(file).as_deref() == found;
        // Of a file that was not yet made its contents say so.
        if held.is_empty() || held.iter().any(is_one_of) {
            return Ok(());
        }
        let content =
            |what: &str| Err(Wrong::new(DamageKind::Content, format!("extended attribute: {what}")));
        let Some(found) = found else { return content("missing, although it was promised") };
        match recognise(found) {
            Block::Good { header, .. } if header.file == file && header.offset == ATTRIBUTE_OFFSET => {
                content(&format!("version {}, which is not one that may be there", header.version))
            }
            _ => {
                let what = "extended attribute: a value that this file never had".to_owned();
                Err(Wrong::new(DamageKind::Foreign, what))
            }
        }
    }

    /// Whether the size is as promised, and `syncfs` promised every block that is not without a flush after its write.
    fn is_unflushed(&self, file: Identity, bytes: &[u8], floor: usize) -> bool {
        let held = self.history.held(file, floor, self.floors.last);
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let mut wrong = (0..)
            .zip(bytes.chunks(BLOCK_BYTES))
            .filter(|(number, block)| !is_one_of(&held, file, *number, block))
            .map(|(number, _)| number)
            .peekable();
        held.iter().any(|held| held.size_bytes == size)
            && wrong.peek().is_some()
            && known::syncfs_without_flush(self.history, self.floors, floor, file, wrong)
    }

    /// Whether a file holds what it did in one of the trees from its floor on.
    fn contents_since(&self, file: Identity, bytes: &[u8], floor: usize) -> Result<(), Wrong> {
        let held = self.history.held(file, floor, self.floors.last);
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let sizes = held.iter().map(|held| held.size_bytes);
        let (Some(least), Some(most)) = (sizes.clone().min(), sizes.max()) else {
            return Err(Wrong::new(DamageKind::Name, "it was not yet made".to_owned()));
        };
        for (number, block) in (0..).zip(bytes.chunks(BLOCK_BYTES)) {
            if !is_one_of(&held, file, number, block) {
                return Err(self.wrong(file, number, block));
            }
        }
        if !(least..=most).contains(&size) {
            let what = format!("has {size} bytes, not {least} to {most}");
            return Err(Wrong::new(DamageKind::Content, what));
        }
        Ok(())
    }

    /// What is wrong with a block of a file.
    fn wrong(&self, file: Identity, number: u64, block: &[u8]) -> Wrong {
        let at = number * 4096;
        let foreign = |what: String| Wrong::new(DamageKind::Foreign, format!("at {at}: {what}"));
        let content = |what: String| Wrong::new(DamageKind::Content, format!("at {at}: {what}"));
        match recognise(block) {
            Block::Zero => content("zeros in the place of what was written".to_owned()),
            Block::Good { header, .. } if header.file == file && header.offset == at => {
                content(format!("version {} of the file", header.version))
            }
            Block::Good { header, .. } if self.history.knows(header.file) => {
                foreign(format!("bytes of offset {} of another file", header.offset))
            }
            Block::Torn { header: Some(header), .. } if header.file == file && header.offset == at => {
                content(format!("a part of version {} of the file", header.version))
            }
            _ => foreign("bytes that the load never wrote".to_owned()),
        }
    }

    /// Files that a rename lost or doubled.
    fn renamed(&mut self) {
        let (floors, history) = (self.floors, self.history);
        let seen: BTreeSet<Identity> = self.files().flat_map(|(_, found)| owners(&found.bytes)).collect();
        for file in self.durable_files() {
            let may_be_empty =
                || history.held(file, floors.file(file), floors.last).iter().any(|held| held.size_bytes == 0);
            if self.right.contains(&file) || seen.contains(&file) || may_be_empty() {
                continue;
            }
            let links = Links::of(history, floors, file);
            let Some(names) = links.lasting() else { continue };
            if !names.iter().any(|name| self.is_said(name)) {
                let what = format!("no name leads to the file that {} led to", names.join(" or "));
                let pattern = known::renamed_file_is_gone(history, floors, file)
                    .then_some(KnownFinding::F2fsRenamedFileIsGone);
                let path = names.first().copied().unwrap_or_default();
                self.matched(path, Wrong { kind: DamageKind::Name, what, pattern });
            }
        }
        // One name can always be there, and this is asked of every state.
        let doubled = self.names_by_file().into_iter().filter(|(_, there)| there.len() > 1);
        for (file, there) in doubled {
            let links = Links::of(history, floors, file);
            let names: Vec<&str> = there.keys().map(String::as_str).collect();
            let most = links.most_at_once(&names, &OldNames::new());
            if names.len() > most {
                let all = names.join(" and ");
                let what =
                    format!("{all} lead to one file, which can have at most {most} of these names at once");
                // Copies of a file are another matter.
                let inodes: BTreeSet<u64> = there.values().copied().filter(|inode| *inode > 0).collect();
                let is_known = inodes.len() <= 1
                    && known::renamed_file_has_both_names(history, floors, (file, &links), &names);
                let pattern = is_known.then_some(KnownFinding::BtrfsRenamedFileHasBothNames);
                let path = names.first().copied().unwrap_or_default();
                self.matched(path, Wrong { kind: DamageKind::Name, what, pattern });
            }
        }
    }

    /// By what names, and as which inode, each file is there that is recognised by its blocks, where the name may lead to it: of
    /// others something else is said. A directory that has its old path by a known finding counts as where it should be.
    fn names_by_file(&self) -> BTreeMap<Identity, BTreeMap<String, u64>> {
        let mut files: BTreeMap<Identity, BTreeMap<String, u64>> = BTreeMap::new();
        for (name, found) in self.files() {
            let Some(file) = sole_owner(&found.bytes) else { continue };
            let moved = self.old_paths.iter().find_map(|(from, to)| known::moved(name, from, to));
            let name = moved.unwrap_or_else(|| name.to_owned());
            let nodes = self.history.nodes(&name, self.floors.name(&name), self.floors.last);
            if nodes.contains(&Some(Node::File(file))) {
                files.entry(file).or_default().insert(name, found.inode);
            }
        }
        files
    }

    /// Files that a durable name led to.
    fn durable_files(&self) -> BTreeSet<Identity> {
        let all = self.history.names(self.floors.all()).into_iter().flatten().map(|(_, node)| Some(node));
        let names = self.history.all_names(self.floors.all(), self.floors.returned).into_iter();
        let promised = names.map(|name| self.history.names(self.floors.name(name))?.get(name));
        let files = all.chain(promised).flatten();
        files.filter_map(|node| if let Node::File(file) = node { Some(*file) } else { None }).collect()
    }

    /// Whether it is said of a name, or of a directory above it, that it is not as promised, and no finding explains it.
    fn is_said(&self, name: &str) -> bool {
        let mut damage = self.judgement.damage.iter().filter(|damage| damage.pattern.is_none());
        damage.any(|damage| known::is_within(name, &damage.path))
    }

    /// What became of files that were being replaced.
    fn updates(&mut self) {
        for update in self.history.updates() {
            let (before, after) = (update.operations.start, update.operations.end);
            // Not begun, or synced as a whole.
            if self.floors.last <= before || self.floors.all() >= after {
                continue;
            }
            let outcome = self.outcome(&update.path, before, after);
            self.judgement.updates.push((update.way, outcome));
        }
    }

    fn outcome(&self, path: &str, before: usize, after: usize) -> UpdateOutcome {
        let bytes = match self.found.get(path) {
            Some(Found::File(found)) => &found.bytes,
            _ => return UpdateOutcome::Missing,
        };
        let full = |tree: usize| match self.history.names(tree).and_then(|names| names.get(path)) {
            Some(Node::File(file)) => {
                let held = self.history.held(*file, tree, tree).last().map(|held| held.bytes(*file));
                Some((*file, held.unwrap_or_default()))
            }
            _ => None,
        };
        let (old, new) = (full(before), full(after.min(self.history.steps().len())));
        let is =
            |version: &Option<(Identity, Vec<u8>)>| version.as_ref().is_some_and(|(_, all)| all == bytes);
        let files = [&old, &new].map(|version| version.as_ref().map(|(file, _)| *file));
        if is(&new) {
            return UpdateOutcome::New;
        }
        if is(&old) {
            return UpdateOutcome::Old;
        }
        let own = |block: &[u8]| match recognise(block) {
            Block::Zero | Block::Fragment { .. } => true,
            Block::Good { header, .. } | Block::Torn { header: Some(header), .. } => {
                files.contains(&Some(header.file))
            }
            Block::Torn { header: None, .. } | Block::Foreign => false,
        };
        if bytes.is_empty() {
            UpdateOutcome::Empty
        } else if bytes.chunks(BLOCK_BYTES).all(own) {
            UpdateOutcome::Mixed
        } else {
            UpdateOutcome::Foreign
        }
    }
}

/// Whether a block holds what it did in one of these versions of the file.
fn is_one_of(held: &[&Contents], file: Identity, number: u64, block: &[u8]) -> bool {
    let mut candidates: Vec<Written> = held.iter().map(|held| held.block(number)).collect();
    // Most of what a file held differs elsewhere; making the bytes is what takes time.
    candidates.sort_unstable();
    candidates.dedup();
    candidates.iter().any(|written| block_bytes(file, number, *written).get(..block.len()) == Some(block))
}

/// The files that blocks say they are of.
fn owners(bytes: &[u8]) -> BTreeSet<Identity> {
    let owner = |block: &[u8]| match recognise(block) {
        Block::Good { header, .. } => Some(header.file),
        _ => None,
    };
    bytes.chunks(BLOCK_BYTES).filter_map(owner).collect()
}

/// The file that all blocks that say so are of.
fn sole_owner(bytes: &[u8]) -> Option<Identity> {
    let mut owners = owners(bytes);
    owners.pop_first().filter(|_| owners.is_empty())
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
pub(super) mod tests;

#[cfg(test)]
#[path = "known_tests.rs"]
mod known_tests;

#[cfg(test)]
#[path = "known_syncfs_tests.rs"]
mod known_syncfs_tests;

#[cfg(test)]
#[path = "known_gone_tests.rs"]
mod known_gone_tests;

#[cfg(test)]
#[path = "known_names_tests.rs"]
mod known_names_tests;
