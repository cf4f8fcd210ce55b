//! Every command, argument and flag has a help text.

use crate::cli::agreement::{Problems, commands, is_builtin};

#[test]
fn no_argument_has_the_id_of_a_flag_that_all_commands_have() {
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
    // Before clap builds the command, which would merge the two.
    walk("", &<crate::cli::Cli as clap::CommandFactory>::command(), &[], &mut problems);
    problems.none();
}

#[test]
fn every_command_argument_and_flag_is_explained() {
    let mut problems = Problems::default();
    for (words, command) in commands() {
        if command.get_about().is_none() {
            problems.add(format!("windlass {words}: the command has no help text; give it a /// comment"));
        }
        for argument in command.get_arguments().filter(|one| !is_builtin(one) && !one.is_hide_set()) {
            if argument.get_help().is_none_or(|help| help.to_string().trim().is_empty()) {
                problems.add(format!("windlass {words}: {argument} is not explained; give it a /// comment"));
            }
        }
    }
    problems.none();
}
