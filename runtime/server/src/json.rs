//! How deep JSON is nested, computed from its bytes alone. Most JSON parsers recurse for every level, and fail at some
//! hundred levels; so nothing deeper is accepted in a request, and nothing deeper is returned as JSON.

use memchr::memchr2;

/// Whether JSON is nested deeper than this. For bytes that are not JSON the result is arbitrary, which does no harm:
/// they are refused, or returned as bytes.
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

/// The end of the string that starts here, or of the input.
fn end_of_string(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(next) = json.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += next;
        if json[at] == b'"' {
            return at;
        }
        // A backslash and the character that it escapes.
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
    fn only_levels_are_counted() {
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
    fn brackets_side_by_side_and_in_strings_do_not_count_as_levels() {
        let beside = format!("[{}[]]", "[],".repeat(1_000));
        assert!(!is_deeper(beside.as_bytes(), 2));
        for string in ["[".repeat(1_000), "\\\"[".repeat(1_000), format!("{}\\\\", "{".repeat(1_000))] {
            let json = format!("{{\"{string}\": \"{string}\"}}");
            assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
            assert!(!is_deeper(json.as_bytes(), 2), "{json}");
        }
    }

    #[test]
    fn bytes_that_are_not_json_do_no_harm() {
        for wrong in ["\"", "\"\\", "]]]]]]", "{\"a", "[[[[\"", "\u{fffd}[", "\"\\\"\\"] {
            let _ = is_deeper(wrong.as_bytes(), 0);
        }
    }
}
