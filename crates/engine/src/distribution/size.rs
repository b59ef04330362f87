//! Distributions of sizes in bytes, validated and ready to draw from.

use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::size::Bytes;
use fsage_model::workload::SizeSpec;
use fsage_model::workload::WorkloadError;

use super::Random;
use super::normal::{exponential, inverse_normal, logarithm, normal_share};

/// Mean of ln(bytes) of the body of the file-size distribution: the lognormal fitted to the data of Agrawal,
/// Bolosky, Douceur & Lorch 2007 ("A Five-Year Study of File-System Metadata", FAST '07), as given by
/// Agrawal, Arpaci-Dusseau & Arpaci-Dusseau 2009 ("Generating Realistic Impressions for File-System
/// Benchmarking", FAST '09, Table 2: "file size by count": body weight 0.99994, µ = 9.48, σ = 2.46; the
/// Pareto tail beyond 512 MB with the remaining 0.006 % of files is left out).
pub const AGRAWAL_MU: f64 = 9.48;

/// Standard deviation of ln(bytes), see [`AGRAWAL_MU`].
pub const AGRAWAL_SIGMA: f64 = 2.46;

/// A distribution of sizes.
#[derive(Debug, Clone)]
pub struct Sizes(SizeLaw);

#[derive(Debug, Clone)]
enum SizeLaw {
    Uniform {
        min: u64,
        /// Number of sizes.
        count: u64,
    },
    Lognormal {
        mu: f64,
        sigma: f64,
        /// Share of the whole distribution below the smallest size.
        below: f64,
        /// Share of the whole distribution from the smallest to the largest.
        width: f64,
        min: u64,
        max: u64,
    },
    Table {
        /// Share of the sizes in this row and those before it, last size of the row.
        rows: Vec<(f64, u64)>,
    },
}

impl Sizes {
    /// Validates a description. `key` is its name in TOML; `volume_bytes` 0: unknown.
    ///
    /// # Errors
    /// A size of 0, bounds in the wrong order, an empty table, a size larger than the volume, …
    pub fn resolve(spec: &SizeSpec, key: &str, volume_bytes: u64) -> Result<Self, WorkloadError> {
        let within = |name: &str, size: Bytes| bound(&format!("{key}.{name}"), size, volume_bytes);
        match spec {
            SizeSpec::Fixed { size } => {
                within("size", *size)?;
                Ok(Self(SizeLaw::Uniform { min: size.0, count: 1 }))
            }
            SizeSpec::Uniform { min, max } => {
                within("min", *min)?;
                within("max", *max)?;
                ordered(key, *min, *max)?;
                Ok(Self(SizeLaw::Uniform { min: min.0, count: max.0 - min.0 + 1 }))
            }
            SizeSpec::Lognormal { mu, sigma, min, max } => {
                within("min", *min)?;
                within("max", *max)?;
                ordered(key, *min, *max)?;
                lognormal(key, *mu, *sigma, min.0, max.0)
            }
            SizeSpec::Agrawal { max } => {
                within("max", *max)?;
                lognormal(key, AGRAWAL_MU, AGRAWAL_SIGMA, 1, max.0)
            }
            SizeSpec::Table { rows } => table(key, rows, volume_bytes),
        }
    }

    /// Draws a size, at least 1.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        match &self.0 {
            SizeLaw::Uniform { min, count: 1 } => *min,
            SizeLaw::Uniform { min, count } => min + random.below(*count),
            SizeLaw::Lognormal { mu, sigma, below, width, min, max } => {
                let z = inverse_normal(below + width * random.unit());
                to_u64(exponential(mu + sigma * z)).clamp(*min, *max)
            }
            SizeLaw::Table { rows } => {
                let share = random.unit();
                let row = rows.partition_point(|(upto, _)| *upto <= share).min(rows.len() - 1);
                let above = if row == 0 { 0 } else { rows[row - 1].1 };
                above + 1 + random.below(rows[row].1 - above)
            }
        }
    }
}

fn bound(key: &str, size: Bytes, volume_bytes: u64) -> Result<(), WorkloadError> {
    if size.0 == 0 || size.0 > i64::MAX.unsigned_abs() {
        return Err(WorkloadError::Range {
            key: key.to_owned(),
            value: size.0.to_string(),
            limit: "at least 1 byte and below 8 EiB".to_owned(),
        });
    }
    if volume_bytes != 0 && size.0 > volume_bytes {
        return Err(WorkloadError::LargerThanVolume {
            key: key.to_owned(),
            value: size,
            volume: Bytes(volume_bytes),
        });
    }
    Ok(())
}

fn ordered(key: &str, min: Bytes, max: Bytes) -> Result<(), WorkloadError> {
    if min <= max {
        return Ok(());
    }
    Err(WorkloadError::Contradiction {
        key: format!("{key}.min"),
        value: min.to_string(),
        other_key: format!("{key}.max"),
        other_value: max.to_string(),
        rule: "min must not be above max".to_owned(),
    })
}

fn lognormal(key: &str, mu: f64, sigma: f64, min: u64, max: u64) -> Result<Sizes, WorkloadError> {
    let range = |name: &str, value: f64, limit: &str| WorkloadError::Range {
        key: format!("{key}.{name}"),
        value: value.to_string(),
        limit: limit.to_owned(),
    };
    if !mu.is_finite() || mu.abs() > 100.0 {
        return Err(range("mu", mu, "a number in -100..=100"));
    }
    if !(sigma > 0.0 && sigma <= 100.0) {
        return Err(range("sigma", sigma, "above 0 and at most 100"));
    }
    // Sizes are rounded to the nearest byte: the cut lies half a byte outside.
    let below = normal_share((logarithm(as_f64(min) - 0.5) - mu) / sigma);
    let upto = normal_share((logarithm(as_f64(max) + 0.5) - mu) / sigma);
    if upto - below < 1e-9 {
        return Err(WorkloadError::Contradiction {
            key: format!("{key}.mu"),
            value: mu.to_string(),
            other_key: format!("{key}.max"),
            other_value: Bytes(max).to_string(),
            rule: "practically no size of that distribution lies between min and max".to_owned(),
        });
    }
    Ok(Sizes(SizeLaw::Lognormal { mu, sigma, below, width: upto - below, min, max }))
}

fn table(key: &str, rows: &[(Bytes, f64)], volume_bytes: u64) -> Result<Sizes, WorkloadError> {
    if rows.is_empty() {
        return Err(WorkloadError::EmptyTable { key: format!("{key}.rows") });
    }
    let total: f64 = rows.iter().map(|(_, weight)| weight).sum();
    let mut last = Bytes(0);
    let mut sum = 0.0;
    let mut resolved = Vec::with_capacity(rows.len());
    for (n, (upper, weight)) in rows.iter().enumerate() {
        let name = format!("{key}.rows[{n}]");
        bound(&name, *upper, volume_bytes)?;
        if *upper <= last {
            return Err(WorkloadError::Range {
                key: name,
                value: upper.to_string(),
                limit: format!("above the row before it, {last}"),
            });
        }
        if !(weight.is_finite() && *weight >= 0.0 && total > 0.0) {
            return Err(WorkloadError::Range {
                key: name,
                value: weight.to_string(),
                limit: "a weight of 0 or more, not 0 in every row".to_owned(),
            });
        }
        sum += weight;
        last = *upper;
        resolved.push((sum / total, upper.0));
    }
    Ok(Sizes(SizeLaw::Table { rows: resolved }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(spec: &SizeSpec) -> Sizes {
        Sizes::resolve(spec, "file_size", 0).expect("valid")
    }

    fn draw(spec: &SizeSpec, count: usize) -> Vec<u64> {
        let sizes = sizes(spec);
        let mut random = Random::new(11, 0);
        (0..count).map(|_| sizes.draw(&mut random)).collect()
    }

    /// Part of what a seed stands for: these must never change.
    #[test]
    fn the_sizes_are_what_they_were() {
        assert_eq!(draw(&SizeSpec::Agrawal { max: Bytes(1 << 30) }, 6), GOLDEN_AGRAWAL);
        let rows = vec![(Bytes(4096), 1.0), (Bytes(1 << 20), 3.0)];
        assert_eq!(draw(&SizeSpec::Table { rows }, 4), GOLDEN_TABLE);
    }

    const GOLDEN_AGRAWAL: [u64; 6] = [8758, 567, 56174, 977, 1852, 533];
    const GOLDEN_TABLE: [u64; 4] = [109_449, 156_266, 396, 967_249];

    /// ln of the sizes has the published mean and deviation: of 200,000 draws the error of the mean is
    /// 0.0055.
    #[test]
    fn agrawal_has_its_moments() {
        let drawn = draw(&SizeSpec::Agrawal { max: Bytes(1 << 62) }, 200_000);
        let logs: Vec<f64> = drawn.iter().map(|size| as_f64(*size).ln()).collect();
        let count = as_f64(200_000);
        let mean = logs.iter().sum::<f64>() / count;
        let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count).sqrt();
        assert!((mean - AGRAWAL_MU).abs() < 0.03, "{mean}");
        assert!((deviation - AGRAWAL_SIGMA).abs() < 0.03, "{deviation}");
        // Φ((ln 16384 − 9.48) / 2.46) = 53.6 %.
        let small =
            as_f64(drawn.iter().filter(|size| **size <= 16384).count().try_into().expect("small")) / count;
        assert!((small - 0.536).abs() < 0.01, "{small}");
    }

    #[test]
    fn a_cut_lognormal_stays_inside_and_keeps_its_shape() {
        let spec = SizeSpec::Lognormal { mu: 9.0, sigma: 1.0, min: Bytes(4096), max: Bytes(16384) };
        let drawn = draw(&spec, 50_000);
        assert!(drawn.iter().all(|size| (4096..=16384).contains(size)));
        // No heap at the bounds: a clamped distribution would have tens of per cent there.
        let at_bounds = drawn.iter().filter(|size| **size == 4096 || **size == 16384).count();
        assert!(at_bounds < 100, "{at_bounds}");
    }

    #[test]
    fn a_table_follows_its_weights() {
        let rows = vec![(Bytes(100), 1.0), (Bytes(200), 0.0), (Bytes(1000), 3.0)];
        let drawn = draw(&SizeSpec::Table { rows }, 40_000);
        let small = drawn.iter().filter(|size| **size <= 100).count();
        assert!((9_600..10_400).contains(&small), "{small}");
        assert!(drawn.iter().all(|size| *size >= 1 && *size <= 1000 && !(101..=200).contains(size)));
    }

    #[test]
    fn uniform_reaches_both_ends() {
        let drawn = draw(&SizeSpec::Uniform { min: Bytes(3), max: Bytes(6) }, 1000);
        let count = |size| drawn.iter().filter(|drawn| **drawn == size).count();
        assert!((3..=6).all(|size| (180..320).contains(&count(size))));
        assert_eq!(draw(&SizeSpec::Fixed { size: Bytes(7) }, 2), [7, 7]);
    }

    #[test]
    fn nonsense_is_refused_with_its_key() {
        let cases = [
            (SizeSpec::Fixed { size: Bytes(0) }, "file_size.size = 0"),
            (SizeSpec::Uniform { min: Bytes(2), max: Bytes(1) }, "file_size.min = 2B contradicts"),
            (SizeSpec::Fixed { size: Bytes(2 << 20) }, "file_size.size = 2MiB is larger than the volume"),
            (SizeSpec::Table { rows: vec![] }, "file_size.rows is empty"),
            (SizeSpec::Table { rows: vec![(Bytes(2), 1.0), (Bytes(2), 1.0)] }, "file_size.rows[1] = 2B"),
            (SizeSpec::Table { rows: vec![(Bytes(2), 0.0)] }, "file_size.rows[0] = 0"),
            (
                SizeSpec::Lognormal { mu: 9.0, sigma: 0.0, min: Bytes(1), max: Bytes(9) },
                "file_size.sigma = 0",
            ),
            (
                SizeSpec::Lognormal { mu: f64::NAN, sigma: 1.0, min: Bytes(1), max: Bytes(9) },
                "file_size.mu = NaN",
            ),
            (
                SizeSpec::Lognormal { mu: 90.0, sigma: 1.0, min: Bytes(1), max: Bytes(9) },
                "file_size.mu = 90 contra",
            ),
        ];
        for (spec, message) in cases {
            let error = Sizes::resolve(&spec, "file_size", 1 << 20).expect_err(message);
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
}
