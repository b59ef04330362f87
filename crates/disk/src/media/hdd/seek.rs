//! How long the arm takes over a distance.
//!
//! Ruemmler and Wilkes (*An introduction to disk drive modeling*, IEEE Computer 27(3), 1994, section "Seek
//! time"): short seeks are bounded by acceleration and grow with the square root of the distance, long ones
//! by the arm's top speed and grow linearly: `a + b·√d` below a knee, `c + e·d` from it.
//!
//! The four constants follow from what data sheets give: the seek to the next track, the full stroke, and the
//! average over all pairs of cylinders, with the curve unbroken at the knee. Reads and writes have a curve each. The average is the data sheets'
//! own weighting: a distance of `x` of the stroke has the density `2(1 − x)`. The knee is not published;
//! Ruemmler and Wilkes' HP 97560 (383 of 1,962 cylinders) has it at 19.5 % of the stroke.

use fsage_model::medium::hdd::Parameters;

use crate::media::number::{as_f64, to_u64};

/// Bits behind the point of the slopes.
const POINT: u32 = 16;

/// What a data sheet says of seeks before reads or before writes, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Points {
    /// To the next track.
    pub track_to_track_ns: u64,
    /// On average over all pairs of cylinders.
    pub average_ns: u64,
    /// From the first to the last cylinder.
    pub full_stroke_ns: u64,
}

impl Points {
    /// Until ready to read.
    pub(super) const fn reading(parameters: &Parameters) -> Self {
        Self {
            track_to_track_ns: parameters.track_to_track_ns,
            average_ns: parameters.average_seek_ns,
            full_stroke_ns: parameters.full_stroke_ns,
        }
    }

    /// Until ready to write: the head has to settle more closely, which costs more the further it came.
    pub(super) const fn writing(parameters: &Parameters) -> Self {
        Self {
            track_to_track_ns: parameters.track_to_track_write_ns,
            average_ns: parameters.average_seek_write_ns,
            full_stroke_ns: parameters.full_stroke_write_ns,
        }
    }
}

/// The curve, in whole numbers: nanoseconds and cylinders.
#[derive(Debug, Clone)]
pub(super) struct SeekCurve {
    knee_cylinders: u64,
    short_ns: u64,
    /// Nanoseconds for each root of a cylinder, with [`POINT`] bits behind the point.
    root_slope: u64,
    long_ns: u64,
    /// Nanoseconds for each cylinder, with [`POINT`] bits behind the point.
    slope: u64,
}

impl SeekCurve {
    /// The curve through the published points; `None` when there is no rising one.
    pub(super) fn through(parameters: &Parameters, points: Points) -> Option<Self> {
        let stroke = as_f64(parameters.cylinders - 1);
        let knee = as_f64(parameters.seek_knee_permille) / 1000.0;
        let next = 1.0 / stroke;
        let (track, average, full) =
            (as_f64(points.track_to_track_ns), as_f64(points.average_ns), as_f64(points.full_stroke_ns));
        // With the root's slope b (per √stroke) chosen, the other three constants follow.
        let constants = |b: f64| {
            let a = track - b * next.sqrt();
            let e = (full - a - b * knee.sqrt()) / (1.0 - knee);
            (a, b, full - e, e)
        };
        // The mean over the density 2(1 − x) is linear in b.
        let mean = |(a, b, c, e): (f64, f64, f64, f64)| {
            a * (2.0 * knee - knee * knee)
                + b * (4.0 / 3.0 * knee * knee.sqrt() - 4.0 / 5.0 * knee * knee * knee.sqrt())
                + c * (1.0 - knee) * (1.0 - knee)
                + e * (1.0 / 3.0 - knee * knee + 2.0 / 3.0 * knee * knee * knee)
        };
        let (at_zero, at_one) = (mean(constants(0.0)), mean(constants(1.0)));
        let (a, b, c, e) = constants((average - at_zero) / (at_one - at_zero));
        let rising = [a, b, c, e].iter().all(|v| v.is_finite() && *v >= 0.0);
        let point = as_f64(1 << POINT);
        rising.then(|| Self {
            knee_cylinders: to_u64(knee * stroke),
            short_ns: to_u64(a),
            root_slope: to_u64(b / stroke.sqrt() * point),
            long_ns: to_u64(c),
            slope: to_u64(e / stroke * point),
        })
    }

    /// The time over a distance.
    pub(super) fn time_ns(&self, cylinders: u64) -> u64 {
        match cylinders {
            0 => 0,
            // The root with half the bits behind the point.
            d if d < self.knee_cylinders => {
                self.short_ns + ((self.root_slope * (d << POINT).isqrt()) >> (POINT + POINT / 2))
            }
            d => self.long_ns + ((self.slope * d) >> POINT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::hdd_parameters;

    #[test]
    fn goes_through_the_published_points_and_never_falls() {
        for name in ["hdd-7200", "hdd-10k", "hdd-5400", "hdd-500gb", "hdd-20tb", "smr"] {
            let parameters = hdd_parameters(name);
            let last = parameters.cylinders - 1;
            for points in [Points::reading(&parameters), Points::writing(&parameters)] {
                let curve = SeekCurve::through(&parameters, points).unwrap();
                let near = |ns: u64, published: u64| ns.abs_diff(published) * 1000 <= published;
                assert!(near(curve.time_ns(1), points.track_to_track_ns), "{name} {}", curve.time_ns(1));
                assert!(near(curve.time_ns(last), points.full_stroke_ns), "{name} {}", curve.time_ns(last));
                let (mut sum, mut weights, mut before) = (0_u128, 0_u128, 0);
                for d in 1..=last {
                    let (time, weight) = (curve.time_ns(d), u128::from(last + 1 - d));
                    assert!(time + 1000 >= before, "{name}: falls at {d}");
                    before = time;
                    sum += u128::from(time) * weight;
                    weights += weight;
                }
                let mean = u64::try_from(sum / weights).unwrap();
                assert!(near(mean, points.average_ns), "{name}: mean {mean}");
            }
        }
    }

    /// Readiness to write once was the read's time and a constant: 1.23 ms to the next track of `hdd-7200`,
    /// where its manual says 0.44.
    #[test]
    fn a_write_is_never_ready_before_a_read() {
        for name in ["hdd-7200", "hdd-10k", "hdd-5400", "hdd-500gb", "hdd-20tb", "smr"] {
            let parameters = hdd_parameters(name);
            let curve = |points| SeekCurve::through(&parameters, points).unwrap();
            let (read, write) = (curve(Points::reading(&parameters)), curve(Points::writing(&parameters)));
            assert!((1..parameters.cylinders).all(|d| write.time_ns(d) >= read.time_ns(d)), "{name}");
        }
    }

    #[test]
    fn an_average_that_no_rising_curve_has_is_refused() {
        let parameters = hdd_parameters("hdd-7200");
        let mut points = Points::reading(&parameters);
        points.average_ns = points.full_stroke_ns;
        assert!(SeekCurve::through(&parameters, points).is_none());
    }
}
