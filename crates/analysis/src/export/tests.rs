use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::Field;
use fsage_model::record::{Metric, TrialStatus};
use fsage_model::warning::{Warning, WarningKind};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::column::{COLUMNS, Group, Kind};
use super::*;

const SCHEMA: &str = include_str!("../../../../docs/export.schema.json");
const DOCS: &str = include_str!("../../../../docs/export.md");
/// A formula, quotes, a comma, a line break, an escape, and what labels escape.
const HOSTILE: &str = "=cmd|' /C calc'!A0,\"x\"\n\x1b[2J\\";

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn metric(name: &str, unit: &str, samples: &[f64]) -> Metric {
    Metric {
        name: name.into(),
        unit: unit.into(),
        samples: samples.to_vec(),
        larger_is_worse: Some(true),
        run: None,
        stage: Some("age".into()),
        work: None,
    }
}

fn record(repeat: u32, metrics: Vec<Metric>) -> TrialRecord<Unread> {
    let empty = json!({"version": 3, "id": format!("{repeat:016x}"), "status": "complete", "stages": []});
    let plain: TrialRecord<Unread> = serde_json::from_value(empty).unwrap();
    let warning = |kind| Warning { kind, message: "m".into() };
    TrialRecord {
        study: HOSTILE.into(),
        repeat,
        seed: 7,
        status: TrialStatus::Complete,
        metrics,
        spec: json!({
            "deterministic": true,
            "file_system": {"kind": "ext4"},
            "volume": {"kind": "disk", "medium": "hdd-7200", "time": "model"},
        }),
        warnings: [WarningKind::OtherIo, WarningKind::CpuBound, WarningKind::OtherIo].map(warning).to_vec(),
        ..plain
    }
}

fn factors(value: Json) -> BTreeMap<String, Json> {
    serde_json::from_value(value).unwrap()
}

fn exported(format: Format, factors: &[BTreeMap<String, Json>], records: &[TrialRecord<Unread>]) -> Vec<u8> {
    let table = Table::new(factors);
    let kept = Kept::default();
    let mut writer = Writer::new(format, &table, Box::new(kept.clone())).unwrap();
    for (position, (record, factors)) in records.iter().zip(factors).enumerate() {
        writer.trial(&Place { position, block: position / 2, factors }, record).unwrap();
    }
    let rows: usize = records.iter().flat_map(|record| &record.metrics).map(|m| m.samples.len()).sum();
    assert_eq!(writer.finish().unwrap(), u64::try_from(rows).unwrap());
    let kept = kept.0.lock().unwrap();
    kept.clone()
}

fn two() -> (Vec<BTreeMap<String, Json>>, Vec<TrialRecord<Unread>>) {
    let factors =
        [json!({"a.b": 1, "list": [1, 2], "name": HOSTILE}), json!({"a.b": 0.5, "list": [3], "name": "x"})];
    let metrics = vec![metric("z", "model ns", &[1.5, 1e-9]), metric("grep", "s", &[2.0])];
    (factors.map(self::factors).to_vec(), vec![record(0, metrics.clone()), record(1, metrics)])
}

fn text(format: Format) -> String {
    let (factors, records) = two();
    String::from_utf8(exported(format, &factors, &records)).unwrap()
}

/// Fields of a line of CSV, quotation marks taken away.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => {
                field.push('"');
                rest.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[test]
fn every_format_has_the_same_rows() {
    let json: Vec<serde_json::Map<String, Json>> = serde_json::from_str(&text(Format::Json)).unwrap();
    assert_eq!(json.len(), 6);
    let names: Vec<&Json> = json.iter().map(|row| &row["metric"]).collect();
    assert_eq!(names, ["grep", "z", "z", "grep", "z", "z"], "by metric and sample within a trial");
    assert_eq!(
        (&json[1]["value"], &json[2]["value"], &json[2]["sample"]),
        (&json!(1.5), &json!(1e-9), &json!(1))
    );
    assert_eq!((&json[0]["time"], &json[1]["time"]), (&json!("wall"), &json!("model")));
    assert_eq!(json[0]["warnings"], "cpu-bound;other-io");
    assert_eq!((&json[0]["study"], &json[0]["factor.name"]), (&json!(HOSTILE), &json!(HOSTILE)));
    assert_eq!(
        (&json[0]["factor.a.b"], &json[3]["factor.a.b"]),
        (&json!(1.0), &json!(0.5)),
        "numbers in all"
    );
    assert_eq!(json[0]["factor.list"], "[1,2]");
    assert_eq!(
        (&json[3]["position"], &json[3]["block"], &json[3]["repeat"]),
        (&json!(1), &json!(0), &json!(1))
    );
    assert_eq!((&json[0]["model_time"], &json[0]["medium"]), (&json!(true), &json!("hdd-7200")));

    let csv = text(Format::Csv);
    let lines: Vec<Vec<String>> = csv.lines().map(fields).collect();
    assert_eq!(lines.len(), 7, "a row is a line: {csv}");
    let keys: Vec<&str> = lines[0].iter().map(String::as_str).collect();
    let (factors, records) = two();
    let parquet = exported(Format::Parquet, &factors, &records);
    let parquet = SerializedFileReader::new(bytes::Bytes::from(parquet)).unwrap();
    let parquet: Vec<_> = parquet.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(parquet.len(), 6);
    for ((object, line), row) in json.iter().zip(&lines[1..]).zip(&parquet) {
        assert_eq!((line.len(), object.len()), (keys.len(), keys.len()));
        for ((key, field), (name, value)) in keys.iter().zip(line).zip(row.get_column_iter()) {
            assert_eq!(key, name);
            let wanted = &object[*key];
            let as_json = match value {
                Field::Null => Json::Null,
                Field::Bool(value) => json!(value),
                Field::Long(value) => json!(value),
                Field::Double(value) => json!(value),
                Field::Str(value) => json!(value),
                other => panic!("{other:?}"),
            };
            assert_eq!(&as_json, wanted, "{key}");
            match wanted {
                Json::Null => assert_eq!(field, "", "{key}"),
                Json::Number(number) => {
                    assert_eq!(field.parse::<f64>().unwrap(), number.as_f64().unwrap(), "{key}");
                }
                Json::String(text) if text == HOSTILE => assert_eq!(
                    field, "'=cmd|' /C calc'!A0,\"x\"\\n\\x1b[2J\\",
                    "{key}: no formula, no line break, no command for a terminal"
                ),
                Json::String(text) => assert_eq!(field, text, "{key}"),
                other => assert_eq!(*field, other.to_string(), "{key}"),
            }
        }
    }
}

#[test]
fn openmetrics_has_samples_trials_and_an_end() {
    let metrics = text(Format::OpenMetrics);
    assert!(metrics.ends_with("\n# EOF\n"));
    let samples: Vec<&str> = metrics.lines().filter(|line| line.starts_with("fsage_sample{")).collect();
    assert_eq!(samples.len(), 6, "{metrics}");
    assert!(samples[1].contains(r#",metric="z",sample="0",unit="model ns",time="model","#), "{}", samples[1]);
    assert!(samples[1].ends_with("} 1.5") && samples[2].ends_with("} 1e-9"), "{metrics}");
    let escaped = r#"factor_name="=cmd|' /C calc'!A0,\"x\"\\n\\x1b[2J\\""#;
    assert!(samples[0].contains(escaped), "{}", samples[0]);
    let trials: Vec<&str> = metrics.lines().filter(|line| line.starts_with("fsage_trial_info{")).collect();
    assert_eq!(trials.len(), 2);
    assert!(
        trials[1].starts_with(r#"fsage_trial_info{trial="0000000000000001",warnings="cpu-bound;other-io","#)
    );
    assert!(trials[1].ends_with("} 1") && !trials[1].contains("cpu_model"), "{}", trials[1]);
}

#[test]
fn labels_of_factors_are_names_and_each_its_own() {
    let table = Table::new([&factors(json!({"a.b": 1, "a_b": 2, "a-b": 3, "é\"}": 4}))]);
    let names = openmetrics::names(&table);
    assert_eq!(names, ["factor_a_b", "factor_a_b_2", "factor_a_b_3", "factor____"]);
}

#[test]
fn a_factor_has_one_type_in_all_trials() {
    let table = Table::new(
        [
            json!({"n": 1, "x": 1, "b": true, "t": "a", "m": 1}),
            json!({"n": 2, "x": 1.5, "b": false, "t": "b", "m": "1"}),
        ]
        .map(factors)
        .iter(),
    );
    let kinds: Vec<(&str, Kind)> = table.factors.iter().map(|f| (f.path.as_str(), f.kind)).collect();
    use Kind::{Boolean, Integer, Number, Text};
    assert_eq!(kinds, [("b", Boolean), ("m", Text), ("n", Integer), ("t", Text), ("x", Number)]);
}

#[test]
fn text_that_a_spreadsheet_takes_for_a_formula_is_quoted_and_can_be_had_back() {
    for (text, field) in [
        ("=1", "'=1"),
        ("+1", "'+1"),
        ("-O x", "\"'-O x\""),
        ("@a", "'@a"),
        ("\t=1", "\\t=1"),
        (" =1", "\"' =1\""),
        ("'x", "''x"),
        ("a=1", "a=1"),
        ("", "\"\""),
        ("a\"b", "\"a\"\"b\""),
        ("＝1", "'＝1"),
    ] {
        assert_eq!(csv::field(text), field);
    }
}

#[test]
fn the_published_schema_and_table_are_those_of_the_program() {
    let published: Json = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(published, schema(), "write it again: fsage export --schema > docs/export.schema.json");
    let wanted: Vec<String> = COLUMNS
        .iter()
        .map(|column| {
            let optional = if column.optional { ", may be missing" } else { "" };
            format!("| `{}` | {}{optional} | {} |", column.name, column.kind.name(), column.meaning)
        })
        .collect();
    let from_first = DOCS.lines().skip_while(|line| !line.starts_with("| `export_version`"));
    let rows: Vec<&str> = from_first.take_while(|line| line.starts_with("| `")).collect();
    assert_eq!(rows, wanted, "the table of docs/export.md should be:\n{}", wanted.join("\n"));
}

#[test]
fn rows_are_as_the_schema_says() {
    let schema = schema();
    let properties = schema["items"]["properties"].as_object().unwrap();
    let rows: Vec<serde_json::Map<String, Json>> = serde_json::from_str(&text(Format::Json)).unwrap();
    for row in &rows {
        for name in schema["items"]["required"].as_array().unwrap() {
            assert!(row.contains_key(name.as_str().unwrap()), "{name}");
        }
        for (name, value) in row.iter().filter(|(name, _)| !name.starts_with("factor.")) {
            let kind = match value {
                Json::Null => "null",
                Json::Bool(_) => "boolean",
                Json::String(_) => "string",
                Json::Number(number) if number.is_i64() => "integer",
                _ => "number",
            };
            let allowed = &properties[name]["type"];
            let fits = allowed == kind || allowed.as_array().is_some_and(|all| all.contains(&json!(kind)));
            assert!(fits, "{name}: {value}, allowed {allowed}");
        }
        assert_eq!(row["export_version"], properties["export_version"]["const"]);
    }
    assert_eq!(properties.len(), COLUMNS.len(), "a name stands twice");
}

#[test]
fn groups_have_as_many_columns_as_rows_have_values() {
    let (factors, records) = two();
    let table = Table::new(&factors);
    let trial = row::Trial::new(&table, &Place { position: 0, block: 0, factors: &factors[0] }, &records[0]);
    let of = |group| COLUMNS.iter().filter(|column| column.group == group).count();
    assert_eq!(trial.own.len(), of(Group::Trial));
    assert_eq!(row::sample(&records[0].metrics[0], 0, 1.0).len(), of(Group::Sample));
    assert_eq!(trial.conditions.len(), of(Group::Conditions));
}

proptest! {
    #[test]
    fn any_text_is_one_field_and_json_keeps_it(text in any::<String>()) {
        let field = csv::field(&text);
        prop_assert!(!field.contains(['\n', '\r', '\x1b']));
        prop_assert_eq!(fields(&field).len(), 1);
        let (mut factors, mut records) = two();
        records.truncate(1);
        factors.truncate(1);
        records[0].study = text.clone();
        factors[0].insert("name".to_owned(), json!(text));
        let rows: Vec<Json> = serde_json::from_slice(&exported(Format::Json, &factors, &records)).unwrap();
        prop_assert_eq!(&rows[0]["study"], &json!(text));
        prop_assert_eq!(&rows[0]["factor.name"], &json!(text));
        let metrics = String::from_utf8(exported(Format::OpenMetrics, &factors, &records)).unwrap();
        prop_assert_eq!(metrics.lines().filter(|line| line.starts_with("fsage_sample{")).count(), 3);
    }

    #[test]
    fn numbers_are_read_back_as_they_were(
        value in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
    ) {
        let (mut factors, mut records) = two();
        records.truncate(1);
        factors.truncate(1);
        records[0].metrics = vec![metric("m", "s", &[value])];
        // Not by serde_json, which rounds some numbers in the last digit when it reads them.
        let json = String::from_utf8(exported(Format::Json, &factors, &records)).unwrap();
        let number = json.split_once("\"value\":").unwrap().1.split(',').next().unwrap();
        prop_assert_eq!(number.parse::<f64>().unwrap().to_bits(), value.to_bits());
        let csv = String::from_utf8(exported(Format::Csv, &factors, &records)).unwrap();
        let line = fields(csv.lines().nth(1).unwrap());
        let column = fields(csv.lines().next().unwrap()).iter().position(|name| name == "value").unwrap();
        prop_assert_eq!(line[column].parse::<f64>().unwrap().to_bits(), value.to_bits());
    }
}
