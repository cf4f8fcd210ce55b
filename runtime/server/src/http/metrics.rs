//! `GET /metrics`: the figures of the server in the text format of Prometheus.

use std::fmt::Write;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use windlass_core::{Counts, State as JobState};
use windlass_store::QueueView;

use super::Api;
use super::error::Result;

/// The figures of the server, in the text format of Prometheus
#[utoipa::path(get, path = "/metrics", tag = "system", responses((status = 200, body = String, content_type = "text/plain; version=0.0.4; charset=utf-8")))]
pub async fn show(State(api): State<Api>) -> Result<Response> {
    let mut page = Page::default();
    page.family("windlass_build_info", "gauge", "The version that runs.");
    page.sample("windlass_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    queues(&mut page, &api.store.queues().await?);
    page.family("windlass_workers", "gauge", "External workers that have fetched since the start.");
    page.sample("windlass_workers", &[], api.workers.count() as f64);
    page.family("windlass_watchers", "gauge", "Open live streams and waits.");
    page.sample("windlass_watchers", &[], api.hub.watchers() as f64);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response())
}

/// A name, what it means, and where the number is.
type Figure = (&'static str, &'static str, fn(&Counts) -> u64);

fn queues(page: &mut Page, views: &[QueueView]) {
    page.family("windlass_jobs", "gauge", "Jobs in each state now.");
    for view in views {
        for state in JobState::ALL {
            let labels = [("queue", view.queue.name.as_str()), ("state", state.word())];
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
    // Summaries without quantiles: sum and count give averages over any span, and add up over queues and servers.
    let summaries: [Figure; 2] = [
        ("windlass_job_wait_seconds", "How long completed jobs waited.", |counts| counts.wait_ms),
        ("windlass_job_run_seconds", "How long the attempts took that completed a job.", |counts| counts.run_ms),
    ];
    for (name, help, millis) in summaries {
        page.family(name, "summary", help);
        for view in views {
            let labels = [("queue", view.queue.name.as_str())];
            page.sample(&format!("{name}_sum"), &labels, millis(&view.queue.counts) as f64 / 1_000.0);
            page.sample(&format!("{name}_count"), &labels, view.queue.counts.completed as f64);
        }
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Labels are names of ours and of queues, which have no character that would need escaping.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}
