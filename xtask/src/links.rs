//! Links of the documents: each relative link leads to a file of the repository, each anchor to a heading,
//! and the book holds every page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::structure;

/// Markdown files of the repository: the README and its sisters, and all below `docs`.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, deep: bool, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && deep {
                below(&path, deep, found);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    below(structure::root(), false, &mut found);
    below(&structure::root().join("docs"), true, &mut found);
    found.sort();
    found
}

/// The text outside blocks of code.
fn prose(text: &str) -> String {
    let mut code = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code && !line.starts_with("    ") {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Targets of `[text](target)` and `![text](target)`.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// What a heading is linked by, on GitHub and in the book.
fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let prose = prose(text);
    let titles = prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    titles
        .map(|title| {
            let name = anchor(title);
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
        })
        .collect()
}

/// Why a link leads nowhere.
fn fault(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) =
        target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    if !path.exists() {
        return Some(format!("{}: {target}: no such file", page.display()));
    }
    let text = || std::fs::read_to_string(&path).unwrap_or_default();
    let wrong = heading.is_some_and(|heading| !anchors(&text()).contains(heading));
    wrong.then(|| format!("{}: {target}: no such heading", page.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let mut faults = Vec::new();
    let mut count = 0;
    for page in pages() {
        for target in links(&std::fs::read_to_string(&page).unwrap()) {
            count += 1;
            faults.extend(fault(&page, &target));
        }
    }
    assert!(count > 100, "{count} links");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_book_has_every_page() {
    let docs = structure::root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary).iter().map(|target| docs.join(target)).collect();
    let below = pages().into_iter().filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md"));
    let missing: Vec<PathBuf> = below.filter(|page| !listed.contains(page)).collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
}

#[test]
fn wrong_links_are_found() {
    let text = "# A `b`, c\n\n## Twice\n\n## Twice\n\n[x](y.md#z) ![i](j.png)\n\n    [code](none)\n";
    assert_eq!(links(text), ["y.md#z", "j.png"]);
    let wanted = ["a-b-c", "twice", "twice-1"].map(str::to_owned);
    assert_eq!(anchors(text), BTreeSet::from(wanted));
    let page = structure::root().join("README.md");
    assert!(
        fault(&page, "docs/no-such-page.md").is_some() && fault(&page, "docs/study.md#no-such-key").is_some()
    );
    assert_eq!(fault(&page, "https://example.org/none"), None);
}

/// What docs/targets.md says that a kernel of one's own needs is in the configuration that docs/own-kernel.md builds.
#[test]
fn the_smallest_kernel_has_all_that_guests_need() {
    let docs = structure::root().join("docs");
    let text = std::fs::read_to_string(docs.join("targets.md")).unwrap();
    let config = std::fs::read_to_string(docs.join("examples/own-kernel.config")).unwrap();
    let section =
        text.split("### Custom kernels\n").nth(1).and_then(|rest| rest.split("\n### ").next()).unwrap();
    let wanted = section.split('`').filter(|word| word.starts_with("CONFIG_"));
    let missing: Vec<&str> = wanted.clone().filter(|key| !config.contains(&format!("\n{key}=y\n"))).collect();
    assert!(wanted.count() > 8 && missing.is_empty(), "{missing:?}");
}
