//! Which names a file can have at once after a cut.
//!
//! A *link* is one entry of a file in a directory, from the operation that made it to the one that removed or replaced
//! it; a rename gives it another name. Nothing says in which order links are made and removed on the medium, so each
//! that there was since its name was promised last may be there after a cut. But a rename is atomic: a link is there by
//! one of its names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use fsage_model::crash::CrashOperation;

use super::history::{Floors, History};
use super::known::moved;
use super::tree::Identity;

/// By the number of a link, names by which it may be there beside another one of its names.
pub type OldNames<'a> = BTreeMap<usize, BTreeSet<&'a str>>;

/// Every link that a file had from the last whole sync on.
#[derive(Debug)]
pub struct Links(Vec<Link>);

/// A link of a file.
#[derive(Debug)]
struct Link {
    /// Its names, the last one last.
    names: Vec<Called>,
    is_there: bool,
    /// Whether it was promised to be there in one of the trees.
    is_durable: bool,
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
        let names_at = |tree: usize| history.names_of(file, tree);
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
        for link in &mut links {
            let is_promised = |called: &Called| called.trees.contains(&floors.name(&called.name));
            link.is_durable = link.names.iter().any(is_promised) || link.is_of(from);
            // A link that had lost a name when what the name leads to was promised is not there by it.
            link.names.retain(|called| *called.trees.end() >= floors.name(&called.name));
        }
        Self(links)
    }

    /// How many of `names` can lead to the file at once, if each link is there by one of its names at most; and also by one of
    /// those that `old` has for it.
    pub fn most_at_once<'a>(&self, names: &[&'a str], old: &OldNames<'a>) -> usize {
        // A matching of names and what may bear them (Kuhn 1955): every link, and every link again with its old names.
        let may_be = |number: usize, name: &str| match self.0.get(number) {
            Some(link) => link.names.iter().any(|called| called.name == name),
            None => old.get(&(number - self.0.len())).is_some_and(|old| old.contains(name)),
        };
        let mut there: Vec<Option<&str>> = vec![None; 2 * self.0.len()];
        names.iter().filter(|name| place(name, &may_be, &mut there, &mut BTreeSet::new())).count()
    }

    /// The names of a link that is there, by one of them: it was promised, and no operation removed it since.
    pub fn lasting(&self) -> Option<Vec<&str>> {
        let link = self.0.iter().find(|link| link.is_durable && link.is_there)?;
        Some(link.names.iter().map(|called| called.name.as_str()).collect())
    }

    /// The number of the link which was called `name` in a tree.
    pub fn which(&self, tree: usize, name: &str) -> Option<usize> {
        let had = |called: &Called| called.name == name && called.trees.contains(&tree);
        self.0.iter().position(|link| link.names.iter().any(had))
    }

    /// The names that the link which was called `name` in a tree had until then.
    pub fn earlier_names(&self, tree: usize, name: &str) -> impl Iterator<Item = &str> {
        let link = self.which(tree, name).and_then(|link| self.0.get(link));
        let names = link.into_iter().flat_map(|link| &link.names);
        names.filter(move |called| *called.trees.start() <= tree).map(|called| called.name.as_str())
    }

    /// The names that a link had after a tree.
    pub fn later_names(&self, link: usize, tree: usize) -> impl Iterator<Item = &str> {
        let names = self.0.get(link).into_iter().flat_map(|link| &link.names);
        names.filter(move |called| *called.trees.start() > tree).map(|called| called.name.as_str())
    }
}

/// Finds something that may bear a name, and another name for what has one already where that is needed.
fn place<'a>(
    name: &'a str,
    may_be: &impl Fn(usize, &str) -> bool,
    there: &mut Vec<Option<&'a str>>,
    tried: &mut BTreeSet<usize>,
) -> bool {
    for number in 0..there.len() {
        if !may_be(number, name) || !tried.insert(number) {
            continue;
        }
        let other = there.get(number).copied().flatten();
        if other.is_none_or(|other| place(other, may_be, there, tried)) {
            if let Some(there) = there.get_mut(number) {
                *there = Some(name);
            }
            return true;
        }
    }
    false
}

impl Link {
    fn new(name: &str, tree: usize) -> Self {
        Self {
            names: vec![Called { name: name.to_owned(), trees: tree..=tree }],
            is_there: true,
            is_durable: false,
        }
    }

    /// Whether it was there in this tree, the first one.
    fn is_of(&self, tree: usize) -> bool {
        self.names.first().is_some_and(|called| *called.trees.start() == tree)
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
    use super::super::tree::Node;
    use super::*;

    /// How many of these names the file that is `b` before the load can have at once.
    fn most(load: &[&str], names: &[&str]) -> usize {
        let base = ["mkdir one", "create b", "link b c", "create o"];
        let history = history(&base, load);
        let Some(Node::File(file)) = history.names(0).unwrap().get("b").copied() else { panic!("no file") };
        Links::of(&history, &history.floors(10 * (load.len() as u64), true), file)
            .most_at_once(names, &OldNames::new())
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
            let link = links.which(tree, name).into_iter();
            link.flat_map(|link| links.later_names(link, tree)).map(str::to_owned).collect()
        };
        let load = ["rename c d", "rename b one/b", "rename one two", "link d c"];
        assert_eq!(later(&load, 0, "b"), ["one/b", "two/b"]);
        assert_eq!(later(&load, 2, "one/b"), ["two/b"]);
        assert_eq!(later(&load, 0, "c"), ["d"]);
        assert_eq!(later(&["link b x", "rename x one/x"], 1, "x"), ["one/x"]);
        assert!(later(&load, 4, "c").is_empty(), "another link has the name now");
        assert!(later(&load, 3, "b").is_empty(), "no link has it in that tree");
    }

    #[test]
    fn a_link_may_have_one_old_name_beside_another_name() {
        let history = history(&["mkdir one", "create b", "link b c"], &["rename b one/b", "rename c one/c"]);
        let Some(Node::File(file)) = history.names(0).unwrap().get("b").copied() else { panic!("no file") };
        let links = Links::of(&history, &history.floors(900, true), file);
        let [b, c] = ["b", "c"].map(|name| links.which(0, name).unwrap());
        let most = |names: &[&'static str], old: &[(usize, &'static str)]| {
            let mut all = OldNames::new();
            for (link, name) in old {
                all.entry(*link).or_default().insert(*name);
            }
            links.most_at_once(names, &all)
        };
        let all = ["b", "one/b", "c", "one/c"];
        assert_eq!(most(&all, &[]), 2);
        assert_eq!(most(&all, &[(b, "b")]), 3);
        assert_eq!(most(&all, &[(b, "b"), (c, "c")]), 4);
        assert_eq!(most(&all, &[(b, "b"), (b, "one/b")]), 3);
        assert_eq!(most(&["b", "one/b", "d"], &[(b, "b"), (b, "d")]), 2);
    }

    #[test]
    fn a_link_lasts_that_was_promised_and_that_nothing_removed() {
        let names = |load: &[&str]| {
            let history = history(&["mkdir one", "create b"], load);
            let Some(Node::File(file)) = history.names(0).unwrap().get("b").copied() else {
                panic!("no file")
            };
            let links = Links::of(&history, &history.floors(900, true), file);
            links.lasting().map(|names| names.join(" "))
        };
        let some = |names: &str| Some(names.to_owned());
        assert_eq!(names(&[]), some("b"));
        assert_eq!(names(&["rename b c", "rename c one/b"]), some("b c one/b"));
        assert_eq!(names(&["rename b one/b", "fsyncdir"]), some("one/b"));
        // The order of what is made and removed is not promised.
        assert_eq!(names(&["link b c", "unlink b"]), None);
        assert_eq!(names(&["link b c", "fsyncdir", "unlink b"]), some("c"));
        assert_eq!(names(&["link b c", "fsync c", "unlink b", "rename c d"]), some("c d"));
    }
}
