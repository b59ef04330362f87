//! Mutations of bytes, of text and of JSON.

use serde_json::{Map, Number, Value};

use crate::dice::Dice;

/// Numbers at which arithmetic ends.
const NUMBERS: [i128; 17] = [
    0,
    1,
    -1,
    2,
    511,
    4095,
    4097,
    65_536,
    i32::MAX as i128,
    u32::MAX as i128,
    1 << 32,
    1 << 48,
    i64::MAX as i128,
    i64::MIN as i128,
    u64::MAX as i128,
    u64::MAX as i128 - 4095,
    1 << 70,
];

/// Names that lead elsewhere, or that a terminal or a page would obey. `OUTSIDE` is replaced by the folder
/// that must not change.
const NAMES: [&str; 19] = [
    "",
    ".",
    "..",
    "/",
    "../outside/sentinel",
    "../../outside",
    "OUTSIDE",
    "OUTSIDE/sentinel",
    "OUTSIDE/link",
    "inside/../../outside/sentinel",
    "/etc/passwd",
    "/proc/self/mem",
    "/dev/null",
    "/sys/fs/cgroup/../../../OUTSIDE",
    "a\u{0}b",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "</script><script>hostile()</script>",
    "<!--<script>",
    "\u{202e}\u{9b}31m",
];

/// A name of [`NAMES`], or a very long one.
pub fn name(dice: &mut Dice, outside: &str) -> String {
    if dice.one_in(12) {
        return "x/".repeat(1 << dice.below(14));
    }
    dice.of(&NAMES).replace("OUTSIDE", outside)
}

fn number_text(dice: &mut Dice) -> String {
    match dice.below(8) {
        0 => dice
            .of(&["1e308", "-1e308", "1e-320", "0.5", "nan", "inf", "-inf", "1e999", "0x7f", "1_000"])
            .to_string(),
        1 => "9".repeat(1 << dice.below(9)),
        _ => dice.of(&NUMBERS).to_string(),
    }
}

/// Some of bits, ranges, extreme words; `times` of them.
pub fn bytes(dice: &mut Dice, bytes: &mut Vec<u8>, times: u64) {
    for _ in 0..times {
        if bytes.is_empty() {
            bytes.push(0);
        }
        let (at, other) = (dice.index(bytes.len()), dice.index(bytes.len()));
        let (from, to) = (at.min(other), at.max(other).min(at.min(other) + 4096));
        match dice.below(12) {
            0..=2 => bytes[at] ^= 1 << dice.below(8),
            3 => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
            4 => bytes[at] = *dice.of(&[0, 0x1b, 0xff, b'\n', b'"', b'/']),
            5 => bytes.truncate(at),
            6 => drop(bytes.drain(from..to)),
            7 => {
                let again = bytes[from..to].to_vec();
                bytes.splice(from..from, again);
            }
            8 => {
                let part = bytes[from..to].to_vec();
                bytes.extend(part);
            }
            9 => {
                let part = bytes[from..to].to_vec();
                let target = dice.index(bytes.len() - part.len() + 1);
                bytes[target..target + part.len()].copy_from_slice(&part);
            }
            _ => {
                let number = u64::try_from(*dice.of(&NUMBERS) & i128::from(u64::MAX)).unwrap();
                let width = if dice.one_in(2) { 4 } else { 8 };
                let word = number.to_le_bytes();
                for (byte, new) in bytes.iter_mut().skip(at & !3).zip(&word[..width]) {
                    *byte = *new;
                }
            }
        }
    }
}

/// Lines, numbers and quoted strings of a text.
pub fn text(dice: &mut Dice, text: &str, outside: &str) -> Vec<u8> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=dice.below(3) {
        if lines.is_empty() {
            lines.push(String::new());
        }
        let at = dice.index(lines.len());
        match dice.below(16) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = dice.index(lines.len());
                lines.swap(at, other);
            }
            3 => lines.truncate(at),
            4 => {
                let line = lines[at].clone();
                lines.extend(std::iter::repeat_n(line, 1 << dice.below(10)));
            }
            5 => {
                let deep = dice.of(&["[", "{a=", "\"", "[[a", "("]).repeat(1 << dice.below(15));
                lines[at].push_str(&deep);
            }
            6..=11 => lines[at] = with_number(dice, &lines[at]),
            _ => lines[at] = with_name(dice, &lines[at], outside),
        }
    }
    let mut mutant = (lines.join("\n") + "\n").into_bytes();
    if dice.one_in(6) {
        let times = 1 + dice.below(3);
        bytes(dice, &mut mutant, times);
    }
    mutant
}

/// One run of digits replaced.
fn with_number(dice: &mut Dice, line: &str) -> String {
    let starts: Vec<usize> = line
        .char_indices()
        .filter(|(at, c)| c.is_ascii_digit() && !line[..*at].ends_with(|c: char| c.is_ascii_digit()))
        .map(|(at, _)| at)
        .collect();
    if starts.is_empty() {
        return line.to_owned();
    }
    let at = *dice.of(&starts);
    let rest = line[at..].trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{}{}{rest}", &line[..at], number_text(dice))
}

/// What stands between two quotation marks replaced.
fn with_name(dice: &mut Dice, line: &str, outside: &str) -> String {
    let marks: Vec<usize> = line.match_indices('"').map(|(at, _)| at).collect();
    if marks.len() < 2 {
        return line.to_owned();
    }
    let first = dice.index(marks.len() / 2) * 2;
    let name = name(dice, outside);
    // Half of them as the format would write them.
    let name = if dice.one_in(2) { name } else { name.escape_default().to_string() };
    format!("{}{name}{}", &line[..=marks[first]], &line[marks[first + 1]..])
}

/// One to four nodes of a JSON value replaced, removed or doubled.
pub fn json(dice: &mut Dice, value: &mut Value, outside: &str) {
    for _ in 0..=dice.below(3) {
        let nodes = count(value);
        let mut left = dice.index(nodes);
        change(dice, value, &mut left, outside);
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(entries) => entries.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the node that `left` nodes come before.
fn change(dice: &mut Dice, value: &mut Value, left: &mut usize, outside: &str) -> bool {
    if *left == 0 {
        *value = changed(dice, value, outside);
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| change(dice, item, left, outside)),
        Value::Object(entries) => entries.values_mut().any(|item| change(dice, item, left, outside)),
        _ => false,
    }
}

fn changed(dice: &mut Dice, value: &Value, outside: &str) -> Value {
    if dice.one_in(6) {
        return dice
            .of(&[Value::Null, Value::Bool(true), Value::Array(vec![]), Value::Object(Map::new())])
            .clone();
    }
    match value {
        Value::Number(_) => number_value(dice),
        Value::String(_) if dice.one_in(4) => number_value(dice),
        Value::Array(items) if !items.is_empty() => {
            let mut items = items.clone();
            let (at, other) = (dice.index(items.len()), dice.index(items.len()));
            match dice.below(4) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, items[other].clone()),
                2 => items.swap(at, other),
                _ => items = std::iter::repeat_n(items, 1 << dice.below(5)).flatten().collect(),
            }
            Value::Array(items)
        }
        Value::Object(entries) if !entries.is_empty() => {
            let mut entries = entries.clone();
            let key = entries.keys().nth(dice.index(entries.len())).unwrap().clone();
            let inner = entries.remove(&key).unwrap();
            if dice.one_in(2) {
                entries.insert(name(dice, outside), inner);
            }
            Value::Object(entries)
        }
        _ => Value::String(name(dice, outside)),
    }
}

fn number_value(dice: &mut Dice) -> Value {
    let number = *dice.of(&NUMBERS);
    match (u64::try_from(number), i64::try_from(number)) {
        _ if dice.one_in(6) => {
            Number::from_f64(*dice.of(&[1e308, -1e308, 1e-320, 0.5, -0.0])).map_or(Value::Null, Value::Number)
        }
        (Ok(number), _) => number.into(),
        (_, Ok(number)) => number.into(),
        _ => Value::from(1e30),
    }
}

/// A share, a mean, or a number of [`NUMBERS`].
pub fn figure(dice: &mut Dice) -> String {
    match dice.below(3) {
        0 => format!("0.{}", dice.below(1000)),
        1 => format!("{}.5", 1 + dice.below(1000)),
        _ => number_text(dice),
    }
}

/// A number of [`NUMBERS`] within 64 bits.
pub fn word(dice: &mut Dice) -> u64 {
    u64::try_from(*dice.of(&NUMBERS) & i128::from(u64::MAX)).unwrap()
}
