//! Any text is a recording that makes a trace which is read back whole, or an error that names its line.

#![no_main]

use std::io::Write as _;
use std::path::Path;

use fsage_engine::import::{ImportError, ImportOptions, Program, import};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, text)) = bytes.split_first() else { return };
    let program = [Program::Strace, Program::Fio, Program::Csv][usize::from(first % 3)];
    let options = ImportOptions {
        below: (first & 4 != 0).then(|| "/a".into()),
        cwd: (first & 8 != 0).then(|| "/a/b".into()),
        allow_truncated: first & 16 != 0,
    };
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let (input, output) = (folder.path().join("input"), folder.path().join("trace"));
    if std::fs::File::create(&input).and_then(|mut file| file.write_all(text)).is_err() {
        return;
    }
    match import(program, &input, &output, &options) {
        Ok(report) => assert_eq!(rows(&output), report.operations),
        Err(error) => assert!(
            matches!(error, ImportError::Malformed { line, .. } | ImportError::CutOff { line, .. } if line > 0),
            "{error}"
        ),
    }
});

/// Rows of the trace that was made; each of them must be readable.
fn rows(path: &Path) -> u64 {
    let reader = fsage_engine::trace::read(path).expect("what we write can be read");
    reader.map(|record| record.expect("what we write can be read")).map(|_| 1).sum()
}
