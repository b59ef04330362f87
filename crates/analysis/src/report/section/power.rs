//! Power cuts: every configuration on every drive, what a program may rely on, the smallest failing cases, and
//! recovery times.

use fsage_model::crash::{DamageKind, DatabaseModes, Failing, UpdateOutcome};
use fsage_model::quantity::as_f64;
use maud::{Markup, html};

use super::{Content, Section};
use crate::report::power::{
    Matrix, MatrixRow, Reliance, Sum, Survival, Times, all, chance, inspected, matrix, reliance,
};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{counted, grouped, in_unit, percent, significant};

pub(super) const SECTION: Section = Section { id: "power-cuts", title: "Power cuts", script: "", render };

/// Damage that is listed of a failing case.
const MOST_DAMAGE: usize = 8;

/// Lines of the kernel's log that are listed.
const MOST_LINES: usize = 6;

/// Missing requests that are listed.
const MOST_LOST: usize = 20;

fn render(content: &Content<'_>) -> Option<Markup> {
    let found = all(content.view);
    if found.is_empty() {
        return None;
    }
    let confidence = content.view.confidence;
    let rows: Vec<Row> = found.iter().map(|one| state_row(one, confidence)).collect();
    let ways: Vec<Row> = reliance(&found).iter().map(way_row).collect();
    let times: Vec<Row> =
        found.iter().flat_map(|one| one.times.iter().map(move |time| time_row(one, time))).collect();
    Some(html! {
        (grid(&found))
        (table("power-states", &format!("Crash states, with exact {} intervals", percent(confidence)), &state_columns(), &rows))
        p.note {
            "A state is what the drive may hold after power is lost at some point of its request log. It is " b { "kept" } " when everything "
            "that fsync, sync and rename had promised is there; damage is " b { "documented" } " when the file system's documentation or the "
            "drive does not exclude it, and " b { "broken" } " when a promise was. "
            b { "Unexplained" } " are broken states except those that only known findings break, whose cause is known. "
            "All states are mounted and every file is compared; only a share is also checked by the file system's own program and written to, which finds more: a kept state that "
            "was not checked and written to may have damage that only these find. "
            "The states tried are not a random sample of power cuts: the interval (Clopper and Pearson) is that of a state drawn like these, and shows how well the search "
            "covered what it searched."
        }
        (forced(&found))
        (databases(&found))
        @if !ways.is_empty() {
            (table("power-ways", "Ways to replace a file: contents of files being replaced when power was lost", &way_columns(), &ways))
            p.note { "A new version that is lost after its way had returned counts as damage in the states above." }
        }
        (cases(&found))
        @if !times.is_empty() {
            (table("power-times", "Recovery time (wall clock)", &time_columns(), &times))
            p.note { "Mount includes the file system's recovery; verify reads and compares every file; check is the file system's own program, on a share of the states. "
                "The disk is in memory: these are times of CPU and file system, without a device. Medians are medians of the trials' medians." }
        }
    })
}

/// Where arrays lacked a drive: in how many states md refused to start them.
fn forced(found: &[Survival]) -> Markup {
    let forced: Vec<&Survival> = found.iter().filter(|one| one.forced.0 > 0).collect();
    html! {
        @if !forced.is_empty() {
            p.note {
                "The array lacked a drive and started by force only (" code { "mdadm --assemble --force" } "), which md warns of: "
                @for (number, one) in forced.iter().enumerate() {
                    @if number > 0 { "; " }
                    (one.configuration) " · " (one.load) ": " (grouped(one.forced.0)) " of " (grouped(one.tried)) " states, "
                    (grouped(one.forced.1)) " of these with damage"
                }
                "."
            }
        }
    }
}

/// Configurations by drives.
fn grid(found: &[Survival]) -> Markup {
    let Matrix { drives, rows } = matrix(found);
    let columns: Vec<Column> = std::iter::once(Column::text("configuration"))
        .chain(drives.iter().map(|drive| Column::text(format!("{drive} drive"))))
        .collect();
    let rows: Vec<Row> = rows
        .iter()
        .map(|MatrixRow { configuration, cells }| {
            let name = std::iter::once(Cell::text(configuration.clone()).class("label"));
            name.chain(cells.iter().map(|sum| sum.as_ref().map_or_else(Cell::none, grid_cell)))
                .collect::<Vec<_>>()
                .into()
        })
        .collect();
    table(
        "power-matrix",
        "Crash states that kept what was promised, over all loads and seeds",
        &columns,
        &rows,
    )
}

fn grid_cell(sum: &Sum) -> Cell {
    let mut words = format!(
        "{} of {} kept, {}",
        grouped(sum.kept),
        grouped(sum.tried),
        inspected(sum.kept, sum.kept_inspected)
    );
    if sum.documented > 0 {
        words.push_str(&format!("; {} documented", grouped(sum.documented)));
    }
    if sum.broken > 0 {
        words.push_str(&format!("; {} broken", grouped(sum.broken)));
    }
    if sum.known > 0 {
        words.push_str(&format!(" ({} by known findings)", grouped(sum.known)));
    }
    if let Some(worst) = sum.worst {
        words.push_str(&format!("; worst: {}", worst.name()));
    }
    Cell::text(words)
}

fn state_columns() -> Vec<Column> {
    vec![
        Column::text("configuration"),
        Column::text("drive"),
        Column::text("load"),
        Column::number("states", ""),
        Column::number("kept", ""),
        Column::number("kept, checked and written to", ""),
        Column::number("documented", ""),
        Column::number("broken", ""),
        Column::number("unexplained", ""),
        Column::number("with damage", ""),
        Column::number("low", ""),
        Column::number("high", ""),
        Column::text("states by damage"),
        Column::text("seeds"),
    ]
}

fn state_row(one: &Survival, confidence: f64) -> Row {
    let number = |states: u64| Cell::number(grouped(states), as_f64(states));
    let (damaged, interval) = one.damaged_share(confidence);
    let kinds: Vec<String> =
        one.damage.iter().map(|(kind, states)| format!("{} {}", kind.name(), grouped(*states))).collect();
    Row {
        cells: vec![
            Cell::text(one.configuration.clone()).class("label"),
            Cell::text(one.drive.clone()),
            Cell::text(one.load.clone()),
            number(one.tried),
            number(one.kept),
            number(one.kept_inspected),
            number(one.documented),
            number(one.broken),
            number(one.unexplained()),
            Cell::number(chance(damaged), damaged),
            Cell::number(chance(interval.low), interval.low),
            Cell::number(chance(interval.high), interval.high),
            Cell::text(if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }),
            Cell::text(counted(one.seeds, "seed")),
        ],
        group: one.configuration.clone(),
        class: if one.damaged() == 0 { "grey" } else { "" },
    }
}

/// What SQLite promises with each of its settings, and what was found, over all file systems.
fn databases(found: &[Survival]) -> Markup {
    let rows: Vec<Row> = found.iter().filter_map(|one| Some(database_row(one, one.database?))).collect();
    html! {
        @if !rows.is_empty() {
            (table("power-databases", "Databases: what SQLite promises with its settings, and state after a power cut", &database_columns(), &rows))
            p.note { "A transaction is committed when " code { "COMMIT" } " has returned. " b { "Lost" } " are states in which a committed one is missing; "
                b { "inconsistent" } " are states in which the database cannot be read, its integrity check finds errors, or its rows are not those of whole transactions. "
                "Both are documented damage where SQLite or the file system does not promise otherwise." }
        }
    }
}

fn database_columns() -> Vec<Column> {
    let text = ["configuration", "drive", "SQLite promises", "source"].map(Column::text);
    let numbers = ["states", "kept", "lost", "inconsistent", "documented", "broken"];
    text.into_iter().chain(numbers.map(|title| Column::number(title, ""))).collect()
}

fn database_row(one: &Survival, modes: DatabaseModes) -> Row {
    let promises = modes.promises();
    let text = [one.drive.as_str(), promises.words(), promises.source].map(Cell::text);
    let damaged = |kind| one.damage.get(&kind).copied().unwrap_or_default();
    let (lost, inconsistent) = (damaged(DamageKind::Transaction), damaged(DamageKind::Database));
    let numbers = [one.tried, one.kept, lost, inconsistent, one.documented, one.broken];
    let numbers = numbers.map(|states| Cell::number(grouped(states), as_f64(states)));
    let name = Cell::text(one.configuration.clone()).class("label");
    Row {
        cells: std::iter::once(name).chain(text).chain(numbers).collect(),
        group: one.configuration.clone(),
        class: if one.damaged() == 0 { "grey" } else { "" },
    }
}

fn way_columns() -> Vec<Column> {
    let outcomes = UpdateOutcome::ALL.map(|outcome| Column::number(outcome.name(), ""));
    [Column::text("way"), Column::text("configuration"), Column::text("drive"), Column::text("worst outcome")]
        .into_iter()
        .chain([Column::number("files", "")])
        .chain(outcomes)
        .collect()
}

fn way_row(one: &Reliance) -> Row {
    let number = |files: u64| Cell::number(grouped(files), as_f64(files));
    let head = [
        Cell::text(one.way.name()).class("label"),
        Cell::text(one.configuration.clone()),
        Cell::text(one.drive.clone()),
        Cell::text(one.words()),
        number(one.files),
    ];
    let outcomes =
        UpdateOutcome::ALL.map(|outcome| number(one.outcomes.get(&outcome).copied().unwrap_or_default()));
    Row { cells: head.into_iter().chain(outcomes).collect(), group: one.way.name().to_owned(), class: "" }
}

fn time_columns() -> Vec<Column> {
    let times = ["min", "median", "mean", "max"].map(|title| Column::number(title, "ns"));
    [Column::text("configuration"), Column::text("drive"), Column::text("load"), Column::text("step")]
        .into_iter()
        .chain([Column::number("n", "")])
        .chain(times)
        .chain([Column::number("states per second", "")])
        .collect()
}

fn time_row(one: &Survival, time: &Times) -> Row {
    let ns = |ns: f64| Cell::number(in_unit(ns, "ns"), ns);
    Row {
        cells: vec![
            Cell::text(one.configuration.clone()).class("label"),
            Cell::text(one.drive.clone()),
            Cell::text(one.load.clone()),
            Cell::text(time.step.clone()),
            Cell::number(grouped(time.count), as_f64(time.count)),
            ns(as_f64(time.min_ns)),
            ns(as_f64(time.median_ns)),
            ns(time.mean_ns),
            ns(as_f64(time.max_ns)),
            Cell::number(significant(one.states_per_s), one.states_per_s),
        ],
        group: one.configuration.clone(),
        class: "",
    }
}

/// The worst state of each configuration, drive and load, as a timeline.
fn cases(found: &[Survival]) -> Markup {
    let cases: Vec<(&Survival, &Failing)> =
        found.iter().filter_map(|one| Some((one, one.failing.as_ref()?))).collect();
    html! {
        @if !cases.is_empty() {
            h3 { "Smallest failing cases" }
            p.note { "The worst state of each configuration, drive and load, with the fewest missing requests found to cause the damage. On the left is the position in the request log at which an operation had returned." }
            @for (one, failing) in cases {
                details {
                    summary { (one.configuration) " · " (one.drive) " drive · " (one.load) ": " (failing.class.name()) ", " (first(failing)) }
                    pre { (timeline(failing)) }
                }
            }
        }
    }
}

fn first(failing: &Failing) -> String {
    failing.damage.first().map_or_else(
        || "a bug of the kernel".to_owned(),
        |damage| format!("{}: {} {}", damage.kind.name(), damage.path, damage.what),
    )
}

/// The case as text.
fn timeline(failing: &Failing) -> String {
    let state = &failing.state;
    let numbers = |numbers: &[u64]| {
        let shown: Vec<String> = numbers.iter().take(MOST_LOST).map(u64::to_string).collect();
        let more = numbers.len().saturating_sub(MOST_LOST);
        if more > 0 { format!("{} and {more} more", shown.join(" ")) } else { shown.join(" ") }
    };
    let mut lines: Vec<String> = Vec::new();
    for step in &failing.before {
        lines.push(format!("{:>8}  {}", step.position, step.operation));
    }
    lines.extend(failing.timeline());
    lines.push(format!(
        "{:>8}  power lost, {} of {} pending changes missing",
        state.cut,
        state.lost.len(),
        state.pending
    ));
    if let Some(step) = &failing.under_way {
        lines.push(format!("{:>8}  ({}: perhaps begun)", "", step.operation));
    }
    lines.push(String::new());
    if !state.lost.is_empty() {
        lines.push(format!("missing requests: {}", numbers(&state.lost)));
    }
    if let Some(torn) = &state.torn {
        lines.push(format!("torn request: {}, units that are there: {}", torn.entry, numbers(&torn.kept)));
    }
    let losses = state.flash.iter().take(MOST_DAMAGE);
    lines.extend(losses.map(|loss| format!("lost by the flash: {}", loss.words())));
    for damage in failing.damage.iter().take(MOST_DAMAGE) {
        lines.push(format!("{}: {} {}", damage.kind.name(), damage.path, damage.what));
    }
    lines.extend(failing.drives().into_iter().map(str::to_owned));
    for finding in &failing.known {
        lines.push(format!("known finding: {} (docs/power.md)", finding.words()));
    }
    for line in failing.kernel.iter().take(MOST_LINES) {
        lines.push(format!("kernel: {line}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::{
        CrashClass, CrashKind, CrashOperation, CrashState, Damage, DamageKind, FlashFault, FlashLoss,
        JournalMode, KnownFinding, LoadStep, Synchronous, TornRequest,
    };

    use super::*;

    #[test]
    fn a_case_is_a_timeline_that_ends_with_the_cut_and_says_what_is_missing() {
        let step = |operation, position| LoadStep { operation, position };
        let failing = Failing {
            state: CrashState {
                kind: CrashKind::Torn,
                cut: 18,
                durable: 10,
                pending: 40,
                lost: (11..36).collect(),
                torn: Some(TornRequest { entry: 13, kept: vec![0, 2] }),
                flash: vec![FlashLoss {
                    offset_bytes: 4096,
                    length_bytes: 8192,
                    fault: FlashFault::Older { before: 3 },
                }],
                image: 1,
            },
            lost_when_found: 30,
            class: CrashClass::Broken,
            known: vec![KnownFinding::BtrfsReplacedFileReturns],
            damage: vec![Damage {
                kind: DamageKind::Name,
                path: "b".to_owned(),
                what: "is an older file <script>".to_owned(),
                pattern: None,
            }],
            kernel: vec!["BTRFS info: start tree-log replay".to_owned()],
            before: vec![
                step(CrashOperation::Fsync { path: "b".to_owned() }, 13),
                step(CrashOperation::Sync, 18),
            ],
            under_way: Some(step(CrashOperation::Unlink { path: "b".to_owned() }, 20)),
            acknowledged: Vec::new(),
            requests: Vec::new(),
            forced: true,
            with_all_drives: Some(CrashClass::Ok),
        };
        let text = timeline(&failing);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "      13  fsync b",
                "      18  syncfs",
                "      18  power lost, 25 of 40 pending changes missing",
                "          (unlink b: perhaps begun)",
            ]
        );
        for words in [
            "29 30 and 5 more",
            "torn request: 13, units that are there: 0 2",
            "lost by the flash: 8192 bytes at 4096: what it held before request 3",
            "name: b is an older file",
            "known finding: btrfs: the file that was replaced comes back",
            "kernel: BTRFS info",
            "the array started by force only",
            "the same state with all drives: everything promised was there",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // What a file system or a kernel says is text, not markup.
        let mut one = crate::report::power::sample::survival("btrfs", [10, 0, 1, 1]);
        one.failing = Some(failing);
        one.forced = (7, 2);
        let page = forced(std::slice::from_ref(&one)).into_string();
        assert!(page.contains("7 of 10 states, 2 of these with damage"), "{page}");
        let page = cases(&[one]).into_string();
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"), "{page}");
    }

    #[test]
    fn a_database_has_its_settings_what_they_promise_and_what_was_found() {
        let modes = DatabaseModes { journal_mode: JournalMode::Wal, synchronous: Synchronous::Normal };
        let mut one = crate::report::power::sample::survival("ext4", [40, 4, 0, 0]);
        assert_eq!(databases(std::slice::from_ref(&one)).into_string(), "");
        one.database = Some(modes);
        one.damage = [(DamageKind::Transaction, 4)].into();
        let page = databases(&[one]).into_string();
        for words in [
            "the last transactions may be lost",
            "sqlite.org/pragma.html#pragma_synchronous",
            "power-databases",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        let row = database_row(&crate::report::power::sample::survival("ext4", [40, 4, 0, 0]), modes);
        assert_eq!(row.cells.len(), database_columns().len());
    }

    #[test]
    fn a_cell_says_kept_documented_broken_and_known() {
        let sum = Sum {
            tried: 1000,
            kept: 900,
            kept_inspected: 225,
            documented: 90,
            broken: 10,
            known: 7,
            worst: Some(DamageKind::Mount),
            seeds: 3,
        };
        let cell = format!("{:?}", grid_cell(&sum));
        assert!(
            cell.contains("900 of 1,000 kept, 225 of these checked and written to; 90 documented; 10 broken (7 by known findings); worst: mount"),
            "{cell}"
        );
    }
}
