//! Searches that look at very many jobs: on separate threads of idle priority, so that the engine comes first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use windlass_core::{BodyKind, JobId};

use crate::disk::fjall::{Range, View};
use crate::disk::{DiskError, Space, Value};
use crate::disk::{codec, keys};
use crate::idle_thread::use_idle_priority;
use crate::read::search::judge::{Matcher, Top, Wanted, unwrapped};
use crate::read::search::plan::sees_all;
use crate::read::search::source::Source;
use crate::read::search::{Failed, Task};

/// Rows between two looks at the time and at who has nothing to do.
const STRETCH: usize = 2_048;
/// From so many payloads in a hundred that pass on, rows are read in sequence and not one by one.
const DENSE: usize = 10;

/// Looks at all jobs with ids in a range.
pub fn everything(
    view: &View,
    task: &Task,
    (first, last): (JobId, JobId),
    wanted: Wanted,
    threads: usize,
) -> Result<Top, Failed> {
    let Some((from, until)) = stored_between(view, first, last)? else { return Ok(Top::new(wanted, &task.search)) };
    let ranges = Ranges::new(from.0, until.0, threads);
    // A sieve costs more than reading a row: one that can rule a job out goes first.
    let alone = task.search.filter.is_of_payloads_alone() && sees_all(view, &task.search.filter)?;
    let by_payload = task.search.payload_filter.is_none() && sees_all(view, &task.search.filter)? || alone;
    on_threads(view, task, wanted, threads, |judge| {
        let mut payloads_first = judge.reads_payloads() && by_payload;
        let mut rests = Throttle::new(task);
        while let Some((from, until)) = ranges.take() {
            let done = judge.task.check_time().and_then(|()| match (judge.reads_payloads(), payloads_first) {
                (true, true) => by_payloads(judge, from, until),
                (reads, _) => by_records(judge, from, until, reads, alone),
            });
            match done {
                Ok(ScannedRange { next, dense }) => {
                    payloads_first = by_payload && !dense;
                    ranges.give_back(next.map(|next| (next, until)));
                    rests.rest();
                }
                Err(failed) => {
                    ranges.abandon();
                    return Err(failed);
                }
            }
        }
        if judge.reads_payloads() && ranges.is_last() {
            large_payloads(judge, first, last)?;
        }
        Ok(())
    })
}

/// The first and the last job that there is in a range: halving goes by ids that exist.
fn stored_between(view: &View, first: JobId, last: JobId) -> Result<Option<(JobId, JobId)>, DiskError> {
    let mut found = view.range(Space::Jobs, &keys::job(first), &after(last.0));
    let Some(from) = found.next().transpose()?.and_then(|(key, _)| keys::last_job(&key)) else { return Ok(None) };
    let until = found.next_back().transpose()?.and_then(|(key, _)| keys::last_job(&key));
    Ok(Some((from, until.unwrap_or(from))))
}

/// Where a stretch ended, and whether most of it was wanted.
struct ScannedRange {
    next: Option<u128>,
    dense: bool,
}

/// Rows in sequence, and their payloads beside them. Payloads that are files are left to the end.
fn by_records(
    judge: &mut Matcher<'_>,
    from: u128,
    until: u128,
    payloads: bool,
    alone: bool,
) -> Result<ScannedRange, Failed> {
    let view = judge.view;
    let search = &judge.task.search;
    let sieve_alone = search.payload_filter.is_some() && alone;
    let mut bodies = Bodies::new(view, from, until);
    let mut passed = 0;
    for (seen, pair) in view.range(Space::Jobs, &from.to_be_bytes(), &after(until)).enumerate() {
        let (key, value) = pair?;
        let id = keys::last_job(&key).ok_or_else(|| nonsense(Space::Jobs))?;
        if seen >= STRETCH {
            return Ok(ScannedRange { next: Some(id.0), dense: is_dense(passed, seen) });
        }
        if !payloads {
            judge.judge(&codec::decode(Space::Jobs, &value)?, None)?;
            continue;
        }
        let Some(payload) = bodies.of(id)? else { continue };
        let bytes = codec::unwrap(Space::Bodies, &payload)?;
        if !judge.may_pass(bytes) {
            continue;
        }
        passed += 1;
        if sieve_alone {
            judge.leave_to_sieve(value, bytes)?;
        } else {
            judge.judge(&codec::decode(Space::Jobs, &value)?, Some(unwrapped(payload)?))?;
        }
    }
    Ok(ScannedRange { next: None, dense: true })
}

/// Payloads in sequence; the row of a job is only read when its payload passes.
fn by_payloads(judge: &mut Matcher<'_>, from: u128, until: u128) -> Result<ScannedRange, Failed> {
    let view = judge.view;
    let rows_before = judge.rows;
    for (seen, pair) in view.range(Space::Bodies, &from.to_be_bytes(), &after(until)).enumerate() {
        let (key, value) = pair?;
        let (id, kind) = key.split_first_chunk::<16>().ok_or_else(|| nonsense(Space::Bodies))?;
        let id = JobId::from_bytes(*id);
        if kind != [BodyKind::Payload as u8] {
            continue;
        }
        if seen >= STRETCH {
            return Ok(ScannedRange { next: Some(id.0), dense: is_dense(judge.rows - rows_before, seen) });
        }
        judge.judge_payload(id, value)?;
    }
    Ok(ScannedRange { next: None, dense: false })
}

fn is_dense(passed: usize, seen: usize) -> bool {
    passed * 100 > seen * DENSE
}

/// The jobs whose payload is a file of its own.
fn large_payloads(judge: &mut Matcher<'_>, first: JobId, last: JobId) -> Result<(), Failed> {
    for pair in judge.view.under(Space::Blobs, &[]) {
        let (key, _) = pair?;
        let Some((id, kind)) = key.get(32..).and_then(|rest| rest.split_first_chunk::<16>()) else { continue };
        let id = JobId::from_bytes(*id);
        if kind == [BodyKind::Payload as u8] && (first..=last).contains(&id) {
            judge.task.check_time()?;
            judge.look_at(id)?;
        }
    }
    Ok(())
}

/// The payloads of a range, asked for in order.
struct Bodies {
    pairs: Range,
    ahead: Option<(JobId, Value)>,
}

impl Bodies {
    fn new(view: &View, from: u128, until: u128) -> Bodies {
        Bodies { pairs: view.range(Space::Bodies, &from.to_be_bytes(), &after(until)), ahead: None }
    }

    fn of(&mut self, wanted: JobId) -> Result<Option<Value>, Failed> {
        loop {
            match self.ahead.take() {
                Some((id, value)) if id == wanted => return Ok(Some(value)),
                Some((id, value)) if id > wanted => {
                    self.ahead = Some((id, value));
                    return Ok(None);
                }
                _ => {}
            }
            let Some(pair) = self.pairs.next() else { return Ok(None) };
            let (key, value) = pair?;
            if let Some((id, [kind])) = key.split_first_chunk::<16>()
                && *kind == BodyKind::Payload as u8
            {
                self.ahead = Some((JobId::from_bytes(*id), value));
            }
        }
    }
}

/// The first key after all that begin with this id.
fn after(id: u128) -> Vec<u8> {
    match id.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        None => vec![u8::MAX; 32],
    }
}

fn nonsense(space: Space) -> DiskError {
    DiskError::Row { space, why: "a key makes no sense".into() }
}

/// Looks at all jobs that an index names: one thread reads the index, the others the jobs.
pub fn named(view: &View, task: &Task, source: &Source, wanted: Wanted, threads: usize) -> Result<Top, Failed> {
    const BLOCK: usize = 512;
    let (sender, receiver) = sync_channel::<Vec<JobId>>(2 * threads);
    let receiver = Mutex::new(receiver);
    let mut failed = None;
    let found = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            use_idle_priority();
            let mut block = Vec::with_capacity(BLOCK);
            for entry in source.entries(view, &task.search)? {
                block.push(entry?.id);
                if block.len() == BLOCK
                    && sender.send(std::mem::replace(&mut block, Vec::with_capacity(BLOCK))).is_err()
                {
                    // Those who looked at them have given up, and say why.
                    return Ok(());
                }
            }
            let _ = sender.send(block);
            Ok::<(), DiskError>(())
        });
        let found = on_threads(view, task, wanted, threads, |judge| {
            let mut rests = Throttle::new(task);
            while let Some(block) = next(&receiver) {
                judge.task.check_time()?;
                for id in block {
                    judge.look_at(id)?;
                }
                rests.rest();
            }
            Ok(())
        });
        // Nothing is taken any more: a reader that still has some must not wait for ever.
        drop(receiver);
        if let Ok(Err(error)) = reader.join() {
            failed = Some(error);
        }
        found
    });
    match failed {
        Some(error) => Err(error.into()),
        None => found,
    }
}

fn next(receiver: &Mutex<Receiver<Vec<JobId>>>) -> Option<Vec<JobId>> {
    receiver.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv().ok()
}

/// Lets each thread do its part, and puts together what they found.
fn on_threads(
    view: &View,
    task: &Task,
    wanted: Wanted,
    threads: usize,
    part: impl Fn(&mut Matcher<'_>) -> Result<(), Failed> + Sync,
) -> Result<Top, Failed> {
    let one = || {
        use_idle_priority();
        let mut judge = Matcher::new(view, task, wanted)?;
        part(&mut judge)?;
        judge.finish()
    };
    let parts: Vec<Result<Top, Failed>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(Err(Failed::Left))).collect()
    });
    let mut top = Top::new(wanted, &task.search);
    for part in parts {
        top.merge(part?)?;
    }
    Ok(top)
}

/// Does it on a thread that gives way to all others.
pub(crate) fn politely<T: Send>(work: impl FnOnce() -> Result<T, Failed> + Send) -> Result<T, Failed> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            use_idle_priority();
            work()
        });
        thread.join().unwrap_or(Err(Failed::Left))
    })
}

/// While the engine commits, a search works half of the time: whatever its priority, it shares caches, memory and the
/// disk.
struct Throttle<'a> {
    task: &'a Task,
    /// The last commit that was seen, and when.
    commit: u64,
    seen: Option<Instant>,
    /// When the last rest ended.
    since: Instant,
}

impl Throttle<'_> {
    /// So long after a commit the next one is expected.
    const BUSY: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_millis(5);

    fn new(task: &Task) -> Throttle<'_> {
        Throttle { task, commit: task.last_commit(), seen: None, since: Instant::now() }
    }

    fn rest(&mut self) {
        let commit = self.task.last_commit();
        if commit != self.commit {
            (self.commit, self.seen) = (commit, Some(Instant::now()));
        }
        if self.seen.is_some_and(|seen| seen.elapsed() < Throttle::BUSY) {
            std::thread::sleep(self.since.elapsed().min(Throttle::LONGEST));
        }
        self.since = Instant::now();
    }
}

/// What is left to do, in ranges of ids. A thread without one gets half of another's: ids are as dense as jobs came, so
/// halves are uneven, and halving continues until no thread waits.
struct Ranges {
    left: Mutex<Left>,
    changed: Condvar,
    finished: AtomicUsize,
    threads: usize,
}

struct Left {
    ranges: Vec<(u128, u128)>,
    working: usize,
    waiting: usize,
    abandoned: bool,
}

impl Ranges {
    fn new(first: u128, last: u128, threads: usize) -> Ranges {
        let ranges = if first <= last { vec![(first, last)] } else { Vec::new() };
        let left = Left { ranges, working: 0, waiting: 0, abandoned: false };
        Ranges { left: Mutex::new(left), changed: Condvar::new(), finished: AtomicUsize::new(0), threads }
    }

    /// The next range; none when all is done.
    fn take(&self) -> Option<(u128, u128)> {
        let mut left = self.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            if left.abandoned {
                return None;
            }
            if let Some(range) = left.ranges.pop() {
                left.working += 1;
                return Some(range);
            }
            if left.working == 0 {
                self.changed.notify_all();
                return None;
            }
            left.waiting += 1;
            left = self.changed.wait(left).unwrap_or_else(|poisoned| poisoned.into_inner());
            left.waiting -= 1;
        }
    }

    /// A stretch is done; `rest` is what remains of its range.
    fn give_back(&self, rest: Option<(u128, u128)>) {
        let mut left = self.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        left.working -= 1;
        if let Some((from, until)) = rest {
            let middle = from + (until - from) / 2;
            if left.waiting > 0 && middle < until {
                left.ranges.push((middle + 1, until));
                left.ranges.push((from, middle));
            } else {
                left.ranges.push((from, until));
            }
        }
        self.changed.notify_all();
    }

    fn abandon(&self) {
        let mut left = self.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        left.working -= 1;
        left.abandoned = true;
        self.changed.notify_all();
    }

    /// Whether the calling thread is the last to come to the end.
    fn is_last(&self) -> bool {
        self.finished.fetch_add(1, Ordering::Relaxed) + 1 == self.threads
    }
}
