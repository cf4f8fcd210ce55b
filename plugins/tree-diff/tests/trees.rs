//! The handlers against the fake server, natively, on real folders: a driver plays the rounds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tree_diff::compare::What;
use tree_diff::{
    DESTINATION, Folder, REPORT, Report, SOURCE, Side, Trees, Wanted, add_up, compare_folder, list_folder,
};
use windlass::testing::Fake;
use windlass::{Context, Error, Result};

/// Two folders that go when the test does.
struct Pair(PathBuf);

impl Pair {
    fn new(name: &str) -> Pair {
        let root = std::env::temp_dir().join(format!("tree-diff-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for side in ["a", "b"] {
            fs::create_dir_all(root.join(side)).expect("a folder");
        }
        Pair(root)
    }

    fn write(&self, path: &str, text: &str, hours: u64) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, text).expect("a file");
        let file = fs::File::options().write(true).open(&path).expect("a file");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(3_600 * hours)).expect("a time");
    }

    fn folder(&self, path: &str) {
        fs::create_dir_all(self.0.join(path)).expect("a folder");
    }

    fn root(&self, side: &str) -> String {
        self.0.join(side).to_string_lossy().into_owned()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the server would keep of all jobs.
#[derive(Default)]
struct Store {
    /// A job whose records all others see.
    server: Fake,
    /// Checkpoints that each attempt may save before it is cut off and repeated.
    cut_after: Option<usize>,
    saves: usize,
}

impl Store {
    /// One job, repeated while it is cut off. Gives its result and its children.
    fn run<P: Serialize + Clone, I: DeserializeOwned, O: Serialize + DeserializeOwned>(
        &mut self,
        queue: &str,
        round: u32,
        handler: impl Fn(&mut Context, I) -> Result<O>,
        payload: &P,
    ) -> (Result<O>, Vec<Vec<u8>>) {
        let mut fake = self.server.another_job().queue(queue).round(round);
        let mut output;
        loop {
            if let Some(checkpoints) = self.cut_after {
                fake.fail_checkpoints_after(checkpoints);
            }
            let before = fake.saves();
            output = fake.run(&handler, payload);
            let cut = output.as_ref().is_err_and(|error| error.message().contains("the test said so"));
            if !cut || fake.saves() == before {
                break;
            }
        }
        self.saves += fake.saves();
        let children = fake.children().into_iter().map(|child| child.payload).collect();
        (output, children)
    }

    /// All rounds of one side, level by level. Gives the errors of jobs that failed.
    fn walk<O: Serialize + DeserializeOwned>(
        &mut self,
        queue: &str,
        handler: impl Fn(&mut Context, Folder) -> Result<O>,
        first: Folder,
    ) -> Vec<String> {
        let mut errors = Vec::new();
        let mut level = vec![first];
        for round in 0.. {
            let mut next = Vec::new();
            for folder in level {
                let (result, children) = self.run(queue, round, &handler, &folder);
                errors.extend(result.err().map(|error| error.message().to_owned()));
                next.extend(children.iter().map(|bytes| serde_json::from_slice(bytes).expect("a folder")));
            }
            if next.is_empty() {
                return errors;
            }
            level = next;
        }
        errors
    }

    fn compare(&mut self, pair: &Pair) -> (Report, Vec<String>) {
        let folder =
            |side: &str, has| Folder { run: "run".into(), root: pair.root(side), path: String::new(), side: has };
        let mut errors = self.walk(SOURCE, list_folder, folder("a", None));
        errors.extend(self.walk(DESTINATION, compare_folder, folder("b", Some(Side::Both))));
        let (report, _) = self.run(REPORT, 0, add_up, &Wanted { run: "run".into() });
        (report.expect("a report"), errors)
    }

    /// The list on all pages.
    fn differences(&self, report: &Report) -> Vec<(What, String)> {
        let read = |n| {
            let page = self.server.get_record::<Vec<(What, String)>>(REPORT, &format!("run/page//{n:06}"));
            page.expect("JSON").expect("a page").value
        };
        (1..=report.pages).flat_map(read).collect()
    }
}

/// The plain way: one recursion over both.
fn plain(source: Option<&Path>, destination: Option<&Path>, path: &str, found: &mut Vec<(What, String)>) {
    let names = |folder: Option<&Path>| -> BTreeMap<String, fs::Metadata> {
        let Some(folder) = folder else { return BTreeMap::new() };
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
        entries
            .map(|entry| (entry.file_name().into_string().expect("text"), entry.metadata().expect("there")))
            .collect()
    };
    let (ours, theirs) = (names(source), names(destination));
    let mut all: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
    all.sort();
    all.dedup();
    for name in all {
        let at = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        let (a, b) = (ours.get(name), theirs.get(name));
        let folder = |entry: Option<&fs::Metadata>| entry.is_some_and(fs::Metadata::is_dir);
        match (a, b) {
            (Some(a), Some(b)) if a.is_dir() != b.is_dir() => {
                found.extend([(What::Missing, at.clone()), (What::Extra, at.clone())]);
            }
            (Some(a), Some(b)) => {
                let later = a.modified().expect("a time") > b.modified().expect("a time");
                if !a.is_dir() && (a.len() != b.len() || later) {
                    found.push((What::Newer, at.clone()));
                }
            }
            (Some(_), None) => found.push((What::Missing, at.clone())),
            (None, _) => found.push((What::Extra, at.clone())),
        }
        let inside = |root: Option<&Path>, entry| folder(entry).then(|| root.map(|root| root.join(name))).flatten();
        let (source, destination) = (inside(source, a), inside(destination, b));
        if source.is_some() || destination.is_some() {
            plain(source.as_deref(), destination.as_deref(), &at, found);
        }
    }
}

/// What the walk found is what the plain way finds, and nothing twice.
fn check(store: &Store, report: &Report, pair: &Pair) {
    let mut expected = Vec::new();
    plain(Some(Path::new(&pair.root("a"))), Some(Path::new(&pair.root("b"))), "", &mut expected);
    let mut found = store.differences(report);
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    let count = |wanted| expected.iter().filter(|(what, _)| *what == wanted).count() as u64;
    let counts = (report.counts.missing, report.counts.newer, report.counts.extra);
    assert_eq!(counts, (count(What::Missing), count(What::Newer), count(What::Extra)));
}

fn mixed(name: &str) -> Pair {
    let pair = Pair::new(name);
    for (path, text, hours) in [
        ("a/same", "1", 1),
        ("b/same", "1", 1),
        ("a/newer", "1", 9),
        ("b/newer", "1", 1),
        ("a/larger", "12", 1),
        ("b/larger", "1", 9),
        ("a/only/deep/er/file", "1", 1),
        ("b/left/over/file", "1", 1),
        ("a/both/x", "1", 1),
        ("b/both/y", "1", 1),
        ("a/turned/file", "1", 1),
        ("b/turned", "now a file", 1),
        ("a/räume & ‘zeichen’", "1", 1),
    ] {
        pair.write(path, text, hours);
    }
    pair.folder("a/empty");
    pair
}

#[test]
fn a_walk_finds_what_a_plain_recursion_finds() {
    let pair = mixed("mixed");
    let mut store = Store::default();
    let (report, errors) = store.compare(&pair);
    assert!(errors.is_empty(), "{errors:?}");
    check(&store, &report, &pair);
    assert_eq!((report.unread, report.counts.newer, report.counts.same), (0, 2, 2));
    assert_eq!(report.counts.bytes, 1 + 2 + 1 + 1 + 1 + 1, "what there is to copy");
}

#[test]
fn large_folders_are_recorded_in_chunks_and_a_walk_that_is_cut_off_makes_no_doubles() {
    let pair = Pair::new("large");
    for n in 0..1_200 {
        pair.folder(&format!("a/f{n:05}"));
        if n % 2 == 0 {
            pair.folder(&format!("b/f{n:05}"));
        }
    }
    for n in 0..1_500 {
        let name = format!("{n:05}-{}", "long".repeat(50));
        pair.write(&format!("a/f00000/{name}"), "1", 1);
    }
    let mut store = Store { cut_after: Some(1), ..Store::default() };
    let (report, errors) = store.compare(&pair);
    assert!(errors.is_empty(), "{errors:?}");
    check(&store, &report, &pair);
    assert_eq!((report.folders, report.unread), (1_201, 0));
    let second = store.server.get_record::<Value>(SOURCE, "run/f00000//1").expect("JSON");
    assert!(second.is_some(), "more than one chunk");
    assert!(report.pages > 3 && store.saves > 4, "{} pages, {} saves", report.pages, store.saves);
}

#[test]
fn a_folder_that_cannot_be_read_is_told_and_the_rest_is_compared() {
    let pair = mixed("broken");
    let mut store = Store::default();
    let folder = |path: &str| Folder { run: "run".into(), root: pair.root("a"), path: path.into(), side: None };
    let (gone, _) = store.run(SOURCE, 0, list_folder, &folder("nowhere"));
    assert!(gone.expect_err("it is not there").message().contains("cannot read the folder"));
    // The source's job of one folder failed: the destination has nothing to compare it with.
    let unlisted = |ctx: &mut Context, folder: Folder| match folder.path.as_str() {
        "both" => Err(Error::new("no permission")),
        _ => list_folder(ctx, folder),
    };
    assert_eq!(store.walk(SOURCE, unlisted, folder("")), ["no permission"]);
    let first = Folder { run: "run".into(), root: pair.root("b"), path: String::new(), side: Some(Side::Both) };
    let errors = store.walk(DESTINATION, compare_folder, first);
    assert!(errors.len() == 1 && errors[0].contains("the source has not listed `both`"), "{errors:?}");
    let (report, _) = store.run::<_, Wanted, Report>(REPORT, 0, add_up, &Wanted { run: "run".into() });
    let report = report.expect("a report");
    assert_eq!((report.unread, report.unread_folders), (1, vec!["both".to_owned()]));
}

#[test]
fn a_run_starts_three_jobs_waits_and_gives_back_the_report() {
    let trees = Trees { source: "/source".into(), destination: "/destination".into() };
    let mut fake = Fake::new().queue("tree-diff");
    assert!(fake.run(tree_diff::compare_trees, &trees).expect_err("it waits").is_waiting());
    let queues: Vec<String> = fake.children().into_iter().map(|child| child.queue).collect();
    assert_eq!(queues, [SOURCE, DESTINATION, REPORT]);
    fake.child_completed(0, &Value::Null).expect("JSON");
    fake.child_completed(1, &Value::Null).expect("JSON");
    let report = Report { run: "job_test".into(), folders: 7, ..Report::default() };
    fake.child_completed(2, &report).expect("JSON");
    assert_eq!(fake.run(tree_diff::compare_trees, &trees), Ok(report));
}

#[test]
fn a_queue_without_rounds_is_refused_in_words() {
    let folder = Folder { run: "run".into(), root: "/".into(), path: String::new(), side: None };
    let error = Fake::new().queue(SOURCE).run(list_folder, &folder).expect_err("no rounds");
    assert!(error.is_fatal() && error.message().contains("has no rounds"), "{error}");
}
