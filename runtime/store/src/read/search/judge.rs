//! What passes a filter, and the best of it: a bounded heap, whatever the number of jobs.

use std::collections::BinaryHeap;

use bytes::Bytes;
use memchr::memchr;
use memchr::memmem::Finder;
use rustc_hash::FxHashMap;
use windlass_core::{AttemptError, BodyKind, BodyRef, Job, JobId};

use crate::disk::fjall::View;
use crate::disk::{DiskError, Space, Value};
use crate::disk::{codec, keys};
use crate::read::row;
use crate::read::search::plan::Stop;
use crate::read::search::source::Source;
use crate::read::search::{Failed, Task};
use crate::search::{GroupBy, PayloadTest, Payloads, Search, SortKey};
use crate::{Error, Unreadable, limits};

/// What is collected of the jobs that pass.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// The first few after the cursor, and how many there are in all.
    Page { most: usize },
    /// Every id, up to a bound.
    Ids { most: usize },
    /// How many there are of each value.
    Groups,
}

/// The best so far.
pub struct Top {
    wanted: Wanted,
    after: Option<SortKey>,
    /// The worst of the best is on top.
    heap: BinaryHeap<SortKey>,
    pub ids: Vec<JobId>,
    pub count: u64,
    pub groups: Groups,
    /// Jobs that could not be read.
    pub unreadable: Unreadable,
}

impl Top {
    pub fn new(wanted: Wanted, search: &Search) -> Top {
        let after = search.after.map(|cursor| cursor.place);
        let (groups, unreadable) = (Groups::default(), Unreadable::default());
        Top { wanted, after, heap: BinaryHeap::new(), ids: Vec::new(), count: 0, groups, unreadable }
    }

    pub fn add(&mut self, Passed { place, id, group }: Passed) -> Result<(), Failed> {
        self.count += 1;
        match self.wanted {
            Wanted::Groups => self.groups.add(group, 1)?,
            Wanted::Ids { most } => {
                if self.ids.len() >= most {
                    return Err(Failed::TooMany);
                }
                self.ids.push(id);
            }
            Wanted::Page { most } => self.keep(place, most),
        }
        Ok(())
    }

    fn keep(&mut self, place: SortKey, most: usize) {
        if self.after.is_some_and(|after| place <= after) {
            return;
        }
        if self.heap.len() < most {
            self.heap.push(place);
        } else if let Some(mut worst) = self.heap.peek_mut().filter(|worst| place < **worst) {
            *worst = place;
        }
    }

    /// The worst that still has a place, once all places are taken.
    pub fn worst(&self) -> Option<&SortKey> {
        match self.wanted {
            Wanted::Page { most } if self.heap.len() >= most => self.heap.peek(),
            _ => None,
        }
    }

    /// Takes in what another thread found.
    pub fn merge(&mut self, other: Top) -> Result<(), Failed> {
        self.count += other.count;
        self.unreadable.merge(other.unreadable);
        match self.wanted {
            Wanted::Page { most } => other.heap.into_iter().for_each(|place| self.keep(place, most)),
            Wanted::Ids { most } => {
                if self.ids.len() + other.ids.len() > most {
                    return Err(Failed::TooMany);
                }
                self.ids.extend(other.ids);
            }
            Wanted::Groups => {
                for (value, count) in other.groups.counts {
                    self.groups.add(value, count)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn into_sorted(self) -> Vec<SortKey> {
        self.heap.into_sorted_vec()
    }
}

/// A job that passes, as far as anything is made of it.
pub struct Passed {
    place: SortKey,
    id: JobId,
    /// Its value, if jobs are counted by one.
    group: Option<Box<str>>,
}

impl Passed {
    fn of(job: &Job, task: &Task) -> Passed {
        let group = task.group_by.as_ref().and_then(|by: &GroupBy| by.of(job)).map(|value| value.as_ref().into());
        Passed { place: SortKey::of(job, task.search.sort, task.search.order), id: job.id, group }
    }
}

/// How many jobs there are of each value.
#[derive(Debug, Default)]
pub struct Groups {
    counts: FxHashMap<Option<Box<str>>, u64>,
}

impl Groups {
    fn add(&mut self, value: Option<Box<str>>, count: u64) -> Result<(), Failed> {
        if let Some(known) = self.counts.get_mut(&value) {
            *known += count;
        } else if self.counts.len() < limits::GROUPS {
            self.counts.insert(value, count);
        } else {
            return Err(Failed::TooManyGroups);
        }
        Ok(())
    }

    /// The largest first; of the same size, in the order of their values.
    pub(crate) fn into_sorted(self) -> Vec<(Option<String>, u64)> {
        let mut groups: Vec<_> =
            self.counts.into_iter().map(|(value, count)| (value.map(String::from), count)).collect();
        groups.sort_by(|(one, count), (other, more)| more.cmp(count).then_with(|| one.cmp(other)));
        groups
    }
}

/// One thread's part in a search.
pub struct Matcher<'a> {
    pub view: &'a View,
    pub task: &'a Task,
    pub top: Top,
    finder: Option<Finder<'a>>,
    /// What a payload must hold for the sieve to let it pass.
    needles: Vec<Finder<'a>>,
    errors: Option<Finder<'a>>,
    sift: Option<Box<dyn PayloadTest>>,
    /// Those that wait for the sieve, with their payloads.
    waiting: Vec<AwaitingSieve>,
    payloads: Payloads,
    /// Rows that were read because the payload may pass, or does.
    pub rows: usize,
}

/// One whose payload waits for the sieve.
enum AwaitingSieve {
    /// Its row passes.
    Judged(Passed),
    /// Its row is read if the sieve lets it pass.
    Unread(JobId),
    /// The same, and the bytes of the row are at hand.
    Undecoded(Value),
}

impl<'a> Matcher<'a> {
    pub fn new(view: &'a View, task: &'a Task, wanted: Wanted) -> Result<Matcher<'a>, Failed> {
        let search = &task.search;
        let payload_filter = search.payload_filter.as_deref();
        Ok(Matcher {
            view,
            task,
            top: Top::new(wanted, search),
            finder: search.filter.payload_finder(),
            needles: payload_filter
                .map_or(&[][..], |payload_filter| payload_filter.needles())
                .iter()
                .map(Finder::new)
                .collect(),
            errors: search.filter.error_contains.as_deref().map(Finder::new),
            sift: payload_filter.map(|payload_filter| payload_filter.thread()).transpose()?,
            waiting: Vec::new(),
            payloads: Payloads::default(),
            rows: 0,
        })
    }

    /// Whether anything but the row decides.
    pub(crate) fn reads_payloads(&self) -> bool {
        self.finder.is_some() || self.sift.is_some()
    }

    /// The cheap part of the payload's test.
    pub fn may_pass(&self, payload: &[u8]) -> bool {
        self.finder.as_ref().is_none_or(|finder| finder.find(payload).is_some())
            && self.needles.iter().all(|needle| needle.find(payload).is_some() || memchr(b'\\', payload).is_some())
    }

    /// Judges everything that a source names. False when it gave up, as the stop demands.
    pub(crate) fn go_through(&mut self, source: &Source, stop: Option<Stop>) -> Result<bool, Failed> {
        for (seen, entry) in source.entries(self.view, &self.task.search)?.enumerate() {
            let entry = entry?;
            if let Some(stop) = &stop {
                if stop.is_reached(&self.top, entry.at, &self.task.search) {
                    return Ok(true);
                }
                if seen >= stop.rows {
                    return Ok(false);
                }
            }
            if seen.is_multiple_of(256) {
                self.task.check_time()?;
            }
            self.look_at(entry.id)?;
        }
        Ok(true)
    }

    /// Reads a job and judges it. One that cannot be read is counted as such, and the search continues.
    pub fn look_at(&mut self, id: JobId) -> Result<(), Failed> {
        let judged = match row::<Job>(self.view, Space::Jobs, &keys::job(id)) {
            Ok(Some(job)) => self.judge(&job, None),
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        };
        match judged {
            Err(Failed::Disk(error)) if error.is_damage() => {
                self.top.unreadable.add(id, Error::from(error));
                Ok(())
            }
            other => other,
        }
    }

    /// Leaves a job to the sieve, of which the payload may pass and the row has not been looked at.
    pub(crate) fn leave_to_sieve(&mut self, row: Value, payload: &[u8]) -> Result<(), Failed> {
        self.let_wait(AwaitingSieve::Undecoded(row), payload)
    }

    /// Judges a job by its payload first; the row is only read if that passes. A sieve is asked about many at once.
    pub(crate) fn judge_payload(&mut self, id: JobId, payload: Value) -> Result<(), Failed> {
        let bytes = codec::unwrap(Space::Bodies, &payload)?;
        if !self.may_pass(bytes) {
            return Ok(());
        }
        if self.sift.is_some() {
            return self.let_wait(AwaitingSieve::Unread(id), bytes);
        }
        self.rows += 1;
        match row::<Job>(self.view, Space::Jobs, &keys::job(id))? {
            Some(job) => self.judge(&job, Some(unwrapped(payload)?)),
            None => Ok(()),
        }
    }

    /// Judges a job by its row first, then its errors, then its payload, which may have been read before.
    pub fn judge(&mut self, job: &Job, payload: Option<Bytes>) -> Result<(), Failed> {
        if !self.task.search.filter.admits(job) || !self.errors_pass(job)? {
            return Ok(());
        }
        let passed = Passed::of(job, self.task);
        if !self.reads_payloads() {
            return self.top.add(passed);
        }
        let payload = match payload {
            Some(payload) => payload,
            None => match self.payload(job)? {
                Some(payload) => payload,
                None => return Ok(()),
            },
        };
        if !self.may_pass(&payload) {
            return Ok(());
        }
        if self.sift.is_none() {
            return self.top.add(passed);
        }
        self.let_wait(AwaitingSieve::Judged(passed), &payload)
    }

    fn let_wait(&mut self, waiting: AwaitingSieve, payload: &[u8]) -> Result<(), Failed> {
        if !self.payloads.push(payload) {
            self.sift()?;
            // Alone it fits: no body is as large as that.
            let _ = self.payloads.push(payload);
        }
        self.waiting.push(waiting);
        if self.waiting.len() >= limits::SIEVE_ROWS || self.payloads.parts().0.len() >= limits::SIEVE_BYTES {
            self.sift()?;
        }
        Ok(())
    }

    /// Lets the sieve decide about those that wait for it.
    fn sift(&mut self) -> Result<(), Failed> {
        let Some(sift) = self.sift.as_mut().filter(|_| !self.waiting.is_empty()) else { return Ok(()) };
        self.task.check_time()?;
        let passes = sift.sift(&self.payloads)?;
        self.payloads.clear();
        for (waiting, _) in std::mem::take(&mut self.waiting).into_iter().zip(passes).filter(|(_, passes)| *passes) {
            match waiting {
                AwaitingSieve::Judged(passed) => self.top.add(passed)?,
                AwaitingSieve::Unread(id) => {
                    self.rows += 1;
                    if let Some(row) = self.view.get(Space::Jobs, &keys::job(id))? {
                        self.judge_row(&row)?;
                    }
                }
                AwaitingSieve::Undecoded(row) => self.judge_row(&row)?,
            }
        }
        Ok(())
    }

    /// A job whose payload passes: the rest is in its row.
    fn judge_row(&mut self, row: &[u8]) -> Result<(), Failed> {
        let job: Job = codec::decode(Space::Jobs, row)?;
        let search = &self.task.search;
        if search.filter.admits(&job) && self.errors_pass(&job)? {
            self.top.add(Passed::of(&job, self.task))?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<Top, Failed> {
        self.sift()?;
        Ok(self.top)
    }

    fn errors_pass(&self, job: &Job) -> Result<bool, Failed> {
        let Some(finder) = &self.errors else { return Ok(true) };
        if job.last_error.as_ref().is_some_and(|error| finder.find(error.as_bytes()).is_some()) {
            return Ok(true);
        }
        for pair in self.view.under(Space::Errors, &keys::job(job.id)) {
            let (_, value) = pair?;
            // A text lies in its row byte for byte, so most need not be read as one.
            if finder.find(&value).is_none() {
                continue;
            }
            let error: AttemptError = codec::decode(Space::Errors, &value)?;
            let backtrace = error.backtrace.as_ref().is_some_and(|text| finder.find(text.as_bytes()).is_some());
            if backtrace || finder.find(error.error.as_bytes()).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn payload(&self, job: &Job) -> Result<Option<Bytes>, Failed> {
        match job.payload {
            BodyRef::None => Ok(None),
            BodyRef::Inline { .. } => Ok(inline_payload(self.view, job)?),
            BodyRef::Blob(blob) => {
                let bytes = self.task.blobs.get(&blob);
                Ok(Some(bytes.map_err(|error| self.task.blobs.unread(&blob, &error))?))
            }
        }
    }
}

/// The payload, where it lies in the database.
pub(crate) fn inline_payload(view: &View, job: &Job) -> Result<Option<Bytes>, DiskError> {
    if !matches!(job.payload, BodyRef::Inline { .. }) {
        return Ok(None);
    }
    match view.get(Space::Bodies, &keys::body(job.id, BodyKind::Payload))? {
        Some(value) => Ok(Some(unwrapped(value)?)),
        None => Ok(None),
    }
}

/// The bytes behind their format version, not copied.
pub(crate) fn unwrapped(value: Value) -> Result<Bytes, DiskError> {
    codec::unwrap(Space::Bodies, &value)?;
    Ok(Bytes::from_owner(value).slice(1..))
}
