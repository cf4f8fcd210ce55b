//! `windlass secret`: values that plugins may be granted. They are read from a file or typed in, and never shown.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

/// Store secrets that plugins can be granted
#[derive(Debug, Args)]
pub struct Secret {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Store a secret; its value is typed in or read from standard input
    Set {
        /// The secret's name
        name: String,
        /// Read the value from this file, exactly as it is
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// List the names of all secrets, and which plugins may read them
    List,
    /// Remove a secret
    Remove {
        /// The secret's name
        name: String,
    },
}

const LIST: [Column; 3] = [("NAME", "name"), ("GRANTED TO", "granted_to"), ("UPDATED", "updated_at")];

impl Secret {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        match self.action {
            Action::Set { name, from } => {
                let value = match from {
                    Some(file) => std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?,
                    None => from_input(&name)?,
                };
                print_answer(remote, &remote.put(&format!("/secrets/{}", part(&name)), &value)?)
            }
            Action::List => {
                let all = remote.get("/secrets")?;
                match all["secrets"].as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&all),
                }
            }
            Action::Remove { name } => print_answer(remote, &remote.delete(&format!("/secrets/{}", part(&name)))?),
        }
    }
}

/// A value typed without echo, or all of standard input without the line break at its end, which `echo` and editors add.
fn from_input(name: &str) -> anyhow::Result<Vec<u8>> {
    let mut value = Vec::new();
    if io::stdin().is_terminal() {
        eprint!("the value of {name} (it is not shown): ");
        io::stderr().flush()?;
        let hidden = Hidden::begin();
        io::stdin().lock().read_until(b'\n', &mut value)?;
        drop(hidden);
        eprintln!();
    } else {
        io::stdin().lock().read_to_end(&mut value)?;
    }
    if value.last() == Some(&b'\n') {
        value.pop();
        if value.last() == Some(&b'\r') {
            value.pop();
        }
    }
    if value.is_empty() {
        bail!("no value was given; pipe it in, as `windlass secret set {name} < file`");
    }
    Ok(value)
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
