//! Descriptions that are invalid are refused with their key and its limit.

use fsage_engine::workload::{ResolveContext, resolve};
use fsage_model::load::WriteMode;
use fsage_model::operation::OperationKind as K;
use fsage_model::size::Bytes;
use fsage_model::workload::{ChoiceSpec, DirectorySpec, DriftSpec, SizeSpec, UtilisationSpec, WorkloadSpec};

fn refusal(spec: DriftSpec, threads: u32) -> String {
    let context = ResolveContext { volume_bytes: 64 << 20, write_mode: WriteMode::Buffered };
    match resolve(&WorkloadSpec::Drift(spec), 0, threads, 1, &context) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn good() -> DriftSpec {
    DriftSpec { file_size: SizeSpec::Fixed { size: Bytes(4096) }, ..DriftSpec::default() }
}

#[test]
fn good_is_accepted() {
    assert_eq!(refusal(good(), 4), "accepted");
}

#[test]
fn counts_and_shares_have_limits() {
    let cases = [
        (DriftSpec { slots: 0, ..good() }, "slots = 0 is out of range: it must be at least 1"),
        (
            DriftSpec { slots: 3, ..good() },
            "threads = 4 contradicts slots = 3: each thread needs a slot of its own",
        ),
        (
            DriftSpec { slots: 1 << 40, ..good() },
            "slots = 1099511627776 is out of range: it must be at most 67108864",
        ),
        (
            DriftSpec { fsync_probability: 1.5, ..good() },
            "fsync_probability = 1.5 is out of range: it must be in 0..=1",
        ),
        (DriftSpec { fdatasync_probability: -0.1, ..good() }, "fdatasync_probability = -0.1"),
        (DriftSpec { fsync_probability: f64::NAN, ..good() }, "fsync_probability = NaN"),
        (DriftSpec { fill_until: 2.0, ..good() }, "fill_until = 2"),
        (DriftSpec { fill_bias: 0.5, ..good() }, "fill_bias = 0.5 is out of range: it must be at least 1"),
        (DriftSpec { random_accesses: 0, ..good() }, "random_accesses = 0"),
    ];
    for (spec, message) in cases {
        let refused = refusal(spec, 4);
        assert!(refused.starts_with(message), "{refused}");
    }
    assert!(refusal(good(), 0).starts_with("threads = 0"));
    assert!(refusal(good(), 65).starts_with("threads = 65"));
}

#[test]
fn weights_have_limits() {
    let with = |weights: &[(K, f64)]| DriftSpec { weights: weights.iter().copied().collect(), ..good() };
    let cases = [
        (with(&[]), "weights are all 0"),
        (with(&[(K::Create, 0.0)]), "weights are all 0"),
        (with(&[(K::Create, -1.0)]), "weights.create = -1"),
        (with(&[(K::Create, 1.0), (K::RandomWrite, f64::INFINITY)]), "weights.random_write = inf"),
        (with(&[(K::Read, 1.0)]), "weights.create is 0"),
    ];
    for (spec, message) in cases {
        let refused = refusal(spec, 1);
        assert!(refused.starts_with(message), "{refused}");
    }
    assert_eq!(refusal(with(&[(K::Mkdir, 1.0), (K::Rmdir, 1.0)]), 1), "accepted");
}

#[test]
fn sizes_choices_trees_and_fullness_have_limits() {
    let moving = |velocity, tick_operations| ChoiceSpec::Moving { deviation: 0.1, velocity, tick_operations };
    let hold = |target| Some(UtilisationSpec::Hold { target });
    let maintain =
        |max, free, check_operations| Some(UtilisationSpec::Maintain { max, free, check_operations });
    let tree = |count, fan_out, depth| DirectorySpec { count, fan_out, depth };
    let size = SizeSpec::Fixed { size: Bytes(65 << 20) };
    let cases = [
        (
            DriftSpec { file_size: size.clone(), ..good() },
            "file_size.size = 65MiB is larger than the volume, which has 64MiB",
        ),
        (DriftSpec { io_size: size, ..good() }, "io_size.size = 65MiB"),
        (DriftSpec { choice: ChoiceSpec::Gaussian { deviation: 0.0 }, ..good() }, "choice.deviation = 0"),
        (DriftSpec { choice: moving(f64::NAN, 1), ..good() }, "choice.velocity = NaN"),
        (DriftSpec { choice: moving(1.0, 0), ..good() }, "choice.tick_operations = 0"),
        (DriftSpec { directories: tree(0, 1, 1), ..good() }, "directories.count = 0"),
        (DriftSpec { directories: tree(1, 0, 1), ..good() }, "directories.fan_out = 0"),
        (DriftSpec { directories: tree(1, 1, 0), ..good() }, "directories.depth = 0"),
        (DriftSpec { directories: tree(1, 1, 201), ..good() }, "directories.depth = 201"),
        (
            DriftSpec { directories: tree(8, 2, 2), ..good() },
            "directories.count = 8 needs 8 directories per thread, but directories.fan_out = 2 and directories.depth = 2 have room for 7",
        ),
        (DriftSpec { utilisation: hold(0.0), ..good() }, "utilisation.target = 0"),
        (DriftSpec { utilisation: hold(1.0), ..good() }, "utilisation.target = 1"),
        (DriftSpec { utilisation: maintain(1.1, 0.1, 1), ..good() }, "utilisation.max = 1.1"),
        (DriftSpec { utilisation: maintain(0.9, 0.0, 1), ..good() }, "utilisation.free = 0"),
        (
            DriftSpec { utilisation: maintain(0.5, 0.6, 1), ..good() },
            "utilisation.free = 0.6 contradicts utilisation.max = 0.5",
        ),
        (DriftSpec { utilisation: maintain(0.9, 0.1, 0), ..good() }, "utilisation.check_operations = 0"),
    ];
    for (spec, message) in cases {
        let refused = refusal(spec, 1);
        assert!(refused.starts_with(message), "{refused}");
    }
    assert_eq!(refusal(DriftSpec { directories: tree(7, 2, 2), ..good() }, 1), "accepted");
}
