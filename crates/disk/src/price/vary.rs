//! A medium with one parameter changed: which of them a result hangs on.

use fsage_model::medium::{MediumError, MediumSpec};

/// A numeric parameter, and the medium with less and with more of it.
#[derive(Debug)]
pub struct Variation {
    /// The parameter.
    pub key: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its value.
    pub value: u64,
    /// With the value lowered.
    pub low: Varied,
    /// With the value raised.
    pub high: Varied,
}

/// A medium with another value of a parameter.
#[derive(Debug)]
pub struct Varied {
    /// The value.
    pub value: u64,
    /// The medium, unless the value is out of range.
    pub medium: Result<MediumSpec, MediumError>,
}

/// Every numeric parameter of `spec`, lowered and raised by `percent`, in the parameters' order. Values are
/// whole: those that this does not change, such as 0 and small counts, are left out.
#[must_use]
pub fn variations(spec: &MediumSpec, percent: u64) -> Vec<Variation> {
    let varied = |key: &str, value: u64| Varied { value, medium: format!("{spec},{key}={value}").parse() };
    let mut found = Vec::new();
    for parameter in spec.parameters() {
        let Ok(value) = parameter.value.parse::<u64>() else { continue };
        let part = value.saturating_mul(percent.min(100)).saturating_add(50) / 100;
        if part > 0 {
            found.push(Variation {
                key: parameter.key,
                unit: parameter.unit,
                value,
                low: varied(parameter.key, value - part.min(value)),
                high: varied(parameter.key, value.saturating_add(part)),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_that_changes_is_varied_both_ways() {
        let spec: MediumSpec = "hdd-7200,rpm=5000,at=inner".parse().unwrap();
        let found = variations(&spec, 20);
        let rpm = found.iter().find(|variation| variation.key == "rpm").unwrap();
        assert_eq!((rpm.low.value, rpm.value, rpm.high.value), (4000, 5000, 6000));
        assert_eq!(rpm.low.medium.as_ref().unwrap().to_string(), "hdd-7200,at=inner,rpm=4000");
        let changes = |value: &str| value.parse::<u64>().is_ok_and(|value| value > 2);
        let numbers = spec.parameters().iter().filter(|parameter| changes(&parameter.value)).count();
        assert_eq!((found.len(), numbers > 20), (numbers, true));
        // Out of range is kept as such: 1,000 turns a minute are the least.
        let slow = variations(&"hdd-7200,rpm=1100".parse().unwrap(), 20);
        let rpm = slow.iter().find(|variation| variation.key == "rpm").unwrap();
        assert!(rpm.low.medium.is_err() && rpm.high.medium.is_ok());
        // Choices, zeros and small counts are not varied.
        let ssd = variations(&"ssd".parse().unwrap(), 20);
        assert!(ssd.iter().all(|variation| variation.value > 2 && !variation.unit.is_empty()));
        assert!(variations(&"ram".parse().unwrap(), 20).is_empty());
    }
}
