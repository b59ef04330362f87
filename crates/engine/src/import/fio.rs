//! Iologs of `fio` (`--write_iolog`), versions 2 and 3.
//!
//! After the heading each line is `FILE ACTION` or `FILE ACTION OFFSET LENGTH`, in version 3 with a time in
//! microseconds before it. Files are there before the job begins, for fio lays them out first. Version 2 has
//! no times but the waits between operations.

use super::map::{Mapper, OpenFlags, Target};

/// What is known of a log under way.
#[derive(Debug, Default)]
pub struct Iolog {
    version: Option<u32>,
    /// Waits so far; only version 2 has them.
    now_us: u64,
}

impl Iolog {
    /// Takes the next line.
    pub fn line(&mut self, line: &str, mapper: &mut Mapper<'_>) -> Result<(), String> {
        let Some(version) = self.version else {
            self.version = Some(match line {
                "fio version 2 iolog" => 2,
                "fio version 3 iolog" => 3,
                _ => {
                    return Err(
                        "the first line is not `fio version 2 iolog` or `fio version 3 iolog`".to_owned()
                    );
                }
            });
            return Ok(());
        };
        if line.is_empty() {
            return Ok(());
        }
        let rest = if version == 3 {
            let (time, rest) = line.split_once(' ').ok_or("no time before a file")?;
            self.now_us = time.parse().map_err(|_| format!("`{time}` is not a time in microseconds"))?;
            rest
        } else {
            line
        };
        let start_ns = self.now_us.checked_mul(1000).ok_or("a time out of range")?;
        mapper.at(start_ns, 0);
        self.action(rest, mapper)
    }

    fn action(&mut self, rest: &str, mapper: &mut Mapper<'_>) -> Result<(), String> {
        let (before, last) = rest.rsplit_once(' ').ok_or("no action")?;
        if matches!(last, "add" | "open" | "close") {
            if last != "close" {
                let path = absolute(before);
                mapper.try_do(|mapper| mapper.open(&path, OpenFlags::default()).map(|_| ()));
            }
            return Ok(());
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a whole number"));
        let length = number(last)?;
        let (before, offset) = before.rsplit_once(' ').ok_or("no offset")?;
        let offset = number(offset)?;
        let (file, action) = before.rsplit_once(' ').ok_or("no file")?;
        let path = absolute(file);
        if action == "wait" {
            self.now_us = self.now_us.saturating_add(offset);
            return Ok(());
        }
        if !matches!(action, "read" | "write" | "sync" | "datasync" | "trim") {
            return Err(format!("`{action}` is not an iolog action"));
        }
        mapper.try_do(|mapper| {
            let Target::File(file) = mapper.open(&path, OpenFlags::default())? else {
                return Err("file operation on a directory");
            };
            match action {
                "read" => mapper.read(file, offset, length),
                "write" => mapper.write(file, offset, length),
                "trim" => Err("trim"),
                action => mapper.sync(file, action == "datasync"),
            }
        });
        Ok(())
    }

    /// There must have been a heading.
    pub fn end(&self) -> Result<(), String> {
        if self.version.is_some() { Ok(()) } else { Err("an iolog has at least a heading".to_owned()) }
    }
}

fn absolute(path: &str) -> Vec<u8> {
    super::path::join(b"", path.as_bytes())
}
