//! What a payload must contain for a filter to match, derived from the filter alone. `.user == "ann"` can only be true
//! for a payload with `"user"` and `"ann"` in it, or with a backslash, since an escape can stand for any character.
//! Searching for that is far cheaper than parsing JSON, and spares most payloads the filter. When in doubt there are no
//! needles, and all are parsed.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::ops::Cmp;
use jaq_core::path::{Part, Path};

type Needles = Vec<Vec<u8>>;

pub fn of(code: &str) -> Vec<Vec<u8>> {
    let term = jaq_core::load::parse(code, |parser| parser.term());
    let mut needles = term.map_or_else(Vec::new, |term: parse::Term<&str>| if_true(&term));
    needles.sort();
    needles.dedup();
    needles
}

/// What the payload must contain for the term to yield anything but false and null.
fn if_true(term: &Term<&str>) -> Needles {
    match term {
        Term::BinOp(left, BinaryOp::And, right) => both(if_true(left), if_true(right)),
        Term::BinOp(left, BinaryOp::Cmp(compare), right) => compared(left, compare, right),
        // Whatever follows, the first part must yield something.
        Term::BinOp(left, BinaryOp::Pipe(None), right) => both(if_any(left), piped(left, right)),
        Term::Call("select", arguments) => arguments.first().map_or_else(Vec::new, if_true),
        Term::Call("has", arguments) => match arguments.first().and_then(literal) {
            Some(Literal::Text(key)) => vec![quoted(&key)],
            _ => Vec::new(),
        },
        Term::Path(..) => path_keys(term).map_or_else(Vec::new, |(keys, _)| keys),
        _ => Vec::new(),
    }
}

/// What the payload must contain for the term to yield anything at all.
fn if_any(term: &Term<&str>) -> Needles {
    match term {
        Term::Call("select", arguments) => arguments.first().map_or_else(Vec::new, if_true),
        Term::BinOp(left, BinaryOp::Pipe(None), _) => if_any(left),
        _ => Vec::new(),
    }
}

/// A value of the payload, tested by a string function.
fn piped(left: &Term<&str>, right: &Term<&str>) -> Needles {
    let Term::Call("startswith" | "endswith", arguments) = right else { return Vec::new() };
    match (path_keys(left), arguments.first().and_then(literal)) {
        (Some((keys, _)), Some(Literal::Text(text))) => both(keys, vec![text.into_bytes()]),
        _ => Vec::new(),
    }
}

/// Only a value that exists equals a string or a number; a missing one is null, which is less than both.
fn compared(left: &Term<&str>, compare: &Cmp, right: &Term<&str>) -> Needles {
    let (path, value, compare) = match (literal(left), literal(right)) {
        (None, Some(value)) => (left, value, compare),
        (Some(value), None) => (right, value, &turned(compare)),
        _ => return Vec::new(),
    };
    let Some((keys, whole)) = path_keys(path) else { return Vec::new() };
    match (compare, value) {
        (Cmp::Eq, Literal::Text(text)) => {
            let text = if whole { quoted(&text) } else { text.into_bytes() };
            both(keys, vec![text])
        }
        (Cmp::Eq | Cmp::Gt | Cmp::Ge, Literal::Text(_) | Literal::Number) => keys,
        (Cmp::Lt | Cmp::Le | Cmp::Ne, _) => Vec::new(),
    }
}

fn turned(compare: &Cmp) -> Cmp {
    match compare {
        Cmp::Lt => Cmp::Gt,
        Cmp::Le => Cmp::Ge,
        Cmp::Gt => Cmp::Lt,
        Cmp::Ge => Cmp::Le,
        Cmp::Eq => Cmp::Eq,
        Cmp::Ne => Cmp::Ne,
    }
}

enum Literal {
    Text(String),
    Number,
}

fn literal(term: &Term<&str>) -> Option<Literal> {
    match term {
        Term::Num(_) => Some(Literal::Number),
        Term::Str(None, parts) => {
            let mut text = String::new();
            for part in parts {
                match part {
                    StrPart::Str(part) => text.push_str(part),
                    StrPart::Char(part) => text.push(*part),
                    StrPart::Term(_) => return None,
                }
            }
            Some(Literal::Text(text))
        }
        _ => None,
    }
}

/// The keys on the path to a value of the payload, and whether it is a whole value and not a part of a string.
fn path_keys(term: &Term<&str>) -> Option<(Needles, bool)> {
    let Term::Path(base, Path(parts)) = term else {
        return matches!(term, Term::Id | Term::Recurse).then(|| (Vec::new(), true));
    };
    let (mut keys, mut whole) = path_keys(base)?;
    for (part, _) in parts {
        match part {
            Part::Index(index) => match literal(index)? {
                Literal::Text(key) => keys.push(quoted(&key)),
                Literal::Number => {}
            },
            Part::Range(None, None) => {}
            Part::Range(..) => whole = false,
        }
    }
    Some((keys, whole))
}

/// A string in JSON, for strings that need no escapes.
fn quoted(text: &str) -> Vec<u8> {
    format!("\"{text}\"").into_bytes()
}

fn both(mut one: Needles, mut other: Needles) -> Needles {
    one.append(&mut other);
    one.retain(|needle| !needle.is_empty());
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needles_are_only_what_every_match_must_contain() {
        for (code, expected) in [
            (r#".user == "ann""#, vec!["\"ann\"", "\"user\""]),
            (r#""ann" == .user.name"#, vec!["\"ann\"", "\"name\"", "\"user\""]),
            (r#"select(.a == "x" and .b == 5)"#, vec!["\"a\"", "\"b\"", "\"x\""]),
            (r#"select(.a == "x") | .b"#, vec!["\"a\"", "\"x\""]),
            (".n > 5", vec!["\"n\""]),
            (".items[].sku", vec!["\"items\"", "\"sku\""]),
            (r#".a[0:3] == "abc""#, vec!["\"a\"", "abc"]),
            (r#".a | startswith("x")"#, vec!["\"a\"", "x"]),
            (r#"has("k")"#, vec!["\"k\""]),
            (".n < 5", vec![]),
            (".a == null", vec![]),
            (r#".a != "x""#, vec![]),
            (r#".a == "x" or .b"#, vec![]),
            (r#"(.a + "b") == "ab""#, vec![]),
            (r#"def select(f): true; select(.a == "x")"#, vec![]),
            (r#".a == "\(.b)""#, vec![]),
            ("not", vec![]),
            (r#".a // "x""#, vec![]),
            ("((", vec![]),
        ] {
            let found = of(code);
            let found: Vec<&str> = found.iter().map(|needle| std::str::from_utf8(needle).expect("text")).collect();
            assert_eq!(found, expected, "{code}");
        }
    }
}
