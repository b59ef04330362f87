//! Limits of a workload's parameters.

use fsage_engine::workload::{ResolveContext, resolve};
use fsage_model::fit::derived;
use fsage_model::load::WriteMode;
use fsage_model::operation::ACCESSES_LIMIT;
use fsage_model::size::Bytes;
use fsage_model::workload::{ChoiceSpec, DriftSpec, SizeSpec, UtilisationSpec, WorkloadSpec};

use super::Checker;

/// Checks a workload of `threads` threads on a volume of `volume` bytes (where that is known).
pub(super) fn check(check: &mut Checker, spec: &WorkloadSpec, threads: u64, volume: Option<Bytes>) {
    let Some(drift) = spec.drift() else { return resolved(check, spec, threads, volume) };
    if let Some(Err(error)) = drift.like.as_ref().map(|like| like.profile.check()) {
        return check.fail("like", error.to_string());
    }
    let bytes = volume.map_or(0, |volume| volume.0);
    let drift = &derived(drift, bytes, u32::try_from(threads).unwrap_or(u32::MAX));
    check.require(drift.slots >= threads, "slots", || {
        format!("{} file slots are too few: at least 1 per thread ({threads})", drift.slots)
    });
    weights(check, drift);
    choice(check, &drift.choice);
    size(check, "file_size", &drift.file_size, volume);
    size(check, "io_size", &drift.io_size, volume);
    check.require(drift.directories.count >= threads, "directories.count", || {
        format!("{} directories are too few: at least 1 per thread ({threads})", drift.directories.count)
    });
    check.at_least("directories.fan_out", drift.directories.fan_out, 1);
    check.at_least("directories.depth", u64::from(drift.directories.depth), 1);
    check.share("fsync_probability", drift.fsync_probability);
    check.share("fdatasync_probability", drift.fdatasync_probability);
    check.share("fill_until", drift.fill_until);
    check.require(drift.fill_bias.is_finite() && drift.fill_bias >= 1.0, "fill_bias", || {
        format!("{} is too small: at least 1", drift.fill_bias)
    });
    check.at_least("random_accesses", u64::from(drift.random_accesses), 1);
    check.require(drift.random_accesses <= ACCESSES_LIMIT, "random_accesses", || {
        format!("{} is too large: at most {ACCESSES_LIMIT}", drift.random_accesses)
    });
    if let Some(utilisation) = &drift.utilisation {
        upkeep(check, utilisation);
    }
}

/// A workload whose own rules are all there are: the first that is broken is reported.
fn resolved(check: &mut Checker, spec: &WorkloadSpec, threads: u64, volume: Option<Bytes>) {
    let context =
        ResolveContext { volume_bytes: volume.map_or(0, |volume| volume.0), write_mode: WriteMode::Buffered };
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    if let Err(error) = resolve(spec, 0, threads, 0, &context) {
        check.fail(error.key(), error.to_string());
    }
}

fn weights(check: &mut Checker, drift: &DriftSpec) {
    for (kind, weight) in &drift.weights {
        check.require(weight.is_finite() && *weight >= 0.0, &format!("weights.{}", kind.name()), || {
            format!("{weight} is not a weight: a number, 0 or more")
        });
    }
    check.require(drift.weights.values().any(|w| *w > 0.0), "weights", || {
        "every weight is 0: at least one operation must be possible".to_owned()
    });
}

fn choice(check: &mut Checker, choice: &ChoiceSpec) {
    match choice {
        ChoiceSpec::Uniform => {}
        ChoiceSpec::Gaussian { deviation } => check.positive("choice.deviation", *deviation),
        ChoiceSpec::Moving { deviation, velocity, tick_operations } => {
            check.positive("choice.deviation", *deviation);
            check.require(velocity.is_finite(), "choice.velocity", || format!("{velocity} must be a number"));
            check.at_least("choice.tick_operations", *tick_operations, 1);
        }
    }
}

fn size(check: &mut Checker, key: &str, spec: &SizeSpec, volume: Option<Bytes>) {
    let at = |name: &str| format!("{key}.{name}");
    let (name, least, largest) = match spec {
        SizeSpec::Fixed { size } => ("size", *size, *size),
        SizeSpec::Uniform { min, max } => ("max", *min, *max),
        SizeSpec::Lognormal { mu, sigma, min, max } => {
            check.require(mu.is_finite(), &at("mu"), || format!("{mu} must be a number"));
            check.positive(&at("sigma"), *sigma);
            ("max", *min, *max)
        }
        SizeSpec::Agrawal { max } => ("max", Bytes(1), *max),
        SizeSpec::Table { rows } => {
            table(check, &at("rows"), rows);
            let bound = rows.iter().map(|(bound, _)| *bound).max().unwrap_or(Bytes(1));
            ("rows", Bytes(1), bound)
        }
    };
    check.require(least.0 >= 1, &at("min"), || "a size must be at least 1 byte".to_owned());
    check.require(largest.0 >= 1, &at(name), || "a size must be at least 1 byte".to_owned());
    check.require(least <= largest, &at(name), || format!("{largest} is smaller than `min` ({least})"));
    if let Some(volume) = volume {
        check.require(largest <= volume, &at(name), || {
            format!("{largest} is larger than the volume ({volume})")
        });
    }
}

fn table(check: &mut Checker, key: &str, rows: &[(Bytes, f64)]) {
    check.require(!rows.is_empty(), key, || "the table is empty".to_owned());
    check.require(rows.windows(2).all(|w| w[0].0 < w[1].0), key, || "bounds must rise".to_owned());
    check.require(rows.iter().all(|(_, w)| w.is_finite() && *w >= 0.0), key, || {
        "weights must be 0 or more".to_owned()
    });
    check.require(rows.is_empty() || rows.iter().any(|(_, w)| *w > 0.0), key, || {
        "every weight is 0".to_owned()
    });
}

fn upkeep(check: &mut Checker, spec: &UtilisationSpec) {
    match spec {
        UtilisationSpec::Maintain { max, free, check_operations } => {
            check.share("utilisation.max", *max);
            check.positive("utilisation.max", *max);
            check.share("utilisation.free", *free);
            check.positive("utilisation.free", *free);
            check.require(free <= max, "utilisation.free", || format!("{free} is more than `max` ({max})"));
            check.at_least("utilisation.check_operations", *check_operations, 1);
        }
        UtilisationSpec::Hold { target } => {
            check.positive("utilisation.target", *target);
            check.share("utilisation.target", *target);
        }
    }
}
