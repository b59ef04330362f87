//! Names of points: `randrw70-4k-libaio-d32-j1-f16`, with `-buffered` behind it where the page cache is not bypassed, and
//! `-m64m` where memory is limited to 64 MiB. They
//! have no dots, so that they are parts of metrics' names and names of files.

use std::fmt;

use super::{FioEngine, FioPattern, FioPoint};
use crate::size::Bytes;

const BUFFERED: &str = "buffered";

impl fmt::Display for FioPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (engine, depth) = (self.ioengine.name(), self.iodepth);
        write!(f, "{}-{}-{engine}-d{depth}-j{}-f{}", self.load(), size(self.bs), self.numjobs, self.files)?;
        if !self.direct {
            write!(f, "-{BUFFERED}")?;
        }
        self.memory.map_or(Ok(()), |limit| write!(f, "-m{}", size(limit)))
    }
}

impl FioPoint {
    /// The point with this name; nothing where it is none's.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let (rw, rwmixread) = load(parts.next()?)?;
        let bs = bytes(parts.next()?)?;
        let engine = parts.next()?;
        let ioengine = FioEngine::ALL.iter().copied().find(|known| known.name() == engine)?;
        let mut number = |letter: char| parts.next()?.strip_prefix(letter)?.parse().ok();
        let (iodepth, numjobs, files) = (number('d')?, number('j')?, number('f')?);
        let mut next = parts.next();
        let direct = next != Some(BUFFERED);
        if !direct {
            next = parts.next();
        }
        let memory = next.map(|limit| bytes(limit.strip_prefix('m')?));
        if memory == Some(None) || parts.next().is_some() {
            return None;
        }
        Some(Self { rw, rwmixread, bs, ioengine, iodepth, numjobs, files, direct, memory: memory.flatten() })
    }
}

/// A pattern with its share of reads.
fn load(text: &str) -> Option<(FioPattern, Option<u32>)> {
    let digits = text.find(|letter: char| letter.is_ascii_digit()).unwrap_or(text.len());
    let (pattern, percent) = text.split_at(digits);
    let rw = FioPattern::ALL.iter().copied().find(|known| known.name() == pattern)?;
    if percent.is_empty() {
        return Some((rw, None));
    }
    rw.is_mixed().then(|| Some((rw, Some(percent.parse().ok()?)))).flatten()
}

/// `4k`, `1m`, as fio has it.
fn size(bytes: Bytes) -> String {
    match bytes.0 {
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

fn bytes(text: &str) -> Option<Bytes> {
    let of = |number: &str, unit: u64| Some(Bytes(number.parse::<u64>().ok()?.checked_mul(unit)?));
    match (text.strip_suffix('m'), text.strip_suffix('k')) {
        (Some(number), _) => of(number, 1 << 20),
        (_, Some(number)) => of(number, 1 << 10),
        _ => of(text, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_as_the_point_it_is_of() {
        for (index, rw) in (0_u32..).zip(FioPattern::ALL.iter().copied()) {
            for ioengine in FioEngine::ALL.iter().copied() {
                for (bs, direct, memory) in [
                    (512, true, None),
                    (4096, false, None),
                    (4096, false, Some(Bytes(64 << 20))),
                    (1 << 20, true, Some(Bytes(1000))),
                    (3 << 30, true, None),
                    (1000, false, Some(Bytes(1 << 10))),
                ] {
                    let rwmixread = rw.is_mixed().then_some(10 * index);
                    let (bs, iodepth, numjobs, files) = (Bytes(bs), 32 + index, 1, 16);
                    let point =
                        FioPoint { rw, rwmixread, bs, ioengine, iodepth, numjobs, files, direct, memory };
                    assert_eq!(FioPoint::of_name(&point.to_string()), Some(point.clone()), "{point}");
                }
            }
        }
    }

    #[test]
    fn other_names_are_none() {
        let right = "randrw70-4k-libaio-d32-j1-f16";
        assert!(FioPoint::of_name(right).is_some());
        for (part, wrong) in [
            ("randrw70", "randread70"),
            ("randrw70", "70"),
            ("4k", "k"),
            ("4k", "99999999999999m"),
            ("libaio", "aio"),
        ] {
            assert_eq!(FioPoint::of_name(&right.replace(part, wrong)), None, "{wrong}");
        }
        let others = ["", "grep", "randrw70-4k-libaio-d32-j1", "randrw70-4k-libaio-d32-f16-j1"];
        let ends = ["-cached", "-buffered-x", "-m", "-mx", "-m64m-buffered", "-buffered-m64m-x"]
            .map(|end| format!("{right}{end}"));
        assert!(others.iter().all(|name| FioPoint::of_name(name).is_none()));
        assert!(ends.iter().all(|name| FioPoint::of_name(name).is_none()));
    }
}
