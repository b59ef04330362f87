//! The normal distribution's inverse, and the exponential and logarithm it needs, from IEEE basic operations
//! alone.

/// ln 2 in two parts: the first has few enough bits that small multiples of it are exact.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Natural logarithm of a positive, normal number, to a few units in the last place: the number is brought to
/// within a factor √2 of 1, then ln m = 2 artanh((m − 1) / (m + 1)) by its series.
#[must_use]
pub fn logarithm(x: f64) -> f64 {
    const HALF_SQRT: u64 = 0x3fe6_a09e_667f_3bcd; // √2 / 2
    let bits = x.to_bits();
    // Exponent and mantissa of x relative to √2/2: mantissa in √2/2..√2.
    let steps = (bits.wrapping_sub(HALF_SQRT)).cast_signed() >> 52;
    let mantissa = f64::from_bits(bits.wrapping_sub((steps << 52).cast_unsigned()));
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let s2 = s * s;
    let mut sum = 0.0;
    for odd in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        sum = sum * s2 + 1.0 / odd;
    }
    #[expect(clippy::cast_precision_loss, reason = "an exponent has 11 bits")]
    let k = steps as f64;
    k * LN2_HIGH + (2.0 * s * (s2 * sum) + k * LN2_LOW + 2.0 * s)
}

/// e^x to a few units in the last place, for −700 ≤ x ≤ 700 (beyond, as at the bound): 2^k times the Taylor
/// series of what is left.
#[must_use]
pub fn exponential(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let scaled = x / (LN2_HIGH + LN2_LOW);
    #[expect(clippy::cast_possible_truncation, reason = "at most ±1011")]
    let k = (scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i32;
    let rest = (x - f64::from(k) * LN2_HIGH) - f64::from(k) * LN2_LOW;
    let mut sum = 1.0;
    for n in (1..=14).rev() {
        sum = 1.0 + sum * rest / f64::from(n);
    }
    sum * f64::from_bits((i64::from(1023 + k) << 52).cast_unsigned())
}

/// Numerator over denominator, coefficients from the constant up.
fn ratio(r: f64, above: &[f64; 8], below: &[f64; 8]) -> f64 {
    let polynomial = |terms: &[f64; 8]| terms.iter().rev().fold(0.0, |sum, term| sum * r + term);
    polynomial(above) / polynomial(below)
}

/// The number below which a standard normal variable falls with probability `share` (0 < share < 1), to about
/// 1 part in 10^16: algorithm AS 241, PPND16 (Wichura 1988, Applied Statistics 37(3)).
#[must_use]
pub fn inverse_normal(share: f64) -> f64 {
    let q = share - 0.5;
    if q.abs() <= 0.425 {
        return q * ratio(0.180_625 - q * q, &CENTRE_ABOVE, &CENTRE_BELOW);
    }
    let tail = if q < 0.0 { share } else { 1.0 - share };
    let r = (-logarithm(tail.max(f64::MIN_POSITIVE))).sqrt();
    let value = if r <= 5.0 {
        ratio(r - 1.6, &TAIL_ABOVE, &TAIL_BELOW)
    } else {
        ratio(r - 5.0, &FAR_ABOVE, &FAR_BELOW)
    };
    if q < 0.0 { -value } else { value }
}

/// The share of a standard normal variable below `z`: [`inverse_normal`] inverted by bisection, so that both
/// agree to the last bit on every machine. Slow; for set-up.
#[must_use]
pub fn normal_share(z: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if inverse_normal(middle) < z {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

const CENTRE_ABOVE: [f64; 8] = [
    3.387_132_872_796_366_5,
    133.141_667_891_784_38,
    1_971.590_950_306_551_3,
    13_731.693_765_509_46,
    45_921.953_931_549_87,
    67_265.770_927_008_7,
    33_430.575_583_588_13,
    2_509.080_928_730_122_7,
];
const CENTRE_BELOW: [f64; 8] = [
    1.0,
    42.313_330_701_600_91,
    687.187_007_492_057_9,
    5_394.196_021_424_751,
    21_213.794_301_586_597,
    39_307.895_800_092_71,
    28_729.085_735_721_943,
    5_226.495_278_852_854,
];
const TAIL_ABOVE: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    0.241_780_725_177_450_6,
    0.022_723_844_989_269_184,
    0.000_774_545_014_278_341_4,
];
const TAIL_BELOW: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    0.689_767_334_985_1,
    0.148_103_976_427_480_08,
    0.015_198_666_563_616_457,
    0.000_547_593_808_499_534_5,
    1.050_750_071_644_416_9e-9,
];
const FAR_ABOVE: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    0.296_560_571_828_504_87,
    0.026_532_189_526_576_124,
    0.001_242_660_947_388_078_4,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_BELOW: [f64; 8] = [
    1.0,
    0.599_832_206_555_888,
    0.136_929_880_922_735_8,
    0.014_875_361_290_850_615,
    0.000_786_869_131_145_613_2,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF, Normal};

    use super::*;

    #[test]
    fn logarithm_and_exponential_agree_with_the_library() {
        for n in 1..20_000_i32 {
            let x = (f64::from(n) * 0.73).powi(3) * 1e-9 + 1e-12;
            let (ours, theirs) = (logarithm(x), x.ln());
            assert!((ours - theirs).abs() <= 4e-16 * theirs.abs().max(1.0), "{x}: {ours} {theirs}");
            let y = f64::from(n - 10_000) * 0.0691;
            let (ours, theirs) = (exponential(y), y.exp());
            assert!((ours / theirs - 1.0).abs() <= 1e-15, "{y}: {ours} {theirs}");
        }
        assert_eq!(logarithm(1.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(exponential(0.0).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn inverse_normal_agrees_with_the_library() {
        let normal = Normal::standard();
        for n in 1..2000 {
            let share = f64::from(n) / 2000.0;
            let z = inverse_normal(share);
            assert!((normal.cdf(z) - share).abs() < 1e-10, "{share}: {z}");
            assert!((z + inverse_normal(1.0 - share)).abs() < 1e-13);
        }
        for (share, z) in
            [(0.975, 1.959_963_984_540_054), (1e-10, -6.361_340_902_404_056), (1e-20, -9.262_340_089_798_408)]
        {
            assert!(
                (inverse_normal(share) - z).abs() < 1e-13 * z.abs() * 10.0,
                "{share}: {}",
                inverse_normal(share)
            );
        }
        assert!((normal_share(1.959_963_984_540_054) - 0.975).abs() < 1e-14);
        assert!(normal_share(-40.0) < 1e-15 && normal_share(40.0) > 1.0 - 1e-15);
    }

    /// Part of what a seed stands for: these must never change by a single bit.
    #[test]
    fn the_values_are_what_they_were() {
        let values = [0.001, 0.2, 0.5, 0.9, 0.999_999].map(|share| inverse_normal(share).to_bits());
        assert_eq!(values, GOLDEN_INVERSE);
        let values = [-3.3, 0.1, 9.48, 20.0].map(|x| exponential(x).to_bits());
        assert_eq!(values, GOLDEN_EXPONENTIAL);
    }

    const GOLDEN_INVERSE: [u64; 5] = [
        13_837_513_040_186_066_032,
        13_829_127_906_547_864_371,
        0,
        4_608_450_414_325_689_651,
        4_617_037_898_413_868_529,
    ];
    const GOLDEN_EXPONENTIAL: [u64; 4] = [
        4_585_476_245_642_657_412,
        4_607_656_066_507_473_108,
        4_668_424_769_248_578_929,
        4_736_919_330_018_093_060,
    ];
}
