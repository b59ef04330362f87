//! The words of the page.

use maud::{Markup, html};

use super::{Content, Section};

const WORDS: [(&str, &str); 26] = [
    ("age", "State of a file system after use: fragmented files and fragmented free space."),
    (
        "Cliff's δ",
        "How often a value of one group exceeds one of the other, from −1 to 1; 0 when they overlap wholly.",
    ),
    ("context", "One cell of the factors that are not being compared, with all its repeats."),
    ("digest", "Checksum of the logical tree (names, sizes, data versions). Equal digests: the same files."),
    ("extent", "A run of neighbouring blocks that belong to one file, or that are free."),
    (
        "extra time",
        "Time to read a file, by the device model, beyond that in a copy in which every file begins where the one before it ends.",
    ),
    (
        "false discovery rate",
        "Of many comparisons some differ by chance. Those that survive are chosen so that on average at most 5 % of them are false (Benjamini & Hochberg 1995).",
    ),
    ("fragmented file", "A file in more than one extent."),
    (
        "in this run only",
        "Seen within one run. Whether a run with another seed would show the same is not known.",
    ),
    (
        "inter-file score",
        "Share of files that begin where the previously read file ends (Conway et al. 2017). Low where small files are scattered, even if each is contiguous.",
    ),
    (
        "interval",
        "Range of values that the data support: Student's t over repeats, on logs. 95 of 100 such intervals hold the true value, if the trials are typical.",
    ),
    (
        "layout score",
        "Share of blocks that directly follow the previous block of their file on the volume (Smith & Seltzer 1997).",
    ),
    ("map", "The volume from its beginning, row by row, in 1,024 cells of equal length."),
    ("median, p50", "Half of the operations were faster, half slower."),
    ("no evidence", "The interval contains “no difference”. It is not proof that there is none."),
    (
        "not significant after correction",
        "The interval excludes “no difference”, but among so many comparisons one such interval is expected by chance.",
    ),
    ("p99, p99.9", "Latency that one operation in a hundred (a thousand) exceeds."),
    ("probe", "A measurement with the load stopped and the file system synced."),
    (
        "range within one run",
        "From the lowest to the highest of a run's own looks, or of blocks of its ticks or probes. It is not an interval: neighbouring values are correlated, and another run may differ.",
    ),
    ("repeat", "The same trial with another seed."),
    (
        "saturation point",
        "The smallest load (depth, jobs, streams, block size) whose rate is within 5 % of the largest.",
    ),
    ("Savitzky–Golay", "Smoothing by fitting a polynomial to each stretch of neighbouring points (1964)."),
    (
        "tick",
        "A section of the run, at most about 2,000 per run; its order statistics are one point of a chart.",
    ),
    ("trial", "One file system with one set of options, aged once."),
    (
        "Universal Scalability Law",
        "X(n) = λn ÷ (1 + σ(n − 1) + κn(n − 1)): rate over load with contention σ and coherency κ (Gunther 2007).",
    ),
    ("volume overwrites", "Bytes written by operations, divided by the size of the volume."),
];

pub(super) const SECTION: Section = Section { id: "glossary", title: "Glossary", script: "", render };

fn render(_: &Content<'_>) -> Option<Markup> {
    Some(html! { dl.glossary { @for (word, meaning) in WORDS { div { dt { (word) } dd { (meaning) } } } } })
}
