//! `lvm` (LVM2): volume groups and logical volumes.

use std::path::{Path, PathBuf};

use fsage_engine::host::layer::LVM;
use fsage_model::size::Bytes;

use super::{Invocation, MAKING_LAYER, Program};

/// The program.
pub static PROGRAM: Program = Program::new("lvm", MAKING_LAYER);

/// The logical volume of a group of fsage's.
const VOLUME: &str = "volume";

/// Least extent, in KiB: a stripe is no longer than one.
const EXTENT_KIB: u64 = 4096;

/// A command that sees these devices alone.
fn command(words: &[&str], devices: &[&Path]) -> Vec<String> {
    let list: Vec<String> = devices.iter().map(|path| path.display().to_string()).collect();
    let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    all.extend(["--config".to_owned(), LVM.to_owned(), "--devices".to_owned(), list.join(",")]);
    all
}

/// Makes devices those of a group.
#[must_use]
pub fn create_physical(devices: &[&Path]) -> Invocation {
    let mut words = command(&["pvcreate", "--yes"], devices);
    words.extend(devices.iter().map(|path| path.display().to_string()));
    PROGRAM.invoke(words)
}

/// Makes the group.
#[must_use]
pub fn create_group(name: &str, stripe: Option<Bytes>, devices: &[&Path]) -> Invocation {
    let extent = stripe.map_or(EXTENT_KIB, |stripe| (stripe.0 >> 10).max(EXTENT_KIB));
    let mut words = command(&["vgcreate", "--physicalextentsize", &format!("{extent}k")], devices);
    words.push(name.to_owned());
    words.extend(devices.iter().map(|path| path.display().to_string()));
    PROGRAM.invoke(words)
}

/// Makes the volume, which takes all of the group: one device after the other, or in stripes of this size.
#[must_use]
pub fn create_logical(name: &str, stripe: Option<Bytes>, devices: &[&Path]) -> Invocation {
    let first = ["lvcreate", "--yes", "--wipesignatures", "n", "--zero", "n", "--extents", "100%FREE"];
    let mut words = command(&first, devices);
    if let Some(stripe) = stripe {
        words.extend(["--stripes".to_owned(), devices.len().to_string()]);
        words.extend(["--stripesize".to_owned(), format!("{}k", stripe.0 >> 10)]);
    }
    words.extend(["--name", VOLUME, name].map(str::to_owned));
    PROGRAM.invoke(words)
}

/// Makes the volume of a group appear.
#[must_use]
pub fn activate(name: &str, devices: &[&Path]) -> Invocation {
    let mut words = command(&["vgchange", "--activate", "y"], devices);
    words.push(name.to_owned());
    PROGRAM.invoke(words)
}

/// Where the volume of a group is.
#[must_use]
pub fn node(name: &str) -> PathBuf {
    Path::new("/dev").join(name).join(VOLUME)
}
