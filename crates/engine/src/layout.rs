//! Where files and free space lie on the volume.

mod error;
mod free;
mod places;
mod scan;
mod walk;

pub use error::LayoutError;
pub use free::free_space;
pub(crate) use free::{has_btrfs_trees, volume_bytes};
pub use places::{PlacedFile, Places, places};
pub use scan::{ScanOptions, scan, scan_in_detail, scan_load};
