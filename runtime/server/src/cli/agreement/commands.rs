//! Commands and flags that documents, messages and help texts name.

use std::collections::BTreeSet;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::Cli;
use crate::cli::agreement::{Problems, commands, documents, files, names, read};

/// Flags in the documents that belong to other programs.
const OF_OTHERS: [(&str, &str); 1] = [("--once", "examples/worker.py and similar workers: run one job, then exit")];

/// Where a command appears, which decides how complete it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    /// In a block of code: it must be complete.
    Block,
    /// In a sentence: arguments may be left out.
    Sentence,
}

/// Splits a line as a shell would, into the words of each command on it.
fn shell(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut begun) = (String::new(), None::<char>, false);
    let mut letters = line.chars().peekable();
    let end = |word: &mut String, begun: &mut bool, commands: &mut Vec<Vec<String>>| {
        if std::mem::take(begun) {
            commands.last_mut().expect("one at least").push(std::mem::take(word));
        }
    };
    while let Some(c) = letters.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('\''), _) => word.push(c),
            (_, '\\') => word.extend(letters.next()),
            (Some(_), _) => word.push(c),
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (None, '#') if !begun => break,
            (None, '|' | ';' | '&' | '<' | '>') => {
                end(&mut word, &mut begun, &mut commands);
                // What follows is another command, or the name of a file.
                commands.push(Vec::new());
            }
            (None, ' ') => end(&mut word, &mut begun, &mut commands),
            (None, _) => {
                word.push(c);
                begun = true;
            }
        }
    }
    end(&mut word, &mut begun, &mut commands);
    commands
}

/// The arguments of our own commands on a line.
fn ours(line: &str) -> Vec<Vec<String>> {
    let assigns = |word: &String| word.split_once('=').is_some_and(|(name, _)| name.to_uppercase() == name);
    let own = |words: Vec<String>| {
        let mut words = words.into_iter().skip_while(assigns);
        let arguments = (words.next().as_deref() == Some("windlass")).then(|| words.collect::<Vec<String>>())?;
        // A line of a manifest or an import in Go may start with our name, and a message may name no particular
        // command.
        let first = arguments.first().map(String::as_str);
        (!matches!(first, Some("=" | "x" | "windlass.dev/go"))).then_some(arguments)
    };
    shell(line).into_iter().filter_map(own).collect()
}

/// The lines of a document's code blocks, and text between backticks elsewhere.
fn code(document: &str) -> Vec<(Context, String)> {
    let mut inside = false;
    let mut found = Vec::new();
    let text = document.replace("\\\n", " ");
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if inside {
            found.push((Context::Block, line.trim_start().trim_start_matches("$ ").to_owned()));
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| (Context::Sentence, span.to_owned())));
        }
    }
    found
}

/// The commands that the program itself names between backticks, in its messages and help texts.
fn in_source(source: &str) -> Vec<(Context, String)> {
    let text: Vec<&str> =
        source.lines().map(|line| line.trim().trim_start_matches("///").trim_start_matches("//!")).collect();
    let text = text.join("\n").replace("\\\n", "").replace("\\\"", "\"");
    let mut found = Vec::new();
    for part in text.split("`windlass ").skip(1) {
        let Some((words, _)) = part.split_once('`') else { continue };
        // A placeholder in a message stands for some word.
        let mut filled = String::new();
        let mut depth = 0;
        for c in words.replace('\n', " ").replace("{{", "(").replace("}}", ")").chars() {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    filled.push('x');
                }
                _ if depth == 0 => filled.push(c),
                _ => {}
            }
        }
        found.push((Context::Sentence, format!("windlass {filled}")));
    }
    found
}

/// What is wrong with a command, if anything.
fn check(context: Context, arguments: &[String]) -> Option<String> {
    let mut open = context == Context::Sentence;
    let words = arguments.iter().filter(|word| {
        let left_out = word.contains('…') || *word == "...";
        open |= left_out;
        !left_out
    });
    let line: Vec<&str> = std::iter::once("windlass").chain(words.map(String::as_str)).collect();
    let error = Cli::try_parse_from(&line).err()?;
    let incomplete = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let fine = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) || (open && incomplete);
    (!fine).then(|| error.render().to_string().trim().to_owned())
}

/// What is wrong with a command in a sentence, if anything.
pub fn wrong(line: &str) -> Option<String> {
    ours(line).iter().find_map(|arguments| check(Context::Sentence, arguments))
}

#[test]
fn every_command_that_is_named_exists() {
    let mut problems = Problems::default();
    let mut tried = 0;
    let sources = files(".rs").into_iter().filter(|file| file.starts_with("runtime/") && !file.contains("/agreement/"));
    let named = documents().into_iter().map(|file| (code(&read(&file)), file));
    for (lines, file) in named.chain(sources.map(|file| (in_source(&read(&file)), file))) {
        for (context, line) in lines {
            for arguments in ours(&line) {
                tried += 1;
                if let Some(why) = check(context, &arguments) {
                    problems.add(format!("{file}: `{line}` is not a command\n  {}", why.replace('\n', "\n  ")));
                }
            }
        }
    }
    assert!(tried > 100, "only {tried} commands were found");
    problems.none();
}

#[test]
fn every_flag_that_a_document_names_exists() {
    let mut known: BTreeSet<String> = OF_OTHERS.iter().map(|(flag, _)| (*flag).to_owned()).collect();
    for (_, command) in commands() {
        known.extend(command.get_arguments().flat_map(names).map(|name| format!("--{name}")));
    }
    let mut problems = Problems::default();
    for document in documents() {
        for (context, span) in code(&read(&document)) {
            let flag = span.split([' ', '=']).next().unwrap_or_default();
            if context == Context::Sentence && flag.starts_with("--") && !known.contains(flag) {
                problems.add(format!(
                    "{document}: no command has `{flag}`; if it is another program's, add it to OF_OTHERS"
                ));
            }
        }
    }
    problems.none();
}

#[test]
fn a_line_is_split_as_a_shell_does() {
    let line = r#"A=1 windlass enqueue q '{"a b": 1}' --tag "x=y z" | windlass bulk retry  # and more"#;
    assert_eq!(ours(line), [vec!["enqueue", "q", r#"{"a b": 1}"#, "--tag", "x=y z"], vec!["bulk", "retry"]]);
    assert_eq!(ours("curl localhost | cat"), Vec::<Vec<String>>::new());
    let wrong = |line: &str| ours(line).iter().any(|words| check(Context::Block, words).is_some());
    assert!(!wrong("windlass job get job_1") && !wrong("windlass --version"));
    assert!(wrong("windlass job") && wrong("windlass serve --no-such-flag") && wrong("windlass nothing"));
}
