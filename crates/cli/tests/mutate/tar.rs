//! Tar files: only their headers are read; the history of an accepted one is aged after.

use std::path::PathBuf;

use fsage_lab::source::{listing, tar};
use serde_json::json;

use super::test_directory::TestDirectory;
use super::{Format, bytes};
use crate::dice::Dice;

const BLOCK: usize = 512;

pub struct Tars {
    archive: Vec<u8>,
}

impl Tars {
    pub fn new() -> Self {
        let mut archive = Vec::new();
        let long = format!("top/{}/file", "directory/".repeat(14));
        member(&mut archive, "top/", b'5', b"");
        member(&mut archive, "top/plain", b'0', &[7; 700]);
        member(&mut archive, "././@LongLink", b'L', long.as_bytes());
        member(&mut archive, "top/cut", b'0', b"content");
        member(
            &mut archive,
            "PaxHeaders/one",
            b'x',
            b"22 path=top/pax/named\n30 mtime=1700000000.123456789\n",
        );
        member(&mut archive, "top/pax/cut", b'0', &[9; 2000]);
        member(&mut archive, "top/link", b'2', b"");
        member(&mut archive, "top/hard", b'1', b"");
        member(&mut archive, "pax_global_header", b'g', b"20 comment=a commit\n");
        member(&mut archive, "top/last", b'0', &[1; 512]);
        archive.extend([0; 2 * BLOCK]);
        Self { archive }
    }
}

fn member(archive: &mut Vec<u8>, name: &str, kind: u8, content: &[u8]) {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[136..148].copy_from_slice(b"14524770400\0");
    header[156] = kind;
    header[157..166].copy_from_slice(b"top/plain");
    header[257..265].copy_from_slice(b"ustar\x0000");
    seal(&mut header);
    archive.extend(header);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
}

/// Gives a block the checksum of a header.
fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// Fields of a header: where, and how long.
const FIELDS: [(usize, usize); 7] =
    [(0, 100), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (345, 155)];

impl Format for Tars {
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8> {
        let mut archive = self.archive.clone();
        for _ in 0..=dice.below(3) {
            let block = dice.index(archive.len() / BLOCK) * BLOCK;
            let (at, length) = *dice.of(&FIELDS);
            let new = match dice.below(4) {
                0 => bytes::name(dice, "/nowhere/outside").into_bytes(),
                1 => format!("{:o}", bytes::word(dice)).into_bytes(),
                2 => [&[0x80][..], &bytes::word(dice).to_be_bytes(), &[0xff; 4]].concat(),
                _ => vec![*dice.of(b"0123456LKxgSDNV\0\xff")],
            };
            let field = &mut archive[block + at..block + at + length];
            field.iter_mut().zip(new).for_each(|(byte, new)| *byte = new);
            if !dice.one_in(5) && archive[block..block + BLOCK].iter().any(|byte| *byte != 0) {
                seal(&mut archive[block..block + BLOCK]);
            }
        }
        if dice.one_in(5) {
            let times = 1 + dice.below(4);
            bytes::bytes(dice, &mut archive, times);
        }
        let mut packed = match dice.below(6) {
            0 => zstd::bulk::compress(&archive, 1).unwrap(),
            1 => {
                let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                std::io::Write::write_all(&mut writer, &archive).unwrap();
                writer.finish().unwrap()
            }
            _ => return archive,
        };
        if dice.one_in(3) {
            bytes::bytes(dice, &mut packed, 1);
        }
        packed
    }

    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String> {
        let (whole, mutant) =
            (test_directory.path("inside/whole.tar"), test_directory.path("inside/mutant.tar"));
        std::fs::write(&whole, &self.archive).unwrap();
        std::fs::write(&mutant, bytes).unwrap();
        if tar::list(&mutant).is_err() {
            return Ok(false);
        }
        let paths: [PathBuf; 2] = [whole, mutant];
        let Ok(history) = listing::read(&paths) else { return Ok(false) };
        let history = json!({
            "kind": "recorded", "directories": history.directories, "paths": history.paths, "commits": history.commits,
        });
        let workload = json!({ "kind": "snapshots", "history": history });
        if let Ok(workload) = serde_json::from_value(workload) {
            super::load::age(workload, test_directory);
        }
        Ok(true)
    }
}
