//! Calls about images.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Duration;

use fsage_model::image::ImageSummary;
use fsage_model::protocol::Failure;
use fsage_model::quantity::share;

use super::sink::EventSink;
use super::task::{Task, handlers};
use crate::image::{self, ImageError, Progress, RestoreOptions, SaveOptions};
use crate::load::{Control, LoadSink as _};

handlers! { task:
    ImageSave { device, point, frozen, all_blocks, file, level, threads, facts } => {
        let options = SaveOptions { device, point, frozen, all_blocks, file, level, threads, facts };
        let save = || with_progress(task, |control, progress| image::save(&options, control, progress));
        task.agent.held.used_if_held(Some(&options.device), save)?
    };
    ImageRestore { file, device, trim, threads } => {
        let mut options = RestoreOptions { file, device: device.clone(), identity: None, trim, threads };
        let mut restore = |identity| {
            options.identity = identity;
            with_progress(task, |control, progress| image::restore(&options, control, progress))
        };
        if is_block_device(&device) {
            task.agent.held.used(&device, |identity| restore(Some(*identity)))?
        } else {
            restore(None)?
        }
    };
    ImageVerify { file, threads } =>
        with_progress(task, |control, progress| image::verify(&file, threads, control, progress))?;
    ImageMaterialise { directory } =>
        task.agent.with_control(|control| image::materialise(&directory, control)).map(drop)?;
    ImageInfo { file } => image::info(&file)?;
}

fn is_block_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_block_device())
}

/// Does `work`, which can be stopped, and sends how far it is.
fn with_progress(
    task: &Task<'_>,
    work: impl FnOnce(&Control, &mut dyn Progress) -> Result<ImageSummary, ImageError>,
) -> Result<ImageSummary, Failure> {
    let mut sink = EventSink::of(task);
    let mut progress = |done, blocks, elapsed: Duration| {
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        sink.progress(done, elapsed_ns, (blocks > 0).then(|| share(done, blocks)), "");
    };
    Ok(task.agent.with_control(|control| work(control, &mut progress))?)
}
