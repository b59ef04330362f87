//! Round trips through every format, and what is wrong with broken files.

use std::io::Cursor;

use fsage_model::disk::call::Converted;
use proptest::prelude::*;

use super::memory::{GEOMETRY, any_entry};
use crate::log::blkparse::{self, Clock, Issue};
use crate::log::stream::{Item, LogSource, NoContents, Sink, Source, collect, copy};
use crate::log::*;
use crate::request::{IoError, Operation, Request};

/// Items with their data.
type Items = Vec<(Item, Vec<u8>)>;

/// A stream of items in memory.
struct Given {
    geometry: Geometry,
    items: std::vec::IntoIter<(Item, Vec<u8>)>,
}

impl Given {
    fn new(items: &Items) -> Self {
        Self { geometry: GEOMETRY, items: items.clone().into_iter() }
    }
}

impl Source for Given {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn next_item(&mut self, data: &mut Vec<u8>) -> Result<Option<Item>, LogError> {
        data.clear();
        Ok(self.items.next().map(|(item, bytes)| {
            data.extend_from_slice(&bytes);
            item
        }))
    }
}

fn all(source: &mut dyn Source) -> Result<Items, LogError> {
    let (mut items, mut data) = (Vec::new(), Vec::new());
    while let Some(item) = source.next_item(&mut data)? {
        items.push((item, data.clone()));
    }
    Ok(items)
}

/// Numbers the positions of marks.
fn placed(mut items: Items) -> Items {
    let mut entries = 0;
    for (item, _) in &mut items {
        match item {
            Item::Entry(_) => entries += 1,
            Item::Mark(mark) => mark.position = entries,
        }
    }
    items
}

/// Bytes of all kinds: zeros, blocks of ours whole and cut, foreign ones, and mixtures.
fn any_data(length: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(vec![0; length]),
        (any::<u64>(), any::<u32>(), 0..=length).prop_map(move |(file, version, kept)| {
            let mut data = vec![0; length];
            fsage_content::fill(&mut data[..kept], file, 8192, version);
            data
        }),
        any::<u8>().prop_map(move |byte| vec![byte; length]),
        (any::<u64>(), 0..length).prop_map(move |(file, at)| {
            let mut data = vec![0; length];
            fsage_content::fill(&mut data, file, 0, 7);
            data[at] ^= 1;
            data
        }),
    ]
}

/// Requests as a disk with sectors gets them, with data, and marks.
fn sectors() -> impl Strategy<Value = Items> {
    let request = (0..5_u8, 0..1_u64 << 20, 1..40_usize, any::<bool>());
    let times = (0..1_000_u64, 0..5_000_u64);
    let item = (request, times).prop_flat_map(|((operation, sector, sectors, flag), (wait, service))| {
        let (offset, bytes) = (sector * 512, sectors * 512);
        let operation = match operation {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Flush,
            3 => Operation::Discard,
            _ => Operation::Zero,
        };
        let request = match operation {
            Operation::Flush => Request::new(operation, 0, 0),
            _ => {
                let fua = flag && operation == Operation::Write;
                Request { fua, ..Request::new(operation, offset, as_u64(bytes)) }
            }
        };
        let data = if operation == Operation::Write { bytes } else { 0 };
        any_data(data.max(1)).prop_map(move |mut bytes| {
            bytes.truncate(data);
            let entry = Entry { issued_ns: wait, done_ns: service, ..Entry::new(request) };
            (Item::Entry(entry), bytes)
        })
    });
    let mark =
        "[a-z ]{0,12}[a-z]".prop_map(|name| (Item::Mark(Mark { position: 0, set_ns: 0, name }), vec![]));
    prop::collection::vec(prop_oneof![6 => item, 1 => mark], 1..40).prop_map(|mut items| {
        // Waits become times; a request is done before the next is issued.
        let mut now = 0;
        for (item, _) in &mut items {
            match item {
                Item::Entry(entry) => {
                    let issued_ns = now + entry.issued_ns;
                    let done_ns = issued_ns + entry.done_ns;
                    (*entry, now) = (Entry { issued_ns, done_ns, arrived_ns: issued_ns, ..*entry }, done_ns);
                }
                Item::Mark(mark) => mark.set_ns = now,
            }
        }
        placed(items)
    })
}

fn saved(items: &Items) -> Vec<u8> {
    let mut bytes = Vec::new();
    let writer = file::Writer::new(&mut bytes, GEOMETRY, 9).unwrap();
    copy(&mut Given::new(items), writer).unwrap();
    bytes
}

fn loaded(bytes: &[u8]) -> Result<Items, LogError> {
    all(&mut file::Reader::new(bytes)?)
}

fn to_dm(items: &Items) -> (Vec<u8>, Converted) {
    let mut bytes = Cursor::new(Vec::new());
    let writer = dm_log_writes::Writer::new(&mut bytes, GEOMETRY).unwrap();
    let converted = copy(&mut Given::new(items), writer).unwrap();
    (bytes.into_inner(), converted)
}

fn from_dm(bytes: &[u8]) -> Result<Items, LogError> {
    all(&mut dm_log_writes::Reader::new(Cursor::new(bytes))?)
}

fn to_text(items: &Items, clock: Clock) -> (String, Converted) {
    let mut bytes = Vec::new();
    let converted = copy(&mut Given::new(items), blkparse::Writer::new(&mut bytes, clock)).unwrap();
    (String::from_utf8(bytes).unwrap(), converted)
}

fn from_text(text: &str) -> Result<Log, LogError> {
    blkparse::read(text.as_bytes(), Issue::Device, None)
}

proptest! {
    #[test]
    fn any_entries_come_back_from_a_file(entries in prop::collection::vec(any_entry(), 0..100)) {
        // Handles into a store mean nothing in a file.
        let items: Items = entries
            .into_iter()
            .map(|entry| (Item::Entry(Entry { payload: Payload::NONE, ..entry }), vec![]))
            .collect();
        prop_assert_eq!(loaded(&saved(&items)).unwrap(), items);
    }

    #[test]
    fn data_and_marks_come_back_from_a_file(items in sectors()) {
        prop_assert_eq!(loaded(&saved(&items)).unwrap(), items);
    }

    #[test]
    fn no_changed_byte_of_a_file_goes_unseen(items in sectors(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = saved(&items);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(loaded(&bytes).is_err());
    }

    #[test]
    fn no_cut_of_a_file_goes_unseen(items in sectors(), at in any::<prop::sample::Index>()) {
        let bytes = saved(&items);
        let error = loaded(&bytes[..at.index(bytes.len())]).unwrap_err();
        prop_assert!(matches!(error, LogError::Truncated { .. }), "{error}");
    }

    #[test]
    fn dm_log_writes_keeps_all_that_it_can_say(items in sectors()) {
        let (bytes, converted) = to_dm(&items);
        let found = from_dm(&bytes).unwrap();
        let reads = items.iter().filter(|(item, _)| is(item, Operation::Read)).count();
        let zeroes = items.iter().filter(|(item, _)| is(item, Operation::Zero)).count();
        prop_assert_eq!(converted.reads_left_out, as_u64(reads));
        prop_assert_eq!(converted.zeroes_as_writes, as_u64(zeroes));
        let expected = items.into_iter().filter(|(item, _)| !is(item, Operation::Read)).map(|(item, data)| {
            match item {
                Item::Entry(Entry { request, .. }) if request.operation == Operation::Zero => {
                    let data = vec![0; usize::try_from(request.length_bytes).unwrap()];
                    (Item::Entry(Entry::new(Request { operation: Operation::Write, ..request })), data)
                }
                Item::Entry(Entry { request, .. }) => (Item::Entry(Entry::new(request)), data),
                Item::Mark(mark) => (Item::Mark(Mark { set_ns: 0, ..mark }), data),
            }
        });
        prop_assert_eq!(found, placed(expected.collect()));
        // The same again: nothing more is lost.
        prop_assert_eq!(to_dm(&from_dm(&bytes).unwrap()).0, bytes);
    }

    #[test]
    fn no_cut_of_dm_log_writes_goes_unseen(items in sectors(), at in any::<prop::sample::Index>()) {
        let (bytes, _) = to_dm(&items);
        let error = from_dm(&bytes[..at.index(bytes.len())]).unwrap_err();
        prop_assert!(matches!(error, LogError::Truncated { .. }), "{error}");
    }

    #[test]
    fn blkparse_keeps_all_that_it_can_say(items in sectors()) {
        prop_assume!(items.iter().any(|(item, _)| matches!(item, Item::Entry(_))));
        let (text, converted) = to_text(&items, Clock::Model);
        let log = from_text(&text).unwrap();
        prop_assert_eq!(converted.entries, log.len());
        let entries = items.iter().filter_map(|(item, _)| match item {
            Item::Entry(entry) if entry.request.operation == Operation::Zero => {
                Some(Entry { request: Request { operation: Operation::Write, ..entry.request }, ..*entry })
            }
            Item::Entry(entry) => Some(*entry),
            Item::Mark(_) => None,
        });
        prop_assert_eq!(log.entries(0).collect::<Vec<_>>(), entries.collect::<Vec<_>>());
        let marks = items.iter().filter_map(|(item, _)| match item {
            Item::Mark(mark) => Some((mark.position, mark.name.clone())),
            Item::Entry(_) => None,
        });
        let found: Vec<_> = log.marks().iter().map(|mark| (mark.position, mark.name.clone())).collect();
        prop_assert_eq!(found, marks.collect::<Vec<_>>());
    }

    #[test]
    fn no_cut_line_of_blkparse_goes_unseen(items in sectors(), at in any::<prop::sample::Index>()) {
        let (text, _) = to_text(&items, Clock::Model);
        let cut = &text[..at.index(text.len())];
        prop_assume!(!cut.is_empty() && !cut.ends_with('\n'));
        let lines = as_u64(cut.lines().count());
        match from_text(cut).unwrap_err() {
            LogError::Truncated { place } => prop_assert_eq!(place, LogPosition::Line(lines)),
            error => prop_assert!(false, "{error}"),
        }
    }
}

fn is(item: &Item, operation: Operation) -> bool {
    matches!(item, Item::Entry(entry) if entry.request.operation == operation)
}

fn write(offset: u64, data: &[u8]) -> (Item, Vec<u8>) {
    let request = Request::new(Operation::Write, offset, as_u64(data.len()));
    (Item::Entry(Entry::new(request)), data.to_vec())
}

#[test]
fn aged_data_make_no_large_file() {
    let mut items = Items::new();
    for n in 0..3000 {
        let mut data = vec![0; 16_384];
        fsage_content::fill(&mut data, n % 50, n * 16_384, 1);
        items.push(write(n * 3 % 1000 * 16_384, &data));
    }
    let bytes = saved(&items);
    assert_eq!(loaded(&bytes).unwrap(), items);
    // 48 MiB in 12,000 blocks.
    assert!(bytes.len() < 100_000, "{}", bytes.len());
}

#[test]
fn a_reader_steps_over_chunks() {
    let mut log = Log::new(GEOMETRY);
    for n in 0..40_000_u64 {
        log.push(&Entry { issued_ns: n, ..Entry::new(Request::new(Operation::Read, n * 4096, 4096)) });
    }
    let mut bytes = Vec::new();
    let writer = file::Writer::new(&mut bytes, GEOMETRY, 1).unwrap();
    copy(&mut LogSource::new(&log, NoContents), writer).unwrap();
    for wanted in [0, 1, 8191, 8192, 20_000, 39_999, 40_000, 50_000] {
        let mut reader = file::Reader::new(Cursor::new(&bytes)).unwrap();
        reader.skip_to(wanted).unwrap();
        let first = reader.next_entry();
        assert!(first <= wanted && wanted.min(39_999) - first < 8192, "{wanted}: {first}");
        let rest = collect(&mut reader).unwrap();
        assert!(rest.entries(0).eq(log.entries(first)), "{wanted}");
    }
    let all = collect(&mut file::Reader::new(&bytes[..]).unwrap()).unwrap();
    assert!(all.entries(0).eq(log.entries(0)) && all.geometry() == GEOMETRY);
    // 56 bytes in memory, a few in the file.
    assert!(bytes.len() < 40_000 * 4, "{}", bytes.len());
}

#[test]
fn what_is_no_log_is_told_from_what_is_damaged() {
    let (dm, text) =
        (to_dm(&vec![write(0, &[7; 512])]).0, "  8,0    1        1     0.000000000   0  D   W 0 + 8 [x]\n");
    for bytes in [&dm, text.as_bytes(), &[0; 4096]] {
        assert!(matches!(loaded(bytes), Err(LogError::Foreign { .. } | LogError::Truncated { .. })));
    }
    let own = saved(&vec![write(0, &[7; 512])]);
    assert!(matches!(from_dm(&own), Err(LogError::Foreign { .. })));
    let mut newer = own;
    newer[8] = 2;
    assert!(matches!(loaded(&newer), Err(LogError::Version { version: 2, .. })));
    let error = LogError::malformed(LogPosition::Line(3), "it has no device");
    assert_eq!(error.to_string(), "it is damaged: line 3: it has no device");
}

#[test]
fn an_entry_of_dm_log_writes_says_what_is_wrong_with_it() {
    let items = vec![write(0, &[1; 1024]), write(4096, &[2; 512]), write(8192, &[3; 512])];
    let (good, _) = to_dm(&items);
    // Super, entry and two sectors: the second entry.
    let second = 512 + 512 + 1024;
    let broken = |at: usize, word: u64| {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        from_dm(&bytes).unwrap_err().to_string()
    };
    assert_eq!(broken(second + 16, 1 << 5), "it is damaged: entry 1: it has flags that are not known");
    assert_eq!(broken(second, u64::MAX), "it is damaged: entry 1: it lies beyond any disk");
    assert_eq!(broken(second + 8, 0), "it is damaged: entry 1: it does nothing");
    assert_eq!(broken(second + 8, 1 << 30), "it is truncated: entry 1 is incomplete");
    assert_eq!(broken(16, 9), "it is truncated: entry 4 is incomplete");
    assert_eq!(broken(24, 1000), "it is damaged: header: there are no sectors of 1000 bytes");
    assert!(matches!(from_dm(&good[..100]), Err(LogError::Truncated { .. })));
}

#[test]
fn a_flush_with_data_is_a_flush_and_a_write() {
    let (mut bytes, _) = to_dm(&vec![write(512, &[5; 512])]);
    bytes[512 + 16] = 1 | 2 | 16;
    let mut reader = dm_log_writes::Reader::new(Cursor::new(&bytes)).unwrap();
    assert_eq!(reader.geometry(), Geometry { size_bytes: 1024, block_bytes: 512 });
    let forced = Request { fua: true, ..Request::new(Operation::Write, 512, 512) };
    let expected = vec![
        (Item::Entry(Entry::new(Request::new(Operation::Flush, 0, 0))), vec![]),
        (Item::Entry(Entry::new(forced)), vec![5; 512]),
    ];
    assert_eq!(all(&mut reader).unwrap(), expected);
}

#[test]
fn what_dm_log_writes_cannot_say_is_left_out_and_counted_or_refused() {
    let entry = |operation, length, change: &dyn Fn(&mut Entry)| {
        let mut entry = Entry::new(Request::new(operation, 0, length));
        change(&mut entry);
        (Item::Entry(entry), vec![])
    };
    let (bytes, converted) = to_dm(&vec![
        entry(Operation::Flush, 0, &|entry| entry.flush_ignored = true),
        entry(Operation::Write, 512, &|entry| entry.result = Err(IoError::Medium)),
        entry(Operation::Read, 512, &|_| {}),
        entry(Operation::Zero, 3 << 20, &|_| {}),
    ]);
    assert_eq!(
        converted,
        Converted {
            entries: 1,
            reads_left_out: 1,
            failed_left_out: 1,
            ignored_flushes_left_out: 1,
            zeroes_as_writes: 1,
            ..Converted::default()
        }
    );
    let pieces = from_dm(&bytes).unwrap();
    assert_eq!(pieces.len(), 3);
    assert!(pieces.iter().all(|(_, data)| data.len() == 1 << 20 && data.iter().all(|byte| *byte == 0)));
    let refused = |item: (Item, Vec<u8>)| {
        let mut writer = dm_log_writes::Writer::new(Cursor::new(Vec::new()), GEOMETRY).unwrap();
        writer.put(&item.0, &item.1).unwrap_err().to_string()
    };
    let name = "entry 0 cannot be put into a log of dm-log-writes:";
    let missing = entry(Operation::Write, 512, &|_| {});
    assert_eq!(refused(missing), format!("{name} its data were not kept"));
    let odd = write(100, &[1; 512]);
    assert_eq!(refused(odd), format!("{name} bytes 100 to 612 are not whole sectors"));
    let odd = Geometry { block_bytes: 1000, ..GEOMETRY };
    assert!(dm_log_writes::Writer::new(Cursor::new(Vec::new()), odd).is_err());
}

/// As a real one looks: a scheduler's events, merges, messages, a command that is passed through, and a
/// summary.
const BLKPARSE: &str = "\
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  P   R [kjournald]
  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]
  8,0    3        4     0.000005533   697  M   W 223498 + 8 [kjournald]
  8,0    3        0     0.000006000     0  m   N cfq697 slice expired t=0
  8,0    3        5     0.000008607   697  D   W 223490 + 16 [kjournald]
  8,0    3        6     0.000010000     0 UT   N [swapper] 1
  8,0    1        1     0.000020024   697  C   W 223490 + 16 [0]
  8,0    1        2     0.000030000   697  D  FN [kworker/0:1H]
  8,0    1        3     0.000040000   697  D   N 36 (12 01 00 00 24 00 ..) [udevd]
  8,0    1        4     0.000041000   697  C   N (12 01 00 00 24 00 ..) [0]
  8,0    1        5     0.000050000     0  C  FN 0 [0]
  8,0    1        6     0.000060000   697  D FWFS 8 + 8 [jbd2/sda1-8]
  8,0    1        7     0.000061000   697  D  RA 1000 + 256 [dd]
  8,0    1        8     0.000062000     0  R  RA 1000 + 256 [0]
  8,0    1        9     0.000063000   697  D  RA 1000 + 256 [dd]
  8,0    1       10     0.000064000     0  C FWFS 8 + 8 [0]
  8,0    1       11     0.000070000     0  C  RA 1000 + 256 (    9000) [-5]
  8,0    1       12     0.000080000   697  A   D 0 + 8192 <- (8,1) 0
  8,0    1       13     0.000090000   697  D  DS 0 + 8192 [(null)]
  8,0    1        0     0.000091000     0  m   N mark after trim
CPU1 (sda):
 Reads Queued:           1,      128KiB\t Writes Queued:           2,       12KiB
";

#[test]
fn a_real_trace_is_read() {
    let log = from_text(BLKPARSE).unwrap();
    let entry = |operation, sector: u64, sectors: u64, issued, done| Entry {
        issued_ns: issued,
        done_ns: done,
        arrived_ns: issued,
        ..Entry::new(Request::new(operation, sector * 512, sectors * 512))
    };
    let forced = entry(Operation::Write, 8, 8, 60_000, 64_000);
    let expected = [
        entry(Operation::Write, 223_490, 16, 8607, 20_024),
        entry(Operation::Flush, 0, 0, 30_000, 50_000),
        entry(Operation::Flush, 0, 0, 60_000, 60_000),
        Entry { request: Request { fua: true, ..forced.request }, ..forced },
        Entry { result: Err(IoError::Medium), ..entry(Operation::Read, 1000, 256, 61_000, 70_000) },
        entry(Operation::Discard, 0, 8192, 90_000, 90_000),
    ];
    assert_eq!(log.entries(0).collect::<Vec<_>>(), expected);
    assert_eq!(log.marks(), [Mark { position: 6, set_ns: 91_000, name: "after trim".to_owned() }]);
    assert_eq!(log.geometry(), Geometry { size_bytes: (223_490 + 16) * 512, block_bytes: 512 });
    let queued = blkparse::read(BLKPARSE.as_bytes(), Issue::Queue, None).unwrap();
    assert_eq!(queued.entries(0).map(|entry| entry.issued_ns).collect::<Vec<_>>(), [2197]);
}

#[test]
fn a_line_of_blkparse_says_what_is_wrong_with_it() {
    let good = "  8,0    3        5     0.000008607   697  D   W 223490 + 16 [kjournald]\n";
    let refused = |line: &str| from_text(&format!("{good}\n{line}\n{good}")).unwrap_err().to_string();
    for (from, to, what) in [
        ("8,0", "8:0", "\"8:0\" is not a device"),
        ("   3 ", " x ", "\"x\" is not a processor"),
        ("0.000008607", "0.8607", "\"0.8607\" is not a time"),
        ("0.000008607", "-1.000008607", "\"-1\" is not a time"),
        ("  W ", "  X ", "\"X\" is not an operation"),
        ("  W ", " WX ", "\"WX\" is not an operation"),
        ("223490", "x", "\"x\" is not a sector"),
        ("223490", "18446744073709551616", "\"18446744073709551616\" is not a sector"),
        ("223490", "9223372036854775808", "it lies beyond any disk"),
        (" + 16", "", "it has no sectors"),
        (" [kjournald]", "", "it does not end with [...]"),
        ("8,0 ", "8,1 ", "it is of another device: say which one is meant"),
        ("  D   W 223490 + 16 [kjournald]", "", "it has no action"),
    ] {
        let line = good.trim_end().replace(from, to);
        assert_ne!(line, good.trim_end(), "{from}");
        assert_eq!(refused(&line), format!("it is damaged: line 3: {what}"));
    }
    let both = format!("{good}{}", good.replace("8,0 ", "8,16"));
    let log = blkparse::read(both.as_bytes(), Issue::Device, Some((8, 16))).unwrap();
    assert_eq!(log.len(), 1);
    assert!(matches!(from_text(""), Err(LogError::Foreign { .. })));
    assert!(matches!(from_text(&good.replace(" D ", " Q ")), Err(LogError::Foreign { .. })));
    let long = format!("{good}{}\n", "x".repeat(10_000));
    assert_eq!(
        from_text(&long).unwrap_err().to_string(),
        "it is damaged: line 2: it is longer than any that blkparse writes"
    );
}

#[test]
fn text_looks_as_blkparse_writes_it() {
    let forced = Entry {
        issued_ns: 1_000_000_500,
        done_ns: 1_000_009_000,
        result: Err(IoError::Space),
        ..Entry::new(Request { fua: true, ..Request::new(Operation::Write, 4096, 512) })
    };
    let flush = Entry {
        issued_ns: 1_000_000_600,
        done_ns: 1_000_000_700,
        ..Entry::new(Request::new(Operation::Flush, 0, 0))
    };
    let mark = Mark { position: 2, set_ns: 5, name: "here".to_owned() };
    let items = vec![(Item::Entry(forced), vec![]), (Item::Entry(flush), vec![]), (Item::Mark(mark), vec![])];
    let expected = "\
259,0    0        1     1.000000500     0  D  WF 8 + 1 [fsage]
259,0    0        2     1.000000600     0  D  FN [fsage]
259,0    0        0     1.000000600     0  m   N mark here
259,0    0        3     1.000000700     0  C  FN 0 [0]
259,0    0        4     1.000009000     0  C  WF 8 + 1 [-28]
";
    assert_eq!(to_text(&items, Clock::Model).0, expected);
    let real = to_text(&items, Clock::Real).0;
    assert_eq!(real.lines().count(), 3);
    assert!(real.lines().all(|line| !line.contains(" C ")));
}
