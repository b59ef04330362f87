//! Measures of an aged file system, one file per measure.
//!
//! A measure runs on a mounted file system while nothing else does. Unless it says otherwise it begins cold:
//! the lab has just unmounted and mounted the volume, and what a measure reads beforehand (to find old files)
//! is dropped from the caches again before its clock starts. Everything random follows from the seed and from
//! the names of the tree, never from the order in which the file system lists them (`old`), so that an aged
//! tree and its copy are asked the same. Docs: `docs/measures.md`.

mod append;
mod cold_random_read;
mod context;
mod create;
mod delete;
pub(crate) mod error;
mod extra;
mod grep;
mod large_file;
pub(crate) mod listing;
pub(crate) mod old;
pub mod requests;
mod walk;

use std::path::{Path, PathBuf};

use fsage_model::disk::DiskCpu;
use fsage_model::location::Location;
use fsage_model::measure::Effect;
use fsage_model::measure::FioSpec;
use fsage_model::measure::MeasureMetric;
use fsage_model::measure::MeasureResult;
use fsage_model::measure::MeasureSpec;
use fsage_model::measure::RequestSummary;
use fsage_model::measure::disk_metrics;
use fsage_model::measure::model_unit;
use fsage_model::quantity::{as_f64, share};
use fsage_model::warning::Warning;
use fsage_model::warning::{CPU_BESIDE, CPU_BOUND, WarningKind};
use fsage_model::with_measure;

use crate::host::held::HeldDevices;
use crate::load::{Control, LoadSink};
use crate::location::Reach as _;
use context::Context;
pub use context::{FOLDER, HeldFolder, make_folder, remove_folder};
pub use error::MeasureError;
use extra::Extra;
use requests::Tracer;

/// What is to be measured where.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The measure.
    pub measure: MeasureSpec,
    /// The tree it works on.
    pub directory: Location,
    /// Block device whose requests are seen; `None`: what the directory's file system is mounted from.
    pub device: Option<PathBuf>,
    /// What choices follow from.
    pub seed: u64,
    /// Name of the trace instance to make and remove (`fsage-…`); `None`: requests are not inspected.
    pub trace_instance: Option<String>,
    /// Name of the position in the disk's log where the clock is first started.
    pub mark: Option<String>,
    /// Share of the measure's time that requests of a control add (`extra`); `None`: none are added.
    pub extra: Option<f64>,
}

/// How a measure is taken: its parameters are the data, this is what is done. One file each.
trait Measure {
    /// Prepares, runs against the context's clock, and gives its values, the one to compare first.
    ///
    /// # Errors
    /// A parameter out of range, nothing there to measure, a failed system call, or a stop from outside.
    fn run(&self, context: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError>;
}

impl Measure for FioSpec {
    fn run(&self, _: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError> {
        Err(MeasureError::NotHere)
    }
}

/// Measures; `held` mounts the file system afresh to make it cold, where it can.
///
/// # Errors
/// A parameter out of range, nothing there to measure, a failed system call, or a stop from outside. That
/// requests cannot be traced is a warning.
pub fn run(
    order: &Order,
    held: &HeldDevices,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<MeasureResult, MeasureError> {
    let directory = &order.directory;
    let reads = order.measure.effect() == Effect::Nothing;
    let anchor = if reads { directory.open() } else { directory.open_to_change() }?;
    // The mount table has paths without links.
    let path = anchor.held().canonicalize().map_err(MeasureError::io("find", anchor.path()))?;
    let (tracer, warning) = tracer(order, &path)?;
    let mut context = Context::new(&anchor, order.seed, held, (control, sink), tracer)?;
    context.mark.clone_from(&order.mark);
    context.extra = extra_of(order)?;
    context.warnings.extend(warning);
    let mut metrics = with_measure!(&order.measure, spec => spec.run(&mut context))?;
    let model = context.clock().is_model();
    if model {
        metrics.iter_mut().for_each(|metric| metric.unit = model_unit(&metric.unit));
    }
    metrics.extend(context.extra_metrics()?);
    metrics.extend(context.queue_depth());
    let requests = context.requests();
    // How long the block layer took for a request is no time of the medium then.
    let of_medium = |metric: &MeasureMetric| !model || metric.unit != "ns";
    metrics.extend(requests.iter().flat_map(RequestSummary::metrics).filter(of_medium));
    let disk = context.disk()?;
    metrics.extend(disk.iter().flat_map(disk_metrics));
    match &disk {
        Some(used) if used.cpu == DiskCpu::Serial => {}
        Some(used) if model => warn_of_cpu_beside(&mut context, used.elapsed_ns),
        _ => warn_of_cpu(&mut context),
    }
    let (elapsed_ns, cpu_ns, count) = (context.wall_ns(), context.cpu_ns(), context.count);
    Ok(MeasureResult {
        name: order.measure.name().to_owned(),
        elapsed_ns,
        cpu_ns,
        bytes: count.bytes,
        files: count.files,
        operations: count.operations,
        job: None,
        requests,
        disk,
        metrics,
        warnings: context.warnings,
    })
}

/// The requests that a control adds.
fn extra_of(order: &Order) -> Result<Option<Extra>, MeasureError> {
    let Some(share) = order.extra else { return Ok(None) };
    let device = order.device.as_deref().ok_or(MeasureError::NoDevice)?;
    Extra::on(device, share, order.seed).map(Some)
}

/// The tracer that was asked for, or why there is none.
fn tracer(order: &Order, directory: &Path) -> Result<(Option<Tracer>, Option<Warning>), MeasureError> {
    let Some(name) = &order.trace_instance else { return Ok((None, None)) };
    requests::check_name(name)?;
    match Tracer::start(name, directory, order.device.as_deref()) {
        Ok(tracer) => Ok((Some(tracer), None)),
        Err(error) => {
            let message = format!("block requests are not shown: {}", crate::host::chain(&error));
            Ok((None, Some(Warning { kind: WarningKind::NoRequests, message })))
        }
    }
}

fn warn_of_cpu_beside(context: &mut Context<'_>, model_ns: u64) {
    let beside = share(context.cpu_ns(), model_ns);
    if beside >= CPU_BESIDE {
        let message = format!(
            "beside the model time the measuring thread was on the CPU for {:.0} % of as long, which is not in it",
            beside * 100.0
        );
        context.warn(WarningKind::CpuBesideModel, message);
    }
}

fn warn_of_cpu(context: &mut Context<'_>) {
    let busy = share(context.cpu_ns(), context.wall_ns());
    if busy >= CPU_BOUND {
        let message = format!(
            "the measuring thread was on the CPU for {:.0} % of the time: the device was not what it waited for",
            busy * 100.0
        );
        context.warn(WarningKind::CpuBound, message);
    }
}

/// Refuses a share outside `0 < share ≤ most`.
fn check_share(
    measure: &'static str,
    key: &'static str,
    share: f64,
    most: f64,
    limit: &'static str,
) -> Result<(), MeasureError> {
    if share > 0.0 && share <= most {
        return Ok(());
    }
    Err(MeasureError::Range { measure, key, value: share.to_string(), limit })
}

/// `share` of `whole`, rounded.
fn part_of(whole: u64, share: f64) -> u64 {
    fsage_model::quantity::to_u64(as_f64(whole) * share)
}

/// The example of docs/adding-a-measure.md.
#[cfg(test)]
#[path = "../../../../docs/examples/names.rs"]
mod names;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::NoSink;

    #[test]
    fn the_example_of_the_guide_is_a_measure_like_any_other() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(directory.path().join(name), name).unwrap();
        }
        let anchor = Location::from(directory.path()).open().unwrap();
        let (control, mut sink, held) = (Control::new(), NoSink, HeldDevices::default());
        let mut context = Context::new(&anchor, 1, &held, (&control, &mut sink), None).unwrap();
        let metrics = names::NamesSpec {}.run(&mut context).unwrap();
        assert_eq!((metrics[0].name.as_str(), context.count.operations), ("time_per_name", 3));
    }
}
