//! `GET /stats/series`: figures of one queue or of all queues over the last hour or the last day. `GET /stats/queues`:
//! a few of them for each queue.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::{Name, QueueName, Refusal, Time};

use crate::http::Api;
use crate::http::transport::error::{Error, Result};
use crate::http::transport::extract::Query;
use crate::http::wire::{Rfc3339, Span};
use crate::limits;
use crate::metrics::series::{Figures, Spread, Sum, Window};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SeriesQuery {
    /// One queue; without it, all queues that the caller may see.
    queue: Option<String>,
    /// How far back: up to `24h`. The default is `1h`.
    window: Option<String>,
    /// How long a step is: a multiple of `5s` in the last hour, and of `1m` beyond it. The default is the shortest.
    step: Option<String>,
}

/// Figures over time. All lists are as long as `at`.
#[derive(Debug, Serialize, ToSchema)]
pub struct SeriesAnswer {
    queue: Option<String>,
    window_ms: u64,
    step_ms: u64,
    /// When the server began to count. Earlier steps are left out.
    since: Rfc3339,
    /// False if the queue is not counted, or if the total of a caller who may see only some queues lacks one of them:
    /// only so many queues are counted, and the least active ones are left out.
    tracked: bool,
    /// When each step began, oldest first. The step that has not ended is left out.
    at: Vec<Rfc3339>,
    /// Jobs stored in the step.
    enqueued: Vec<u64>,
    /// How many times a job completed.
    completed: Vec<u64>,
    /// Attempts that failed and were followed by another.
    failed_attempts: Vec<u64>,
    /// How many times a job died.
    dead: Vec<u64>,
    /// Jobs that were pending at the end of the step, and jobs that were active.
    pending: Vec<u64>,
    active: Vec<u64>,
    /// How long the completed jobs had waited, in milliseconds; `null` where none completed.
    wait_ms: Percentiles,
    /// How long the attempts that completed them had run.
    run_ms: Percentiles,
}

/// Values that so many percent do not exceed, for each step.
#[derive(Debug, Serialize, ToSchema)]
struct Percentiles {
    p50: Vec<Option<f64>>,
    p95: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
}

/// Figures over time: what was enqueued, completed and failed, and how long jobs waited and ran
///
/// Held in memory: they begin with the server's start, as `since` says.
#[utoipa::path(
    get,
    path = "/stats/series",
    tag = "system",
    params(SeriesQuery),
    responses((status = 200, body = SeriesAnswer))
)]
pub async fn show_series(api: Api, Query(query): Query<SeriesQuery>) -> Result<Json<SeriesAnswer>> {
    let window = window(query.window.as_deref(), query.step.as_deref())?;
    let Some(queue) = query.queue else {
        return Ok(Json(answer(None, window, api.series.of_all(&api.caller.allowed, window))));
    };
    let name = api.own(Name::parse("queue", &queue)?);
    let missing = || Refusal::not_found("queue", &name);
    if !api.caller.allowed.allow(&name) {
        return Err(missing().into());
    }
    let figures = match api.series.of_queue(&name, window) {
        Some(figures) => figures,
        // It may have been made since the latest reading.
        None => {
            let queues = api.store.queues().await?;
            queues.iter().find(|view| view.queue.name == name).ok_or_else(missing)?;
            Figures { steps: Vec::new(), ..api.series.of_all(&api.caller.allowed, window) }
        }
    };
    Ok(Json(answer(Some(queue), window, figures)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct QueuesQuery {
    /// How far back: up to `24h`. The default is `1h`.
    window: Option<String>,
    /// How long a step is, as for `/stats/series`.
    step: Option<String>,
}

/// A few figures of each queue over time. All lists are as long as `at`.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueuesAnswer {
    window_ms: u64,
    step_ms: u64,
    /// When each step began, oldest first. The step that has not ended is left out.
    at: Vec<Rfc3339>,
    /// By the name of the queue. Those without figures are left out.
    queues: BTreeMap<String, QueueSteps>,
}

#[derive(Debug, Serialize, ToSchema)]
struct QueueSteps {
    /// How many times a job completed in the step.
    completed: Vec<u64>,
    /// How many attempts failed in it, the last ones of dead jobs included.
    failed_attempts: Vec<u64>,
    /// How many jobs were pending at its end.
    pending: Vec<u64>,
}

/// A few figures of each queue over time, such as lists of queues draw beside their names
///
/// Of the queues that have figures over time, those in which the most happened.
#[utoipa::path(
    get,
    path = "/stats/queues",
    tag = "system",
    params(QueuesQuery),
    responses((status = 200, body = QueuesAnswer))
)]
pub async fn queues(api: Api, Query(query): Query<QueuesQuery>) -> Result<Json<QueuesAnswer>> {
    let window = window(query.window.as_deref(), query.step.as_deref())?;
    let found = api.series.of_each(&api.caller.allowed, window, limits::SERIES_QUEUES);
    let steps_of = |(queue, figures): &(QueueName, Figures)| {
        let each = |of: fn(&Sum) -> u64| figures.steps.iter().map(|(_, sum)| of(sum)).collect();
        let steps = QueueSteps {
            completed: each(|sum| sum.completed),
            failed_attempts: each(|sum| sum.failed + sum.dead),
            pending: each(|sum| sum.pending),
        };
        (queue.as_str().to_owned(), steps)
    };
    let at = found.first().map(|(_, figures)| figures.steps.iter().map(|(at, _)| Rfc3339(*at)).collect());
    Ok(Json(QueuesAnswer {
        window_ms: millis(window.span),
        step_ms: millis(window.step),
        at: at.unwrap_or_default(),
        queues: found.iter().map(steps_of).collect(),
    }))
}

fn window(span: Option<&str>, step: Option<&str>) -> Result<Window> {
    let read = |field, text: Option<&str>| match text {
        Some(text) => Span::parse(text).map(|span| Some(span.0)).map_err(|why| Error::field(field, why)),
        None => Ok(None),
    };
    let span = read("window", span)?.unwrap_or(limits::SERIES_FINE);
    let is_fine = span <= limits::SERIES_FINE;
    let shortest = if is_fine { limits::SERIES_STEP } else { limits::SERIES_COARSE_STEP };
    let step = read("step", step)?.unwrap_or(shortest);
    if span > limits::SERIES_COARSE || span < step {
        return Err(Error::field("window", "at most `24h`, and at least one step"));
    }
    if step < shortest || !(step.as_millis()).is_multiple_of(shortest.as_millis()) {
        let why = if is_fine { "a multiple of `5s`" } else { "a multiple of `1m`, for a window longer than `1h`" };
        return Err(Error::field("step", why));
    }
    Ok(Window { span, step })
}

fn answer(queue: Option<String>, window: Window, figures: Figures) -> SeriesAnswer {
    let Figures { since, tracked, steps } = figures;
    let each = |of: fn(&Sum) -> u64| steps.iter().map(|(_, sum)| of(sum)).collect();
    let percentiles = |of: fn(&Sum) -> &Spread| {
        let each = |percent| steps.iter().map(|(_, sum)| of(sum).percentile(percent)).collect();
        Percentiles { p50: each(50.0), p95: each(95.0), p99: each(99.0) }
    };
    SeriesAnswer {
        queue,
        window_ms: millis(window.span),
        step_ms: millis(window.step),
        since: Rfc3339(since.unwrap_or(Time::ZERO)),
        tracked,
        at: steps.iter().map(|(at, _)| Rfc3339(*at)).collect(),
        enqueued: each(|sum| sum.enqueued),
        completed: each(|sum| sum.completed),
        failed_attempts: each(|sum| sum.failed),
        dead: each(|sum| sum.dead),
        pending: each(|sum| sum.pending),
        active: each(|sum| sum.active),
        wait_ms: percentiles(|sum| &sum.waits),
        run_ms: percentiles(|sum| &sum.runs),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_steps_of_the_length_that_is_kept() {
        let seconds = |span, step| window(span, step).map(|window| (window.span.as_secs(), window.step.as_secs()));
        assert_eq!(seconds(None, None).expect("the default"), (3600, 5));
        assert_eq!(seconds(Some("24h"), None).expect("a day"), (86_400, 60));
        assert_eq!(seconds(Some("30m"), Some("10s")).expect("steps together"), (1800, 10));
        assert_eq!(seconds(Some("1h"), Some("1m")).expect("an hour in minutes"), (3600, 60));
        for (span, step) in
            [("25h", "1m"), ("24h", "5s"), ("1h", "7s"), ("1h", "0s"), ("1s", "5s"), ("x", "5s"), ("1h", "y")]
        {
            assert!(seconds(Some(span), Some(step)).is_err(), "{span} {step}");
        }
    }
}
