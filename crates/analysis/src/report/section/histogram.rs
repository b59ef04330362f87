//! Sizes of used extents, files and free extents at the end, file systems over each other.

use maud::{Markup, html};

use super::{Content, Section};
use crate::report::figure::{Figure, choice, figure, options};

pub(super) const SECTION: Section = Section {
    id: "extents",
    title: "Extents and files",
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
        (one("extent-chart", "extents", "Sizes of the extents that hold files",
            "each step is a power of two of extent size; a file system that keeps files together has its extents \
             further to the right."))
        (one("file-chart", "files", "Sizes of the files",
            "the same for file sizes; file systems under the same operations should lie over each other, and where \
             they do not, the extents above cannot be compared as they are."))
        (one("free-extent-chart", "free_extents", "Sizes of the free extents at the end",
            "the same for free space; many small free extents leave no room for large new files in one piece."))
    })
}
