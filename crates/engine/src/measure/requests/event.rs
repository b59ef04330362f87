//! One line of `trace_pipe`.
//!
//! ```text
//!            grep-4711    [001] .....  1234.567890: block_rq_issue: 7,0 RA 131072 () 264192 + 256 none,0,0 [grep]
//!           <idle>-0      [000] d.h1.  1234.567999: block_rq_complete: 7,0 RA () 264192 + 256 none,0,0 [0]
//!            grep-4711    [001] .....  1234.567890: block_bio_queue: 253,0 RA 264192 + 256 [grep]
//! ```
//!
//! Kernels before 6.9 have no `none,0,0`, and before 4.11 or so no byte count; both are left aside. The name
//! of a program may hold anything, but has at most 15 bytes, so it cannot look like an event's name. `rwbs`
//! is that of `blk_fill_rwbs` in block/blk-core and kernel/trace/blktrace.c: an `F` in front for a flush
//! before, then the kind, then `F` (FUA), `A` (read-ahead), `S` (sync), `M` (metadata) and others.

/// What happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The device got it (or, without a request queue, it was asked for).
    Issue,
    /// It is done.
    Complete,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Discard or secure erase.
    Discard,
    /// Flush of the device's cache.
    Flush,
    /// Anything else.
    Other,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// When, in nanoseconds of the monotonic clock, whole microseconds.
    pub time_ns: u64,
    /// What it does.
    pub action: Action,
    /// The file system says that it is metadata.
    pub metadata: bool,
    /// First 512-byte sector on the disk.
    pub sector: u64,
    /// 512-byte sectors.
    pub sectors: u64,
}

const NAMES: [(&str, EventKind); 3] = [
    (": block_rq_issue: ", EventKind::Issue),
    (": block_rq_complete: ", EventKind::Complete),
    (": block_bio_queue: ", EventKind::Issue),
];

/// Reads a line; `None` for anything that is not one of the three events.
#[must_use]
pub fn parse(line: &str) -> Option<Event> {
    let (at, name, kind) = NAMES
        .iter()
        .filter_map(|(name, kind)| line.find(name).map(|at| (at, *name, *kind)))
        .min_by_key(|found| found.0)?;
    let time_ns = time(line.get(..at)?.rsplit(' ').next()?)?;
    // After the numbers comes a name of a program in brackets, which may hold anything.
    let rest = line.get(at + name.len()..)?;
    let mut words = rest.split(' ');
    words.next().filter(|device| device.split_once(',').is_some())?;
    let (action, metadata) = action(words.next()?)?;
    // Byte count and command may stand between: the place is what precedes the first `+`.
    let (mut sector, mut word) = (None, words.next()?);
    while word != "+" {
        sector = word.parse::<u64>().ok();
        word = words.next()?;
    }
    let sectors = words.next()?.parse().ok()?;
    // A flush has no place: the kernel prints the largest number or 0.
    let sector = sector.filter(|_| sectors > 0).unwrap_or(0);
    Some(Event { kind, time_ns, action, metadata, sector, sectors })
}

/// `1234.567890` in nanoseconds.
fn time(text: &str) -> Option<u64> {
    let (seconds, micros) = text.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    let micros: u64 = micros.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(micros * 1000)
}

/// What `rwbs` says.
fn action(rwbs: &str) -> Option<(Action, bool)> {
    let mut letters = rwbs.chars();
    let mut first = letters.next()?;
    let flags = letters.as_str();
    if first == 'F'
        && let Some(next) = flags.chars().next().filter(|next| "RWDN".contains(*next))
    {
        first = next;
    }
    let action = match first {
        'R' => Action::Read,
        'W' => Action::Write,
        'D' => Action::Discard,
        'F' => Action::Flush,
        _ => Action::Other,
    };
    Some((action, flags.contains('M')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> (EventKind, u64, Action, bool, u64, u64) {
        let Event { kind, time_ns, action, metadata, sector, sectors } = parse(line).expect(line);
        (kind, time_ns, action, metadata, sector, sectors)
    }

    #[test]
    fn lines_of_several_kernels_are_understood() {
        use Action as A;
        use EventKind::{Complete, Issue};
        for (line, wanted) in [
            // 6.18
            (
                "     fsage-agent-52913   [001] .....  4221.153042: block_rq_issue: 7,0 RA 131072 () 264192 + 256 none,0,0 [fsage-agent]",
                (Issue, 4_221_153_042_000, A::Read, false, 264_192, 256),
            ),
            (
                "   kworker/u9:2-52800   [000] ..s1.  4221.153301: block_rq_complete: 7,0 RM () 8 + 8 be,0,4 [0]",
                (Complete, 4_221_153_301_000, A::Read, true, 8, 8),
            ),
            // 6.1 and 5.4
            (
                "            grep-4711    [001] ....   12.000001: block_rq_issue: 8,16 WSM 4096 () 1000 + 8 [grep]",
                (Issue, 12_000_001_000, A::Write, true, 1000, 8),
            ),
            ("    jbd2/sda1-8-317   [002] .... 99.5: block_rq_issue: x", (Issue, 0, A::Other, false, 0, 0)),
            (
                "  odd: name 3.1]-9 [000] d..1 1.999999: block_rq_issue: 259,0 FWFSM 512 () 77 + 1 none,0,0 [] + 3]",
                (Issue, 1_999_999_000, A::Write, true, 77, 1),
            ),
            (
                " x-1 [000] ..... 1.000000: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [x]",
                (Issue, 1_000_000_000, A::Flush, false, 0, 0),
            ),
            (
                " x-1 [000] ..... 1.000000: block_rq_complete: 7,0 D () 2048 + 4096 none,0,0 [0]",
                (Complete, 1_000_000_000, A::Discard, false, 2048, 4096),
            ),
            (
                " x-1 [000] ..... 1.000000: block_bio_queue: 253,0 RA 264192 + 256 [x]",
                (Issue, 1_000_000_000, A::Read, false, 264_192, 256),
            ),
        ] {
            if wanted.5 == 0 && wanted.2 == A::Other {
                assert_eq!(parse(line), None, "{line}");
            } else {
                assert_eq!(event(line), wanted, "{line}");
            }
        }
    }

    #[test]
    fn anything_else_is_nothing() {
        for line in [
            "",
            "CPU:1 [LOST 12 EVENTS]",
            "# tracer: nop",
            " x-1 [000] 1.000000: block_rq_insert: 7,0 R 4096 () 8 + 8 [x]",
            " x-1 [000] 1.000000: block_rq_issue: 7,0 R 4096 () 8",
            " x-1 [000] 1.000000: block_rq_issue: 7,0 R 4096 () 8 + many",
            " x-1 [000] 1.000000: block_rq_issue: nonsense",
            ": block_rq_issue: 7,0 R 4096 () 8 + 8",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
