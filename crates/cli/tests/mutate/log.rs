//! Request logs: an accepted one is summed up, converted, and replayed on a device model.

use std::path::PathBuf;

use fsage_disk::log::Filter;
use fsage_disk::log::convert::{self, Options};
use fsage_disk::log::file::Writer;
use fsage_disk::log::heat::Axis;
use fsage_disk::log::show::Line;
use fsage_disk::log::stream::{Item, Sink as _, Source as _};
use fsage_disk::log::{Entry, Geometry, Mark};
use fsage_disk::media::Model as _;
use fsage_disk::media::Resolve as _;
use fsage_disk::request::{Operation, Request};
use fsage_model::medium::MediumSpec;

use super::test_directory::TestDirectory;
use super::{Format, bytes};
use crate::dice::Dice;

const GEOMETRY: Geometry = Geometry { size_bytes: 64 << 20, block_bytes: 4096 };

pub struct Logs {
    items: Vec<(Item, Vec<u8>)>,
    /// The same in each format.
    wholes: Vec<Vec<u8>>,
    path: PathBuf,
    outside: String,
}

impl Logs {
    pub fn new(test_directory: &TestDirectory) -> Self {
        let path = test_directory.path("inside/requests");
        let operations =
            [Operation::Write, Operation::Read, Operation::Flush, Operation::Discard, Operation::Zero];
        let mut items = Vec::new();
        for n in 0..60_u64 {
            let operation = operations[usize::try_from(n % 5).unwrap()];
            let length = if operation == Operation::Flush { 0 } else { 4096 << (n % 3) };
            let at = if operation == Operation::Flush { 0 } else { (n * 7919 % 4000) * 4096 };
            let mut entry = Entry::new(Request::new(operation, at, length));
            (entry.issued_ns, entry.done_ns, entry.arrived_ns) = (n * 1000, n * 1000 + 700, n * 1000 + 10);
            let data = if operation == Operation::Write {
                vec![7; usize::try_from(length).unwrap()]
            } else {
                Vec::new()
            };
            items.push((Item::Entry(entry), data));
            if n % 20 == 9 {
                items.push((
                    Item::Mark(Mark { name: format!("mark {n}"), position: n, set_ns: n * 1000 }),
                    Vec::new(),
                ));
            }
        }
        let ours = write(&items, GEOMETRY, 9).unwrap();
        std::fs::write(&path, &ours).unwrap();
        let mut wholes = vec![ours];
        for format in [convert::Format::DmLogWrites, convert::Format::Blkparse] {
            let mut opened = convert::open(&path, &Options::default()).unwrap();
            let other = test_directory.path("inside/converted");
            convert::save(&mut opened, &Filter::default(), &other, format, &Options::default()).unwrap();
            wholes.push(std::fs::read(other).unwrap());
        }
        Self { items, wholes, path, outside: test_directory.sentinels() }
    }
}

fn write(items: &[(Item, Vec<u8>)], geometry: Geometry, salt: u128) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, geometry, salt).ok()?;
    for (item, data) in items {
        writer.put(item, data).ok()?;
    }
    writer.finish().ok()?;
    Some(out)
}

fn change(dice: &mut Dice, item: &mut (Item, Vec<u8>), outside: &str) {
    let number = bytes::word(dice);
    match &mut item.0 {
        Item::Mark(mark) if dice.one_in(2) => mark.name = bytes::name(dice, outside),
        Item::Mark(mark) => (mark.position, mark.set_ns) = (number, number),
        Item::Entry(entry) => match dice.below(6) {
            0 => entry.request.offset_bytes = number,
            1 => entry.request.length_bytes = number,
            2 => entry.issued_ns = number,
            3 => entry.done_ns = number,
            4 => entry.request.operation = *dice.of(&[Operation::Write, Operation::Flush, Operation::Zero]),
            _ => item.1.truncate(dice.index(item.1.len())),
        },
    }
}

impl Format for Logs {
    fn mutant(&mut self, dice: &mut Dice) -> Vec<u8> {
        match dice.below(4) {
            // Text of blkparse.
            0 => bytes::text(dice, &String::from_utf8_lossy(&self.wholes[2]), &self.outside),
            1 => {
                let mut mutant = self.wholes[dice.index(2)].clone();
                let times = 1 + dice.below(4);
                bytes::bytes(dice, &mut mutant, times);
                mutant
            }
            _ => {
                let (mut items, mut geometry) = (self.items.clone(), GEOMETRY);
                for _ in 0..=dice.below(3) {
                    let (at, other) = (dice.index(items.len()), dice.index(items.len()));
                    match dice.below(5) {
                        0 => drop(items.remove(at)),
                        1 => items.swap(at, other),
                        _ => change(dice, &mut items[at], &self.outside),
                    }
                }
                if dice.one_in(4) {
                    geometry.size_bytes = bytes::word(dice);
                }
                if dice.one_in(8) {
                    geometry.block_bytes = u32::try_from(bytes::word(dice) & 0xffff_ffff).unwrap();
                }
                // The writer may refuse what no reader would ever see from it.
                write(&items, geometry, u128::from(dice.next())).unwrap_or_else(|| self.wholes[0].clone())
            }
        }
    }

    fn read(&mut self, bytes: &[u8], test_directory: &TestDirectory) -> Result<bool, String> {
        std::fs::write(&self.path, bytes).unwrap();
        let open = || convert::open(&self.path, &Options::default());
        let Ok(mut opened) = open() else { return Ok(false) };
        let size = convert::HeatSize { rows: 8, columns: 8, axis: Axis::Model };
        let whole = convert::summarise(&mut opened, 0, &Filter::default(), size).is_ok();
        let work = test_directory.work();
        for format in [convert::Format::Fsage, convert::Format::DmLogWrites, convert::Format::Blkparse] {
            let Ok(mut opened) = open() else { continue };
            let _ = convert::save(
                &mut opened,
                &Filter::default(),
                &work.join("converted"),
                format,
                &Options::default(),
            );
        }
        if let Ok(mut opened) = open() {
            replay(&mut opened);
        }
        Ok(whole)
    }
}

/// On a model, as `fsage disk replay --model` does.
fn replay(opened: &mut convert::Opened) {
    let size_bytes = opened.geometry().size_bytes;
    let medium = "ssd".parse::<MediumSpec>().ok().and_then(|spec| spec.resolve(size_bytes).ok());
    let (mut data, mut now_ns) = (Vec::new(), 0);
    let Some(mut medium) = medium else { return };
    while let Ok(Some(item)) = opened.next_item(&mut data) {
        let _ = Line { number: 0, item: &item }.to_string();
        let Item::Entry(entry) = item else { continue };
        let within = entry.request.within(size_bytes);
        if within.length_bytes == 0 && entry.request.length_bytes > 0 {
            continue;
        }
        let mut done_ns = [0];
        medium.serve(now_ns, &[within], &mut done_ns);
        now_ns = done_ns[0];
    }
}
