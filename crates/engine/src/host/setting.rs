//! Settings in /sys and /proc/sys.

use std::path::{Path, PathBuf};

use super::HostError;

/// What a setting is; of a list of choices (`[none] mq-deadline`) the chosen one.
///
/// # Errors
/// The path is outside /sys and /proc/sys, missing, or cannot be read.
pub fn get(path: &Path) -> Result<String, HostError> {
    read(&checked(path)?)
}

/// Writes a setting and returns the old value; of a list of choices (`[none] mq-deadline`) the chosen one.
///
/// # Errors
/// The path is outside /sys and /proc/sys, missing, or refuses the value.
pub fn set(path: &Path, value: &str) -> Result<String, HostError> {
    let path = checked(path)?;
    let old = read(&path)?;
    std::fs::write(&path, value).map_err(HostError::file("write", &path))?;
    Ok(old)
}

/// Writes `old` back, but only where the setting still is `new`: a later change by someone else stays. A
/// setting that is gone went with its device.
///
/// # Errors
/// As [`set`], but for missing ones.
pub fn restore(path: &Path, old: &str, new: &str) -> Result<(), HostError> {
    if !path.exists() {
        return Ok(());
    }
    let path = checked(path)?;
    if same(&read(&path)?, new) && !same(old, new) {
        std::fs::write(&path, old).map_err(HostError::file("write", &path))?;
    }
    Ok(())
}

fn checked(path: &Path) -> Result<PathBuf, HostError> {
    let path = path.canonicalize().map_err(HostError::file("find setting", path))?;
    if path.starts_with("/sys") || path.starts_with("/proc/sys") {
        return Ok(path);
    }
    Err(HostError::Senseless { what: format!("{} is not a kernel setting", path.display()) })
}

fn read(path: &Path) -> Result<String, HostError> {
    let text = std::fs::read_to_string(path).map_err(HostError::file("read", path))?;
    Ok(chosen(text.trim()).to_owned())
}

/// Of `mq-deadline [none] bfq` the `none`; else the text itself.
#[must_use]
pub fn chosen(text: &str) -> &str {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inside, _)| inside);
    bracketed.unwrap_or(text)
}

/// Equal as text or as numbers: the kernel writes numbers its own way.
fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim(), other.trim());
    one == other || matches!((one.parse::<i64>(), other.parse::<i64>()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_of_a_list_is_found() {
        assert_eq!(chosen("none [mq-deadline] bfq"), "mq-deadline");
        assert_eq!(chosen("128"), "128");
        assert!(same("0128", "128") && same(" a", "a") && !same("a", "b"));
    }

    #[test]
    fn only_settings_are_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(set(file.path(), "1"), Err(HostError::Senseless { .. })));
        assert!(matches!(get(file.path()), Err(HostError::Senseless { .. })));
        assert!(!get(Path::new("/proc/sys/kernel/ostype")).unwrap().is_empty());
        assert!(matches!(restore(file.path(), "1", "2"), Err(HostError::Senseless { .. })));
        restore(Path::new("/sys/block/no-such-disk/queue/scheduler"), "none", "bfq").unwrap();
        assert!(matches!(set(Path::new("/sys/no-such-setting"), "1"), Err(HostError::File { .. })));
    }
}
