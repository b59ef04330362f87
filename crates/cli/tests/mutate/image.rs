//! Images: an accepted one is restored into the file that was named, and nowhere else. Written again by the
//! format's description (`fsage_engine::image::format`), so that mutants have hashes that agree.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsage_engine::image::{RestoreOptions, SaveOptions, info, restore, save, verify};
use fsage_engine::load::Control;
use serde_json::Value;

use super::test_directory::{TestDirectory, limited};
use super::{Format, bytes};
use crate::dice::Dice;

const FRAME: usize = 64;
const ENTRY: usize = 32;
const FOOTER: usize = 96;

/// An image in its parts.
#[derive(Clone)]
struct Parts {
    header: Value,
    /// Head (its first 24 bytes and its content hash) and payload of each chunk.
    chunks: Vec<([u8; 24], [u8; 16], Vec<u8>)>,
    totals: Value,
}

pub struct Images {
    whole: Vec<u8>,
    parts: Parts,
    outside: String,
    path: PathBuf,
}

impl Images {
    pub fn new(test_directory: &TestDirectory) -> Self {
        let (volume, path) = (test_directory.path("inside/volume"), test_directory.path("inside/image"));
        // Data that describes itself, zeros, and what is as it is; two chunks.
        let mut content = vec![0; 5 << 20];
        fsage_content::fill(&mut content[64 << 10..1 << 20], 7, 0, 1);
        for (byte, n) in content[2 << 20..(2 << 20) + 9000].iter_mut().zip(0_u32..) {
            *byte = u8::try_from(n.wrapping_mul(2_654_435_761) >> 24).unwrap();
        }
        fsage_content::fill(&mut content[(4 << 20) + 8192..(4 << 20) + 40_960], 8, 4096, 2);
        std::fs::write(&volume, &content).unwrap();
        let options = SaveOptions {
            device: volume,
            point: None,
            frozen: false,
            all_blocks: true,
            file: path.clone(),
            level: 1,
            threads: 1,
            facts: BTreeMap::from([("from".to_owned(), "a test".to_owned())]),
        };
        save(&options, &Control::new(), &mut |_, _, _| {}).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let parts = take_apart(&whole);
        assert_eq!(put_together(&parts, None), whole, "the description of the format and the writer agree");
        Self { whole, parts, outside: test_directory.sentinels(), path }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())).unwrap()
}

fn take_apart(bytes: &[u8]) -> Parts {
    let description = u32_at(bytes, 12);
    let header = serde_json::from_slice(&bytes[16..16 + description]).unwrap();
    let footer = &bytes[bytes.len() - FOOTER..];
    let index = usize::try_from(u64::from_le_bytes(footer[8..16].try_into().unwrap())).unwrap();
    let (mut at, mut chunks) = (16 + description + 32, Vec::new());
    while at < index {
        let stored = u32_at(bytes, at + 4);
        let head = bytes[at..at + 24].try_into().unwrap();
        let content = bytes[at + 32..at + 48].try_into().unwrap();
        chunks.push((head, content, bytes[at + FRAME..at + FRAME + stored].to_vec()));
        at += FRAME + stored;
    }
    let totals = bytes.len() - FOOTER - u32_at(footer, 24);
    let totals = serde_json::from_slice(&bytes[totals..bytes.len() - FOOTER]).unwrap();
    Parts { header, chunks, totals }
}

/// Keys in the order of the format's own types, so that an image taken apart is put together byte by byte.
fn ordered(value: &Value, keys: &[&str]) -> Vec<u8> {
    let Some(entries) = value.as_object() else { return serde_json::to_vec(value).unwrap() };
    let known = keys.iter().filter_map(|key| Some((*key, entries.get(*key)?)));
    let more = entries.iter().filter(|(key, _)| !keys.contains(&key.as_str()));
    let parts: Vec<String> = known
        .chain(more.map(|(key, value)| (key.as_str(), value)))
        .map(|(key, value)| format!("{}:{value}", Value::from(key)))
        .collect();
    format!("{{{}}}", parts.join(",")).into_bytes()
}

/// With hashes that agree. `dice`: a number in an index entry or the footer is another.
fn put_together(parts: &Parts, mut dice: Option<&mut Dice>) -> Vec<u8> {
    const HEADER: [&str; 9] = [
        "volume_bytes",
        "span_blocks",
        "blocks",
        "file_system",
        "uuid",
        "label",
        "created_s",
        "program",
        "facts",
    ];
    const TOTALS: [&str; 5] = ["used_blocks", "described_blocks", "zero_blocks", "raw_blocks", "runs"];
    let description = ordered(&parts.header, &HEADER);
    let mut image = b"fsageIMG\x01\0\0\0".to_vec();
    image.extend(u32::try_from(description.len()).unwrap().to_le_bytes());
    image.extend(description);
    let header_hash = *blake3::hash(&image).as_bytes();
    image.extend(header_hash);
    let mut index = Vec::new();
    for (head, content, payload) in &parts.chunks {
        let mut frame = head.to_vec();
        frame.extend(&header_hash[..8]);
        frame.extend(content);
        let check = blake3::Hasher::new().update(&frame).update(payload).finalize();
        frame.extend(&check.as_bytes()[..16]);
        index.extend(&head[16..24]);
        index.extend(u64::try_from(image.len()).unwrap().to_le_bytes());
        index.extend(u32::try_from(FRAME + payload.len()).unwrap().to_le_bytes());
        index.extend(&head[12..16]);
        index.extend(&check.as_bytes()[..8]);
        image.extend(frame);
        image.extend(payload);
    }
    if let Some(dice) = &mut dice
        && dice.one_in(3)
    {
        let at = dice.index(index.len() / 8) * 8;
        let number = bytes::word(dice).to_le_bytes();
        index.iter_mut().skip(at).zip(number).for_each(|(byte, new)| *byte = new);
    }
    let totals = ordered(&parts.totals, &TOTALS);
    let mut footer = b"fsageEND".to_vec();
    footer.extend(u64::try_from(image.len()).unwrap().to_le_bytes());
    footer.extend(u64::try_from(index.len() / ENTRY).unwrap().to_le_bytes());
    footer.extend(u32::try_from(totals.len()).unwrap().to_le_bytes());
    footer.extend(1_u32.to_le_bytes());
    index.extend(totals);
    footer.extend(blake3::hash(&index).as_bytes());
    if let Some(dice) = dice
        && dice.one_in(4)
    {
        let at = 8 + dice.index(3) * 8;
        footer[at..at + 8].copy_from_slice(&bytes::word(dice).to_le_bytes());
    }
    let check = blake3::Hasher::new().update(&footer).update(&header_hash).finalize();
    image.extend(index);
    image.extend(footer);
    image.extend(check.as_bytes());
    image
}

/// Nothing where an earlier change left no object.
fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(entries) = object.as_object_mut() {
        entries.insert(key.to_owned(), value);
    }
}

impl Parts {
    fn change(&mut self, dice: &mut Dice, outside: &str) {
        for _ in 0..=dice.below(2) {
            let (at, other) = (dice.index(self.chunks.len()), dice.index(self.chunks.len()));
            match dice.below(10) {
                0 | 1 => bytes::json(dice, &mut self.header, outside),
                8 => {
                    let key = *dice.of(&["file_system", "uuid", "label", "program"]);
                    set(&mut self.header, key, bytes::name(dice, outside).into());
                }
                9 => set(&mut self.header, "volume_bytes", bytes::word(dice).into()),
                2 => bytes::json(dice, &mut self.totals, outside),
                3 => self.chunks.swap(at, other),
                4 => self.chunks.insert(at, self.chunks[other].clone()),
                5 => {
                    let word = 4 + dice.index(5) * 4;
                    let number = bytes::word(dice).to_le_bytes();
                    self.chunks[at].0[word..].iter_mut().zip(number).for_each(|(byte, new)| *byte = new);
                }
                6 => self.change_payload(dice, at),
                _ => {
                    let times = 1 + dice.below(3);
                    bytes::bytes(dice, &mut self.chunks[at].2, times);
                    self.agree(at);
                }
            }
        }
    }

    /// What is compressed is another; its length agrees.
    fn change_payload(&mut self, dice: &mut Dice, at: usize) {
        let plain = u32_at(&self.chunks[at].0, 8).clamp(1, 8 << 20);
        let Ok(mut content) = zstd::bulk::decompress(&self.chunks[at].2, plain) else { return };
        let times = 1 + dice.below(4);
        bytes::bytes(dice, &mut content, times);
        self.chunks[at].2 = zstd::bulk::compress(&content, 1).unwrap();
        self.chunks[at].0[8..12].copy_from_slice(&u32::try_from(content.len()).unwrap().to_le_bytes());
        self.agree(at);
    }

    fn agree(&mut self, at: usize) {
        let stored = u32::try_from(self.chunks[at].2.len()).unwrap();
        self.chunks[at].0[4..8].copy_from_slice(&stored.to_le_bytes());
    }
}

impl Format for Images {
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8> {
        if dice.one_in(4) {
            let mut mutant = self.whole.clone();
            let times = 1 + dice.below(4);
            bytes::bytes(dice, &mut mutant, times);
            return mutant;
        }
        let mut parts = self.parts.clone();
        parts.change(dice, &self.outside);
        put_together(&parts, Some(dice))
    }

    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String> {
        std::fs::write(&self.path, bytes).unwrap();
        if info(&self.path).is_err() {
            return Ok(false);
        }
        let verified = limited(|control| verify(&self.path, 1, control, &mut |_, _, _| {})).is_ok();
        let volume = test_directory.work().join("restored");
        let options = RestoreOptions {
            file: self.path.clone(),
            device: volume.clone(),
            identity: None,
            trim: true,
            threads: 1,
        };
        let restored = limited(|control| restore(&options, control, &mut |_, _, _| {})).is_ok();
        // Not because there was no more time for it.
        if restored && !verified && verify(&self.path, 1, &Control::new(), &mut |_, _, _| {}).is_err() {
            return Err("an image that is not right was restored".to_owned());
        }
        Ok(restored)
    }
}
