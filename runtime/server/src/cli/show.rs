//! Answers on the terminal: JSON for programs, tables and lines for people.

use std::io::{self, Write};

use serde_json::Value;

/// Prints JSON. A pipe that was closed is no error: the reader has had enough.
pub fn json(value: &Value) -> anyhow::Result<()> {
    print(&format!("{value:#}"))
}

pub fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
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
    let width = columns.iter().map(|(title, _)| title.len()).max().unwrap_or(0);
    for (title, path) in columns {
        let value = cell(object, path);
        if !value.is_empty() {
            print(&format!("{title:<width$}  {value}"))?;
        }
    }
    Ok(())
}

fn cell(row: &Value, path: &str) -> String {
    let keys = path.split('.').filter(|key| !key.is_empty());
    let value = keys.fold(row, |value, key| &value[key]);
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(|item| cell(item, "")).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
