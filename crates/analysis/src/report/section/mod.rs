//! The page's sections, in their order. A new one is a file here and a line in [`ALL`].

mod age_cost;
mod claim;
mod cluster;
mod control;
mod cost;
mod device;
mod device_job;
mod device_wear;
mod difference;
mod free_space;
mod glossary;
mod headline;
mod histogram;
mod latency;
mod layout;
mod lockstep;
mod medium;
mod places;
mod power;
mod priced;
mod profile;
mod remedy;
mod scaling;
mod search;
mod setup;
mod trial;
mod warning;
mod wear;
mod why;

use maud::Markup;

use super::answer::Answer;
use super::control as control_rows;
use super::difference::Differences;
use super::percentile::Percentiles;
use super::search_workload::ByWorkload;
use super::view::View;
use crate::stats::Judgement;

/// What sections are made of.
pub struct Content<'a> {
    pub view: &'a View,
    pub answer: &'a Answer,
    pub differences: &'a Differences,
    /// One for each claim of the study.
    pub judgements: &'a [Judgement],
    /// What controls measured.
    pub controls: &'a [control_rows::Row],
    /// Latencies of fio's points.
    pub percentiles: &'a Percentiles,
    /// Gains of the options of each search by workload.
    pub searches: &'a [ByWorkload],
}

/// A section: its anchor, its heading, the script that draws its charts, and what writes it down. `None` leaves
/// it out.
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    /// Adds drawing functions to `fsage.charts`; empty without charts of its own.
    pub script: &'static str,
    pub render: fn(&Content<'_>) -> Option<Markup>,
}

/// Every section, in the order of the page.
pub const ALL: &[Section] = &[
    headline::SECTION,
    why::SECTION,
    claim::SECTION,
    control::SECTION,
    power::SECTION,
    search::SECTION,
    age_cost::SECTION,
    remedy::SECTION,
    device::SECTION,
    device_job::SECTION,
    cluster::SECTION,
    lockstep::SECTION,
    wear::SECTION,
    device_wear::SECTION,
    medium::SECTION,
    priced::SECTION,
    latency::CHART,
    latency::TABLES,
    free_space::SECTION,
    histogram::SECTION,
    layout::SECTION,
    places::SECTION,
    profile::SECTION,
    difference::SECTION,
    cost::SECTION,
    warning::SECTION,
    setup::SECTION,
    trial::SECTION,
    glossary::SECTION,
];

/// The example of docs/adding-a-chart.md.
#[cfg(test)]
#[path = "../../../../../docs/examples/use.rs"]
mod example;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_example_of_the_guide_is_a_section_like_any_other() {
        assert_eq!((example::SECTION.id, example::SECTION.title), ("use", "Use of the volume"));
        assert!(example::SECTION.script.contains("fsage.charts.use = {"));
    }

    #[test]
    fn anchors_differ() {
        let anchors: BTreeSet<&str> = ALL.iter().map(|section| section.id).collect();
        assert_eq!(anchors.len(), ALL.len());
    }
}
