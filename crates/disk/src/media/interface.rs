//! What a device's data goes to the host through, one piece after the other.

use super::number::scale;

/// An interface.
#[derive(Debug, Clone)]
pub(super) struct Interface {
    bytes_per_s: u64,
    /// When it is free.
    free_ns: u64,
    /// How long it was busy.
    pub busy_ns: u64,
}

impl Interface {
    pub const fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s, free_ns: 0, busy_ns: 0 }
    }

    /// When it is free.
    pub const fn free_ns(&self) -> u64 {
        self.free_ns
    }

    /// How long so many bytes take.
    pub fn cost_ns(&self, bytes: u64) -> u64 {
        scale(bytes, 1_000_000_000, self.bytes_per_s)
    }

    /// Moves bytes, not before `from_ns`; gives when they are over.
    pub fn pass(&mut self, from_ns: u64, bytes: u64) -> u64 {
        let cost_ns = self.cost_ns(bytes);
        self.busy_ns += cost_ns;
        self.free_ns = self.free_ns.max(from_ns).saturating_add(cost_ns);
        self.free_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_waits_for_the_other() {
        let mut interface = Interface::new(1_000_000_000);
        assert_eq!(
            [interface.pass(100, 50), interface.pass(120, 10), interface.pass(500, 1)],
            [150, 160, 501]
        );
        assert_eq!(interface.busy_ns, 61);
    }
}
