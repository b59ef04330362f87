//! Sizes of measures, fixed for the whole study: every trial does the same work.
//!
//! `create`, `large-file`, `append` and `fio` take a share of the free space. Left to what each trial finds, an
//! aged volume at 99 % use would be asked for a fraction of what a fresh one is, and their numbers would be
//! divided by each other all the same. So the least room that any of the study's states leaves is worked out
//! from the specification, and every cell gets the size that fits there. Where that room is not known (a
//! device, a workload without a limit on use), sizes stay open, and comparisons refuse what turns out to be
//! different work.

use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::study::{StageSpec, StudySpec};

use super::Cell;

/// Fixes the sizes of all measures of a study's cells.
pub(super) fn fix(cells: &mut [Cell]) {
    let rooms: Option<Vec<u64>> =
        cells.iter().filter(|cell| measures(&cell.spec)).map(|cell| room(&cell.spec)).collect();
    let Some(tightest) = rooms.and_then(|rooms| rooms.into_iter().min()) else { return };
    for stage in cells.iter_mut().flat_map(|cell| &mut cell.spec.stage) {
        if let StageSpec::Measure(stage) = stage {
            stage.measures.iter_mut().for_each(|measure| measure.fix(tightest));
        }
    }
}

/// Whether a cell measures anything whose size is open.
fn measures(spec: &StudySpec) -> bool {
    spec.stages().any(|stage| match stage {
        StageSpec::Measure(stage) => stage.measures.iter().any(|measure| measure.is_sized_by_room()),
        _ => false,
    })
}

/// Bytes that the cell's stages leave free, at least; `None` where that is not known beforehand.
fn room(spec: &StudySpec) -> Option<u64> {
    let mut size = spec.volume.size()?.0;
    let mut used = 0.0_f64;
    for stage in spec.stages() {
        match stage {
            StageSpec::Age(stage) => used = used.max(stage.workload.highest_use()?),
            StageSpec::Lockstep(stage) => used = used.max(stage.workload.highest_use()?),
            StageSpec::Copy(stage) => {
                if let Some(volume) = &stage.volume {
                    size = size.min(volume.size()?.0);
                }
            }
            StageSpec::Remedy(stage) => {
                if let Some(volume) = stage.target(&spec.volume) {
                    size = size.min(volume.size()?.0);
                }
            }
            // The files of fio go with it, and their size is its own; so do those of power cuts.
            StageSpec::Image(_)
            | StageSpec::Measure(_)
            | StageSpec::Fio(_)
            | StageSpec::PowerCuts(_)
            | StageSpec::Precondition(_)
            | StageSpec::Cluster(_) => {}
        }
    }
    Some(to_u64(as_f64(size) * (1.0 - used).max(0.0)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fsage_model::measure::MeasureSpec;
    use fsage_model::size::Bytes;

    use super::super::{Consent, Overrides, parse};
    use super::*;

    fn study(workload: &str, matrix: &str) -> Vec<Cell> {
        let text = format!(
            r#"
            name = "room"
            title = "t"
            question = "q"
            volume = {{ medium = "ram", size = "1GiB" }}
            file_system = {{ kind = "ext4" }}
            [[stage]]
            kind = "age"
            when = ["aged"]
            stop.operations = 10
            workload = {workload}
            [[stage]]
            kind = "measure"
            measures = [{{ kind = "large-file" }}, {{ kind = "create" }}, {{ kind = "fio" }}, {{ kind = "append" }}]
            [matrix]
            state = ["aged", "fresh"]
            {matrix}
            "#
        );
        parse(Path::new("room.toml"), text, &Overrides::default(), Consent::Below(None)).unwrap().cells
    }

    fn sizes(cells: &[Cell]) -> Vec<Vec<MeasureSpec>> {
        let of = |cell: &Cell| {
            let stages = cell.spec.stages();
            stages
                .filter_map(|stage| if let StageSpec::Measure(stage) = stage { Some(stage) } else { None })
                .flat_map(|stage| stage.measures.clone())
                .collect()
        };
        cells.iter().map(of).collect()
    }

    #[test]
    fn every_state_of_a_study_is_asked_for_what_fits_into_the_fullest() {
        let drift = r#"{ kind = "drift", utilisation = { kind = "maintain", max = 0.8, free = 0.05, check_operations = 10 } }"#;
        let cells = study(drift, r#""stage.age.workload.utilisation.max" = [0.8, 0.99]"#);
        let sizes = sizes(&cells);
        assert!(sizes.len() >= 3 && sizes.iter().all(|measures| *measures == sizes[0]), "{sizes:?}");
        // A tenth of the hundredth that 99 % leaves of a GiB.
        let wanted = Bytes((1 << 30) / 1000 / 4096 * 4096);
        let MeasureSpec::LargeFile(large) = &sizes[0][0] else { unreachable!() };
        assert_eq!(large.size, Some(wanted));
        let MeasureSpec::Create(create) = &sizes[0][1] else { unreachable!() };
        assert_eq!(create.bytes, Some(wanted));
        assert!(sizes[0].iter().all(|measure| !measure.is_sized_by_room()));
    }

    #[test]
    fn sizes_stay_open_where_the_fullest_state_is_not_known() {
        let cells = study(r#"{ kind = "drift" }"#, "");
        assert!(sizes(&cells).iter().flatten().all(MeasureSpec::is_sized_by_room));
    }
}
