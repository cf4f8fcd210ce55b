//! How deep JSON is nested, told from its bytes alone. Most readers of JSON call themselves for every level, and stop or break at some
//! hundred levels; so nothing deeper is taken at the door, and nothing deeper is shown as JSON.

use memchr::memchr2;

/// Whether JSON is nested deeper than this. Of bytes that are not JSON it says something or other, which does no harm: they are
/// refused, or shown as bytes.
pub fn is_deeper(json: &[u8], most: usize) -> bool {
    // Each level has two brackets.
    if json.len() / 2 <= most {
        return false;
    }
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > most {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => at = end_of_string(json, at),
            _ => {}
        }
        at += 1;
    }
    false
}

/// Where the string ends that begins here; or where everything ends.
fn end_of_string(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(next) = json.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += next;
        if json[at] == b'"' {
            return at;
        }
        // A backslash and what it stands before.
        at += 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}1{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn levels_are_counted_and_nothing_else() {
        for depth in [0, 1, 7, 99, 100] {
            assert!(!is_deeper(nested(depth).as_bytes(), 100), "{depth}");
        }
        for depth in [101, 102, 5_000, 200_000] {
            assert!(is_deeper(nested(depth).as_bytes(), 100), "{depth}");
        }
        assert!(is_deeper(r#"{"a":{"b":[{}]}}"#.as_bytes(), 3));
        assert!(!is_deeper(r#"{"a":{"b":[{}]}}"#.as_bytes(), 4));
    }

    #[test]
    fn brackets_beside_each_other_and_in_strings_are_no_levels() {
        let beside = format!("[{}[]]", "[],".repeat(1_000));
        assert!(!is_deeper(beside.as_bytes(), 2));
        for string in ["[".repeat(1_000), "\\\"[".repeat(1_000), format!("{}\\\\", "{".repeat(1_000))] {
            let json = format!("{{\"{string}\": \"{string}\"}}");
            assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
            assert!(!is_deeper(json.as_bytes(), 2), "{json}");
        }
    }

    #[test]
    fn what_is_not_json_does_no_harm() {
        for wrong in ["\"", "\"\\", "]]]]]]", "{\"a", "[[[[\"", "\u{fffd}[", "\"\\\"\\"] {
            let _ = is_deeper(wrong.as_bytes(), 0);
        }
    }
}
