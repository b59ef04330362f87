//! Factors in words: `stage.age.workload.utilisation.target = 0.8` is `utilisation target 80 %`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use fsage_model::study::is_option_of_another;

use super::text::{percent, significant, words};

/// The file system gets the colour, all other factors together the panel.
pub use crate::stats::evidence::{FILE_SYSTEM, MEDIUM};

/// Last parts of a path that say too little alone.
const VAGUE: [&str; 12] =
    ["target", "max", "min", "size", "kind", "count", "free", "enabled", "name", "path", "mount", "value"];

/// A factor's name in words.
#[must_use]
pub fn name(path: &str) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    match parts.as_slice() {
        ["file_system", "kind"] => "file system".to_owned(),
        [.., before, last] if VAGUE.contains(last) => format!("{} {}", words(before), words(last)),
        [.., last] => words(last),
        [] => String::new(),
    }
}

/// A value in words.
#[must_use]
pub fn value(path: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "none".to_owned(),
        Value::Number(number) => {
            let float = number.as_f64().unwrap_or(f64::NAN);
            if is_share(path) && (0.0..=1.0).contains(&float) {
                percent(float)
            } else if number.is_f64() {
                significant(float)
            } else {
                number.to_string()
            }
        }
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => {
            items.iter().map(|item| self::value(path, item)).collect::<Vec<_>>().join(" + ")
        }
        Value::Object(fields) if fields.is_empty() => "defaults".to_owned(),
        Value::Object(fields) => {
            let inner = |(key, item): (&String, &Value)| {
                let text = self::value(&format!("{path}.{key}"), item);
                if key == "kind" { text } else { format!("{} {text}", words(key)) }
            };
            let kind = fields.iter().filter(|(key, _)| *key == "kind").map(inner);
            let rest = fields.iter().filter(|(key, _)| *key != "kind").map(inner);
            kind.chain(rest).collect::<Vec<_>>().join(" ")
        }
    }
}

fn is_share(path: &str) -> bool {
    let last = path.rsplit('.').next().unwrap_or(path);
    path.contains("utilisation")
        || ["share", "probability", "fill_until"].iter().any(|end| last.ends_with(end))
}

/// `name value`, or the value alone for the file system.
#[must_use]
pub fn setting(path: &str, setting: &Value) -> String {
    if path == FILE_SYSTEM || path == MEDIUM {
        value(path, setting)
    } else {
        format!("{} {}", name(path), value(path, setting))
    }
}

/// All factors but those named, in words; empty when none is left.
#[must_use]
pub fn context(factors: &BTreeMap<String, Value>, without: &BTreeSet<&str>) -> String {
    let kind = factors.get(FILE_SYSTEM).and_then(Value::as_str);
    let parts: Vec<String> = factors
        .iter()
        .filter(|(path, _)| !without.contains(path.as_str()))
        .filter(|(path, _)| kind.is_none_or(|kind| !is_option_of_another(path, kind)))
        .map(|(path, value)| setting(path, value))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_become_words() {
        assert_eq!(name(FILE_SYSTEM), "file system");
        assert_eq!(name("stage.age.workload.utilisation.target"), "utilisation target");
        assert_eq!(name("stage.age.write_mode"), "write mode");
        assert_eq!(name("file_system.options.ext4.mount"), "ext4 mount");
    }

    #[test]
    fn values_become_words() {
        let path = "stage.age.workload.utilisation.target";
        assert_eq!(value(path, &json!(0.8)), "80\u{202f}%");
        assert_eq!(value("a.threads", &json!(4)), "4");
        assert_eq!(value("a.mount", &json!(["noatime", "discard"])), "noatime + discard");
        assert_eq!(value("a.mount", &json!([])), "none");
        assert_eq!(
            value("a.utilisation", &json!({"kind": "hold", "target": 0.9})),
            "hold target 90\u{202f}%"
        );
        assert_eq!(value("a.ext4", &json!({"mkfs": {"journal": false}})), "mkfs journal no");
        assert_eq!(value("a.ext4", &json!({})), "defaults");
        let factors = BTreeMap::from([(FILE_SYSTEM.to_owned(), json!("xfs")), (path.to_owned(), json!(0.8))]);
        assert_eq!(context(&factors, &BTreeSet::from([FILE_SYSTEM])), "utilisation target 80\u{202f}%");
    }

    #[test]
    fn options_of_another_file_system_are_no_part_of_what_a_trial_is() {
        let option = "file_system.options.ext4".to_owned();
        let of = |kind: &str| {
            let factors = [(FILE_SYSTEM.to_owned(), json!(kind)), (option.clone(), json!({}))];
            context(&BTreeMap::from(factors), &BTreeSet::from([FILE_SYSTEM]))
        };
        assert_eq!((of("ext4").as_str(), of("xfs").as_str()), ("ext4 defaults", ""));
    }
}
