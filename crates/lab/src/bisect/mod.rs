//! Which of a row of kernels made a study slower: those of the distribution, or the commits of a tree.

mod search;
mod tree;

pub use search::{Search, Verdict};
pub use tree::{Built, Commit, Tree, TreeError};
