//! Words that several resources share: how times, spans, bodies and enums look in JSON.

pub(crate) mod agent;
pub(crate) mod aliases;
mod body;
mod body_preview;
mod counts;
mod duration;
mod enums;
pub(crate) mod filter;
pub(crate) mod policy;
mod schema;
mod time;

pub use body::Shown;
pub use body_preview::{BodiesShown, BodyPreview, preview_chars};
pub use counts::{GroupCounts, StateCounts, Totals};
pub use duration::{Span, Text};
pub(super) use enums::wire_enum;
pub use enums::{
    BackoffName, CatchUpName, FlowKindName, OnFailureName, OverlapName, PriorityName, SchemeName, UntilName, WithinName,
};
pub use schema::{BulkIdText, JobIdText, NameText, StateName};
pub use time::{Moment, Rfc3339};
