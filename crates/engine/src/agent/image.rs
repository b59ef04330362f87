//! Requests about images.

use std::time::Duration;

use super::Agent;
use super::sink::EventSink;
use crate::image::{self, RestoreOptions, SaveOptions};
use crate::load::LoadSink as _;
use crate::protocol::{Failure, FailureKind, Reply, Request};
use crate::quantity::share;

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
            agent.with_control(|control| image::save(&options, control, &mut progress))
        }
        Request::ImageRestore { file, device, trim, threads } => {
            let options = RestoreOptions { file, device, trim, threads };
            agent.with_control(|control| image::restore(&options, control, &mut progress))
        }
        Request::ImageVerify { file, threads } => {
            agent.with_control(|control| image::verify(&file, threads, control, &mut progress))
        }
        Request::ImageMaterialise { directory } => {
            agent.with_control(|control| image::materialise(&directory, control))?;
            return Ok(Reply::Done);
        }
        Request::ImageInfo { file } => image::info(&file),
        other => {
            let message = format!("{other:?} is not about images");
            return Err(Failure { message, hint: String::new(), errno: None, kind: FailureKind::Internal });
        }
    }?;
    Ok(Reply::Image { summary: Box::new(summary) })
}
