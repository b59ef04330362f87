//! The `measure` stage: what the state that the earlier stages left costs.

use std::path::Path;

use fsage_model::location::Location;
use fsage_model::measure::{Effect, MeasureResult, MeasureSpec, WorksOn};
use fsage_model::protocol::call;
use fsage_model::record::StageRecord;
use fsage_model::study::{Control, MeasureStage};
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;

use super::{Stage, StageContext};
use crate::measure::{self, MeasureOrder};
use crate::run::error::TrialError;
use crate::run::trial_volume::TrialVolume;
use crate::run::warning::Written;

/// Folder measured where nothing was aged.
const FRESH: &str = "fresh";

impl Stage for MeasureStage {
    /// Inspects the layout, measures, each time from a cold start, and looks again.
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let old = context.aged_folders().pop();
        let directory = place.folder(old.as_deref().unwrap_or(FRESH));
        context.session.call(call::MakeFolder { directory: directory.clone() })?;
        if self.trim {
            context.command("trim", &format!("fstrim {}", place.point().display()));
            context.session.call(call::Trim { directory: directory.clone() })?;
        }
        let before = context.look(&directory)?;
        let mut results = Vec::new();
        let mut left_out = Vec::new();
        for measure in &self.measures {
            context.interrupted()?;
            if old.is_none() && measure.works_on() == WorksOn::OldFiles {
                left_out.push(measure.name().to_owned());
                continue;
            }
            place.remount(context)?;
            let result = match one(&self.name, measure, place, &directory, context) {
                Err(error) if error.is_out_of_space() => {
                    let message = format!("{} was left out: the volume has no room for it", measure.name());
                    context.warn(Warning { kind: WarningKind::NoRoom, message });
                    left_out.push(measure.name().to_owned());
                    continue;
                }
                other => other?,
            };
            for warning in &result.warnings {
                context.warn(warning.clone());
            }
            results.push(result);
        }
        let after = context.look(&directory)?;
        context.done.push(StageRecord::Measure {
            name: self.name.clone(),
            results,
            left_out,
            before: Box::new(before.0),
            free_before: before.1.map(Box::new),
            after: Box::new(after.0),
            free_after: after.1.map(Box::new),
        });
        Ok(())
    }

    fn describe(&self, point: &Path, seed: u64) -> Vec<String> {
        let cold = format!("umount {0} && mount {0}", point.display());
        self.measures.iter().flat_map(|measure| [cold.clone(), in_words(measure, point, seed)]).collect()
    }
}

/// One measure, with its block requests where the kernel shows them.
pub(super) fn one(
    stage: &str,
    measure: &MeasureSpec,
    place: &TrialVolume,
    directory: &Location,
    context: &mut StageContext<'_>,
) -> Result<MeasureResult, TrialError> {
    context.command(stage, &in_words(measure, &directory.path, context.planned.seed));
    let name = format!("{stage} {}", measure.name());
    // The agent names the moment at which its clock starts: what comes before makes things cold.
    let by_lab = matches!(measure, MeasureSpec::Fio(_));
    let order = MeasureOrder {
        measure: measure.clone(),
        directory: directory.clone(),
        device: Some(place.device().to_owned()),
        seed: context.planned.seed,
        requests: true,
        mark: (place.keeps_log() && !by_lab).then(|| name.clone()),
        extra: context.spec.control.and_then(Control::extra),
    };
    if by_lab {
        place.mark(&name, context)?;
    }
    let slowed = context.spec.control.and_then(Control::faults);
    if let Some(faults) = &slowed {
        place.set_faults(Some(faults.clone()), context)?;
    }
    let watch = context.watch()?;
    let measured = context
        .ask_long(&name, |session, journal, incoming| measure::measure(session, journal, &order, incoming));
    // Also when it found no room: what comes after is not slowed.
    if slowed.is_some() && !context.session.is_lost() {
        place.set_faults(None, context)?;
    }
    let mut result = measured?;
    let now = context.session.call(call::HostActivity)?;
    let ours = if measure.effect() == Effect::Nothing { 0 } else { result.bytes };
    result.warnings.extend(watch.end(measure.name(), Some(Written { ours, of: result.bytes }), now));
    place.mark(&format!("after {name}"), context)?;
    Ok(result)
}

fn in_words(measure: &MeasureSpec, directory: &Path, seed: u64) -> String {
    format!("fsage measure {} {} --seed {seed}", measure.name(), directory.display())
}
