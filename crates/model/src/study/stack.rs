//! Layers between the drives of a virtual disk and its file system.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::medium::MediumSpec;
use crate::size::Bytes;

/// A layer. A joining layer combines all devices below it into one; any other layer is stacked on each of
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LayerSpec {
    /// Joining: concatenates devices (dm-linear).
    Linear {},
    /// Joining: stripes over devices (dm-stripe).
    Striped {
        /// Chunk size: a power of two from 4 KiB.
        #[serde(default = "chunk")]
        chunk: Bytes,
    },
    /// Joining: an md array. New drives hold zeros, so no initial resync is needed.
    Raid {
        /// RAID level: 0, 1, 4, 5, 6 or 10.
        level: u8,
        /// Chunk size: a power of two from 4 KiB; not for level 1.
        #[serde(default = "chunk")]
        chunk: Bytes,
        /// Keep a write-intent bitmap in each device's superblock, as mdadm does for large arrays.
        #[serde(default)]
        bitmap: bool,
        /// Keep a partial parity log on each device, which is to close the write hole; only level 5, without `bitmap`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ppl: bool,
    },
    /// Joining: an LVM logical volume with all the space of one volume group.
    Lvm {
        /// Stripe size, over all devices; absent: linear.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stripe: Option<Bytes>,
    },
    /// Encryption (dm-crypt) with a publicly known key: for measurements, not for secrets.
    Crypt {
        /// Cipher, by its kernel name: `aes-xts-plain64`, `aes-cbc-essiv:sha256`, `serpent-xts-plain64` or
        /// `twofish-xts-plain64`.
        #[serde(default = "cipher")]
        cipher: String,
        /// Key length in bits; an XTS key consists of two keys.
        #[serde(default = "key_bits")]
        key_bits: u16,
        /// Encryption sector size in bytes: 512, 1024, 2048 or 4096.
        #[serde(default = "sector")]
        sector_bytes: u32,
    },
    /// Cache of hot blocks on the `fast` drive (dm-cache).
    Cache {
        /// Write-back mode: writes go only to the fast drive at first.
        #[serde(default = "yes")]
        writeback: bool,
        /// Cache policy: `smq` or `cleaner`.
        #[serde(default = "policy")]
        policy: String,
        /// Cache block size: a multiple of 32 KiB, up to 1 GiB.
        #[serde(default = "chunk")]
        block: Bytes,
    },
    /// Write cache on the `fast` drive (dm-writecache).
    Writecache {},
    /// Thin provisioning: a volume as large as its device, whose space is allocated when it is written
    /// (dm-thin).
    Thin {
        /// Chunk size (unit of allocation): a multiple of 64 KiB.
        #[serde(default = "chunk")]
        chunk: Bytes,
    },
}

const fn chunk() -> Bytes {
    Bytes(64 << 10)
}

fn cipher() -> String {
    "aes-xts-plain64".to_owned()
}

const fn key_bits() -> u16 {
    512
}

const fn sector() -> u32 {
    4096
}

fn policy() -> String {
    "smq".to_owned()
}

const fn yes() -> bool {
    true
}

/// The supported ciphers, with the kernel modules that they need.
const CIPHERS: [(&str, &[&str]); 4] = [
    ("aes-xts-plain64", &["aes_generic", "ecb", "xts"]),
    ("aes-cbc-essiv:sha256", &["aes_generic", "cbc", "essiv", "sha256_generic"]),
    ("serpent-xts-plain64", &["serpent_generic", "ecb", "xts"]),
    ("twofish-xts-plain64", &["twofish_generic", "ecb", "xts"]),
];

/// The supported policies of dm-cache.
const POLICIES: [&str; 2] = ["smq", "cleaner"];

/// Maximum number of drives of a stack.
pub const MOST_DRIVES: u32 = 64;

/// Maximum number of layers.
pub const MOST_LAYERS: usize = 8;

impl LayerSpec {
    /// Its name in a study.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Linear {} => "linear",
            Self::Striped { .. } => "striped",
            Self::Raid { .. } => "raid",
            Self::Lvm { .. } => "lvm",
            Self::Crypt { .. } => "crypt",
            Self::Cache { .. } => "cache",
            Self::Writecache {} => "writecache",
            Self::Thin { .. } => "thin",
        }
    }

    /// Its kind, with what decides what it keeps in a crash.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Raid { level, chunk: size, bitmap, ppl } => {
                let log = match (*ppl, *bitmap) {
                    (true, _) => " with ppl",
                    (_, true) => " with bitmap",
                    _ => "",
                };
                let of = if *size == chunk() { String::new() } else { format!(", chunk {size}") };
                format!("raid {level}{log}{of}")
            }
            Self::Cache { writeback: false, .. } => "cache (writethrough)".to_owned(),
            _ => self.name().to_owned(),
        }
    }

    /// Whether it combines all devices below it into one.
    #[must_use]
    pub const fn joins(&self) -> bool {
        matches!(self, Self::Linear {} | Self::Striped { .. } | Self::Raid { .. } | Self::Lvm { .. })
    }

    /// Drives that it can lose without losing data.
    #[must_use]
    pub const fn spare(&self) -> u32 {
        match self {
            Self::Raid { level: 6, .. } => 2,
            Self::Raid { level: 1 | 4 | 5 | 10, .. } => 1,
            _ => 0,
        }
    }

    /// Whether it uses the fast drive.
    #[must_use]
    pub const fn caches(&self) -> bool {
        matches!(self, Self::Cache { .. } | Self::Writecache {})
    }

    /// Whether it has timers that follow the wall clock, also in model time: md for its superblocks (200 ms),
    /// dm-thin and dm-writecache for their commits (1 s), dm-cache for the contents of its cache (1 s and
    /// more).
    #[must_use]
    pub const fn goes_by_the_wall(&self) -> bool {
        !matches!(self, Self::Linear {} | Self::Striped { .. } | Self::Lvm { .. } | Self::Crypt { .. })
    }

    /// Minimum number of devices below it.
    #[must_use]
    pub const fn least(&self) -> u32 {
        match self {
            Self::Raid { level: 4 | 5, .. } => 3,
            Self::Raid { level: 6, .. } => 4,
            Self::Raid { .. } | Self::Striped { .. } => 2,
            _ => 1,
        }
    }

    /// The kernel modules that it needs.
    #[must_use]
    pub fn modules(&self) -> Vec<&'static str> {
        match self {
            Self::Linear {} | Self::Striped { .. } | Self::Lvm { .. } => vec!["dm_mod"],
            Self::Raid { level: 0, .. } => vec!["raid0"],
            Self::Raid { level: 1, .. } => vec!["raid1"],
            Self::Raid { level: 10, .. } => vec!["raid10"],
            Self::Raid { .. } => vec!["raid456"],
            Self::Crypt { cipher, .. } => {
                let of_cipher =
                    CIPHERS.iter().find(|(name, _)| name == cipher).map_or(&[][..], |(_, needed)| *needed);
                [&["dm_mod", "dm_crypt"][..], of_cipher].concat()
            }
            Self::Cache { .. } => vec!["dm_mod", "dm_cache", "dm_cache_smq"],
            Self::Writecache {} => vec!["dm_mod", "dm_writecache"],
            Self::Thin { .. } => vec!["dm_mod", "dm_thin_pool"],
        }
    }

    /// The programs that it needs.
    #[must_use]
    pub const fn programs(&self) -> &'static [&'static str] {
        match self {
            Self::Linear {} | Self::Striped { .. } | Self::Crypt { .. } | Self::Writecache {} => &["dmsetup"],
            Self::Cache { .. } | Self::Thin { .. } => &["dmsetup", "blkdiscard"],
            Self::Raid { .. } => &["mdadm"],
            Self::Lvm { .. } => &["lvm", "dmsetup"],
        }
    }

    /// What is wrong with it on this number of devices, by key; `None`: nothing.
    #[must_use]
    pub fn problem(&self, devices: u32) -> Option<(&'static str, String)> {
        let power = |bytes: Bytes| bytes.0.is_power_of_two() && (4096..=1 << 30).contains(&bytes.0);
        let wrong = |bytes: &Bytes| format!("{bytes} is not a power of two from 4 KiB to 1 GiB");
        match self {
            Self::Raid { level, .. } if !matches!(level, 0 | 1 | 4 | 5 | 6 | 10) => {
                Some(("level", format!("{level} is not a level: 0, 1, 4, 5, 6 or 10")))
            }
            Self::Raid { level: 0, bitmap: true, .. } => {
                Some(("bitmap", "level 0 has nothing to bring back in step".to_owned()))
            }
            Self::Raid { level, bitmap, ppl: true, .. } if *level != 5 || *bitmap => {
                Some(("ppl", "a partial parity log needs level 5 without a bitmap".to_owned()))
            }
            Self::Striped { chunk } | Self::Raid { chunk, .. } if !power(*chunk) => {
                Some(("chunk", wrong(chunk)))
            }
            Self::Lvm { stripe: Some(stripe) } if !power(*stripe) => Some(("stripe", wrong(stripe))),
            Self::Lvm { stripe: Some(_) } if devices < 2 => {
                Some(("stripe", "there is one device below it".to_owned()))
            }
            Self::Thin { chunk }
                if chunk.0 == 0 || !chunk.0.is_multiple_of(64 << 10) || chunk.0 > 1 << 30 =>
            {
                Some(("chunk", format!("{chunk} is not a multiple of 64 KiB up to 1 GiB")))
            }
            Self::Cache { block, .. }
                if block.0 == 0 || !block.0.is_multiple_of(32 << 10) || block.0 > 1 << 30 =>
            {
                Some(("block", format!("{block} is not a multiple of 32 KiB up to 1 GiB")))
            }
            Self::Cache { policy, .. } if !POLICIES.contains(&policy.as_str()) => {
                Some(("policy", format!("`{policy}` is no policy: {}", POLICIES.join(" or "))))
            }
            Self::Cache { .. } | Self::Writecache {} if devices > 1 => {
                let name = self.name();
                Some(("kind", format!("`{name}` has one fast drive and {devices} devices below it")))
            }
            Self::Crypt { cipher, .. } if CIPHERS.iter().all(|(name, _)| name != cipher) => {
                let known: Vec<&str> = CIPHERS.iter().map(|(name, _)| *name).collect();
                Some(("cipher", format!("`{cipher}` is not known: {}", known.join(", "))))
            }
            Self::Crypt { key_bits, .. }
                if !key_bits.is_multiple_of(8) || !(64..=1024).contains(key_bits) =>
            {
                Some(("key_bits", format!("{key_bits} is not a multiple of 8 from 64 to 1024")))
            }
            Self::Crypt { sector_bytes, .. } if !matches!(sector_bytes, 512 | 1024 | 2048 | 4096) => {
                Some(("sector_bytes", format!("{sector_bytes} is not 512, 1024, 2048 or 4096")))
            }
            _ if devices < self.least() => {
                let least = self.least();
                Some((
                    "kind",
                    format!("`{}` needs at least {least} devices below it, not {devices}", self.name()),
                ))
            }
            _ => None,
        }
    }
}

/// A drive for a caching layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FastDrive {
    /// Size, at least 16 MiB.
    pub size: Bytes,
    /// Device model, as for the volume.
    pub medium: MediumSpec,
}

/// Minimum size of a fast drive: the metadata of a cache needs some of it.
pub const LEAST_FAST: u64 = 16 << 20;

/// Number of devices that `stack` makes of this number of drives.
#[must_use]
pub fn devices(drives: u32, stack: &[LayerSpec]) -> u32 {
    if stack.iter().any(LayerSpec::joins) { 1 } else { drives }
}

/// What is wrong with a stack, by key, relative to the volume; `None`: nothing.
#[must_use]
pub fn problem(drives: u32, fast: Option<u64>, stack: &[LayerSpec]) -> Option<(String, String)> {
    if !(1..=MOST_DRIVES).contains(&drives) {
        return Some(("drives".to_owned(), format!("{drives} drives: 1 to {MOST_DRIVES}")));
    }
    if stack.len() > MOST_LAYERS {
        return Some(("stack".to_owned(), format!("{} layers: at most {MOST_LAYERS}", stack.len())));
    }
    let caches = stack.iter().filter(|layer| layer.caches()).count();
    match fast {
        Some(bytes) if bytes < LEAST_FAST || !bytes.is_multiple_of(1 << 20) => {
            return Some(("fast.size".to_owned(), "the fast drive has whole MiB, 16 at least".to_owned()));
        }
        Some(_) if caches != 1 => {
            let why = format!("{caches} layers use the fast drive: one `cache` or `writecache` does");
            return Some(("fast".to_owned(), why));
        }
        None if caches > 0 => {
            let why = "a layer that caches needs a drive for it, such as `fast = { medium = \"ssd\", size = \"1GiB\" }`";
            return Some(("fast".to_owned(), why.to_owned()));
        }
        _ => {}
    }
    let mut below = drives;
    let encrypted = stack.iter().position(|layer| matches!(layer, LayerSpec::Crypt { .. }));
    let array = |layer: &LayerSpec| matches!(layer, LayerSpec::Raid { level, .. } if *level != 0);
    if let Some(number) =
        encrypted.and_then(|first| (first..stack.len()).find(|number| array(&stack[*number])))
    {
        let why = "encrypted drives do not hold zeros, so that the array would not be in step: put `crypt` above `raid`";
        return Some((format!("stack.{number}.kind"), why.to_owned()));
    }
    for (number, layer) in stack.iter().enumerate() {
        if let Some((key, why)) = layer.problem(below) {
            return Some((format!("stack.{number}.{key}"), why));
        }
        if layer.joins() {
            below = 1;
        }
    }
    (below > 1).then(|| {
        let why =
            format!("nothing makes one device of {drives} drives: `linear`, `striped`, `raid` and `lvm` do");
        ("stack".to_owned(), why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(text: &str) -> Vec<LayerSpec> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn layers_that_cannot_be_made_are_named() {
        for (drives, layers, key, wanted) in [
            (0, "[]", "drives", "1 to 64"),
            (2, "[]", "stack", "one device of 2 drives"),
            (2, r#"[{"kind":"crypt"}]"#, "stack", "nothing makes one device"),
            (2, r#"[{"kind":"raid","level":5}]"#, "stack.0.kind", "at least 3"),
            (3, r#"[{"kind":"raid","level":7}]"#, "stack.0.level", "not a level"),
            (4, r#"[{"kind":"raid","level":0,"bitmap":true}]"#, "stack.0.bitmap", "level 0"),
            (4, r#"[{"kind":"striped","chunk":"48KiB"}]"#, "stack.0.chunk", "power of two"),
            (4, r#"[{"kind":"striped"},{"kind":"raid","level":1}]"#, "stack.1.kind", "at least 2"),
            (1, r#"[{"kind":"thin","chunk":"32KiB"}]"#, "stack.0.chunk", "64 KiB"),
            (1, r#"[{"kind":"lvm","stripe":"1MiB"}]"#, "stack.0.stripe", "one device"),
            (1, r#"[{"kind":"crypt","cipher":"aes 0 /dev/sda"}]"#, "stack.0.cipher", "is not known"),
            (2, r#"[{"kind":"crypt"},{"kind":"raid","level":1}]"#, "stack.1.kind", "in step"),
            (1, r#"[{"kind":"crypt","key_bits":12}]"#, "stack.0.key_bits", "multiple of 8"),
            (1, r#"[{"kind":"crypt","sector_bytes":8192}]"#, "stack.0.sector_bytes", "512"),
        ] {
            let (at, why) = problem(drives, None, &stack(layers)).unwrap_or_else(|| panic!("{layers}"));
            assert_eq!(at, key, "{layers}: {why}");
            assert!(why.contains(wanted), "{layers}: {why}");
        }
        for (drives, layers) in [
            (1, "[]"),
            (4, r#"[{"kind":"thin"},{"kind":"raid","level":6},{"kind":"crypt"},{"kind":"thin"}]"#),
            (8, r#"[{"kind":"lvm","stripe":"1MiB"}]"#),
            (2, r#"[{"kind":"linear"}]"#),
        ] {
            assert_eq!(problem(drives, None, &stack(layers)), None, "{layers}");
            assert_eq!(devices(drives, &stack(layers)), 1);
        }
    }

    #[test]
    fn a_cache_has_a_drive_of_its_own() {
        let cache = stack(r#"[{"kind":"cache"}]"#);
        assert_eq!(problem(1, Some(64 << 20), &cache), None);
        for (drives, fast, layers, key) in [
            (1, None, r#"[{"kind":"cache"}]"#, "fast"),
            (1, Some(64 << 20), "[]", "fast"),
            (1, Some(1 << 20), r#"[{"kind":"cache"}]"#, "fast.size"),
            (1, Some(64 << 20), r#"[{"kind":"cache"},{"kind":"writecache"}]"#, "fast"),
            (2, Some(64 << 20), r#"[{"kind":"writecache"},{"kind":"linear"}]"#, "stack.0.kind"),
            (1, Some(64 << 20), r#"[{"kind":"cache","policy":"a b"}]"#, "stack.0.policy"),
            (1, Some(64 << 20), r#"[{"kind":"cache","block":"48KiB"}]"#, "stack.0.block"),
        ] {
            let found = problem(drives, fast, &stack(layers)).map(|(key, _)| key);
            assert_eq!(found.as_deref(), Some(key), "{layers}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(serde_json::from_str::<LayerSpec>(r#"{"kind":"linear","chunk":"4KiB"}"#).is_err());
        assert!(serde_json::from_str::<LayerSpec>(r#"{"kind":"raid"}"#).is_err());
    }
}
