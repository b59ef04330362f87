//! Properties of self-describing data.

use fsage_content::{
    BLOCK_BYTES, Block, BlockVerdict, Expected, HEADER_BYTES, Header, fill, recognise, verify,
};
use proptest::prelude::*;

fn block(header: &Header) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    fill(&mut block, header.file, header.offset, header.version);
    block
}

fn expected(header: &Header) -> Expected {
    Expected { file: header.file, offset: header.offset, versions: header.version..=header.version }
}

fn any_header() -> impl Strategy<Value = Header> {
    (any::<u64>(), 0..u64::MAX / 4096, any::<u32>()).prop_map(|(file, block, version)| Header {
        file,
        offset: block * 4096,
        version,
    })
}

const SAMPLE: Header = Header { file: 7, offset: 8192, version: 3 };

/// The format is fixed: these bytes must never change.
#[test]
fn the_format_is_what_it_was() {
    let sample = block(&SAMPLE);
    let hex: String = sample[..48].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN_START);
    let sum = sample
        .chunks(8)
        .fold(0_u64, |sum, word| sum.rotate_left(5) ^ u64::from_le_bytes(word.try_into().expect("8 bytes")));
    assert_eq!(format!("{sum:016x}"), GOLDEN_SUM);
}

const GOLDEN_START: &str =
    "6653473103000000070000000000000000200000000000007ac828379e5696bfb9bf175b88569139cc641efe8b488160";
const GOLDEN_SUM: &str = "81b992b132fa8544";

#[test]
fn every_tail_length_is_recognised() {
    let whole = block(&SAMPLE);
    for length in 0..=BLOCK_BYTES {
        let mut page = vec![0; BLOCK_BYTES];
        page[..length].copy_from_slice(&whole[..length]);
        let last = page.iter().rposition(|byte| *byte != 0).map_or(0, |n| n + 1);
        let seen = recognise(&page);
        match length {
            0 => assert_eq!(seen, Block::Zero),
            1..HEADER_BYTES if last < HEADER_BYTES => assert_eq!(seen, Block::Fragment { length: last }),
            BLOCK_BYTES => assert_eq!(seen, Block::Good { header: SAMPLE, length }),
            _ => assert_eq!(seen, Block::Good { header: SAMPLE, length: last.max(HEADER_BYTES) }, "{length}"),
        }
        // What is recognised regenerates what was there.
        if let Block::Good { header, length } = seen {
            let mut again = vec![0; BLOCK_BYTES];
            fill(&mut again[..length], header.file, header.offset, header.version);
            assert_eq!(again, page);
        }
        // Read from the file, where the length is known.
        let verdict = verify(&whole[..length], &expected(&SAMPLE));
        if length == 0 {
            assert_eq!(verdict, BlockVerdict::Zero);
        } else {
            assert_eq!(verdict, BlockVerdict::Good { version: 3 }, "{length}");
        }
    }
}

#[test]
fn every_single_bit_flip_is_detected() {
    let whole = block(&SAMPLE);
    let mut damaged = whole.clone();
    for bit in 0..BLOCK_BYTES * 8 {
        damaged[bit / 8] ^= 1 << (bit % 8);
        let sector = 1 << (bit / 8 / 512);
        match recognise(&damaged) {
            Block::Torn { sectors, .. } => assert_eq!(sectors, sector, "bit {bit}"),
            Block::Foreign => assert!(bit < 32, "bit {bit}"),
            other => panic!("bit {bit}: {other:?}"),
        }
        assert_eq!(
            verify(&damaged, &expected(&SAMPLE)),
            BlockVerdict::Torn { version: Some(3), sectors: sector }
        );
        damaged[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(damaged, whole);
}

#[test]
fn torn_writes_are_told_by_sector() {
    let old = block(&Header { version: 2, ..SAMPLE });
    let new = block(&SAMPLE);
    let expected = Expected { file: 7, offset: 8192, versions: 2..=3 };
    for bits in 1..255_u8 {
        let mut mixed = new.clone();
        for sector in (0..8).filter(|n| bits & (1 << n) != 0) {
            mixed[sector * 512..][..512].copy_from_slice(&old[sector * 512..][..512]);
        }
        let (version, sectors) = if bits & 1 == 0 { (3, bits) } else { (2, !bits) };
        assert_eq!(verify(&mixed, &expected), BlockVerdict::Torn { version: Some(version), sectors });
        let header = Some(Header { version, ..SAMPLE });
        assert_eq!(recognise(&mixed), Block::Torn { header, sectors });
    }
}

#[test]
fn lost_sectors_are_seen() {
    let mut page = block(&SAMPLE);
    page[2048..].fill(0);
    assert_eq!(recognise(&page), Block::Good { header: SAMPLE, length: 2048 });
    assert_eq!(verify(&page, &expected(&SAMPLE)), BlockVerdict::Torn { version: Some(3), sectors: 0xf0 });
    let mut page = block(&SAMPLE);
    page[..512].fill(0);
    assert_eq!(recognise(&page), Block::Foreign);
    assert_eq!(verify(&page, &expected(&SAMPLE)), BlockVerdict::Torn { version: Some(3), sectors: 1 });
    assert_eq!(verify(&[0; BLOCK_BYTES], &expected(&SAMPLE)), BlockVerdict::Zero);
}

#[test]
fn stale_and_misplaced_are_told_apart() {
    let data = block(&SAMPLE);
    let newer = Expected { file: 7, offset: 8192, versions: 4..=9 };
    assert_eq!(verify(&data, &newer), BlockVerdict::Stale { version: 3 });
    let elsewhere = Expected { file: 7, offset: 4096, versions: 3..=3 };
    assert_eq!(verify(&data, &elsewhere), BlockVerdict::Misplaced { found: SAMPLE });
    let other = Expected { file: 8, offset: 8192, versions: 3..=3 };
    assert_eq!(verify(&data, &other), BlockVerdict::Misplaced { found: SAMPLE });
}

proptest! {
    #[test]
    fn round_trip(header in any_header(), length in HEADER_BYTES..=BLOCK_BYTES) {
        let data = block(&header);
        prop_assert_eq!(recognise(&data), Block::Good { header, length: BLOCK_BYTES });
        prop_assert_eq!(recognise(&data[..length]), Block::Good { header, length });
        prop_assert_eq!(verify(&data[..length], &expected(&header)), BlockVerdict::Good { version: header.version });
    }

    #[test]
    fn long_buffers_are_made_of_blocks(header in any_header(), length in 0..5 * BLOCK_BYTES) {
        let header = Header { offset: (header.offset / 2) & !4095, ..header };
        let mut data = vec![0; length];
        fill(&mut data, header.file, header.offset, header.version);
        let mut offset = header.offset;
        for piece in data.chunks(BLOCK_BYTES) {
            prop_assert_eq!(piece, &block(&Header { offset, ..header })[..piece.len()]);
            offset += 4096;
        }
    }

    #[test]
    fn foreign_data_is_refused(data in prop::collection::vec(any::<u8>(), 40..=BLOCK_BYTES), magic: bool) {
        // The one or two bytes of a last sector may be right by chance, and then they count as right.
        prop_assume!(data.len() % 512 == 0 || data.len() % 512 >= 8);
        let mut data = data;
        data[32] |= 1;
        if magic {
            data[..4].copy_from_slice(b"fSG1");
        }
        prop_assert_eq!(recognise(&data), Block::Foreign);
        prop_assert_eq!(verify(&data, &expected(&SAMPLE)), BlockVerdict::Foreign);
    }

    #[test]
    fn neighbours_share_nothing(header in any_header()) {
        let data = block(&header);
        let next = block(&Header { version: header.version.wrapping_add(1), ..header });
        let same = data[HEADER_BYTES..].iter().zip(&next[HEADER_BYTES..]).filter(|(a, b)| a == b).count();
        // 4064 bytes, each alike by chance 1/256: mean 16, standard deviation 4.
        prop_assert!(same < 60, "{}", same);
    }
}
