//! Search finds what a plain look at every job would find: whatever index it goes through, in every order, page by
//! page.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_core::flow::NewBatch;
use windlass_core::{
    Body, BodyKind, Command, Fail, Failure, Holder, Job, JobId, Move, NewJob, PolicyChoice, Priority, Retry, State,
    Unique, UniqueScope, Until, Usage,
};
use windlass_store::Error;
use windlass_store::search::{
    Filter, GroupBy, Order, PayloadFilter, PayloadFilterError, PayloadTest, Payloads, Search, Sort, SortKey, Span,
};

use super::test_store::{TestStore, cancel, done, job, queue, secs};
use crate::rng::Rng;

const QUEUES: [&str; 3] = ["mail", "video", "rare"];
const WORDS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

/// A job as it is, with what its record does not hold.
struct Whole {
    job: Job,
    payload: Vec<u8>,
    errors: Vec<String>,
}

fn few_rows(test: &TestStore, rows: u64) {
    let store = &test.store;
    store.set_few_rows(rows);
}

fn new_job(rng: &mut Rng, made: &[JobId]) -> NewJob {
    let holder = |rng: &mut Rng| (*rng.pick(&WORDS).expect("a word")).to_owned();
    let size = if rng.chance(5) { 70_000 } else { rng.below(60) };
    let payload =
        format!("{{\"w\":\"{}\",\"n\":{},\"pad\":\"{}\"}}", holder(rng), rng.below(5), "x".repeat(size as usize));
    let parent = rng.maybe(20, |rng| rng.pick(made).copied()).flatten();
    NewJob {
        queue: Some(queue(QUEUES[[0, 0, 0, 1, 1, 2][rng.below(6) as usize]])),
        payload: rng.maybe(90, |_| Body::Inline(Bytes::from(payload))),
        policy: PolicyChoice {
            priority: rng.maybe(60, |rng| Priority::ALL[rng.below(4) as usize]),
            max_attempts: rng.maybe(30, |_| 1),
            expire_after: rng.maybe(20, |rng| secs(10 + rng.below(500))),
            ..PolicyChoice::default()
        },
        delay: rng.maybe(20, |rng| secs(1 + rng.below(300))),
        tags: rng
            .maybe(50, |rng| vec![("team".to_owned(), holder(rng)), ("tier".to_owned(), "a".to_owned())])
            .unwrap_or_default(),
        scope: rng.maybe(40, |rng| format!("user:{}", rng.below(4))),
        batch_id: rng.maybe(30, |rng| format!("batch-{}", rng.below(3))),
        unique: rng.maybe(20, |rng| Unique {
            key: format!("{}-{}", holder(rng), made.len()),
            within: UniqueScope::Queue,
            until: Until::End,
            period: secs(3600),
        }),
        // A child's id carries its parent's time, which may be long ago.
        parent,
        limit_key: rng.maybe(30, holder),
        hold_reason: rng.maybe(8, |_| "look".to_owned()),
        ..NewJob::default()
    }
}

/// Makes some jobs and lets some things happen to them.
async fn live(test: &TestStore, rng: &mut Rng, made: &mut Vec<JobId>) {
    for _ in 0..60 {
        test.clock.advance(std::time::Duration::from_millis(rng.below(4_000)));
        match rng.below(10) {
            0..5 => {
                let mut new = new_job(rng, made);
                if let Some(Body::Inline(bytes)) = new.payload.take() {
                    new.payload = Some(test.store.keep(bytes).await.expect("kept"));
                }
                // A parent that has ended takes no more children.
                let Ok(stored) = test.try_put(new).await else { continue };
                if !stored.duplicate {
                    made.push(stored.id);
                }
            }
            5..8 => {
                let worker = *rng.pick(&["ann", "bob"]).expect("a worker");
                let count = 1 + rng.below(3) as usize;
                for got in test.claim_as(worker, &QUEUES, count).await {
                    let command = match rng.below(4) {
                        0 | 1 => done(&got),
                        2 => {
                            let error = format!("broke on {}", rng.pick(&WORDS).expect("a word"));
                            let retry = if rng.chance(50) { Retry::Never } else { Retry::Backoff };
                            let failure = Failure { error, backtrace: None, retry };
                            Command::Fail(Fail { holder: Holder::Token(got.token), failure, usage: Usage::default() })
                        }
                        _ => continue,
                    };
                    test.ask(got.job.id, command).await.expect("taken");
                }
            }
            _ => {
                let Some(id) = rng.pick(made).copied() else { continue };
                let target = queue(rng.pick(&QUEUES).expect("a queue"));
                let command = match rng.below(6) {
                    0 => cancel(),
                    1 => Command::Retry,
                    2 => Command::Move(Move { queue: target, reset_attempts: false, priority: None }),
                    3 => Command::Reprioritise { priority: Priority::ALL[rng.below(4) as usize] },
                    4 => Command::Hold { reason: "wait".into() },
                    _ => Command::Delete,
                };
                // Many of these cannot be: that is as good.
                let _ = test.ask(id, command).await;
            }
        }
    }
}

async fn all(test: &TestStore, made: &[JobId]) -> Vec<Whole> {
    let mut jobs = Vec::new();
    for id in made {
        let Some(job) = test.store.job(*id).await.expect("reads") else { continue };
        let payload = test.store.body(&job, BodyKind::Payload).await.expect("reads").unwrap_or_default().to_vec();
        let errors = test.store.errors(*id).await.expect("reads").into_iter().map(|error| error.error).collect();
        jobs.push(Whole { job, payload, errors });
    }
    jobs
}

fn span(rng: &mut Rng, test: &TestStore) -> Span {
    let moment = |rng: &mut Rng| {
        let ago = secs(rng.below(200));
        rng.chance(50).then(|| windlass_core::Time(test.now().millis() - ago.as_millis() as u64))
    };
    Span { after: moment(rng), before: moment(rng) }
}

fn filter(rng: &mut Rng, test: &TestStore, made: &[JobId]) -> Filter {
    let holder = |rng: &mut Rng| (*rng.pick(&WORDS).expect("a word")).to_owned();
    let some = |rng: &mut Rng, percent| rng.chance(percent);
    Filter {
        queue: rng.maybe(40, |rng| queue(rng.pick(&QUEUES).expect("a queue"))),
        states: if some(rng, 50) { State::ALL.into_iter().filter(|_| rng.chance(40)).collect() } else { Vec::new() },
        priority: rng.maybe(10, |rng| Priority::ALL[rng.below(4) as usize]),
        tags: rng
            .maybe(20, |rng| vec![("team".to_owned(), holder(rng)), ("tier".to_owned(), "a".to_owned())])
            .unwrap_or_default(),
        scope: rng.maybe(15, |rng| format!("user:{}", rng.below(4))),
        created: rng.maybe(20, |rng| span(rng, test)).unwrap_or_default(),
        scheduled: rng.maybe(8, |rng| span(rng, test)).unwrap_or_default(),
        started: rng.maybe(8, |rng| span(rng, test)).unwrap_or_default(),
        completed: rng.maybe(8, |rng| span(rng, test)).unwrap_or_default(),
        failed: rng.maybe(8, |rng| span(rng, test)).unwrap_or_default(),
        expire: rng.maybe(8, |rng| span(rng, test)).unwrap_or_default(),
        worker_id: rng.maybe(8, |rng| (*rng.pick(&["ann", "bob"]).expect("a worker")).to_owned()),
        has_errors: rng.maybe(10, |rng| rng.chance(50)),
        error_contains: rng.maybe(10, holder),
        batch_id: rng.maybe(10, |rng| format!("batch-{}", rng.below(3))),
        parent: rng.maybe(8, |rng| rng.pick(made).copied()).flatten(),
        unique_key: rng.maybe(5, |rng| format!("{}-{}", holder(rng), rng.below(40))),
        limit_key: rng.maybe(8, holder),
        attempt_min: rng.maybe(8, |rng| rng.below(3) as u32),
        attempt_max: rng.maybe(8, |rng| rng.below(3) as u32),
        ids: rng.maybe(8, |rng| {
            let mut ends = [0, 0].map(|_: i32| rng.pick(made).copied().unwrap_or(JobId(0)));
            ends.sort();
            (ends[0], ends[1])
        }),
        payload_contains: rng.maybe(25, holder),
        ..Filter::default()
    }
}

/// Lets payloads through whose text has an even `n`.
#[derive(Debug)]
struct Even(Vec<Vec<u8>>);

impl PayloadFilter for Even {
    fn needles(&self) -> &[Vec<u8>] {
        &self.0
    }
    fn thread(&self) -> Result<Box<dyn PayloadTest>, PayloadFilterError> {
        Ok(Box::new(Even(Vec::new())))
    }
}

impl PayloadTest for Even {
    fn sift(&mut self, payloads: &Payloads) -> Result<Vec<bool>, PayloadFilterError> {
        Ok(payloads.iter().map(is_even).collect())
    }
}

fn is_even(payload: &[u8]) -> bool {
    ["\"n\":0", "\"n\":2", "\"n\":4"].iter().any(|text| contains(payload, text))
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn groupings() -> [GroupBy; 9] {
    [
        GroupBy::State,
        GroupBy::Queue,
        GroupBy::Priority,
        GroupBy::Worker,
        GroupBy::Batch,
        GroupBy::LimitKey,
        GroupBy::Plugin,
        GroupBy::Tag("team".to_owned()),
        GroupBy::Round,
    ]
}

fn expected(jobs: &[Whole], search: &Search) -> Vec<JobId> {
    let passes = |whole: &&Whole| {
        let filter = &search.filter;
        filter.admits(&whole.job)
            && filter.payload_contains.as_ref().is_none_or(|text| contains(&whole.payload, text))
            && filter.error_contains.as_ref().is_none_or(|text| whole.errors.iter().any(|error| error.contains(text)))
            && (search.payload_filter.is_none() || is_even(&whole.payload))
    };
    let place = |whole: &Whole| SortKey::of(&whole.job, search.sort, search.order);
    let mut found: Vec<&Whole> = jobs.iter().filter(passes).collect();
    found.sort_by_key(|whole| place(whole));
    found.into_iter().map(|whole| whole.job.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_the_answer_is_that_of_a_plain_look_at_every_job() {
    let seed = std::env::var("WINDLASS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().map_or(7, |span| span.as_micros() as u64));
    println!("WINDLASS_SEED={seed}");
    let mut rng = Rng::new(seed);
    let mut test = TestStore::new();
    let mut made = Vec::new();
    for n in 0..3 {
        let batch = NewBatch { id: Some(format!("batch-{n}")), ..NewBatch::default() };
        test.store.make_batch(batch, Vec::new(), false).await.expect("a batch");
    }
    for round in 0..4 {
        live(&test, &mut rng, &mut made).await;
        if round == 2 {
            test.reopen().await;
        }
        let jobs = all(&test, &made).await;
        for _ in 0..60 {
            let filter = filter(&mut rng, &test, &made);
            let sorts = [
                Sort::CreatedAt,
                Sort::StartedAt,
                Sort::CompletedAt,
                Sort::Priority,
                Sort::Attempt,
                Sort::ScheduledAt,
                Sort::FailedAt,
                Sort::UpdatedAt,
                Sort::ExpireAt,
                Sort::Since,
            ];
            let mut search = Search::of(filter, 1 + rng.below(12) as usize);
            search.sort = *rng.pick(&sorts).expect("an order");
            search.order = if rng.chance(50) { Order::Asc } else { Order::Desc };
            if rng.chance(10) {
                search.payload_filter = Some(std::sync::Arc::new(Even(vec![b"\"n\"".to_vec()])));
            }
            few_rows(&test, [1, 4, 16, 5_000][rng.below(4) as usize]);
            let wanted = expected(&jobs, &search);
            let mut found = Vec::new();
            loop {
                let page =
                    test.store.search(search.clone()).await.unwrap_or_else(|error| panic!("{search:?}: {error}"));
                assert_eq!(page.total, wanted.len() as u64, "seed {seed}: the total of {search:?}");
                assert!(page.jobs.len() <= search.limit);
                found.extend(page.jobs.iter().map(|found| found.job.id));
                search.after = page.next;
                if search.after.is_none() {
                    break;
                }
            }
            assert_eq!(found, wanted, "seed {seed}: {search:?}");
            search.after = None;
            let mut ids = test.store.search_ids(search.clone()).await.expect("finds");
            ids.sort_unstable();
            let mut wanted = wanted;
            wanted.sort_unstable();
            assert_eq!(ids, wanted, "seed {seed}: the ids of {search:?}");
            let by = rng.pick(&groupings()).expect("a value").clone();
            let counted = test.store.count(search.clone(), by.clone()).await.expect("counts");
            let mut groups = BTreeMap::new();
            for whole in jobs.iter().filter(|whole| wanted.binary_search(&whole.job.id).is_ok()) {
                *groups.entry(by.of(&whole.job).map(String::from)).or_insert(0) += 1;
            }
            assert_eq!(counted.total, wanted.len() as u64, "seed {seed}: the count of {search:?}");
            assert!(counted.groups.is_sorted_by_key(|(_, count)| std::cmp::Reverse(*count)), "{counted:?}");
            let counted: BTreeMap<_, _> = counted.groups.into_iter().collect();
            assert_eq!(counted, groups, "seed {seed}: {by:?} of {search:?}");
        }
    }
}

#[tokio::test]
async fn pages_stay_right_while_jobs_come_and_go() {
    let test = TestStore::new();
    let mut old = Vec::new();
    for _ in 0..30 {
        old.push(test.put(job("mail")).await);
        test.clock.advance(secs(1));
    }
    let mut search = Search::of(Filter { queue: Some(queue("mail")), ..Filter::default() }, 7);
    let mut found = Vec::new();
    loop {
        let page = test.store.search(search.clone()).await.expect("finds");
        assert_eq!(page.total, 30, "as many as there were at the first page");
        found.extend(page.jobs.iter().map(|found| found.job.id));
        let Some(next) = page.next else { break };
        search.after = Some(next);
        // New ones come, and one that was seen goes.
        test.put(job("mail")).await;
        test.clock.advance(secs(1));
        test.ask(found[0], Command::Delete).await.ok();
    }
    old.reverse();
    assert_eq!(found, old, "each of the old ones once, none of the new");
}

/// A sieve that never works.
#[derive(Debug)]
struct Broken(PayloadFilterError);

impl PayloadFilter for Broken {
    fn needles(&self) -> &[Vec<u8>] {
        &[]
    }

    fn thread(&self) -> Result<Box<dyn PayloadTest>, PayloadFilterError> {
        Err(self.0.clone())
    }
}

/// What a search with such a sieve ends with.
async fn broken(why: PayloadFilterError) -> Error {
    let test = TestStore::new();
    test.put(NewJob { payload: Some(Body::Inline("{}".into())), ..job("mail") }).await;
    let search = Search { payload_filter: Some(std::sync::Arc::new(Broken(why))), ..Search::of(Filter::default(), 5) };
    test.store.search(search).await.expect_err("it cannot be")
}

#[tokio::test]
async fn a_sieve_that_fails_is_the_askers_fault_and_says_why() {
    let error = broken(PayloadFilterError::Filter("it took too long".into())).await;
    assert!(matches!(error, Error::Refused(_)) && error.to_string().contains("it took too long"), "{error}");
}

#[tokio::test]
async fn a_sieve_that_this_machine_cannot_run_is_not_the_askers_fault() {
    let error = broken(PayloadFilterError::Host("no process".into())).await;
    assert!(matches!(error, Error::NoSearch { .. }) && error.to_string().contains("no process"), "{error}");
}
