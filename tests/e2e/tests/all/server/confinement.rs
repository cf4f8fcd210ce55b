//! The processes that compile components and run jq filters are confined, where the kernel can do it, and do their
//! work.

use std::fs;

use serde_json::{Value, json};
use windlass_e2e::{Server, eventually, plugin, windlass};

/// What a command prints.
fn printed(arguments: &[&str]) -> String {
    let mut command = windlass();
    command.args(arguments).stdout(std::process::Stdio::piped());
    let output = command.output().expect("it runs");
    String::from_utf8(output.stdout).expect("text")
}

/// Whether the kernel and the processor have seccomp and we a filter for them.
fn has_seccomp() -> bool {
    let known = cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));
    known && fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Seccomp:"))
}

/// The status of a child of the server that was started with this command, as the kernel describes it.
fn status_of_child(server: &Server, command: &str) -> Option<String> {
    let processes = fs::read_dir("/proc").expect("a folder").flatten();
    processes.map(|entry| entry.path()).find_map(|process| {
        let arguments = fs::read_to_string(process.join("cmdline")).ok()?;
        let status = fs::read_to_string(process.join("status")).ok()?;
        let parent = format!("PPid:\t{}\n", server.id());
        (arguments.contains(command) && status.contains(&parent)).then_some(status)
    })
}

#[test]
fn a_child_of_the_server_can_open_no_file_use_no_network_and_start_no_program() {
    let told = printed(&["try-confinement"]);
    let line = |name: &str| told.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{told}"));
    assert_eq!(line("seccomp").starts_with("seccomp yes"), has_seccomp(), "{told}");
    let landlock = line("landlock");
    assert!(landlock.starts_with("landlock yes") || landlock.contains("kernel"), "{told}");

    let checks: Value = serde_json::from_str(&printed(&["doctor", "--output", "json"])).expect("JSON");
    let check = |name: &str| {
        let found = checks["checks"].as_array().and_then(|all| all.iter().find(|check| check["check"] == name));
        found.unwrap_or_else(|| panic!("no {name}: {checks:#}")).clone()
    };
    for name in ["landlock", "seccomp"] {
        let told = line(name).starts_with(&format!("{name} yes"));
        assert_eq!((&check(name)["ok"], &check(name)["optional"]), (&json!(told), &json!(true)));
        assert!(check(name)["message"].as_str().is_some_and(|message| message.contains("jq filters")));
    }
}

#[test]
fn compilers_and_jq_filters_are_confined_and_still_work() {
    let server = Server::start();
    let confined = |command: &str| {
        let status = eventually(command, || {
            status_of_child(&server, command).filter(|status| !has_seccomp() || status.contains("Seccomp:\t2\n"))
        });
        assert!(!has_seccomp() || status.contains("NoNewPrivs:\t1\n"), "{status}");
    };
    std::thread::scope(|scope| {
        // A component that takes long enough to compile for us to look.
        let uploaded = scope.spawn(|| server.put("/api/v1/plugins/slow?queues=slow", &plugin("test-python")));
        confined("compile-component");
        assert_eq!(uploaded.join().expect("no panic").status, 201);
    });
    server.upload("digest", "digest");
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": "hello"}}));
    server.wait_for(&id, "completed");

    let search = |jq: &str| server.post("/api/v1/jobs/search", &json!({"payload_jq": jq}));
    let found = search(".text == \"hello\"");
    assert_eq!(found.body["jobs"][0]["id"], id.as_str(), "{found:?}");
    std::thread::scope(|scope| {
        let endless = scope.spawn(|| search("until(false; .)"));
        confined("jq-child");
        assert_eq!(endless.join().expect("no panic").status, 400, "it was stopped at its limit");
    });
    assert!(!server.said().contains("not fully confined") || !has_seccomp(), "{}", server.said());
}
