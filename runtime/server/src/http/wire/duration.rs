//! Durations: `"500ms"`, `"1h30m"`, or an integer that means seconds.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use windlass_core::quantity;

/// A duration in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

const UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 24 * 3_600 * 1_000_000_000),
    ("w", 7 * 24 * 3_600 * 1_000_000_000),
];

impl Span {
    pub fn parse(text: &str) -> Result<Span, String> {
        let wrong = || {
            format!(
                "{text:?} is not a duration; write one such as \"500ms\", \"90s\" or \"1h30m\", or a number of seconds"
            )
        };
        if text.trim_start().starts_with('-') {
            return Err(format!("{text:?} is negative; a duration is zero or more"));
        }
        if text == "0" {
            return Ok(Span(Duration::ZERO));
        }
        let mut rest = text;
        let mut nanos: u128 = 0;
        while !rest.is_empty() {
            let number = leading(rest, |c| c.is_ascii_digit() || c == '.');
            let unit = leading(&rest[number.len()..], |c| c.is_alphabetic());
            let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
            nanos = scaled(number, *scale).and_then(|part| nanos.checked_add(part)).ok_or_else(wrong)?;
            rest = &rest[number.len() + unit.len()..];
        }
        if text.is_empty() {
            return Err(wrong());
        }
        let seconds = u64::try_from(nanos / 1_000_000_000).map_err(|_| wrong())?;
        Ok(Span(Duration::new(seconds, (nanos % 1_000_000_000) as u32)))
    }
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !belongs(c)).unwrap_or(text.len())]
}

/// `number` may have a fraction; what is finer than a nanosecond is dropped.
fn scaled(number: &str, scale: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() }
    };
    let mut nanos = u128::from(digits(whole)?) * u128::from(scale);
    let fraction = &fraction[..fraction.len().min(15)];
    nanos += u128::from(digits(fraction)?) * u128::from(scale) / 10u128.pow(fraction.len() as u32);
    Some(nanos)
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"90s\" or \"1h30m\", or a whole number of seconds")
            }
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Span, E> {
                Ok(Span(Duration::from_secs(seconds)))
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
                let seconds = u64::try_from(seconds);
                seconds.map(|seconds| Span(Duration::from_secs(seconds))).map_err(|_| {
                    E::custom("a duration is zero or more; write one such as \"90s\", or a number of seconds")
                })
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                Span::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A duration in an answer, as `"1h30m"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text(pub Duration);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quantity::Span(self.0).fmt(f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected_ms: u64) {
        let span: Span = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert_eq!(span.0, Duration::from_millis(expected_ms), "{json}");
    }

    #[test]
    fn spans_are_read_as_text_and_as_seconds() {
        check("0", 0);
        check("90", 90_000);
        check("\"0\"", 0);
        check("\"500ms\"", 500);
        check("\"5s\"", 5_000);
        check("\"1h30m\"", 5_400_000);
        check("\"1m30.5s\"", 90_500);
        check("\"1.5h\"", 5_400_000);
        check("\"2d\"", 172_800_000);
        check("\"1h0m0s\"", 3_600_000);
    }

    #[test]
    fn what_is_no_span_is_refused_with_an_example() {
        for wrong in [
            "-1",
            "\"-5s\"",
            "\"\"",
            "\"5\"",
            "\"5 bananas\"",
            "\"s\"",
            "\".s\"",
            "\"1..5s\"",
            "1.5",
            "true",
            "[]",
            "\"99999999999999999999w\"",
            "\"18446744073709551615w\"",
        ] {
            let error = serde_json::from_str::<Span>(wrong).expect_err(wrong).to_string();
            assert!(error.contains("90s") || error.contains("negative"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_span_is_shown_as_it_can_be_sent_again() {
        for (millis, text) in [(0, "0s"), (5_000, "5s"), (5_400_000, "1h30m"), (90_061_001, "1d1h1m1s1ms")] {
            assert_eq!(Text(Duration::from_millis(millis)).to_string(), text);
            assert_eq!(Span::parse(text), Ok(Span(Duration::from_millis(millis))));
        }
    }
}
