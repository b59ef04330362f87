//! What the model says there is: for materialising, verifying, digests and reports.

use fsage_model::digest::Digest;

use super::Drift;
use super::slot::{NONE, Set};
use crate::tree::{Directory, DirectoryTree, Shape};
use crate::workload::{HardLink, LiveFile, Symlink, TreeDigest};

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
        let mut digest = TreeDigest::of_thread(self.thread);
        self.directories().for_each(|directory| digest.directory(directory));
        self.live_files().for_each(|file| digest.file(&file));
        self.hard_links().for_each(|link| digest.hard_link(&link));
        self.symlinks().for_each(|link| digest.symlink(&link));
        digest.finish()
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
