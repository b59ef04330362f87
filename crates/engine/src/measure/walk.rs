//! `walk`: the time to list every directory and inspect every inode, cold, without reading data, as `find`
//! and `du` do.
//!
//! One `statx` a name with everything that `ls -l` shows; one thread, readdir order.

use fsage_model::measure::{MeasureMetric, WalkSpec};
use fsage_model::quantity::{as_f64, share};
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};

use super::context::{Context, per_second, seconds};
use super::listing::{Unseen, walk};
use super::{Measure, MeasureError};

impl Measure for WalkSpec {
    fn run(&self, context: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError> {
        let (mut allocated, mut failed) = (0, Unseen::default());
        context.drop_caches()?;
        context.start();
        let unseen = walk(&context.anchor.held(), |found| {
            match statx(found.directory, found.name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS) {
                Ok(stat) => {
                    context.count.operations += 1;
                    context.count.files += u64::from(found.kind == FileType::RegularFile);
                    allocated += stat.stx_blocks * 512;
                }
                Err(errno) => failed.add(found.path, errno),
            }
            context.step(None, "looking")
        })?;
        context.stop();
        context.warn_unseen(&unseen);
        context.warn_unseen(&failed);
        let (ns, names) = (context.elapsed_ns(), context.count.operations);
        if names == 0 {
            return Err(MeasureError::Nothing {
                path: context.directory.to_owned(),
                what: "the directory is empty",
            });
        }
        Ok(vec![
            MeasureMetric::cost("time_per_name", "ns", share(ns, names)),
            MeasureMetric::cost("time", "s", seconds(ns)),
            MeasureMetric::gain("names_per_second", "1/s", per_second(names, ns)),
            MeasureMetric::cost("allocated", "B", as_f64(allocated)),
        ])
    }
}
