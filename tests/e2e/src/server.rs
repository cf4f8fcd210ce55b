//! The real binary as a child process.

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::certificates::Certificates;
use crate::client::Client;
use crate::wait::{DEADLINE, eventually};

/// A data folder that outlives the servers on it, and is removed with its last clone.
#[derive(Clone, Debug)]
pub struct Data(Arc<tempfile::TempDir>);

impl Data {
    #[expect(clippy::new_without_default, reason = "it creates a folder on disk")]
    pub fn new() -> Data {
        Data(Arc::new(tempfile::tempdir().expect("a folder for the test")))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A running server. It is killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    client: Client,
    data: Data,
    said: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

/// A server that did not start.
#[derive(Debug)]
pub struct Refused {
    pub status: ExitStatus,
    pub said: String,
}

/// The command line of the binary under test, without the `WINDLASS_…` variables of this process.
pub fn windlass() -> Command {
    let binary = std::env::var_os("WINDLASS_BIN").map_or_else(|| crate::target().join("debug/windlass"), PathBuf::from);
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WINDLASS_") {
            command.env_remove(name);
        }
    }
    // Where servers note their keys for the command, apart from those of the user who runs the tests.
    command.env("XDG_STATE_HOME", state_home());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Where servers and commands of the tests look for each other.
pub fn state_home() -> PathBuf {
    crate::target().join("tmp/state")
}

impl Server {
    pub fn start() -> Server {
        Server::start_on(&Data::new(), &[])
    }

    /// Starts a server on a data folder, with further flags, and waits until it serves.
    #[track_caller]
    pub fn start_on(data: &Data, flags: &[&str]) -> Server {
        Server::try_start(data, flags).unwrap_or_else(|refused| panic!("the server did not start: {refused:#?}"))
    }

    pub fn try_start(data: &Data, flags: &[&str]) -> Result<Server, Refused> {
        let mut command = windlass();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path()).args(flags);
        Server::spawn(command, data)
    }

    /// Starts a server that speaks https with these certificates, with further flags.
    pub fn try_start_tls(data: &Data, certificates: &Certificates, flags: &[&str]) -> Result<Server, Refused> {
        let mut command = windlass();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
        command.args(certificates.flags()).args(flags);
        Server::spawn_with(command, data, |url| certificates.client(url))
    }

    /// Starts a command that should serve, and waits until it prints its address.
    pub fn spawn(command: Command, data: &Data) -> Result<Server, Refused> {
        Server::spawn_with(command, data, Client::new)
    }

    fn spawn_with(mut command: Command, data: &Data, client: impl Fn(String) -> Client) -> Result<Server, Refused> {
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stderr = child.stderr.take().expect("the harness asked for a pipe");
        let (said, address, reader) = listen(BufReader::new(stderr));
        match address.recv_timeout(DEADLINE) {
            Ok(url) => {
                let client = client(url).with_key(first_key(data));
                Ok(Server { child, client, data: data.clone(), said, reader: Some(reader) })
            }
            Err(_) => {
                // Its standard error was closed, so it has ended. If the deadline has passed, it is killed.
                let _ = child.kill();
                let status = child.wait().expect("our own child");
                let _ = reader.join();
                let said = said.lock().expect("the reader does not panic").clone();
                Err(Refused { status, said })
            }
        }
    }

    /// The key of an admin, which the server made at its first start; empty if it was started with another, or needs
    /// none.
    pub fn key(&self) -> String {
        first_key(&self.data).unwrap_or_default()
    }

    /// Lets a command use this server: by its address and its key.
    pub fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("WINDLASS_URL", self.url("")).env("WINDLASS_API_KEY", self.key())
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The server's log so far.
    pub fn said(&self) -> String {
        self.said.lock().expect("the reader does not panic").clone()
    }

    /// Sends the process a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("there is a kill command").success());
    }

    /// Ends the process without warning: no signal handler runs.
    pub fn kill_9(mut self) -> Data {
        self.child.kill().expect("it is running");
        self.child.wait().expect("our own child");
        self.data.clone()
    }

    /// Asks the server to stop and waits until it has.
    #[track_caller]
    pub fn stop(mut self) -> (ExitStatus, String, Data) {
        self.signal("TERM");
        let status = eventually("the server stops", || self.child.try_wait().expect("our own child"));
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        (status, self.said(), self.data.clone())
    }
}

impl Deref for Server {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- the server's log ---\n{}------------------------", self.said());
        }
    }
}

fn first_key(data: &Data) -> Option<String> {
    let text = std::fs::read_to_string(data.path().join("admin.key")).ok()?;
    Some(text.trim().to_owned())
}

type Listening = (Arc<Mutex<String>>, Receiver<String>, JoinHandle<()>);

/// Collects the server's log, and sends the address once it is printed.
fn listen(stderr: impl BufRead + Send + 'static) -> Listening {
    let said = Arc::new(Mutex::new(String::new()));
    let (found, address) = mpsc::channel();
    let all = Arc::clone(&said);
    let reader = thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            if let Some((_, url)) = line.split_once("listening on ") {
                let _ = found.send(url.trim().to_owned());
            }
            let mut all = all.lock().expect("nobody panics with it");
            all.push_str(&line);
            all.push('\n');
        }
    });
    (said, address, reader)
}
