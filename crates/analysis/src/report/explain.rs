//! Why a tree is slow to read, as pages and sections show it.

mod copy;
mod map;
mod page;

pub use copy::noted;
pub use map::Map;
pub use page::in_short;
pub use page::{Titled, page, pages};
pub(crate) use page::{legend, map, suggested_fixes, worst_table};
