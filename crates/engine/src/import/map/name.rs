//! Operations on names.

use fsage_model::operation::{Action, DirectoryEntry, Operation};

use super::tree::{Entry, Node};
use super::{DIRECTORY_LIMIT, Mapper, Need, Object, OpenFlags, Reason, Target, create, plain};
use crate::import::path::{PARTS, join, parts};
use crate::tree::Directory;

/// Symbolic links followed in a row.
const LINKS: u32 = 16;

const OUTSIDE: Reason = "outside the directory that was asked for";
const SPECIAL: Reason = "special file (/proc, /sys, /dev)";
const NO_DIRECTORY: Reason = "path through what is not a directory";
const TOP: Reason = "the top directory itself";
const THERE: Reason = "made, though it was there";
const IS_DIRECTORY: Reason = "file operation on a directory";
const NOT_DIRECTORY: Reason = "directory operation on a file";

impl Mapper<'_> {
    /// The directory that a path's last part is in, and that part; what is missing on the way was there
    /// before.
    fn parent_of(&mut self, path: &[u8], links: u32) -> Result<(u32, Vec<u8>), Reason> {
        let all = parts(path);
        let mut rest = &all[..];
        let below = self.below.clone();
        if let Some(below) = &below {
            let prefix = parts(below);
            rest = rest.strip_prefix(&prefix[..]).ok_or(OUTSIDE)?;
        } else if rest.first().is_some_and(|first| [&b"proc"[..], b"sys", b"dev"].contains(first)) {
            return Err(SPECIAL);
        }
        if rest.len() > PARTS {
            return Err("path of more than a thousand parts");
        }
        let Some((last, way)) = rest.split_last() else { return Err(TOP) };
        let mut at = 0;
        for (place, name) in way.iter().enumerate() {
            let Some(next) = self.child(at, name) else {
                at = self.directory_before(at, name)?;
                continue;
            };
            match self.nodes.get(next).map(|node| &node.entry) {
                Some(Entry::Directory(_)) => at = next,
                Some(Entry::Symlink { text, .. }) => {
                    let links = links.checked_sub(1).ok_or("too many symbolic links")?;
                    let mut path = join(&self.path_of(at), text);
                    for name in &rest[place + 1..] {
                        path.push(b'/');
                        path.extend_from_slice(name);
                    }
                    return self.parent_of(&path, links);
                }
                _ => return Err(NO_DIRECTORY),
            }
        }
        Ok((at, last.to_vec()))
    }

    fn child(&self, directory: u32, name: &[u8]) -> Option<u32> {
        self.nodes.get(directory)?.folder()?.children.get(name).copied()
    }

    /// Path of a directory, as the recording has it.
    fn path_of(&self, mut at: u32) -> Vec<u8> {
        let mut names = Vec::new();
        while at != 0
            && let Some(node) = self.nodes.get(at)
        {
            names.push(&node.name[..]);
            at = node.parent;
        }
        let mut path = self.below.as_deref().unwrap_or_default().to_vec();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }

    fn number_of(&self, directory: u32) -> u32 {
        self.nodes.get(directory).and_then(Node::folder).map_or(0, |folder| folder.number)
    }

    fn add(&mut self, parent: u32, name: &[u8], node: Node) -> u32 {
        let number = self.nodes.insert(node);
        if let Some(folder) = self.nodes.get_mut(parent).and_then(Node::folder_mut) {
            folder.children.insert(name.into(), number);
        }
        number
    }

    fn take_out(&mut self, parent: u32, name: &[u8]) -> Option<u32> {
        self.nodes.get_mut(parent)?.folder_mut()?.children.remove(name)
    }

    fn fresh_directory(&mut self) -> Result<u32, Reason> {
        let number = self.next_directory;
        if number >= DIRECTORY_LIMIT {
            return Err("more directories than a trace can have");
        }
        self.next_directory += 1;
        Ok(number)
    }

    fn fresh_place(&mut self, directory: u32) -> DirectoryEntry {
        let name = self.next_name;
        self.next_name += 1;
        DirectoryEntry { directory: self.number_of(directory), name }
    }

    const fn fresh_file(&mut self) -> u64 {
        let file = self.next_file;
        self.next_file += 1;
        file
    }

    /// A directory that is met and not known.
    fn directory_before(&mut self, parent: u32, name: &[u8]) -> Result<u32, Reason> {
        let home = self.number_of(parent);
        let before = self.nodes.get(parent).and_then(Node::folder).is_some_and(|folder| folder.before);
        let number = self.fresh_directory()?;
        if before {
            self.initial.push(Directory { number, parent: home });
        } else {
            self.changed("directory made when it was first met, for nobody was seen making it");
            self.emit(Operation::on_directory(Action::Mkdir { parent: home }, number));
        }
        Ok(self.add(parent, name, Node::directory(parent, name, number, home, before)))
    }

    /// A file that is met and not known. `doubtful`: it may just have been made.
    fn file_before(&mut self, parent: u32, name: &[u8], doubtful: bool) -> u32 {
        let (file, place) = (self.fresh_file(), self.fresh_place(parent));
        let unseen = !self.nodes.get(parent).and_then(Node::folder).is_some_and(|folder| folder.before);
        let index = self.met;
        self.met += 1;
        let first = Need { file, place, size: 0, existed: !doubtful, unseen };
        let need = self.known.and_then(|known| known.get(index)).copied().unwrap_or(first);
        if self.surveys() {
            self.needs.push(first);
        }
        if !need.existed {
            self.emit(create(file, place, 0));
        } else if unseen {
            self.changed("file made when it was first met, for nobody was seen making it");
            self.emit(create(file, place, need.size));
        }
        // The first reading does not know yet whether it was there.
        let exact = !need.existed && !self.surveys();
        let object = Object {
            file,
            size: need.size,
            version: 1,
            places: vec![place],
            opens: 0,
            exact,
            appended: false,
            need: Some(index),
        };
        self.put(parent, name, object, place)
    }

    fn put(&mut self, parent: u32, name: &[u8], object: Object, place: DirectoryEntry) -> u32 {
        let object = self.objects.insert(object);
        self.add(parent, name, Node { parent, name: name.into(), entry: Entry::File { object, place } });
        object
    }

    /// Makes a file that was not there, of `length` bytes.
    fn make(&mut self, parent: u32, name: &[u8], length: u64) -> u32 {
        let (file, place) = (self.fresh_file(), self.fresh_place(parent));
        self.emit(create(file, place, length));
        let object = Object {
            file,
            size: length,
            version: 1,
            places: vec![place],
            opens: 0,
            exact: true,
            appended: false,
            need: None,
        };
        self.put(parent, name, object, place)
    }

    /// Makes a file of `length` bytes.
    pub fn create(&mut self, path: &[u8], length: u64) -> Result<(), Reason> {
        let (parent, name) = self.parent_of(path, LINKS)?;
        if self.child(parent, &name).is_some() {
            return Err(THERE);
        }
        self.make(parent, &name, length);
        Ok(())
    }

    /// Opens a path.
    pub fn open(&mut self, path: &[u8], flags: OpenFlags) -> Result<Target, Reason> {
        self.open_at(path, flags, LINKS)
    }

    fn open_at(&mut self, path: &[u8], flags: OpenFlags, links: u32) -> Result<Target, Reason> {
        let (parent, name) = match self.parent_of(path, links) {
            Err(TOP) => return Ok(Target::Directory),
            found => found?,
        };
        let Some(child) = self.child(parent, &name) else {
            if flags.directory {
                self.directory_before(parent, &name)?;
                return Ok(Target::Directory);
            }
            if flags.create && (flags.exclusive || flags.truncate) {
                return Ok(Target::File(self.make(parent, &name, 0)));
            }
            let object = self.file_before(parent, &name, flags.create);
            return self.opened(object, flags);
        };
        match self.nodes.get(child).map(|node| &node.entry) {
            Some(Entry::File { object, .. }) => {
                let object = *object;
                self.opened(object, flags)
            }
            Some(Entry::Symlink { text, .. }) if !flags.no_follow => {
                let path = join(&self.path_of(parent), text);
                let links = links.checked_sub(1).ok_or("too many symbolic links")?;
                self.open_at(&path, flags, links)
            }
            Some(Entry::Symlink { .. }) => Err("symbolic link opened itself"),
            _ => Ok(Target::Directory),
        }
    }

    fn opened(&mut self, object: u32, flags: OpenFlags) -> Result<Target, Reason> {
        if flags.truncate && self.objects.get(object).is_some_and(|object| object.size > 0 || !object.exact) {
            self.truncate(object, 0)?;
        }
        Ok(Target::File(object))
    }

    /// The file that a path leads to, for one operation.
    pub fn file(&mut self, path: &[u8]) -> Result<u32, Reason> {
        match self.open(path, OpenFlags::default())? {
            Target::File(object) => Ok(object),
            Target::Directory => Err(IS_DIRECTORY),
        }
    }

    /// The name of a path itself; one that is not known was a file before.
    fn entry(&mut self, path: &[u8]) -> Result<(u32, Vec<u8>, u32), Reason> {
        let (parent, name) = self.parent_of(path, LINKS)?;
        if self.child(parent, &name).is_none() {
            self.file_before(parent, &name, false);
        }
        let child = self.child(parent, &name).ok_or(NO_DIRECTORY)?;
        Ok((parent, name, child))
    }

    /// Takes a name away.
    pub fn unlink(&mut self, path: &[u8]) -> Result<(), Reason> {
        let (parent, name, child) = self.entry(path)?;
        match self.nodes.get(child).map(|node| &node.entry) {
            Some(Entry::File { object, place }) => {
                let (object, place) = (*object, *place);
                self.take_out(parent, &name);
                self.nodes.remove(child);
                let operation = self.on(Action::Delete, object);
                self.emit(Operation { place, ..operation });
                self.lose(object, place);
            }
            Some(Entry::Symlink { place, .. }) => {
                let place = *place;
                self.take_out(parent, &name);
                self.nodes.remove(child);
                self.emit(plain(Action::Delete, 0, place));
            }
            _ => return Err(IS_DIRECTORY),
        }
        Ok(())
    }

    fn lose(&mut self, number: u32, place: DirectoryEntry) {
        if let Some(object) = self.objects.get_mut(number) {
            object.places.retain(|other| *other != place);
        }
        self.forget(number);
    }

    /// Makes a directory.
    pub fn mkdir(&mut self, path: &[u8]) -> Result<(), Reason> {
        let (parent, name) = self.parent_of(path, LINKS)?;
        if self.child(parent, &name).is_some() {
            return Err(THERE);
        }
        let number = match self.free_directories.pop() {
            Some(number) => number,
            None => self.fresh_directory()?,
        };
        let home = self.number_of(parent);
        self.emit(Operation::on_directory(Action::Mkdir { parent: home }, number));
        self.add(parent, &name, Node::directory(parent, &name, number, home, false));
        Ok(())
    }

    /// Removes an empty directory.
    pub fn rmdir(&mut self, path: &[u8]) -> Result<(), Reason> {
        let (parent, name) = self.parent_of(path, LINKS)?;
        let child = match self.child(parent, &name) {
            Some(child) => child,
            None => self.directory_before(parent, &name)?,
        };
        self.remove_directory(parent, &name, child)
    }

    fn remove_directory(&mut self, parent: u32, name: &[u8], child: u32) -> Result<(), Reason> {
        let folder = self.nodes.get(child).and_then(Node::folder).ok_or(NOT_DIRECTORY)?;
        if !folder.children.is_empty() {
            return Err("removed a directory that has something in it, as far as was seen");
        }
        let (number, home, moved) = (folder.number, folder.home, folder.moved);
        self.take_out(parent, name);
        self.nodes.remove(child);
        if self.held.get(&number).is_some_and(|held| *held > 0) {
            return Err("removed a directory out of which another was moved");
        }
        if moved && let Some(held) = self.held.get_mut(&home) {
            *held -= 1;
        }
        self.emit(Operation::on_directory(Action::Rmdir { parent: home }, number));
        self.free_directories.push(number);
        Ok(())
    }

    /// Gives something another name.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Reason> {
        let (parent, name, child) = self.entry(from)?;
        let (to_parent, to_name) = self.parent_of(to, LINKS)?;
        let there = self.child(to_parent, &to_name);
        if there == Some(child) {
            return Ok(());
        }
        let moved = match self.nodes.get(child).map(|node| &node.entry) {
            Some(Entry::Directory(_)) => {
                return self.move_directory((parent, &name, child), (to_parent, &to_name, there));
            }
            Some(Entry::File { object, place }) => (Some(*object), *place),
            Some(Entry::Symlink { place, .. }) => (None, *place),
            None => return Err(NO_DIRECTORY),
        };
        let (object, place) = moved;
        let target = match there.and_then(|there| self.nodes.get(there)).map(|node| &node.entry) {
            Some(Entry::Directory(_)) => return Err(IS_DIRECTORY),
            // Two names of one file: nothing happens.
            Some(Entry::File { object: other, .. }) if Some(*other) == object => return Ok(()),
            Some(Entry::File { place, .. } | Entry::Symlink { place, .. }) => *place,
            None => self.fresh_place(to_parent),
        };
        let rename = Action::Rename { target };
        let operation = object.map_or(plain(rename, 0, place), |object| self.on(rename, object));
        self.emit(Operation { place, ..operation });
        if let Some(there) = there {
            self.take_out(to_parent, &to_name);
            if let Some(Entry::File { object, place }) = self.nodes.remove(there).map(|node| node.entry) {
                self.lose(object, place);
            }
        }
        if let Some(object) = object.and_then(|object| self.objects.get_mut(object)) {
            object.places.retain(|other| *other != place);
            object.places.push(target);
        }
        self.rehang((parent, &name, child), (to_parent, &to_name), target);
        Ok(())
    }

    fn rehang(&mut self, from: (u32, &[u8], u32), to: (u32, &[u8]), target: DirectoryEntry) {
        self.take_out(from.0, from.1);
        if let Some(node) = self.nodes.get_mut(from.2) {
            node.parent = to.0;
            node.name = to.1.into();
            if let Entry::File { place, .. } | Entry::Symlink { place, .. } = &mut node.entry {
                *place = target;
            }
        }
        if let Some(folder) = self.nodes.get_mut(to.0).and_then(Node::folder_mut) {
            folder.children.insert(to.1.into(), from.2);
        }
    }

    /// A directory of ours stays where it is; only its name in the recording moves.
    fn move_directory(
        &mut self,
        from: (u32, &[u8], u32),
        to: (u32, &[u8], Option<u32>),
    ) -> Result<(), Reason> {
        let mut above = to.0;
        while above != 0 {
            if above == from.2 {
                return Err("directory moved into itself");
            }
            above = self.nodes.get(above).map_or(0, |node| node.parent);
        }
        if let Some(there) = to.2 {
            self.remove_directory(to.0, to.1, there)?;
        }
        let mut home = None;
        if let Some(folder) = self.nodes.get_mut(from.2).and_then(Node::folder_mut) {
            home = (!std::mem::replace(&mut folder.moved, true)).then_some(folder.home);
        }
        if let Some(home) = home {
            *self.held.entry(home).or_default() += 1;
        }
        self.rehang(from, (to.0, to.1), DirectoryEntry::default());
        Err("directory renamed: it keeps its place in our tree")
    }

    /// Gives a file one more name.
    pub fn link(&mut self, from: &[u8], to: &[u8]) -> Result<(), Reason> {
        let (_, _, child) = self.entry(from)?;
        let Some(Entry::File { object, place }) = self.nodes.get(child).map(|node| &node.entry) else {
            return Err("hard link to what is no file");
        };
        let (object, place) = (*object, *place);
        let (parent, name) = self.parent_of(to, LINKS)?;
        if self.child(parent, &name).is_some() {
            return Err(THERE);
        }
        let target = self.fresh_place(parent);
        self.emit(Operation { place, ..self.on(Action::Link { target }, object) });
        if let Some(object) = self.objects.get_mut(object) {
            object.places.push(target);
        }
        let entry = Entry::File { object, place: target };
        self.add(parent, &name, Node { parent, name: name.as_slice().into(), entry });
        Ok(())
    }

    /// Makes a symbolic link that says `text`. One to what is no known file points nowhere in our tree.
    pub fn symlink(&mut self, text: &[u8], to: &[u8]) -> Result<(), Reason> {
        let (parent, name) = self.parent_of(to, LINKS)?;
        if self.child(parent, &name).is_some() {
            return Err(THERE);
        }
        let (object, place) = match self.pointed_at(parent, text) {
            Some((object, place)) => (Some(object), place),
            None => {
                self.changed("symbolic link that points to no known file");
                (None, self.fresh_place(0))
            }
        };
        let target = self.fresh_place(parent);
        let symlink = Action::Symlink { target };
        let operation = object.map_or(plain(symlink, 0, place), |object| self.on(symlink, object));
        self.emit(Operation { place, ..operation });
        let entry = Entry::Symlink { place: target, text: text.into() };
        self.add(parent, &name, Node { parent, name: name.as_slice().into(), entry });
        Ok(())
    }

    /// The object and place of the file that a link in `parent` points at, if it is known already.
    fn pointed_at(&self, parent: u32, text: &[u8]) -> Option<(u32, DirectoryEntry)> {
        let path = join(&self.path_of(parent), text);
        let mut at = 0;
        let mut all = parts(&path);
        if let Some(below) = &self.below {
            let prefix = parts(below);
            all = all.strip_prefix(&prefix[..])?.to_vec();
        }
        for name in all {
            at = self.child(at, name)?;
        }
        match &self.nodes.get(at)?.entry {
            Entry::File { object, place } => Some((*object, *place)),
            _ => None,
        }
    }
}
