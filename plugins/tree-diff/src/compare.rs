//! Two listings side by side: pure, so that it can be tried on tables.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::listing::Entry;

/// How an entry differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The destination does not have it.
    Missing,
    /// Both have it, and the source's changed later or has another size.
    Newer,
    /// Only the destination has it.
    Extra,
}

/// One thing that was found of a folder. In JSON short, because there may be many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// An entry that differs: how, its name, whether it is a folder, and the bytes that would be copied.
    Differs(What, String, bool, u64),
    /// A folder that was looked into in turn.
    Folder(String),
}

/// What both sides come to. Folders in them are not looked into here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub same: u64,
    pub missing: u64,
    pub newer: u64,
    pub extra: u64,
    /// Of missing and newer ones: what there is to copy.
    pub bytes: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.same += other.same;
        self.missing += other.missing;
        self.newer += other.newer;
        self.extra += other.extra;
        self.bytes += other.bytes;
    }

    pub fn differ(&self) -> bool {
        self.missing + self.newer + self.extra > 0
    }

    fn count(&mut self, what: What, bytes: u64) {
        match what {
            What::Missing => self.missing += 1,
            What::Newer => self.newer += 1,
            What::Extra => self.extra += 1,
        }
        self.bytes += bytes;
    }
}

/// A name, as far as each side has it.
pub type Pair<'a> = (Option<&'a Entry>, Option<&'a Entry>);

/// Lays two sorted listings side by side.
pub fn pairs<'a>(source: &'a [Entry], destination: &'a [Entry]) -> impl Iterator<Item = Pair<'a>> {
    let (mut source, mut destination) = (source.iter().peekable(), destination.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (source.peek(), destination.peek()) {
            (Some(ours), Some(theirs)) => ours.name().cmp(theirs.name()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let ours = if order.is_le() { source.next() } else { None };
        let theirs = if order.is_ge() { destination.next() } else { None };
        Some((ours, theirs))
    })
}

/// How the two entries of a name differ: nothing when they are the same, two things when one is a folder and the other
/// is not.
pub fn differences((ours, theirs): Pair<'_>) -> Vec<(What, &Entry)> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours.1 != theirs.1 => vec![(What::Missing, ours), (What::Extra, theirs)],
        (Some(ours), Some(theirs)) => {
            let newer = ours.bytes() != theirs.bytes() || ours.changed_ms() > theirs.changed_ms();
            if newer && !ours.is_folder() { vec![(What::Newer, ours)] } else { Vec::new() }
        }
        (Some(ours), None) => vec![(What::Missing, ours)],
        (None, Some(theirs)) => vec![(What::Extra, theirs)],
        (None, None) => Vec::new(),
    }
}

/// All that differs in a folder, the folders in it, and the numbers. Folders count as entries, and are the same when
/// both have them.
pub fn compare(source: &[Entry], destination: &[Entry]) -> (Counts, Vec<Found>) {
    let mut counts = Counts::default();
    let mut found = Vec::new();
    for pair in pairs(source, destination) {
        let differences = differences(pair);
        counts.same += u64::from(differences.is_empty());
        for (what, entry) in differences {
            let bytes = if what == What::Extra { 0 } else { entry.bytes() };
            counts.count(what, bytes);
            found.push(Found::Differs(what, entry.name().to_owned(), entry.is_folder(), bytes));
        }
        if [pair.0, pair.1].into_iter().flatten().any(Entry::is_folder) {
            let name = pair.0.or(pair.1).map_or("", Entry::name);
            found.push(Found::Folder(name.to_owned()));
        }
    }
    (counts, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Kind;

    fn entry(name: &str, kind: Kind, bytes: u64, changed: u64) -> Entry {
        Entry(name.to_owned(), kind, bytes, changed)
    }

    #[test]
    fn each_name_is_missing_newer_extra_or_the_same() {
        use Kind::{File, Folder};
        let source = [
            entry("a", File, 1, 10),
            entry("b", File, 1, 11),
            entry("c", File, 2, 10),
            entry("d", Folder, 0, 0),
            entry("e", File, 5, 10),
            entry("g", Folder, 0, 0),
            entry("h", File, 7, 1),
        ];
        let destination = [
            entry("a", File, 1, 10),
            entry("b", File, 1, 10),
            entry("c", File, 1, 99),
            entry("d", Folder, 0, 0),
            entry("f", File, 9, 10),
            entry("g", File, 3, 10),
            entry("h", Folder, 0, 0),
        ];
        let (counts, found) = compare(&source, &destination);
        assert_eq!(counts, Counts { same: 2, missing: 3, newer: 2, extra: 3, bytes: 1 + 2 + 5 + 7 });
        let differs = |what, name: &str, folder, bytes| Found::Differs(what, name.to_owned(), folder, bytes);
        let folder = |name: &str| Found::Folder(name.to_owned());
        let expected = [
            differs(What::Newer, "b", false, 1),
            differs(What::Newer, "c", false, 2),
            folder("d"),
            differs(What::Missing, "e", false, 5),
            differs(What::Extra, "f", false, 0),
            differs(What::Missing, "g", true, 0),
            differs(What::Extra, "g", false, 0),
            folder("g"),
            differs(What::Missing, "h", false, 7),
            differs(What::Extra, "h", true, 0),
            folder("h"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_older_source_of_the_same_size_is_the_same() {
        let file = |changed| [entry("a", Kind::File, 1, changed)];
        assert_eq!(compare(&file(1), &file(2)).0.same, 1);
        assert_eq!(compare(&file(2), &file(1)).0.newer, 1);
    }
}
