//! Which names a file can have at once after a cut.
//!
//! A *link* is one entry of a file in a directory, from the operation that made it to the one that removed or replaced
//! it; a rename gives it another name. Nothing says in which order links are made and removed on the medium, so each
//! that there was may be there after a cut. But a rename is atomic: a link is there by one of its names.

use std::collections::BTreeSet;

use fsage_model::crash::CrashOperation;

use super::history::History;
use super::known::is_within;
use super::tree::{Identity, Node};

/// A link of a file.
#[derive(Debug)]
struct Link {
    /// Its names, the last one last; it may be gone since.
    names: Vec<String>,
    is_there: bool,
}

/// How many of `names` can lead to a file at once, if each link that it had from one tree to another is there by one of its
/// names at most.
pub fn most_at_once(history: &History, (from, to): (usize, usize), file: Identity, names: &[&str]) -> usize {
    let links = links(history, (from, to), file);
    // A matching of names and links (Kuhn 1955): by which name each link is there.
    let mut there: Vec<Option<&str>> = vec![None; links.len()];
    names.iter().filter(|name| place(name, &links, &mut there, &mut BTreeSet::new())).count()
}

/// Finds a link for a name, by another name for those that are there already where that is needed.
fn place<'a>(
    name: &'a str,
    links: &[Link],
    there: &mut Vec<Option<&'a str>>,
    tried: &mut BTreeSet<usize>,
) -> bool {
    for (number, link) in links.iter().enumerate() {
        if !link.names.iter().any(|one| one == name) || !tried.insert(number) {
            continue;
        }
        let other = there.get(number).copied().flatten();
        if other.is_none_or(|other| place(other, links, there, tried)) {
            if let Some(there) = there.get_mut(number) {
                *there = Some(name);
            }
            return true;
        }
    }
    false
}

/// Every link that a file had from one tree to another.
fn links(history: &History, (from, to): (usize, usize), file: Identity) -> Vec<Link> {
    let names_at = |tree: usize| -> BTreeSet<&str> {
        let names = history.names(tree).into_iter().flatten();
        names.filter(|(_, node)| **node == Node::File(file)).map(|(name, _)| name.as_str()).collect()
    };
    let first = names_at(from).into_iter();
    let mut links: Vec<Link> = first.map(Link::new).collect();
    for (number, step) in (from..to).zip(history.steps().get(from..to).unwrap_or_default()) {
        let after = names_at(number + 1);
        let mut new = after.clone();
        for link in links.iter_mut().filter(|link| link.is_there) {
            let now = link.names.last().map(|name| moved(name, &step.operation));
            match now.filter(|name| after.contains(name.as_str())) {
                Some(name) => {
                    new.remove(name.as_str());
                    link.names.extend((link.names.last() != Some(&name)).then_some(name));
                }
                None => link.is_there = false,
            }
        }
        links.extend(new.into_iter().map(Link::new));
    }
    links
}

impl Link {
    fn new(name: &str) -> Self {
        Self { names: vec![name.to_owned()], is_there: true }
    }
}

/// What a name is called after an operation that does not remove it.
fn moved(name: &str, operation: &CrashOperation) -> String {
    match operation {
        CrashOperation::Rename { from, to } if is_within(name, from) => {
            format!("{to}{}", name.strip_prefix(from.as_str()).unwrap_or_default())
        }
        CrashOperation::Exchange { from, to } if name == from => to.clone(),
        CrashOperation::Exchange { from, to } if name == to => from.clone(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::tests::history;
    use super::*;

    /// How many of these names the file that is `b` before the load can have at once.
    fn most(load: &[&str], names: &[&str]) -> usize {
        let base = ["mkdir one", "create b", "link b c", "create o"];
        let history = history(&base, load);
        let Some(Node::File(file)) = history.names(0).unwrap().get("b").copied() else { panic!("no file") };
        most_at_once(&history, (0, load.len()), file, names)
    }

    #[test]
    fn a_link_is_there_by_one_of_its_names() {
        assert_eq!(most(&[], &["b", "c"]), 2);
        assert_eq!(most(&["rename b one/b"], &["b", "one/b"]), 1);
        assert_eq!(most(&["rename b d", "rename d one/b"], &["b", "one/b"]), 1);
        assert_eq!(most(&["rename b d", "rename d one/b"], &["b", "one/b", "c"]), 2);
        assert_eq!(
            most(&["rename one two", "link b two/b", "rename two one"], &["b", "c", "two/b", "one/b"]),
            3
        );
        assert_eq!(most(&[], &["never"]), 0);
    }

    #[test]
    fn what_was_removed_and_what_was_made_may_be_there_together() {
        assert_eq!(most(&["unlink c", "link b one/c"], &["b", "c", "one/c"]), 3);
        assert_eq!(most(&["link b d", "rename o c", "link b e"], &["b", "c", "d", "e"]), 4);
        // By what name each is there is chosen as it fits.
        assert_eq!(most(&["rename b d", "link c b"], &["b", "d", "c"]), 3);
        assert_eq!(most(&["rename b d", "link c b", "rename b e"], &["b", "d", "c", "e"]), 3);
    }

    #[test]
    fn exchanged_names_are_those_of_other_links() {
        assert_eq!(most(&["exchange b o"], &["b", "o"]), 1);
        assert_eq!(most(&["exchange o b"], &["b", "o", "c"]), 2);
    }
}
