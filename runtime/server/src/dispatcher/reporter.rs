//! What a running guest says, carried to the store: progress and log a few times a second, checkpoints at once.
//!
//! A guest that reports a million times a second costs twenty commands: only the latest report waits here, and it is sent
//! before the attempt ends.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::debug;
use windlass_core::{
    BodyKind, Checkpoint, Command, Job, JobId, Name, NewJob, NewMark, NewRecord, Notes, Priority, Progress, QueueName,
    Refusal, Reply, State, Token, Unique, Until, Usage, Within, Word,
};
use windlass_executor::{
    self as executor, Along, Amount, Child, ChildPage, ChildRead, ChildState, Host, HostError, PageLimits, Record,
    Stream,
};
use windlass_store::{Clock, Error, LogLine, Store};

use super::blot::Blot;
use super::{insist, pause_after};
use crate::clock::SystemClock;
use crate::limits;
use crate::secrets::Secrets;

pub(super) struct Reporter {
    job: JobId,
    token: Token,
    attempt: u32,
    store: Store,
    clock: Arc<SystemClock>,
    secrets: Secrets,
    /// What must not show in anything the attempt says.
    blot: OnceLock<Blot>,
    waiting: Mutex<Waiting>,
    /// Something waits, or the attempt is over.
    wake: Notify,
    over: Notify,
}

#[derive(Default)]
struct Waiting {
    progress: Option<Progress>,
    lines: Vec<LogLine>,
    over: bool,
}

impl Reporter {
    pub(super) fn new(store: Store, clock: Arc<SystemClock>, secrets: Secrets, job: &Job, token: Token) -> Reporter {
        Reporter {
            job: job.id,
            token,
            attempt: job.attempt,
            store,
            clock,
            secrets,
            blot: OnceLock::new(),
            waiting: Mutex::default(),
            wake: Notify::new(),
            over: Notify::new(),
        }
    }

    /// Keeps secrets out of what the attempt says. Said before it begins.
    pub(super) fn keep_out(&self, blot: Blot) {
        // A second word would come too late for what was said already.
        let _ = self.blot.set(blot);
    }

    /// An error and its backtrace, without secrets.
    pub(super) fn clean(&self, error: String, backtrace: Option<String>) -> (String, Option<String>) {
        match self.blot.get() {
            Some(blot) => (blot.clean_cut(error), backtrace.map(|text| blot.clean_cut(text))),
            None => (error, backtrace),
        }
    }

    /// A result without secrets.
    pub(super) fn clean_result(&self, result: Bytes) -> Bytes {
        match self.blot.get() {
            Some(blot) => blot.clean_bytes(result),
            None => result,
        }
    }

    /// A checkpoint as it is stored, sealed if it holds a secret: it goes back to the guest as it is, so nothing is blotted out.
    pub(super) fn close(&self, state: Bytes) -> Result<Bytes, Error> {
        let holds_secret = self.blot.get().is_some_and(|blot| blot.is_in(&state));
        let none = || Error::Unavailable { why: "the system has no randomness to seal the checkpoint with".to_owned() };
        self.secrets.close(state, holds_secret).ok_or_else(none)
    }

    /// Sends what is reported, with a pause after each time, until `finish`; the last word is sent before it returns.
    pub(super) async fn forward(&self) {
        loop {
            self.wake.notified().await;
            let waiting = self.take();
            if !waiting.lines.is_empty() {
                self.store.log(self.job, waiting.lines);
            }
            if let Some(progress) = waiting.progress {
                self.send(progress, waiting.over).await;
            }
            if waiting.over {
                return;
            }
            tokio::select! {
                () = self.over.notified() => {}
                () = sleep(limits::REPORT_EVERY) => {}
            }
        }
    }

    /// The attempt has ended: nothing more will be reported.
    pub(super) fn finish(&self) {
        self.lock().over = true;
        self.wake.notify_one();
        self.over.notify_one();
    }

    /// A line of the server's own in the job's log.
    pub(super) fn note(&self, level: &str, text: String) {
        let line = LogLine { at: self.clock.now(), attempt: self.attempt, level: level.to_owned(), text };
        self.store.log(self.job, vec![line]);
    }

    async fn send(&self, progress: Progress, last: bool) {
        let beat = || Command::Beat {
            word: Word::Of(self.token),
            progress: Some(progress.clone()),
            checkpoint: None,
            spent: None,
            notes: None,
        };
        let mut asked = self.store.ask(self.job, beat(), Vec::new()).await;
        // A report that found the store busy is out of date soon; only the last one is worth another try.
        if last && let Err(error @ Error::Overloaded { .. }) = &asked {
            sleep(pause_after(error)).await;
            asked = self.store.ask(self.job, beat(), Vec::new()).await;
        }
        if let Err(error) = asked {
            debug!(job = %self.job, "a progress report was not taken: {error}");
        }
    }

    fn take(&self) -> Waiting {
        let mut waiting = self.lock();
        let over = waiting.over;
        Waiting { over, ..std::mem::take(&mut *waiting) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Fields are set whole, so a poisoned lock holds nothing half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job as it stands: how many children it has changes with every checkpoint.
    async fn parent(&self) -> Result<Job, HostError> {
        self.store.job(self.job).await.map_err(unavailable)?.ok_or(HostError::Ended)
    }

    async fn result_of(&self, child: &Job) -> Result<Option<Bytes>, HostError> {
        self.store.body(child, BodyKind::Result).await.map_err(unavailable)
    }

    /// Records and marks as the store takes them, without secrets; none when there is nothing.
    fn notes(&self, noted: executor::Notes) -> Result<Option<Box<Notes>>, Refusal> {
        let record = |record: executor::NewRecord| NewRecord {
            key: record.key,
            value: self.clean_result(record.value).to_vec(),
        };
        let mark = |mark: executor::NewMark| {
            Ok(NewMark { queue: Name::parse("queue", &mark.queue)?, key: mark.key, mark: mark.mark })
        };
        let marks = noted.marks.into_iter().map(mark).collect::<Result<_, Refusal>>()?;
        Ok(Notes::new(noted.records.into_iter().map(record).collect(), marks))
    }

    /// What goes with a result or a wait, as the store takes it.
    pub(super) async fn along(&self, along: Along) -> Result<(Vec<NewJob>, Option<Box<Notes>>), Error> {
        let children = insist(|| self.new_jobs(along.children.clone())).await?;
        Ok((children, self.notes(along.notes)?))
    }

    /// Children as the store takes them. Their ids come from the parent and the ordinal, so that a repeated attempt makes no
    /// doubles.
    pub(super) async fn new_jobs(&self, children: Vec<Child>) -> Result<Vec<NewJob>, Error> {
        let mut jobs = Vec::with_capacity(children.len());
        for child in children {
            self.refuse_secrets(&child)?;
            let payload = self.store.keep(child.payload.clone()).await?;
            jobs.push(NewJob { payload: Some(payload), ..new_job(self.job, child)? });
        }
        Ok(jobs)
    }

    /// A child is run with the payload it was given, so nothing is blotted out there: a secret is refused.
    fn refuse_secrets(&self, child: &Child) -> Result<(), Refusal> {
        let Some(blot) = self.blot.get() else { return Ok(()) };
        let texts = child.tags.iter().flat_map(|(name, value)| [name, value]);
        let mut texts = texts.chain(&child.scope).chain(&child.unique_key);
        if blot.is_in(&child.payload) || texts.any(|text| blot.is_in(text.as_bytes())) {
            let why = "a child's payload, tags, scope and unique key are shown, and this one has a secret in it; let the \
                       plugin that runs the child read the secret itself";
            return Err(Refusal::invalid("payload", why));
        }
        Ok(())
    }
}

#[executor::async_trait]
impl Host for Reporter {
    fn progress(&self, progress: executor::Progress) {
        let mut progress = convert(progress);
        if let Some(blot) = self.blot.get() {
            progress.phase = blot.clean_some(progress.phase);
            progress.message = blot.clean_some(progress.message);
            progress.detail = blot.clean_some(progress.detail);
            progress.unit = blot.clean_some(progress.unit);
        }
        self.lock().progress = Some(progress);
        self.wake.notify_one();
    }

    fn log(&self, line: executor::LogLine) {
        let level = match line.stream {
            Stream::Log => line.level.as_str(),
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let text = match (self.blot.get(), line.cut) {
            (Some(blot), true) => blot.clean_cut(line.message),
            (Some(blot), false) => blot.clean(line.message),
            (None, _) => line.message,
        };
        let text = if line.cut { format!("{text} [cut]") } else { text };
        let line = LogLine { at: self.clock.now(), attempt: self.attempt, level: level.to_owned(), text };
        self.lock().lines.push(line);
        self.wake.notify_one();
    }

    async fn checkpoint(
        &self,
        checkpoint: executor::Checkpoint,
        along: Along,
        used: executor::Usage,
    ) -> Result<(), HostError> {
        let state = self.close(checkpoint.bytes).map_err(unavailable)?;
        let body = self.store.keep(state).await.map_err(unavailable)?;
        let children = self.new_jobs(along.children).await.map_err(unavailable)?;
        let notes = self.notes(along.notes).map_err(|refusal| HostError::Unavailable(refusal.to_string()))?;
        // The report that waits rides along: one commit less.
        let progress = self.lock().progress.take();
        let checkpoint = Checkpoint { body, schema: checkpoint.schema, usage: usage(&used) };
        let word = Word::Of(self.token);
        let beat = Command::Beat { word, progress, checkpoint: Some(checkpoint), spent: None, notes };
        let patience = Instant::now() + limits::CHECKPOINT_PATIENCE;
        loop {
            match self.store.ask(self.job, beat.clone(), children.clone()).await {
                // Another version has taken over, and the job is its own from here on.
                Ok(Reply::HandedBack) => return Err(HostError::Ended),
                Ok(_) => return Ok(()),
                Err(Error::Refused(Refusal::NotActive { .. } | Refusal::NotFound { .. })) => {
                    return Err(HostError::Ended);
                }
                Err(error @ Error::Overloaded { .. }) if Instant::now() < patience => sleep(pause_after(&error)).await,
                Err(error) => return Err(unavailable(error)),
            }
        }
    }

    async fn children(&self, start: u32, page: PageLimits) -> Result<ChildPage, HostError> {
        let parent = self.parent().await?;
        let (found, mut next) =
            self.store.children(&parent, u64::from(start), page.children).await.map_err(unavailable)?;
        let mut children = Vec::with_capacity(found.len());
        let mut bytes = 0;
        let room = page.bytes as u64;
        for (number, child) in found {
            let size = child.result.len();
            let fits = size <= limits::EVENT_RESULT;
            if fits && size > 0 && !children.is_empty() && bytes + size > room {
                next = Some(number);
                break;
            }
            let result = if fits { self.result_of(&child).await? } else { None };
            bytes += if fits { size } else { 0 };
            children.push(child_read(number, child, result));
        }
        Ok(ChildPage { children, next: next.and_then(|number| u32::try_from(number).ok()) })
    }

    async fn child_result(&self, ordinal: u32) -> Result<Option<Bytes>, HostError> {
        let parent = self.parent().await?;
        let (found, _) = self.store.children(&parent, u64::from(ordinal), 1).await.map_err(unavailable)?;
        match found.first() {
            Some((number, child)) if *number == u64::from(ordinal) => self.result_of(child).await,
            Some(_) | None => Err(HostError::no_child(ordinal)),
        }
    }

    async fn record(&self, queue: &str, key: &str) -> Result<Option<Record>, HostError> {
        let queue = Name::parse("queue", queue).map_err(|refusal| HostError::Invalid(refusal.to_string()))?;
        let found = self.store.record(queue, key.to_owned()).await.map_err(unavailable)?;
        Ok(found.map(|record| Record { value: Bytes::from(record.value), mark: record.mark }))
    }

    async fn tied_queues(&self) -> Result<Vec<String>, HostError> {
        let own = self.parent().await?.queue;
        let queues = self.store.queues().await.map_err(unavailable)?;
        let gates =
            queues.iter().filter_map(|view| Some((&view.queue.name, &view.queue.settings.gate.as_ref()?.queue)));
        let other = |(behind, ahead): (&QueueName, &QueueName)| match (*behind == own, *ahead == own) {
            (true, _) => Some(ahead.to_string()),
            (_, true) => Some(behind.to_string()),
            (false, false) => None,
        };
        Ok(gates.filter_map(other).collect())
    }
}

fn unavailable(error: Error) -> HostError {
    HostError::Unavailable(error.to_string())
}

/// A child, as its parent reads it.
fn child_read(number: u64, job: Job, result: Option<Bytes>) -> ChildRead {
    ChildRead {
        ordinal: u32::try_from(number).unwrap_or(u32::MAX),
        id: job.id.to_string(),
        queue: job.queue.to_string(),
        state: match job.state {
            State::Completed => ChildState::Completed,
            State::Dead => ChildState::Dead,
            State::Cancelled => ChildState::Cancelled,
            _ => ChildState::Open,
        },
        result,
        result_bytes: job.result.len(),
        error: job.last_error,
    }
}

pub(super) fn usage(usage: &executor::Usage) -> Usage {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Usage {
        cpu_ms: millis(usage.cpu),
        wall_ms: millis(usage.wall),
        peak_memory: usage.peak_memory,
        host_calls: usage.host_calls,
        log_bytes: usage.log_bytes,
    }
}

fn convert(progress: executor::Progress) -> Progress {
    let mut converted = Progress {
        phase: progress.phase,
        message: progress.message,
        level: Some(progress.level.as_str().to_owned()),
        detail: progress.detail,
        ..Progress::default()
    };
    match progress.amount {
        Some(Amount::Percent(percent)) => converted.percent = Some(percent),
        Some(Amount::Count { current, total, unit, weight }) => {
            converted.current = Some(current);
            converted.total = total;
            converted.unit = unit;
            converted.weight = weight;
        }
        None => {}
    }
    converted
}

/// All of a child but its payload.
fn new_job(parent: JobId, child: Child) -> Result<NewJob, Refusal> {
    let mut job = NewJob {
        queue: Some(Name::parse("queue", &child.queue)?),
        delay: child.delay,
        tags: child.tags,
        scope: child.scope,
        parent: Some(parent),
        id: Some(JobId::child(parent, child.ordinal)),
        ..NewJob::default()
    };
    job.unique = child.unique_key.map(|key| Unique {
        key,
        within: Within::default(),
        until: Until::default(),
        period: child.unique_period.unwrap_or(windlass_core::DEFAULT_PERIOD),
    });
    job.policy.max_retries = child.max_attempts;
    job.policy.priority = child.priority.map(|priority| match priority {
        executor::Priority::Critical => Priority::Critical,
        executor::Priority::High => Priority::High,
        executor::Priority::Normal => Priority::Normal,
    });
    Ok(job)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;
    use windlass_core::EventKind;
    use windlass_core::flow::Gate;
    use windlass_executor::Level;
    use windlass_store::{Assignment, By, Claim, Durability, Options};

    use super::*;

    /// A reporter for a job that is active in a real store.
    async fn reporter(dir: &tempfile::TempDir) -> Reporter {
        reporter_behind(dir, &[]).await
    }

    /// The same, with gates: each of these queues stays behind the next.
    async fn reporter_behind(dir: &tempfile::TempDir, gates: &[(&str, &str)]) -> Reporter {
        let clock = Arc::new(SystemClock::start());
        let options = Options { dir: dir.path().to_owned(), durability: Durability::Os };
        let store = Store::open(options, Arc::clone(&clock) as Arc<dyn Clock>).expect("a fresh folder");
        let name = |text: &str| text.parse::<Name>().expect("a name");
        for queue in gates.iter().flat_map(|(behind, ahead)| [behind, ahead]) {
            store.configure(name(queue), |settings| settings.rounds = true).await.expect("good settings");
        }
        for (behind, ahead) in gates {
            let gate = Gate { queue: name(ahead), lead: 0, max_lead: None };
            store.configure(name(behind), |settings| settings.gate = Some(gate)).await.expect("good settings");
        }
        let queue: Name = name("q");
        let job = NewJob { queue: Some(queue.clone()), ..NewJob::default() };
        store.enqueue(vec![job]).await.expect("it is stored");
        let by = By::Worker { worker_id: String::new(), hostname: String::new() };
        let claim = Claim { by, queues: vec![queue], count: 1, wait: Duration::from_secs(10) };
        let claimed = store.claim(claim).await.expect("it is claimed");
        let Some(Assignment { job, token }) = claimed.into_iter().next() else { panic!("no job") };
        let secrets = Secrets::load(store.clone(), &dir.path().join("secrets.key")).await.expect("a new key");
        Reporter::new(store, clock, secrets, &job, token)
    }

    fn count(current: u64) -> executor::Progress {
        let amount = Some(Amount::Count { current, total: None, unit: None, weight: None });
        executor::Progress { phase: None, message: None, level: Level::Info, detail: None, amount }
    }

    fn child(ordinal: u32, queue: &str) -> Child {
        Child {
            ordinal,
            queue: queue.to_owned(),
            payload: Bytes::from_static(b"{}"),
            priority: None,
            delay: None,
            max_attempts: Some(7),
            unique_key: None,
            unique_period: None,
            tags: Vec::new(),
            scope: None,
        }
    }

    async fn save(reporter: &Reporter, state: executor::Checkpoint, along: Along) -> Result<(), HostError> {
        reporter.checkpoint(state, along, executor::Usage::default()).await
    }

    fn with(children: Vec<Child>) -> Along {
        Along { children, ..Along::default() }
    }

    #[tokio::test]
    async fn records_are_seen_once_a_checkpoint_has_committed_them_and_can_be_marked() {
        let dir = tempfile::tempdir().expect("a folder");
        let reporter = reporter(&dir).await;
        let state = || executor::Checkpoint { schema: 1, bytes: Bytes::from_static(b"1") };
        let record = executor::NewRecord { key: "a/b".to_owned(), value: Bytes::from_static(b"[1]") };
        let mark = |mark: Option<&str>| executor::NewMark {
            queue: "q".to_owned(),
            key: "a/b".to_owned(),
            mark: mark.map(str::to_owned),
        };
        let noted = |notes| Along { notes, ..Along::default() };
        let notes = executor::Notes { records: vec![record], marks: Vec::new() };
        assert_eq!(reporter.record("q", "a/b").await, Ok(None));
        save(&reporter, state(), noted(notes)).await.expect("stored");
        let value = Bytes::from_static(b"[1]");
        assert_eq!(reporter.record("q", "a/b").await, Ok(Some(Record { value: value.clone(), mark: None })));
        let notes = executor::Notes { records: Vec::new(), marks: vec![mark(Some("newer"))] };
        save(&reporter, state(), noted(notes)).await.expect("stored");
        assert_eq!(reporter.record("q", "a/b").await, Ok(Some(Record { value, mark: Some("newer".to_owned()) })));
        assert!(matches!(reporter.record("no queue!", "a").await, Err(HostError::Invalid(_))));
    }

    #[tokio::test]
    async fn a_gate_ties_two_queues_whichever_of_them_is_behind() {
        let dir = tempfile::tempdir().expect("a folder");
        let reporter = reporter_behind(&dir, &[("q", "ahead"), ("behind", "q"), ("others", "ahead")]).await;
        let mut tied = reporter.tied_queues().await.expect("a read");
        tied.sort();
        assert_eq!(tied, ["ahead", "behind"]);
    }

    #[tokio::test]
    async fn a_flood_of_reports_costs_few_commands_and_its_last_word_arrives() {
        const REPORTS: u64 = 100_000;
        let dir = tempfile::tempdir().expect("a folder");
        let reporter = reporter(&dir).await;
        let mut events = reporter.store.watch();
        let flood = async {
            for n in 1..=REPORTS {
                reporter.progress(count(n));
                if n % 100 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            reporter.finish();
        };
        tokio::join!(flood, reporter.forward());
        let mut told = 0;
        loop {
            let event =
                timeout(Duration::from_secs(10), events.recv()).await.expect("the last report").expect("an event");
            let EventKind::Progress(progress) = &event.event.kind else { continue };
            told += 1;
            if progress.current == Some(REPORTS) {
                break;
            }
        }
        assert!(told < REPORTS / 100, "{told} commands");
    }

    #[tokio::test]
    async fn children_are_stored_with_the_checkpoint_and_not_twice() {
        let dir = tempfile::tempdir().expect("a folder");
        let reporter = reporter(&dir).await;
        let state = executor::Checkpoint { schema: 3, bytes: Bytes::from_static(b"[1]") };
        for _ in 0..2 {
            save(&reporter, state.clone(), with(vec![child(0, "kids")])).await.expect("it is stored");
        }
        let id = JobId::child(reporter.job, 0);
        let kid = reporter.store.job(id).await.expect("a read").expect("the child");
        assert_eq!((kid.parent, kid.policy.max_retries), (Some(reporter.job), 7));
        let list = windlass_store::JobList { queue: Some(kid.queue), limit: 10, ..Default::default() };
        assert_eq!(reporter.store.jobs(list).await.expect("a list").len(), 1);
        let parent = reporter.store.job(reporter.job).await.expect("a read").expect("the parent");
        assert_eq!(parent.checkpoint_schema, 3);
    }

    /// Completes a child with a result of so many bytes, as an external worker would.
    async fn complete(reporter: &Reporter, bytes: usize) {
        let by = By::Worker { worker_id: String::new(), hostname: String::new() };
        let queues = vec!["kids".parse().expect("a name")];
        let claim = Claim { by, queues, count: 1, wait: Duration::from_secs(10) };
        let claimed = reporter.store.claim(claim).await.expect("it is claimed");
        let Some(Assignment { job, token }) = claimed.into_iter().next() else { panic!("no child") };
        let result = Some(reporter.store.keep(Bytes::from(vec![b'x'; bytes])).await.expect("kept"));
        let word = Word::Of(token);
        let done = Command::Complete { word, result, usage: Default::default(), closing: None, notes: None };
        reporter.store.ask(job.id, done, Vec::new()).await.expect("completed");
    }

    #[tokio::test]
    async fn a_page_of_children_is_bounded_by_number_and_by_bytes_and_large_results_are_read_by_themselves() {
        const LARGE: usize = 70_000;
        let dir = tempfile::tempdir().expect("a folder");
        let reporter = reporter(&dir).await;
        let state = executor::Checkpoint { schema: 1, bytes: Bytes::from_static(b"1") };
        let children = (0..5).map(|n| child(n, "kids")).collect();
        save(&reporter, state, with(children)).await.expect("it is stored");
        for bytes in [10, 60_000, LARGE, 60_000] {
            complete(&reporter, bytes).await;
        }
        let pages = |start, children, bytes| reporter.children(start, PageLimits { children, bytes });
        let ordinals = |page: &ChildPage| page.children.iter().map(|child| child.ordinal).collect::<Vec<_>>();

        let page = pages(0, 2, 1_000_000).await.expect("a page");
        assert_eq!((ordinals(&page), page.next), (vec![0, 1], Some(2)));
        let page = pages(0, 100, 100_000).await.expect("a page");
        assert_eq!((ordinals(&page), page.next), (vec![0, 1, 2], Some(3)), "the fourth has too many bytes");
        let large = &page.children[2];
        assert_eq!((large.result.as_ref(), large.result_bytes), (None, LARGE as u64));
        let page = pages(3, 100, 1_000).await.expect("a page");
        assert_eq!((ordinals(&page), page.next), (vec![3, 4], None), "the first of a page is given whatever it has");
        assert_eq!(page.children[1].state, ChildState::Open);
        assert_eq!(reporter.child_result(2).await.expect("a result").map(|bytes| bytes.len()), Some(LARGE));
        let missing = reporter.child_result(9).await.expect_err("there is no such child");
        assert!(matches!(&missing, HostError::Invalid(why) if why.contains("child number 9")), "{missing:?}");
    }

    #[tokio::test]
    async fn a_child_that_cannot_be_stored_is_told_to_the_guest() {
        let dir = tempfile::tempdir().expect("a folder");
        let reporter = reporter(&dir).await;
        let state = executor::Checkpoint { schema: 0, bytes: Bytes::new() };
        let refused = save(&reporter, state, with(vec![child(0, "no such queue!")])).await;
        assert!(matches!(&refused, Err(HostError::Unavailable(why)) if why.contains("queue")), "{refused:?}");
        let parent = reporter.store.job(reporter.job).await.expect("a read").expect("the parent");
        assert!(parent.checkpoint.is_none(), "the state waits for its children");
    }

    #[tokio::test]
    async fn a_checkpoint_of_an_attempt_that_is_over_ends_the_guest() {
        let dir = tempfile::tempdir().expect("a folder");
        let reporter = reporter(&dir).await;
        let word = Word::Of(reporter.token);
        let back = Command::HandBack { word, reason: "test".to_owned(), usage: Usage::default() };
        reporter.store.ask(reporter.job, back, Vec::new()).await.expect("handed back");
        let state = executor::Checkpoint { schema: 0, bytes: Bytes::new() };
        assert_eq!(save(&reporter, state, Along::default()).await, Err(HostError::Ended));
    }
}
