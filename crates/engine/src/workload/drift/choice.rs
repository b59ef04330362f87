//! Which slot an operation draws: even, or normal around a centre on the ring of slots, which may move
//! (Petrovič 2017 §4.4).

use fsage_model::quantity::as_f64;

use crate::distribution::{Random, inverse_normal};

/// How a slot number is drawn.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    count: u32,
    /// Standard deviation in slots.
    deviation: f64,
    /// Centre, 0.0..count.
    centre: f64,
    /// Slots the centre advances a tick.
    velocity: f64,
    /// Operations a tick lasts; 0: the centre rests.
    tick: u64,
    /// Operations left of this tick.
    left: u64,
}

impl Choice {
    /// Normal around slot 0, `deviation` as a share of the `count` slots.
    pub(super) fn gaussian(deviation: f64, count: u32) -> Self {
        Self { count, deviation: deviation * f64::from(count), centre: 0.0, velocity: 0.0, tick: 0, left: 0 }
    }

    /// The same with a centre that advances by the share `velocity` of the slots every `tick` operations.
    pub(super) fn moving(deviation: f64, velocity: f64, tick: u64, count: u32) -> Self {
        Self { velocity: velocity * f64::from(count), tick, left: tick, ..Self::gaussian(deviation, count) }
    }

    /// Tells that an operation was made: simulated time.
    #[inline]
    pub(super) fn advance(&mut self) {
        if self.tick == 0 {
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = self.tick;
            self.centre = self.bend(self.centre + self.velocity);
        }
    }

    /// A number bent into the ring: 0.0..count.
    fn bend(&self, n: f64) -> f64 {
        let count = f64::from(self.count);
        let bent = n - (n / count).floor() * count;
        // Rounding may give the count itself.
        if (0.0..count).contains(&bent) { bent } else { 0.0 }
    }

    /// Draws a slot number below the count.
    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        let place = self.bend(self.centre + self.deviation * inverse_normal(random.unit()));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0.0..count, rounded down"
        )]
        let slot = place as u32;
        slot.min(self.count - 1)
    }

    /// Slots the centre has moved, for tests.
    #[cfg(test)]
    pub(super) const fn centre(&self) -> f64 {
        self.centre
    }
}

/// The advance a tick as a share of the slots, and the operations a tick of one thread lasts.
pub(super) fn share_of_motion(velocity: f64, ticks: u64, slots: u64, threads: u32) -> (f64, u64) {
    (velocity / as_f64(slots), (ticks / u64::from(threads)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distances from the centre are normal: mean and deviation of 100,000 draws, errors 0.3 and 0.2.
    #[test]
    fn gaussian_has_its_moments() {
        let choice = Choice::gaussian(0.05, 2000);
        let mut random = Random::new(5, 0);
        let drawn: Vec<f64> = (0..100_000)
            .map(|_| {
                let slot = f64::from(choice.draw(&mut random)) + 0.5;
                if slot > 1000.0 { slot - 2000.0 } else { slot }
            })
            .collect();
        let count = as_f64(100_000);
        let mean = drawn.iter().sum::<f64>() / count;
        let deviation = (drawn.iter().map(|x| x * x).sum::<f64>() / count).sqrt();
        assert!(mean.abs() < 1.5, "{mean}");
        assert!((deviation - 100.0).abs() < 1.0, "{deviation}");
        // Within one deviation: 68.27 %.
        let near = drawn.iter().filter(|x| x.abs() < 100.0).count();
        assert!((67_500..69_000).contains(&near), "{near}");
    }

    #[test]
    fn the_centre_moves_round_the_ring() {
        let mut choice = Choice::moving(0.01, 0.25, 10, 100);
        for operations in 0..40_u32 {
            assert!((choice.centre() - f64::from(operations / 10 * 25)).abs() < 1e-9);
            choice.advance();
        }
        assert!(choice.centre().abs() < 1e-9);
        let mut back = Choice::moving(0.01, -0.25, 1, 100);
        back.advance();
        assert!((back.centre() - 75.0).abs() < 1e-9);
    }
}
