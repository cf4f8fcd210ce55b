//! Every command explains itself, and all that it takes.

use crate::cli::agreement::{Problems, commands, is_builtin};

#[test]
fn no_argument_takes_the_place_of_one_that_all_commands_have() {
    fn walk(words: &str, command: &clap::Command, shared: &[String], problems: &mut Problems) {
        let own = |one: &&clap::Arg| !one.is_global_set() && shared.contains(&one.get_id().to_string());
        for argument in command.get_arguments().filter(own) {
            problems
                .add(format!("windlass {words}: {argument} has the id of a flag of every command; rename its field"));
        }
        let more = command.get_arguments().filter(|one| one.is_global_set()).map(|one| one.get_id().to_string());
        let shared: Vec<String> = shared.iter().cloned().chain(more).collect();
        for below in command.get_subcommands() {
            walk(&format!("{words} {}", below.get_name()), below, &shared, problems);
        }
    }
    let mut problems = Problems::default();
    // Not built yet: clap would have taken the shared one for the own one.
    walk("", &<crate::cli::Cli as clap::CommandFactory>::command(), &[], &mut problems);
    problems.none();
}

#[test]
fn every_command_argument_and_flag_is_explained() {
    let mut problems = Problems::default();
    for (words, command) in commands() {
        if command.get_about().is_none() {
            problems.add(format!("windlass {words}: the command does not say what it does"));
        }
        for argument in command.get_arguments().filter(|one| !is_builtin(one) && !one.is_hide_set()) {
            if argument.get_help().is_none_or(|help| help.to_string().trim().is_empty()) {
                problems.add(format!("windlass {words}: {argument} is not explained; give it a /// comment"));
            }
        }
    }
    problems.none();
}
