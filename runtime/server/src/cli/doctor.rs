//! `windlass doctor`: is everything there to run a server and to build handlers, and if not, what to do.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use serde_json::{Value, json};

use super::client::Remote;
use super::show;

/// Check the server, the data folder, the port and the toolchains, and say what to do
#[derive(Debug, Args)]
pub struct Doctor {
    /// The data folder that a server would use
    #[arg(long, env = "WINDLASS_DATA", value_name = "DIR", default_value = "./windlass-data")]
    data: PathBuf,
    /// The address that a server would listen on
    #[arg(long, env = "WINDLASS_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7070")]
    listen: String,
    #[command(flatten)]
    remote: Remote,
}

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    /// Not being there stops nothing: only those who want it need it.
    optional: bool,
    result: Result<String, String>,
}

impl Doctor {
    /// Ends with 1 when something that every server needs is missing.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let server = self.remote.get("/info");
        let running = server.is_ok();
        let findings = [
            Finding {
                what: "server",
                optional: true,
                result: server
                    .map(|info| format!("version {} answers", info["server_version"]))
                    .map_err(|why| why.to_string()),
            },
            Finding { what: "data folder", optional: false, result: check_folder(&self.data) },
            Finding { what: "port", optional: running, result: check_port(&self.listen) },
            Finding { what: "rust for handlers", optional: true, result: check_rust() },
            tool("python for handlers", "componentize-py", "pip install componentize-py"),
            tool("javascript for handlers", "jco", "npm install -g @bytecodealliance/jco"),
            tool("go for handlers", "tinygo", "see tinygo.org/getting-started"),
        ];
        if self.remote.json() {
            show::json(&json!({ "checks": findings.iter().map(in_json).collect::<Vec<_>>() }))?;
        } else {
            for finding in &findings {
                let (mark, words) = match &finding.result {
                    Ok(words) => ("ok", words),
                    Err(words) if finding.optional => ("--", words),
                    Err(words) => ("!!", words),
                };
                show::print(&format!("{mark}  {:<24} {words}", finding.what))?;
            }
        }
        let fine = findings.iter().all(|finding| finding.optional || finding.result.is_ok());
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn in_json(finding: &Finding) -> Value {
    let (Ok(words) | Err(words)) = &finding.result;
    json!({ "check": finding.what, "ok": finding.result.is_ok(), "optional": finding.optional, "message": words })
}

fn check_folder(folder: &Path) -> Result<String, String> {
    let nearest = folder.ancestors().find(|path| path.exists() || path.as_os_str().is_empty());
    let place = match nearest {
        Some(path) if !path.as_os_str().is_empty() => path,
        _ => Path::new("."),
    };
    // Trying is the only test that knows of read-only mounts and access lists.
    let trial = place.join(format!(".windlass-doctor-{}", std::process::id()));
    let tried = std::fs::write(&trial, b"").and_then(|()| std::fs::remove_file(&trial));
    match tried {
        Ok(()) => Ok(format!("{} can be written", folder.display())),
        Err(why) => Err(format!("{} cannot be written: {why}; choose another with --data", folder.display())),
    }
}

fn check_port(address: &str) -> Result<String, String> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(format!("{address} is free")),
        Err(why) => Err(format!("{address}: {why}; if no server of yours has it, choose another with --listen")),
    }
}

fn check_rust() -> Result<String, String> {
    let list = Command::new("rustc").args(["--print", "target-libdir", "--target", "wasm32-wasip2"]).output();
    let found = list.map_err(|_| "no rustc; install it from rustup.rs".to_owned())?;
    let folder = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    if found.status.success() && Path::new(&folder).exists() {
        Ok("the target wasm32-wasip2 is there".to_owned())
    } else {
        Err("no wasm32-wasip2; `rustup target add wasm32-wasip2` gets it".to_owned())
    }
}

fn tool(what: &'static str, name: &str, get: &str) -> Finding {
    let result = match Command::new(name).arg("--version").output() {
        Ok(_) => Ok(format!("{name} is there")),
        Err(_) => Err(format!("no {name}; to get it: {get}")),
    };
    Finding { what, optional: true, result }
}
