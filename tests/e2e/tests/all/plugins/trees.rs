//! The plugin `tree-diff`: two folder trees compared in rounds, checked against a plain recursion.
//!
//! The large tree has WINDLASS_TREE_FILES files, by default a few thousand; `make soak` uses 200,000 and more.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually, plugin};

const SRC: &str = "tree-diff.src";
const DST: &str = "tree-diff.dst";
const REPORT: &str = "tree-diff.report";
/// More than the walk of the largest tree takes.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Two trees that are removed after the test.
struct Trees(tempfile::TempDir);

impl Trees {
    fn new() -> Trees {
        let trees = Trees(tempfile::tempdir().expect("a folder"));
        for side in ["a", "b"] {
            trees.folder(side);
        }
        trees
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn folder(&self, path: &str) {
        fs::create_dir_all(self.path(path)).expect("a folder");
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    fn changed_later(&self, path: &str) {
        let file = fs::File::options().write(true).open(self.path(path)).expect("a file");
        file.set_modified(SystemTime::now() + Duration::from_secs(3_600)).expect("a time");
    }
}

/// A server with the plugin, its folders granted and its queues set up.
fn server(data: &Data, trees: &Trees, max_lead: u32) -> Server {
    let root = trees.path("").display().to_string();
    let server = Server::start_on(data, &["--grant-root", &root]);
    let queues = ["tree-diff", SRC, DST, REPORT];
    let manifest = json!({"queues": queues, "capabilities": {"read": ["/source", "/destination"]}});
    let answer = server.upload_with("/api/v1/plugins/tree-diff", &plugin("tree-diff"), &manifest.to_string());
    assert_eq!(answer.status, 201, "{answer:?}");
    let folders = json!({"/source": {"path": trees.path("a")}, "/destination": {"path": trees.path("b")}});
    let granted = server.put("/api/v1/plugins/tree-diff/grant", json!({"folders": folders}).to_string().as_bytes());
    assert_eq!(granted.status, 200, "{granted:?}");
    let once = json!({"max_attempts": 1});
    for (queue, gate) in [
        (SRC, Value::Null),
        (DST, json!({"queue": SRC, "lead": 1, "max_lead": max_lead})),
        (REPORT, json!({"queue": DST, "lead": 1_000_000})),
    ] {
        let settings = json!({"rounds": true, "gate": gate, "defaults": once});
        let answer = server.post(&format!("/api/v1/queues/{queue}/settings"), &settings);
        assert_eq!(answer.status, 200, "{queue}: {answer:?}");
    }
    server
}

fn start(server: &Server) -> String {
    server.enqueue(&json!({"queue": "tree-diff", "payload": {}}))
}

/// Waits for a job that may take long.
fn finished(server: &Server, id: &str) -> Value {
    let began = Instant::now();
    loop {
        let job = server.get(&format!("/api/v1/jobs/{id}/wait?timeout=20s")).body;
        if job["timed_out"] != true {
            assert_eq!(job["state"], "completed", "{job:#}");
            return job["result"].clone();
        }
        assert!(began.elapsed() < DEADLINE, "not within {DEADLINE:?}: {job:#}");
    }
}

/// All differences on the pages of a report.
fn pages(server: &Server, report: &Value) -> Vec<(String, String)> {
    let run = report["run"].as_str().expect("a run");
    let mut all = Vec::new();
    for page in 1..=report["pages"].as_u64().expect("a number") {
        let record = record(server, REPORT, &format!("{run}/page//{page:06}"));
        let items: Vec<(String, String)> = serde_json::from_value(record["value"].clone()).expect("a page");
        all.extend(items);
    }
    all
}

/// One record of a queue.
fn record(server: &Server, queue: &str, key: &str) -> Value {
    let answer = server.get(&format!("/api/v1/queues/{queue}/records?key={key}"));
    assert_eq!(answer.status, 200, "{key}: {answer:?}");
    answer.body
}

/// The reference: one recursion over both.
fn plain(source: Option<&Path>, destination: Option<&Path>, path: &str, found: &mut Vec<(String, String)>) {
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
        let mut tell = |what: &str| found.push((what.to_owned(), at.clone()));
        match (a, b) {
            (Some(a), Some(b)) if a.is_dir() != b.is_dir() => ["missing", "extra"].into_iter().for_each(&mut tell),
            (Some(a), Some(b)) if a.is_file() => {
                let later = a.modified().expect("a time") > b.modified().expect("a time");
                if a.len() != b.len() || later {
                    tell("newer");
                }
            }
            (Some(_), Some(_)) => {}
            (Some(_), None) => tell("missing"),
            (None, _) => tell("extra"),
        }
        let inside = |root: Option<&Path>, entry: Option<&fs::Metadata>| {
            root.filter(|_| entry.is_some_and(fs::Metadata::is_dir)).map(|root| root.join(name))
        };
        let (source, destination) = (inside(source, a), inside(destination, b));
        if source.is_some() || destination.is_some() {
            plain(source.as_deref(), destination.as_deref(), &at, found);
        }
    }
}

/// The report contains exactly what the reference finds, and nothing twice.
#[track_caller]
fn check(server: &Server, trees: &Trees, report: &Value) {
    let mut expected = Vec::new();
    plain(Some(&trees.path("a")), Some(&trees.path("b")), "", &mut expected);
    let mut found = pages(server, report);
    expected.sort();
    found.sort();
    assert!(found == expected, "{} found, {} expected; {report:#}", found.len(), expected.len());
    for what in ["missing", "newer", "extra"] {
        let count = expected.iter().filter(|(each, _)| each == what).count();
        assert_eq!(report[what], json!(count), "{what}: {report:#}");
    }
    assert_eq!(report["unread"], 0, "{report:#}");
}

fn jobs_of(server: &Server, queue: &str) -> u64 {
    let view = server.queue(queue);
    ["completed", "dead", "cancelled"].iter().map(|state| view[state].as_u64().unwrap_or(0)).sum()
}

fn small() -> Trees {
    let trees = Trees::new();
    for folder in ["a/x/y/z", "b/x/y", "a/only/here", "b/left/over", "a/turned"] {
        trees.folder(folder);
    }
    for (path, text) in [
        ("a/same", "1"),
        ("b/same", "1"),
        ("a/newer", "1"),
        ("b/newer", "1"),
        ("a/x/y/larger", "12"),
        ("b/x/y/larger", "1"),
        ("a/x/y/z/deep", "1"),
        ("a/only/here/file", "1"),
        ("b/left/over/file", "1"),
        ("b/turned", "a file now"),
        ("a/turned/file", "1"),
    ] {
        trees.write(path, text);
    }
    trees.changed_later("a/newer");
    trees
}

#[test]
fn two_trees_are_compared_in_rounds_and_one_report_lists_the_differences() {
    let trees = small();
    let server = server(&Data::new(), &trees, 8);
    let report = finished(&server, &start(&server));
    check(&server, &trees, &report);
    assert_eq!((&report["same"], &report["bytes"]), (&json!(3), &json!(1 + 2 + 1 + 1 + 1)), "{report:#}");

    // A second run is not affected by the first.
    trees.write("a/fresh", "1");
    let again = finished(&server, &start(&server));
    assert_ne!(again["run"], report["run"]);
    check(&server, &trees, &again);
}

#[test]
fn a_folder_that_vanished_is_reported_and_a_sweep_rebuilds_it_once() {
    let trees = small();
    // The source may be one round ahead, and the destination is held: it stops before the third level.
    let server = server(&Data::new(), &trees, 1);
    assert_eq!(server.post(&format!("/api/v1/queues/{DST}/pause"), &json!({})).status, 200);
    let run = start(&server);
    eventually("two rounds of the source are over", || (jobs_of(&server, SRC) == 4).then_some(()));
    fs::remove_dir_all(trees.path("a/x/y")).expect("it was there");
    assert_eq!(server.post(&format!("/api/v1/queues/{DST}/resume"), &json!({})).status, 200);
    let report = finished(&server, &run);
    assert_eq!((&report["unread"], &report["unread_folders"]), (&json!(1), &json!(["x/y"])), "{report:#}");

    trees.folder("a/x/y/z");
    for (path, text) in [("a/x/y/larger", "123"), ("a/x/y/z/deep", "1"), ("a/x/y/z/deeper", "1")] {
        trees.write(path, text);
    }
    for queue in [SRC, DST] {
        let swept = server.post(&format!("/api/v1/queues/{queue}/sweep"), &json!({"failed": true, "marked": false}));
        assert!(swept.status < 300, "{queue}: {swept:?}");
    }
    let job = server.enqueue(&json!({"queue": REPORT, "payload": {"run": run}}));
    let report = finished(&server, &job);
    check(&server, &trees, &report);
    // The root, only, turned, x, only/here, x/y and x/y/z; on the destination left and left/over as well.
    assert_eq!((jobs_of(&server, SRC), jobs_of(&server, DST)), (7, 9), "each folder has one job");
}

/// Pseudorandom numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// This many files in folders of about a hundred, some of them on one side only, and some that differ.
fn large(files: usize, seed: u64) -> Trees {
    let trees = Trees::new();
    let mut dice = Dice(seed);
    // Whether each folder is on both sides or on one; its contents are on the same sides.
    let mut folders = vec![(String::new(), [true, true], 0)];
    let mut made = 0;
    while made < files {
        let (path, sides, depth) = folders[dice.below(folders.len())].clone();
        if depth > 7 {
            continue;
        }
        let path = format!("{path}/d{}", folders.len());
        let only = dice.below(100);
        let sides = [sides[0] && only != 0, sides[1] && only > 2];
        if sides == [false, false] {
            continue;
        }
        for (side, _) in ["a", "b"].iter().zip(sides).filter(|(_, there)| *there) {
            trees.folder(&format!("{side}{path}"));
        }
        folders.push((path.clone(), sides, depth + 1));
        let many = if folders.len() == 7 { files / 40 } else { 100 };
        for n in 0..many {
            made += 1;
            let (ours, theirs) = (format!("a{path}/f{n}"), format!("b{path}/f{n}"));
            let lot = dice.below(100);
            if sides[0] && lot != 0 {
                trees.write(&ours, if lot == 1 { "longer" } else { "text" });
            }
            if sides[1] && !(2..4).contains(&lot) {
                trees.write(&theirs, "text");
            }
            if sides == [true, true] && lot == 4 {
                trees.changed_later(&ours);
            }
        }
    }
    trees
}

#[test]
fn a_large_tree_is_compared_through_a_crash_as_a_plain_recursion_would() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
    };
    let (files, seed) = (number("WINDLASS_TREE_FILES", 4_000), number("WINDLASS_SEED", 7));
    println!("WINDLASS_TREE_FILES={files} WINDLASS_SEED={seed}");
    let began = Instant::now();
    let trees = large(files as usize, seed);
    println!("made in {:?}", began.elapsed());

    let data = Data::new();
    let walk = Instant::now();
    let server = server(&data, &trees, 8);
    let run = start(&server);
    // Halfway: some of the destination's folders are compared, most are not.
    let folders = files / 100;
    let enough = |server: &Server| jobs_of(server, DST) > folders / 10;
    let asked = Instant::now();
    while !enough(&server) {
        assert!(asked.elapsed() < DEADLINE, "the walk does not get on: {:#}", server.queue(DST));
    }
    let before = jobs_of(&server, SRC) + jobs_of(&server, DST);
    let server = Server::start_on(&server.kill_9(), &["--grant-root", &trees.path("").display().to_string()]);
    assert_ne!(server.job(&run)["state"], "completed", "it was killed too late to show anything");
    let report = finished(&server, &run);
    println!("walked in {:?}, killed after {before} jobs: {}", walk.elapsed(), report["folders"]);
    check(&server, &trees, &report);
    let rounds = server.get(&format!("/api/v1/queues/{SRC}/rounds")).body;
    assert!(rounds["rounds"].as_array().is_some_and(|rounds| rounds.len() > 4), "{rounds:#}");
    for queue in [SRC, DST] {
        let view = server.queue(queue);
        println!("{queue}: {} completed", view["completed"]);
        assert_eq!((&view["dead"], &view["cancelled"]), (&json!(0), &json!(0)), "{view:#}");
    }
    println!(
        "{}",
        json!({"same": report["same"], "missing": report["missing"], "newer": report["newer"], "extra": report["extra"]})
    );
}
