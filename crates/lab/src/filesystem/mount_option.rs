//! Mount options: which are taken. What they mean is the kernel's to say.
//!
//! A built-in driver takes the options that it lists ([`Driver::mount_options`]) and those of every file
//! system (`GENERAL`), with values that are no paths: an option can make the kernel write to a device that
//! nobody named, so one that is not known to be harmless is refused. Of a described driver nothing is known:
//! refused is what would do something else than mount the volume for writing, what only mount(8) understands,
//! and what [`fsage_sys::mount::objection`] names.

use super::{Driver, FileSystemError, built_in};

/// Options that the kernel knows for every file system.
const GENERAL: &[&str] = &[
    "rw",
    "nosuid",
    "nodev",
    "noexec",
    "sync",
    "async",
    "dirsync",
    "noatime",
    "atime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "nodiratime",
    "diratime",
    "lazytime",
    "nolazytime",
    "silent",
    "loud",
];

/// Values of `errors` that leave the host running.
const ERRORS: [&str; 2] = ["remount-ro", "continue"];

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

/// Checks the options of a described driver, one a text.
///
/// # Errors
/// An empty option, one with a comma, a blank or a control character, one that would not mount the volume for
/// writing, one that only mount(8) understands, and one that would reach beyond the volume.
pub fn validate(driver: &str, options: &[String]) -> Result<(), FileSystemError> {
    check(driver, options, objection)
}

/// Checks the options of a built-in driver, one a text.
///
/// # Errors
/// As [`validate`]; and an option that is not known of this driver.
pub fn validate_known(driver: &dyn Driver, options: &[String]) -> Result<(), FileSystemError> {
    check(driver.name(), options, |option| objection(option).or_else(|| unknown(driver, option)))
}

/// What can be done about a refused option.
#[must_use]
pub fn hint(driver: &str) -> String {
    match built_in(driver) {
        Some(driver) => format!(
            "leave it out, or use another: {} takes {}; every file system takes {}",
            driver.name(),
            driver.mount_options().join(", "),
            GENERAL.join(", ")
        ),
        None => "leave it out: `mount` takes what the kernel's driver knows, without paths".to_owned(),
    }
}

fn check(
    driver: &str,
    options: &[String],
    objection: impl Fn(&str) -> Option<String>,
) -> Result<(), FileSystemError> {
    for option in options {
        if let Some(why) = objection(option) {
            let (driver, option) = (driver.to_owned(), option.clone());
            return Err(FileSystemError::MountOption { driver, option, why });
        }
    }
    Ok(())
}

/// Why a built-in driver does not take an option.
fn unknown(driver: &dyn Driver, option: &str) -> Option<String> {
    let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
    let general = GENERAL.contains(&name) && value.is_none();
    if !general && !driver.mount_options().contains(&name) {
        return Some("it is not among the options that are known to stay on the volume".to_owned());
    }
    let harmless = name != "errors" || value.is_some_and(|value| ERRORS.contains(&value));
    (!harmless).then(|| format!("it is one of {}", ERRORS.join(" and ")))
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
    if of_mount_8 || name.starts_with('_') {
        return Some("only mount(8) knows it, the kernel does not".to_owned());
    }
    fsage_sys::mount::objection(option).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(option: &str) -> Result<(), String> {
        validate("mine", &[option.to_owned()]).map_err(|error| error.to_string())
    }

    fn known(driver: &str, option: &str) -> Result<(), String> {
        let driver = built_in(driver).unwrap();
        validate_known(driver, &[option.to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn usual_options_pass() {
        for (driver, options) in [
            ("ext2", &["noatime", "errors=remount-ro", "errors=continue", "rw"][..]),
            ("ext3", &["data=writeback", "commit=30"]),
            ("ext4", &["barrier=0", "discard", "stripe=16", "dioread_lock", "no_prefetch_block_bitmaps"]),
            ("xfs", &["logbsize=256k", "allocsize=64k", "noalign", "wsync", "nouuid", "lazytime"]),
            ("btrfs", &["compress=zstd:3", "discard=async", "nodatacow", "space_cache=v2", "commit=3600"]),
        ] {
            for option in options {
                assert_eq!(known(driver, option), Ok(()), "{driver} {option}");
                assert_eq!(check(option), Ok(()), "{option}");
            }
        }
    }

    #[test]
    fn what_every_driver_asks_for_itself_passes() {
        use crate::filesystem::DRIVERS;
        use crate::filesystem::deterministic::Kernel;
        use crate::filesystem::parameter::Values;

        for driver in DRIVERS {
            let values = Values::parse(driver.name(), driver.parameters(), &[].into()).unwrap();
            let deterministic = driver.deterministic(&values, 1, Kernel(6, 18));
            let own = driver.default_mount_options().iter().copied();
            for option in own.chain(deterministic.mount) {
                assert_eq!(known(driver.name(), option), Ok(()), "{}", driver.name());
            }
        }
    }

    #[test]
    fn what_reaches_beyond_the_volume_is_refused() {
        for (driver, option) in [
            ("xfs", "logdev=/dev/loop0"),
            ("xfs", "rtdev=/dev/loop0"),
            ("ext4", "journal_path=/dev/loop0"),
            ("ext3", "journal_dev=0x700"),
            ("btrfs", "device=/dev/loop0"),
            ("ext4", "errors=panic"),
            ("btrfs", "fatal_errors=panic"),
            ("ext4", "sb=131072"),
        ] {
            assert!(known(driver, option).is_err() && check(option).is_err(), "{driver} {option}");
        }
        for (driver, option) in [
            ("ext4", "errors"),
            ("ext4", "errors=other"),
            ("ext4", "noatime=1"),
            ("ext4", "compress=zstd"),
            ("ext4", "usrjquota=a"),
            ("xfs", "data=ordered"),
            ("btrfs", "rescue=all"),
            ("ext4", "commit=/5"),
        ] {
            assert!(known(driver, option).is_err(), "{driver} {option}");
        }
        assert!(check("any=/path").is_err());
        assert!(hint("xfs").contains("allocsize") && hint("xfs").contains("noatime"));
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
            "mount option `noatime,discard` of mine: it has a comma: write each option as a text of its own"
        );
    }
}
