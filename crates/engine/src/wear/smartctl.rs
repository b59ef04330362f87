//! `smartctl -j -x` of smartmontools 7.0 and later: JSON of NVMe, ATA and SCSI devices.
//!
//! ATA's device statistics (ACS-4, 9.5) are a standard and come first; an attribute counts only where they lack its
//! kind, and only with a name that says its unit, because ids and units of attributes are the vendors' own
//! (smartmontools' database names them). The exit status is a set of bits about the disk's health as well and decides
//! nothing here.

use fsage_model::wear::{WearCounter, WearKind};
use serde_json::Value;

use super::{LONGEST_REASON, bytes, counter, number, nvme, plain};

/// Counters of its output.
///
/// # Errors
/// Why there are none: what it says itself, in one line.
pub(super) fn parse(text: &str) -> Result<Vec<WearCounter>, String> {
    let said: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let mut found = Vec::new();
    if let Some(log) = said.get("nvme_smart_health_information_log") {
        let names = ["data_units_written", "percentage_used", "available_spare", "media_errors"];
        found.extend(nvme::counters(log, names));
    }
    found.extend(statistics(&said));
    for attribute in attributes(&said) {
        // Several attributes of one kind are kept: none is known to be the better one.
        let standard =
            found.iter().any(|known: &WearCounter| known.kind == attribute.kind && !is_attribute(known));
        if !standard {
            found.push(attribute);
        }
    }
    found.extend(scsi(&said));
    if found.is_empty() { Err(why(&said)) } else { Ok(found) }
}

/// Names of attributes begin with their id.
fn is_attribute(known: &WearCounter) -> bool {
    known.name.starts_with(|c: char| c.is_ascii_digit())
}

/// What it says went wrong.
fn why(said: &Value) -> String {
    let messages = said.pointer("/smartctl/messages").and_then(Value::as_array);
    let said = messages.into_iter().flatten().find_map(|message| message.get("string")?.as_str());
    said.map_or_else(|| "it names no counter".to_owned(), |text| plain(text, LONGEST_REASON))
}

/// Bytes of a logical block; 512 where it does not say.
fn block_bytes(said: &Value) -> u64 {
    let known = number(said, "logical_block_size");
    known.filter(|bytes| bytes.is_power_of_two() && (512..=65_536).contains(bytes)).unwrap_or(512)
}

/// Device statistics by page and offset, whatever their names.
fn statistics(said: &Value) -> Vec<WearCounter> {
    let pages = said.pointer("/ata_device_statistics/pages").and_then(Value::as_array);
    let mut found = Vec::new();
    for page in pages.into_iter().flatten() {
        let entries = page.get("table").and_then(Value::as_array);
        for entry in entries.into_iter().flatten() {
            let is_invalid = entry.pointer("/flags/valid") == Some(&Value::Bool(false));
            let place = (number(page, "number"), number(entry, "offset"));
            let (Some(value), false) = (number(entry, "value"), is_invalid) else { continue };
            found.extend(match place {
                (Some(1), Some(24)) => {
                    bytes(WearKind::HostWritten, "Logical Sectors Written", value, block_bytes(said))
                }
                (Some(4), Some(8)) => {
                    counter(WearKind::MediaErrors, "Number of Reported Uncorrectable Errors", value, 1)
                }
                (Some(7), Some(8)) => {
                    counter(WearKind::Used, "Percentage Used Endurance Indicator", value, 1)
                }
                _ => None,
            });
        }
    }
    found
}

fn attributes(said: &Value) -> Vec<WearCounter> {
    let table = said.pointer("/ata_smart_attributes/table").and_then(Value::as_array);
    table.into_iter().flatten().filter_map(|row| attribute(row, block_bytes(said))).collect()
}

/// An attribute whose name says what it counts.
fn attribute(row: &Value, block_bytes: u64) -> Option<WearCounter> {
    let (id, own) = (number(row, "id").filter(|id| *id <= 255)?, row.get("name")?.as_str()?);
    let name = format!("{id} {own}");
    let raw = || number(row.get("raw")?, "value");
    // Counts down from 100; the first value of some is another.
    let left = || number(row, "value").filter(|left| *left <= 100);
    let has = |words: &[&str]| words.iter().any(|word| own.contains(word));
    if has(&["Writ"]) && !has(&["Rate", "Error", "Fail"]) {
        let unit = unit_bytes(own, block_bytes)?;
        let kind = if has(&["NAND", "Flash", "SLC", "MLC", "TLC", "QLC"]) {
            WearKind::FlashWritten
        } else {
            WearKind::HostWritten
        };
        return bytes(kind, &name, raw()?, unit);
    }
    if has(&["Wear_Leveling_Count", "Life_Left", "Lifetime_Remain", "Remaining_Lifetime", "Media_Wearout"]) {
        return counter(WearKind::Used, &name, 100 - left()?, 1);
    }
    if has(&["Lifetime_Used"]) {
        return counter(WearKind::Used, &name, raw()?, 1);
    }
    if has(&["Available_Reservd_Space"]) {
        return counter(WearKind::SpareLeft, &name, left()?, 1);
    }
    has(&["Reported_Uncorrect"])
        .then(raw)?
        .and_then(|errors| counter(WearKind::MediaErrors, &name, errors, 1))
}

/// Bytes of the unit that a name says.
fn unit_bytes(name: &str, block_bytes: u64) -> Option<u64> {
    const UNITS: [(&str, u64); 5] =
        [("32MiB", 32 << 20), ("GiB", 1 << 30), ("MiB", 1 << 20), ("GB", 1_000_000_000), ("MB", 1_000_000)];
    let is_blocks = name.contains("LBAs_Written") || name.contains("Host_Sector_Write");
    let named = UNITS.iter().find(|(unit, _)| name.contains(unit)).map(|(_, bytes)| *bytes);
    named.or(is_blocks.then_some(block_bytes))
}

/// SAS devices: SSDs tell the percentage, all what was written, in thousandths of 10^9 bytes.
fn scsi(said: &Value) -> Vec<WearCounter> {
    let used = "scsi_percentage_used_endurance_indicator";
    let log = |key: &str| said.pointer(&format!("/scsi_error_counter_log/{key}"));
    let written = log("write/gigabytes_processed").and_then(Value::as_str).and_then(thousandths);
    let uncorrected = |way: &str| number(log(way)?, "total_uncorrected_errors");
    let errors = match (uncorrected("read"), uncorrected("write")) {
        (None, None) => None,
        (read, write) => read.unwrap_or(0).checked_add(write.unwrap_or(0)),
    };
    let found = [
        written.and_then(|count| bytes(WearKind::HostWritten, "gigabytes_processed", count, 1_000_000)),
        number(said, used).and_then(|percent| counter(WearKind::Used, used, percent, 1)),
        errors.and_then(|count| counter(WearKind::MediaErrors, "total_uncorrected_errors", count, 1)),
    ];
    found.into_iter().flatten().collect()
}

/// `409.523` as 409,523.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() != 3 {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<(WearKind, String, u64, u64)> {
        let found = parse(text).unwrap();
        found.into_iter().map(|one| (one.kind, one.name, one.value, one.step)).collect()
    }

    #[test]
    fn an_nvme_disk_counts_thousands_of_512_bytes() {
        let wanted = [
            (WearKind::HostWritten, "data_units_written".to_owned(), 18_476_382 * 512_000, 512_000),
            (WearKind::Used, "percentage_used".to_owned(), 4, 1),
            (WearKind::SpareLeft, "available_spare".to_owned(), 100, 1),
            (WearKind::MediaErrors, "media_errors".to_owned(), 0, 1),
        ];
        assert_eq!(told(include_str!("../../tests/data/wear/nvme-smartctl.json")), wanted);
    }

    #[test]
    fn statistics_of_an_ata_disk_stand_before_attributes() {
        let wanted = [
            (WearKind::HostWritten, "Logical Sectors Written".to_owned(), 51_234_567_890 * 512, 512),
            (WearKind::MediaErrors, "Number of Reported Uncorrectable Errors".to_owned(), 0, 1),
            (WearKind::Used, "Percentage Used Endurance Indicator".to_owned(), 7, 1),
            (WearKind::SpareLeft, "232 Available_Reservd_Space".to_owned(), 99, 1),
            (WearKind::FlashWritten, "243 NAND_Writes_32MiB".to_owned(), 1_245_000 * (32 << 20), 32 << 20),
        ];
        assert_eq!(told(include_str!("../../tests/data/wear/ata-statistics.json")), wanted);
    }

    #[test]
    fn attributes_count_where_there_are_no_statistics() {
        let wanted = [
            (WearKind::Used, "177 Wear_Leveling_Count".to_owned(), 3, 1),
            (WearKind::MediaErrors, "187 Reported_Uncorrect".to_owned(), 2, 1),
            (WearKind::HostWritten, "241 Total_LBAs_Written".to_owned(), 23_456_789_012 * 512, 512),
        ];
        assert_eq!(told(include_str!("../../tests/data/wear/ata-attributes.json")), wanted);
    }

    #[test]
    fn an_attribute_of_an_unknown_unit_is_left_out() {
        let of = |name: &str, value: u64, raw: &str| {
            let row =
                format!(r#"{{"id": 233, "name": "{name}", "value": {value}, "raw": {{"value": {raw}}}}}"#);
            attribute(&serde_json::from_str(&row).unwrap(), 4096).map(|one| (one.kind, one.value))
        };
        assert_eq!(of("Media_Wearout_Indicator", 98, "0"), Some((WearKind::Used, 2)));
        assert_eq!(of("SSD_Life_Left", 90, "0"), Some((WearKind::Used, 10)));
        assert_eq!(of("Percent_Lifetime_Remain", 63, "37"), Some((WearKind::Used, 37)));
        assert_eq!(of("Lifetime_Writes_GiB", 100, "2"), Some((WearKind::HostWritten, 2 << 30)));
        assert_eq!(of("TLC_Writes_32MiB", 100, "3"), Some((WearKind::FlashWritten, 96 << 20)));
        assert_eq!(of("SLC_Writes_32MiB", 100, "1"), Some((WearKind::FlashWritten, 32 << 20)));
        assert_eq!(of("Total_LBAs_Written", 100, "2"), Some((WearKind::HostWritten, 8192)));
        assert_eq!(of("Total_Host_Sector_Write", 100, "1"), Some((WearKind::HostWritten, 4096)));
        for (name, value, raw) in [
            ("Unknown_Attribute", 100, "7"),
            ("Temperature_Celsius", 30, "30"),
            ("Host_Writes", 100, "7"),
            ("Multi_Zone_Error_Rate_Writ", 100, "7"),
            ("Wear_Leveling_Count", 200, "7"),
            ("Lifetime_Writes_GiB", 100, "18446744073709551615"),
            ("Total_LBAs_Written", 100, "\"7\""),
            ("Percent_Lifetime_Used", 100, "281474976710655"),
        ] {
            assert_eq!(of(name, value, raw), None, "{name}");
        }
    }

    #[test]
    fn a_sas_disk_tells_gigabytes() {
        let text = r#"{"scsi_percentage_used_endurance_indicator": 1, "scsi_error_counter_log":
            {"read": {"total_uncorrected_errors": 1}, "write": {"gigabytes_processed": "409.523", "total_uncorrected_errors": 2}}}"#;
        let wanted = [
            (WearKind::HostWritten, "gigabytes_processed".to_owned(), 409_523_000_000, 1_000_000),
            (WearKind::Used, "scsi_percentage_used_endurance_indicator".to_owned(), 1, 1),
            (WearKind::MediaErrors, "total_uncorrected_errors".to_owned(), 3, 1),
        ];
        assert_eq!(told(text), wanted);
        for text in ["", "1", "1.5", "1.0000", "-1.000", "99999999999999999999.000", "1.+12", "x.123"] {
            assert_eq!(thousandths(text), None, "{text}");
        }
    }

    #[test]
    fn the_reason_is_what_smartctl_says() {
        let refused = include_str!("../../tests/data/wear/smartctl-refused.json");
        assert_eq!(parse(refused).unwrap_err(), "/dev/sdx: Unable to detect device type");
        assert_eq!(parse("{}").unwrap_err(), "it names no counter");
        assert!(parse("smartctl 6.6: invalid option -j").unwrap_err().starts_with("no JSON"));
    }

    #[test]
    fn tables_of_other_types_are_no_counters() {
        for text in [
            r#"{"ata_smart_attributes": 7, "ata_device_statistics": [], "nvme_smart_health_information_log": "x"}"#,
            r#"{"ata_smart_attributes": {"table": [null, 1, {"id": "x"}, {"id": 241}, {"id": 241, "name": 5}]}}"#,
            r#"{"ata_smart_attributes": {"table": [{"id": 241, "name": "Total_LBAs_Written", "raw": 5}]}}"#,
            r#"{"ata_device_statistics": {"pages": [{"number": 1, "table": [{"offset": 24, "value": {}}]}]}}"#,
            r#"{"ata_device_statistics": {"pages": [{"number": 7, "table": [{"offset": 8, "value": 1, "flags": {"valid": false}}]}]}}"#,
            r#"{"scsi_error_counter_log": {"write": {"gigabytes_processed": 5}}}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
