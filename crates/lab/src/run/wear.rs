//! What a real device says of its wear before and after each stage.
//!
//! Only a device that the study names is asked ([`VolumeSpec::Device`]), and of those only one with hardware of its own.
//! A device that tells nothing is asked once a stage, and no result depends on its answer.

use fsage_model::protocol::call;
use fsage_model::study::VolumeSpec;
use fsage_model::wear::{StageWear, WearReading};

use super::error::TrialError;
use super::fio::LONGEST_QUIET_MS;
use super::stage::StageContext;
use super::trial_volume::TrialVolume;

/// What the volume's device says; nothing where it is no device, or one without hardware.
pub(super) fn before(
    place: &TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<Option<WearReading>, TrialError> {
    if !matches!(context.spec.volume, VolumeSpec::Device { .. }) || place.is_file() {
        return Ok(None);
    }
    let reading = context.session.call(call::WearCounters { device: place.device().to_owned() })?;
    if let Some(reading) = &reading {
        context.folder.log(&format!("wear of {}: {}", reading.device.display(), in_words(reading)));
    }
    Ok(reading)
}

/// Reads it again after the stage, when what the stage had written is on the device, and keeps both.
pub(super) fn after(
    stage: &str,
    before: Option<WearReading>,
    place: &TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    let Some(before) = before else { return Ok(()) };
    if before.counters.is_empty() {
        let (stage, after) = (stage.to_owned(), before.clone());
        context.wear.push(StageWear { stage, before, after });
        return Ok(());
    }
    place.settle(LONGEST_QUIET_MS, context)?;
    // A copy may have taken the volume's place: another device has other counters.
    let after = self::before(place, context)?.filter(|after| after.is_of_same(&before));
    context.wear.push(StageWear { stage: stage.to_owned(), before, after: after.unwrap_or_default() });
    Ok(())
}

/// For the log.
fn in_words(reading: &WearReading) -> String {
    if !reading.missing.is_empty() {
        return reading.missing.clone();
    }
    let one = |counter: &fsage_model::wear::WearCounter| format!("{} {}", counter.name, counter.value);
    let counters: Vec<String> = reading.counters.iter().map(one).collect();
    format!("{} ({})", counters.join(", "), reading.source)
}
