//! Processes of a recording: working directories, descriptors, and what those are open on.

use std::collections::HashMap;

use super::super::map::tree::Slab;
use super::super::map::{Mapper, Target};
use super::super::path::join;

/// What a descriptor is open on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A file of the mapper.
    File(u32),
    /// A directory, by its path.
    Directory(Vec<u8>),
    /// Nothing that is followed.
    Other(&'static str),
}

/// An open file description: what duplicates and children share.
#[derive(Debug)]
pub struct Description {
    pub what: What,
    pub position: u64,
    pub append: bool,
    /// Descriptors that lead to it.
    users: u32,
}

/// Descriptors, shared by threads.
#[derive(Debug, Default)]
struct Table {
    descriptors: HashMap<i32, u32>,
    users: u32,
}

/// A working directory, shared by threads.
#[derive(Debug, Default)]
struct Cwd {
    path: Option<Vec<u8>>,
    users: u32,
}

#[derive(Debug, Clone, Copy)]
struct Process {
    table: u32,
    cwd: u32,
}

/// What a new process shares with the one that made it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    pub files: bool,
    pub cwd: bool,
}

/// Every process that is alive.
#[derive(Debug)]
pub struct Processes {
    alive: HashMap<u32, Process>,
    tables: Slab<Table>,
    cwds: Slab<Cwd>,
    descriptions: Slab<Description>,
    first_cwd: Option<Vec<u8>>,
    /// Processes in the middle of making one.
    expecting: Vec<(u32, Shares)>,
    last: Option<u32>,
}

impl Processes {
    pub fn new(first_cwd: Option<Vec<u8>>) -> Self {
        Self {
            alive: HashMap::new(),
            tables: Slab::default(),
            cwds: Slab::default(),
            descriptions: Slab::default(),
            first_cwd,
            expecting: Vec::new(),
            last: None,
        }
    }

    /// A process will make another.
    pub fn expect_child(&mut self, parent: u32, shares: Shares) {
        self.expecting.push((parent, shares));
    }

    /// Makes sure that a process is known.
    pub fn meet(&mut self, pid: u32, mapper: &mut Mapper<'_>) {
        if !self.alive.contains_key(&pid) {
            let parent = if self.expecting.is_empty() {
                // Who made it was not traced.
                self.last.map(|last| (last, Shares::default()))
            } else {
                Some(self.expecting.remove(0))
            };
            match parent.filter(|(parent, _)| self.alive.contains_key(parent)) {
                Some((parent, shares)) => self.add_child(parent, pid, shares),
                None => self.add_first(pid),
            }
            if parent.is_none() && self.alive.len() > 1 {
                mapper.changed("process of which nothing is known at its beginning");
            }
        }
        self.last = Some(pid);
    }

    fn add_first(&mut self, pid: u32) {
        let table = self.tables.insert(Table { users: 1, ..Table::default() });
        let cwd = self.cwds.insert(Cwd { path: self.first_cwd.clone(), users: 1 });
        self.alive.insert(pid, Process { table, cwd });
    }

    /// A process has made another.
    pub fn add_child(&mut self, parent: u32, pid: u32, shares: Shares) {
        self.expecting.retain(|(expecting, _)| *expecting != parent);
        let Some(Process { table, cwd }) = self.alive.get(&parent).copied() else { return };
        if self.alive.contains_key(&pid) {
            return;
        }
        let table = if shares.files {
            table
        } else {
            let descriptors =
                self.tables.get(table).map(|table| table.descriptors.clone()).unwrap_or_default();
            for description in descriptors.values() {
                if let Some(description) = self.descriptions.get_mut(*description) {
                    description.users += 1;
                }
            }
            self.tables.insert(Table { descriptors, users: 0 })
        };
        let cwd = if shares.cwd {
            cwd
        } else {
            let path = self.cwds.get(cwd).and_then(|cwd| cwd.path.clone());
            self.cwds.insert(Cwd { path, users: 0 })
        };
        if let Some(table) = self.tables.get_mut(table) {
            table.users += 1;
        }
        if let Some(cwd) = self.cwds.get_mut(cwd) {
            cwd.users += 1;
        }
        self.alive.insert(pid, Process { table, cwd });
    }

    /// A process has ended.
    pub fn end(&mut self, pid: u32, mapper: &mut Mapper<'_>) {
        self.expecting.retain(|(expecting, _)| *expecting != pid);
        let Some(Process { table, cwd }) = self.alive.remove(&pid) else { return };
        if self.last == Some(pid) {
            self.last = self.alive.keys().min().copied();
        }
        if let Some(found) = self.cwds.get_mut(cwd) {
            found.users -= 1;
            if found.users == 0 {
                self.cwds.remove(cwd);
            }
        }
        let Some(found) = self.tables.get_mut(table) else { return };
        found.users -= 1;
        if found.users == 0 {
            let descriptors = self.tables.remove(table).map(|table| table.descriptors).unwrap_or_default();
            descriptors.into_values().for_each(|description| self.let_go(description, mapper));
        }
    }

    fn let_go(&mut self, number: u32, mapper: &mut Mapper<'_>) {
        let Some(description) = self.descriptions.get_mut(number) else { return };
        description.users -= 1;
        if description.users == 0
            && let Some(Description { what: What::File(object), .. }) = self.descriptions.remove(number)
        {
            mapper.release(object);
        }
    }

    fn table_of(&mut self, pid: u32) -> Option<&mut Table> {
        let table = self.alive.get(&pid)?.table;
        self.tables.get_mut(table)
    }

    /// What a descriptor leads to.
    pub fn description(&mut self, pid: u32, descriptor: i32) -> Option<&mut Description> {
        let number = *self.table_of(pid)?.descriptors.get(&descriptor)?;
        self.descriptions.get_mut(number)
    }

    /// A descriptor is opened.
    pub fn open(&mut self, pid: u32, descriptor: i32, what: What, append: bool, mapper: &mut Mapper<'_>) {
        if let What::File(object) = what {
            mapper.retain(object);
        }
        let number = self.descriptions.insert(Description { what, position: 0, append, users: 1 });
        self.set(pid, descriptor, number, mapper);
    }

    fn set(&mut self, pid: u32, descriptor: i32, number: u32, mapper: &mut Mapper<'_>) {
        let Some(table) = self.table_of(pid) else { return };
        if let Some(before) = table.descriptors.insert(descriptor, number) {
            self.let_go(before, mapper);
        }
    }

    /// A descriptor is duplicated.
    pub fn duplicate(&mut self, pid: u32, from: i32, to: i32, mapper: &mut Mapper<'_>) {
        if from == to {
            return;
        }
        let number = self.table_of(pid).and_then(|table| table.descriptors.get(&from).copied());
        match number {
            Some(number) => {
                if let Some(description) = self.descriptions.get_mut(number) {
                    description.users += 1;
                }
                self.set(pid, to, number, mapper);
            }
            // Of what is not followed, nor is the other.
            None => self.close(pid, to, mapper),
        }
    }

    /// A descriptor is closed.
    pub fn close(&mut self, pid: u32, descriptor: i32, mapper: &mut Mapper<'_>) {
        if let Some(number) = self.table_of(pid).and_then(|table| table.descriptors.remove(&descriptor)) {
            self.let_go(number, mapper);
        }
    }

    /// Descriptors from `first` to `last` are closed.
    pub fn close_range(&mut self, pid: u32, first: i32, last: i32, mapper: &mut Mapper<'_>) {
        let Some(table) = self.table_of(pid) else { return };
        let range: Vec<i32> =
            table.descriptors.keys().copied().filter(|fd| (first..=last).contains(fd)).collect();
        range.into_iter().for_each(|descriptor| self.close(pid, descriptor, mapper));
    }

    /// The working directory of a process; what is not known has a name that nothing has.
    pub fn cwd(&self, pid: u32) -> Vec<u8> {
        let cwd = self.alive.get(&pid).and_then(|process| self.cwds.get(process.cwd));
        cwd.and_then(|cwd| cwd.path.clone()).unwrap_or_else(|| b"/(where strace was started)".to_vec())
    }

    /// A process changes its working directory.
    pub fn change_directory(&mut self, pid: u32, path: &[u8]) {
        let path = join(&self.cwd(pid), path);
        if let Some(process) = self.alive.get(&pid)
            && let Some(cwd) = self.cwds.get_mut(process.cwd)
        {
            cwd.path = Some(path);
        }
    }

    /// The working directory as an annotation has it, where it is not known yet.
    pub fn learn_cwd(&mut self, pid: u32, path: &str) {
        if let Some(process) = self.alive.get(&pid)
            && let Some(cwd) = self.cwds.get_mut(process.cwd)
            && cwd.path.is_none()
        {
            cwd.path = Some(path.as_bytes().to_vec());
        }
    }

    /// A descriptor that was open before the log, by its annotation.
    pub fn adopt(&mut self, pid: u32, descriptor: i32, path: &str, mapper: &mut Mapper<'_>) {
        let what = match mapper.open(path.as_bytes(), super::super::map::OpenFlags::default()) {
            Ok(Target::File(object)) => {
                mapper.changed("descriptor that was open already: taken to be at its beginning");
                What::File(object)
            }
            Ok(Target::Directory) => What::Directory(path.as_bytes().to_vec()),
            Err(reason) => What::Other(reason),
        };
        self.open(pid, descriptor, what, false, mapper);
    }
}
