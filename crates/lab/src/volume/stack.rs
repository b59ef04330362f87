//! Layers between the drives of a virtual disk and its file system: what makes each, and what takes it down.
//!
//! A layer is made by the program that the kernel's own documentation names (`dmsetup`, `mdadm`, LVM's),
//! under a name of fsage's, and leased before: what a killed run left is found by that name. Tables of the device mapper are
//! those of Linux, Documentation/admin-guide/device-mapper.

use std::path::{Path, PathBuf};

use fsage_model::layer::{LayerDevice, name};
use fsage_model::protocol::BlockFacts;
use fsage_model::size::Bytes;
use fsage_model::study::LayerSpec;

use super::layers::{Again, Layer};
use super::{Taking, VolumeError};
use crate::lease::record::Lease;
use crate::tools::{Invocation, blkdiscard, dmsetup, lvm, mdadm};

/// The option of `mdadm` for a partial parity log.
const PPL: &str = "--consistency-policy=ppl";

/// Bytes of a sector in tables of the device mapper.
const SECTOR: u64 = 512;

/// Bytes that the map of a thin volume or of a cache has at its beginning, which have to be zero.
const MAP_HEAD: u64 = 4096;

/// A device that a layer is made on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Below {
    /// Its node.
    pub path: PathBuf,
    /// Its size, in sectors.
    pub sectors: u64,
}

impl From<&BlockFacts> for Below {
    fn from(facts: &BlockFacts) -> Self {
        Self { path: facts.path.clone(), sectors: facts.size_bytes / SECTOR }
    }
}

/// One thing that is made: its lease, the commands that make it, and where it is then.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Making {
    name: String,
    device: LayerDevice,
    commands: Vec<Invocation>,
    /// What is done to it once it is there and held.
    after: Vec<Invocation>,
    /// What makes it appear again, of what it keeps on the devices below it.
    again: Again,
    /// Its node.
    node: PathBuf,
    /// Its size in sectors, as far as that follows from those below.
    sectors: u64,
}

impl Making {
    /// A device of the device mapper, which one command makes whether it is new or not.
    fn mapped(name: String, sectors: u64, create: Invocation) -> Self {
        let node = Path::new("/dev/mapper").join(&name);
        let again = Again::Command(create.clone());
        let (commands, after) = (vec![create], Vec::new());
        Self { name, device: LayerDevice::Mapped, commands, after, again, node, sectors }
    }

    fn table(name: String, sectors: u64, table: &str) -> Self {
        let create = dmsetup::create(&name, table);
        Self::mapped(name, sectors, create)
    }

    /// Every command, in their order.
    fn all(&self) -> impl Iterator<Item = &Invocation> {
        self.commands.iter().chain(&self.after)
    }

    fn below(&self) -> Below {
        Below { path: self.node.clone(), sectors: self.sectors }
    }
}

/// Makes the layers of `stack` on `devices`, from these up: the devices that are there then, the uppermost first. `disk`
/// is what their names tell the disk by, `fast` the drive for the layer that caches.
pub(super) fn build(
    taking: &mut Taking<'_>,
    stack: &[LayerSpec],
    disk: &str,
    devices: Vec<BlockFacts>,
    fast: Option<BlockFacts>,
) -> Result<Vec<BlockFacts>, VolumeError> {
    let fast_drive = fast.as_ref().map(Below::from);
    let mut number = 0;
    let mut top = devices.clone();
    let mut all: Vec<BlockFacts> = devices.into_iter().chain(fast).collect();
    for layer in stack {
        let groups: Vec<Vec<Below>> = if layer.joins() {
            vec![top.iter().map(Below::from).collect()]
        } else {
            top.iter().map(|facts| vec![Below::from(facts)]).collect()
        };
        top = Vec::new();
        for mut below in groups {
            below.extend(fast_drive.clone().filter(|_| layer.caches()));
            top.push(make(taking, layer, &name(disk, number), &below)?);
            number += 1;
        }
        let mut devices = top.clone();
        devices.append(&mut all);
        all = devices;
    }
    Ok(all)
}

/// Makes one layer, each part of it in turn: the facts of its last part.
fn make(
    taking: &mut Taking<'_>,
    layer: &LayerSpec,
    name: &str,
    below: &[Below],
) -> Result<BlockFacts, VolumeError> {
    let mut facts = BlockFacts::default();
    for making in recipe(layer, name, below) {
        if making.sectors == 0 {
            let what = format!(
                "`{}` has no room on what is below it: take larger drives or a smaller unit",
                layer.name()
            );
            return Err(VolumeError::Spec { key: "stack", what });
        }
        taking.lease(Lease::Layer { name: making.name.clone(), device: making.device })?;
        run(taking, layer, &making.commands)?;
        facts = taking.facts(&making.node)?;
        taking.hold(&facts)?;
        run(taking, layer, &making.after)?;
        let Making { name, device, again, node, .. } = making;
        taking.layers.push(Layer { kind: layer.name(), name, device, again, node, path: facts.path.clone() });
    }
    Ok(facts)
}

fn run(taking: &mut Taking<'_>, layer: &LayerSpec, commands: &[Invocation]) -> Result<(), VolumeError> {
    for command in commands {
        taking.commands.push(command.to_string());
        let layer = layer.name();
        let made = command.run_checked(taking.session);
        made.map_err(|source| VolumeError::Layer { layer, source: Box::new(source) })?;
    }
    Ok(())
}

/// What makes a layer on these devices, part by part; the last part is the layer.
/// Below a layer that caches, the last device is the fast one.
fn recipe(layer: &LayerSpec, name: &str, below: &[Below]) -> Vec<Making> {
    match layer {
        LayerSpec::Linear {} => vec![linear(name, below)],
        LayerSpec::Striped { chunk } => vec![striped(name, *chunk, below)],
        LayerSpec::Raid { level, chunk, bitmap, ppl } => {
            let policy = match (*bitmap, *ppl) {
                (true, _) => "--bitmap=internal",
                (_, true) => PPL,
                _ => "--bitmap=none",
            };
            vec![raid(name, *level, *chunk, policy, below)]
        }
        LayerSpec::Lvm { stripe } => vec![volume_group(name, *stripe, below)],
        LayerSpec::Crypt { cipher, key_bits, sector_bytes } => {
            below.iter().map(|device| crypt(name, cipher, *key_bits, *sector_bytes, device)).collect()
        }
        LayerSpec::Cache { writeback, policy, block } => {
            let [slow, fast] = below else { return Vec::new() };
            cache(name, *writeback, policy, *block, slow, fast)
        }
        LayerSpec::Writecache {} => {
            let [slow, fast] = below else { return Vec::new() };
            vec![writecache(name, slow, fast)]
        }
        LayerSpec::Thin { chunk } => below.iter().flat_map(|device| thin(name, *chunk, device)).collect(),
    }
}

fn linear(name: &str, below: &[Below]) -> Making {
    let mut start = 0;
    let mut lines = Vec::new();
    for device in below {
        lines.push(format!("{start} {} linear {} 0", device.sectors, device.path.display()));
        start += device.sectors;
    }
    Making::mapped(name.to_owned(), start, dmsetup::create_lines(name, &lines))
}

fn striped(name: &str, chunk: Bytes, below: &[Below]) -> Making {
    let chunk = chunk.0 / SECTOR;
    let least = below.iter().map(|device| device.sectors).min().unwrap_or(0);
    let sectors = (least - least % chunk) * sum_of(below);
    let devices: Vec<String> = below.iter().map(|device| format!("{} 0", device.path.display())).collect();
    let table = format!("0 {sectors} striped {} {chunk} {}", below.len(), devices.join(" "));
    Making::table(name.to_owned(), sectors, &table)
}

fn sum_of(below: &[Below]) -> u64 {
    u64::try_from(below.len()).unwrap_or(1)
}

fn raid(name: &str, level: u8, chunk: Bytes, policy: &str, below: &[Below]) -> Making {
    let devices: Vec<&Path> = below.iter().map(|device| device.path.as_path()).collect();
    let create = mdadm::create(name, level, chunk, policy, &devices);
    let number = sum_of(below);
    let data = match level {
        0 => number,
        1 => 1,
        4 | 5 => number - 1,
        6 => number - 2,
        _ => number / 2,
    };
    let least = below.iter().map(|device| device.sectors).min().unwrap_or(0);
    let node = mdadm::node(name);
    Making {
        name: name.to_owned(),
        device: LayerDevice::Array,
        commands: vec![create],
        after: Vec::new(),
        again: Again::Array {
            devices: below.iter().map(|device| device.path.clone()).collect(),
            by_force: policy != PPL,
        },
        node,
        sectors: least * data,
    }
}

fn volume_group(name: &str, stripe: Option<Bytes>, below: &[Below]) -> Making {
    let devices: Vec<&Path> = below.iter().map(|device| device.path.as_path()).collect();
    let commands = vec![
        lvm::create_physical(&devices),
        lvm::create_group(name, stripe, &devices),
        lvm::create_logical(name, stripe, &devices),
    ];
    let sectors = below.iter().map(|device| device.sectors).sum();
    let node = lvm::node(name);
    Making {
        name: name.to_owned(),
        device: LayerDevice::VolumeGroup,
        commands,
        after: Vec::new(),
        again: Again::Command(lvm::activate(name, &devices)),
        node,
        sectors,
    }
}

/// The key is no secret: every volume has the same.
fn crypt(name: &str, cipher: &str, key_bits: u16, sector_bytes: u32, below: &Below) -> Making {
    // No two halves alike: xts refuses such a key.
    let key: String = (0..key_bits / 8).map(|byte| format!("{:02x}", byte % 251 + 1)).collect();
    let sectors = below.sectors - below.sectors % (u64::from(sector_bytes) / SECTOR);
    let options = if sector_bytes == 512 { String::new() } else { format!(" 1 sector_size:{sector_bytes}") };
    let table = format!("0 {sectors} crypt {cipher} {key} 0 {} 0{options}", below.path.display());
    Making::table(name.to_owned(), sectors, &table)
}

fn thin(name: &str, chunk: Bytes, below: &Below) -> Vec<Making> {
    let chunk = chunk.0 / SECTOR;
    let map = thin_map(below, chunk);
    let [map, space] = divided(name, below, map, chunk, ["map", "data"]);
    let data = space.sectors;
    let (map_node, data_node) = (map.node.display(), space.node.display());
    let table = format!("0 {data} thin-pool {map_node} {data_node} {chunk} 0");
    let pool_name = format!("{name}pool");
    let mut pool = Making::table(pool_name.clone(), data, &table);
    pool.commands.push(dmsetup::message(&pool_name, "create_thin 0"));
    let volume = Making::table(name.to_owned(), data, &format!("0 {data} thin {} 0", pool.node.display()));
    vec![zeroed(map), space, pool, volume]
}

/// Parts of a device: the first so many sectors, and the rest in whole units.
fn divided(name: &str, device: &Below, first: u64, unit: u64, ends: [&str; 2]) -> [Making; 2] {
    let path = device.path.display();
    let part = |end: &str, start: u64, sectors: u64| {
        Making::table(format!("{name}{end}"), sectors, &format!("0 {sectors} linear {path} {start}"))
    };
    // Aligned to the largest block that a device below may have.
    let rest = device.sectors.saturating_sub(first) / unit.max(1) * unit / 8 * 8;
    [part(ends[0], 0, first), part(ends[1], first, rest)]
}

/// Space for the map of a thin volume, in sectors: 48 bytes for each chunk (Documentation/admin-guide/device-mapper/thin-provisioning.rst)
/// from 2 MiB to 16 GiB, with as much again.
fn thin_map(device: &Below, chunk: u64) -> u64 {
    let bytes = (device.sectors / chunk.max(1)).saturating_mul(96).clamp(2 << 20, 16 << 30);
    bytes.next_multiple_of(1 << 20) / SECTOR
}

/// Space for the map of a cache, in sectors: 4 MiB and 16 bytes for each block (cache.rst there), with as much again.
fn cache_map(fast: &Below, block: u64) -> u64 {
    let bytes = (4 << 20) + (fast.sectors / block.max(1)).saturating_mul(32);
    bytes.next_multiple_of(1 << 20) / SECTOR
}

/// A map, with its beginning zeroed: below a layer that encrypts it holds anything.
fn zeroed(mut map: Making) -> Making {
    map.after.push(blkdiscard::zero(&map.node, Some(MAP_HEAD)));
    map
}

fn cache(name: &str, writeback: bool, policy: &str, block: Bytes, slow: &Below, fast: &Below) -> Vec<Making> {
    let block = block.0 / SECTOR;
    let [map, space] = divided(name, fast, cache_map(fast, block), block, ["map", "data"]);
    let mode = if writeback { "writeback" } else { "writethrough" };
    let (sectors, origin) = (slow.sectors, slow.path.display());
    let table = format!(
        "0 {sectors} cache {} {} {origin} {block} 1 {mode} {policy} 0",
        map.node.display(),
        space.node.display()
    );
    let whole = Making::table(name.to_owned(), sectors, &table);
    vec![zeroed(map), space, whole]
}

fn writecache(name: &str, slow: &Below, fast: &Below) -> Making {
    let (sectors, origin, fast) = (slow.sectors, slow.path.display(), fast.path.display());
    Making::table(name.to_owned(), sectors, &format!("0 {sectors} writecache s {origin} {fast} 4096 0"))
}

/// What makes the layers, as a shell would read it, on so many drives of a size, the devices called `loopN`.
pub(super) fn describe(
    stack: &[LayerSpec],
    disk: &str,
    drives: u32,
    drive: Bytes,
    fast: Option<u64>,
) -> Vec<String> {
    let device = |number: u32| Below {
        path: PathBuf::from(if number == 0 {
            "/dev/loopN".to_owned()
        } else {
            format!("/dev/loopN+{number}")
        }),
        sectors: drive.0 / SECTOR,
    };
    let mut top: Vec<Below> = (0..drives).map(device).collect();
    let fast = fast.map(|bytes| Below { sectors: bytes / SECTOR, ..device(drives) });
    let (mut number, mut lines) = (0, Vec::new());
    for layer in stack {
        let groups: Vec<Vec<Below>> =
            if layer.joins() { vec![top] } else { top.into_iter().map(|device| vec![device]).collect() };
        top = Vec::new();
        for mut below in groups {
            below.extend(fast.clone().filter(|_| layer.caches()));
            let parts = recipe(layer, &name(disk, number), &below);
            number += 1;
            lines.extend(parts.iter().flat_map(Making::all).map(Invocation::to_string));
            top.extend(parts.last().map(Making::below));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn below(number: usize) -> Vec<Below> {
        let device =
            |number| Below { path: format!("/dev/loop{number}").into(), sectors: 100 * MIB / SECTOR };
        (0..number).map(device).collect()
    }

    fn layer(text: &str) -> LayerSpec {
        serde_json::from_str(text).unwrap()
    }

    fn commands(text: &str, number: usize) -> (Vec<String>, u64) {
        let parts = recipe(&layer(text), "fsage-0123456789abcdef-0", &below(number));
        let lines = parts.iter().flat_map(Making::all).map(Invocation::to_string).collect();
        (lines, parts.last().unwrap().sectors)
    }

    #[test]
    fn each_layer_has_its_commands() {
        let (lines, sectors) = commands(r#"{"kind":"striped","chunk":"1MiB"}"#, 2);
        assert_eq!(sectors, 200 * MIB / SECTOR);
        assert_eq!(
            lines,
            [
                "dmsetup create fsage-0123456789abcdef-0 --table '0 409600 striped 2 2048 /dev/loop0 0 /dev/loop1 0'"
            ]
        );
        let (lines, sectors) = commands(r#"{"kind":"linear"}"#, 2);
        assert_eq!(sectors, 200 * MIB / SECTOR);
        assert!(
            lines[0].contains("0 204800 linear /dev/loop0 0,204800 204800 linear /dev/loop1 0"),
            "{lines:?}"
        );
        let (lines, sectors) = commands(r#"{"kind":"raid","level":6}"#, 5);
        assert_eq!(sectors, 300 * MIB / SECTOR);
        assert!(
            lines[0].contains("--level=6")
                && lines[0].contains("--chunk=64")
                && lines[0].contains("--bitmap=none"),
            "{lines:?}"
        );
        let (lines, _) = commands(r#"{"kind":"lvm","stripe":"1MiB"}"#, 8);
        assert_eq!(lines.len(), 3);
        assert!(lines[2].contains("--stripes 8") && lines[2].contains("--stripesize 1024k"), "{lines:?}");
        let (lines, sectors) = commands(r#"{"kind":"crypt"}"#, 1);
        assert_eq!(sectors, 100 * MIB / SECTOR);
        assert!(
            lines[0].contains(" crypt aes-xts-plain64 0102") && lines[0].ends_with("0 1 sector_size:4096'"),
            "{lines:?}"
        );
        let (lines, sectors) = commands(r#"{"kind":"cache","writeback":false}"#, 2);
        assert_eq!((lines.len(), sectors), (4, 100 * MIB / SECTOR));
        assert!(
            lines[3].contains(" cache /dev/mapper/fsage-0123456789abcdef-0map ")
                && lines[3].ends_with(" /dev/loop0 128 1 writethrough smq 0'"),
            "{lines:?}"
        );
        let (lines, _) = commands(r#"{"kind":"writecache"}"#, 2);
        assert!(lines[0].ends_with(" writecache s /dev/loop0 /dev/loop1 4096 0'"), "{lines:?}");
        let (lines, sectors) = commands(r#"{"kind":"thin"}"#, 1);
        assert_eq!(lines.len(), 6);
        assert_eq!(sectors, 98 * MIB / SECTOR);
        assert!(lines[1].contains("blkdiscard --force --zeroout --length 4096"), "{lines:?}");
        assert!(lines[5].contains(" thin /dev/mapper/fsage-0123456789abcdef-0pool 0"), "{lines:?}");
    }

    #[test]
    fn layers_stand_on_each_other() {
        let stack: Vec<LayerSpec> =
            serde_json::from_str(r#"[{"kind":"raid","level":1},{"kind":"crypt"},{"kind":"thin"}]"#).unwrap();
        let lines = describe(&stack, "0123456789abcdef", 2, Bytes(100 * MIB), None);
        assert_eq!(lines.len(), 1 + 1 + 6, "{lines:?}");
        assert!(lines[0].contains("/dev/loopN /dev/loopN+1"), "{lines:?}");
        assert!(lines[1].contains("/dev/md/fsage-0123456789abcdef-0"), "{lines:?}");
        assert!(lines[2].contains("/dev/mapper/fsage-0123456789abcdef-1"), "{lines:?}");
    }
}
