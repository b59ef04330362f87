//! What was reached through each opening of the file.
//!
//! Several drives under one server are parts of one file, and each of their block devices opens it for itself. So a flush, which
//! names no place but the opening, is of the drive whose blocks were read and written through it.

use crate::request::Request;

/// Openings that are distinguished, at most; those after them flush everything.
const MOST: usize = 1024;

/// By handle, from 1 on: the first byte that was reached, and the first behind all of them.
#[derive(Debug, Default)]
pub(super) struct Openings {
    reached: Vec<Option<(u64, u64)>>,
}

impl Openings {
    /// A new one; 0 where there are too many.
    pub fn open(&mut self) -> u64 {
        if self.reached.len() == MOST {
            return 0;
        }
        self.reached.push(None);
        u64::try_from(self.reached.len()).unwrap_or(0)
    }

    /// A request came through it.
    pub fn note(&mut self, handle: u64, request: &Request) {
        let Some(reached) = place(handle).and_then(|place| self.reached.get_mut(place)) else { return };
        let (from, to) = reached.unwrap_or((u64::MAX, 0));
        *reached = Some((from.min(request.offset_bytes), to.max(request.end_bytes())));
    }

    /// What was reached through it so far.
    pub fn reached(&self, handle: u64) -> Option<(u64, u64)> {
        *self.reached.get(place(handle)?)?
    }
}

fn place(handle: u64) -> Option<usize> {
    usize::try_from(handle.checked_sub(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Operation;

    #[test]
    fn those_that_are_too_many_are_not_distinguished() {
        let mut openings = Openings::default();
        let all: Vec<u64> = (0..=MOST).map(|_| openings.open()).collect();
        assert_eq!((all[0], all[MOST - 1], all[MOST]), (1, 1024, 0));
        let request = Request::new(Operation::Write, 4096, 4096);
        for handle in [0, 1024, u64::MAX] {
            openings.note(handle, &request);
        }
        assert_eq!((openings.reached(0), openings.reached(1024)), (None, Some((4096, 8192))));
        assert_eq!((openings.reached(1), openings.reached(u64::MAX)), (None, None));
    }
}
