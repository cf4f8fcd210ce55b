//! Every program in `examples/` runs against a real server, prints what its header says, and leaves its jobs in the
//! right state. [`EXAMPLES`] lists them; a file that is missing there fails a test.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output};
use std::thread;

use serde_json::{Value, json};
use windlass_e2e::{Certificates, Data, Server, eventually, windlass};

/// Runs an example and checks what it printed and what became of its jobs.
type Check = fn(&Run<'_>);

/// Each entry of the folder `examples/`, and what is expected of it.
const EXAMPLES: [(&str, Check); 10] = [
    ("enqueue.sh", enqueue),
    ("worker.py", worker),
    ("worker.mjs", worker),
    ("checkpoint", checkpoint),
    ("chain.mjs", chain),
    ("fan-out.py", fan_out),
    ("rounds.py", rounds),
    ("cron.py", cron),
    ("canary.py", canary),
    ("webhook.mjs", webhook),
];

/// The only one that is not a program of its own: `windlass plugin push` builds and uploads it.
const PLUGIN: &str = "checkpoint";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().expect("the folder with the examples")
}

/// One example on a server, which may ask for a key and speak https.
struct Run<'a> {
    name: &'static str,
    server: &'a Server,
    access: Access<'a>,
}

/// What a program needs for a server.
#[derive(Clone, Copy, Default)]
struct Access<'a> {
    key: Option<&'a str>,
    /// The file with the authority behind the server's certificate.
    authority: Option<&'a Path>,
}

impl Access<'_> {
    /// Tells a program by its environment.
    fn tell(self, command: &mut Command) {
        let variables = [
            ("WINDLASS_API_KEY", self.key.map(OsStr::new)),
            ("WINDLASS_CA_FILE", self.authority.map(Path::as_os_str)),
            ("NODE_EXTRA_CA_CERTS", self.authority.map(Path::as_os_str)),
        ];
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
}

impl Run<'_> {
    /// Starts the example, insists that it goes well, and gives the lines it has printed.
    #[track_caller]
    fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let ended = run(self.name, arguments, &self.server.url(""), self.access);
        assert!(ended.status.success(), "{}: {ended:#?}", self.name);
        ended.stdout.lines().map(str::to_owned).collect()
    }

    /// The id at the beginning of the last line, and what the line says of it.
    #[track_caller]
    fn last(&self, arguments: &[&str]) -> (String, String) {
        let lines = self.lines(arguments);
        let (id, rest) = lines.last().and_then(|line| line.split_once(": ")).expect("a last line with an id");
        (id.to_owned(), rest.to_owned())
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        self.access.key.map(|key| ("X-API-Key", key)).into_iter().collect()
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let answer = self.server.get_with(&format!("/api/v1{path}"), &self.headers());
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.server.post_with(&format!("/api/v1{path}"), &self.headers(), body);
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer.body
    }

    #[track_caller]
    fn enqueue(&self, job: &Value) -> String {
        self.post("/enqueue", job)["job_id"].as_str().expect("an id").to_owned()
    }

    fn job(&self, id: &str) -> Value {
        self.get(&format!("/jobs/{id}"))
    }

    /// The command line of windlass, speaking to this server.
    fn windlass(&self, arguments: &[&str]) -> Output {
        let mut command = windlass();
        command.args(arguments).env("WINDLASS_URL", self.server.url("")).current_dir(examples().join(".."));
        command.env("CARGO_TARGET_DIR", examples().join("../target/guests"));
        self.access.tell(&mut command);
        command.stdout(std::process::Stdio::piped()).output().expect("it starts")
    }
}

#[derive(Debug)]
struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// Killed when a test ends before it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs an example to its end, from the top folder, as its header says.
#[track_caller]
fn run(name: &str, arguments: &[&str], url: &str, access: Access<'_>) -> Ended {
    let folder = tempfile::tempdir().expect("a folder for what it prints");
    let (stdout, stderr) = (folder.path().join("stdout"), folder.path().join("stderr"));
    let mut command = Command::new(examples().join(name));
    command.args(arguments).current_dir(examples().join("..")).env("WINDLASS_URL", url);
    command.stdout(File::create(&stdout).expect("a file")).stderr(File::create(&stderr).expect("a file"));
    access.tell(&mut command);
    let mut child = Running(command.spawn().unwrap_or_else(|error| panic!("{name}: {error}")));
    let status = eventually(&format!("{name} ends"), || child.0.try_wait().expect("our own child"));
    let read = |path| std::fs::read_to_string(path).expect("what it printed");
    Ended { status, stdout: read(stdout), stderr: read(stderr) }
}

/// All examples at once, on one server with what `make run` provides.
fn run_all(server: &Server, access: Access<'_>) {
    let headers: Vec<_> = access.key.map(|key| ("X-API-Key", key)).into_iter().collect();
    let path = "/api/v1/plugins/digest?queues=demo.digest";
    let uploaded = server.put_with(path, &headers, &windlass_e2e::plugin("digest"));
    assert_eq!(uploaded.status, 201, "{uploaded:?}");
    let failed: Vec<&str> = thread::scope(|scope| {
        let started: Vec<_> = EXAMPLES
            .map(|(name, check)| {
                let builder = thread::Builder::new().name(format!("examples/{name}"));
                let run = move || check(&Run { name, server, access });
                (name, builder.spawn_scoped(scope, run).expect("a thread"))
            })
            .into();
        started.into_iter().filter_map(|(name, thread)| thread.join().is_err().then_some(name)).collect()
    });
    assert!(failed.is_empty(), "these failed, see above: {failed:?}");
}

#[test]
fn every_example_does_what_its_header_says() {
    let server = Server::start_on(&Data::new(), &["--webhooks-private"]);
    let key = server.key();
    run_all(&server, Access { key: Some(&key), authority: None });
}

#[test]
fn every_example_sends_the_key_and_speaks_https() {
    let (certificates, key) = (Certificates::new(), "a-key-for-all-of-the-examples");
    let server = Server::try_start_tls(&Data::new(), &certificates, &["--webhooks-private", "--api-key", key]);
    let server = server.unwrap_or_else(|refused| panic!("the server did not start: {refused:#?}"));
    run_all(&server, Access { key: Some(key), authority: Some(&certificates.file("ca.pem")) });
}

#[test]
fn without_a_server_every_example_says_so() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", closed.local_addr().expect("an address"));
    drop(closed);
    for (name, _) in EXAMPLES.iter().filter(|(name, _)| *name != PLUGIN) {
        let ended = run(name, &[], &url, Access::default());
        assert_eq!(ended.status.code(), Some(1), "{name}: {ended:#?}");
        let expected = format!("There is no server at {url}");
        assert!(ended.stderr.contains(&expected) && ended.stderr.contains("`make run`"), "{name}: {ended:#?}");
        assert!(!ended.stderr.contains("Traceback"), "{name}: {ended:#?}");
    }
}

#[test]
fn every_example_is_listed_here_and_in_the_readme() {
    let mut found: Vec<String> = std::fs::read_dir(examples())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name != "README.md")
        .collect();
    let mut listed = EXAMPLES.map(|(name, _)| name.to_owned()).to_vec();
    found.sort();
    listed.sort();
    assert_eq!(found, listed, "each file in examples/ needs an entry in EXAMPLES that says what it is expected to do");
    let readme = std::fs::read_to_string(examples().join("README.md")).expect("a README");
    for (name, _) in EXAMPLES {
        let row = readme.lines().find(|line| line.starts_with("| ") && line.contains(&format!("({name}")));
        assert!(row.is_some(), "examples/README.md has no row for {name}");
        let source = if name == PLUGIN { format!("{name}/src/lib.rs") } else { name.to_owned() };
        let text = std::fs::read_to_string(examples().join(source)).expect("a source");
        assert!(text.contains("    make run") || text.contains("//! make run"), "{name} does not say how to run it");
    }
}

fn enqueue(run: &Run) {
    let (id, said) = run.last(&[]);
    assert_eq!(said, "completed");
    let job = run.job(&id);
    assert_eq!(
        (&job["state"], &job["priority"], &job["tags"]["example"]),
        (&json!("completed"), &json!("high"), &json!("enqueue"))
    );
    let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(job["result"]["sha256"], hello);

    let wrong = self::run(run.name, &["{"], &run.server.url(""), run.access);
    assert!(!wrong.status.success() && wrong.stderr.contains("PARSE_ERROR"), "{wrong:#?}");
}

fn worker(run: &Run) {
    let queue = format!("counting.{}", run.name);
    let good = run.enqueue(&json!({"queue": queue, "payload": {"to": 3}, "checkpoint": 1}));
    assert_eq!(run.last(&[&queue, "--once"]), (good.clone(), "completed".to_owned()));
    let job = run.job(&good);
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!({"counted": 3})));
    assert_eq!((&job["progress"]["current"], &job["checkpoint"]), (&json!(3), &json!(3)), "{job:#}");

    let bad = run.enqueue(&json!({"queue": queue, "payload": {"fail": "no luck"}, "max_attempts": 1}));
    assert_eq!(run.last(&[&queue, "--once"]), (bad.clone(), "dead".to_owned()));
    let job = run.job(&bad);
    assert!(job["errors"][0]["error"].as_str().is_some_and(|error| error.ends_with("no luck")), "{job:#}");
}

fn checkpoint(run: &Run) {
    let pushed = run.windlass(&["plugin", "push", "examples/checkpoint"]);
    assert!(pushed.status.success(), "{pushed:?}");
    let order = r#"{"prices": [5, 10, 15, 20], "fail_at": 3}"#;
    let watched = run.windlass(&["enqueue", "examples.checkpoint", order, "--watch"]);
    assert!(watched.status.success(), "{watched:?}");
    let result: Value = serde_json::from_slice(&watched.stdout).expect("the result");
    assert_eq!(result, json!({"total": 50, "started_at": 3}));
    let jobs = run.get("/jobs?queue=examples.checkpoint");
    let job = run.job(jobs["jobs"][0]["id"].as_str().expect("an id"));
    assert_eq!((&job["state"], &job["attempt"], &job["failures"]), (&json!("completed"), &json!(2), &json!(1)));
}

fn chain(run: &Run) {
    let (id, said) = run.last(&[]);
    assert!(said.starts_with("3 of 3 steps completed"), "{said}");
    let found = run.post("/jobs/search", &json!({"chain_id": id, "order": "asc"}));
    let steps: Vec<Value> = found["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| json!([job["queue"], job["state"], job["payload"]["previous_result"]]))
        .collect();
    let card = json!({"charged": 42, "card": "**** 4242"});
    assert_eq!(
        steps,
        [
            json!(["examples.chain.price", "completed", null]),
            json!(["examples.chain.charge", "completed", {"total": 42}]),
            json!(["examples.chain.receipt", "completed", card]),
        ]
    );
}

fn fan_out(run: &Run) {
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["one", "two", "missing"].map(|name| folder.path().join(name).display().to_string());
    std::fs::write(&files[0], "three words here").expect("room");
    std::fs::write(&files[1], "two words").expect("room");
    let (id, said) = run.last(&files.each_ref().map(String::as_str));
    assert_eq!(said, "completed, 5 words in 3 files, 1 failed");
    let job = run.job(&id);
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!({"words": 5, "failed": 1})));
    let children = run.get(&format!("/jobs/{id}/children"));
    let states: Vec<&Value> =
        children["children"].as_array().expect("children").iter().map(|child| &child["state"]).collect();
    assert_eq!(states, ["completed", "completed", "dead"]);
}

fn rounds(run: &Run) {
    let top = tempfile::tempdir().expect("a folder");
    for folder in ["a/x/deep", "a/y", "b"] {
        std::fs::create_dir_all(top.path().join(folder)).expect("room");
    }
    std::fs::write(top.path().join("a/file"), "").expect("room");
    let top = top.path().display().to_string();
    // The second walk begins from nothing, as the first did.
    for _ in 0..2 {
        let mut lines = run.lines(&[&top]);
        assert_eq!(lines.pop().as_deref(), Some("completed: 1, 2, 2, 1 folders in 4 rounds"));
        assert!(lines.is_sorted_by_key(|line| line.split(':').next().map(str::to_owned)), "{lines:#?}");
        // Within a round, any order will do.
        lines.sort();
        assert_eq!(
            lines,
            [
                "round 0: . has 0 files and 2 folders",
                "round 1: a has 1 files and 2 folders",
                "round 1: b has 0 files and 0 folders",
                "round 2: a/x has 0 files and 1 folders",
                "round 2: a/y has 0 files and 0 folders",
                "round 3: a/x/deep has 0 files and 0 folders",
            ]
        );
    }
    assert_eq!(run.get("/queues/examples.rounds")["completed"], 6);
}

fn cron(run: &Run) {
    let lines = run.lines(&[]);
    let times: Vec<&str> = lines.iter().filter_map(|line| line.split_once('T')).map(|(_, time)| &time[..5]).collect();
    assert!(times.contains(&"07:00") && times.contains(&"08:00"), "nine in summer and in winter: {lines:?}");
    let (id, said) = lines.last().and_then(|line| line.split_once(": ")).expect("a last line");
    let job = run.job(id);
    assert_eq!((said, &job["state"], &job["payload"]), ("completed", &json!("completed"), &json!({"text": "monday"})));
    let gone = run.server.get_with("/api/v1/schedules/examples-weekly", &run.headers());
    assert_eq!(gone.status, 404, "{gone:?}");

    run.lines(&["--keep"]);
    assert_eq!(run.get("/schedules/examples-weekly")["timezone"], "Europe/Berlin");
}

fn canary(run: &Run) {
    let lines = run.lines(&[]);
    let said = |word| lines.iter().filter(|line| line.contains(word)).count();
    assert_eq!((said("plugin.rolled_back"), said("plugin.promoted")), (1, 1), "{lines:#?}");
    let queue = run.get("/queues/examples-canary");
    assert_eq!((&queue["completed"], &queue["dead"]), (&json!(80), &json!(0)));
    let plugin = run.get("/plugins/examples-canary");
    let last = lines.last().and_then(|line| line.split_once(": ")).expect("a last line");
    assert!(plugin["active"].as_str().is_some_and(|active| active.starts_with(last.0)), "{plugin:#}");
}

fn webhook(run: &Run) {
    let lines = run.lines(&[]);
    let (id, said) = lines.last().and_then(|line| line.split_once(": ")).expect("a last line");
    assert_eq!((said, &run.job(id)["state"]), ("completed", &json!("completed")));
    assert!(lines.contains(&format!("verified: {id} is completed")), "{lines:#?}");
    assert!(lines.contains(&"forged: refused with 401".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"signed an hour ago: refused with 401".to_owned()), "{lines:#?}");
    assert_eq!(run.get("/webhook-endpoints"), json!([]), "it has taken its webhook away");
}
