//! Profiles: what is refused, and what becomes of one on a volume.

use std::collections::BTreeSet;

use fsage_model::fit::{Fit, derived};
use fsage_model::layout::size_bound;
use fsage_model::profile::*;
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::workload::{DerivedKey, DriftSpec, LikeSpec, SizeSpec, UtilisationSpec};

use super::{Random, Sizes};

fn profile() -> Profile {
    Profile {
        profile_version: PROFILE_VERSION,
        source: Source { file_system: "ext4".to_owned(), volume_bytes: 1 << 30, used_bytes: 3 << 28 },
        files: Files {
            count: 100,
            bytes: 40 * 4096 + 30 * 10_240 + 9 * 100_000 + (1 << 30),
            mapped: 80,
            unseen: 0,
            one_extent_share: 0.9,
            extents_per_file: 1.25,
            layout_score: 0.97,
            sizes: vec![
                (0, 20, 0),
                (4096, 40, 40 * 4096),
                (10_240, 30, 30 * 10_240),
                (114_688, 9, 900_000),
                (1 << 30, 1, 1 << 30),
            ],
            extents: vec![(1, 72), (2, 4), (8, 4)],
        },
        directories: Directories {
            count: 10,
            files: vec![(4, 4), (16, 6)],
            subdirectories: vec![(0, 7), (4, 3)],
            depths: vec![(0, 1), (1, 3), (2, 6)],
        },
        used_extents: Extents { count: 1, bytes: 8192, sizes: vec![(8192, 1, 8192)] },
        free_space: None,
    }
}

#[test]
fn numbers_that_no_tree_has_are_refused_with_their_key() {
    assert_eq!(profile().check(), Ok(()));
    type Change = fn(&mut Profile);
    let cases: [(&str, Change); 14] = [
        ("profile_version = 2 is not known", |p| p.profile_version = 2),
        ("source.volume_bytes = 0", |p| p.source.volume_bytes = 0),
        ("source.used_bytes = 1073741825", |p| p.source.used_bytes = (1 << 30) + 1),
        ("files.count = 0", |p| p.files.count = 0),
        ("files.mapped = 101", |p| p.files.mapped = 101),
        ("files.one_extent_share = NaN", |p| p.files.one_extent_share = f64::NAN),
        ("files.one_extent_share = -0.1", |p| p.files.one_extent_share = -0.1),
        ("files.layout_score = inf", |p| p.files.layout_score = f64::INFINITY),
        ("files.extents_per_file = 0.5", |p| p.files.extents_per_file = 0.5),
        ("files.sizes add up to 0", |p| p.files.sizes.clear()),
        ("files.sizes[1] is not above", |p| p.files.sizes[1].0 = 0),
        ("files.sizes[1] has a sum", |p| p.files.sizes[1].2 = 1 << 40),
        ("files.extents[1] counts nothing", |p| p.files.extents[1].1 = 0),
        ("directories.depths add up to 11", |p| p.directories.depths[0].1 = 2),
    ];
    for (message, change) in cases {
        let mut wrong = profile();
        change(&mut wrong);
        let error = wrong.check().expect_err(message).to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn counts_are_scaled_and_shares_stay() {
    let fit = Fit::new(&profile(), 1 << 30, 1);
    assert_eq!((fit.left_out, fit.largest_bytes), (1, 114_688), "a file of 1 GiB is too large for 1 GiB");
    assert!((fit.used_share - 0.75).abs() < 1e-12);
    // 40 × 4 KiB + 30 × 12 KiB + 9 × 100 KiB in whole blocks, for 99 files.
    let mean = (40.0 * 4096.0 + 30.0 * 12_288.0 + 9.0 * 102_400.0) / 99.0;
    let files = 0.75 * f64::from(1 << 30) / mean;
    assert!((as_f64(fit.files) - files).abs() < 1.0, "{} {files}", fit.files);
    assert!((fit.divisible_share - 39.0 / 99.0).abs() < 1e-12);
    // A tenth as many directories as files, three below each that has any.
    assert_eq!((fit.directories.count, fit.directories.fan_out), (to_u64(files / 10.0), 3));
    assert!(3_u64.pow(fit.directories.depth) >= fit.directories.count);
}

#[test]
fn drawn_sizes_have_the_distribution_of_the_profile() {
    let fit = Fit::new(&profile(), 1 << 30, 1);
    let sizes = Sizes::resolve(&fit.size_table(), "file_size", 1 << 30).expect("valid");
    let mut random = Random::new(3, 0);
    let mut drawn = std::collections::BTreeMap::new();
    for _ in 0..20_000 {
        let size = sizes.draw(&mut random);
        let row = drawn.entry(size_bound(size)).or_insert((0, 0));
        *row = (row.0 + 1, row.1 + size);
    }
    let rows: Vec<_> = drawn.into_iter().map(|(bound, (files, bytes))| (bound, files, bytes)).collect();
    let bounds: Vec<u64> = rows.iter().map(|row| row.0).collect();
    assert_eq!(bounds, [1, 4096, 10_240, 114_688], "nothing between the rows");
    assert!(size_distance(&rows, &fit.sizes) < 0.015);
}

#[test]
fn given_keys_win_over_derived_ones() {
    let given = BTreeSet::from([DerivedKey::Slots]);
    let like = LikeSpec { profile: profile(), given };
    let spec = DriftSpec { slots: 77, like: Some(Box::new(like)), ..DriftSpec::default() };
    let once = derived(&spec, 1 << 30, 2);
    assert_eq!(once.slots, 77);
    assert!(matches!(once.file_size, SizeSpec::Table { .. }));
    assert_eq!(once.utilisation, Some(UtilisationSpec::Hold { target: 0.75 }));
    assert_eq!(derived(&once, 5 << 30, 1), once, "what is derived stays");
    assert_eq!(derived(&DriftSpec::default(), 1 << 30, 1), DriftSpec::default());
}
