//! Why a tree is slow to read, as pages and sections show it.

mod copy;
mod map;
mod page;

pub(crate) use copy::noted;
pub use map::Map;
pub use page::{Titled, page, pages};
pub(crate) use page::{in_short, legend, map, suggested_fixes, worst_table};
