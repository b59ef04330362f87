//! What it ran on and with.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::study::StudySpec;
use maud::{Markup, html};
use serde_json::Value;

use super::{Content, Section};
use crate::report::answer::device_words;
use crate::report::factor;
use crate::report::text::{grouped, whole_bytes};
use crate::report::view::{Trial, View};
use crate::stats::Evidence;

pub(super) const SECTION: Section = Section { id: "setup", title: "Setup", script: "", render };

fn render(content: &Content<'_>) -> Option<Markup> {
    let view = content.view;
    Some(html! {
        @if let Some(first) = view.trials.first() {
            @if let Some(differing) = differing(view) {
                div.notice.differs { b { "Trials differ in setup: " } (differing) ". This may affect what they measured." }
            }
            div.setup {
                (list("Host", &host(view)))
                (list("Device", &device(view, first)))
                (list("Study", &study(view, first)))
                (list("Tools", &tools(view)))
            }
            h3 { "mkfs and mount commands" }
            @for (label, commands) in making(view) {
                details { summary { (label) } pre tabindex="0" { (commands) } }
            }
        } @else {
            div.setup { @if view.study.spec.is_some() { (list("Study", &parameters(view))) } }
        }
        @if let Some(spec) = &view.study.spec {
            details { summary { "All study parameters" } pre tabindex="0" { (every_parameter(spec)) } }
        }
    })
}

/// A study as TOML; of a recorded history only how long it is, since it may be as large as a book.
fn every_parameter(spec: &StudySpec) -> String {
    let mut tree = serde_json::to_value(spec).unwrap_or_default();
    shorten(&mut tree);
    toml::to_string(&tree).unwrap_or_default()
}

fn shorten(tree: &mut Value) {
    match tree {
        Value::Object(table) => {
            if table.get("kind").and_then(Value::as_str) == Some("recorded") {
                for list in ["directories", "paths", "commits"] {
                    if let Some(Value::Array(items)) = table.get(list) {
                        table.insert(
                            list.to_owned(),
                            Value::String(format!("{} of them, in plan.json", items.len())),
                        );
                    }
                }
            }
            // TOML has no null: what is not given is left out.
            table.retain(|_, value| !value.is_null());
            table.values_mut().for_each(shorten);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        _ => {}
    }
}

type Rows = Vec<(String, String)>;

fn list(title: &str, rows: &Rows) -> Markup {
    html! {
        @if !rows.is_empty() {
            div {
                h3 { (title) }
                dl.facts { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
            }
        }
    }
}

fn push(rows: &mut Rows, name: &str, value: impl Into<String>) {
    let value = value.into();
    if !value.is_empty() {
        rows.push((name.to_owned(), value));
    }
}

/// Values that all trials should share; where they do not, each with its trials.
fn shared(view: &View, pick: impl Fn(&Trial) -> String) -> String {
    let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for trial in &view.trials {
        values.entry(pick(trial)).or_default().push(&trial.label);
    }
    values.remove("");
    match values.len() {
        0 | 1 => values.into_keys().next().unwrap_or_default(),
        _ => {
            let parts = values.iter().map(|(text, trials)| format!("{text} ({})", trials.join("; ")));
            parts.collect::<Vec<_>>().join(" / ")
        }
    }
}

/// What decides results and differs between trials, in words; `None` when all is the same.
fn differing(view: &View) -> Option<String> {
    let differs = |pick: &dyn Fn(&Trial) -> &str| {
        let values: BTreeSet<&str> = view.trials.iter().map(pick).filter(|text| !text.is_empty()).collect();
        values.len() > 1
    };
    let mut found = Vec::new();
    for (name, pick) in [
        ("host", (|trial| &trial.host.identity) as fn(&Trial) -> &str),
        ("kernel", |trial| &trial.host.kernel),
        ("CPU", |trial| &trial.host.cpu_model),
        ("fsage", |trial| &trial.program),
        ("scheduler", |trial| &trial.device.scheduler),
        ("virtual machine", |trial| &trial.host.virtualisation),
    ] {
        if differs(&pick) {
            found.push(name.to_owned());
        }
    }
    if differs(&|trial| trial.host.features.get("guest").map_or("", String::as_str)) {
        found.push("guest build".to_owned());
    }
    let tool = |name: &String| differs(&|trial| trial.host.tools.get(name).map_or("", String::as_str));
    found.extend(tool_names(view).into_iter().filter(tool));
    (!found.is_empty()).then(|| found.join(", "))
}

/// What the clocks of guests count, where that is not time.
fn virtual_time(view: &View) -> String {
    let is_virtual = |trial: &&Evidence| trial.is_virtual();
    let (some, all) = (view.evidence.iter().filter(is_virtual).count(), view.evidence.len());
    match some {
        0 => String::new(),
        _ if some == all => "virtual: 2 ns per guest instruction".to_owned(),
        _ => format!("virtual in {some} of {all} trials: 2 ns per guest instruction"),
    }
}

fn host(view: &View) -> Rows {
    let mut rows = Rows::new();
    let known = view.trials.iter().map(|trial| trial.host.identity.as_str()).filter(|host| !host.is_empty());
    let hosts = known.collect::<BTreeSet<_>>().len();
    push(&mut rows, "hosts", if hosts > 1 { hosts.to_string() } else { String::new() });
    push(&mut rows, "time", virtual_time(view));
    push(&mut rows, "kernel", shared(view, |trial| trial.host.kernel.clone()));
    push(&mut rows, "distribution", shared(view, |trial| trial.host.distribution.clone()));
    push(&mut rows, "machine", shared(view, |trial| trial.host.machine.clone()));
    push(&mut rows, "CPU", shared(view, |trial| format!("{} × {}", trial.host.cpus, trial.host.cpu_model)));
    push(&mut rows, "memory", shared(view, |trial| whole_bytes(trial.host.memory_bytes)));
    push(&mut rows, "virtual machine", shared(view, |trial| trial.host.virtualisation.clone()));
    for feature in ["clocksource", "cgroup"] {
        let value = shared(view, |trial| trial.host.features.get(feature).cloned().unwrap_or_default());
        push(&mut rows, feature, value);
    }
    rows
}

fn device(view: &View, first: &Trial) -> Rows {
    let mut rows = Rows::new();
    push(&mut rows, "measured on", shared(view, device_words));
    if view.trials.iter().any(|trial| trial.medium.is_some()) {
        push(&mut rows, "kind", "virtual disk in memory: times are the model's");
    } else {
        let kind = |trial: &Trial| match trial.device.backing_file {
            Some(_) => "loop device over a file".to_owned(),
            None => "block device".to_owned(),
        };
        push(&mut rows, "kind", shared(view, kind));
    }
    push(&mut rows, "volume size", shared(view, |trial| whole_bytes(trial.device.size_bytes)));
    push(&mut rows, "sector size", shared(view, |trial| format!("{} B", trial.device.sector_bytes)));
    let of_file = if first.device.backing_file.is_some() { "backing disk" } else { "model" };
    push(&mut rows, of_file, shared(view, |trial| trial.device.model.clone()));
    push(&mut rows, "serial", shared(view, |trial| trial.device.serial.clone()));
    let rotational = |trial: &Trial| if trial.device.rotational { "yes" } else { "no" }.to_owned();
    push(&mut rows, "rotational", shared(view, rotational));
    push(&mut rows, "scheduler", shared(view, |trial| trial.device.scheduler.clone()));
    // Each trial has a file of its own: the first one shows what they are like.
    let backing = first.device.backing_file.as_ref();
    push(&mut rows, "backing file", backing.map(|file| file.display().to_string()).unwrap_or_default());
    rows
}

fn parameters(view: &View) -> Rows {
    let mut rows = Rows::new();
    let Some(spec) = &view.study.spec else { return rows };
    push(&mut rows, "name", spec.name.clone());
    push(&mut rows, "method", spec.citation.clone());
    push(&mut rows, "seed", spec.seed.to_string());
    push(&mut rows, "repeats", spec.repeats.to_string());
    push(&mut rows, "trials planned", grouped(view.study.planned.len().try_into().unwrap_or(0)));
    for (path, values) in &spec.matrix {
        let words: Vec<String> = values.iter().map(|value| factor::value(path, value)).collect();
        push(&mut rows, &factor::name(path), words.join(", "));
    }
    if view.study.overrides.as_object().is_some_and(|fields| !fields.is_empty()) {
        push(&mut rows, "command-line overrides", view.study.overrides.to_string());
    }
    rows
}

fn study(view: &View, first: &Trial) -> Rows {
    let mut rows = parameters(view);
    let started = view.trials.iter().map(|trial| trial.started.as_str()).min().unwrap_or_default();
    push(&mut rows, "first trial started", started);
    let total = view.trials.iter().map(|trial| trial.elapsed_ns).fold(0, u64::saturating_add);
    push(&mut rows, "time in trials", crate::report::text::nanoseconds(fsage_model::quantity::as_f64(total)));
    if let Some(age) = first.ages.first() {
        push(&mut rows, "ticks and probes per trial", format!("{} and {}", age.ticks, age.probes));
    }
    rows
}

/// Tools of any trial that make, check or measure volumes.
fn tool_names(view: &View) -> BTreeSet<String> {
    let used = ["mkfs", "mount", "fsck", "btrfs", "xfs", "e2", "tune", "fio", "fstrim"];
    let wanted = |name: &str| used.iter().any(|part| name.contains(part));
    view.trials
        .iter()
        .flat_map(|trial| trial.host.tools.keys())
        .filter(|name| wanted(name))
        .cloned()
        .collect()
}

fn tools(view: &View) -> Rows {
    let mut rows = Rows::new();
    push(&mut rows, "fsage", shared(view, |trial| trial.program.clone()));
    for name in tool_names(view) {
        let version = shared(view, |trial| trial.host.tools.get(&name).cloned().unwrap_or_default());
        push(&mut rows, &name, version);
    }
    rows
}

/// The commands that made the volumes, once a cell.
fn making(view: &View) -> Vec<(String, String)> {
    let mut cells: BTreeMap<&str, String> = BTreeMap::new();
    for trial in view.trials.iter().filter(|trial| trial.repeat == 0) {
        let making = trial
            .commands
            .iter()
            .filter(|command| {
                ["mkfs", "mount ", "mke2fs", "losetup", "scheduler"].iter().any(|part| command.contains(part))
            })
            .filter(|command| !command.contains("umount"));
        cells.insert(&trial.label, making.cloned().collect::<Vec<_>>().join("\n"));
    }
    cells
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(label, text)| (label.to_owned(), text))
        .collect()
}
