//! The command line: one file per subcommand, in folders by subject. All but `serve`, `run` and `doctor` speak HTTP to
//! a server, as any client would.

mod access;
#[cfg(test)]
mod agreement;
mod author;
mod client;
mod completion;
mod flows;
mod jobs;
mod plugins;
mod queues;
mod run;
mod server;
mod terminal;
mod tls;
mod webhooks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use windlass_executor::confinement;

/// Durable background jobs whose handlers are WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(server::serve::Serve),
    Run(run::Run),
    Enqueue(jobs::enqueue::Enqueue),
    Job(jobs::job::Job),
    Attempt(jobs::attempt::Attempt),
    Search(jobs::search::Search),
    Count(jobs::count::Count),
    Dead(jobs::dead::Dead),
    Bulk(jobs::bulk::Bulk),
    Usage(jobs::usage::Usage),
    Queue(queues::queue::Queue),
    Batch(flows::batch::Batch),
    Flow(flows::flow::Flow),
    Schedule(queues::schedule::Schedule),
    Plugin(plugins::plugin::Plugin),
    Secret(plugins::secret::Secret),
    Key(access::key::Key),
    Namespace(access::namespace::Namespace),
    EnqueueRule(access::rule::EnqueueRule),
    Audit(access::audit::Audit),
    Dev(author::Dev),
    Worker(server::status::Worker),
    Webhook(webhooks::Webhook),
    Status(server::status::Status),
    Stats(server::stats::Stats),
    Pause(server::pause::Pause),
    Resume(server::pause::Resume),
    Top(server::top::Top),
    Doctor(server::doctor::Doctor),
    Completion(completion::Completion),
    /// Started by the server for a search by jq
    #[command(name = "jq-child", hide = true)]
    JqChild,
    /// Started by the server for each component that it compiles
    #[command(name = COMPILE, hide = true)]
    Compile,
    /// Started to find out what confines such processes
    #[command(name = CONFINEMENT, hide = true)]
    Confinement,
}

/// The name of the command that makes this program a compiler and nothing else.
pub const COMPILE: &str = "compile-component";
/// The name of the command that confines itself as those processes do, and reports what it still can do.
pub const CONFINEMENT: &str = "try-confinement";

impl Cli {
    /// Says with what status the process should end: a command that waits for a job ends as the job did.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let done = |result: anyhow::Result<()>| result.map(|()| ExitCode::SUCCESS);
        match self.command {
            Command::Serve(serve) => done(serve.run()),
            Command::Run(run) => run.run(),
            Command::Enqueue(enqueue) => enqueue.run(),
            Command::Job(job) => job.run(),
            Command::Attempt(attempt) => done(attempt.run()),
            Command::Search(search) => done(search.run()),
            Command::Count(count) => done(count.run()),
            Command::Dead(dead) => done(dead.run()),
            Command::Usage(usage) => done(usage.run()),
            Command::Bulk(bulk) => bulk.run(),
            Command::Queue(queue) => done(queue.run()),
            Command::Batch(batch) => done(batch.run()),
            Command::Flow(flow) => done(flow.run()),
            Command::Schedule(schedule) => done(schedule.run()),
            Command::Plugin(plugin) => done(plugin.run()),
            Command::Secret(secret) => done(secret.run()),
            Command::Key(key) => done(key.run()),
            Command::Namespace(namespace) => done(namespace.run()),
            Command::EnqueueRule(rule) => done(rule.run()),
            Command::Audit(audit) => done(audit.run()),
            Command::Dev(dev) => done(dev.run()),
            Command::Worker(worker) => done(worker.run()),
            Command::Webhook(webhook) => done(webhook.run()),
            Command::Status(status) => done(status.run()),
            Command::Stats(stats) => done(stats.run()),
            Command::Pause(pause) => done(pause.run()),
            Command::Resume(resume) => done(resume.run()),
            Command::Top(top) => done(top.run()),
            Command::Doctor(doctor) => doctor.run(),
            Command::Completion(completion) => done(completion.run()),
            Command::JqChild => done(crate::jq::child::run().map_err(Into::into)),
            Command::Confinement => done(terminal::show::print(confinement::report().trim_end())),
            Command::Compile => done(windlass_executor::compile_in_child().map_err(anyhow::Error::msg)),
        }
    }
}

/// Tells people why a command failed: the chain of causes in one line, and no stack trace.
pub fn report(error: &anyhow::Error) {
    terminal::show::note(&format!("error: {error:#}"));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn no_two_arguments_of_a_command_are_in_each_others_way() {
        Cli::command().debug_assert();
    }
}
