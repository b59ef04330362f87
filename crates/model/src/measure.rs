//! Measures: what can be measured, and what a measure leaves.

mod requests;
mod result;
mod spec;
mod work;

pub use requests::{RequestSummary, Requests};
pub use result::{
    DISK_COUNTER, EXTRA_FACTOR, EXTRA_REQUESTS, MODEL_TIME, MeasureMetric, MeasureResult, QUEUE_DEPTH, depth,
    disk_metrics, model_unit,
};
pub use spec::*;
pub use work::{MOST_FIO_SPACE, SAME_WORK, Work};
