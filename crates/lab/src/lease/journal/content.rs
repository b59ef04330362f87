//! What the bytes of a journal say.

use super::boot_id;
use crate::lease::disk;
use crate::lease::record::{LeaseRecord, LeaseState, Opened};

/// More leases than a journal ever had: the next number must be one.
pub(super) const NUMBER_LIMIT: u64 = 1 << 53;

/// What a journal's bytes say.
#[derive(Debug, Default)]
pub(in crate::lease) struct Content {
    pub(in crate::lease) outstanding: Vec<LeaseRecord>,
    pub(super) last_number: u64,
    pub(super) damaged_lines: usize,
    /// Bytes of whole lines.
    pub(super) whole: usize,
    /// The last line that says whose it is.
    pub(in crate::lease) opened: Option<Opened>,
}

impl Content {
    /// Whether who wrote it is gone: the lab, or the server of the disk that it is of.
    pub(in crate::lease) fn is_left(&self) -> bool {
        let boot = boot_id();
        let is_dead = |opened: &Opened| !opened.lives(&boot) && disk::holds(&opened.store).is_none();
        self.opened.as_ref().is_none_or(is_dead)
    }
}

/// Reads whole lines; a torn last one is left out.
pub(super) fn parse(bytes: &[u8]) -> Content {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let mut content = Content { whole, ..Content::default() };
    let lines = bytes.get(..whole).unwrap_or_default().split(|&byte| byte == b'\n');
    for line in lines.filter(|line| !line.is_empty()) {
        if let Ok(opened) = serde_json::from_slice::<Opened>(line) {
            content.opened = Some(opened);
            continue;
        }
        let record = serde_json::from_slice::<LeaseRecord>(line).ok();
        let possible = |record: &LeaseRecord| record.number <= NUMBER_LIMIT && record.check().is_ok();
        let Some(record) = record.filter(possible) else {
            content.damaged_lines += 1;
            continue;
        };
        content.last_number = content.last_number.max(record.number);
        match record.state {
            LeaseState::Taken => {
                // The second line of a lease says more.
                match content.outstanding.iter_mut().find(|taken| taken.number == record.number) {
                    Some(taken) => *taken = record,
                    None => content.outstanding.push(record),
                }
            }
            LeaseState::Released => content.outstanding.retain(|taken| taken.number != record.number),
        }
    }
    content
}
