//! Typed, documented parameters of mkfs.
//!
//! Each driver has one table of [`Parameter`]s, from which parsing, validation, the program's arguments, the
//! JSON schema and docs/file-systems.md all come. A value that was not given becomes no argument, unless the
//! table says that ours differs from the program's own choice.

use std::collections::BTreeMap;

use fsage_model::number::grouped;
use fsage_model::size::Bytes;
use serde_json::{Value as Json, json};

/// One parameter of mkfs.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Key in TOML, lower snake case.
    pub name: &'static str,
    /// Type and range.
    pub kind: ParameterType,
    /// What it is when not given.
    pub preset: Preset,
    /// The argument it becomes.
    pub flag: Flag,
    /// One or two sentences.
    pub doc: &'static str,
    /// Drivers of a shared table that have it; empty: all.
    pub only: &'static [&'static str],
}

/// One that every driver of its table has.
pub(super) const fn parameter(
    name: &'static str,
    kind: ParameterType,
    preset: Preset,
    flag: Flag,
    doc: &'static str,
) -> Parameter {
    Parameter { name, kind, preset, flag, doc, only: &[] }
}

/// Type and range of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum ParameterType {
    /// Bytes, as a number or text such as `"64KiB"`.
    Bytes {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// Must be a power of two.
        power_of_two: bool,
        /// Must be a multiple of this.
        step: u64,
        /// Bytes in the unit that the program expects; divides `step`.
        unit: u64,
    },
    /// A whole number.
    Count {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of feature names, `^name` switches one off. The known ones serve to catch slips of the pen;
    /// others are left to the program, which may be newer than this table.
    Features(&'static [&'static str]),
    /// A word of at most so many bytes.
    Text {
        /// Longest, in bytes.
        max: usize,
    },
}

/// What a parameter is when it is not given.
#[derive(Debug, Clone, Copy)]
pub enum Preset {
    /// The program's own choice, here in words.
    Own(&'static str),
    /// This many bytes, always passed.
    Bytes(u64),
    /// On or off, always passed.
    Switch(bool),
    /// This word, always passed.
    Text(&'static str),
}

/// The argument that a parameter becomes.
#[derive(Debug, Clone, Copy)]
pub enum Flag {
    /// `OPTION VALUE`.
    Argument(&'static str),
    /// `OPTION VALUE`, and a word in the comma list of another option.
    ArgumentAnd(&'static str, &'static str, &'static str),
    /// `KEY=VALUE` for each key in the comma list of an option; switches become 1 and 0.
    Keys(&'static str, &'static [&'static str]),
    /// One word when on, another when off, in the comma list of an option; an empty one is left out.
    Word(&'static str, &'static str, &'static str),
    /// The items of a list in the comma list of an option.
    Items(&'static str),
    /// Words of their own when on, and when off.
    Alone(&'static [&'static str], &'static [&'static str]),
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Bytes or a count.
    Number(u64),
    /// On or off.
    Switch(bool),
    /// A choice or a text.
    Text(String),
    /// Feature names.
    List(Vec<String>),
}

/// Why a parameter is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// No such parameter.
    #[error("`{name}` is not a mkfs parameter of {driver}{}", nearest(.suggestion.as_ref()))]
    Unknown {
        /// Driver.
        driver: String,
        /// Key given.
        name: String,
        /// Nearest right one.
        suggestion: Option<String>,
    },
    /// It belongs to another driver of the family.
    #[error("`{name}` is a mkfs parameter of {}, not of {driver}", .owners.join(" and "))]
    Elsewhere {
        /// Driver.
        driver: String,
        /// Key given.
        name: String,
        /// Who has it.
        owners: Vec<String>,
    },
    /// Wrong type or out of range.
    #[error("`{name}` of {driver} must be {expected}, not `{found}`")]
    Value {
        /// Driver.
        driver: String,
        /// Key.
        name: String,
        /// What it must be, in words.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A slip of the pen in a list.
    #[error("`{item}` in `{name}` of {driver}: did you mean `{suggestion}`?")]
    Item {
        /// Driver.
        driver: String,
        /// Key.
        name: String,
        /// Item given.
        item: String,
        /// Nearest known one.
        suggestion: String,
    },
    /// Two values that exclude each other or need each other.
    #[error("{driver}: {what}")]
    Together {
        /// Driver.
        driver: String,
        /// What does not go together, in words.
        what: String,
    },
}

fn nearest(suggestion: Option<&String>) -> String {
    suggestion.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// The candidate nearest to `word`, when it is near enough to have been meant.
pub(super) fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

impl ParameterType {
    /// What a value must be, in words.
    #[must_use]
    pub fn expected(&self) -> String {
        let sizes = |min, max| format!("{} to {}", Bytes(min), Bytes(max));
        match *self {
            Self::Bytes { min, max, power_of_two: true, .. } => {
                format!("a size of {} that is a power of two", sizes(min, max))
            }
            Self::Bytes { min, max, step, .. } if step > 1 => {
                format!("a size of {} that is a multiple of {}", sizes(min, max), Bytes(step))
            }
            Self::Bytes { min, max, .. } => format!("a size of {}", sizes(min, max)),
            Self::Count { min, max } => format!("a whole number of {} to {}", grouped(min), grouped(max)),
            Self::Switch => "true or false".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Features(_) => "a list of feature names (`name` or `^name`)".to_owned(),
            Self::Text { max } => format!("a text of 1 to {max} bytes (letters, digits, `-`, `_`, `.`, `:`)"),
        }
    }

    fn parse(&self, found: &Json) -> Option<Value> {
        match *self {
            Self::Bytes { min, max, power_of_two, step, .. } => {
                let bytes = serde_json::from_value::<Bytes>(found.clone()).ok()?.0;
                let shape = bytes.is_multiple_of(step) && (!power_of_two || bytes.is_power_of_two());
                (shape && (min..=max).contains(&bytes)).then_some(Value::Number(bytes))
            }
            Self::Count { min, max } => {
                found.as_u64().filter(|number| (min..=max).contains(number)).map(Value::Number)
            }
            Self::Switch => found.as_bool().map(Value::Switch),
            Self::Choice(words) => {
                found.as_str().filter(|word| words.contains(word)).map(|word| Value::Text(word.to_owned()))
            }
            Self::Features(_) => {
                let items =
                    found.as_array()?.iter().map(|item| item.as_str().filter(|item| is_feature(item)));
                let items: Option<Vec<&str>> = items.collect();
                items.map(|items| Value::List(items.into_iter().map(str::to_owned).collect()))
            }
            Self::Text { max } => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
                let fits = |text: &&str| {
                    (1..=max).contains(&text.len()) && text.chars().all(plain) && !text.starts_with('-')
                };
                found.as_str().filter(fits).map(|text| Value::Text(text.to_owned()))
            }
        }
    }

    fn schema(&self) -> Json {
        match *self {
            Self::Bytes { min, max, .. } => {
                json!({"anyOf": [{"type": "integer", "minimum": min, "maximum": max}, {"type": "string"}]})
            }
            Self::Count { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Self::Switch => json!({"type": "boolean"}),
            Self::Choice(words) => json!({"type": "string", "enum": words}),
            Self::Features(known) => {
                json!({"type": "array", "items": {"type": "string"}, "examples": [known]})
            }
            Self::Text { max } => json!({"type": "string", "minLength": 1, "maxLength": max}),
        }
    }

    /// How a value is passed to the program.
    fn reported(&self, value: &Value) -> String {
        match (value, *self) {
            (Value::Number(bytes), Self::Bytes { unit, .. }) => (bytes / unit.max(1)).to_string(),
            (Value::Number(number), _) => number.to_string(),
            (Value::Switch(on), _) => u8::from(*on).to_string(),
            (Value::Text(text), _) => text.clone(),
            (Value::List(items), _) => items.join(","),
        }
    }
}

impl Flag {
    /// The argument with its value as `…`, for documentation.
    #[must_use]
    pub fn shown(&self) -> String {
        match *self {
            Self::Argument(option) => format!("{option} …"),
            Self::ArgumentAnd(option, list, word) => format!("{option} … {list} {word}"),
            Self::Keys(option, keys) => {
                let keys: Vec<String> = keys.iter().map(|key| format!("{key}=…")).collect();
                format!("{option} {}", keys.join(","))
            }
            Self::Word(option, on, "") => format!("{option} {on}"),
            Self::Word(option, on, off) => format!("{option} {on} or {off}"),
            Self::Items(option) => format!("{option} …,…"),
            Self::Alone(on, []) => on.join(" "),
            Self::Alone([], off) => format!("{} when false", off.join(" ")),
            Self::Alone(on, off) => format!("{} or {}", on.join(" "), off.join(" ")),
        }
    }
}

fn is_feature(item: &str) -> bool {
    let name = item.strip_prefix('^').unwrap_or(item);
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

impl Parameter {
    /// Whether `driver` has it.
    #[must_use]
    pub fn is_of(&self, driver: &str) -> bool {
        self.only.is_empty() || self.only.contains(&driver)
    }

    /// The value when none is given, or `None` for the program's own choice.
    #[must_use]
    pub fn preset_value(&self) -> Option<Value> {
        match self.preset {
            Preset::Own(_) => None,
            Preset::Bytes(number) => Some(Value::Number(number)),
            Preset::Switch(on) => Some(Value::Switch(on)),
            Preset::Text(text) => Some(Value::Text(text.to_owned())),
        }
    }

    /// The default in words, for documentation.
    #[must_use]
    pub fn preset_text(&self) -> String {
        match self.preset {
            Preset::Own(words) => format!("mkfs chooses: {words}"),
            Preset::Bytes(number) => format!("`\"{}\"`", Bytes(number)),
            Preset::Switch(on) => format!("`{on}`"),
            Preset::Text(text) => format!("`\"{text}\"`"),
        }
    }

    /// JSON schema of its value.
    #[must_use]
    pub fn schema(&self) -> Json {
        let mut schema = self.kind.schema();
        let description = format!("{} Default: {}.", self.doc, self.preset_text());
        schema["description"] = Json::String(description);
        schema
    }

    fn parse(&self, driver: &str, found: &Json) -> Result<Value, ParameterError> {
        let value = self.kind.parse(found).ok_or_else(|| ParameterError::Value {
            driver: driver.to_owned(),
            name: self.name.to_owned(),
            expected: self.kind.expected(),
            found: found.as_str().map_or_else(|| found.to_string(), str::to_owned),
        })?;
        if let (Value::List(items), ParameterType::Features(known)) = (&value, self.kind) {
            for item in items {
                let name = item.strip_prefix('^').unwrap_or(item);
                let slip = |known: &&&str| (1..=2).contains(&strsim::damerau_levenshtein(name, known));
                if !known.contains(&name)
                    && let Some(suggestion) = known.iter().find(slip)
                {
                    return Err(ParameterError::Item {
                        driver: driver.to_owned(),
                        name: self.name.to_owned(),
                        item: item.clone(),
                        suggestion: (*suggestion).to_owned(),
                    });
                }
            }
        }
        Ok(value)
    }
}

/// The values of a driver's parameters: given ones and presets that are always passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    driver: &'static str,
    values: BTreeMap<&'static str, Value>,
}

impl Values {
    /// Checks what was given against the table and adds the presets.
    ///
    /// # Errors
    /// The first key that is unknown, or whose value has the wrong type or range.
    pub fn parse(
        driver: &'static str,
        table: &'static [Parameter],
        given: &BTreeMap<String, Json>,
    ) -> Result<Self, ParameterError> {
        let mut values = BTreeMap::new();
        for (name, found) in given {
            let parameter = find(driver, table, name)?;
            values.insert(parameter.name, parameter.parse(driver, found)?);
        }
        for parameter in table.iter().filter(|parameter| parameter.is_of(driver)) {
            if let Some(preset) = parameter.preset_value() {
                values.entry(parameter.name).or_insert(preset);
            }
        }
        Ok(Self { driver, values })
    }

    /// The same with values for parameters that have none.
    #[must_use]
    pub fn with_defaults(&self, more: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let mut values = self.clone();
        for (name, value) in more {
            values.values.entry(name).or_insert(value);
        }
        values
    }

    /// A number, when the parameter has one.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// A switch, when the parameter is one and is set.
    #[must_use]
    pub fn switch(&self, name: &str) -> Option<bool> {
        match self.values.get(name) {
            Some(Value::Switch(on)) => Some(*on),
            _ => None,
        }
    }

    /// A word, when the parameter has one.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether a parameter has a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Whether the list parameter `name` has `item`.
    #[must_use]
    pub fn lists(&self, name: &str, item: &str) -> bool {
        matches!(self.values.get(name), Some(Value::List(items)) if items.iter().any(|i| i == item))
    }

    /// An error about values that do not go together.
    #[must_use]
    pub fn clash(&self, what: impl Into<String>) -> ParameterError {
        ParameterError::Together { driver: self.driver.to_owned(), what: what.into() }
    }

    /// The arguments, in the order of the table; comma lists of one option are joined where it first occurs.
    #[must_use]
    pub fn arguments(&self, table: &[Parameter]) -> Vec<String> {
        let mut arguments = Arguments::default();
        for parameter in table {
            if let Some(value) = self.values.get(parameter.name).filter(|_| parameter.is_of(self.driver)) {
                arguments.add(parameter, value);
            }
        }
        arguments.into_words()
    }
}

fn find(driver: &str, table: &'static [Parameter], name: &str) -> Result<&'static Parameter, ParameterError> {
    match table.iter().find(|parameter| parameter.name == name) {
        Some(parameter) if parameter.is_of(driver) => Ok(parameter),
        Some(parameter) => Err(ParameterError::Elsewhere {
            driver: driver.to_owned(),
            name: name.to_owned(),
            owners: parameter.only.iter().map(|owner| (*owner).to_owned()).collect(),
        }),
        None => Err(ParameterError::Unknown {
            driver: driver.to_owned(),
            name: name.to_owned(),
            suggestion: closest(name, table.iter().filter(|p| p.is_of(driver)).map(|p| p.name)),
        }),
    }
}

/// Arguments being gathered: words of their own, and comma lists by option.
#[derive(Debug, Default)]
struct Arguments {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Words(Vec<String>),
    List(&'static str, Vec<String>),
}

impl Arguments {
    fn add(&mut self, parameter: &Parameter, value: &Value) {
        let reported = parameter.kind.reported(value);
        match parameter.flag {
            Flag::Argument(option) => self.words(&[option, &reported]),
            Flag::ArgumentAnd(option, list, word) => {
                self.words(&[option, &reported]);
                self.item(list, word.to_owned());
            }
            Flag::Keys(option, keys) => {
                for key in keys {
                    self.item(option, format!("{key}={reported}"));
                }
            }
            Flag::Word(option, on, off) => {
                let word = if *value == Value::Switch(true) { on } else { off };
                if !word.is_empty() {
                    self.item(option, word.to_owned());
                }
            }
            Flag::Items(option) => {
                if let Value::List(items) = value {
                    for item in items {
                        self.item(option, item.clone());
                    }
                }
            }
            Flag::Alone(on, off) => self.words(if *value == Value::Switch(true) { on } else { off }),
        }
    }

    fn words(&mut self, words: &[&str]) {
        self.parts.push(Part::Words(words.iter().map(|word| (*word).to_owned()).collect()));
    }

    fn item(&mut self, option: &'static str, item: String) {
        for part in &mut self.parts {
            if let Part::List(known, items) = part
                && *known == option
            {
                items.push(item);
                return;
            }
        }
        self.parts.push(Part::List(option, vec![item]));
    }

    fn into_words(self) -> Vec<String> {
        let mut words = Vec::new();
        for part in self.parts {
            match part {
                Part::Words(own) => words.extend(own),
                Part::List(option, items) => words.extend([option.to_owned(), items.join(",")]),
            }
        }
        words
    }
}
