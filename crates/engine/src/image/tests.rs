//! The encoder against a plain model, whole images of files, and damage.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use fsage_model::image::Header;
use fsage_model::image::ImageSummary;
use proptest::prelude::*;

use super::encode::{Run, decode, encode, plain_limit};
use super::*;
use crate::load::Control;

/// What a block of a made-up volume holds.
#[derive(Debug, Clone, Copy)]
enum Made {
    Free,
    Zero,
    Noise(u8),
    /// File, block of it, length.
    Data(u64, u64, usize),
    /// Data with a byte that is not its own.
    Torn(u64, usize),
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        2 => Just(Made::Free),
        1 => Just(Made::Zero),
        2 => any::<u8>().prop_map(Made::Noise),
        4 => (0_u64..3, 0_u64..6).prop_map(|(file, block)| Made::Data(file, block, 4096)),
        1 => (any::<u64>(), any::<u32>()).prop_map(|(file, block)| Made::Data(file, u64::from(block), 4096)),
        2 => (0_u64..3, 0_u64..6, 1_usize..4096).prop_map(|(file, block, length)| Made::Data(file, block, length)),
        1 => (0_u64..3, 0_usize..4096).prop_map(|(file, at)| Made::Torn(file, at)),
    ]
}

fn bytes(made: Made) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    match made {
        Made::Free | Made::Zero => {}
        Made::Noise(seed) => {
            for (n, byte) in (0_u64..).zip(&mut bytes) {
                *byte = seed ^ (n.wrapping_mul(2_654_435_761) >> 24 & 0xff) as u8;
            }
        }
        Made::Data(file, block, length) => {
            fsage_content::fill(&mut bytes[..length], file, block * 4096, (file % 5) as u32);
        }
        Made::Torn(file, at) => {
            fsage_content::fill(&mut bytes, file, 0, 1);
            bytes[at] ^= 0x40;
        }
    }
    bytes
}

fn stretch(blocks: &[Made]) -> (Vec<u8>, Vec<Run>) {
    let stretch = blocks.iter().flat_map(|block| bytes(*block)).collect();
    let mut runs: Vec<Run> = Vec::new();
    for (n, block) in (0_u32..).zip(blocks) {
        match (runs.last_mut(), block) {
            (_, Made::Free) => {}
            (Some((first, count)), _) if *first + *count == n => *count += 1,
            _ => runs.push((n, 1)),
        }
    }
    (stretch, runs)
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(blocks in prop::collection::vec(made(), 0..60)) {
        let (stretch, runs) = stretch(&blocks);
        let (mut plain, mut raw) = (vec![7; 3], vec![(9, 9)]);
        let totals = encode(&stretch, &runs, &mut plain, &mut raw);
        prop_assert!(plain.len() <= plain_limit(blocks.len()));
        let used = blocks.iter().filter(|block| !matches!(block, Made::Free)).count();
        prop_assert_eq!(totals.used_blocks, as_u64(used));
        prop_assert_eq!(totals.used_blocks, totals.described_blocks + totals.zero_blocks + totals.raw_blocks);
        let whole = blocks.iter().filter(|block| matches!(block, Made::Data(.., length) if *length >= 32)).count();
        prop_assert!(totals.described_blocks >= as_u64(whole), "data is not kept as data");
        let mut chunk = Chunk::new(stretch.len());
        chunk.stretch.fill(0xaa);
        decode(&plain, blocks.len(), &mut chunk).unwrap();
        prop_assert_eq!(&chunk.runs, &runs);
        prop_assert_eq!(chunk.totals, totals);
        for run in runs {
            prop_assert!(encode::bytes_of(&chunk.stretch, run) == encode::bytes_of(&stretch, run));
        }
    }

    #[test]
    fn a_payload_that_is_not_ours_is_refused_or_fits(plain in prop::collection::vec(any::<u8>(), 0..200), length in 0_u8..60) {
        let mut plain = plain;
        if let Some(first) = plain.first_chunk_mut::<4>() {
            *first = u32::from(length).to_le_bytes();
        }
        let mut chunk = Chunk::new(16 * 4096);
        if decode(&plain, 16, &mut chunk).is_ok() {
            let used: u64 = chunk.runs.iter().map(|run| u64::from(run.1)).sum();
            prop_assert_eq!(used, chunk.totals.used_blocks);
            prop_assert!(chunk.runs.iter().all(|(first, count)| first + count <= 16));
        }
    }

    #[test]
    fn a_cut_payload_is_refused(blocks in prop::collection::vec(made(), 1..20), cut in any::<prop::sample::Index>()) {
        let (stretch, runs) = stretch(&blocks);
        let (mut plain, mut raw) = (Vec::new(), Vec::new());
        let totals = encode(&stretch, &runs, &mut plain, &mut raw);
        let mut chunk = Chunk::new(stretch.len());
        let length = cut.index(plain.len());
        prop_assert!(totals.used_blocks == 0 || decode(&plain[..length], blocks.len(), &mut chunk).is_err());
    }
}

/// A folder with a volume of two and a bit chunks that does not end at a block's end.
struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut volume = Vec::new();
        for n in 0_u64..2300 {
            volume.extend(bytes(match n % 23 {
                0 => Made::Noise((n % 251) as u8),
                1 | 2 => Made::Zero,
                3 => Made::Data(n, 5, 777),
                _ => Made::Data(1, n, 4096),
            }));
        }
        volume.truncate(volume.len() - 3000);
        fs::write(folder.path().join("volume"), volume).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn options(&self) -> SaveOptions {
        SaveOptions {
            device: self.path("volume"),
            point: None,
            frozen: false,
            all_blocks: false,
            file: self.path("image"),
            level: 3,
            threads: 3,
            facts: BTreeMap::from([("seed".to_owned(), "42".to_owned())]),
        }
    }

    fn save(&self) -> ImageSummary {
        save(&self.options(), &Control::new(), &mut |_, _, _| {}).unwrap()
    }

    fn restore(&self, file: &str, device: &str) -> Result<ImageSummary, ImageError> {
        let options = RestoreOptions {
            file: self.path(file),
            device: self.path(device),
            identity: None,
            trim: true,
            threads: 2,
        };
        restore(&options, &Control::new(), &mut |_, _, _| {})
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn check(rig: &Rig, name: &str) -> Result<ImageSummary, ImageError> {
    verify(&rig.path(name), 2, &Control::new(), &mut |_, _, _| {})
}

#[test]
fn a_volume_comes_back_byte_for_byte() {
    let rig = Rig::new();
    let saved = rig.save();
    assert_eq!(rig.names(), ["image", "volume"]);
    assert_eq!(saved.totals.used_blocks, 2300);
    assert_eq!(saved.totals.zero_blocks, 200);
    assert_eq!(saved.totals.raw_blocks, 100);
    assert_eq!((saved.chunks, saved.header.blocks), (3, fsage_model::image::Blocks::All));
    assert_eq!(saved.header.facts["seed"], "42");
    assert!(saved.image_bytes < 700_000, "{}", saved.image_bytes);
    assert_eq!(saved.image_bytes, fs::metadata(rig.path("image")).unwrap().len());
    for mut other in [info(&rig.path("image")).unwrap(), check(&rig, "image").unwrap()] {
        other.elapsed_ns = saved.elapsed_ns;
        assert_eq!(other, saved);
    }
    assert_eq!(used_runs(&rig.path("image")).unwrap(), [(0, 2300)]);
    let volume = fs::read(rig.path("volume")).unwrap();
    fs::write(rig.path("other"), vec![0x55; volume.len() + 5000]).unwrap();
    assert_eq!(rig.restore("image", "other").unwrap().digest, saved.digest);
    let other = fs::read(rig.path("other")).unwrap();
    assert!(other[..volume.len()] == volume[..], "the restored volume differs");
}

#[test]
fn two_images_of_one_content_have_one_digest_whatever_the_threads_and_level() {
    let rig = Rig::new();
    let first = rig.save();
    let options = SaveOptions { threads: 1, level: 1, ..rig.options() };
    let second = save(&options, &Control::new(), &mut |_, _, _| {}).unwrap();
    assert_eq!((first.digest, first.totals), (second.digest, second.totals));
}

#[test]
fn every_damaged_byte_is_found_and_nothing_is_written() {
    use rand_core::{Rng as _, SeedableRng as _};
    let rig = Rig::new();
    rig.save();
    let good = fs::read(rig.path("image")).unwrap();
    let before = vec![0x55; 2300 * 4096];
    fs::write(rig.path("other"), &before).unwrap();
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(20);
    let length = as_u64(good.len());
    // Anywhere, and as often where the parts are small: the first and last 400 bytes.
    for n in 0..400_u64 {
        let at = match n {
            0..200 => random.next_u64() % length,
            200..300 => n - 200 + (random.next_u64() % 4) * 100,
            _ => length - 1 - (n - 300) - (random.next_u64() % 4) * 100,
        };
        let mut bad = good.clone();
        let flip = u8::try_from(random.next_u64() % 255 + 1).unwrap();
        bad[as_usize(at)] ^= flip;
        fs::write(rig.path("bad"), &bad).unwrap();
        let verified = check(&rig, "bad").unwrap_err();
        let reported = verified.kind();
        assert!(
            matches!(verified, ImageError::Damaged { .. } | ImageError::NotAnImage { .. }),
            "byte {at} ^ {flip:#x}: {verified}"
        );
        if n % 10 == 0 {
            assert_eq!(rig.restore("bad", "other").unwrap_err().kind(), reported);
        }
    }
    assert!(fs::read(rig.path("other")).unwrap() == before, "a damaged image was written");
}

#[test]
fn a_damaged_chunk_is_named_and_a_cut_image_is_refused() {
    let rig = Rig::new();
    rig.save();
    let good = fs::read(rig.path("image")).unwrap();
    let image = reader::Image::open(&rig.path("image")).unwrap();
    let mut bad = good.clone();
    bad[as_usize(image.entries[1].offset) + 100] ^= 1;
    fs::write(rig.path("bad"), &bad).unwrap();
    let error = check(&rig, "bad").unwrap_err().to_string();
    assert!(error.contains("chunk 1 (from byte 4194304 of the volume)"), "{error}");
    for length in [0, 7, 40, 300, good.len() / 2, good.len() - 97, good.len() - 96, good.len() - 1] {
        fs::write(rig.path("bad"), &good[..length]).unwrap();
        assert!(check(&rig, "bad").is_err(), "{length} bytes");
        assert!(info(&rig.path("bad")).is_err(), "{length} bytes");
    }
    let longer: Vec<u8> = good.iter().copied().chain([0]).collect();
    fs::write(rig.path("bad"), longer).unwrap();
    assert!(check(&rig, "bad").is_err());
}

#[test]
fn chunks_of_another_image_are_refused() {
    let rig = Rig::new();
    rig.save();
    let first = fs::read(rig.path("image")).unwrap();
    let options =
        SaveOptions { facts: BTreeMap::from([("seed".to_owned(), "43".to_owned())]), ..rig.options() };
    save(&options, &Control::new(), &mut |_, _, _| {}).unwrap();
    let mut second = fs::read(rig.path("image")).unwrap();
    assert_eq!(first.len(), second.len());
    let entry = reader::Image::open(&rig.path("image")).unwrap().entries[1];
    let range = as_usize(entry.offset)..as_usize(entry.offset + u64::from(entry.length));
    second[range.clone()].copy_from_slice(&first[range]);
    fs::write(rig.path("bad"), second).unwrap();
    let error = check(&rig, "bad").unwrap_err().to_string();
    assert!(error.contains("chunk 1") && error.contains("another image"), "{error}");
}

#[test]
fn a_volume_that_is_too_small_is_not_touched() {
    let rig = Rig::new();
    rig.save();
    let small = vec![0x55; 1 << 20];
    fs::write(rig.path("small"), &small).unwrap();
    let refused = rig.restore("image", "small").unwrap_err();
    assert!(matches!(refused, ImageError::TooSmall { .. }), "{refused}");
    assert!(fs::read(rig.path("small")).unwrap() == small);
}

#[test]
fn a_save_that_is_stopped_leaves_what_was_there() {
    let rig = Rig::new();
    fs::write(rig.path("image"), b"fsageIMG, older").unwrap();
    let control = Control::new();
    control.stop();
    let stopped = save(&rig.options(), &control, &mut |_, _, _| {}).unwrap_err();
    assert!(matches!(stopped, ImageError::Stopped), "{stopped}");
    assert_eq!(rig.names(), ["image", "volume"]);
    assert_eq!(fs::read(rig.path("image")).unwrap(), b"fsageIMG, older");
}

#[test]
fn what_is_no_image_is_not_replaced() {
    let rig = Rig::new();
    fs::write(rig.path("image"), b"a letter").unwrap();
    let refused = save(&rig.options(), &Control::new(), &mut |_, _, _| {}).unwrap_err();
    assert!(matches!(refused, ImageError::Place { .. }), "{refused}");
    fs::remove_file(rig.path("image")).unwrap();
    // Also when it came while the image was being written.
    let refused = save(&rig.options(), &Control::new(), &mut |_, _, _| {
        fs::write(rig.path("image"), b"a letter").unwrap();
    });
    assert!(matches!(refused, Err(ImageError::Place { .. })), "{refused:?}");
    assert_eq!(rig.names(), ["image", "volume"]);
    assert_eq!(fs::read(rig.path("image")).unwrap(), b"a letter");
}

#[test]
fn a_restore_that_is_stopped_leaves_no_beginning() {
    let rig = Rig::new();
    rig.save();
    fs::write(rig.path("other"), vec![0x55; 2300 * 4096]).unwrap();
    let control = Control::new();
    let options = RestoreOptions {
        file: rig.path("image"),
        device: rig.path("other"),
        identity: None,
        trim: false,
        threads: 1,
    };
    let stopped = restore(&options, &control, &mut |done, _, _| {
        if done == 0 {
            control.stop();
        }
    });
    assert!(matches!(stopped, Err(ImageError::Stopped)), "{stopped:?}");
    let other = fs::read(rig.path("other")).unwrap();
    assert_eq!(other[..4096], crate::host::signature::unfinished_mark());
    assert!(other[4096..128 << 10].iter().all(|byte| *byte == 0));
}

#[test]
fn two_saves_to_one_place_do_not_mix() {
    let rig = Rig::new();
    rig.save();
    let image = fs::read(rig.path("image")).unwrap();
    fs::remove_file(rig.path("image")).unwrap();
    // Another save, from the first report of the first one on.
    let mut second = None;
    save(&rig.options(), &Control::new(), &mut |_, _, _| {
        second.get_or_insert_with(|| save(&rig.options(), &Control::new(), &mut |_, _, _| {}).unwrap());
    })
    .unwrap();
    assert!(second.is_some());
    assert_eq!(fs::read(rig.path("image")).unwrap().len(), image.len());
    verify(&rig.path("image"), 0, &Control::new(), &mut |_, _, _| {}).unwrap();
    assert_eq!(rig.names(), ["image", "volume"]);
}

/// Most memory that this process had at once, in bytes.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn an_index_that_is_only_claimed_takes_no_memory() {
    use std::os::unix::fs::FileExt as _;

    let rig = Rig::new();
    rig.save();
    let saved = info(&rig.path("image")).unwrap().header;
    // 2^26 chunks: 2 GiB of index in a file that holds some kilobytes.
    let chunks = 1_u64 << 26;
    let claim = |volume_bytes: u64| {
        let (header, hash) = format::encode_header(&Header { volume_bytes, ..saved.clone() }).unwrap();
        let index_offset = as_u64(header.len());
        let footer = format::Footer { index_offset, chunks, totals_bytes: 2, index_hash: [0; format::HASH] };
        let file = fs::File::create(rig.path("claim")).unwrap();
        file.write_all_at(&header, 0).unwrap();
        file.write_all_at(&footer.encode(&hash), index_offset + chunks * 32 + 2).unwrap();
        let before = peak_bytes();
        let refused = info(&rig.path("claim")).unwrap_err();
        let grown = peak_bytes() - before;
        assert!(grown < 256 << 20, "{grown} bytes for an index of nothing");
        refused.to_string()
    };
    let small = claim(saved.volume_bytes);
    assert!(small.contains("more chunks than the volume has places for"), "{small}");
    let large = claim(1 << 60);
    assert!(large.contains("its chunks do not follow each other"), "{large}");
}

/// A chunk is read whole before it is inspected, and a sparse file has room for any length.
#[test]
fn chunks_longer_than_what_they_stand_for_are_refused() {
    use std::os::unix::fs::FileExt as _;

    let rig = Rig::new();
    rig.save();
    let saved = info(&rig.path("image")).unwrap().header;
    let (header, hash) = format::encode_header(&saved).unwrap();
    let named = format::Entry {
        first_block: 0,
        offset: as_u64(header.len()),
        length: u32::MAX,
        used_blocks: 1,
        check: [0; 8],
    };
    let mut entry = Vec::new();
    named.encode(&mut entry);
    let index_offset = as_u64(header.len()) + u64::from(u32::MAX);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&entry).update(b"{}");
    let footer = format::Footer {
        index_offset,
        chunks: 1,
        totals_bytes: 2,
        index_hash: *hasher.finalize().as_bytes(),
    };
    let file = fs::File::create(rig.path("claim")).unwrap();
    file.write_all_at(&header, 0).unwrap();
    file.write_all_at(&entry, index_offset).unwrap();
    file.write_all_at(b"{}", index_offset + as_u64(entry.len())).unwrap();
    file.write_all_at(&footer.encode(&hash), index_offset + as_u64(entry.len()) + 2).unwrap();
    let refused = verify(&rig.path("claim"), 1, &Control::new(), &mut |_, _, _| {}).unwrap_err();
    assert!(refused.to_string().contains("longer than what they stand for"), "{refused}");
}
