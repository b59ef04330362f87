//! `nvme smart-log -o json` of nvme-cli 1.x and 2.x: the SMART / Health Information log page (NVM Express Base
//! Specification 2.0, 5.16.1.3). Older versions write counts as `456.0`.

use fsage_model::wear::{WearCounter, WearKind};
use serde_json::Value;

use super::{bytes, counter, number};

/// *Data Units Written*: thousands of 512 bytes, rounded up.
pub(super) const DATA_UNIT_BYTES: u64 = 512_000;

/// Counters of its output.
///
/// # Errors
/// Why there are none, in words.
pub(super) fn parse(text: &str) -> Result<Vec<WearCounter>, String> {
    let log: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let found = counters(&log, ["data_units_written", "percent_used", "avail_spare", "media_errors"]);
    if found.is_empty() { Err("it names no counter".to_owned()) } else { Ok(found) }
}

/// Counters of the log page, under these names: written, used, spare left, media errors.
pub(super) fn counters(log: &Value, [written, used, spare, errors]: [&str; 4]) -> Vec<WearCounter> {
    let of = |kind, name| counter(kind, name, number(log, name)?, 1);
    let found = [
        number(log, written).and_then(|units| bytes(WearKind::HostWritten, written, units, DATA_UNIT_BYTES)),
        of(WearKind::Used, used),
        of(WearKind::SpareLeft, spare),
        of(WearKind::MediaErrors, errors),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(WearKind, u64)> {
        parse(text).unwrap().into_iter().map(|one| (one.kind, one.value)).collect()
    }

    #[test]
    fn both_ways_to_write_numbers_are_read() {
        let wanted = [
            (WearKind::HostWritten, 18_476_382 * 512_000),
            (WearKind::Used, 4),
            (WearKind::SpareLeft, 100),
            (WearKind::MediaErrors, 0),
        ];
        assert_eq!(values(include_str!("../../tests/data/wear/nvme-cli.json")), wanted);
        assert_eq!(values(include_str!("../../tests/data/wear/nvme-cli-1.json")), wanted);
    }

    #[test]
    fn what_cannot_be_is_left_out() {
        let hostile = r#"{"data_units_written": 340282366920938463463374607431768211455, "percent_used": 300,
            "avail_spare": "100", "media_errors": 3}"#;
        assert_eq!(values(hostile), [(WearKind::MediaErrors, 3)]);
        for none in ["", "{}", "[]", "null", "7", "{\"percent_used\": {}}", "{\"percent_used\": -1}", "{"] {
            assert!(parse(none).is_err(), "{none}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
