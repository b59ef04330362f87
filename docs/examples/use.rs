//! How full the volume was over the run: the frame of one chart.

use maud::Markup;

use super::{Content, Section};
use crate::report::figure::{Figure, choice, figure, options};

pub(super) const SECTION: Section =
    Section { id: "use", title: "Use of the volume", script: include_str!("use.js"), render };

fn render(content: &Content<'_>) -> Option<Markup> {
    content.view.ages().any(|(_, age)| age.free.is_some()).then(|| {
        figure(&Figure {
            id: "use-chart", // unique on the page; also the name of the CSV file
            kind: "use",     // the drawing function
            title: "How full the volume was",
            how_to_read: "each line is a trial; where it is flat, the level of use was held.",
            controls: choice("scale", "axis", &options(&[("linear", "linear"), ("log", "log")])),
            note: "", // what must be known about this data: downsampling, caveats
        })
    })
}
