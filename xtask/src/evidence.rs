//! docs/evidence.md names the tests that keep mistakes out: each of them is there.

use crate::structure;

/// The names between backticks of a line, in order.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_test_that_is_named_exists() {
    let page = std::fs::read_to_string(structure::root().join("docs/evidence.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.contains("`crates/")).collect();
    assert!(rows.len() >= 12, "{} rows name tests", rows.len());
    for row in rows {
        let (_, tests) = row.trim_end_matches(['|', ' ']).rsplit_once('|').unwrap();
        let mut source = String::new();
        let mut found = 0;
        for name in quoted(tests) {
            if name.starts_with("crates/") {
                source = std::fs::read_to_string(structure::root().join(name)).unwrap();
                continue;
            }
            let test = format!("fn {name}()");
            let before =
                source.split_once(&test).unwrap_or_else(|| panic!("no test `{name}` is there: {row}")).0;
            assert!(before.trim_end().ends_with("#[test]"), "`{name}` is no test");
            found += 1;
        }
        assert!(found > 0, "{row}");
    }
}
