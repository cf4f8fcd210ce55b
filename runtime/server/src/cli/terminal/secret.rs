//! Secrets that a command is given: typed in without echo, piped in, or read from a file. Never as an argument, because
//! other users of the machine can see those.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};

/// A value typed without echo, or all of standard input without the line break at its end, which `echo` and editors
/// add. `what` names the value, and `command` is the one to pipe it into.
pub fn from_input(what: &str, command: &str) -> anyhow::Result<Vec<u8>> {
    let mut value = Vec::new();
    if io::stdin().is_terminal() {
        eprint!("{what} (it is not shown): ");
        io::stderr().flush()?;
        let hidden = Hidden::begin();
        io::stdin().lock().read_until(b'\n', &mut value)?;
        drop(hidden);
        eprintln!();
    } else {
        io::stdin().lock().read_to_end(&mut value)?;
    }
    let value = without_line_break(value);
    if value.is_empty() {
        bail!("no value was given; pipe it in, as `{command} < file`");
    }
    Ok(value)
}

/// The text in a file without the line break at its end; `-` is standard input.
pub fn text_from(file: &Path, what: &str, command: &str) -> anyhow::Result<String> {
    if file == Path::new("-") {
        return text(from_input(what, command)?);
    }
    let value = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    text(without_line_break(value))
}

/// The same as text.
pub fn text_from_input(what: &str, command: &str) -> anyhow::Result<String> {
    text(from_input(what, command)?)
}

fn text(value: Vec<u8>) -> anyhow::Result<String> {
    // The error of the conversion would contain the value.
    String::from_utf8(value).ok().context("the secret is not text (UTF-8)")
}

fn without_line_break(mut value: Vec<u8>) -> Vec<u8> {
    if value.last() == Some(&b'\n') {
        value.pop();
        if value.last() == Some(&b'\r') {
            value.pop();
        }
    }
    value
}

/// A terminal that does not echo, until this is dropped.
struct Hidden(bool);

impl Hidden {
    fn begin() -> Hidden {
        Hidden(stty("-echo"))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if self.0 {
            stty("echo");
        }
    }
}

fn stty(flag: &str) -> bool {
    std::process::Command::new("stty").arg(flag).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_break_at_the_end_is_not_part_of_a_secret() {
        for (read, expected) in [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("\n", ""), (" a ", " a ")]
        {
            assert_eq!(without_line_break(read.into()), expected.as_bytes(), "{read:?}");
        }
    }
}
