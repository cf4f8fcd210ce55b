//! `GET /metrics`, and the same under `/api/v1/metrics`: the figures of the server in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::header;
use axum::response::{IntoResponse, Response};
use windlass_core::{Counts, Histogram, State as JobState};
use windlass_store::QueueView;
use windlass_store::store::CommitTally;

use crate::http::Api;
use crate::http::transport::error::Result;
use crate::metrics::COMPILES;

/// The figures of the server, in the text format of Prometheus
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "system",
    responses((status = 200, body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"))
)]
pub async fn show(api: Api) -> Result<Response> {
    let mut page = Page::default();
    page.family("windlass_build_info", "gauge", "The version that runs.");
    page.sample("windlass_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.family("windlass_paused", "gauge", "1 while the whole server is paused.");
    page.sample("windlass_paused", &[], if api.store.paused().is_some() { 1.0 } else { 0.0 });
    queues(&mut page, &api.store.queues().await?);
    commits(&mut page, api.store.commits());
    if let Some(disk) = api.store.disk_use() {
        page.family("windlass_store_bytes", "gauge", "What the database takes on disk.");
        page.sample("windlass_store_bytes", &[("part", "tables")], disk.tables as f64);
        page.sample("windlass_store_bytes", &[("part", "journals")], disk.journals as f64);
    }
    let name = "windlass_compile_seconds";
    page.family(name, "histogram", "How long components took to compile, or to be taken from the cache.");
    page.histogram(name, &[], &bounds(), &COMPILES.counts(), COMPILES.seconds());
    page.family("windlass_plugin_ready", "gauge", "1 while the jobs of a plugin can start.");
    for plugin in api.store.plugins().await? {
        let ready = if api.registry.not_ready(&plugin).is_none() { 1.0 } else { 0.0 };
        page.sample("windlass_plugin_ready", &[("plugin", plugin.name.as_str())], ready);
    }
    page.family("windlass_workers", "gauge", "External workers that have fetched since the start.");
    page.sample("windlass_workers", &[], api.workers.count() as f64);
    page.family("windlass_watchers", "gauge", "Open live streams and waits.");
    page.sample("windlass_watchers", &[], api.hub.watchers() as f64);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response())
}

/// The same as `GET /metrics`, for clients that know only addresses under `/api/v1`
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics_v1",
    tag = "system",
    responses((status = 200, body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"))
)]
pub async fn show_v1(api: Api) -> Result<Response> {
    show(api).await
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
            let labels = [("queue", view.queue.name.as_str()), ("state", state.as_str())];
            page.sample("windlass_jobs", &labels, view.queue.counts.of(state) as f64);
        }
    }
    page.family("windlass_queue_paused", "gauge", "1 while a queue is paused.");
    for view in views {
        let paused = if view.queue.settings.paused { 1.0 } else { 0.0 };
        page.sample("windlass_queue_paused", &[("queue", view.queue.name.as_str())], paused);
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
            page.sample(name, &[("queue", view.queue.name.as_str())], count(&view.queue.counts) as f64);
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
            let labels = [("queue", view.queue.name.as_str())];
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
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
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

    /// Labels are names of ours and of queues, which have no character that would need escaping.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
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
        assert_eq!(page.0, expected);
    }

    #[test]
    fn every_commit_is_in_a_bucket() {
        let tally = CommitTally::default();
        for power in 0..32 {
            tally.took[power].fetch_add(1, Ordering::Relaxed);
        }
        let mut page = Page::default();
        commits(&mut page, &tally);
        assert!(page.0.contains("windlass_commit_seconds_count 32"), "{}", page.0);
    }
}
