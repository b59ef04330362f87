//! The model's shape is that of a real directory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use fsage_engine::tree::{Directory, DirectoryTree, Shape, walk};
use fsage_engine::workload::{Feedback, Workload};
use fsage_model::operation::{Action, Operation};

use super::{done, make, small};

fn path(root: &Path, write: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut path = Vec::new();
    write(&mut path);
    root.join(std::ffi::OsStr::from_bytes(&path))
}

/// Does an operation with plain calls; contents as the content crate has them.
fn perform(root: &Path, tree: &mut DirectoryTree, op: &Operation) -> io::Result<()> {
    let place = path(root, |path| tree.write_path(path, op.place));
    let named = |tree: &DirectoryTree, target| path(root, |path| tree.write_path(path, target));
    let directory = path(root, |path| tree.write_directory_path(path, op.place.directory));
    let write = |file: File, offset: u64, length: u64| {
        let mut data = vec![0; usize::try_from(length).expect("small")];
        fsage_content::fill(&mut data, op.file, offset, op.version);
        file.write_all_at(&data, offset)
    };
    let open = || OpenOptions::new().write(true).open(&place);
    match op.action {
        Action::Create { length } => write(File::create_new(&place)?, 0, length),
        Action::Append { offset, length } => write(open()?, offset, length),
        Action::Overwrite => write(open()?, 0, op.size),
        Action::RandomWrite { .. } => {
            op.accesses().try_for_each(|(offset, length)| write(open()?, offset, length))
        }
        Action::Truncate { new_size } => open()?.set_len(new_size),
        Action::Delete => fs::remove_file(place),
        Action::Rename { target } => fs::rename(place, named(tree, target)),
        Action::Link { target } => fs::hard_link(place, named(tree, target)),
        Action::Symlink { target } => {
            let mut text = Vec::new();
            tree.write_symlink_text(&mut text, target.directory, op.place);
            let target = named(tree, target);
            symlink(std::ffi::OsStr::from_bytes(&text), &target)?;
            assert_eq!(fs::metadata(&target)?.len(), op.size, "the link leads to its file");
            Ok(())
        }
        Action::Mkdir { parent } => {
            tree.insert(Directory { number: op.place.directory, parent });
            fs::create_dir(path(root, |path| tree.write_directory_path(path, op.place.directory)))
        }
        Action::Rmdir { .. } => {
            fs::remove_dir(directory)?;
            tree.remove(op.place.directory);
            Ok(())
        }
        Action::Read { .. }
        | Action::RandomRead { .. }
        | Action::Fallocate { .. }
        | Action::Fsync
        | Action::Fdatasync => fs::metadata(place).map(|_| ()),
    }
}

#[test]
fn the_model_is_the_directory() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let mut model = Shape::default();
    for thread in 0..2 {
        let mut workload = make(&small(), thread, 2, 77);
        let initial = workload.initial_directories();
        let mut tree = DirectoryTree::new(thread, initial.clone());
        fs::create_dir(path(root.path(), |path| tree.write_directory_path(path, 0))).expect("top");
        for directory in initial {
            let path = path(root.path(), |path| tree.write_directory_path(path, directory.number));
            fs::create_dir(path).expect("initial directory");
        }
        for _ in 0..4000 {
            let operation = workload.next(&Feedback::default()).expect("something is always possible");
            perform(root.path(), &mut tree, &operation)
                .unwrap_or_else(|error| panic!("{operation:?}: {error}"));
            workload.completed(&operation, &done(0));
        }
        model.merge(&workload.shape());
        assert_eq!(tree, DirectoryTree::new(thread, tree.iter()));
        for file in workload.live_files() {
            check_content(&path(root.path(), |path| tree.write_path(path, file.place)), &file);
        }
    }
    assert_eq!(walk(root.path()).expect("readable"), model);
    assert!(model.symlinks > 0 && model.file_names > 20 && model.directories > 5);
}

/// Every block is of the file, in its place, of a version that the model knows.
fn check_content(path: &Path, file: &fsage_engine::workload::LiveFile) {
    let data = fs::read(path).expect("readable");
    let mut offset = 0;
    for block in data.chunks(fsage_content::BLOCK_BYTES) {
        let expected = fsage_content::Expected { file: file.file, offset, versions: 1..=file.version };
        let verdict = fsage_content::verify(block, &expected);
        assert!(
            matches!(verdict, fsage_content::BlockVerdict::Good { .. }),
            "{}: {verdict:?}",
            path.display()
        );
        offset += 4096;
    }
}

#[test]
fn a_missing_directory_is_named() {
    let error = walk(Path::new("/nonexistent/fsage")).expect_err("not there");
    assert_eq!(error.to_string(), "cannot inspect /nonexistent/fsage");
}
