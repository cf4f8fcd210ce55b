//! `windlass doctor`: checks whether everything needed to run a server and build handlers is present, and says what to
//! do if not.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use serde_json::{Value, json};
use windlass_executor::confinement::{Confinement, Protection, of_children};

use crate::app::confinement;
use crate::cli::author::tools;
use crate::cli::client::Remote;
use crate::cli::terminal::show;

/// Check the server, the data folder, the port and the build tools, and report what is missing
#[derive(Debug, Args)]
pub struct Doctor {
    /// The data folder to check
    #[arg(long, env = "WINDLASS_DATA", value_name = "DIR", default_value = "./windlass-data")]
    data: PathBuf,
    /// The address to check
    #[arg(long, env = "WINDLASS_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7070")]
    listen: String,
    #[command(flatten)]
    remote: Remote,
}

/// One thing that was checked.
struct Finding {
    what: &'static str,
    /// Only needed by some users, so its absence is not an error.
    optional: bool,
    result: Result<String, String>,
}

impl Doctor {
    /// The exit status is 1 if something that every server needs is missing.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let server = self.remote.get("/info");
        let running = server.is_ok();
        let (landlock, seccomp) = check_confinement();
        let findings = [
            Finding {
                what: "server",
                optional: true,
                result: server
                    .map(|info| format!("version {} answers", info["server_version"].as_str().unwrap_or("?")))
                    .map_err(|why| why.to_string()),
            },
            Finding { what: "data folder", optional: false, result: check_folder(&self.data) },
            Finding { what: "port", optional: running, result: check_port(&self.listen) },
            Finding { what: "landlock", optional: true, result: landlock },
            Finding { what: "seccomp", optional: true, result: seccomp },
            language("handlers in rust", check_rust()),
            language("handlers in python", check_python("python-", "componentize-py")),
            language("handlers in js and ts", check_node()),
            language("handlers in go", check_go()),
            language("handlers in c", check_python("zig-", "zig")),
        ];
        if self.remote.json() {
            show::json(&json!({ "checks": findings.iter().map(in_json).collect::<Vec<_>>() }))?;
        } else {
            for finding in &findings {
                let (mark, message) = match &finding.result {
                    Ok(message) => ("ok", message),
                    Err(message) if finding.optional => ("--", message),
                    Err(message) => ("!!", message),
                };
                show::print(&format!("{mark}  {:<24} {message}", finding.what))?;
            }
        }
        let fine = findings.iter().all(|finding| finding.optional || finding.result.is_ok());
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn in_json(finding: &Finding) -> Value {
    let (Ok(message) | Err(message)) = &finding.result;
    json!({ "check": finding.what, "ok": finding.result.is_ok(), "optional": finding.optional, "message": message })
}

fn check_folder(folder: &Path) -> Result<String, String> {
    let nearest = folder.ancestors().find(|path| path.exists() || path.as_os_str().is_empty());
    let place = match nearest {
        Some(path) if !path.as_os_str().is_empty() => path,
        _ => Path::new("."),
    };
    // Only an attempt to write detects read-only mounts and access lists.
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
        Err(why) => Err(format!(
            "{address}: {why}; if it is not your own server that uses it, choose another address with --listen"
        )),
    }
}

/// What confines the processes that compile components and run jq filters. They run without it, too.
fn check_confinement() -> (Result<String, String>, Result<String, String>) {
    let has = |protection: Protection| match protection {
        Ok(detail) => Ok(format!("compilers and jq filters are confined: {detail}")),
        Err(why) => Err(format!("compilers and jq filters run without it: {why}")),
    };
    match of_children(&confinement()) {
        Ok(Confinement { landlock, seccomp }) => (has(landlock), has(seccomp)),
        Err(why) => (Err(why.clone()), Err(why)),
    }
}

fn check_rust() -> Result<String, String> {
    let list = Command::new("rustc").args(["--print", "target-libdir", "--target", "wasm32-wasip2"]).output();
    let found = list.map_err(|_| "no rustc; install it from rustup.rs".to_owned())?;
    let folder = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    if found.status.success() && Path::new(&folder).exists() {
        Ok("the target wasm32-wasip2 is installed".to_owned())
    } else {
        Err("no target wasm32-wasip2; run `rustup target add wasm32-wasip2`".to_owned())
    }
}

/// Optional, because only authors of handlers need a language, and most of them one.
fn language(what: &'static str, result: Result<String, String>) -> Finding {
    Finding { what, optional: true, result }
}

const INSTALLS: &str = "the first `windlass plugin build` installs";

/// Tools that are installed as Python packages into our own folder.
fn check_python(folder: &str, tool: &str) -> Result<String, String> {
    if tools::are_installed(folder) {
        return Ok(format!("{tool} is installed"));
    }
    let python = tools::python(&format!("{tool} comes with it")).map_err(|why| why.to_string())?;
    Ok(format!("{} is installed; {INSTALLS} {tool}", python.display()))
}

fn check_node() -> Result<String, String> {
    let version = tools::ask(Command::new("node").arg("--version")).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(20..) if tools::are_installed("js-") => Ok(format!("node {version} and componentize-qjs are installed")),
        Some(20..) if tools::found("npm").is_some() => {
            Ok(format!("node {version} is installed; {INSTALLS} componentize-qjs"))
        }
        Some(20..) => Err("no npm; install it beside node, such as `sudo apt-get install npm`".to_owned()),
        _ => Err("no Node.js 20 or newer; get it from https://nodejs.org".to_owned()),
    }
}

fn check_go() -> Result<String, String> {
    match tools::ask(Command::new("go").args(["env", "GOVERSION"])) {
        Some(version) => {
            Ok(format!("{version} is installed; if it is older than 1.24, a newer one is installed for builds"))
        }
        None => check_python("go-", "go"),
    }
}
