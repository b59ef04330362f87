//! Parallel reads: how many dies a drive has, and how many commands it takes per second.
//!
//! `q` readers that each ask again as soon as they are answered are a closed system. A command is taken in (one after the
//! other, `command_ns` each), then its data is read by a die, chosen at random, which serves one read at a time. Few readers
//! find the dies free; many wait for one another where they meet on a die, or for the controller. Both limits bend the rate over
//! the depth differently: the controller at one point, dies gradually. So both follow from rates over depths, by simulation
//! (fixed seed, some 2 % of chance) and search.
//!
//! Known limits: dies and channels are not distinguished; where the controller is the limit, more dies than it can keep busy
//! make no difference, and the number is a lower bound.

use fsage_model::quantity::as_f64;
use serde::Serialize;

use super::DepthRate;
use crate::dice::Dice;

/// Reads that are simulated, after as many readers as there are have asked once.
const SIMULATED: u32 = 800;

/// Most dies.
pub const MOST_DIES: u32 = 256;

/// A drive as its readers see it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Drive {
    /// Time of the controller per read, serial, in ns.
    pub command_ns: f64,
    /// Time of a die per read, in ns.
    pub die_ns: f64,
    /// Everything else that a read takes, in parallel, in ns.
    pub latency_ns: f64,
    /// Dies.
    pub dies: u32,
}

/// Reads per second of so many readers.
#[must_use]
pub fn rate(drive: &Drive, depth: u32, seed: u64) -> f64 {
    let mut dice = Dice::new(seed);
    let mut dies = vec![0.0_f64; usize::try_from(drive.dies.max(1)).unwrap_or(1)];
    let mut readers = vec![0.0_f64; usize::try_from(depth.max(1)).unwrap_or(1)];
    let (mut taken_in, mut warm, mut done) = (0.0_f64, 0.0_f64, 0.0_f64);
    let count = SIMULATED + 2 * depth;
    for number in 0..count {
        // The reader that was answered first asks first.
        let Some(next) = (0..readers.len()).min_by(|a, b| readers[*a].total_cmp(&readers[*b])) else { break };
        taken_in = taken_in.max(readers[next]) + drive.command_ns;
        let die = dice.index(dies.len());
        dies[die] = dies[die].max(taken_in + drive.latency_ns) + drive.die_ns;
        readers[next] = dies[die];
        if number == 2 * depth {
            warm = taken_in;
        }
        done = taken_in;
    }
    if done > warm { f64::from(SIMULATED - 1) * 1e9 / (done - warm) } else { 0.0 }
}

/// What rates over depths say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parallel {
    /// The drive.
    pub drive: Drive,
    /// Dies that fit as well within the noise: fewest and most.
    pub dies: (u32, u32),
    /// The same of the time of the controller, in ns.
    pub command_ns: (f64, f64),
    /// Root of the mean square of the relative deviations.
    pub deviation: f64,
}

/// Deviations of rates that are noise.
const NOISE: f64 = 0.02;

/// A drive and how far its rates are off.
type Tried = (Drive, f64);

/// The drive whose rates are nearest. `single_ns` is the time of one read alone, `die_ns` the part of a die, where it is known.
/// `None` with fewer than three depths.
#[must_use]
pub fn fit(rates: &[DepthRate], single_ns: f64, die_ns: Option<f64>) -> Option<Parallel> {
    if rates.len() < 3 || single_ns <= 0.0 {
        return None;
    }
    let times: Vec<f64> = match die_ns {
        Some(known) => vec![known.clamp(0.01 * single_ns, 0.98 * single_ns)],
        None => [0.4, 0.6, 0.8].map(|share| share * single_ns).to_vec(),
    };
    let mut tried: Vec<Tried> = Vec::new();
    let mut dies = 1;
    while dies <= MOST_DIES {
        for die_ns in &times {
            tried.extend(with_dies(rates, single_ns, *die_ns, dies));
        }
        // Powers of two, and what lies between them: 1, 2, 3, 4, 6, 8, 12, …
        dies = if dies.is_power_of_two() && dies > 1 { dies / 2 * 3 } else { (dies + 1).next_power_of_two() };
    }
    let (drive, deviation) = *nearest(&tried)?;
    let alike: Vec<&Drive> =
        tried.iter().filter(|one| one.1 <= deviation + NOISE).map(|(drive, _)| drive).collect();
    let least = |of: fn(&Drive) -> f64| alike.iter().map(|drive| of(drive)).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Drive) -> f64| alike.iter().map(|drive| of(drive)).fold(0.0, f64::max);
    let counts = alike.iter().map(|drive| drive.dies);
    Some(Parallel {
        drive,
        dies: (counts.clone().min()?, counts.max()?),
        command_ns: (least(|drive| drive.command_ns), most(|drive| drive.command_ns)),
        deviation,
    })
}

fn nearest(tried: &[Tried]) -> Option<&Tried> {
    tried.iter().min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Times of the controller for so many dies: on a grid, then around its best point.
fn with_dies(rates: &[DepthRate], single_ns: f64, die_ns: f64, dies: u32) -> Vec<Tried> {
    // A drive that takes one command at a time is one whose controller takes all of the time.
    let (least, most) = (single_ns / 1000.0, 0.98 * single_ns);
    let of = |command_ns: f64| {
        let die_ns = die_ns.min(single_ns - command_ns);
        let latency_ns = single_ns - die_ns - command_ns;
        let drive = Drive { command_ns, die_ns, latency_ns, dies };
        (drive, deviation(&drive, rates))
    };
    let search = |from: f64, to: f64, steps: u32| -> Vec<Tried> {
        let point = |n: u32| from * (to / from).powf(f64::from(n) / f64::from(steps));
        (0..=steps).map(|n| of(point(n))).collect()
    };
    let mut tried = search(least, most, 12);
    let step = (most / least).powf(1.0 / 12.0);
    if let Some(command_ns) = nearest(&tried).map(|(drive, _)| drive.command_ns) {
        tried.extend(search((command_ns / step).max(least), (command_ns * step).min(most), 10));
    }
    tried
}

fn deviation(drive: &Drive, rates: &[DepthRate]) -> f64 {
    let part = |one: &DepthRate| {
        let simulated = rate(drive, one.depth, 7).max(f64::MIN_POSITIVE);
        (one.reads_per_s.max(f64::MIN_POSITIVE) / simulated).ln().powi(2)
    };
    let many = u64::try_from(rates.len()).unwrap_or(1).max(1);
    (rates.iter().map(part).sum::<f64>() / as_f64(many)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(drive: &Drive, seed: u64, noise: f64) -> Vec<DepthRate> {
        let mut dice = Dice::new(seed);
        let depths = [1, 2, 4, 8, 16, 32, 64];
        let mut of = |depth| DepthRate {
            depth,
            reads_per_s: rate(drive, depth, seed + 100) * (1.0 + noise * (2.0 * dice.unit() - 1.0)),
        };
        depths.iter().map(|depth| of(*depth)).collect()
    }

    #[test]
    fn one_reader_has_the_sum_of_all_parts_and_many_meet_the_limit() {
        let drive = Drive { command_ns: 10e3, die_ns: 60e3, latency_ns: 30e3, dies: 8 };
        assert!((rate(&drive, 1, 1) / 10_000.0 - 1.0).abs() < 0.01, "{}", rate(&drive, 1, 1));
        assert!((rate(&drive, 64, 1) / 100_000.0 - 1.0).abs() < 0.02, "{}", rate(&drive, 64, 1));
        let slow = Drive { command_ns: 1e3, dies: 2, ..drive };
        let limit = 2.0 / 60e-6;
        assert!((0.93..=1.02).contains(&(rate(&slow, 64, 1) / limit)), "{}", rate(&slow, 64, 1));
    }

    /// 30 drives whose rates vary by 3 %: the time of the controller within 10 % where it is the limit, the dies exactly where
    /// they are.
    #[test]
    fn limits_are_told_apart() {
        for (drive, by_controller) in [
            (Drive { command_ns: 13e3, die_ns: 45e3, latency_ns: 20e3, dies: 32 }, true),
            (Drive { command_ns: 2e3, die_ns: 80e3, latency_ns: 20e3, dies: 4 }, false),
        ] {
            let single = drive.command_ns + drive.die_ns + drive.latency_ns;
            let mut missed = 0;
            for seed in 0..15 {
                let found = fit(&rates(&drive, seed, 0.03), single, Some(drive.die_ns)).unwrap();
                let right = if by_controller {
                    (found.drive.command_ns / drive.command_ns - 1.0).abs() < 0.1
                } else {
                    found.drive.dies == drive.dies
                };
                let covered = (found.dies.0..=found.dies.1).contains(&drive.dies);
                missed += u32::from(!right || !covered);
            }
            assert!(missed <= 1, "{drive:?}: {missed} of 15");
        }
    }

    #[test]
    fn a_device_that_takes_one_command_at_a_time_gains_nothing_from_depth() {
        let flat: Vec<DepthRate> =
            [1, 4, 16, 64].map(|depth| DepthRate { depth, reads_per_s: 5000.0 }).to_vec();
        let found = fit(&flat, 200e3, Some(150e3)).unwrap();
        assert!(found.deviation < 0.05, "{found:?}");
        assert!((rate(&found.drive, 64, 1) / rate(&found.drive, 1, 1) - 1.0).abs() < 0.05, "{found:?}");
        assert!(fit(&flat[..2], 200e3, None).is_none());
    }
}
