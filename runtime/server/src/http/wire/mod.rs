//! Words that several resources share: how times, spans, bodies and enums look in JSON.

mod body;
mod schema;
mod span;
mod time;
mod words;

pub use body::Shown;
pub use schema::{BulkIdText, JobIdText, NameText, StateWord};
pub use span::{Span, Text};
pub use time::{Moment, Rfc3339};
pub(super) use words::words;
pub use words::{BackoffWord, CatchUpWord, OnFailureWord, OverlapWord, PriorityWord, UntilWord, WithinWord};
