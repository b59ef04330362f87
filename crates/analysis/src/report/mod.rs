//! The report of a store: one self-contained HTML page that works offline, on a phone, in the dark and in
//! print.
//!
//! Data flows one way: the store's files are read one trial at a time into views that keep only what is
//! shown, sections turn views into markup and into one JSON island, and the scripts under `assets/` draw it.
//! Nothing is computed in the browser that a reader would call a result: smoothing, intervals and verdicts
//! come from [`crate::stats`].
//!
//! A store that is empty, half run or damaged still gives a page, which says so.

mod age_cost;
pub(crate) mod alone;
pub mod answer;
mod bar;
mod cluster;
mod compared;
pub mod control;
mod device;
mod difference;
pub mod explain;
mod factor;
mod figure;
pub mod findings;
mod island;
mod lockstep;
mod medium;
mod page;
mod palette;
mod percentile;
mod point;
mod power;
pub mod remedy;
pub(crate) mod scaling;
mod search;
mod search_workload;
mod section;
mod series;
mod spread;
pub(crate) mod table;
pub mod text;
mod varied;
mod view;
mod wear;

use fsage_model::problem::{EXIT_INTERNAL, Explain};
use fsage_model::reading::{ReadError, Records};
use fsage_model::study::{ClaimSpec, StudySpec};

use crate::stats::{Judgement, by_media, judge};
use answer::Answer;
use view::View;

/// What the page is to show.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReportOptions {
    /// Confidence of the intervals (0..1).
    pub confidence: f64,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self { confidence: 0.95 }
    }
}

/// Why there is no page. Damaged or failed trials are no reason: the page tells of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// There are no records.
    #[error(transparent)]
    Records(#[from] ReadError),
    /// The data of the charts cannot be written as JSON.
    #[error("cannot write the charts' data")]
    Data {
        /// Why.
        source: serde_json::Error,
    },
}

impl Explain for ReportError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Records(error) => error.exit_code(),
            Self::Data { .. } => EXIT_INTERNAL,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Records(error) => error.hint(),
            Self::Data { .. } => None,
        }
    }
}

/// The answer of the records of a study, as the page begins with it.
///
/// # Errors
/// When the records cannot be read; never because of what is in a trial.
pub fn answer(records: &dyn Records, options: &ReportOptions) -> Result<Answer, ReportError> {
    let view = view::load(records, options)?;
    let controls = control::rows(&view.controls, &view.evidence, view.confidence);
    let summary = control::summary(&controls);
    Ok(answer::of(&view, &judgements(&view, summary.as_ref()), summary))
}

/// The page for the records of a study, as HTML text.
///
/// # Errors
/// When the records cannot be read; never because of what is in a trial.
pub fn render(records: &dyn Records, options: &ReportOptions) -> Result<String, ReportError> {
    let view = view::load(records, options)?;
    let differences = difference::all(&view);
    let controls = control::rows(&view.controls, &view.evidence, view.confidence);
    let summary = control::summary(&controls);
    let judgements = judgements(&view, summary.as_ref());
    let answer = answer::of(&view, &judgements, summary);
    let percentiles = percentile::all(&view);
    let searches = search_workload::all(&view);
    let island = serde_json::to_string(&island::island(
        &view,
        &differences.made,
        &answer.chart,
        &percentiles,
        &searches,
    ))
    .map_err(|source| ReportError::Data { source })?;
    let content = section::Content {
        view: &view,
        answer: &answer,
        differences: &differences,
        judgements: &judgements,
        controls: &controls,
        percentiles: &percentiles,
        searches: &searches,
    };
    Ok(page::page(&content, &island))
}

/// One for each claim of the study; where controls failed, none is judged.
fn judgements(view: &View, controls: Option<&control::Summary>) -> Vec<Judgement> {
    let varied = varied::all(view);
    let judge = |spec: &StudySpec| -> Vec<Judgement> {
        let values = |each: &Option<String>| each.as_ref().and_then(|path| spec.matrix.get(path));
        let one = |claim: &ClaimSpec| {
            let values = values(&claim.each).map(Vec::as_slice).unwrap_or_default();
            let found = judge(claim, values, &view.evidence, view.confidence);
            by_media(found, claim, values, &varied, view.confidence)
        };
        spec.claim.iter().map(one).collect()
    };
    let mut found = view.study.spec.as_ref().map(judge).unwrap_or_default();
    control::bind(&mut found, controls);
    found
}
