//! One line of blkparse.

use super::{NS_IN_S, SECTOR_BYTES};
use crate::log::LENGTH_LIMIT;

/// What all lines have, and the rest of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Major and minor number.
    pub device: (u32, u32),
    pub time_ns: u64,
    pub action: &'a str,
    pub rwbs: &'a str,
    /// What is behind `rwbs`, without spaces around it.
    pub rest: &'a str,
}

/// What `rwbs` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestKind {
    pub flush_before: bool,
    pub action: Action,
    pub fua: bool,
}

/// What is done with a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Read,
    Write,
    Discard,
    Nothing,
}

/// Splits off what stands before the next space.
fn field<'a>(text: &mut &'a str, what: &'static str) -> Result<&'a str, String> {
    let begin = text.trim_start_matches(' ');
    let end = begin.find(' ').unwrap_or(begin.len());
    let (found, rest) = begin.split_at(end);
    *text = rest;
    if found.is_empty() { Err(format!("it has no {what}")) } else { Ok(found) }
}

fn number<T: std::str::FromStr>(text: &str, what: &'static str) -> Result<T, String> {
    // `parse` would take a sign.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is not a {what}"));
    }
    text.parse().map_err(|_| format!("{text:?} is not a {what}"))
}

impl<'a> Line<'a> {
    /// Takes a line apart, or says what is wrong with it.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let mut left = text;
        let mut device = field(&mut left, "device")?;
        // The major number is padded on the left, the minor on the right, to three places.
        let Some((major, minor)) = device.split_once(',') else {
            return Err(format!("{device:?} is not a device"));
        };
        device = minor;
        let device = (number(major, "device")?, number(device, "device")?);
        number::<u32>(field(&mut left, "processor")?, "processor")?;
        number::<u64>(field(&mut left, "sequence number")?, "sequence number")?;
        let time_ns = time(field(&mut left, "time")?)?;
        number::<u32>(field(&mut left, "process")?, "process")?;
        let action = field(&mut left, "action")?;
        let rwbs = field(&mut left, "operation")?;
        Ok(Self { device, time_ns, action, rwbs, rest: left.trim_matches(' ') })
    }

    /// Offset and length in bytes of `sector + sectors [...]`, and what stands in brackets. A flush has no
    /// place.
    pub(super) fn place(&self) -> Result<(u64, u64, &'a str), String> {
        let (place, bracket) = self
            .rest
            .split_once('[')
            .and_then(|(place, bracket)| Some((place, bracket.strip_suffix(']')?)))
            .ok_or("it does not end with [...]")?;
        // Elapsed times, where asked for, stand in parentheses.
        let place = place.split('(').next().unwrap_or(place).trim_matches(' ');
        let (sector, sectors) = match place.split_once(" + ") {
            _ if place.is_empty() => (0, 0),
            Some((sector, sectors)) => (number(sector, "sector")?, number(sectors, "number of sectors")?),
            None => (number(place, "sector")?, 0),
        };
        let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES).filter(|bytes| *bytes <= LENGTH_LIMIT);
        let found = bytes(sector).zip(bytes(sectors)).ok_or("it lies beyond any disk")?;
        Ok((found.0, found.1, bracket))
    }

    /// What `rwbs` says.
    pub(super) fn kind(&self) -> Result<RequestKind, String> {
        let unknown = || format!("{:?} is not an operation", self.rwbs);
        let (flush_before, rest) = match self.rwbs.strip_prefix('F') {
            Some(rest) => (true, rest),
            None => (false, self.rwbs),
        };
        let mut letters = rest.chars();
        let action = match letters.next() {
            Some('R') => Action::Read,
            Some('W') => Action::Write,
            Some('D') => Action::Discard,
            Some('N') => Action::Nothing,
            // The tracepoints' way to say a flush alone.
            Some('F') => Action::Nothing,
            None if flush_before => Action::Nothing,
            _ => return Err(unknown()),
        };
        let mut fua = false;
        for letter in letters {
            match letter {
                'F' => fua = true,
                'A' | 'S' | 'M' | 'E' => {}
                _ => return Err(unknown()),
            }
        }
        Ok(RequestKind { flush_before, action, fua })
    }

    /// A command that is passed through to the device has no place on the disk: `36 (12 00 …) [process]`,
    /// when it comes back `(12 00 …) [0]`.
    pub(super) fn is_passed_through(&self) -> bool {
        let Some((before, _)) = self.rest.split_once('(') else { return false };
        let before = before.trim_end_matches(' ');
        let is_number = !before.is_empty() && before.bytes().all(|byte| byte.is_ascii_digit());
        match self.action {
            // `0 (  1234) [0]` is a flush with the time that it took.
            "C" => before.is_empty(),
            _ => is_number || before.is_empty(),
        }
    }
}

/// Seconds with nine places.
fn time(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a time");
    let (seconds, places) = text.split_once('.').ok_or_else(wrong)?;
    if places.len() != 9 {
        return Err(wrong());
    }
    let (seconds, places): (u64, u64) = (number(seconds, "time")?, number(places, "time")?);
    seconds.checked_mul(NS_IN_S).and_then(|ns| ns.checked_add(places)).ok_or_else(wrong)
}
