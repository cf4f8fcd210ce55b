//! Spans of time and sizes as people write them in a manifest: `"1h30m"`, `"256MiB"`, or a bare number of seconds or
//! bytes.
//!
//! In text they are text; in the store they are plain numbers, because the store's format does not say what it holds.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// In nanoseconds.
const SPAN_UNITS: [(&str, u64); 6] = [
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 24 * 3_600 * 1_000_000_000),
    ("w", 7 * 24 * 3_600 * 1_000_000_000),
];

/// In bytes, the largest first: that is how one is shown.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl Span {
    pub fn parse(text: &str) -> Result<Span, String> {
        let nanos = sum(text, &SPAN_UNITS).and_then(|nanos| u64::try_from(nanos).ok());
        let wrong = || format!("{text:?} is not a span of time; write one such as \"500ms\", \"90s\" or \"1h30m\"");
        nanos.map(|nanos| Span(Duration::from_nanos(nanos))).ok_or_else(wrong)
    }
}

impl Size {
    pub fn parse(text: &str) -> Result<Size, String> {
        let bytes = sum(text, &SIZE_UNITS).and_then(|bytes| u64::try_from(bytes).ok());
        let wrong = || format!("{text:?} is not a size; write one such as \"64KiB\", \"256MiB\" or \"1GiB\"");
        bytes.map(Size).ok_or_else(wrong)
    }
}

/// The sum of `<number><unit>` after `<number><unit>`. A number may have a fraction.
fn sum(text: &str, units: &[(&str, u64)]) -> Option<u128> {
    let mut total: u128 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = &rest[..rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len())];
        rest = &rest[number.len()..];
        let unit = &rest[..rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())];
        rest = &rest[unit.len()..];
        let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let whole = whole.parse::<u64>().ok()?;
        // Nine digits are finer than any unit needs.
        let fraction = &fraction[..fraction.len().min(9)];
        let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(*scale) / 10u128.pow(fraction.len() as u32);
        total = total.checked_add(u128::from(whole) * u128::from(*scale) + part)?;
    }
    Some(total)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut millis = self.0.as_millis();
        if millis == 0 {
            return f.write_str("0s");
        }
        for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
            if millis >= size {
                write!(f, "{}{unit}", millis / size)?;
                millis %= size;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = SIZE_UNITS.iter().filter(|(unit, _)| unit.len() != 2);
        let fits = binary.into_iter().find(|(_, scale)| self.0 >= *scale && self.0.is_multiple_of(*scale));
        let (unit, scale) = fits.copied().unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / scale)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(self) } else { self.0.serialize(serializer) }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(self) } else { self.0.serialize(serializer) }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        if !deserializer.is_human_readable() {
            return Duration::deserialize(deserializer).map(Span);
        }
        let expected = "a span of time such as \"90s\" or \"1h30m\", or a whole number of seconds";
        match deserializer.deserialize_any(TextOrNumber(expected))? {
            Written::Text(text) => Span::parse(&text).map_err(de::Error::custom),
            Written::Number(seconds) => Ok(Span(Duration::from_secs(seconds))),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Size);
        }
        let expected = "a size such as \"256MiB\", or a whole number of bytes";
        match deserializer.deserialize_any(TextOrNumber(expected))? {
            Written::Text(text) => Size::parse(&text).map_err(de::Error::custom),
            Written::Number(bytes) => Ok(Size(bytes)),
        }
    }
}

enum Written {
    Text(String),
    Number(u64),
}

/// Says what was expected when it finds something else.
struct TextOrNumber(&'static str);

impl de::Visitor<'_> for TextOrNumber {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Written, E> {
        Ok(Written::Text(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Written, E> {
        Ok(Written::Number(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Written, E> {
        u64::try_from(number)
            .map(Written::Number)
            .map_err(|_| E::custom(format!("{number} is negative; give {}", self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_shown_as_people_write_them() {
        for (text, millis) in
            [("500ms", 500), ("90s", 90_000), ("1h30m", 5_400_000), ("1.5h", 5_400_000), ("2d", 172_800_000)]
        {
            assert_eq!(Span::parse(text), Ok(Span(Duration::from_millis(millis))), "{text}");
        }
        assert_eq!(Span(Duration::from_millis(5_400_500)).to_string(), "1h30m500ms");
        assert_eq!(Span::default().to_string(), "0s");
    }

    #[test]
    fn sizes_are_read_and_shown_as_people_write_them() {
        for (text, bytes) in [("0B", 0), ("64KiB", 65_536), ("1.5MiB", 1_572_864), ("2GB", 2_000_000_000)] {
            assert_eq!(Size::parse(text), Ok(Size(bytes)), "{text}");
        }
        for (bytes, text) in [(0, "0B"), (1, "1B"), (1_536, "1536B"), (1 << 20, "1MiB"), (3 << 30, "3GiB")] {
            assert_eq!(Size(bytes).to_string(), text);
            assert_eq!(Size::parse(text), Ok(Size(bytes)));
        }
    }

    #[test]
    fn what_is_neither_is_refused_with_an_example() {
        for wrong in
            ["", " ", "5", "-5s", "s", ".s", "1..5s", "5 apples", "99999999999999999999w", "18446744073709551615w"]
        {
            assert!(Span::parse(wrong).expect_err(wrong).contains("90s"), "{wrong}");
            assert!(Size::parse(wrong).expect_err(wrong).contains("256MiB"), "{wrong}");
        }
    }
}
