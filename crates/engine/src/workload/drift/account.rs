//! What the model says there is: for materialising, verifying, digests and reports.

use super::Drift;
use super::slot::{NONE, Set};
use crate::digest::Digest;
use crate::tree::{Directory, DirectoryTree, Shape};
use crate::workload::{HardLink, LiveFile, Symlink};

impl Drift {
    pub(in crate::workload) fn initial_directories(&self) -> Vec<Directory> {
        self.initial.clone()
    }

    pub(in crate::workload) fn directories(&self) -> impl Iterator<Item = Directory> + '_ {
        self.directories.iter()
    }

    pub(in crate::workload) fn live_files(&self) -> impl Iterator<Item = LiveFile> + '_ {
        self.slots.live().map(|slot| {
            let hard = self.attached.list(slot.attached).filter(|attached| attached.target.is_none()).count();
            LiveFile {
                file: slot.file,
                place: slot.place(),
                size: slot.size,
                version: slot.version,
                links: 1 + u32::try_from(hard).unwrap_or(u32::MAX - 1),
            }
        })
    }

    pub(in crate::workload) fn hard_links(&self) -> impl Iterator<Item = HardLink> + '_ {
        let linked = self.slots.live().filter(|slot| slot.attached != NONE);
        linked.flat_map(|slot| {
            let hard = self.attached.list(slot.attached).filter(|attached| attached.target.is_none());
            hard.map(|attached| HardLink { file: slot.file, place: attached.place })
        })
    }

    pub(in crate::workload) fn symlinks(&self) -> impl Iterator<Item = Symlink> + '_ {
        let linked = self.slots.live().filter(|slot| slot.attached != NONE);
        linked
            .flat_map(|slot| self.attached.list(slot.attached))
            .filter_map(|attached| attached.target.map(|target| Symlink { place: attached.place, target }))
    }

    pub(in crate::workload) fn files(&self) -> u64 {
        u64::from(self.slots.members(Set::Live))
    }

    pub(in crate::workload) const fn live_bytes(&self) -> u64 {
        self.slots.live_bytes()
    }

    pub(in crate::workload) fn digest(&self) -> Digest {
        let thread = u64::from(self.thread);
        let mut digest = Digest::default();
        for directory in self.directories() {
            digest.add(&[1, thread, directory.number.into(), directory.parent.into()]);
        }
        for file in self.live_files() {
            let place = file.place;
            let (version, links) = (file.version.into(), file.links.into());
            digest.add(&[
                2,
                thread,
                place.directory.into(),
                place.name,
                file.file,
                file.size,
                version,
                links,
            ]);
        }
        for link in self.hard_links() {
            digest.add(&[3, thread, link.place.directory.into(), link.place.name, link.file]);
        }
        for link in self.symlinks() {
            let (place, target) = (link.place, link.target);
            digest.add(&[
                4,
                thread,
                place.directory.into(),
                place.name,
                target.directory.into(),
                target.name,
            ]);
        }
        digest
    }

    pub(in crate::workload) fn shape(&self) -> Shape {
        let tree = DirectoryTree::new(self.thread, self.directories());
        let mut shape = Shape::default();
        let (mut path, mut text) = (Vec::new(), Vec::new());
        tree.write_directory_path(&mut path, 0);
        shape.add_directory(&path);
        for directory in self.directories() {
            path.clear();
            tree.write_directory_path(&mut path, directory.number);
            shape.add_directory(&path);
        }
        for slot in self.slots.live() {
            let attached = || self.attached.list(slot.attached);
            let links = 1 + attached().filter(|attached| attached.target.is_none()).count();
            let links = u64::try_from(links).unwrap_or(u64::MAX);
            path.clear();
            tree.write_path(&mut path, slot.place());
            shape.add_file(&path, slot.size, links);
            for attached in attached() {
                path.clear();
                tree.write_path(&mut path, attached.place);
                match attached.target {
                    None => shape.add_file(&path, slot.size, links),
                    Some(target) => {
                        text.clear();
                        tree.write_symlink_text(&mut text, attached.place.directory, target);
                        shape.add_symlink(&path, &text);
                    }
                }
            }
        }
        shape
    }
}
