//! Folders that plugins are granted must be in a root that the server was started with, when granted and whenever
//! opened.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, plugin, windlass};

const HOSTILE: &str = "/api/v1/plugins/hostile";

/// `root/granted/greeting`, and next to the root a folder with a secret.
struct Folders(tempfile::TempDir);

impl Folders {
    fn new() -> Folders {
        let folders = Folders(tempfile::tempdir().expect("a folder"));
        for (folder, file) in [("root/granted", "hello"), ("outside", "secret")] {
            fs::create_dir_all(folders.path(folder)).expect("a folder");
            fs::write(folders.path(folder).join("greeting"), file).expect("a file");
        }
        folders
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().expect("it is there").join(path)
    }

    /// A server with this root, and the guest that reads `/data/greeting`.
    fn server(&self, data: &Data) -> Server {
        let server = Server::start_on(data, &["--grant-root", &self.path("root").display().to_string()]);
        let manifest = "[capabilities]\nread = [\"/data\"]";
        let answer = server.upload_with(HOSTILE, &plugin("hostile"), manifest);
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        server
    }
}

fn grant(server: &Server, path: &Path) -> (u16, String) {
    let grant = json!({"folders": {"/data": {"path": path}}}).to_string();
    let answer = server.put(&format!("{HOSTILE}/grant"), grant.as_bytes());
    (answer.status, answer.body.to_string())
}

fn granted_path(server: &Server) -> Value {
    server.get(&format!("{HOSTILE}/grant")).body["folders"]["/data"]["path"].clone()
}

fn greeting(server: &Server) -> String {
    let payload = json!({"try": "read", "path": "/data/greeting"});
    server.enqueue(&json!({"queue": "hostile", "payload": payload, "max_attempts": 1}))
}

fn command(server: &Server, words: &[&str]) -> Output {
    let mut command = windlass();
    command.args(words).env("WINDLASS_URL", server.url("")).stdout(std::process::Stdio::piped());
    command.output().expect("it runs")
}

#[test]
fn without_a_root_no_folder_is_granted_and_the_error_names_the_flag() {
    let folders = Folders::new();
    let server = Server::start();
    let folder = folders.path("root/granted");
    let (status, told) = grant(&server, &folder);
    assert_eq!(status, 400, "{told}");
    assert!(told.contains(&format!("restart it with --grant-root {}", folder.display())), "{told}");
    assert_eq!(granted_path(&server), Value::Null);
    let words = ["plugin", "grant", "hostile", "--read", &format!("/data={}", folder.display())];
    let output = command(&server, &words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--grant-root"), "{said}");
}

#[test]
fn a_folder_outside_of_the_root_the_data_folder_and_a_link_out_of_the_root_are_refused_at_the_grant() {
    let folders = Folders::new();
    let data = Data::new();
    let server = folders.server(&data);
    symlink(folders.path("outside"), folders.path("root/leads-out")).expect("a link");
    symlink(data.path(), folders.path("root/leads-to-data")).expect("a link");
    symlink(folders.path("root/granted"), folders.path("leads-in")).expect("a link");
    for (path, expected) in [
        (folders.path("outside"), "in none of the folders that this server may grant"),
        (folders.path("root/leads-out"), "in none of the folders that this server may grant"),
        (folders.path("root/../outside"), "in none of the folders that this server may grant"),
        (PathBuf::from("/"), "no plugin may see"),
        (PathBuf::from("/proc/self"), "no plugin may see"),
        (data.path().to_owned(), "no plugin may see"),
        (data.path().join("blobs"), "no plugin may see"),
        (folders.path("root/leads-to-data"), "no plugin may see"),
        (folders.path("root/gone"), "Create it"),
        (folders.path("root/granted/greeting"), "Not a directory"),
    ] {
        let (status, told) = grant(&server, &path);
        assert!(status == 400 && told.contains(expected), "{}: {told}", path.display());
        assert_eq!(granted_path(&server), Value::Null, "{}", path.display());
    }
    // A link into the root is granted as the folder that it leads to.
    assert_eq!(grant(&server, &folders.path("leads-in")).0, 200);
    assert_eq!(granted_path(&server), json!(folders.path("root/granted")));
    assert_eq!(server.wait_for(&greeting(&server), "completed")["result"], "hello");
}

#[test]
fn a_granted_path_that_becomes_a_link_is_not_opened() {
    let folders = Folders::new();
    let server = folders.server(&Data::new());
    assert_eq!(grant(&server, &folders.path("root/granted")).0, 200);
    assert_eq!(server.wait_for(&greeting(&server), "completed")["result"], "hello");
    fs::rename(folders.path("root/granted"), folders.path("root/away")).expect("moved");
    symlink(folders.path("outside"), folders.path("root/granted")).expect("a link");
    let job = server.wait_for(&greeting(&server), "dead");
    let error = job["errors"][0]["error"].as_str().expect("an error");
    assert!(error.contains("root/granted is a symbolic link"), "{error}");
    assert!(!job.to_string().contains("secret"), "{job:#}");
    fs::remove_file(folders.path("root/granted")).expect("removed");
    fs::rename(folders.path("root/away"), folders.path("root/granted")).expect("moved back");
    assert_eq!(server.wait_for(&greeting(&server), "completed")["result"], "hello");
}

#[test]
fn jobs_of_a_plugin_whose_folder_is_no_longer_in_a_root_wait_and_other_grants_can_be_changed() {
    let folders = Folders::new();
    let data = Data::new();
    let server = folders.server(&data);
    assert_eq!(grant(&server, &folders.path("root/granted")).0, 200);
    drop(server.stop());

    let server = Server::start_on(&data, &[]);
    let waits = greeting(&server);
    server.upload("digest", "digest");
    let neighbour = server.enqueue(&json!({"queue": "digest", "payload": {"text": "hello"}}));
    server.wait_for(&neighbour, "completed");
    let job = server.job(&waits);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("pending"), &json!(0)), "{job:#}");
    let shown = server.get(HOSTILE).body;
    let problem = shown["problem"].as_str().expect("a reason");
    assert!(problem.contains("--grant-root") && problem.contains("plugin revoke hostile --read /data="), "{problem}");
    assert_eq!(shown["ready"], false);
    assert!(server.said().contains("plugin hostile is not ready"), "{}", server.said());
    let output = command(&server, &["plugin", "grant", "hostile", "--env", "TZ=UTC"]);
    assert!(output.status.success(), "what is granted already does not stand in the way: {output:?}");

    // Started with the root again, the job runs; with the grant revoked, it runs without the folder.
    drop(server.stop());
    let server = folders.server(&data);
    assert_eq!(server.wait_for(&waits, "completed")["result"], "hello");
    drop(server.stop());
    let server = Server::start_on(&data, &[]);
    let waits = greeting(&server);
    let folder = format!("/data={}", folders.path("root/granted").display());
    assert!(command(&server, &["plugin", "revoke", "hostile", "--read", &folder]).status.success());
    server.wait_for(&waits, "dead");
    assert_eq!(server.get(HOSTILE).body["ready"], true);
}

#[test]
fn a_root_that_overlaps_with_the_data_or_a_key_is_refused_at_the_start() {
    let folders = Folders::new();
    let data = Data::new();
    let above = data.path().parent().expect("a folder above").display().to_string();
    let inside = data.path().join("blobs").display().to_string();
    let key = folders.path("root/key").display().to_string();
    let root = folders.path("root").display().to_string();
    for (flags, expected) in [
        (vec!["--grant-root", &above], "which no plugin may see"),
        (vec!["--grant-root", &inside], "which no plugin may see"),
        (vec!["--grant-root", "/"], "which no plugin may see"),
        (vec!["--grant-root", "/dev/shm"], "which no plugin may see"),
        (vec!["--grant-root", "/no/such/folder"], "Create the folder"),
        (vec!["--secret-key-file", &key, "--grant-root", &root], "which no plugin may see"),
    ] {
        let refused = Server::try_start(&data, &flags).err().unwrap_or_else(|| panic!("{flags:?} was taken"));
        assert!(!refused.status.success() && refused.said.contains(expected), "{flags:?}: {}", refused.said);
    }
    // From the config file, which itself may not be in the root.
    let config = folders.path("root/windlass.toml");
    fs::write(&config, format!("grant_root = [{root:?}]")).expect("a file");
    let flags = ["--config", &config.display().to_string()];
    let refused = Server::try_start(&data, &flags).expect_err("it contains the file with the settings");
    assert!(refused.said.contains("windlass.toml, which no plugin may see"), "{}", refused.said);
    let beside = folders.path("windlass.toml");
    fs::rename(config, &beside).expect("moved");
    let server = Server::start_on(&data, &["--config", &beside.display().to_string()]);
    assert_eq!(grant(&server, &folders.path("root/granted")).0, 200);
}
