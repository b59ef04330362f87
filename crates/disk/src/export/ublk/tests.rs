//! The words of the driver, and the loop on a queue that is written down.

use fsage_model::disk::DiskTime;
use fsage_sys::ublk::{Descriptor, operation};
use rustix::io::Errno;

use super::{
    Device, MAX_TRANSFER_BYTES, Queue, Slot, UblkError, decode, parameters, remove_left, result, serve,
};
use crate::export::{Backend, Gate, Heartbeat};
use crate::request::{Data, IoError, Operation, Request, Transfer};

/// `UBLK_IO_F_FUA`, `UBLK_IO_F_NOUNMAP` and a flag that means nothing to us, `UBLK_IO_F_META`
/// (`linux/ublk_cmd.h`, Linux 6.1).
const FUA: u32 = 0x2000;
const NO_UNMAP: u32 = 0x8000;
const META: u32 = 0x800;

const BLOCK: usize = 4096;
const SIZE: u64 = 1 << 20;

const fn descriptor(op_flags: u32, start_sector: u64, sectors: u32) -> Descriptor {
    Descriptor { op_flags, sectors, start_sector, address: 0 }
}

#[test]
fn operations_are_those_of_the_header() {
    let header = [
        (0, operation::READ),
        (1, operation::WRITE),
        (2, operation::FLUSH),
        (3, operation::DISCARD),
        (4, operation::WRITE_SAME),
        (5, operation::WRITE_ZEROES),
    ];
    for (number, name) in header {
        assert_eq!(number, name);
    }
}

#[test]
fn descriptors_become_requests() {
    let request = |operation, fua| Ok(Request { fua, ..Request::new(operation, 8192, 4096) });
    for (op_flags, wanted) in [
        (0, request(Operation::Read, false)),
        (META, request(Operation::Read, false)),
        (1, request(Operation::Write, false)),
        (1 | FUA | META, request(Operation::Write, true)),
        (3, request(Operation::Discard, false)),
        (3 | FUA, request(Operation::Discard, false)),
        (5, request(Operation::Discard, false)),
        (5 | NO_UNMAP, request(Operation::Zero, false)),
        // Write the same, zones (10 to 18), and what nobody has thought of.
        (4, Err(Errno::OPNOTSUPP)),
        (10, Err(Errno::OPNOTSUPP)),
        (255, Err(Errno::OPNOTSUPP)),
    ] {
        assert_eq!(decode(&descriptor(op_flags, 16, 8)), wanted, "{op_flags:#x}");
    }
    // A flush has no range: the kernel leaves -1 in its start.
    let flush = Ok(Request::new(Operation::Flush, 0, 0));
    assert_eq!(decode(&descriptor(2, u64::MAX, 0)), flush);
}

#[test]
fn nothing_to_do_and_impossible_places_are_refused() {
    for op_flags in [0, 1, 3, 5] {
        assert_eq!(decode(&descriptor(op_flags, 16, 0)), Err(Errno::INVAL));
        assert_eq!(decode(&descriptor(op_flags, 1 << 55, 8)), Err(Errno::INVAL));
        // The largest there can be does not overflow either.
        let last = decode(&descriptor(op_flags, (1 << 55) - 1, u32::MAX)).unwrap();
        assert_eq!((last.offset_bytes, last.length_bytes), (u64::MAX - 511, u64::from(u32::MAX) * 512));
    }
}

#[test]
fn results_are_bytes_or_negative_numbers() {
    let asked = |operation| Request::new(operation, 0, 8192);
    assert_eq!(result(&asked(Operation::Read), Ok(())), 8192);
    assert_eq!(result(&asked(Operation::Write), Ok(())), 8192);
    for operation in [Operation::Flush, Operation::Discard, Operation::Zero] {
        assert_eq!(result(&asked(operation), Ok(())), 0);
    }
    for (error, wanted) in [(IoError::Medium, -5), (IoError::Space, -28), (IoError::Range, -22)] {
        assert_eq!(result(&asked(Operation::Read), Err(error)), wanted);
    }
}

#[test]
fn a_disk_is_described_by_its_size_block_and_medium() {
    // `UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA`, and `UBLK_ATTR_ROTATIONAL`.
    for (rotational, attributes) in [(false, 0b1100), (true, 0b1110)] {
        let reported = parameters(1 << 40, 4096, rotational);
        assert_eq!(reported.attributes, attributes);
        assert_eq!(
            (reported.logical_block_shift, reported.physical_block_shift, reported.sectors),
            (12, 12, 1 << 31)
        );
        assert_eq!((reported.max_sectors, reported.discard_granularity_bytes), (2048, 4096));
        assert_eq!((reported.max_discard_sectors, reported.max_write_zeroes_sectors), (1 << 21, 1 << 21));
    }
    assert_eq!(parameters(512, 512, false).logical_block_shift, 9);
    assert_eq!(parameters(512, 512, false).sectors, 1);
}

/// A disk that keeps its bytes in a row, and cannot read its last block.
struct Row {
    bytes: Vec<u8>,
    seen: Vec<Request>,
}

impl Backend for Row {
    fn size_bytes(&self) -> u64 {
        SIZE
    }

    fn block_bytes(&self) -> u32 {
        4096
    }

    fn submit(&mut self, transfers: &mut [Transfer<'_>]) {
        for transfer in transfers {
            self.seen.push(transfer.request);
            let start = usize::try_from(transfer.request.offset_bytes).unwrap();
            let end = usize::try_from(transfer.request.end_bytes()).unwrap();
            let held = &mut self.bytes[start..end];
            match &mut transfer.data {
                Data::In(_) if transfer.request.end_bytes() == SIZE => {
                    transfer.result = Err(IoError::Medium);
                }
                Data::In(data) => data.copy_from_slice(held),
                Data::Out(data) => held.copy_from_slice(data),
                Data::None => held.fill(0),
            }
        }
    }
}

/// A slot of a queue in memory.
struct Room {
    number: usize,
    descriptor: Descriptor,
    data: Vec<u8>,
}

impl Slot for Room {
    fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    fn data(&self) -> &[u8] {
        &self.data
    }

    fn data_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }
}

/// A queue whose requests are written down beforehand: each step is what waits at one look.
struct Script {
    steps: std::vec::IntoIter<Vec<Descriptor>>,
    asked: usize,
    answers: Vec<Option<(i32, Vec<u8>)>>,
}

impl Queue for Script {
    type Slot = Room;

    fn receive(&mut self, arrived: &mut Vec<Room>, _: Option<u64>) -> fsage_sys::Result<bool> {
        let Some(step) = self.steps.next() else { return Ok(false) };
        for descriptor in step {
            let data = vec![u8::try_from(self.asked).unwrap() + 1; BLOCK * 2];
            arrived.push(Room { number: self.asked, descriptor, data });
            self.asked += 1;
            self.answers.push(None);
        }
        Ok(true)
    }

    fn answer(&mut self, slot: Room, result: i32) -> fsage_sys::Result<()> {
        let before = self.answers[slot.number].replace((result, slot.data));
        assert!(before.is_none(), "answered twice: {}", slot.number);
        Ok(())
    }

    fn slots(&self) -> usize {
        128
    }
}

/// What the answers are, and what reached the disk.
fn served(steps: Vec<Vec<Descriptor>>, time: DiskTime) -> (Vec<(i32, Vec<u8>)>, Vec<Request>) {
    let gate = Gate::new(Row { bytes: vec![0; 1 << 20], seen: Vec::new() }, time);
    let mut script = Script { steps: steps.into_iter(), asked: 0, answers: Vec::new() };
    serve(&gate, &mut script, &Heartbeat::default()).unwrap();
    let answers = script.answers.into_iter().map(|answer| answer.expect("an answer to each")).collect();
    (answers, gate.with(|row| std::mem::take(&mut row.seen)))
}

#[test]
fn what_is_written_is_read_and_what_is_discarded_is_zeros() {
    for time in [DiskTime::Model, DiskTime::Real] {
        let steps = vec![
            vec![descriptor(1, 8, 16), descriptor(1 | FUA, 24, 8)],
            vec![descriptor(2, u64::MAX, 0)],
            vec![descriptor(0, 8, 8), descriptor(0, 24, 8)],
            vec![descriptor(3, 8, 8), descriptor(5 | NO_UNMAP, 16, 8)],
            vec![descriptor(0, 8, 16)],
        ];
        let (answers, seen) = served(steps, time);
        let results: Vec<i32> = answers.iter().map(|(result, _)| *result).collect();
        assert_eq!(results, [8192, 4096, 0, 4096, 4096, 0, 0, 8192]);
        assert_eq!(answers[3].1[..BLOCK], [1; BLOCK]);
        assert_eq!(answers[4].1[..BLOCK], [2; BLOCK]);
        assert_eq!(answers[7].1, [0; 2 * BLOCK]);
        let forced: Vec<bool> = seen.iter().map(|request| request.fua).collect();
        assert_eq!(forced, [false, true, false, false, false, false, false, false]);
        let kinds: Vec<Operation> = seen[5..7].iter().map(|request| request.operation).collect();
        assert_eq!(kinds, [Operation::Discard, Operation::Zero]);
    }
}

#[test]
fn what_cannot_be_done_fails_alone_and_with_its_number() {
    let end = SIZE / 512;
    let longer_than_a_slot = MAX_TRANSFER_BYTES / 512 / 2;
    let steps = vec![vec![
        descriptor(1, 0, 8),
        descriptor(0, end, 8),
        descriptor(1, end - 8, 16),
        descriptor(3, end - 8, u32::MAX),
        descriptor(0, 1, 8),
        descriptor(1, 0, 0),
        descriptor(4, 0, 8),
        descriptor(0, 0, longer_than_a_slot),
        descriptor(0, end - 8, 8),
        descriptor(0, 0, 8),
    ]];
    let (answers, seen) = served(steps, DiskTime::Model);
    let results: Vec<i32> = answers.iter().map(|(result, _)| *result).collect();
    // EINVAL 22, EOPNOTSUPP 95, EIO 5.
    assert_eq!(results, [4096, -22, -22, -22, -22, -22, -95, -22, -5, 4096]);
    assert_eq!(answers[9].1[..BLOCK], [1; BLOCK]);
    assert_eq!(seen.len(), 3);
}

#[test]
fn without_the_driver_the_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("ublk");
    let gate = Gate::new(Row { bytes: Vec::new(), seen: Vec::new() }, DiskTime::Model);
    // Where there is a driver this test makes no device.
    let error = if Device::available() {
        UblkError::Missing { path: "/dev/ublk-control".into() }
    } else {
        Device::new(&gate, false, &record).unwrap_err()
    };
    assert_eq!(error.to_string(), "this kernel has no ublk: there is no /dev/ublk-control");
    let hint = error.hint().unwrap();
    for needed in ["modprobe ublk_drv", "6.0", "CONFIG_BLK_DEV_UBLK", "fuse"] {
        assert!(hint.contains(needed), "{hint}");
    }
    assert!(!record.exists());
}

#[test]
fn notes_of_devices_that_are_gone_go() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("ublk");
    remove_left(&record).unwrap();
    // Of a process that died while it wrote it, and of a device that there is not.
    for text in ["{\"dev", r#"{"device":4294967294,"mark":1}"#] {
        std::fs::write(&record, text).unwrap();
        remove_left(&record).unwrap();
        assert!(!record.exists());
    }
}
