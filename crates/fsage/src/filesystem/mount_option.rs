//! Mount options: a light check. What they mean is the kernel's to say; here only those are refused that would
//! do something else than mount the volume for writing, or that only mount(8) understands.

use super::FileSystemError;

const RESTRICTED: &str =
    "every volume is mounted nosuid, nodev and noexec: what is on it gives no rights and does not run";

/// Options that would not mount the volume, or not for the load.
const NOT_A_MOUNT: &[(&str, &str)] = &[
    ("remount", "it changes another mount"),
    ("bind", "it mounts a folder"),
    ("rbind", "it mounts a folder"),
    ("move", "it moves another mount"),
    ("ro", "the load has to write"),
    ("suid", RESTRICTED),
    ("dev", RESTRICTED),
    ("exec", RESTRICTED),
];

/// Options that mount(8) acts on, or drops, before it calls the kernel.
const OF_MOUNT_8: &[&str] = &[
    "auto",
    "noauto",
    "defaults",
    "group",
    "loop",
    "nofail",
    "nouser",
    "offset",
    "owner",
    "sizelimit",
    "user",
    "users",
];

/// Checks a list of options, one a text.
///
/// # Errors
/// An empty option, one with a comma, a blank or a control character, one that would not mount the volume for
/// writing, and one that only mount(8) understands.
pub fn validate(driver: &str, options: &[String]) -> Result<(), FileSystemError> {
    for option in options {
        if let Some(why) = objection(option) {
            let (driver, option) = (driver.to_owned(), option.clone());
            return Err(FileSystemError::MountOption { driver, option, why });
        }
    }
    Ok(())
}

fn objection(option: &str) -> Option<String> {
    if option.is_empty() {
        return Some("it is empty".to_owned());
    }
    if option.contains(',') {
        return Some("it has a comma: write each option as a text of its own".to_owned());
    }
    if option.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Some("it has a blank or a control character".to_owned());
    }
    let name = option.split('=').next().unwrap_or(option);
    if let Some((_, why)) = NOT_A_MOUNT.iter().find(|(refused, _)| *refused == name) {
        return Some((*why).to_owned());
    }
    let of_mount_8 = OF_MOUNT_8.contains(&name) || name.starts_with("x-") || name.starts_with("X-");
    (of_mount_8 || name.starts_with('_')).then(|| "only mount(8) knows it, the kernel does not".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(option: &str) -> Result<(), String> {
        validate("ext4", &[option.to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn usual_options_pass() {
        for option in
            ["noatime", "data=writeback", "commit=30", "compress=zstd:3", "discard", "barrier=0", "rw"]
        {
            assert_eq!(check(option), Ok(()), "{option}");
        }
    }

    #[test]
    fn what_is_no_mount_of_the_volume_is_refused() {
        for option in [
            "",
            "a,b",
            "a b",
            "remount",
            "bind",
            "ro",
            "nofail",
            "x-gvfs-show",
            "_netdev",
            "loop=/dev/loop1",
            "suid",
            "dev",
            "exec",
            "a\n",
        ] {
            assert!(check(option).is_err(), "{option}");
        }
        assert_eq!(
            check("noatime,discard").unwrap_err(),
            "mount option `noatime,discard` of ext4: it has a comma: write each option as a text of its own"
        );
    }
}
