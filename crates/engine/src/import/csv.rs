//! Plain CSV: one operation a line.
//!
//! Columns as [`HEADING`] names them; a field with a comma or a quotation mark is in quotation marks, which
//! are doubled inside. `docs/traces.md` says which operation uses which column.

use crate::csv::{HEADING, OLD_HEADING};

use super::map::{Mapper, OpenFlags, Reason, Target};

/// Columns.
const COLUMNS: usize = 6;

/// Largest time: about 30 years.
const SECONDS: f64 = 1e9;

/// The lines of a file.
#[derive(Debug, Default)]
pub struct Csv {
    begun: bool,
    fields: Vec<String>,
}

/// One line's fields.
struct Row<'a> {
    kind: &'a str,
    path: &'a [u8],
    offset: Option<u64>,
    length: Option<u64>,
    target: &'a [u8],
}

impl Csv {
    /// Takes the next line.
    pub fn line(&mut self, line: &str, mapper: &mut Mapper<'_>) -> Result<(), String> {
        if !self.begun {
            self.begun = true;
            let heading = line.trim_start_matches('\u{feff}');
            return if [HEADING, OLD_HEADING].contains(&heading) {
                Ok(())
            } else {
                Err(format!("the first line is not `{HEADING}`"))
            };
        }
        if line.is_empty() {
            return Ok(());
        }
        split(line, &mut self.fields)?;
        let [time, kind, path, offset, length, target] = &self.fields[..] else {
            return Err(format!("{} fields instead of {COLUMNS}", self.fields.len()));
        };
        let start_ns = nanoseconds(time)?;
        let row = Row {
            kind,
            path: &absolute(path),
            offset: number(offset, "offset")?,
            length: number(length, "length")?,
            target: target.as_bytes(),
        };
        if path.is_empty() {
            return Err("no path".to_owned());
        }
        mapper.at(start_ns, 0);
        row.apply(mapper)
    }

    /// There must have been a heading.
    pub fn end(&self) -> Result<(), String> {
        if self.begun { Ok(()) } else { Err(format!("there is no line `{HEADING}`")) }
    }
}

impl Row<'_> {
    fn offset(&self) -> Result<u64, String> {
        self.offset.ok_or_else(|| format!("{} needs an offset", self.kind))
    }

    fn length(&self) -> Result<u64, String> {
        self.length.ok_or_else(|| format!("{} needs a length", self.kind))
    }

    fn apply(&self, mapper: &mut Mapper<'_>) -> Result<(), String> {
        let target = absolute_bytes(self.target);
        let needs_target = matches!(self.kind, "rename" | "link" | "symlink");
        if needs_target == self.target.is_empty() {
            let what = if needs_target { "needs a" } else { "has no" };
            return Err(format!("{} {what} target", self.kind));
        }
        let path = self.path;
        match self.kind {
            "create" => {
                let length = self.length.unwrap_or(0);
                mapper.try_do(|mapper| mapper.create(path, length));
            }
            "mkdir" => mapper.try_do(|mapper| mapper.mkdir(path)),
            "rmdir" => mapper.try_do(|mapper| mapper.rmdir(path)),
            "delete" => mapper.try_do(|mapper| mapper.unlink(path)),
            "rename" => mapper.try_do(|mapper| mapper.rename(path, &target)),
            "link" => mapper.try_do(|mapper| mapper.link(path, &target)),
            "symlink" => mapper.try_do(|mapper| mapper.symlink(path, &target)),
            _ => self.apply_to_file(mapper)?,
        }
        Ok(())
    }

    fn apply_to_file(&self, mapper: &mut Mapper<'_>) -> Result<(), String> {
        type Act = Box<dyn FnOnce(&mut Mapper<'_>, u32) -> Result<(), Reason>>;
        let act: Act = match self.kind {
            "read" if self.offset.is_none() && self.length.is_none() => {
                Box::new(|mapper, file| mapper.read_whole(file))
            }
            "read" => {
                let (offset, length) = (self.offset()?, self.length()?);
                Box::new(move |mapper, file| mapper.read(file, offset, length))
            }
            "write" => {
                let (offset, length) = (self.offset()?, self.length()?);
                Box::new(move |mapper, file| mapper.write(file, offset, length))
            }
            "append" => {
                let length = self.length()?;
                Box::new(move |mapper, file| mapper.append(file, length).map(|_| ()))
            }
            "truncate" => {
                let length = self.length()?;
                Box::new(move |mapper, file| mapper.truncate(file, length))
            }
            "fallocate" => {
                let (offset, length) = (self.offset()?, self.length()?);
                Box::new(move |mapper, file| mapper.allocate(file, offset, length, true))
            }
            "overwrite" => Box::new(|mapper, file| mapper.overwrite(file)),
            "fsync" => Box::new(|mapper, file| mapper.sync(file, false)),
            "fdatasync" => Box::new(|mapper, file| mapper.sync(file, true)),
            other => return Err(format!("`{other}` is not an operation")),
        };
        let path = self.path;
        mapper.try_do(|mapper| match mapper.open(path, OpenFlags::default())? {
            Target::File(file) => act(mapper, file),
            Target::Directory => Err("file operation on a directory"),
        });
        Ok(())
    }
}

/// A path without a slash at its beginning is one below the top.
fn absolute(path: &str) -> Vec<u8> {
    absolute_bytes(path.as_bytes())
}

fn absolute_bytes(path: &[u8]) -> Vec<u8> {
    super::path::join(b"", path)
}

/// Nanoseconds of a decimal number of seconds.
fn nanoseconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a time in seconds");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        // 1e-3 and its like, with what a double has of it.
        let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..SECONDS).contains(seconds));
        return seconds.map(|seconds| fsage_model::quantity::to_u64(seconds * 1e9)).ok_or_else(wrong);
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let part: u64 = format!("{part:0<9}").parse().map_err(|_| wrong())?;
    Ok(whole * 1_000_000_000 + part)
}

fn number(text: &str, column: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("{column} `{text}` is not a whole number"))
}

/// The fields of a line.
fn split(line: &str, fields: &mut Vec<String>) -> Result<(), String> {
    fields.clear();
    let mut characters = line.chars().peekable();
    loop {
        let mut field = String::new();
        if characters.next_if_eq(&'"').is_some() {
            loop {
                match characters.next() {
                    Some('"') if characters.next_if_eq(&'"').is_some() => field.push('"'),
                    Some('"') => break,
                    Some(character) => field.push(character),
                    None => return Err("a quotation mark is not closed".to_owned()),
                }
            }
        } else {
            while let Some(character) = characters.next_if(|character| *character != ',') {
                field.push(character);
            }
        }
        fields.push(field);
        match characters.next() {
            None => return Ok(()),
            Some(',') if fields.len() < COLUMNS => {}
            Some(',') => return Err(format!("more than {COLUMNS} fields")),
            Some(_) => return Err("text behind a closing quotation mark".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::quoted;

    #[test]
    fn fields_may_be_quoted() {
        let mut fields = Vec::new();
        split("0.5,read,\"/a,b \"\"c\"\"\",,4096,", &mut fields).unwrap();
        assert_eq!(fields, ["0.5", "read", "/a,b \"c\"", "", "4096", ""]);
        assert_eq!(quoted("/a,b \"c\""), "\"/a,b \"\"c\"\"\"");
        assert_eq!(quoted("plain"), "plain");
        for wrong in ["a,\"b", "a,\"b\"c", "1,2,3,4,5,6,7"] {
            assert!(split(wrong, &mut fields).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        assert_eq!(nanoseconds("12.000000001"), Ok(12_000_000_001));
        assert_eq!(nanoseconds("3"), Ok(3_000_000_000));
        assert_eq!(nanoseconds("1e-3"), Ok(1_000_000));
        for wrong in ["", "-1", "x", "1e99", "nan", "1.2.3"] {
            assert!(nanoseconds(wrong).is_err(), "{wrong}");
        }
    }
}
