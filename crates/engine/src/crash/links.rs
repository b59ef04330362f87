//! Which names a file can have at once after a cut.
//!
//! A *link* is one entry of a file in a directory, from the operation that made it to the one that removed or replaced
//! it; a rename gives it another name. Nothing says in which order links are made and removed on the medium, so each
//! that there was since its name was promised last may be there after a cut. But a rename is atomic: a link is there by
//! one of its names.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use fsage_model::crash::CrashOperation;

use super::history::{Floors, History};
use super::known::moved;
use super::tree::{Identity, Node};

/// Every link that a file had from the last whole sync on.
#[derive(Debug)]
pub struct Links(Vec<Link>);

/// A link of a file.
#[derive(Debug)]
struct Link {
    /// Its names, the last one last.
    names: Vec<Called>,
    is_there: bool,
}

/// A name of a link.
#[derive(Debug)]
struct Called {
    name: String,
    /// The trees in which the link had it.
    trees: RangeInclusive<usize>,
}

impl Links {
    /// The links of a file in the trees that may be there after a cut.
    pub fn of(history: &History, floors: &Floors, file: Identity) -> Self {
        let (from, to) = (floors.all(), floors.last);
        let names_at = |tree: usize| -> BTreeSet<&str> {
            let names = history.names(tree).into_iter().flatten();
            names.filter(|(_, node)| **node == Node::File(file)).map(|(name, _)| name.as_str()).collect()
        };
        let mut links: Vec<Link> = names_at(from).into_iter().map(|name| Link::new(name, from)).collect();
        for (number, step) in (from..to).zip(history.steps().get(from..to).unwrap_or_default()) {
            let mut new = names_at(number + 1);
            for link in links.iter_mut().filter(|link| link.is_there) {
                let now = link.names.last().map(|called| called_after(&step.operation, &called.name));
                match now.filter(|name| new.remove(name.as_str())) {
                    Some(name) => link.is_called(name, number + 1),
                    None => link.is_there = false,
                }
            }
            links.extend(new.into_iter().map(|name| Link::new(name, number + 1)));
        }
        // A link that had lost a name when what the name leads to was promised is not there by it.
        for link in &mut links {
            link.names.retain(|called| *called.trees.end() >= floors.name(&called.name));
        }
        Self(links)
    }

    /// How many of `names` can lead to the file at once, if each link is there by one of its names at most.
    pub fn most_at_once(&self, names: &[&str]) -> usize {
        // A matching of names and links (Kuhn 1955): by which name each link is there.
        let mut there: Vec<Option<&str>> = vec![None; self.0.len()];
        names.iter().filter(|name| self.place(name, &mut there, &mut BTreeSet::new())).count()
    }

    /// Finds a link for a name, by another name for those that are there already where that is needed.
    fn place<'a>(
        &self,
        name: &'a str,
        there: &mut Vec<Option<&'a str>>,
        tried: &mut BTreeSet<usize>,
    ) -> bool {
        for (number, link) in self.0.iter().enumerate() {
            if !link.names.iter().any(|called| called.name == name) || !tried.insert(number) {
                continue;
            }
            let other = there.get(number).copied().flatten();
            if other.is_none_or(|other| self.place(other, there, tried)) {
                if let Some(there) = there.get_mut(number) {
                    *there = Some(name);
                }
                return true;
            }
        }
        false
    }

    /// The names that the link which was called `name` in a tree had after it.
    pub fn later_names(&self, tree: usize, name: &str) -> impl Iterator<Item = &str> {
        let had = |called: &Called| called.name == name && called.trees.contains(&tree);
        let link = self.0.iter().find(|link| link.names.iter().any(had));
        let names = link.into_iter().flat_map(|link| &link.names);
        names.filter(move |called| *called.trees.start() > tree).map(|called| called.name.as_str())
    }
}

impl Link {
    fn new(name: &str, tree: usize) -> Self {
        Self { names: vec![Called { name: name.to_owned(), trees: tree..=tree }], is_there: true }
    }

    /// Its name in the next tree.
    fn is_called(&mut self, name: String, tree: usize) {
        match self.names.last_mut() {
            Some(called) if called.name == name => called.trees = *called.trees.start()..=tree,
            _ => self.names.push(Called { name, trees: tree..=tree }),
        }
    }
}

/// What a name is called after an operation that does not remove it.
fn called_after(operation: &CrashOperation, name: &str) -> String {
    match operation {
        CrashOperation::Rename { from, to } => moved(name, from, to).unwrap_or_else(|| name.to_owned()),
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
        Links::of(&history, &history.floors(10 * (load.len() as u64), true), file).most_at_once(names)
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

    #[test]
    fn a_link_whose_removal_was_promised_is_not_there() {
        assert_eq!(most(&["unlink c", "link b d", "rename d c"], &["b", "c", "d"]), 3);
        assert_eq!(most(&["unlink c", "fsyncdir", "link b d", "rename d c"], &["b", "c", "d"]), 2);
        assert_eq!(most(&["rename c d", "fsyncdir", "rename d e"], &["c"]), 0);
    }

    #[test]
    fn later_names_are_those_of_the_same_link() {
        let later = |load: &[&str], tree: usize, name: &str| -> Vec<String> {
            let history = history(&["mkdir one", "create b", "link b c"], load);
            let Some(Node::File(file)) = history.names(0).unwrap().get("b").copied() else {
                panic!("no file")
            };
            let links = Links::of(&history, &history.floors(900, true), file);
            links.later_names(tree, name).map(str::to_owned).collect()
        };
        let load = ["rename c d", "rename b one/b", "rename one two", "link d c"];
        assert_eq!(later(&load, 0, "b"), ["one/b", "two/b"]);
        assert_eq!(later(&load, 2, "one/b"), ["two/b"]);
        assert_eq!(later(&load, 0, "c"), ["d"]);
        assert!(later(&load, 4, "c").is_empty(), "another link has the name now");
        assert!(later(&load, 3, "b").is_empty(), "no link has it in that tree");
    }
}
