//! Taking down layers between drives and a file system. Each is found by the name that fsage gave it, so that nothing of
//! anyone else's is touched.
//!
//! md and LVM keep their names on the drives, which may not answer any more when a disk's server was killed. So what they
//! made is also looked for by what the kernel and `mdadm` themselves remember: the node that `mdadm` made, and the names of devices of the
//! device mapper.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_model::layer::{LayerDevice, is_name};

use super::held::HeldDevices;
use super::tool::{self, Children};
use super::{HostError, read_trimmed};

/// Longest that one program may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Settings of `lvm`: nothing of the host's is read or kept, no archive and no list of devices.
pub const LVM: &str =
    "devices{use_devicesfile=0 scan_lvs=1} backup{backup=0 archive=0} activation{monitoring=0}";

/// Takes down the layer called `name`; one that is gone is not an error. What of it is `held` is let go of before.
///
/// # Errors
/// It is no name of fsage's; the layer is in use; a program is missing.
pub fn end(
    children: &Children,
    held: &HeldDevices,
    name: &str,
    device: LayerDevice,
) -> Result<(), HostError> {
    match device {
        LayerDevice::VolumeGroup if is_name(name) => end_group(children, held, name),
        _ => stop(children, held, name, device),
    }
}

/// Takes down the layer called `name`; what it keeps on the drives stays, so that it can be put together again. One that is
/// gone is not an error.
///
/// # Errors
/// As [`end`].
pub fn stop(
    children: &Children,
    held: &HeldDevices,
    name: &str,
    device: LayerDevice,
) -> Result<(), HostError> {
    if !is_name(name) {
        return Err(HostError::Senseless { what: format!("`{name}` is not a layer of fsage's") });
    }
    match device {
        LayerDevice::Mapped => {
            mapped(|found| found == name).iter().try_for_each(|folder| remove(children, held, folder))
        }
        LayerDevice::Array => {
            if let Some(folder) = array(children, name)? {
                held.let_number_go(&folder);
                run(children, &["mdadm", "--stop", &node(&folder).to_string_lossy()])?;
            }
            unlink(name)
        }
        LayerDevice::VolumeGroup => {
            volumes_of(name).iter().try_for_each(|folder| remove(children, held, folder))
        }
    }
}

/// Folders of the block devices whose names begin so.
fn devices(begin: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let is_such =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin));
    entries.map(|entry| entry.path()).filter(is_such).collect()
}

/// Where the kernel makes the node of the device with this folder.
fn node(folder: &Path) -> PathBuf {
    Path::new("/dev").join(folder.file_name().unwrap_or_default())
}

/// Folders of devices of the device mapper by their names there.
fn mapped(is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    devices("dm-").into_iter().filter(|folder| is_meant(&read_trimmed(folder.join("dm/name")))).collect()
}

/// Removes the link that `mdadm` made of an array's name, and that it leaves where no udev removes it.
fn unlink(name: &str) -> Result<(), HostError> {
    let link = Path::new("/dev/md").join(name);
    match std::fs::remove_file(&link) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(HostError::file("remove", &link)(error))
        }
        _ => Ok(()),
    }
}

fn remove(children: &Children, held: &HeldDevices, folder: &Path) -> Result<(), HostError> {
    held.let_number_go(folder);
    run(children, &["dmsetup", "remove", "--retry", &read_trimmed(folder.join("dm/name"))]).map(drop)
}

/// The array with this name: that of its node, or else that in its superblock, which `mdadm` may put the host's name before.
fn array(children: &Children, name: &str) -> Result<Option<PathBuf>, HostError> {
    let linked = Path::new("/dev/md").join(name).canonicalize().ok();
    let arrays: Vec<PathBuf> =
        devices("md").into_iter().filter(|folder| folder.join("md").is_dir()).collect();
    let of_node = |folder: &&PathBuf| linked.as_deref() == Some(node(folder).as_path());
    if let Some(folder) = arrays.iter().find(of_node) {
        return Ok(Some(folder.clone()));
    }
    for folder in arrays {
        // One that is being made or taken down by somebody else does not answer.
        let Ok(said) = run(children, &["mdadm", "--detail", "--export", &node(&folder).to_string_lossy()])
        else {
            continue;
        };
        let names = ["MD_NAME=", "MD_DEVNAME="];
        let value = |line: &str| names.iter().find_map(|key| line.strip_prefix(key).map(str::to_owned));
        if said.lines().filter_map(value).any(|found| found.rsplit(':').next() == Some(name)) {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

/// The volumes of a group, in whose names the device mapper has each `-` of the group's twice.
fn volumes_of(group: &str) -> Vec<PathBuf> {
    let begin = format!("{}-", group.replace('-', "--"));
    mapped(|found| found.starts_with(&begin))
}

/// Takes down a group for good: by LVM where it can read it, and else its volume alone.
fn end_group(children: &Children, held: &HeldDevices, name: &str) -> Result<(), HostError> {
    volumes_of(name).iter().for_each(|folder| held.let_number_go(folder));
    let removed = run(children, &["lvm", "vgremove", "--config", LVM, "--force", "--force", "--yes", name]);
    match removed {
        Ok(_) => Ok(()),
        // There is none, or it cannot be read.
        Err(_) => stop(children, held, name, LayerDevice::VolumeGroup),
    }
}

/// What a program prints; it has to end well.
fn run(children: &Children, argv: &[&str]) -> Result<String, HostError> {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let output = tool::run(children, &argv, Some(LIMIT))?;
    if output.status == 0 {
        return Ok(output.stdout);
    }
    let stderr = output.stderr.lines().last().unwrap_or_default().trim().to_owned();
    Err(HostError::Failed { argv: argv.join(" "), status: output.status, stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fsage_did_not_name_is_refused_and_what_is_gone_is_gone() {
        let (children, held) = (Children::default(), HeldDevices::default());
        for device in [LayerDevice::Mapped, LayerDevice::Array, LayerDevice::VolumeGroup] {
            for take_down in [end, stop] {
                let error = take_down(&children, &held, "vg0", device).unwrap_err();
                assert!(error.to_string().contains("vg0"), "{error}");
                // There is none of this name, or the kernel has no such devices.
                take_down(&children, &held, "fsage-00000000ffffffff-0", device).unwrap();
            }
        }
    }
}
