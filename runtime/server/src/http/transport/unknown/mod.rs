//! Fields that a request has and the server does not know. They are ignored, because newer clients send more; but most
//! of them are typing mistakes, and `limitkey` would silently lift a limit. So each is reported, with the name that was
//! probably meant.
//!
//! Reading order: `mod` (the report), `watch` (how they are noticed while a type is deserialized).

mod watch;

use std::cell::RefCell;

use serde::Deserialize;

use crate::http::wire::aliases;
use crate::limits;
pub use watch::Watch;

/// The unknown fields of a request.
#[derive(Debug, Default)]
pub struct Unknown(RefCell<Found>);

#[derive(Debug, Default)]
struct Found {
    fields: Vec<Field>,
    /// Fields that are only counted.
    more: usize,
}

/// One unknown field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Where it is, such as `jobs[0].limitkey`.
    path: String,
    name: String,
    /// The fields that are known at this path.
    known: Vec<&'static str>,
}

impl Unknown {
    fn add(&self, path: String, name: &str, known: &'static [&'static str]) {
        let mut found = self.0.borrow_mut();
        if found.fields.len() >= limits::UNKNOWN_COLLECTED {
            found.more += 1;
            return;
        }
        found.fields.push(Field { path: cut(path), name: name.to_owned(), known: known.to_vec() });
    }

    /// For two types that are read from the same object: the fields that neither of them knows.
    pub fn both(self, other: Unknown) -> Unknown {
        let (mut found, other) = (self.0.into_inner(), other.0.into_inner());
        found.fields.retain_mut(|field| {
            let twin = other.fields.iter().find(|twin| twin.path == field.path);
            field.known.extend(twin.iter().flat_map(|twin| &twin.known));
            twin.is_some()
        });
        // A field that was only counted may be known to the other type.
        found.more = found.more.min(other.more);
        Unknown(RefCell::new(found))
    }

    /// The same inside a larger object.
    pub fn under(self, place: &str) -> Unknown {
        let mut found = self.0.into_inner();
        for field in &mut found.fields {
            let dot = if field.path.starts_with('[') { "" } else { "." };
            field.path = cut(format!("{place}{dot}{}", field.path));
        }
        Unknown(RefCell::new(found))
    }

    /// All except this one, which is read elsewhere.
    pub fn without(self, name: &str) -> Unknown {
        let mut found = self.0.into_inner();
        found.fields.retain(|field| field.path != name);
        Unknown(RefCell::new(found))
    }

    /// A sentence for each unknown field. `what` is "field" or "query parameter".
    pub fn sentences(self, what: &str) -> Vec<String> {
        let Found { fields, more } = self.0.into_inner();
        let named = fields.iter().take(limits::UNKNOWN_NAMED).map(|field| field.sentence(what));
        let more = more + fields.len().saturating_sub(limits::UNKNOWN_NAMED);
        let rest = (more > 0).then(|| format!("{more} more unknown {what}s"));
        named.chain(rest).collect()
    }
}

impl Field {
    fn sentence(&self, what: &str) -> String {
        let path = &self.path;
        match likely(&self.name, &self.known).map(aliases::current) {
            Some(meant) => format!("unknown {what} `{path}`; did you mean `{meant}`?"),
            None => format!("unknown {what} `{path}`"),
        }
    }
}

/// Deserializes a value and collects unknown fields.
pub fn read<'de, T, D>(deserializer: D) -> Result<(T, Unknown), D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    let unknown = Unknown::default();
    let value = T::deserialize(Watch::new(deserializer, &unknown))?;
    Ok((value, unknown))
}

/// The known name that was most likely meant, if one is close enough.
fn likely(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let plain =
        |text: &str| -> String { text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect() };
    let meant = plain(name);
    let distance = |other: &&'static str| strsim::osa_distance(&meant, &plain(other));
    let nearest = known.iter().copied().min_by_key(distance)?;
    // A third of the letters may be wrong, and one in any case.
    let most = meant.chars().count().div_ceil(3).clamp(1, 3);
    if distance(&nearest) <= most {
        return Some(nearest);
    }
    // `retry_max_delay_ms` or `cron_expression`: one name contains the other, and no other known name is involved.
    let is_part = |other: &&&'static str| {
        let other = plain(other);
        meant.len().min(other.len()) >= PART && (meant.contains(&other) || other.contains(&meant))
    };
    let mut parts = known.iter().filter(is_part);
    parts.next().copied().filter(|_| parts.next().is_none())
}

/// A name shorter than this is a part of too many others to say what was meant.
const PART: usize = 4;

/// A client can send a path of any length.
fn cut(mut path: String) -> String {
    if let Some((at, _)) = path.char_indices().nth(limits::UNKNOWN_PATH) {
        path.truncate(at);
        path.push('…');
    }
    path
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Job<'a> {
        queue: Option<String>,
        limit_key: Option<String>,
        max_attempts: Option<u32>,
        max_retries: Option<u32>,
        tags: Option<BTreeMap<String, String>>,
        #[serde(borrow)]
        payload: Option<&'a RawValue>,
        #[serde(borrow)]
        chain: Option<Chain<'a>>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Chain<'a> {
        #[serde(borrow)]
        steps: Vec<Step<'a>>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Step<'a> {
        queue: String,
        #[serde(borrow)]
        payload: Option<&'a RawValue>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Paging {
        limit: Option<u32>,
        #[serde(alias = "page")]
        cursor: Option<String>,
    }

    fn warnings<'de, T: Deserialize<'de>>(json: &'de str) -> Vec<String> {
        let (_, unknown) = read::<T, _>(&mut serde_json::Deserializer::from_str(json)).expect("JSON that fits");
        unknown.sentences("field")
    }

    #[test]
    fn known_fields_give_no_warnings() {
        let json = r#"{"queue": "q", "payload": {"anything": [1, {"goes": 2}]}, "tags": {"any": "name"}, "max_retries": null,
            "chain": {"steps": [{"queue": "a", "payload": {"limitkey": 1}}]}}"#;
        assert_eq!(warnings::<Job<'_>>(json), [""; 0]);
        assert_eq!(warnings::<Paging>(r#"{"page": "x"}"#), [""; 0]);
    }

    #[test]
    fn an_unknown_field_is_reported_with_the_name_that_was_meant() {
        for (name, meant) in [
            ("limitkey", Some("limit_key")),
            ("limitKey", Some("limit_key")),
            ("limit-key", Some("limit_key")),
            ("max_attempt", Some("max_attempts")),
            ("max_retry", Some("max_attempts")),
            ("quene", Some("queue")),
            ("queue_name", Some("queue")),
            ("retries", Some("max_attempts")),
            ("colour", None),
            ("x", None),
        ] {
            let json = format!(r#"{{"queue": "q", "{name}": {{"deep": [1]}}}}"#);
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
            assert_eq!(warnings::<Job<'_>>(&json), [format!("unknown field `{name}`{meant}")]);
        }
    }

    #[test]
    fn nested_fields_are_reported_with_their_path() {
        let json = r#"[{"queue": "q"}, {"chain": {"steps": [{"queue": "a"}, {"queue": "b", "payloat": 1}]}}]"#;
        let expected = ["unknown field `[1].chain.steps[1].payloat`; did you mean `payload`?"];
        assert_eq!(warnings::<Vec<Job<'_>>>(json), expected);
        let map = r#"{"job_a": {"que\u0075es": 1}}"#;
        let expected = ["unknown field `job_a.queues`; did you mean `queue`?"];
        assert_eq!(warnings::<BTreeMap<String, Job<'_>>>(map), expected);
    }

    #[test]
    fn of_two_types_only_what_neither_knows_is_reported() {
        let json = r#"{"queue": "q", "limit": 5, "curser": "x", "quene": 1}"#;
        let of = |first: bool| {
            let json = &mut serde_json::Deserializer::from_str(json);
            if first { read::<Job<'_>, _>(json).map(|read| read.1) } else { read::<Paging, _>(json).map(|read| read.1) }
        };
        let both = of(true).expect("JSON").both(of(false).expect("JSON"));
        let expected =
            ["unknown field `curser`; did you mean `cursor`?", "unknown field `quene`; did you mean `queue`?"];
        assert_eq!(both.sentences("field"), expected);
    }

    #[test]
    fn very_many_are_counted_and_a_long_name_is_cut() {
        let many: Vec<String> = (0..limits::UNKNOWN_NAMED + 7).map(|n| format!("\"zz{n}\": 1")).collect();
        let named = warnings::<Job<'_>>(&format!("{{{}}}", many.join(",")));
        assert_eq!(named.len(), limits::UNKNOWN_NAMED + 1);
        assert_eq!(named[limits::UNKNOWN_NAMED], "7 more unknown fields");
        let very_many: Vec<String> = (0..limits::UNKNOWN_COLLECTED + 3).map(|n| format!("\"zz{n}\": 1")).collect();
        let named = self::warnings::<Job<'_>>(&format!("{{{}}}", very_many.join(",")));
        let rest = limits::UNKNOWN_COLLECTED + 3 - limits::UNKNOWN_NAMED;
        assert_eq!(named[limits::UNKNOWN_NAMED], format!("{rest} more unknown fields"));
        let long = self::warnings::<Job<'_>>(&format!("{{\"{}\": 1}}", "z".repeat(10_000)));
        assert!(long[0].len() < 300, "{}", long[0].len());
    }
}
