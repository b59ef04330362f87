//! Tables that can be sorted, copied (tab-separated) and downloaded (CSV). What is copied is the raw value,
//! what is read is the rounded one.

use maud::{Markup, html};

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Heading.
    pub title: String,
    /// Whether it holds numbers, which are set flush right.
    pub numeric: bool,
    /// Unit of the raw values, for the copied heading; may be empty.
    pub unit: &'static str,
}

impl Column {
    pub fn text(title: impl Into<String>) -> Self {
        Self { title: title.into(), numeric: false, unit: "" }
    }

    pub fn number(title: impl Into<String>, unit: &'static str) -> Self {
        Self { title: title.into(), numeric: true, unit }
    }
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    content: Content,
    raw: String,
    class: &'static str,
}

/// Markup with a default.
#[derive(Debug, Clone, Default)]
struct Content(String);

impl Cell {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { content: Content(html! { (text) }.into_string()), raw: text, class: "" }
    }

    /// Markup with the text it is copied and sorted as.
    pub fn markup(content: &Markup, raw: impl Into<String>) -> Self {
        Self { content: Content(content.0.clone()), raw: raw.into(), class: "" }
    }

    /// A number: how it is read, and the value itself.
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        let text = text.into();
        let raw = if value.is_finite() { value.to_string() } else { String::new() };
        Self { content: Content(html! { (text) }.into_string()), raw, class: "" }
    }

    /// Not known.
    pub fn none() -> Self {
        Self { content: Content("–".to_owned()), raw: String::new(), class: "none" }
    }

    /// The number, or not known.
    pub fn maybe(value: Option<f64>, text: impl Fn(f64) -> String) -> Self {
        value
            .filter(|value| value.is_finite())
            .map_or_else(Self::none, |value| Self::number(text(value), value))
    }

    /// With a CSS class.
    pub fn class(mut self, class: &'static str) -> Self {
        self.class = class;
        self
    }
}

/// A row; `tags` become `data-…` attributes that the filters use, `class` sets it apart.
#[derive(Debug, Clone, Default)]
pub struct Row {
    pub cells: Vec<Cell>,
    pub group: String,
    pub class: &'static str,
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Self {
        Self { cells, ..Self::default() }
    }
}

/// The whole table with its buttons. `id` must be unique on the page.
pub fn table(id: &str, caption: &str, columns: &[Column], rows: &[Row]) -> Markup {
    html! {
        div.table-box id=(id) {
            div.table-bar {
                p.caption { (caption) }
                div.buttons {
                    button type="button" data-copy=(id) { "Copy table" }
                    button type="button" data-csv-table=(id) { "CSV" }
                }
            }
            div.scroll tabindex="0" role="region" aria-label=(caption) {
                table {
                    thead {
                        tr {
                            @for column in columns {
                                th scope="col" class=[column.numeric.then_some("num")]
                                    data-unit=[(!column.unit.is_empty()).then_some(column.unit)] aria-sort="none" {
                                    button type="button" { (column.title) }
                                }
                            }
                        }
                    }
                    tbody {
                        @for row in rows {
                            tr class=[(!row.class.is_empty()).then_some(row.class)]
                                data-group=[(!row.group.is_empty()).then_some(&row.group)] {
                                @for (cell, column) in row.cells.iter().zip(columns) {
                                    (cell_markup(cell, column))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell_markup(cell: &Cell, column: &Column) -> Markup {
    let class = match (column.numeric, cell.class) {
        (true, "") => "num".to_owned(),
        (true, class) => format!("num {class}"),
        (false, class) => class.to_owned(),
    };
    html! {
        td class=[(!class.is_empty()).then_some(class)] data-raw=(cell.raw) {
            (maud::PreEscaped(&cell.content.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_carry_raw_values_and_escape_text() {
        let columns = [Column::text("name"), Column::number("mean", "ns")];
        let rows = [
            Row::from(vec![Cell::text("a<b"), Cell::number("1.50 µs", 1500.0)]),
            Row { cells: vec![Cell::text("c"), Cell::none()], group: "g".to_owned(), class: "grey" },
        ];
        insta::assert_snapshot!(table("t", "Caption", &columns, &rows).into_string());
    }
}
