//! A tree as a few ordered maps, which checks every operation before it does it.

use std::collections::BTreeMap;

use fsage_engine::tree::{Directory, DirectoryTree, Shape};
use fsage_engine::workload::{AnyWorkload, HardLink, LiveFile, Symlink};
use fsage_model::operation::{Action, DirectoryEntry, Operation, OperationKind as K};
use fsage_model::quantity::index;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    File(u64),
    Symlink { file: u64, target: DirectoryEntry },
}

#[derive(Debug, Clone, Copy, Default)]
pub struct File {
    pub size: u64,
    pub version: u32,
    pub links: u32,
    pub reserved: u64,
}

#[derive(Debug, Default)]
pub struct Model {
    pub directories: BTreeMap<u32, u32>,
    pub names: BTreeMap<DirectoryEntry, Name>,
    pub files: BTreeMap<u64, File>,
    /// Every name number ever used.
    used: std::collections::BTreeSet<u64>,
    direct: bool,
}

impl Model {
    pub fn new(workload: &AnyWorkload, direct: bool) -> Self {
        let mut model = Self { direct, ..Self::default() };
        for Directory { number, parent } in workload.initial_directories() {
            assert!(model.has_directory(parent), "parents come first");
            assert!(model.directories.insert(number, parent).is_none());
        }
        model
    }

    fn has_directory(&self, number: u32) -> bool {
        number == 0 || self.directories.contains_key(&number)
    }

    fn is_empty(&self, number: u32) -> bool {
        !self.directories.values().any(|parent| *parent == number)
            && !self.names.keys().any(|place| place.directory == number)
    }

    fn new_name(&mut self, place: DirectoryEntry, name: Name) {
        assert!(self.has_directory(place.directory));
        assert!(self.used.insert(place.name), "name {} used twice", place.name);
        self.names.insert(place, name);
    }

    /// Checks the arguments of an operation, done or not.
    pub fn check(&self, op: &Operation, accesses: u32) {
        if matches!(op.kind(), K::Mkdir | K::Rmdir | K::Create) {
            return;
        }
        let file = self.files[&op.file];
        assert_eq!(op.size, file.size);
        if op.kind() != K::Delete {
            assert_eq!(self.names[&op.place], Name::File(op.file), "first names are files");
        }
        let whole = |n: u64| !self.direct || n.is_multiple_of(4096);
        match op.action {
            Action::Append { offset, length } => {
                assert_eq!(offset, file.size & !4095);
                assert!(offset + length > file.size && whole(length));
                assert_eq!(op.version, file.version + 1);
            }
            Action::RandomWrite { length, accesses: count, .. }
            | Action::RandomRead { length, accesses: count, .. } => {
                assert_eq!((count, op.accesses().count()), (accesses, index(accesses)));
                for (offset, _) in op.accesses() {
                    assert!(offset < file.size && offset.is_multiple_of(4096));
                    assert!(length > 0 && length.is_multiple_of(4096));
                    assert!(offset + length < file.size + 4096);
                }
                assert_eq!(op.version, file.version + u32::from(op.kind() == K::RandomWrite));
            }
            Action::Overwrite | Action::Read { .. } => {
                assert!(op.length() == file.size && file.size > 0);
                assert_eq!(op.version, file.version + u32::from(op.kind() == K::Overwrite));
            }
            Action::Truncate { new_size } => assert!(new_size < file.size && whole(new_size)),
            Action::Fallocate { offset, length } => assert!(offset == file.size && length > 0),
            _ => {}
        }
    }

    /// Does an operation that succeeded.
    pub fn apply(&mut self, op: &Operation) {
        match op.action {
            Action::Create { length } => {
                assert!(length > 0 && op.size == 0);
                assert!(!self.direct || length.is_multiple_of(4096));
                let made = File { size: length, version: op.version, links: 1, reserved: 0 };
                assert!(self.files.insert(op.file, made).is_none());
                self.new_name(op.place, Name::File(op.file));
            }
            Action::Append { offset, length } => {
                let file = self.files.get_mut(&op.file).expect("checked");
                (file.size, file.version) = (offset + length, op.version);
            }
            Action::RandomWrite { .. } | Action::Overwrite => {
                self.files.get_mut(&op.file).expect("checked").version = op.version
            }
            Action::Truncate { new_size } => {
                let file = self.files.get_mut(&op.file).expect("checked");
                (file.size, file.reserved) = (new_size, 0);
            }
            Action::Fallocate { offset, length } => {
                let file = self.files.get_mut(&op.file).expect("checked");
                file.reserved = file.reserved.max((offset + length).div_ceil(4096));
            }
            Action::Delete => self.delete(op),
            Action::Rename { target } => {
                let name = self.names.remove(&op.place).expect("checked");
                self.new_name(target, name);
                let only = self.directories.is_empty();
                assert!(only || target.directory != op.place.directory);
            }
            Action::Mkdir { parent } => {
                assert!(self.has_directory(parent) && !self.has_directory(op.place.directory));
                self.directories.insert(op.place.directory, parent);
            }
            Action::Rmdir { parent } => {
                assert!(op.place.directory != 0 && self.is_empty(op.place.directory));
                assert_eq!(self.directories.remove(&op.place.directory), Some(parent));
            }
            Action::Symlink { target } => {
                self.new_name(target, Name::Symlink { file: op.file, target: op.place })
            }
            Action::Link { target } => {
                self.files.get_mut(&op.file).expect("checked").links += 1;
                self.new_name(target, Name::File(op.file));
            }
            Action::Read { .. } | Action::RandomRead { .. } | Action::Fsync | Action::Fdatasync => {}
        }
    }

    fn delete(&mut self, op: &Operation) {
        let name = self.names.remove(&op.place).expect("there");
        match name {
            Name::Symlink { file, .. } => assert_eq!(file, op.file),
            Name::File(file) => {
                assert_eq!(file, op.file);
                let entry = self.files.get_mut(&file).expect("there");
                entry.links -= 1;
                if entry.links == 0 {
                    self.files.remove(&file);
                }
            }
        }
    }

    /// An operation that failed: versions move on, nothing else.
    pub fn fail(&mut self, op: &Operation) {
        if op.kind().writes_again() {
            self.files.get_mut(&op.file).expect("checked").version = op.version;
        }
    }

    /// The workload says that there is just what is here.
    pub fn compare(&self, workload: &AnyWorkload, thread: u32) {
        assert_eq!(workload.files(), u64::try_from(self.files.len()).expect("small"));
        let blocks = |file: &File| file.size.div_ceil(4096).max(file.reserved);
        assert_eq!(workload.live_bytes(), self.files.values().map(blocks).sum::<u64>() * 4096);
        let directories: BTreeMap<_, _> =
            workload.directories().map(|directory| (directory.number, directory.parent)).collect();
        assert_eq!(directories, self.directories);
        let mut names = BTreeMap::new();
        for LiveFile { file, place, size, version, links } in workload.live_files() {
            let ours = self.files[&file];
            assert_eq!((size, version, links), (ours.size, ours.version, ours.links));
            names.insert(place, Name::File(file));
        }
        for HardLink { file, place } in workload.hard_links() {
            assert!(names.insert(place, Name::File(file)).is_none());
        }
        for Symlink { place, target } in workload.symlinks() {
            let Some(Name::Symlink { file, target: ours }) = self.names.get(&place) else {
                panic!("no symbolic link at {place:?}")
            };
            assert_eq!(target, *ours);
            assert!(names.insert(place, Name::Symlink { file: *file, target }).is_none());
        }
        assert_eq!(names, self.names);
        assert_eq!(workload.shape(), self.shape(thread));
        assert_eq!(workload.size_bytes(), self.files.values().map(|file| file.size).sum::<u64>());
    }

    fn shape(&self, thread: u32) -> Shape {
        let directories =
            self.directories.iter().map(|(number, parent)| Directory { number: *number, parent: *parent });
        let tree = DirectoryTree::new(thread, directories);
        let path = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut path = Vec::new();
            write(&mut path);
            path
        };
        let mut shape = Shape::default();
        shape.add_directory(&path(&|path| tree.write_directory_path(path, 0)));
        for number in self.directories.keys() {
            shape.add_directory(&path(&|path| tree.write_directory_path(path, *number)));
        }
        for (place, name) in &self.names {
            let at = path(&|path| tree.write_path(path, *place));
            match name {
                Name::File(file) => {
                    let file = self.files[file];
                    shape.add_file(&at, file.size, file.links.into());
                }
                Name::Symlink { target, .. } => {
                    shape.add_symlink(
                        &at,
                        &path(&|path| tree.write_symlink_text(path, place.directory, *target)),
                    );
                }
            }
        }
        shape
    }
}
