//! A trial's device in words: the model with its name, or the disk behind a file.

use fsage_model::medium::MediumSpec;

use crate::report::text::{grouped, whole_bytes};
use crate::report::view::{Medium, Trial};

/// `a 7,200 rpm hard disk (model hdd-7200)`; it stands behind "on".
pub fn words(trial: &Trial) -> String {
    match &trial.medium {
        Some(medium) => modelled(medium),
        None => real(trial),
    }
}

fn modelled(medium: &Medium) -> String {
    let what = medium.spec.as_ref().map_or_else(|| "a device".to_owned(), noun);
    let real = if medium.model { "" } else { ", in real time" };
    format!("{what} (model {}{real})", medium.name)
}

/// What a medium is a model of, with its article.
fn noun(spec: &MediumSpec) -> String {
    let name = spec.preset().name;
    let parameter = |key: &str| spec.parameters().into_iter().find(|parameter| parameter.key == key);
    if spec.preset().is_rotational() {
        let rpm = parameter("rpm").and_then(|rpm| rpm.value.parse::<u64>().ok());
        return rpm
            .map_or_else(|| "a hard disk".to_owned(), |rpm| format!("a {} rpm hard disk", grouped(rpm)));
    }
    match name.split('-').next().unwrap_or_default() {
        "ssd" => "an SSD".to_owned(),
        "nvme" => "an NVMe SSD".to_owned(),
        "sd" => "an SD card".to_owned(),
        "ram" => "a zero-latency disk".to_owned(),
        _ => "flash storage".to_owned(),
    }
}

/// A loop file names the disk that it lies on, where that is known.
fn real(trial: &Trial) -> String {
    let device = &trial.device;
    // Of a loop device this is the disk that its file lies on.
    let disk = Some(device.model.trim()).filter(|text| !text.is_empty());
    match (device.backing_file.is_some(), disk) {
        (true, Some(disk)) => format!("a loop file on {disk}"),
        (true, None) => "a loop file".to_owned(),
        (false, Some(disk)) => format!("{disk} ({})", whole_bytes(device.size_bytes)),
        (false, None) if device.rotational => "a hard disk".to_owned(),
        (false, None) => "a block device".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_beside_what_it_is_a_model_of() {
        let of = |name: &str, model: bool| {
            let spec: MediumSpec = name.parse().unwrap();
            modelled(&Medium {
                name: spec.to_string(),
                model,
                deterministic: false,
                serial: false,
                spec: Some(spec),
            })
        };
        assert_eq!(of("hdd-7200", true), "a 7,200 rpm hard disk (model hdd-7200)");
        assert_eq!(of("hdd-7200,rpm=5400", true), "a 5,400 rpm hard disk (model hdd-7200,rpm=5400)");
        assert_eq!(of("ssd", false), "an SSD (model ssd, in real time)");
        assert_eq!(of("nvme-tlc", true), "an NVMe SSD (model nvme-tlc)");
        for preset in fsage_model::medium::presets() {
            assert!(of(preset.name, true).contains(preset.name));
        }
    }
}
