//! How the wire's own types look in the description of the API.

use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use windlass_core::{State, bounds};

use crate::http::wire::{Moment, Rfc3339, Span, Text};

/// Gives a type of the wire its schema and the name that others refer to it by.
macro_rules! described {
    ($($type:ty as $name:literal = $schema:expr;)+) => {
        $(
            impl PartialSchema for $type {
                fn schema() -> RefOr<Schema> {
                    RefOr::T($schema)
                }
            }

            impl ToSchema for $type {
                fn name() -> std::borrow::Cow<'static, str> {
                    $name.into()
                }
            }
        )+
    };
}

/// The name of a queue, plugin or schedule; used only as a schema.
pub struct NameText;

/// The id of a job; used only as a schema.
pub struct JobIdText;

/// The id of a bulk operation; used only as a schema.
pub struct BulkIdText;

/// The state of a job; used only as a schema.
pub struct StateName;

described! {
    Rfc3339 as "Time" = moment("A time, in UTC.");
    Moment as "TimeIn" = moment("A time, with any offset.");
    Text as "Duration" = Schema::Object(
        text().description(Some("A duration such as `1h30m`.")).examples(["1h30m"]).build()
    );
    Span as "DurationIn" = Schema::OneOf(
        OneOfBuilder::new()
            .item(text().pattern(Some("^([0-9]{1,6}(ns|us|ms|s|m|h|d|w))+$")))
            .item(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(u32::MAX)))
            .description(Some("A duration: text such as `500ms` or `1h30m`, or a whole number of seconds."))
            .examples(["90s"])
            .build()
    );
    NameText as "Name" = Schema::Object(
        text()
            .pattern(Some("^[A-Za-z0-9._:/-]+$"))
            .min_length(Some(1))
            .max_length(Some(bounds::NAME_BYTES))
            .description(Some("The name of a queue, a plugin or a schedule."))
            .examples(["emails.send"])
            .build()
    );
    JobIdText as "JobId" = Schema::Object(
        text()
            .pattern(Some("^job_[0-9A-Za-z]{26}$"))
            .description(Some("The id of a job. Ids sort by creation time."))
            .examples(["job_01J9Z3N5W7C4V8K2M6QXT0B1RD"])
            .build()
    );
    BulkIdText as "BulkId" = Schema::Object(
        text()
            .pattern(Some("^bulk_[0-9A-Za-z]{26}$"))
            .description(Some("The id of a bulk operation."))
            .examples(["bulk_01J9Z3N5W7C4V8K2M6QXT0B1RD"])
            .build()
    );
    StateName as "State" = Schema::Object(
        text()
            .enum_values(Some(State::ALL.map(State::as_str)))
            .description(Some("The state of a job. Completed, dead and cancelled jobs have ended."))
            .build()
    );
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn moment(description: &str) -> Schema {
    let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
    let object = text().format(Some(format)).description(Some(description)).examples(["2030-01-31T12:00:00Z"]);
    Schema::Object(object.build())
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use windlass_core::{JobId, Name};

    use super::*;

    fn example<T: PartialSchema>() -> serde_json::Value {
        let schema = serde_json::to_value(T::schema()).expect("a schema");
        schema["examples"][0].clone()
    }

    fn reads<T: PartialSchema + DeserializeOwned>() {
        let example = example::<T>();
        assert!(serde_json::from_value::<T>(example.clone()).is_ok(), "{example}");
    }

    #[test]
    fn the_examples_are_what_the_server_takes() {
        reads::<Moment>();
        reads::<Span>();
        for shown in [example::<Text>(), example::<Span>()] {
            assert!(Span::parse(shown.as_str().expect("text")).is_ok(), "{shown}");
        }
        assert!(example::<JobIdText>().as_str().expect("text").parse::<JobId>().is_ok());
        assert!(example::<NameText>().as_str().expect("text").parse::<Name>().is_ok());
    }
}
