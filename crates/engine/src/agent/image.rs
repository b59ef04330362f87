//! Requests about images.

use std::os::unix::fs::FileTypeExt as _;
use std::time::Duration;

use fsage_model::protocol::{Failure, FailureKind, Reply, Request};
use fsage_model::quantity::share;

use super::Agent;
use super::sink::EventSink;
use crate::image::{self, RestoreOptions, SaveOptions};
use crate::load::{Control, LoadSink as _};

/// Does a request about an image.
pub(super) fn serve(agent: &Agent, id: u64, request: Request) -> Result<Reply, Failure> {
    let mut sink = EventSink::new(agent, id);
    let mut progress = |done, blocks, elapsed: Duration| {
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        sink.progress(done, elapsed_ns, (blocks > 0).then(|| share(done, blocks)), "");
    };
    let summary = match request {
        Request::ImageSave { device, point, frozen, all_blocks, file, level, threads, facts } => {
            let options = SaveOptions { device, point, frozen, all_blocks, file, level, threads, facts };
            let save =
                |control: &Control| image::save(&options, control, &mut progress).map_err(Failure::from);
            let save = || agent.with_control(save);
            agent.held.used_if_held(Some(&options.device), save)
        }
        Request::ImageRestore { file, device, trim, threads } => {
            let mut restore = |identity| {
                let device = device.clone();
                let options = RestoreOptions { file: file.clone(), device, identity, trim, threads };
                agent.with_control(|control| Ok(image::restore(&options, control, &mut progress)?))
            };
            if device.metadata().is_ok_and(|found| found.file_type().is_block_device()) {
                agent.held.used(&device, |identity| restore(Some(*identity)))
            } else {
                restore(None)
            }
        }
        Request::ImageVerify { file, threads } => {
            agent.with_control(|control| Ok(image::verify(&file, threads, control, &mut progress)?))
        }
        Request::ImageMaterialise { directory } => {
            agent.with_control(|control| image::materialise(&directory, control))?;
            return Ok(Reply::Done);
        }
        Request::ImageInfo { file } => Ok(image::info(&file)?),
        other => {
            let message = format!("{other:?} is not about images");
            return Err(Failure { message, hint: String::new(), errno: None, kind: FailureKind::Internal });
        }
    }?;
    Ok(Reply::Image { summary: Box::new(summary) })
}
