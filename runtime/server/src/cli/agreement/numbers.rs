//! Limits in the documents, compared with those of the code.

use std::time::Duration;

use windlass_core::bounds;

use crate::cli::agreement::{Problems, read};
use crate::limits;

/// A number as the documents write it: 10,000.
fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds if seconds >= 60 && seconds.is_multiple_of(60) && seconds != 60 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

#[test]
fn the_limits_in_the_documents_are_those_of_the_code() {
    let api = "docs/http-api.md";
    let days = windlass_core::bounds::DELIVERY_AGE.as_secs() / (24 * 3600);
    let listed = format!("the last {} attempts of the last {days} days", windlass_core::bounds::DELIVERIES);
    let sentences = [
        (api, format!("The latest {} jobs are looked at; `complete`", count(limits::USAGE_LOOKED_AT))),
        (api, format!("`timeout` ({}, at most {})", span(limits::POLL), span(limits::POLL_MOST))),
        (api, format!("takes `count` (at most {})", limits::WORKER_BATCH)),
        (api, format!("returns up to {} whole records", count(limits::BULK_GET))),
        (api, format!("`limit` is {}, at most {}", limits::PAGE, count(limits::PAGE_MOST))),
        (api, format!("Up to {} jobs the answer waits for the end", count(limits::BULK_SYNC))),
        (api, format!("At most `--max-fetches` ({}) fetches wait on one queue", count(limits::FETCHES))),
        (api, format!("unless it is larger than {}", size(windlass_store::limits::INLINE_BODY))),
        (api, format!("a result of more than {}", size(limits::EVENT_RESULT as usize))),
        (api, format!("When the time is up ({} at most)", span(limits::WAIT_MOST))),
        (api, format!("text of {} bytes to {}", limits::SECRET_LEAST, size(limits::SECRET))),
        (api, format!("Every {} without an event", span(limits::SSE_COMMENT))),
        (api, listed.clone()),
        ("docs/webhooks.md", listed),
        (api, format!("none | {}", span(windlass_core::bounds::TOLERANCE))),
        ("docs/sandbox.md", format!("checked by size ({})", size(limits::COMPONENT))),
        ("docs/sandbox.md", format!("comes to an end at generation {}", bounds::SPAWN_DEPTH)),
        ("docs/sandbox.md", format!("of one job | 1,000; {}", count(bounds::CHILDREN_OF_A_JOB as usize))),
        ("docs/flows.md", format!("of their own: {} generations", bounds::SPAWN_DEPTH)),
        ("docs/plugins.md", format!("within `--deadline` ({})", span(limits::SWAP_WAIT))),
        ("docs/job-states.md", "a handler in a plugin has\nfive seconds".to_owned()),
    ];
    let mut problems = Problems::default();
    for (document, sentence) in sentences {
        if !flat(&read(document)).contains(&flat(&sentence)) {
            problems
                .add(format!("{document} should say \"{sentence}\", or numbers.rs should look for another sentence"));
        }
    }
    problems.none();
}

#[test]
fn a_size_that_two_documents_name_is_the_same_in_both() {
    // How much net/http's own client adds to a component in Go.
    let size = |document: &str| {
        let text = flat(&read(document));
        let named = text.split_once("makes a component ").and_then(|(_, rest)| rest.split_once(" larger"));
        named
            .unwrap_or_else(|| panic!("{document} does not say how much larger nethttp makes a component"))
            .0
            .to_owned()
    };
    assert_eq!(size("guest-sdk/go/README.md"), size("guest-sdk/go/whttp/whttp.go"));
}

#[test]
fn what_an_attempt_may_use_is_the_same_in_every_document() {
    let limits = windlass_executor::Limits::default();
    let http = &limits.http;
    let mut problems = Problems::default();
    for (document, sentence) in [
        ("docs/plugins.md", format!("connect = \"{}s\"", http.connect.as_secs())),
        ("docs/sandbox.md", format!("connecting and TLS | {} s |", http.connect.as_secs())),
        ("docs/plugins.md", format!("first_byte = \"{}m\"", http.first_byte.as_secs() / 60)),
        ("docs/sandbox.md", format!("to the head of the response | {} s |", http.first_byte.as_secs())),
        ("docs/plugins.md", format!("between_bytes = \"{}s\"", http.between_bytes.as_secs())),
        ("docs/sandbox.md", format!("in the middle of the response | {} s |", http.between_bytes.as_secs())),
        ("docs/plugins.md", format!("total = \"{}m\"", http.total.as_secs() / 60)),
        ("docs/sandbox.md", format!("the whole request | {} min |", http.total.as_secs() / 60)),
        ("docs/sandbox.md", format!("memories and tables together | {} |", size(limits.memory_bytes))),
    ] {
        if !flat(&read(document)).contains(&flat(&sentence)) {
            problems
                .add(format!("{document} should say \"{sentence}\": that is the default in the executor's limits.rs"));
        }
    }
    problems.none();
}

/// Text without line breaks and capitals, because wrapping does not matter.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}
