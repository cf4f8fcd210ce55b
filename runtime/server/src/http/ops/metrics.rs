//! `GET /metrics`, and the same under `/api/v1/metrics`: the figures of the server in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use windlass_core::{Counts, Histogram, Name, State as JobState};
use windlass_store::QueueView;
use windlass_store::store::CommitTally;

use crate::http::Api;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Query;
use crate::metrics::COMPILES;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MetricsQuery {
    /// The queues and plugins of all namespaces, with the label `namespace`. Needs a key of all namespaces.
    all_namespaces: Option<bool>,
}

/// The figures of the server, in the text format of Prometheus
///
/// Of the queues and plugins of one namespace. What the server does as a whole is not shown to keys of namespaces that
/// were made.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "system",
    params(MetricsQuery),
    responses((status = 200, body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"))
)]
pub async fn show(api: Api, Query(query): Query<MetricsQuery>) -> Result<Response> {
    let all = query.all_namespaces.unwrap_or_default();
    if all && !api.caller.everywhere {
        return Err(Error::forbidden(
            "only a key of all namespaces (`*`) sees all of them; leave `all_namespaces` out",
        ));
    }
    let store = if all { &api.whole_store } else { &api.store };
    let mut page = Page { all, ..Page::default() };
    page.family("windlass_build_info", "gauge", "The version that runs.");
    page.sample("windlass_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.family("windlass_paused", "gauge", "1 while the whole server is paused.");
    page.sample("windlass_paused", &[], if api.store.paused().is_some() { 1.0 } else { 0.0 });
    queues(&mut page, &store.queues().await?);
    let is_tenant = !api.caller.everywhere && !api.caller.allowed.namespace.is_default();
    if !is_tenant {
        server(&mut page, &api);
    }
    page.family("windlass_plugin_ready", "gauge", "1 while the jobs of a plugin can start.");
    for plugin in store.plugins().await? {
        let ready = if api.registry.not_ready(&plugin).is_none() { 1.0 } else { 0.0 };
        page.sample_of("windlass_plugin_ready", ("plugin", &plugin.name), &[], ready);
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.text).into_response())
}

/// What the server does as a whole, which is none of a tenant's business.
fn server(page: &mut Page, api: &Api) {
    commits(page, api.store.commits());
    if let Some(disk) = api.store.disk_use() {
        page.family("windlass_store_bytes", "gauge", "What the database takes on disk.");
        page.sample("windlass_store_bytes", &[("part", "tables")], disk.tables as f64);
        page.sample("windlass_store_bytes", &[("part", "journals")], disk.journals as f64);
    }
    let name = "windlass_compile_seconds";
    page.family(name, "histogram", "How long components took to compile, or to be taken from the cache.");
    page.histogram(name, &[], &bounds(), &COMPILES.counts(), COMPILES.seconds());
    page.family("windlass_workers", "gauge", "External workers that have fetched since the start.");
    page.sample("windlass_workers", &[], api.workers.count() as f64);
    page.family("windlass_watchers", "gauge", "Open live streams and waits.");
    page.sample("windlass_watchers", &[], api.hub.watchers() as f64);
}

/// The same as `GET /metrics`, for clients that know only addresses under `/api/v1`
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics_v1",
    tag = "system",
    params(MetricsQuery),
    responses((status = 200, body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"))
)]
pub async fn show_v1(api: Api, query: Query<MetricsQuery>) -> Result<Response> {
    show(api, query).await
}

/// The bounds of our histograms, in seconds.
fn bounds() -> Vec<f64> {
    Histogram::BOUNDS_MS.iter().map(|millis| *millis as f64 / 1_000.0).collect()
}

/// A name, what it means, and where the spans and their sum in milliseconds are.
type Spread = (&'static str, &'static str, fn(&Counts) -> (&Histogram, u64));

/// A name, what it means, and where the number is.
type Figure = (&'static str, &'static str, fn(&Counts) -> u64);

fn queues(page: &mut Page, views: &[QueueView]) {
    page.family("windlass_jobs", "gauge", "Jobs in each state now.");
    for view in views {
        for state in JobState::ALL {
            let count = view.queue.counts.of(state) as f64;
            page.sample_of("windlass_jobs", ("queue", &view.queue.name), &[("state", state.as_str())], count);
        }
    }
    page.family("windlass_queue_paused", "gauge", "1 while a queue is paused.");
    for view in views {
        let paused = if view.queue.settings.paused { 1.0 } else { 0.0 };
        page.sample_of("windlass_queue_paused", ("queue", &view.queue.name), &[], paused);
    }
    let counters: [Figure; 5] = [
        ("windlass_jobs_enqueued_total", "Jobs stored.", |counts| counts.enqueued),
        ("windlass_jobs_completed_total", "Jobs completed.", |counts| counts.completed),
        ("windlass_jobs_dead_total", "Jobs that died.", |counts| counts.dead),
        ("windlass_jobs_cancelled_total", "Jobs cancelled.", |counts| counts.cancelled),
        ("windlass_attempts_failed_total", "Attempts that failed and were followed by another.", |counts| {
            counts.failed
        }),
    ];
    for (name, help, count) in counters {
        page.family(name, "counter", help);
        for view in views {
            page.sample_of(name, ("queue", &view.queue.name), &[], count(&view.queue.counts) as f64);
        }
    }
    let histograms: [Spread; 2] = [
        ("windlass_job_wait_seconds", "How long completed jobs waited.", |counts| (&counts.waits, counts.wait_ms)),
        ("windlass_job_run_seconds", "How long the attempts took that completed a job.", |counts| {
            (&counts.runs, counts.run_ms)
        }),
    ];
    for (name, help, of) in histograms {
        page.family(name, "histogram", help);
        for view in views {
            let (spans, millis) = of(&view.queue.counts);
            let labels = page.labels(("queue", &view.queue.name), &[]);
            page.histogram(name, &labels, &bounds(), &spans.counts, millis as f64 / 1_000.0);
        }
    }
}

fn commits(page: &mut Page, tally: &CommitTally) {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let name = "windlass_commit_seconds";
    page.family(name, "histogram", "How long commits to the disk took.");
    let took: Vec<u64> = tally.took.iter().map(read).collect();
    // Counted by powers of two of a microsecond; anything below a tenth of a millisecond is one bucket.
    const FIRST: usize = 7;
    const LAST: usize = 24;
    let bounds: Vec<f64> = (FIRST..LAST).map(|power| (1u64 << power) as f64 / 1e6).collect();
    let mut counts = vec![took[..=FIRST].iter().sum()];
    counts.extend(&took[FIRST + 1..LAST]);
    counts.push(took[LAST..].iter().sum());
    page.histogram(name, &[], &bounds, &counts, read(&tally.micros) as f64 / 1e6);
    page.family("windlass_commit_writes_total", "counter", "Rows written to the disk.");
    page.sample("windlass_commit_writes_total", &[], read(&tally.writes) as f64);
    page.family("windlass_commit_bytes_total", "counter", "Bytes of rows written to the disk.");
    page.sample("windlass_commit_bytes_total", &[], read(&tally.bytes) as f64);
}

#[derive(Default)]
struct Page {
    text: String,
    /// Queues and plugins have the label of their namespace.
    all: bool,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// One count more than there are bounds: what is beyond the last.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) {
        let mut seen = 0;
        let bounds = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(counts) {
            seen += count;
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(&format!("{name}_bucket"), &labels, seen as f64);
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, seen as f64);
    }

    /// The label of a queue or a plugin, which of two namespaces may have the same name, and others.
    fn labels<'a>(&self, (label, name): (&'a str, &'a Name), more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let namespace = self.all.then(|| ("namespace", name.namespace_name()));
        namespace.into_iter().chain([(label, name.as_str())]).chain(more.iter().copied()).collect()
    }

    fn sample_of(&mut self, name: &str, of: (&str, &Name), more: &[(&str, &str)], value: f64) {
        let labels = self.labels(of, more);
        self.sample(name, &labels, value);
    }

    /// Labels are names of ours and of queues, which have no character that would need escaping.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_up_to_all_there_is() {
        let mut page = Page::default();
        page.histogram("h", &[("queue", "mail")], &[0.5, 1.0], &[2, 0, 3], 9.5);
        let expected = "h_bucket{queue=\"mail\",le=\"0.5\"} 2\nh_bucket{queue=\"mail\",le=\"1\"} 2\n\
            h_bucket{queue=\"mail\",le=\"+Inf\"} 5\nh_sum{queue=\"mail\"} 9.5\nh_count{queue=\"mail\"} 5\n";
        assert_eq!(page.text, expected);
    }

    #[test]
    fn every_commit_is_in_a_bucket() {
        let tally = CommitTally::default();
        for power in 0..32 {
            tally.took[power].fetch_add(1, Ordering::Relaxed);
        }
        let mut page = Page::default();
        commits(&mut page, &tally);
        assert!(page.text.contains("windlass_commit_seconds_count 32"), "{}", page.text);
    }
}
