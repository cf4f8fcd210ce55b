//! Reads a live stream as a browser would, and checks its exact line format.

use std::io::{BufRead, BufReader, Lines};

use serde_json::Value;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: Option<u64>,
    pub kind: String,
    pub data: Value,
}

pub struct Events {
    lines: Lines<BufReader<ureq::BodyReader<'static>>>,
}

impl Events {
    pub(crate) fn new(body: ureq::Body) -> Events {
        Events { lines: BufReader::new(body.into_reader()).lines() }
    }
}

impl Iterator for Events {
    type Item = Event;

    /// The next event; `None` when the server has ended the stream.
    fn next(&mut self) -> Option<Event> {
        let (mut id, mut kind, mut data) = (None, None, None);
        loop {
            let line = self.lines.next()?.expect("a line of the stream");
            if let Some(text) = line.strip_prefix("id: ") {
                assert!(id.is_none() && kind.is_none(), "id comes first, once");
                id = Some(text.parse().expect("a number"));
            } else if let Some(text) = line.strip_prefix("event: ") {
                assert!(kind.is_none() && data.is_none(), "event comes before data, once");
                kind = Some(text.to_owned());
            } else if let Some(text) = line.strip_prefix("data: ") {
                assert!(data.is_none(), "one data line");
                data = Some(serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}")));
            } else if line.is_empty() {
                if let (Some(kind), Some(data)) = (kind.take(), data.take()) {
                    return Some(Event { id, kind, data });
                }
            } else {
                assert!(line.starts_with(':'), "not a line of an event stream: {line:?}");
            }
        }
    }
}
