//! File systems that a study describes in TOML alone: commands to make, check and mount them, parameters,
//! mount options, block size. Nothing is known about them but what the study says.

use std::collections::BTreeMap;

use fsage_model::study::{DriverSpec, FileSystemOptions};
use serde_json::Value as Json;

use super::parameter::{ParameterError, closest};
use super::{FileSystem, FileSystemError, FreeSpaceTolerance, mount_option};
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
    let before_mount = spec.before_mount.iter().map(|words| command("before_mount", words, &[]));
    let after_mount = spec.after_mount.iter().map(|words| command("after_mount", words, &[]));
    Ok(FileSystem {
        kind: name.to_owned(),
        mount_type: spec.mount_type.clone().unwrap_or_else(|| name.to_owned()),
        mount_options,
        mkfs,
        fsck,
        mount: mount.transpose()?,
        before_mount: before_mount.collect::<Result<_, _>>()?,
        cluster: spec.cluster,
        after_mount: after_mount.collect::<Result<_, _>>()?,
        block_bytes: u64::from(spec.block_bytes),
        minimum_bytes: spec.minimum_size.map_or(1 << 20, |size| size.0),
        free_space_tolerance: FreeSpaceTolerance::ESTIMATE,
        afresh: false,
        bare: false,
        built_in: None,
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
        wrong(driver, key, format!("has an {error}{near}"))
    })?;
    Ok(generic::invoke(argv, &spec.package))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use fsage_model::problem::Explain;

    const GOOD: &str = r#"
        mkfs = ["mkfs.f2fs", "-f", "-s", "{segments}", "{quiet}", "{device}"]
        fsck = ["fsck.f2fs", "--dry-run", "{device}"]
        mount = ["noatime"]
        package = "f2fs-tools"
        parameter = { segments = 1, quiet = "" }
    "#;

    fn described(text: &str, options: &str) -> Result<FileSystem, FileSystemError> {
        let spec: DriverSpec = toml::from_str(text).expect("a driver");
        resolve("f2fs", &spec, &toml::from_str(options).expect("options"))
    }

    fn refusal(text: &str, options: &str) -> String {
        described(text, options).expect_err("refused").to_string()
    }

    #[test]
    fn parameters_fill_their_places() {
        let plain = described(GOOD, "").expect("fine");
        let device = Path::new("/dev/sdx1");
        assert_eq!(plain.mkfs(device).to_string(), "mkfs.f2fs -f -s 1 /dev/sdx1");
        let options = "mkfs = { segments = 4, quiet = \"-q\" }\nmount = [\"discard\"]";
        let set = described(GOOD, options).expect("fine");
        assert_eq!(set.mkfs(device).to_string(), "mkfs.f2fs -f -s 4 -q /dev/sdx1");
        assert_eq!(
            set.mount_line(device, Path::new("/m")),
            "mount -t f2fs -o noatime,discard,nosuid,nodev,noexec /dev/sdx1 /m"
        );
        assert_eq!(set.fsck_argv(device).expect("given"), ["fsck.f2fs", "--dry-run", "/dev/sdx1"]);
        assert_eq!(set.tools()[0], ("mkfs.f2fs".to_owned(), "f2fs-tools".to_owned()));
    }

    #[test]
    fn a_mount_program_gets_the_options() {
        let text = "mkfs = [\"a\", \"{device}\"]\nmount_command = [\"b\", \"{device}\", \"{point}\"]\nmount = [\"x\", \"y=1\"]";
        let line = described(text, "").expect("fine").mount_line(Path::new("/dev/d"), Path::new("/m"));
        assert_eq!(line, "b /dev/d /m -o x,y=1");
    }

    #[test]
    fn descriptions_that_make_no_sense_are_refused() {
        let with = |from: &str, to: &str| GOOD.replace(from, to);
        for (text, refused) in [
            (
                with(
                    r#", "{device}"]
        fsck"#,
                    "]\n        fsck",
                ),
                "`mkfs` of `[driver.f2fs]` must have the placeholder `{device}`",
            ),
            (
                with(r#"--dry-run", "{device}""#, "--dry-run\""),
                "`fsck` of `[driver.f2fs]` must have the placeholder `{device}`",
            ),
            (
                with("{segments}", "{segment}"),
                "`mkfs` of `[driver.f2fs]` has an unknown placeholder `{segment}`; did you mean `{segments}`?",
            ),
            (
                with("-f\"", "{point}\""),
                "`mkfs` of `[driver.f2fs]` cannot have `{point}`: nothing is mounted then",
            ),
            (
                with("mkfs = [\"mkfs.f2fs\"", "mkfs = [\"{device}\""),
                "`mkfs` of `[driver.f2fs]` must begin with the name of a program",
            ),
            (
                format!("block_bytes = 3000\n{GOOD}"),
                "`block_bytes` of `[driver.f2fs]` must be a power of two from 512 to 65536, not 3000",
            ),
            (
                with("segments = 1", "device = \"x\", segments = 1"),
                "`parameter` of `[driver.f2fs]` cannot be named `device`: that placeholder is taken",
            ),
            (
                format!("mount_command = [\"m\", \"{{device}}\"]\n{GOOD}"),
                "`mount_command` of `[driver.f2fs]` must have the placeholder `{point}`",
            ),
            (with("noatime", "ro"), "mount option `ro` of f2fs: the load has to write"),
        ] {
            assert_eq!(refusal(&text, ""), refused);
            assert_eq!(described(&text, "").expect_err("refused").exit_code(), 2);
        }
    }

    #[test]
    fn options_must_fit_the_description() {
        assert_eq!(
            refusal(GOOD, "mkfs = { segmnts = 1 }"),
            "`segmnts` is not a mkfs parameter of f2fs; did you mean `segments`?"
        );
        assert_eq!(
            refusal(GOOD, "mkfs = { segments = \"4\" }"),
            "`segments` of f2fs must be a number, as its default is, not `\"4\"`"
        );
        assert!(refusal(GOOD, "mkfs = { quiet = \"{device}\" }").contains("without braces"));
    }
}
