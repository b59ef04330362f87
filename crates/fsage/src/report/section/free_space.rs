//! Free space by extent size, over the run.

use maud::{Markup, html};

use super::Content;
use crate::report::figure::{Figure, choice, figure, options, select};

pub fn render(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    let trials: Vec<(usize, &str)> = view
        .trials
        .iter()
        .enumerate()
        .filter(|(_, trial)| trial.age.as_ref().is_some_and(|age| age.free.is_some()))
        .map(|(i, trial)| (i, trial.label.as_str()))
        .collect();
    if trials.is_empty() {
        return None;
    }
    let names: Vec<(String, String)> =
        trials.iter().map(|(i, label)| (i.to_string(), (*label).to_owned())).collect();
    let mut none_or = vec![("none".to_owned(), "nothing".to_owned())];
    none_or.extend(names.iter().cloned());
    let controls = html! {
        (select("left", "show", &names, 0))
        (select("right", "beside", &none_or, usize::from(trials.len() > 1) * 2))
        (choice("what", "count", &options(&[("count", "extents"), ("bytes", "bytes")])))
        (choice("view", "as", &options(&[("heat", "heat map"), ("surface", "3-D surface")])))
    };
    let maps = || view.trials.iter().filter_map(|trial| trial.age.as_ref()?.free.as_ref());
    let merged = maps().map(|map| map.merged).max().unwrap_or(1);
    let mut note = String::new();
    if merged > 1 {
        note.push_str(&format!("Every {merged}th probe is shown, and the last one."));
    }
    Some(figure(&Figure {
        id: "free-chart",
        kind: "free",
        title: "How free space falls apart",
        how_to_read: "time runs to the right, extent sizes upwards in powers of two, and the colour says how many free \
                      extents (or how many free bytes) there are of each size; free space that is falling apart moves \
                      from a few large extents at the top to many small ones at the bottom.",
        controls,
        note: &note,
    }))
}
