//! The page's sections, in their order. A new one is a file here and a line in [`ALL`].

pub mod age_cost;
pub mod claim;
pub mod cost;
pub mod difference;
pub mod free_space;
pub mod glossary;
pub mod headline;
pub mod histogram;
pub mod latency;
pub mod layout;
pub mod lockstep;
pub mod medium;
pub mod places;
pub mod profile;
pub mod setup;
pub mod trial;
pub mod warning;

use maud::Markup;

use super::difference::Differences;
use super::view::View;
use crate::stats::Judgement;

/// What sections are made of.
pub struct Content<'a> {
    pub view: &'a View,
    pub differences: &'a Differences,
    /// One for each claim of the study.
    pub judgements: &'a [Judgement],
}

/// A section: its anchor, its heading and what draws it. `None` leaves it out.
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    pub render: fn(&Content<'_>) -> Option<Markup>,
}

/// Every section.
pub const ALL: [Section; 18] = [
    Section { id: "summary", title: "In short", render: headline::render },
    Section { id: "claims", title: "Published findings", render: claim::render },
    Section { id: "age-cost", title: "Ageing slowdown", render: age_cost::render },
    Section { id: "lockstep", title: "Usage or fullness", render: lockstep::render },
    Section { id: "medium", title: "Where the time went", render: medium::render },
    Section { id: "latency", title: "Latency over time", render: latency::chart },
    Section { id: "operations", title: "Latency by operation", render: latency::tables },
    Section { id: "free-space", title: "Free space", render: free_space::render },
    Section { id: "extents", title: "Extents and files", render: histogram::render },
    Section { id: "layout", title: "Layout", render: layout::render },
    Section { id: "places", title: "Where the worst files lie", render: places::render },
    Section { id: "like", title: "Like the original", render: profile::render },
    Section { id: "differences", title: "Differences", render: difference::render },
    Section { id: "cost", title: "Cost of ageing", render: cost::render },
    Section { id: "warnings", title: "Warnings", render: warning::render },
    Section { id: "setup", title: "Setup", render: setup::render },
    Section { id: "trials", title: "Trials and commands", render: trial::render },
    Section { id: "glossary", title: "Glossary", render: glossary::render },
];
