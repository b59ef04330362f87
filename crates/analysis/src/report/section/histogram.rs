//! Sizes of used extents, files and free extents at the end, file systems over each other.

use maud::{Markup, html};

use super::{Content, Section};
use crate::report::figure::{Figure, choice, figure, options};

pub(super) const SECTION: Section = Section {
    id: "extents",
    title: "Extent and file sizes",
    script: include_str!("../assets/histogram.js"),
    render,
};

fn render(content: &Content<'_>) -> Option<Markup> {
    content.view.trials.iter().find(|trial| trial.layout().is_some())?;
    let controls = || {
        html! {
            (choice("what", "count", &options(&[("count", "number"), ("bytes", "bytes")])))
            (choice("unit", "as", &options(&[("share", "share"), ("total", "total")])))
            (choice("scale", "axis", &options(&[("linear", "linear"), ("log", "log")])))
        }
    };
    let one = |id, kind, title, how_to_read| {
        figure(&Figure { id, kind, title, how_to_read, controls: controls(), note: "" })
    };
    Some(html! {
        (one("extent-chart", "extents", "Used-extent sizes",
            "each step is a power of two of extent size; a file system with less fragmentation has its extents \
             further to the right."))
        (one("file-chart", "files", "File sizes",
            "the same for file sizes; file systems should coincide after the same operations; where they do not, \
             the extents above are not directly comparable."))
        (one("free-extent-chart", "free_extents", "Free-extent sizes at the end",
            "the same for free space; many small free extents leave no room for large contiguous files."))
    })
}
