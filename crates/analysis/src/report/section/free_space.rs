//! Free space by extent size, over the run.

use maud::{Markup, html};

use super::{Content, Section};
use crate::report::figure::{Figure, choice, figure, options, select};
use crate::report::view::Age;

pub(super) const SECTION: Section = Section {
    id: "free-space",
    title: "Free space",
    script: include_str!("../assets/free_space.js"),
    render,
};

fn render(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    // By their places among the data of the charts.
    let (with, without): (Vec<(usize, &Age)>, Vec<_>) =
        view.ages().map(|(_, age)| age).enumerate().partition(|(_, age)| age.free.is_some());
    let without: Vec<&str> = without.into_iter().map(|(_, age)| age.label.as_str()).collect();
    if with.is_empty() {
        return (!without.is_empty()).then(|| no_map(&without));
    }
    let names: Vec<(String, String)> =
        with.iter().map(|(i, age)| (i.to_string(), age.label.clone())).collect();
    let mut none_or = vec![("none".to_owned(), "nothing".to_owned())];
    none_or.extend(names.iter().cloned());
    let controls = html! {
        (select("left", "show", &names, 0))
        (select("right", "beside", &none_or, usize::from(with.len() > 1) * 2))
        (choice("what", "count", &options(&[("count", "extents"), ("bytes", "bytes")])))
        (choice("view", "as", &options(&[("heat", "heat map"), ("surface", "3-D surface")])))
    };
    let maps = || with.iter().filter_map(|(_, age)| age.free.as_ref());
    let merged = maps().map(|map| map.merged).max().unwrap_or(1);
    let mut note = String::new();
    if merged > 1 {
        note.push_str(&format!(
            "A column stands for up to {merged} neighbouring probes; a cell is the largest number of any of them, so the \
             cells of a column may be of different probes. Hover over a cell for its median and smallest number."
        ));
    }
    let chart = figure(&Figure {
        id: "free-chart",
        kind: "free",
        title: "Free-space fragmentation",
        how_to_read: "time runs to the right, extent sizes upwards in powers of two, and the colour says how many free \
                      extents (or how many free bytes) there are of each size; fragmentation moves free space from a \
                      few large extents at the top to many small ones at the bottom.",
        controls,
        note: &note,
    });
    Some(html! { (chart) @if !without.is_empty() { (no_map(&without)) } })
}

/// Why there is nothing to draw.
fn no_map(without: &[&str]) -> Markup {
    html! {
        p.note.no-map {
            "No map of free space for " (without.join("; ")) ": no probe was made there, or the file system does not report its "
            "free extents. ext4 and xfs report them by FS_IOC_GETFSMAP and btrfs by its trees; file systems in user space (FUSE) "
            "and many others report only how much is free."
        }
    }
}
