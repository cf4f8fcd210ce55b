//! What a watcher is told: everything at first, then the difference between two snapshots.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::{AllowedQueues, JobId, QueueName, State as JobState};

use crate::http::live::pulse::snapshot::{QueueRow, Snapshot, Text};
use crate::http::wire::Rfc3339;

/// Everything that this watcher may see.
pub fn whole(now: &Snapshot, allowed: &AllowedQueues, jobs: &[JobId]) -> Bytes {
    let mut message = Message::default();
    message.member("full", "true");
    message.entries("queues", visible(now, allowed).map(|(name, row)| (name.as_str(), Some(&row.text))));
    for (name, text) in parts(now, allowed) {
        message.member(name, &text);
    }
    let watched = jobs.iter().filter_map(|id| Some((id.to_string(), job(now, allowed, *id)?)));
    let watched: Vec<(String, &Text)> = watched.collect();
    message.entries("jobs", watched.iter().map(|(id, text)| (id.as_str(), Some(*text))));
    message.finish(now)
}

/// What has changed for this watcher; none if nothing has.
pub fn difference(before: &Snapshot, now: &Snapshot, allowed: &AllowedQueues, jobs: &[JobId]) -> Option<Bytes> {
    let is_next = now.number == before.number + 1;
    if jobs.is_empty() && is_next && allowed.are_all() {
        return now.for_all.get_or_init(|| compare(before, now, allowed, &[])).clone();
    }
    compare(before, now, allowed, jobs)
}

fn compare(before: &Snapshot, now: &Snapshot, allowed: &AllowedQueues, jobs: &[JobId]) -> Option<Bytes> {
    let mut message = Message::default();
    let changed = visible(now, allowed).filter(|(name, row)| !is_same(before.queues.get(*name), Some(row)));
    let gone = visible(before, allowed).filter(|(name, _)| !now.queues.contains_key(*name));
    let rows = changed.map(|(name, row)| (name.as_str(), Some(&row.text)));
    message.entries("queues", rows.chain(gone.map(|(name, _)| (name.as_str(), None))));
    let parts_before: BTreeMap<_, _> = parts(before, allowed).into_iter().collect();
    for (name, text) in parts(now, allowed) {
        if parts_before.get(name) != Some(&text) {
            message.member(name, &text);
        }
    }
    let of = |snapshot, id: &JobId| job(snapshot, allowed, *id).cloned();
    let watched: Vec<(String, Option<Text>)> = jobs
        .iter()
        .map(|id| (id.to_string(), of(before, id), of(now, id)))
        .filter(|(_, before, now)| before != now)
        .map(|(id, _, now)| (id, now))
        .collect();
    message.entries("jobs", watched.iter().map(|(id, text)| (id.as_str(), text.as_ref())));
    (!message.is_empty()).then(|| message.finish(now))
}

fn is_same(before: Option<&Arc<QueueRow>>, now: Option<&Arc<QueueRow>>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => Arc::ptr_eq(before, now) || before.text == now.text,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn visible<'a>(
    of: &'a Snapshot,
    allowed: &'a AllowedQueues,
) -> impl Iterator<Item = (&'a QueueName, &'a Arc<QueueRow>)> {
    of.queues.iter().filter(|(name, _)| allowed.allow(name))
}

fn job<'a>(of: &'a Snapshot, allowed: &AllowedQueues, id: JobId) -> Option<&'a Text> {
    of.jobs.get(&id).filter(|row| allowed.allow(&row.queue)).map(|row| &row.text)
}

/// The members besides queues and jobs.
fn parts(of: &Snapshot, allowed: &AllowedQueues) -> [(&'static str, Text); 8] {
    let (totals, rates) = sums(of, allowed);
    let seen = |queues: &[QueueName]| queues.iter().any(|queue| allowed.allow(queue));
    let workers: Vec<&str> = of.workers.iter().filter(|(queues, _)| seen(queues)).map(|(_, text)| &**text).collect();
    [
        ("totals", totals.into()),
        ("rates", rates.into()),
        ("slots", Arc::clone(&of.slots)),
        ("canaries", Arc::clone(&of.canaries)),
        ("workers", format!("[{}]", workers.join(",")).into()),
        ("bulk", Arc::clone(&of.bulk)),
        ("paused_since", Arc::clone(&of.paused_since)),
        ("trouble", Arc::clone(&of.trouble)),
    ]
}

/// The queues that the watcher may see, added up.
fn sums(of: &Snapshot, allowed: &AllowedQueues) -> (String, String) {
    let (mut counts, mut rates) = ([0; JobState::ALL.len()], [0.0; 3]);
    for (_, row) in visible(of, allowed) {
        counts.iter_mut().zip(row.counts).for_each(|(sum, count)| *sum += count);
        rates.iter_mut().zip(row.rates).for_each(|(sum, rate): (&mut f64, f64)| *sum += rate);
    }
    let total: u64 = counts.iter().sum();
    let states = JobState::ALL.into_iter().zip(counts);
    let open: u64 = states.clone().filter(|(state, _)| !state.is_ended()).map(|(_, count)| count).sum();
    let mut totals = format!("{{\"total\":{total},\"open\":{open}");
    for (state, count) in states {
        // Writing to a string cannot fail.
        let _ = write!(totals, ",\"{}\":{count}", state.as_str());
    }
    totals.push('}');
    let [enqueued, completed, failed] = rates.map(|rate| (rate * 1_000.0).round() / 1_000.0);
    let rates = format!(
        "{{\"enqueued_per_second_5s\":{enqueued},\"completed_per_second_5s\":{completed},\"failed_attempts_per_second_5s\":{failed}}}"
    );
    (totals, rates)
}

/// A JSON object whose values are JSON already. Its names are ours, ids, and names of queues, which need no escaping.
#[derive(Default)]
struct Message(String);

impl Message {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn member(&mut self, name: &str, value: &str) {
        let _ = write!(self.0, "{}\"{name}\":{value}", if self.0.is_empty() { "" } else { "," });
    }

    /// An object of entries, if there are any.
    fn entries<'a>(&mut self, name: &str, entries: impl Iterator<Item = (&'a str, Option<&'a Text>)>) {
        let mut inner = Message::default();
        for (key, value) in entries {
            inner.member(key, value.map_or("null", |text| text));
        }
        if !inner.is_empty() {
            self.member(name, &format!("{{{}}}", inner.0));
        }
    }

    fn finish(mut self, now: &Snapshot) -> Bytes {
        self.member("at", &format!("\"{}\"", Rfc3339(now.at)));
        format!("event: pulse\ndata: {{{}}}\n\n", self.0).into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::OnceLock;

    use serde_json::{Value, json};
    use windlass_core::Time;

    use super::*;
    use crate::http::live::pulse::snapshot::JobRow;

    fn row(pending: u64) -> Arc<QueueRow> {
        let mut counts = [0; JobState::ALL.len()];
        counts[JobState::Pending as usize] = pending;
        Arc::new(QueueRow { text: format!("{{\"pending\":{pending}}}").into(), counts, rates: [0.1, 0.2, 0.0] })
    }

    fn snapshot(number: u64, queues: &[(&str, u64)]) -> Snapshot {
        let queues = queues.iter().map(|(name, pending)| (name.parse().expect("a name"), row(*pending)));
        Snapshot {
            number,
            at: Time(number),
            queues: queues.collect(),
            slots: "{}".into(),
            canaries: "{}".into(),
            workers: vec![(vec!["mail".parse().expect("a name")], "\"w\"".into())],
            bulk: "[]".into(),
            paused_since: "null".into(),
            trouble: "null".into(),
            jobs: Arc::default(),
            for_all: OnceLock::new(),
        }
    }

    fn read(text: &Bytes) -> Value {
        let text = std::str::from_utf8(text).expect("text");
        let data = text.strip_prefix("event: pulse\ndata: ").and_then(|text| text.strip_suffix("\n\n"));
        serde_json::from_str(data.expect("one event")).expect("JSON")
    }

    fn some(pattern: &str) -> AllowedQueues {
        AllowedQueues { patterns: [pattern.parse().expect("a pattern")].into(), ..AllowedQueues::default() }
    }

    #[test]
    fn a_new_watcher_is_told_everything_and_later_only_what_has_changed() {
        let all = AllowedQueues::default();
        let first = snapshot(1, &[("mail", 2), ("bills", 3)]);
        let told = read(&whole(&first, &all, &[]));
        assert_eq!(
            (&told["full"], &told["totals"]["pending"], &told["totals"]["open"]),
            (&json!(true), &json!(5), &json!(5))
        );
        assert_eq!((&told["queues"]["bills"]["pending"], &told["workers"]), (&json!(3), &json!(["w"])));
        assert_eq!(told["rates"]["completed_per_second_5s"], json!(0.4));
        assert!(difference(&first, &snapshot(2, &[("mail", 2), ("bills", 3)]), &all, &[]).is_none());
        let third = snapshot(3, &[("mail", 4)]);
        let told = read(&difference(&first, &third, &all, &[]).expect("a change"));
        assert_eq!(told["queues"], json!({"mail": {"pending": 4}, "bills": null}));
        assert_eq!(told["totals"]["pending"], json!(4));
        assert!(told.get("slots").is_none() && told.get("full").is_none(), "{told}");
    }

    #[test]
    fn the_same_text_serves_all_who_see_everything() {
        let all = AllowedQueues::default();
        let (first, second) = (snapshot(1, &[("mail", 2)]), snapshot(2, &[("mail", 3)]));
        let texts = [(); 2].map(|()| difference(&first, &second, &all, &[]).expect("a change"));
        assert_eq!(texts[0].as_ptr(), texts[1].as_ptr());
    }

    #[test]
    fn a_watcher_is_told_of_the_queues_it_may_see_and_their_sums() {
        let bills = some("bills");
        let first = snapshot(1, &[("mail", 2), ("bills", 3)]);
        let told = read(&whole(&first, &bills, &[]));
        assert_eq!((&told["queues"], &told["totals"]["pending"]), (&json!({"bills": {"pending": 3}}), &json!(3)));
        assert_eq!(told["workers"], json!([]), "the worker serves another queue");
        assert!(difference(&first, &snapshot(2, &[("mail", 9), ("bills", 3)]), &bills, &[]).is_none());
    }

    #[test]
    fn watched_jobs_are_told_until_they_are_gone_and_those_of_others_never() {
        let id = JobId::new(Time(1), 7);
        let with = |number, text: Option<&str>| {
            let row =
                text.map(|text| (id, Arc::new(JobRow { queue: "mail".parse().expect("a name"), text: text.into() })));
            Snapshot { jobs: Arc::new(row.into_iter().collect::<HashMap<_, _>>()), ..snapshot(number, &[]) }
        };
        let all = AllowedQueues::default();
        let (first, second, third) = (with(1, Some("1")), with(2, Some("2")), with(3, None));
        assert_eq!(read(&whole(&first, &all, &[id]))["jobs"], json!({id.to_string(): 1}));
        let told = read(&difference(&first, &second, &all, &[id]).expect("a change"));
        assert_eq!(told["jobs"], json!({id.to_string(): 2}));
        assert!(difference(&first, &second, &all, &[]).is_none(), "nobody here watches it");
        let told = read(&difference(&second, &third, &all, &[id]).expect("a change"));
        assert_eq!(told["jobs"], json!({id.to_string(): null}));
        assert!(read(&whole(&first, &some("bills"), &[id])).get("jobs").is_none());
    }
}
