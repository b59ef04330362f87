//! The rooms as a picture: a box for each crate, in it its modules, arrows to what each uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Workspace;

type Uses = BTreeMap<String, BTreeSet<String>>;

const MODULE_HEIGHT: usize = 22;
const ROW: usize = MODULE_HEIGHT + 24;
const PADDING: usize = 16;
const GAP: usize = 12;
const HEADING: usize = 26;
const BETWEEN_CRATES: usize = 44;
const WIDTH: usize = 1240;
const STYLE: &str = "text{font:11px sans-serif;fill:#1b2733}.name{font-weight:bold;font-size:13px}\
    .crate{fill:#eef2f7;stroke:#b9c4d0}.module{fill:#fff;stroke:#8796a5}\
    .uses{stroke:#4a6a8a;stroke-opacity:.35;fill:none;marker-end:url(#tip)}\
    .depends{stroke:#1b2733;stroke-width:2;fill:none;marker-end:url(#tip)}";

/// Where something lies, in pixels from the upper left corner.
#[derive(Clone, Copy, Default)]
struct Area {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Area {
    const fn middle(self) -> usize {
        self.left + self.width / 2
    }

    const fn bottom(self) -> usize {
        self.top + self.height
    }
}

/// Crates from the one that uses most, at the top, to the one that all use, at the bottom; so are the modules in
/// each. An arrow that ran up would be a circle.
#[must_use]
pub fn picture(workspace: &Workspace) -> String {
    let crates: Uses = workspace
        .iter()
        .filter(|(name, _)| *name != "bench")
        .map(|(name, krate)| (name.clone(), krate.dependencies.clone()))
        .collect();
    let mut areas: BTreeMap<String, Area> = BTreeMap::new();
    let mut top = PADDING;
    let mut boxes = String::new();
    for row in rows(&crates) {
        let width = (WIDTH - PADDING * (row.len() + 1)) / row.len();
        let bottoms = row.into_iter().enumerate().map(|(number, name)| {
            let place = Area { left: PADDING + number * (width + PADDING), top, width, height: 0 };
            let area = room(&name, &modules(workspace, &name), place, &mut boxes);
            areas.insert(name, area);
            area.bottom()
        });
        top = bottoms.max().unwrap_or(top) + BETWEEN_CRATES;
    }
    let mut arrows = String::new();
    for (name, used) in &crates {
        for other in without_detours(used, &crates) {
            let (from, to) = (areas[name], areas[&other]);
            let at = (from.middle(), from.bottom(), to.middle(), to.top - 2);
            let _ = writeln!(arrows, "<path class=\"depends\" d=\"M{} {} L{} {}\"/>", at.0, at.1, at.2, at.3);
        }
    }
    let (width, height) = (WIDTH, top);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <style>{STYLE}</style>\n<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#4a6a8a\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{arrows}{boxes}</svg>\n"
    )
}

/// The modules of a crate, each with those that it uses.
fn modules(workspace: &Workspace, name: &str) -> Uses {
    let krate = &workspace[name];
    let none = BTreeSet::new();
    krate
        .lines
        .keys()
        .filter(|module| !matches!(module.as_str(), "lib" | "main" | "bin"))
        .map(|module| (module.clone(), krate.uses.get(module).unwrap_or(&none).clone()))
        .collect()
}

/// Draws one crate from the upper edge of `place` on, as high as it must be.
fn room(name: &str, modules: &Uses, place: Area, out: &mut String) -> Area {
    let mut areas: BTreeMap<&str, Area> = BTreeMap::new();
    let rows = rows(modules);
    for (number, row) in rows.iter().enumerate() {
        let width = |module: &String| 7 * module.len() + 14;
        let whole: usize = row.iter().map(|module| width(module) + GAP).sum();
        let mut left = place.left + (place.width + GAP).saturating_sub(whole) / 2;
        for module in row {
            let top = place.top + HEADING + number * ROW;
            areas.insert(module, Area { left, top, width: width(module), height: MODULE_HEIGHT });
            left += width(module) + GAP;
        }
    }
    let area = Area { height: HEADING + rows.len() * ROW - ROW + MODULE_HEIGHT + PADDING, ..place };
    let top = area.top;
    let _ = writeln!(
        out,
        "<rect class=\"crate\" x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{}\" rx=\"8\"/>\
         <text class=\"name\" x=\"{}\" y=\"{}\">{name}</text>",
        area.left,
        area.width,
        area.height,
        area.left + PADDING,
        top + 18
    );
    for (module, used) in modules {
        for (from, to) in
            used.iter().filter_map(|other| Some((areas[module.as_str()], *areas.get(other.as_str())?)))
        {
            let (bend, end) = (from.bottom() + 14, to.top.saturating_sub(1));
            let _ = writeln!(
                out,
                "<path class=\"uses\" d=\"M{} {} C{} {bend} {} {} {} {end}\"/>",
                from.middle(),
                from.bottom(),
                from.middle(),
                to.middle(),
                end.saturating_sub(14),
                to.middle()
            );
        }
    }
    for (module, area) in &areas {
        let _ = writeln!(
            out,
            "<rect class=\"module\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{MODULE_HEIGHT}\" rx=\"4\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{module}</text>",
            area.left,
            area.top,
            area.width,
            area.middle(),
            area.top + 15
        );
    }
    area
}

/// Names from those that nothing uses down to those that use nothing, each row above all that its names use.
/// What lies in a circle is left out; the structure's tests find it.
fn rows(uses: &Uses) -> Vec<Vec<String>> {
    let mut left: BTreeSet<&String> = uses.keys().collect();
    let mut rows = Vec::new();
    loop {
        let used: BTreeSet<&String> = left.iter().flat_map(|name| &uses[*name]).collect();
        let row: Vec<String> =
            left.iter().filter(|name| !used.contains(*name)).map(|name| (*name).clone()).collect();
        if row.is_empty() {
            return rows;
        }
        left.retain(|name| used.contains(name));
        rows.push(row);
    }
}

/// What is used directly and by nothing else that is used.
fn without_detours(used: &BTreeSet<String>, uses: &Uses) -> Vec<String> {
    let through: BTreeSet<&String> = used.iter().filter_map(|other| uses.get(other)).flatten().collect();
    used.iter().filter(|other| !through.contains(other) && uses.contains_key(*other)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(pairs: &[(&str, &[&str])]) -> Uses {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        pairs.iter().map(|(name, used)| ((*name).to_owned(), owned(used))).collect()
    }

    #[test]
    fn every_row_stands_above_what_it_uses() {
        let uses = uses(&[("a", &["b", "d"]), ("b", &["c"]), ("c", &[]), ("d", &["c"]), ("e", &[])]);
        assert_eq!(rows(&uses), [vec!["a", "e"], vec!["b", "d"], vec!["c"]]);
        assert_eq!(without_detours(&["b".to_owned(), "c".to_owned()].into(), &uses), ["b"]);
    }

    #[test]
    fn the_picture_of_the_documents_is_current() {
        let workspace = super::super::read(super::super::root()).unwrap();
        let kept = std::fs::read_to_string(super::super::root().join("docs/images/rooms.svg")).unwrap();
        assert!(kept == picture(&workspace), "run `make rooms`");
    }
}
