//! Which errors are the same one. What differs from job to job is replaced: numbers, ids, hex, paths and quoted values.
//! What is left is the pattern, and its fingerprint is a short hash of that.

use sha2::{Digest, Sha256};

/// How long a fingerprint is, as text.
pub const FINGERPRINT_BYTES: usize = 16;
/// An error is judged by its beginning: what follows is mostly a dump of what differs.
const LOOKED_AT: usize = 2 * 1024;
/// Quoted values longer than this are text with stray quotes.
const QUOTED: usize = 512;
/// The number after one of these says what kind of failure it is, and stays.
const KINDS: [&str; 8] = ["status", "code", "http", "errno", "error", "signal", "exit", "sqlstate"];

/// The fingerprint of an error.
pub fn fingerprint(error: &str) -> String {
    let hash = Sha256::digest(pattern(error));
    hash.iter().take(FINGERPRINT_BYTES / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// An error without what differs from job to job: `cannot open <path>: status 404 after <n> tries`.
pub fn pattern(error: &str) -> String {
    let text = &error[..error.floor_char_boundary(LOOKED_AT)];
    let mut found = Pattern { text: String::new(), kind: false };
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            if !found.text.is_empty() && !found.text.ends_with(' ') {
                found.text.push(' ');
            }
            (before, rest) = (first, &rest[first.len_utf8()..]);
        } else if let Some(length) = quoted(first, rest, before) {
            found.put("<value>");
            (before, rest) = (first, &rest[length..]);
        } else if is_part_of_word(first) {
            let word = &rest[..word_length(rest)];
            found.word(word);
            (before, rest) = (word.chars().last().unwrap_or(' '), &rest[word.len()..]);
        } else {
            found.text.push(first);
            (before, rest) = (first, &rest[first.len_utf8()..]);
        }
    }
    found.text.truncate(found.text.trim_end().len());
    found.text
}

/// The length of a quoted value, with its quotes. An apostrophe inside a word opens none.
fn quoted(first: char, rest: &str, before: char) -> Option<usize> {
    if !matches!(first, '"' | '\'' | '`') || before.is_alphanumeric() {
        return None;
    }
    let inside = &rest[first.len_utf8()..];
    let end = inside.find(first).filter(|end| *end <= QUOTED)?;
    let after = inside[end + first.len_utf8()..].chars().next();
    let ends = first != '\'' || after.is_none_or(|after| !after.is_alphanumeric());
    (ends && !inside[..end].contains('\n')).then_some(end + 2 * first.len_utf8())
}

fn is_part_of_word(c: char) -> bool {
    !c.is_whitespace()
        && !matches!(c, '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',' | ';' | '=' | '|')
}

/// As far as the word goes; a comma between digits is part of a number, and `=` part of an address.
fn word_length(rest: &str) -> usize {
    let (mut before, mut in_address) = (' ', false);
    for (at, c) in rest.char_indices() {
        in_address |= rest[at..].starts_with("://");
        let digit_follows = || rest[at + c.len_utf8()..].starts_with(|next: char| next.is_ascii_digit());
        let joins = (c == ',' && before.is_ascii_digit() && digit_follows()) || (c == '=' && in_address);
        if !is_part_of_word(c) && !joins {
            return at;
        }
        before = c;
    }
    rest.len()
}

/// What has been found so far.
struct Pattern {
    text: String,
    /// The word before says that a number is no measure but a kind.
    kind: bool,
}

impl Pattern {
    fn put(&mut self, what: &str) {
        self.text.push_str(what);
        self.kind = false;
    }

    /// A run of characters without space.
    fn word(&mut self, word: &str) {
        let bare = word.trim_end_matches(['.', ':', '!', '?']);
        let tail = &word[bare.len()..];
        if let Some((scheme, rest)) = bare.split_once("://") {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            self.parts(scheme);
            self.text.push_str("://");
            self.parts(host.rsplit('@').next().unwrap_or(host));
            if rest.len() > host.len() {
                self.put("<path>");
            }
        } else if is_id(bare) {
            self.put("<id>");
        } else if let Some(length) = path_length(bare) {
            self.put("<path>");
            self.parts(&bare[length..]);
        } else {
            self.parts(bare);
        }
        self.text.push_str(tail);
    }

    /// The letters and digits of a word, run by run, and what is between them.
    fn parts(&mut self, word: &str) {
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let run = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            if run == 0 {
                // The sign of a number belongs to it.
                let sign = first == '-' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) && !self.ends_in_word();
                if !sign {
                    self.text.push(first);
                }
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let part = &rest[..run];
            rest = &rest[run..];
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                rest = rest_of_number(rest);
            }
            self.part(part);
        }
    }

    fn ends_in_word(&self) -> bool {
        self.text.ends_with(|c: char| c.is_alphanumeric() || c == '>')
    }

    fn part(&mut self, part: &str) {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        if digits == 0 {
            self.text.push_str(part);
            self.kind = KINDS.iter().any(|kind| part.eq_ignore_ascii_case(kind));
        } else if digits == part.len() {
            if self.kind && digits <= 5 {
                self.text.push_str(part);
            } else {
                self.text.push_str("<n>");
            }
        } else if is_id(part) {
            self.put("<id>");
        } else if is_hex(part) {
            self.put("<hex>");
        } else if part.len() >= 16 && digits >= 4 {
            self.put("<id>");
        } else {
            let mut in_number = false;
            for c in part.chars() {
                if !c.is_ascii_digit() {
                    self.text.push(c);
                } else if !in_number {
                    self.text.push_str("<n>");
                }
                in_number = c.is_ascii_digit();
            }
            self.kind = false;
        }
    }
}

/// After the first digits of a number: without its decimals, its groups of three, or the other parts of an address.
fn rest_of_number(mut rest: &str) -> &str {
    while let Some(more) = rest.strip_prefix(['.', ',']) {
        let digits = more.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            break;
        }
        rest = &more[digits..];
    }
    rest
}

/// `0x` and hex digits, or eight and more of them with a digit and a letter among them.
fn is_hex(part: &str) -> bool {
    let all = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    part.strip_prefix("0x").is_some_and(all) || (part.len() >= 8 && all(part))
}

/// A UUID, or a ULID, which may have a prefix: `job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5`.
fn is_id(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let uuid = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let ulid = word.rsplit_once('_').map_or(word, |(_, rest)| rest);
    uuid || (ulid.len() == 26
        && ulid.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && ulid.bytes().any(|byte| byte.is_ascii_digit()))
}

/// How far a path goes: up to the line number behind it. It begins at a root, has two separators, or one and an ending.
fn path_length(word: &str) -> Option<usize> {
    let drive = word.len() > 2 && word.as_bytes()[0].is_ascii_alphabetic() && word[1..].starts_with(":\\");
    let from = if drive { 2 } else { 0 };
    let length = word[from..].find(':').map_or(word.len(), |at| at + from);
    let path = &word[..length];
    let separators = path.bytes().filter(|byte| matches!(byte, b'/' | b'\\')).count();
    let at_root =
        path.len() > 1 && (path.starts_with(['/', '~', '\\']) || path.starts_with("./") || path.starts_with("../"));
    let ending = path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    let ending = ending.is_some_and(|ending| ending.starts_with(|c: char| c.is_ascii_alphabetic()));
    (drive || (separators >= 1 && at_root) || separators >= 2 || (separators == 1 && ending)).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_job_to_job_is_replaced() {
        for (error, expected) in [
            ("attempt_timeout passed", "attempt_timeout passed"),
            ("row 17 of 1,000 is wrong", "row <n> of <n> is wrong"),
            ("took 1.5s, at most 30s", "took <n>s, at most <n>s"),
            ("temperature -12.5 is too low", "temperature <n> is too low"),
            ("connection to 10.0.0.12:5432 refused", "connection to <n>:<n> refused"),
            ("worker3 left", "worker<n> left"),
            ("job job_01JQ8ZK3V7N3W5X9Y1A2B3C4D5 is gone", "job <id> is gone"),
            ("no order 01JQ8ZK3V7N3W5X9Y1A2B3C4D5", "no order <id>"),
            ("user 3f2a9c1e-0b7d-4c55-9a3e-0123456789ab not found", "user <id> not found"),
            ("at address 0x7ffee4", "at address <hex>"),
            ("version 9c1f00deadbeef is unknown", "version <hex> is unknown"),
            ("token a8Kd93Lmx02QpZ71vv expired", "token <id> expired"),
            ("cannot open /data/in/17.csv: not found", "cannot open <path>: not found"),
            ("panicked at src/main.rs:12:5:", "panicked at <path>:<n>:<n>:"),
            ("cannot read C:\\temp\\a.txt", "cannot read <path>"),
            ("see ~/notes and ./a", "see <path> and <path>"),
            ("unknown field `colour` in \"shirt 7\"", "unknown field <value> in <value>"),
            ("it can't find 'x' or isn't there", "it can't find <value> or isn't there"),
            ("GET https://u:p@api.example.com/orders/17?x=1 failed", "GET https://api.example.com<path> failed"),
            ("host api.example.com is down", "host api.example.com is down"),
            ("  spaces\n\tand   lines \n", "spaces and lines"),
            ("read/write failed", "read/write failed"),
            ("", ""),
        ] {
            assert_eq!(pattern(error), expected, "{error:?}");
        }
    }

    #[test]
    fn a_number_that_names_the_kind_of_failure_stays() {
        for (error, expected) in [
            ("status 404 after 3 tries", "status 404 after <n> tries"),
            ("status code: 503", "status code: 503"),
            ("HTTP 429", "HTTP 429"),
            ("No such file or directory (os error 2)", "No such file or directory (os error 2)"),
            ("exit code=137", "exit code=137"),
            ("killed by signal 9", "killed by signal 9"),
            ("error 1234567", "error <n>"),
        ] {
            assert_eq!(pattern(error), expected, "{error:?}");
        }
        assert_ne!(fingerprint("status 404"), fingerprint("status 503"));
    }

    #[test]
    fn errors_of_one_kind_have_one_fingerprint_and_others_another() {
        let same = ["order 17: no stock for \"shirt\"", "order 18: no stock for \"hat\""].map(fingerprint);
        assert_eq!(same[0], same[1]);
        assert_eq!(same[0].len(), FINGERPRINT_BYTES);
        assert_ne!(same[0], fingerprint("order 17: no price for \"shirt\""));
    }

    #[test]
    fn text_of_any_kind_is_borne() {
        let long = "ä".repeat(LOOKED_AT);
        for error in [
            &*long,
            "'",
            "\"open",
            "`'\"`",
            "-",
            "0x",
            "://",
            "a://",
            "http://",
            ":\\",
            "x:\\y",
            "1,",
            "é://ü/7",
            "😀7",
            "\0",
        ] {
            let once = pattern(error);
            assert!(once.len() <= 4 * LOOKED_AT, "{error:?}");
            assert_eq!(fingerprint(error).len(), FINGERPRINT_BYTES);
        }
    }
}
