//! Answers on the terminal: JSON for programs, tables and lines for people.
//!
//! Much of what is shown was written by jobs: errors, log lines, progress. A terminal obeys escape sequences, so
//! nothing gets there but through [`plain`], which spells them out.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::Value;

/// Prints JSON. A pipe that was closed is no error: the reader has had enough.
pub fn json(value: &Value) -> anyhow::Result<()> {
    write_out(&in_json(&format!("{value:#}")))
}

/// The same JSON, with nothing in it that a terminal would obey: outside of strings it has no such character but the
/// line break, and inside them they may be written in this way.
fn in_json(text: &str) -> Cow<'_, str> {
    spell_out(text, |c| format!("\\u{:04x}", u32::from(c)))
}

/// Prints JSON on one line, for programs that read line by line.
pub fn line(value: &Value) -> anyhow::Result<()> {
    write_out(&in_json(&value.to_string()))
}

/// Prints text for people on standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
    write_out(&plain(text))
}

/// Tells people something beside the answer, on standard error.
pub fn note(text: &str) {
    // Nobody is left to be told that this failed.
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

/// Empties a terminal, to draw it again from the top.
pub fn clear_screen() -> anyhow::Result<()> {
    write_out("\x1b[H\x1b[2J")
}

fn write_out(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Text with everything that a terminal would obey spelled out, such as `\x1b[2J`. Line breaks and tabs stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    spell_out(text, |c| match u32::from(c) {
        code @ ..0x80 => format!("\\x{code:02x}"),
        code => format!("\\u{{{code:x}}}"),
    })
}

/// The same on one line, for a cell of a table or a bar: the first line of several.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let mut lines = text.trim_end().lines();
    let first = lines.next().unwrap_or_default();
    let first = if first.contains('\t') { Cow::Owned(first.replace('\t', " ")) } else { Cow::Borrowed(first) };
    let first = match first {
        Cow::Borrowed(first) => plain(first),
        Cow::Owned(first) => Cow::Owned(plain(&first).into_owned()),
    };
    if lines.next().is_some() { first + " …" } else { first }
}

/// Lines that belong to what stands above them.
pub fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn spell_out(text: &str, spell: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut spelled = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            let _ = spelled.write_str(&spell(c));
        } else {
            spelled.push(c);
        }
    }
    Cow::Owned(spelled)
}

/// Control characters, and those that turn the direction of a line around.
fn is_obeyed(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
}

/// Writes bytes as they are, without a line's end.
pub fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// A column: its title, and where its value is, as `a.b`.
pub type Column = (&'static str, &'static str);

/// A table of a list of objects.
pub fn table(rows: &[Value], columns: &[Column]) -> anyhow::Result<()> {
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| columns.iter().map(|(_, path)| cell(row, path)).collect()).collect();
    let width = |index: usize| {
        let longest = cells.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count()).max();
        longest.unwrap_or(0).max(columns[index].0.len())
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    print(&line(&mut columns.iter().map(|(title, _)| *title)))?;
    for row in &cells {
        print(&line(&mut row.iter().map(String::as_str)))?;
    }
    Ok(())
}

/// Some fields of one object, a line each; those without a value are left out.
pub fn fields(object: &Value, columns: &[Column]) -> anyhow::Result<()> {
    print(field_lines(object, columns).trim_end())
}

/// The same as text.
pub fn field_lines(object: &Value, columns: &[Column]) -> String {
    let width = columns.iter().map(|(title, _)| title.len()).max().unwrap_or(0);
    let lines = columns.iter().map(|(title, path)| (title, cell(object, path))).filter(|(_, value)| !value.is_empty());
    lines.map(|(title, value)| format!("{title:<width$}  {value}\n")).collect()
}

fn cell(row: &Value, path: &str) -> String {
    let keys = path.split('.').filter(|key| !key.is_empty());
    let value = keys.fold(row, |value, key| &value[key]);
    match value {
        Value::Null => String::new(),
        Value::String(text) => one_line(text).into_owned(),
        Value::Array(list) => list.iter().map(|item| cell(item, "")).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        for (text, shown) in [
            ("all is well\n\tindeed", "all is well\n\tindeed"),
            ("\x1b[2Jgone\x07", "\\x1b[2Jgone\\x07"),
            ("\x1b]0;title\x1b\\", "\\x1b]0;title\\x1b\\"),
            ("over\rwritten\x7f", "over\\x0dwritten\\x7f"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
            ("héllo ✓", "héllo ✓"),
        ] {
            assert_eq!(plain(text), shown);
            assert_eq!(plain(&plain(text)), shown, "spelling out twice changes nothing");
        }
    }

    #[test]
    fn a_cell_has_one_line() {
        assert_eq!(one_line("first\nsecond\n"), "first …");
        assert_eq!(one_line("one\ttab\n"), "one tab");
        assert_eq!(one_line(""), "");
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({"a": "\u{9b}2J \u{7f} \u{202e} \x1b é", "b": [1, "x\ny"]});
        let text = format!("{value:#}");
        let safe = in_json(&text);
        assert!(!safe.contains(is_obeyed), "{safe}");
        assert_eq!(serde_json::from_str::<Value>(&safe).expect("JSON"), value);
    }
}
