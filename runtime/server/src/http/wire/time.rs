//! Moments: RFC 3339, UTC in answers, any offset in requests.

use std::fmt;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use windlass_core::Time;

/// A moment in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub Time);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Moment, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Moment;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"2030-01-31T12:00:00Z\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                let parsed = DateTime::parse_from_rfc3339(text).map_err(|error| {
                    E::custom(format!("{text:?} is not a time ({error}); write one such as \"2030-01-31T12:00:00Z\""))
                })?;
                // Any time before 1970 is in the past, so it may as well be 1970.
                Ok(Moment(Time(u64::try_from(parsed.timestamp_millis()).unwrap_or(0))))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// A moment in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rfc3339(pub Time);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A moment beyond the calendar (year 262,142) can only come from a broken clock.
        let millis = i64::try_from(self.0.millis()).unwrap_or(i64::MAX);
        let moment = DateTime::from_timestamp_millis(millis).unwrap_or(DateTime::<chrono::Utc>::MAX_UTC);
        f.write_str(&moment.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_with_any_offset_and_shown_in_utc() {
        let moment: Moment = serde_json::from_str("\"2030-01-31T14:00:00.250+02:00\"").expect("a time");
        assert_eq!(Rfc3339(moment.0).to_string(), "2030-01-31T12:00:00.250Z");
        let past: Moment = serde_json::from_str("\"1901-01-01T00:00:00Z\"").expect("a time");
        assert_eq!(past.0, Time::ZERO);
    }

    #[test]
    fn what_is_no_moment_is_refused_with_an_example() {
        for wrong in ["\"tomorrow\"", "\"2030-01-31\"", "17"] {
            let error = serde_json::from_str::<Moment>(wrong).expect_err(wrong).to_string();
            assert!(error.contains("2030-01-31T12:00:00Z"), "{error}");
        }
    }
}
