//! `names`: the time to list every directory, cold, without inspecting inodes.

use fsage_model::measure::MeasureMetric;
use fsage_model::quantity::share;

use super::context::{Context, seconds};
use super::listing::walk;
use super::{Measure, MeasureError};

/// Parameters of `names`: none.
pub(super) struct NamesSpec {}

impl Measure for NamesSpec {
    fn run(&self, context: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError> {
        context.drop_caches()?;
        context.start();
        let unseen = walk(&context.anchor.held(), |_| {
            context.count.operations += 1;
            context.step(None, "listing")
        })?;
        context.stop();
        context.warn_unseen(&unseen);
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
        ])
    }
}
