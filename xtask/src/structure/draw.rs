//! The rooms as a graph in the language of Graphviz.

use std::fmt::Write as _;

use super::Workspace;

/// One box for each crate with its modules, arrows from a module to those that it uses, and from a crate to
/// those below it. Arrows within a circle are red.
#[must_use]
pub fn graph(workspace: &Workspace) -> String {
    let mut dot = String::from(
        "digraph fsage {\n  rankdir=TB; compound=true; newrank=true; fontname=\"sans-serif\";\n  \
         node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\", fontsize=10];\n  \
         edge [color=\"#00000055\", arrowsize=0.6];\n",
    );
    for (name, krate) in workspace.iter().filter(|(name, _)| *name != "bench") {
        let _ = writeln!(
            dot,
            "  subgraph cluster_{name} {{\n    label=\"{name}\"; style=filled; color=\"#eef2f7\";"
        );
        for (module, lines) in &krate.lines {
            let _ = writeln!(dot, "    \"{name}::{module}\" [label=\"{module}\\n{lines}\"];");
        }
        let cycles = krate.cycles();
        for (module, used) in &krate.uses {
            for other in used {
                let knotted = cycles.iter().any(|cycle| cycle.contains(module) && cycle.contains(other));
                let color = if knotted { " [color=red]" } else { "" };
                let _ = writeln!(dot, "    \"{name}::{module}\" -> \"{name}::{other}\"{color};");
            }
        }
        dot.push_str("  }\n");
    }
    for (name, krate) in workspace.iter().filter(|(name, _)| *name != "bench") {
        for used in &krate.dependencies {
            let _ = writeln!(
                dot,
                "  \"{name}::lib\" -> \"{used}::lib\" [ltail=cluster_{name}, lhead=cluster_{used}, penwidth=2];"
            );
        }
    }
    dot.push_str("}\n");
    dot
}
