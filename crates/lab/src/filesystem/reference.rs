//! What the drivers' tables say, for people (docs/file-systems.md) and for editors (JSON schema).

use std::fmt::Write as _;

use fsage_model::size::Bytes;
use serde_json::{Value as Json, json};

use super::parameter::{Parameter, ParameterType};
use super::{DRIVERS, Driver};

/// JSON schema of `file_system.options`: the built-in drivers' parameters; described ones may have any.
#[must_use]
pub fn options_schema() -> Json {
    let mut properties = serde_json::Map::new();
    for driver in DRIVERS {
        properties.insert(driver.name().to_owned(), driver_schema(*driver));
    }
    json!({
        "type": "object",
        "description": "Driver name → its options.",
        "properties": properties,
        "additionalProperties": {"$ref": "#/$defs/FileSystemOptions"},
    })
}

fn driver_schema(driver: &dyn Driver) -> Json {
    let parameters = own(driver).map(|parameter| (parameter.name.to_owned(), parameter.schema()));
    let parameters: serde_json::Map<String, Json> = parameters.collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "mkfs": {"type": "object", "additionalProperties": false, "properties": parameters},
            "mount": {"type": "array", "items": {"type": "string"}, "default": driver.default_mount_options()},
        },
    })
}

fn own(driver: &dyn Driver) -> impl Iterator<Item = &'static Parameter> {
    let name = driver.name();
    driver.parameters().iter().filter(move |parameter| parameter.is_of(name))
}

const HEAD: &str = "# File systems

<!-- Generated from the tables in crates/lab/src/filesystem; `FSAGE_BLESS=1 cargo test -p fsage-lab file_systems_page`
     updates it. -->

A study names the file system under `[file_system]`, and options for each driver under
`[file_system.options.DRIVER]`, so that a matrix over `file_system.kind` can keep options for each:

```toml
[file_system]
kind = \"ext4\"

[file_system.options.ext4]
mkfs = { inode_size = 256, stripe_width = 64 }
mount = [\"noatime\"]

[matrix]
\"file_system.kind\" = [\"ext4\", \"xfs\"]
\"file_system.options.ext4.mkfs.journal\" = [true, false]
```

Sizes are numbers of bytes or strings such as `\"64KiB\"`. Parameters that are not given are left to mkfs, except where the
default column shows a value, which is always passed. Every mkfs parameter can also be set on the command line,
as in `--set file_system.options.xfs.mkfs.agcount=8`. A file system that is not listed here can be described in
the study itself: see [adding a file system](adding-a-file-system.md).

**A study with a `[driver]` is a program that runs as root**: its author can make it run any command. `fsage run`
shows them and stops (exit code 2) unless `--allow-commands` is given; `--dry-run` includes them. Studies
that come with fsage, unchanged, need no permission, nor do drivers given with `--set` to one of them. Everything else
that a study can name is restricted: jobs of fio to a list of harmless keys, git to run without hooks, filters or other
programs that a repository's settings name.

Mount options are passed to the kernel unchanged, one string each. A built-in driver accepts only options that are known to
affect nothing but the volume; the error for any other option lists them. Options that name other devices (`logdev`, `rtdev`,
`journal_path`, `journal_dev`, `device`), values that are paths, `panic`, `remount`, `bind`, `move`, `ro` and options that only mount(8)
handles are refused for all. Every volume is mounted `nosuid`, `nodev` and `noexec`: `suid`, `dev` and `exec` are refused, too.
";

/// The text of docs/file-systems.md.
#[must_use]
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for driver in DRIVERS {
        section(&mut page, *driver);
    }
    page
}

fn section(page: &mut String, driver: &dyn Driver) {
    let none = std::collections::BTreeMap::new();
    let minimum = super::Values::parse(driver.name(), driver.parameters(), &none)
        .map_or(0, |values| driver.minimum_bytes(&values));
    let mount = match driver.default_mount_options() {
        [] => "none".to_owned(),
        options => format!("`{}`", options.join(",")),
    };
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "\n## {}\n\n{}. Made by `{}`, checked by `{}` (Debian package {}). Smallest volume {}.\n\
         Default mount options: {mount}.\n\n| parameter | value | default | becomes | |\n| --- | --- | --- | --- | --- |\n",
        driver.name(),
        capitalised(driver.facts().title),
        driver.mkfs().name,
        driver.fsck().name,
        driver.mkfs().package,
        Bytes(minimum),
    );
    for parameter in own(driver) {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | `{}` | {} |",
            parameter.name,
            value_text(&parameter.kind),
            parameter.preset_text(),
            parameter.flag.shown(),
            parameter.doc,
        );
    }
}

fn value_text(kind: &ParameterType) -> String {
    match kind {
        ParameterType::Features(known) => format!("list of names: {}", known.join(", ")),
        other => other.expected(),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/file-systems.md");
        if std::env::var_os("FSAGE_BLESS").is_some() {
            std::fs::write(path, markdown()).expect("writable");
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == markdown(), "run: FSAGE_BLESS=1 cargo test -p fsage-lab file_systems_page");
    }

    #[test]
    fn the_schema_has_every_parameter() {
        let schema = options_schema();
        for driver in DRIVERS {
            for parameter in own(*driver) {
                let at =
                    format!("/properties/{}/properties/mkfs/properties/{}", driver.name(), parameter.name);
                let described = schema.pointer(&at).and_then(|schema| schema["description"].as_str());
                assert!(described.is_some_and(|text| text.contains(parameter.doc)), "{at}");
            }
        }
        assert!(schema.pointer("/properties/ext2/properties/mkfs/properties/journal").is_none());
    }
    #[test]
    fn editors_are_told_the_parameters() {
        let schema = crate::study::schema();
        let options = "/$defs/FileSystemSpec/properties/options";
        let agcount = schema.pointer(&format!("{options}/properties/xfs/properties/mkfs/properties/agcount"));
        assert_eq!(agcount.map(|agcount| &agcount["minimum"]), Some(&json!(1)));
        assert!(schema.pointer("/$defs/FileSystemOptions").is_some(), "for described drivers");
    }
}
