//! The tree of a recording: names in directories, and what they lead to.

use std::collections::HashMap;

use fsage_model::operation::DirectoryEntry;

/// Things by small numbers that are used again.
#[derive(Debug)]
pub struct Slab<T> {
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a thing in.
    pub fn insert(&mut self, thing: T) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(place) = self.things.get_mut(fsage_model::quantity::index(number))
        {
            *place = Some(thing);
            return number;
        }
        self.things.push(Some(thing));
        u32::try_from(self.things.len() - 1).unwrap_or(u32::MAX)
    }

    /// A thing that is there.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.things.get(fsage_model::quantity::index(number))?.as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.things.get_mut(fsage_model::quantity::index(number))?.as_mut()
    }

    /// Takes a thing out.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.things.get_mut(fsage_model::quantity::index(number))?.take()?;
        self.free.push(number);
        Some(thing)
    }
}

/// A name.
#[derive(Debug)]
pub struct Node {
    /// The directory it is in; the top is in itself.
    pub parent: u32,
    pub name: Box<[u8]>,
    pub entry: Entry,
}

/// What a name leads to.
#[derive(Debug)]
pub enum Entry {
    Directory(Folder),
    File { object: u32, place: DirectoryEntry },
    Symlink { place: DirectoryEntry, text: Box<[u8]> },
}

/// A directory.
#[derive(Debug)]
pub struct Folder {
    /// Its number in our tree.
    pub number: u32,
    /// The number of the directory it is in there. Ours are never moved: only the name is.
    pub home: u32,
    /// The recording has moved it.
    pub moved: bool,
    /// It was there before the recording.
    pub before: bool,
    pub children: HashMap<Box<[u8]>, u32>,
}

impl Node {
    /// The top.
    pub fn top() -> Self {
        Self::directory(0, b"", 0, 0, true)
    }

    /// A directory.
    pub fn directory(parent: u32, name: &[u8], number: u32, home: u32, before: bool) -> Self {
        let folder = Folder { number, home, moved: false, before, children: HashMap::new() };
        Self { parent, name: name.into(), entry: Entry::Directory(folder) }
    }

    /// The directory that it is.
    pub const fn folder(&self) -> Option<&Folder> {
        match &self.entry {
            Entry::Directory(folder) => Some(folder),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub const fn folder_mut(&mut self) -> Option<&mut Folder> {
        match &mut self.entry {
            Entry::Directory(folder) => Some(folder),
            _ => None,
        }
    }
}
