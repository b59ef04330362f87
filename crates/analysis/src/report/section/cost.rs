//! What the ageing took.

use fsage_model::quantity::{as_f64, share, sum};
use maud::{Markup, html};

use super::headline::flags;
use super::{Content, Section};
use crate::report::table::{Cell, Column, Row, table};
use crate::report::text::{bytes, grouped, in_unit, nanoseconds, percent, significant, words};
use crate::report::view::{Age, Trial};

pub(super) const SECTION: Section = Section { id: "cost", title: "Ageing runs", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let aged: Vec<(&Trial, &Age)> = content.view.ages().collect();
    if aged.is_empty() {
        return None;
    }
    let models = aged.iter().any(|(trial, _)| trial.is_model());
    let columns = [
        Column::text("trial"),
        Column::number("operations", ""),
        Column::number(if models { "wall time" } else { "time" }, "ns"),
        Column::number("operations/s", ""),
        Column::number("written", "bytes"),
        Column::number("device bytes", "bytes"),
        Column::number("volume overwrites", ""),
        Column::number("CPU user + system", "ns"),
        Column::number("failed", ""),
        Column::number("user CPU/op", "ns"),
        Column::number("share of time", ""),
        Column::text("ended by"),
    ];
    let mut columns = Vec::from(columns);
    if models {
        columns.insert(MODEL_COLUMN, Column::number("model time", "ns"));
    }
    let rows: Vec<Row> = aged.iter().map(|(trial, age)| row(trial, age, models)).collect();
    Some(html! {
        p.lead { "Times exclude pauses and probes. "
            @if models {
                "On a virtual disk in model time, wall time is what this machine took for the ageing; it says nothing about the medium. "
            }
            "Device bytes are the kernel's count of bytes written to the device. "
            "User CPU is fsage's own time outside the kernel (generating operations and data, recording latencies and the trace); "
            "system calls count as system CPU." }
        (table("cost-table", "Time and I/O of ageing", &columns, &rows))
    })
}

/// Where the time by a disk's clock stands, in tables that have it.
const MODEL_COLUMN: usize = 3;

fn row(trial: &Trial, age: &Age, models: bool) -> Row {
    let result = &age.result;
    let model = result.disk.as_ref().filter(|_| trial.is_model()).map(|disk| as_f64(disk.elapsed_ns));
    let seconds = model.unwrap_or(as_f64(result.elapsed_ns)) / 1e9;
    let speed = (seconds > 0.0).then(|| as_f64(result.operations) / seconds);
    let speed_in_words =
        |speed| if model.is_some() { in_unit(speed, "1/model s") } else { significant(speed) };
    let failed = sum(result.failed.values());
    let by_errno: Vec<String> =
        result.failed.iter().map(|(errno, count)| format!("{errno} {}", grouped(*count))).collect();
    let failed_text =
        if failed == 0 { "0".to_owned() } else { format!("{} ({})", grouped(failed), by_errno.join(", ")) };
    let ns = |value: f64| Cell::number(nanoseconds(value), value);
    let own = result.overhead_ns_per_operation;
    let own_share = share(fsage_model::quantity::to_u64(own * as_f64(result.operations)), result.elapsed_ns);
    let overwrites = age.total_bytes.map(|total| as_f64(result.bytes_written) / as_f64(total));
    let reason = serde_json::to_value(result.stopped_by).ok();
    let reason = reason.as_ref().and_then(|value| value.as_str()).map(words).unwrap_or_default();
    let name = html! { (age.label) (flags(trial)) };
    let mut cells = vec![
        Cell::markup(&name, age.label.clone()).class("label"),
        Cell::number(grouped(result.operations), as_f64(result.operations)),
        ns(as_f64(result.elapsed_ns)),
        Cell::maybe(speed, speed_in_words),
        Cell::number(bytes(as_f64(result.bytes_written)), as_f64(result.bytes_written)),
        Cell::maybe(result.device_bytes_written.map(as_f64), bytes),
        Cell::maybe(overwrites, significant),
        ns(as_f64(result.cpu_user_ns.saturating_add(result.cpu_sys_ns))),
        Cell::number(failed_text, as_f64(failed)),
        ns(own),
        Cell::number(percent((own_share * 1000.0).round() / 1000.0), own_share),
        Cell::text(reason),
    ];
    if models {
        cells.insert(MODEL_COLUMN, Cell::maybe(model, nanoseconds));
    }
    Row::from(cells)
}
