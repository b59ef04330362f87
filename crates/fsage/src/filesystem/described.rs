//! File systems that a study describes in TOML alone: commands to make, check and mount them, parameters,
//! mount options, block size. Nothing is known about them but what the study says.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::parameter::{ParameterError, closest};
use super::{FREE_SPACE_ESTIMATE, FileSystem, FileSystemError, mount_option};
use crate::study::spec::{DriverSpec, FileSystemOptions};
use crate::tools::{Invocation, generic};

const DEVICE: &str = "{device}";
const POINT: &str = "{point}";

/// Checks a description and gives its options their values.
///
/// # Errors
/// A command that lacks its placeholder or has one without a value, an option the description does not have,
/// a value of another type than the default, a block size that is not a power of two of 512 B to 64 KiB.
pub fn resolve(
    name: &str,
    spec: &DriverSpec,
    options: &FileSystemOptions,
) -> Result<FileSystem, FileSystemError> {
    if !spec.block_bytes.is_power_of_two() || !(512..=65_536).contains(&spec.block_bytes) {
        let what = "a power of two from 512 to 65536";
        return Err(wrong(name, "block_bytes", format!("must be {what}, not {}", spec.block_bytes)));
    }
    let values = values(name, spec, options)?;
    let command =
        |key: &str, words: &[String], needs: &[&str]| command(name, key, spec, words, needs, &values);
    let mkfs = command("mkfs", &spec.mkfs, &[DEVICE])?;
    let fsck = spec.fsck.as_ref().map(|words| command("fsck", words, &[DEVICE])).transpose()?;
    let mut mount_options = spec.mount.clone();
    mount_options.extend(options.mount.iter().cloned());
    mount_option::validate(name, &mount_options)?;
    let mount = spec.mount_command.as_ref().map(|words| {
        let mut mount = command("mount_command", words, &[DEVICE, POINT])?;
        if !mount_options.is_empty() {
            mount = mount.with(&["-o".to_owned(), mount_options.join(",")]);
        }
        Ok::<_, FileSystemError>(mount)
    });
    let after_mount = spec.after_mount.iter().map(|words| command("after_mount", words, &[]));
    Ok(FileSystem {
        kind: name.to_owned(),
        mount_type: spec.mount_type.clone().unwrap_or_else(|| name.to_owned()),
        mount_options,
        mkfs,
        fsck,
        mount: mount.transpose()?,
        after_mount: after_mount.collect::<Result<_, _>>()?,
        block_bytes: u64::from(spec.block_bytes),
        minimum_bytes: spec.minimum_size.map_or(1 << 20, |size| size.0),
        free_space_tolerance: FREE_SPACE_ESTIMATE,
    })
}

fn wrong(driver: &str, key: &str, what: String) -> FileSystemError {
    FileSystemError::Description { driver: driver.to_owned(), key: key.to_owned(), what }
}

fn values<'a>(
    name: &str,
    spec: &'a DriverSpec,
    options: &FileSystemOptions,
) -> Result<BTreeMap<&'a str, String>, FileSystemError> {
    for key in options.mkfs.keys() {
        if !spec.parameter.contains_key(key) {
            return Err(FileSystemError::Parameter(ParameterError::Unknown {
                driver: name.to_owned(),
                name: key.clone(),
                suggestion: closest(key, spec.parameter.keys().map(String::as_str)),
            }));
        }
    }
    let mut values = BTreeMap::new();
    for (key, preset) in &spec.parameter {
        if matches!(key.as_str(), "device" | "point") {
            return Err(wrong(
                name,
                "parameter",
                format!("cannot be named `{key}`: that placeholder is taken"),
            ));
        }
        let value = options.mkfs.get(key).unwrap_or(preset);
        let same = std::mem::discriminant(value) == std::mem::discriminant(preset);
        let text = text(value).filter(|_| same).ok_or_else(|| {
            FileSystemError::Parameter(ParameterError::Value {
                driver: name.to_owned(),
                name: key.clone(),
                expected: format!("{}, as its default is", type_name(preset)),
                found: value.to_string(),
            })
        })?;
        values.insert(key.as_str(), text);
    }
    values.insert("device", DEVICE.to_owned());
    values.insert("point", POINT.to_owned());
    Ok(values)
}

/// A value as it stands in a command. Braces would be taken for placeholders later.
fn text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) if !text.contains(['{', '}', '\0']) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(on) => Some(on.to_string()),
        _ => None,
    }
}

const fn type_name(value: &Json) -> &'static str {
    match value {
        Json::String(_) => "a text without braces",
        Json::Number(_) => "a number",
        Json::Bool(_) => "true or false",
        _ => "a text, a number or true or false",
    }
}

fn command(
    driver: &str,
    key: &str,
    spec: &DriverSpec,
    words: &[String],
    needs: &[&str],
    values: &BTreeMap<&str, String>,
) -> Result<Invocation, FileSystemError> {
    let program = words.first().filter(|program| !program.is_empty() && !program.contains('{'));
    if program.is_none() {
        return Err(wrong(driver, key, "must begin with the name of a program".to_owned()));
    }
    if let Some(need) = needs.iter().find(|need| !words.iter().any(|word| word.contains(**need))) {
        return Err(wrong(driver, key, format!("must have the placeholder `{need}`")));
    }
    let takes_point = matches!(key, "mount_command" | "after_mount");
    if !takes_point && words.iter().any(|word| word.contains(POINT)) {
        return Err(wrong(driver, key, format!("cannot have `{POINT}`: nothing is mounted then")));
    }
    let argv = generic::fill(words, values).map_err(|error| {
        let near = closest(&error.name, values.keys().copied());
        let near = near.map(|near| format!("; did you mean `{{{near}}}`?")).unwrap_or_default();
        wrong(driver, key, format!("has a placeholder without a value: {error}{near}"))
    })?;
    Ok(generic::invoke(argv, &spec.package))
}
