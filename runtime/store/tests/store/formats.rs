//! Old formats stay readable: a folder of each is in `tests/fixtures`, packed into one small file.
//!
//! To make the next one when the format changes: `WINDLASS_WRITE_FIXTURE=formatN cargo test -p windlass-store --test
//! store formats`, and check in the file it makes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_core::schedule::{CatchUp, Overlap, Schedule};
use windlass_core::{
    Body, BodyKind, Command, Complete, Fail, Failure, Holder, JobId, NewJob, NewRecord, Notes, PluginCommand,
    PolicyChoice, Priority, Retry, State, Time, Unique, UniqueScope, Until, Usage,
};
use windlass_store::{By, Claim, JobList, LogLine, ScheduleChange, Store, WebhookChange};

use crate::folder::{open, temporary};
use crate::pack::{pack, unpack};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn new(queue: &str, payload: &'static [u8]) -> NewJob {
    let queue = Some(queue.parse().expect("a name"));
    NewJob { queue, payload: Some(Body::Inline(payload.into())), ..NewJob::default() }
}

/// One job of every kind of record there is.
async fn write(store: &Store) {
    let mut rich = new("rich", b"{\"n\": 1}");
    rich.policy = PolicyChoice { priority: Some(Priority::High), max_attempts: Some(5), ..PolicyChoice::default() };
    rich.tags = vec![("team".into(), "blue".into())];
    rich.scope = Some("order:7".into());
    rich.limit_key = Some("tenant-a".into());
    let (key, period) = ("once".to_owned(), Duration::from_secs(3600));
    rich.unique = Some(Unique { key, within: UniqueScope::Queue, until: Until::Period, period });
    let mut later = new("rich", b"later");
    later.delay = Some(Duration::from_secs(500));
    store.enqueue(vec![rich, new("rich", b"second"), later]).await.expect("stored");
    let by = By::Worker { worker_id: "w".into(), hostname: "h".into() };
    let claim = Claim { by, queues: vec!["rich".parse().expect("a name")], count: 2, wait: Duration::ZERO };
    let claimed = store.claim(claim).await.expect("claimed");
    let holder = Holder::Token(claimed[0].token);
    let done = Command::Complete(Complete {
        holder,
        result: Some(Body::Inline("\"done\"".into())),
        usage: Usage::default(),
        closing: None,
        notes: None,
    });
    store.ask(claimed[0].job.id, done, Vec::new()).await.expect("completed");
    let failure = Failure { error: "no luck".into(), backtrace: Some("at line 1".into()), retry: Retry::Never };
    let failed = Command::Fail(Fail { holder: Holder::Token(claimed[1].token), failure, usage: Usage::default() });
    let line = LogLine { at: Time(5), attempt: 1, level: "info".into(), text: "hello".into() };
    store.log(claimed[1].job.id, vec![line]);
    store.ask(claimed[1].job.id, failed, Vec::new()).await.expect("failed");
    write_rounds(store).await;
    let parent = store.enqueue(vec![new("family", b"parent")]).await.expect("stored")[0].id;
    store.enqueue(vec![NewJob { parent: Some(parent), ..new("family", b"child") }]).await.expect("stored");
    let schedule = Schedule {
        name: "nightly".parse().expect("a name"),
        queue: "rich".parse().expect("a name"),
        cron: "30 2 * * *".into(),
        timezone: "Europe/Berlin".into(),
        payload: "{}".into(),
        policy: PolicyChoice::default(),
        unique: None,
        tags: Vec::new(),
        catch_up: CatchUp::Once,
        overlap: Overlap::Skip,
        paused: false,
        created_at: Time(0),
        updated_at: Time(0),
        last_run: None,
        last_job: None,
        next_run: None,
        skipped: Default::default(),
        created_by: None,
    };
    let change = ScheduleChange::Put { schedule: Box::new(schedule), replace: false };
    store.change_schedule(change).await.expect("stored");
}

/// A queue with rounds: one that has ended, one that waits, and a record.
async fn write_rounds(store: &Store) {
    let walk = "walk".parse::<windlass_core::QueueName>().expect("a name");
    store.configure(walk.clone(), |settings| settings.rounds = true).await.expect("good settings");
    store.enqueue(vec![new("walk", b"root")]).await.expect("stored");
    let by = By::Worker { worker_id: "w".into(), hostname: "h".into() };
    let claim = Claim { by, queues: vec![walk], count: 1, wait: Duration::ZERO };
    let root = store.claim(claim).await.expect("claimed").remove(0);
    let record = NewRecord { key: "a/b".into(), value: b"{}".to_vec() };
    let done = Command::Complete(Complete {
        holder: Holder::Token(root.token),
        result: None,
        usage: Usage::default(),
        closing: None,
        notes: Notes::new(vec![record], Vec::new()),
    });
    let child = |ordinal| NewJob {
        id: Some(JobId::child(root.job.id, ordinal)),
        parent: Some(root.job.id),
        delay: Some(Duration::from_secs(9_000)),
        ..new("walk", b"child")
    };
    store.ask(root.job.id, done, vec![child(0)]).await.expect("completed");
}

async fn read(store: &Store) {
    let walk = "walk".parse::<windlass_core::QueueName>().expect("a name");
    let record = store.record(walk.clone(), "a/b".into()).await.expect("reads").expect("it is there");
    assert_eq!((&record.value[..], record.mark), (&b"{}"[..], None));
    let rounds = store.rounds(walk, 0, 10).await.expect("reads");
    let numbers: Vec<_> =
        rounds.iter().map(|row| (row.number, row.round.tally.completed, row.round.tally.open)).collect();
    assert_eq!(numbers, [(0, 1, 0), (1, 0, 1)]);
    let list = |state| JobList { queue: None, state: Some(state), limit: 10, offset: 0 };
    let completed = store.jobs(list(State::Completed)).await.expect("lists");
    let rich: Vec<_> = completed.iter().filter(|job| job.queue.as_str() == "rich").collect();
    let [job] = &rich[..] else { panic!("one completed job, not {}", rich.len()) };
    assert_eq!((job.priority, job.policy.max_attempts, job.scope.as_deref()), (Priority::High, 5, Some("order:7")));
    assert_eq!(store.body(job, BodyKind::Result).await.expect("reads").as_deref(), Some(&b"\"done\""[..]));
    assert_eq!(store.body(job, BodyKind::Payload).await.expect("reads").as_deref(), Some(&b"{\"n\": 1}"[..]));
    let dead = store.jobs(list(State::Dead)).await.expect("lists");
    let errors = store.errors(dead[0].id).await.expect("reads");
    assert_eq!(errors[0].error, "no luck");
    assert_eq!(store.logs(dead[0].id, 0, 10).await.expect("reads")[0].1.text, "hello");
    assert_eq!(store.jobs(list(State::Scheduled)).await.expect("lists").len(), 2);
    assert_eq!(store.schedules().await.expect("lists")[0].cron, "30 2 * * *");
    // There are none in format 1, where a job did not say how many generations it descends from.
    let family = store.jobs(JobList { queue: None, state: Some(State::Pending), limit: 10, offset: 0 });
    let generations = family.await.expect("lists").into_iter().filter(|job| job.queue.as_str() == "family");
    let mut generations: Vec<u32> = generations.map(|job| job.depth).collect();
    generations.sort_unstable();
    assert!(generations.is_empty() || generations == [0, 1], "{generations:?}");
    assert!(!store.events_after(0, 100).await.expect("reads").is_empty());
    // Alive, not only legible: the lock still holds, and a job can be retried.
    let mut twin = new("rich", b"twin");
    twin.unique = job.unique.clone();
    assert!(store.enqueue(vec![twin]).await.expect("answers")[0].duplicate);
    let retried: JobId = dead[0].id;
    store.ask(retried, Command::Retry, Vec::new()).await.expect("retried");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_ever_written_can_be_read_and_written_to() {
    if let Ok(name) = std::env::var("WINDLASS_WRITE_FIXTURE") {
        let dir = temporary();
        let store = open(dir.path()).expect("opens");
        write(&store).await;
        store.close().await;
        drop(store);
        std::fs::write(fixtures().join(name), pack(dir.path())).expect("writes");
    }
    let mut found = 0;
    for entry in std::fs::read_dir(fixtures()).expect("there are fixtures") {
        let fixture = entry.expect("an entry").path();
        if !fixture.file_name().is_some_and(|name| name.to_string_lossy().starts_with("format")) {
            continue;
        }
        let dir = temporary();
        unpack(&std::fs::read(&fixture).expect("reads"), dir.path());
        let store = open(dir.path()).unwrap_or_else(|error| panic!("{}: {error}", fixture.display()));
        read(&store).await;
        store.close().await;
        found += 1;
    }
    assert!(found > 0, "there is no fixture to read");
}

/// In format 1 a job did not say how many generations it descends from.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_the_first_format_are_as_if_nobody_had_spawned_them_and_their_children_are_counted() {
    let dir = temporary();
    unpack(&std::fs::read(fixtures().join("format1")).expect("reads"), dir.path());
    let store = open(dir.path()).expect("opens");
    let jobs = JobList { queue: None, state: None, limit: 100, offset: 0 };
    let found = store.jobs(jobs).await.expect("lists");
    assert!(found.iter().any(|job| job.parent.is_some()) && found.iter().all(|job| job.depth == 0));
    let dead = found.iter().find(|job| job.state == State::Dead).expect("one failed").id;
    let child = NewJob { parent: Some(dead), ..new("rich", b"child") };
    let child = store.enqueue(vec![child]).await.expect("stored")[0].id;
    store.close().await;
    drop(store);
    let store = open(dir.path()).expect("opens again");
    for (id, depth) in [(dead, 0), (child, 1)] {
        assert_eq!(store.job(id).await.expect("reads").expect("it is there").depth, depth);
    }
    store.close().await;
}

/// Plugins and grants had no queues to spawn into in format 1. Made by a server of that time; the component itself is
/// left out.
#[tokio::test(flavor = "multi_thread")]
async fn plugins_and_grants_of_the_first_format_can_be_read_and_changed() {
    let fixture = fixtures().join("plugins1");
    let dir = temporary();
    unpack(&std::fs::read(fixture).expect("reads"), dir.path());
    let store = open(dir.path()).expect("opens");
    let plugin = store.plugins().await.expect("reads").remove(0);
    let manifest = &plugin.versions[0].manifest;
    assert_eq!((plugin.name.as_str(), plugin.queues[0].as_str()), ("mailer", "old.mail"));
    assert_eq!(
        (manifest.reuse, manifest.schemas.as_deref(), &*manifest.config["region"]),
        (2, Some(&[1, 2][..]), "eu")
    );
    assert_eq!(manifest.capabilities.secrets, ["token"]);
    assert!(manifest.capabilities.spawn.is_empty());
    let mut grant = store.grants().await.expect("reads")[&mailer()].grant.clone();
    assert_eq!((&*grant.environment["TZ"], &*grant.folders["/data"].path), ("UTC", "/srv/data"));
    assert_eq!((grant.private_http[0].to_string().as_str(), grant.spawn.len()), ("db.internal:8080", 0));

    grant.spawn = vec!["bills.*".parse().expect("a pattern")];
    store.change_plugin(mailer(), PluginCommand::Grant(grant.clone())).await.expect("stored");
    store.close().await;
    drop(store);
    let store = open(dir.path()).expect("opens again");
    assert_eq!(store.grants().await.expect("reads")[&mailer()].grant, grant);
    assert_eq!(store.plugins().await.expect("reads")[0].versions, plugin.versions);
    store.close().await;
}

/// Manifests had no schema of payloads in format 2. Made by a server of that time; the component itself is left out.
#[tokio::test(flavor = "multi_thread")]
async fn plugins_of_the_second_format_can_be_read_and_changed() {
    let dir = temporary();
    unpack(&std::fs::read(fixtures().join("plugins2")).expect("reads"), dir.path());
    let store = open(dir.path()).expect("opens");
    let plugin = store.plugins().await.expect("reads").remove(0);
    let mut manifest = plugin.versions[0].manifest.clone();
    assert_eq!((plugin.queues[0].as_str(), manifest.reuse, &*manifest.config["region"]), ("old.mail", 2, "eu"));
    assert_eq!(manifest.capabilities.spawn, ["bills.*".parse().expect("a pattern")]);
    assert_eq!(manifest.payload, None);

    manifest.payload = Some("{\"required\": [\"to\"]}".parse().expect("a schema"));
    let set = PluginCommand::SetManifest { version: None, manifest: manifest.clone() };
    store.change_plugin(mailer(), set).await.expect("stored");
    store.close().await;
    drop(store);
    let store = open(dir.path()).expect("opens again");
    assert_eq!(store.plugins().await.expect("reads")[0].versions[0].manifest, manifest);
    store.close().await;
}

fn mailer() -> windlass_core::Name {
    "mailer".parse().expect("a name")
}

/// Webhooks had one secret, or none, and no stored deliveries in format 1. Made by a server of that time.
#[tokio::test(flavor = "multi_thread")]
async fn webhooks_of_the_first_format_can_be_read_and_changed() {
    let fixture = fixtures().join("webhooks1");
    let dir = temporary();
    unpack(&std::fs::read(fixture).expect("reads"), dir.path());
    let store = open(dir.path()).expect("opens");
    let hooks = store.webhooks().await.expect("reads");
    let of = |url: &str| hooks.iter().find(|hook| hook.url == url).expect("it is there").clone();
    let (signed, silent) = (of("https://example.com/hooks"), of("https://example.org/silent"));
    assert_eq!(
        (&*signed.events, signed.retry_limit, signed.enabled),
        (&["completed", "dead"].map(str::to_owned)[..], 5, false)
    );
    assert_eq!((signed.secrets.all().count(), &signed.secrets.previous), (1, &None));
    assert_eq!((silent.secrets, silent.log), Default::default());
    assert_eq!(signed.updated_at, signed.created_at);

    let (id, encrypted, keep) = (signed.id.clone(), vec![7; 60], Duration::from_secs(60));
    store.change_webhook(WebhookChange::Rotate { id, encrypted, keep }).await.expect("stored");
    store.close().await;
    drop(store);
    let store = open(dir.path()).expect("opens again");
    let hooks = store.webhooks().await.expect("reads");
    let changed = hooks.iter().find(|hook| hook.id == signed.id).expect("it is there");
    let old = signed.secrets.newest.as_deref().expect("it had one");
    assert_eq!(changed.secrets.all().collect::<Vec<_>>(), [&[7; 60][..], old]);
    store.close().await;
}
