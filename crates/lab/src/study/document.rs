//! A study's text as a tree of values that remembers where each key was written.
//!
//! Paths are lists of segments; an array element's segment is its index. Below `[matrix]` and
//! `[preset.*]` a dotted key (`volume.size = "1GiB"`) is one key, quoted or not.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml_edit::{Array, Item, TableLike};

use super::StudyError;

/// A place in a file, with the line itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPosition {
    /// File.
    pub file: PathBuf,
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
    /// The line, without its end; of a long one the part around the place.
    pub text: String,
    /// Characters of the line before `text`.
    pub skipped: usize,
    /// Characters to underline.
    pub width: usize,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

impl TextPosition {
    /// The line with its number and a mark under what is meant.
    #[must_use]
    pub fn excerpt(&self) -> String {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let lead: String = self
            .text
            .chars()
            .take(self.column - 1 - self.skipped)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        format!("{margin} |\n{number} | {}\n{margin} | {lead}{}", self.text, "^".repeat(self.width.max(1)))
    }
}

/// Most characters of a line that are shown: every problem has its own, and one line may have them all.
const MOST_SHOWN: usize = 240;

/// Path of a value: keys and array indices.
pub type Segments = Vec<String>;

/// A parsed file.
#[derive(Debug, Clone)]
pub struct Document {
    file: PathBuf,
    text: String,
    /// The values.
    pub value: Value,
    spans: BTreeMap<Segments, Range<usize>>,
}

impl Document {
    /// Parses TOML.
    ///
    /// # Errors
    /// What is not TOML, with its place.
    pub fn parse(file: &Path, text: &str) -> Result<Self, StudyError> {
        let parsed = toml_edit::Document::parse(text.to_owned()).map_err(|e| StudyError::Syntax {
            place: place(file, text, &e.span().unwrap_or(0..0)),
            message: e.message().trim().replace('\n', ", "),
        })?;
        let mut spans = BTreeMap::new();
        let value = table(parsed.as_table(), &mut Vec::new(), &mut spans);
        Ok(Self { file: file.to_owned(), text: text.to_owned(), value, spans })
    }

    /// The file it came from.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All of it, as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The folder that relative paths of the study are in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }

    /// Where `path` was written, or else the nearest thing around it.
    #[must_use]
    pub fn place(&self, path: &[String]) -> Option<TextPosition> {
        (1..=path.len())
            .rev()
            .find_map(|n| self.spans.get(&path[..n]))
            .map(|span| place(&self.file, &self.text, span))
    }
}

fn place(file: &Path, text: &str, span: &Range<usize>) -> TextPosition {
    let start = floor(text, span.start);
    let end = floor(text, span.end).max(start);
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
    let before = text[line_start..start].chars().count();
    let skipped = before.saturating_sub(MOST_SHOWN / 2);
    let line = text[line_start..line_end].trim_end_matches('\r');
    TextPosition {
        file: file.to_owned(),
        line: text[..start].matches('\n').count() + 1,
        column: before + 1,
        text: line.chars().skip(skipped).take(MOST_SHOWN).collect(),
        skipped,
        width: text[start..end.min(line_end).max(start)].chars().take(MOST_SHOWN / 2).count(),
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Whether dotted keys of the table at `path` are names of their own, not nested tables.
fn flat(path: &[String]) -> bool {
    matches!(path, [m] if m == "matrix") || matches!(path, [p, _] if p == "preset")
}

fn table(table: &dyn TableLike, path: &mut Segments, spans: &mut BTreeMap<Segments, Range<usize>>) -> Value {
    let mut map = Map::new();
    let joined = flat(path);
    for (key, item) in table.iter() {
        let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
        if joined {
            flatten(key.to_owned(), item, span, path, spans, &mut map);
        } else {
            path.push(key.to_owned());
            if let Some(span) = span {
                spans.insert(path.clone(), span);
            }
            map.insert(key.to_owned(), value(item, path, spans));
            path.pop();
        }
    }
    Value::Object(map)
}

/// Puts `key = item` into the map; a table made by dotted keys becomes one entry for each leaf.
fn flatten(
    key: String,
    item: &Item,
    span: Option<Range<usize>>,
    path: &mut Segments,
    spans: &mut BTreeMap<Segments, Range<usize>>,
    map: &mut Map<String, Value>,
) {
    if let Item::Table(inner) = item {
        for (name, item) in inner.iter() {
            let span = inner.key(name).and_then(toml_edit::Key::span).or_else(|| span.clone());
            flatten(format!("{key}.{name}"), item, span, path, spans, map);
        }
        return;
    }
    path.push(key.clone());
    if let Some(span) = span {
        spans.insert(path.clone(), span);
    }
    let value = value(item, path, spans);
    path.pop();
    map.insert(key, value);
}

fn value(item: &Item, path: &mut Segments, spans: &mut BTreeMap<Segments, Range<usize>>) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Table(t) => table(t, path, spans),
        Item::ArrayOfTables(tables) => {
            let mut elements = Vec::new();
            for (index, t) in tables.iter().enumerate() {
                path.push(index.to_string());
                if let Some(span) = t.span() {
                    spans.insert(path.clone(), span);
                }
                elements.push(table(t, path, spans));
                path.pop();
            }
            Value::Array(elements)
        }
        Item::Value(v) => plain(v, path, spans),
    }
}

fn plain(v: &toml_edit::Value, path: &mut Segments, spans: &mut BTreeMap<Segments, Range<usize>>) -> Value {
    use toml_edit::Value as T;
    match v {
        T::String(s) => Value::String(s.value().clone()),
        T::Integer(i) => Value::from(*i.value()),
        // Infinity and NaN have no JSON; as text they fail the type check with the right message.
        T::Float(f) => serde_json::Number::from_f64(*f.value())
            .map_or_else(|| Value::String(f.value().to_string()), Value::Number),
        T::Boolean(b) => Value::Bool(*b.value()),
        T::Datetime(d) => Value::String(d.value().to_string()),
        T::Array(a) => array(a, path, spans),
        T::InlineTable(t) => table(t, path, spans),
    }
}

fn array(a: &Array, path: &mut Segments, spans: &mut BTreeMap<Segments, Range<usize>>) -> Value {
    let mut elements = Vec::new();
    for (index, v) in a.iter().enumerate() {
        path.push(index.to_string());
        if let Some(span) = v.span() {
            spans.insert(path.clone(), span);
        }
        elements.push(plain(v, path, spans));
        path.pop();
    }
    Value::Array(elements)
}

/// A value as TOML has it (`3`, `"64KiB"`, `{ kind = "uniform" }`), or else the text itself.
#[must_use]
pub fn parse_value(text: &str) -> Value {
    toml_edit::Document::parse(format!("x = {text}"))
        .ok()
        .filter(|d| d.as_table().len() == 1)
        .and_then(|d| d.as_table().get("x").map(|i| value(i, &mut Vec::new(), &mut BTreeMap::new())))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let text = format!("first = 1\nlist = [{}x{}]\n", "1, ".repeat(5000), ", 2".repeat(5000));
        let at = text.find('x').unwrap();
        let found = place(Path::new("study.toml"), &text, &(at..at + 1));
        assert_eq!((found.line, found.column, found.width), (2, 15_009, 1));
        let excerpt = found.excerpt();
        let lines: Vec<&str> = excerpt.lines().collect();
        assert_eq!(lines[1].chars().position(|c| c == 'x'), lines[2].chars().position(|c| c == '^'));
        assert!(excerpt.len() < 3 * MOST_SHOWN, "{}", excerpt.len());
        let whole = place(Path::new("study.toml"), &text, &(at..text.len()));
        assert!(whole.width <= MOST_SHOWN);
    }
}
