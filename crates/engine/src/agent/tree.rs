//! Calls about what is below a directory.

use std::path::Path;
use std::time::Instant;

use fsage_model::protocol::{Failure, Placed, Scanned};

use super::task::{Task, handlers};
use crate::host::{cache, chain};
use crate::layout::{self, LayoutError, ScanOptions};
use crate::location::{Anchor, Reach as _};
use crate::verify;

handlers! { task:
    MakeFolder { directory } => drop(directory.make()?);
    IsTaken { directory, name } => directory.open()?.is_taken(&name)?;
    Scan { directory, threads, one_file_system, detail } => {
        let started = Instant::now();
        let scan = if detail { layout::scan_in_detail } else { layout::scan };
        let options = ScanOptions { threads: usize::try_from(threads).unwrap_or(0), one_file_system };
        let layout = at(&directory.open()?, |path| scan(path, &options))?;
        Scanned { layout, elapsed_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX) }
    };
    Places { directory, cells } => places(task, &directory.open()?, cells)?;
    FreeSpace { directory } => at(&directory.open()?, layout::free_space)?;
    Verify { directory, cross_mounts } => verify::run_in(&directory.open()?, 0, cross_mounts);
    Trim { directory } => cache::trim(&directory.open()?.held())?;
}

/// What `ask` says of an open directory that it takes as a path: a failure tells the path that people know.
fn at<T>(anchor: &Anchor, ask: impl FnOnce(&Path) -> Result<T, LayoutError>) -> Result<T, Failure> {
    let held = anchor.held();
    ask(&held).map_err(|error| {
        let mut failure = Failure::from(error);
        let (held, shown) = (held.display().to_string(), anchor.path().display().to_string());
        failure.message = failure.message.replace(&held, &shown);
        failure
    })
}

/// Bytes of lines that are sent together.
const LINES: usize = 1 << 18;

fn places(task: &Task<'_>, anchor: &Anchor, cells: u64) -> Result<Placed, Failure> {
    let found = at(anchor, layout::places)?;
    let mut lines = Vec::new();
    for file in &found.files {
        // A path and numbers: nothing that JSON could not say.
        if serde_json::to_writer(&mut lines, file).is_ok() {
            lines.push(b'\n');
        }
        if lines.len() >= LINES {
            task.agent.send_chunk(task.id, &lines);
            lines.clear();
        }
    }
    task.agent.send_chunk(task.id, &lines);
    let volume_bytes = layout::volume_bytes(anchor.fd());
    let (used, unknown) = match crate::image::used_shares(&anchor.held(), volume_bytes, cells) {
        Ok(used) => (used, String::new()),
        Err(error) => (Vec::new(), chain(&error)),
    };
    let files = u64::try_from(found.files.len()).unwrap_or(u64::MAX);
    let layout::Places { failed, logical, .. } = found;
    Ok(Placed { files, failed, logical, volume_bytes, used, unknown })
}
