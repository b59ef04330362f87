//! The report of made-up stores: whole, empty, half run, damaged.

#![allow(clippy::unwrap_used, reason = "a test stops at the first fault")]

mod sample;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;

use fsage_analysis::report::findings::findings;
use fsage_analysis::report::{ReportOptions, render};
use fsage_lab::store::Reader;
use fsage_model::problem::Explain as _;
use fsage_model::reading::ReadError;
use fsage_model::record::{StageRecord, TrialStatus};
use sample::{Size, write_store, write_trial};

/// The two parts of the chart library, as they stand in the page.
const LIBRARY: [&str; 2] = [
    include_str!("../../analysis/src/report/assets/plotly/plotly-cartesian.min.js"),
    include_str!("../../analysis/src/report/assets/plotly/plotly-gl3d.min.js"),
];

/// The page without the chart library, which is large and not ours.
fn own(page: &str) -> String {
    [LIBRARY[0], packed(page)].iter().fold(page.to_owned(), |own, part| own.replacen(part, "", 1))
}

/// The second part of the library as the page has it.
fn packed(page: &str) -> &str {
    let (_, rest) = page.split_once("<script id=\"plotly-3d\" type=\"text/plain\">").unwrap();
    rest.split_once("</script>").unwrap().0
}

fn page(store: &Path) -> String {
    render(&Reader::open(store).unwrap(), &ReportOptions::default()).unwrap()
}

#[test]
fn a_whole_store_shows_every_section() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &sample::trials(Size::QUICK));
    let page = page(folder.path());
    if let Ok(path) = std::env::var("FSAGE_KEEP_REPORT") {
        fs::write(path, &page).unwrap();
    }
    for id in ["summary", "claims", "latency", "operations", "free-space", "extents", "layout", "differences"]
    {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{id} is missing");
    }
    for id in ["cost", "warnings", "setup", "trials", "glossary"] {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{id} is missing");
    }
    let own = own(&page);
    // One repeat is no more than this run.
    for verdict in ["\">in this run<", "\">not comparable<"] {
        assert!(own.contains(verdict), "{verdict}");
    }
    assert!(!own.contains("verdict holds") && !own.contains("verdict does-not"));
    assert!(!own.contains("This run is incomplete"));
    assert!(page.len() < 5 << 20, "{} bytes", page.len());
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &sample::trials(Size::QUICK));
    let own = own(&page(folder.path()));
    for forbidden in
        ["src=\"http", "href=\"http", "url(http", "@import", "src=\"//", "cdn.", "<iframe", "MathJax"]
    {
        assert!(!own.contains(forbidden), "{forbidden}");
    }
    let page = page(folder.path());
    assert_eq!(page.matches(LIBRARY[0]).count(), 1, "the first part must be inlined once");
    let packed = base64::engine::general_purpose::STANDARD.decode(packed(&page)).unwrap();
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut unpacked).unwrap();
    assert!(unpacked == LIBRARY[1], "the second part is not what was published");
}

#[test]
fn the_chart_library_is_as_published() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../analysis/src/report/assets/plotly");
    let output = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let named = fs::read_to_string(format!("{folder}/SHA256SUMS")).unwrap();
    for name in ["LICENSE", "plotly-cartesian.min.js", "plotly-gl3d.min.js"] {
        assert!(named.contains(name), "SHA256SUMS does not name {name}");
    }
    for (part, name) in LIBRARY.iter().zip(["cartesian", "gl3d"]) {
        assert!(part.starts_with(&format!("/**\n* plotly.js ({name} - minified) v4.1.1\n")), "{name}");
        // Either would end the script element early or hide its end from the parser.
        assert!(!part.contains("</script") && !part.contains("<!--"), "{name}");
    }
}

#[test]
fn the_page_carries_the_licence_of_the_chart_library() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &[]);
    let licence = include_str!("../../analysis/src/report/assets/plotly/LICENSE");
    assert!(licence.starts_with("MIT License") && !licence.contains("--"));
    assert!(page(folder.path()).contains(licence));
}

#[test]
fn the_same_store_gives_the_same_page() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &sample::trials(Size { ticks: 60, ..Size::QUICK }));
    assert!(page(folder.path()) == page(folder.path()));
}

#[test]
fn a_store_without_trials_says_so() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &[]);
    let page = page(folder.path());
    assert!(page.contains("No trial is complete yet"));
    assert!(page.contains("no trial is complete"), "claims must say why they are not tested");
    fs::remove_dir(folder.path().join("trials")).unwrap();
    assert!(
        render(&Reader::open(folder.path()).unwrap(), &ReportOptions::default())
            .unwrap()
            .contains("No trial is complete yet")
    );
}

#[test]
fn one_trial_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &[sample::trial("ext4", 0.8, 0, Size::QUICK)]);
    let page = page(folder.path());
    assert!(page.contains("1 trial complete on ext4"));
    assert!(!page.contains("<section id=\"differences\""));
}

#[test]
fn damage_is_told_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut trials = sample::trials(Size { ticks: 40, ..Size::QUICK });
    let failed = trials.last_mut().unwrap();
    failed.status = TrialStatus::Failed;
    failed.error = "mount of /dev/loop7 failed: EINVAL <script>alert(1)</script>".to_owned();
    write_store(folder.path(), &trials);
    let path = folder.path().join("trials").join(&trials[0].id).join("trial.json");
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    fs::create_dir(folder.path().join("trials/feedfeedfeedfeed")).unwrap();
    let mut newer = trials[1].clone();
    newer.version = 99;
    newer.id = "0123456701234567".to_owned();
    write_trial(folder.path(), &newer);
    fs::write(folder.path().join("plan.json"), "{").unwrap();
    let page = own(&page(folder.path()));
    assert!(page.contains("This run is incomplete: 4 complete"));
    assert!(page.contains("its record was left out: it ends after"));
    assert!(page.contains("it was begun and not finished"));
    assert!(page.contains("it has store version 99"));
    assert!(page.contains("the plan is damaged"));
    assert!(page.contains("&lt;script&gt;alert(1)"), "errors must be escaped");
}

#[test]
fn an_unreadable_study_is_no_reason_to_show_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &[sample::trial("xfs", 0.8, 0, Size::QUICK)]);
    fs::write(folder.path().join("study.toml"), "name = 3").unwrap();
    let page = page(folder.path());
    assert!(page.contains("the study cannot be understood"));
    assert!(page.contains("<section id=\"latency\""));
}

#[test]
fn a_folder_that_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Reader::open(folder.path()).unwrap_err();
    assert!(matches!(error, ReadError::NotAStore { .. }));
    assert!(error.hint().is_some());
}

#[test]
fn three_repeats_draw_trials() {
    let folder = tempfile::tempdir().unwrap();
    let size = Size { ticks: 40, repeats: 3, ..Size::QUICK };
    write_store(folder.path(), &sample::trials(size));
    let page = own(&page(folder.path()));
    assert!(page.contains("over repeats"));
    assert!(page.contains("repeat 3"));
}

#[test]
fn many_comparisons_are_counted_and_corrected_for() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &sample::trials(Size { ticks: 40, repeats: 3, ..Size::QUICK }));
    let page = own(&page(folder.path()));
    assert!(page.contains(" comparisons made: "), "the headline says how many were made");
    assert!(page.contains("false discovery rate 5"));
    assert!(page.contains("\"survives\":true") && page.contains("\"survives\":false"));
}

#[test]
fn zeros_are_counted_beside_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut trials = sample::trials(Size { ticks: 40, repeats: 3, ..Size::QUICK });
    for metric in &mut trials[0].metrics {
        if metric.name == "free.extents" || metric.name == "latency.create.mean_ns" {
            metric.samples = vec![0.0];
        }
    }
    write_store(folder.path(), &trials);
    let page = own(&page(folder.path()));
    assert!(table(&page, "claim-table").contains("with a zero left out"));
    assert!(table(&page, "difference-table").contains("with a zero left out"));
}

#[test]
fn trials_on_different_tools_and_kernels_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut trials = sample::trials(Size { ticks: 40, ..Size::QUICK });
    write_store(folder.path(), &trials);
    assert!(!page(folder.path()).contains("Trials differ in setup"));
    trials[2].host.kernel = "6.19.1-other".to_owned();
    trials[2].host.tools.insert("mkfs.btrfs".to_owned(), "mkfs.btrfs, part of btrfs-progs v6.14".to_owned());
    write_store(folder.path(), &trials);
    let page = own(&page(folder.path()));
    assert!(page.contains("Trials differ in setup: </b>kernel, mkfs.btrfs. "));
    assert!(page.contains("btrfs-progs v6.2 (") && page.contains("btrfs-progs v6.14 (btrfs · "));
}

#[test]
fn a_volume_that_is_full_below_its_target_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut full = sample::trial("btrfs", 0.95, 0, Size { ticks: 40, ..Size::QUICK });
    write_store(folder.path(), std::slice::from_ref(&full));
    assert!(!page(folder.path()).contains("found no space although"));
    #[allow(clippy::infallible_destructuring_match, irrefutable_let_patterns, reason = "more kinds may come")]
    if let StageRecord::Age { probes, .. } = &mut full.stages[0] {
        for probe in probes {
            probe.used_bytes = probe.used_bytes.min(890_000_000);
        }
    }
    write_store(folder.path(), &[full]);
    let page = page(folder.path());
    assert!(page.contains("12 operations found no space although statfs never showed more than 89"));
}

#[test]
fn without_a_free_space_map_the_page_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut trial = sample::trial("fuse.sample", 0.8, 0, Size { ticks: 40, ..Size::QUICK });
    #[allow(irrefutable_let_patterns, reason = "more kinds may come")]
    if let StageRecord::Age { probes, result, .. } = &mut trial.stages[0] {
        result.free_space = None;
        for probe in probes {
            probe.free_space = None;
        }
    }
    write_store(folder.path(), &[trial]);
    let page = page(folder.path());
    assert!(
        page.contains("<section id=\"free-space\"") && page.contains("No map of free space for fuse.sample")
    );
}

/// Cells of the row of a table that has all of `texts`.
fn cells(page: &str, id: &str, texts: &[&str]) -> Vec<String> {
    let table = table(page, id);
    let row = table.split("\n<tr").find(|row| texts.iter().all(|text| row.contains(text))).unwrap();
    let cell = |cell: &str| {
        let text = &cell[cell.find('>').unwrap() + 1..cell.find("</td>").unwrap()];
        text.replace('\u{202f}', " ")
    };
    row.split("<td").skip(1).map(cell).collect()
}

#[test]
fn points_of_fio_have_their_saturation_and_their_law() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &sample::points::trials(5));
    let page = own(&page(folder.path()));
    let xfs = cells(&page, "scaling-table", &[">xfs<"]);
    assert_eq!(
        xfs[..6],
        ["randread", "4 KiB, libaio, 1 job, 1 file", "xfs", "depth", "1, 64 (7)", "5 repeats"]
    );
    // The largest rate is 90,300 at 32, 95 % of which is 85,800; at 16 it is 80,400.
    assert_eq!(xfs[6..8], ["32", "32"], "{xfs:?}");
    let number = |cell: &str| cell.replace(',', "").parse::<f64>().unwrap();
    assert!((9_800.0..10_200.0).contains(&number(&xfs[8])), "{xfs:?}");
    assert!((0.04..0.06).contains(&number(&xfs[9])) && xfs[10].contains(", "), "{xfs:?}");
    assert!(xfs[13].starts_with("30.") || xfs[13].starts_with("31."), "the rate falls beyond: {xfs:?}");
    assert_eq!(xfs[15], "");
    let bare = cells(&page, "scaling-table", &[">bare<"]);
    assert_eq!(bare[6..8], ["16", "16"], "{bare:?}");
    assert!(bare[8] == "–" && bare[15].starts_with("law: does not hold: off by "), "{bare:?}");
    assert!(page.contains("id=\"device-percentile-chart\""));
    assert!(page.contains("\"percent\":[1.0,5.0,") && page.contains("data-chart=\"device_percentiles\""));
    let found = findings(&Reader::open(folder.path()).unwrap(), &ReportOptions::default()).unwrap();
    let json = serde_json::to_value(&found).unwrap();
    let fits = json["scaling"].as_array().unwrap();
    assert_eq!((fits.len(), &fits[0]["over"], &fits[0]["loads"][6]), (2, &"depth".into(), &64.into()));
    let law = |name: &str| fits.iter().find(|fit| fit["file_system"] == name).unwrap()["law"].clone();
    assert!(law("bare").is_null());
    let kappa = &law("xfs")["kappa"];
    assert!(kappa["low"].as_f64().unwrap() > 0.0 && kappa["high"].as_f64().unwrap() < 0.002, "{kappa}");
}

#[test]
fn hosts_that_share_a_volume_have_the_cost_of_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), &sample::cluster::trials());
    let page = own(&page(folder.path()));
    let row = |words: &[&str]| cells(&page, "cluster-table", words);
    let same = row(&[">ocfs2-full<", ">same files<"]);
    assert_eq!(same[..4], ["randwrite-4k-libaio-d1-j1-f16", "ocfs2-full", "same files", "3 trials"]);
    assert!(same[4].starts_with("48.") && same[5].contains(" to "), "{same:?}");
    assert_eq!((same[6].as_str(), same[8].as_str(), same[13].as_str()), ("2.00", "4.50", "90 %"), "{same:?}");
    let disjoint = row(&[">ocfs2-full<", ">disjoint files<"]);
    assert_eq!((disjoint[0].as_str(), disjoint[6].as_str()), ("randwrite-4k-libaio-d1-j1-f8", "–"));
    assert_eq!(row(&[">ocfs2<", ">same files<"])[6], "1.00");
    assert!(
        page.contains("\"load\":\"randwrite-4k-libaio-d1-j1\"") && page.contains("data-chart=\"cluster\"")
    );
}

#[test]
fn one_repeat_has_a_law_without_intervals_and_old_records_no_percentiles() {
    let folder = tempfile::tempdir().unwrap();
    let mut trials = sample::points::trials(1);
    for trial in &mut trials {
        for stage in &mut trial.stages {
            let StageRecord::Fio(fio) = stage else { continue };
            fio.results.iter_mut().for_each(|result| result.read_percentiles.clear());
        }
    }
    write_store(folder.path(), &trials);
    let page = own(&page(folder.path()));
    let xfs = cells(&page, "scaling-table", &[">xfs<"]);
    assert_eq!((xfs[5].as_str(), xfs[7].as_str(), xfs[13].as_str()), ("1 trial", "", ""));
    assert_eq!(xfs[10], "no interval: one repeat");
    assert!(!page.contains("id=\"device-percentile-chart\""));
}

/// The rows of one table, for snapshots.
fn table(page: &str, id: &str) -> String {
    let begin = page.find(&format!("id=\"{id}\"")).unwrap();
    let begin = begin + page[begin..].find("<table>").unwrap();
    let end = begin + page[begin..].find("</table>").unwrap();
    page[begin..end].replace("<tr", "\n<tr").replace("<td", "\n  <td").replace("<th ", "\n  <th ")
}

/// Numbers become `N`, so that the snapshot holds the markup and not the made-up values.
fn masked(markup: &str) -> String {
    let mut text = String::new();
    let mut number = false;
    let mut letters = markup.chars().peekable();
    while let Some(letter) = letters.next() {
        let groups = letter == ',' && letters.peek().is_some_and(char::is_ascii_digit);
        let part =
            letter.is_ascii_digit() || (number && (groups || matches!(letter, '.' | '\u{202f}' | 'e' | '-')));
        if part && !number {
            text.push('N');
        }
        if !part {
            text.push(letter);
        }
        number = part;
    }
    text
}

#[test]
fn tables_keep_their_markup() {
    let folder = tempfile::tempdir().unwrap();
    let trials = [sample::trial("ext4", 0.8, 0, Size::QUICK), sample::trial("xfs", 0.8, 0, Size::QUICK)];
    write_store(folder.path(), &trials);
    let page = own(&page(folder.path()));
    for id in ["claim-table", "layout-table", "cost-table", "digest-table"] {
        insta::assert_snapshot!(id, masked(&table(&page, id)));
    }
}
