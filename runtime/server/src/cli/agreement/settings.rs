//! The settings of `windlass serve`: flags, variables and keys of the file, compared with the table in
//! docs/operating.md.

use std::collections::BTreeMap;

use clap::Arg;

use crate::cli::agreement::{Problems, command, is_builtin, read};
use crate::config::Layer;

const HEAD: &str = "| flag | variable | key | default | meaning |";

/// What a row of the table should say.
struct Setting {
    flag: String,
    variable: String,
    key: String,
    default: String,
    help: String,
}

impl Setting {
    fn of(argument: &Arg, keys: &[String]) -> Setting {
        let long = argument.get_long().unwrap_or_default();
        let choices: Vec<String> =
            argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let value = match (argument.get_action().takes_values(), choices.is_empty()) {
            (false, _) => String::new(),
            (true, false) => format!(" {}", choices.join("|")),
            (true, true) => format!(" {}", argument.get_value_names().map_or("VALUE", |names| names[0].as_str())),
        };
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let (meaning, default) = match help.split_once(" [default: ") {
            Some((meaning, default)) => (meaning.to_owned(), default.trim_end_matches(']').to_owned()),
            None if argument.get_action().takes_values() => (help.clone(), "none".to_owned()),
            None => (help.clone(), "false".to_owned()),
        };
        let key = long.replace('-', "_");
        Setting {
            flag: format!("--{long}{value}"),
            variable: argument.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            key: if keys.contains(&key) { key } else { String::new() },
            default,
            help: meaning,
        }
    }

    /// The row that the document should have.
    fn row(&self) -> String {
        let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) };
        // A value as it would be typed, or a description.
        let words = self.default == "none" || self.default.contains(' ');
        let default = if words { self.default.clone() } else { code(&self.default) };
        format!("| {} | {} | {} | {default} | {} |", code(&self.flag), code(&self.variable), code(&self.key), self.help)
    }
}

/// The keys that the file may have, from the parser's error about an unknown one.
fn keys() -> Vec<String> {
    let error = toml::from_str::<Layer>("no-such-key = 1").expect_err("there is no such key").to_string();
    let (_, list) = error.split_once("expected").unwrap_or_else(|| panic!("no list of keys: {error}"));
    let keys: Vec<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(keys.len() > 8, "{error}");
    keys
}

/// The rows of the table, by flag: each without its last cell, and the last cell.
fn rows() -> BTreeMap<String, (String, String)> {
    let document = read("docs/operating.md");
    let table = document.split_once(HEAD).unwrap_or_else(|| panic!("docs/operating.md has no table {HEAD}")).1;
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let inside = line.trim().trim_matches('|').replace("\\|", "\u{0}");
        let cells: Vec<String> = inside.split('|').map(|cell| cell.trim().replace('\u{0}', "\\|")).collect();
        assert_eq!(cells.len(), 5, "not five cells: {line}");
        let flag = cells[0].trim_matches('`').split(' ').next().unwrap_or_default().to_owned();
        (flag, (format!("| {} | ", cells[..4].join(" | ")), cells[4].clone()))
    };
    lines.map(row).collect()
}

#[test]
fn every_setting_of_the_server_is_in_the_table_and_every_row_is_a_setting() {
    let serve = command("serve").expect("the command");
    let keys = keys();
    let settings: Vec<Setting> =
        serve.get_arguments().filter(|one| !is_builtin(one)).map(|one| Setting::of(one, &keys)).collect();
    let mut rows = rows();
    let mut problems = Problems::default();
    for setting in &settings {
        let row = setting.row();
        let flag = setting.flag.split(' ').next().unwrap_or_default();
        match rows.remove(flag) {
            None => problems.add(format!("docs/operating.md, \"Settings\": add this row to the table of settings\n  {row}")),
            Some((cells, _)) if !row.starts_with(&cells) => problems.add(format!(
                "docs/operating.md, \"Settings\": the row of {flag} should start like the second of these (the help of the flag in \
                 config.rs gives the default)\n  {cells}\n  {row}"
            )),
            Some((_, meaning)) if meaning.is_empty() => {
                problems.add(format!("docs/operating.md, \"Settings\": the row of {flag} does not say what it means"));
            }
            Some(_) => {}
        }
    }
    for flag in rows.into_keys() {
        problems.add(format!("docs/operating.md, \"Settings\": `windlass serve` has no {flag}; remove its row"));
    }
    for key in keys.iter().filter(|key| !settings.iter().any(|setting| setting.key == **key)) {
        problems.add(format!("config.rs: the file accepts the key `{key}`, and no flag of `serve` has that name"));
    }
    problems.none();
}
