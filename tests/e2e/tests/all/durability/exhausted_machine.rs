//! Shortages on the machine while handlers run: a full disk, no file descriptors. No job counts a failure for it, and
//! all continue.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_e2e::{Data, Server, eventually, plugin};

/// A small file system over the data folder, unmounted after the test.
struct SmallDisk(Data);

impl SmallDisk {
    /// `None` where this user may not mount one.
    fn mount(data: &Data, megabytes: u32) -> Option<SmallDisk> {
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(data.path()).output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: this user may not mount a small file system");
        }
        mounted.then(|| SmallDisk(data.clone()))
    }

    /// Takes all free space, including what is freed meanwhile, until it is dropped.
    fn fill(&self) -> Full {
        let (path, full) = (self.0.path().join("ballast"), Arc::new(AtomicBool::new(true)));
        let (ballast, still) = (path.clone(), Arc::clone(&full));
        let filling = thread::spawn(move || {
            let mut file = File::create(ballast).expect("makes a file");
            let block = vec![1u8; 64 * 1024];
            while still.load(Ordering::Relaxed) {
                while file.write_all(&block).is_ok() {}
                while file.write_all(&[1]).is_ok() {}
                thread::sleep(Duration::from_millis(5));
            }
        });
        Full { path, full, filling: Some(filling) }
    }
}

/// A full disk.
struct Full {
    path: PathBuf,
    full: Arc<AtomicBool>,
    filling: Option<JoinHandle<()>>,
}

impl Drop for Full {
    fn drop(&mut self) {
        self.full.store(false, Ordering::Relaxed);
        let ended = self.filling.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))), "it fills the disk and nothing else");
        std::fs::remove_file(&self.path).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// Limits the server to the files that it has open, or restores the limit.
fn limit_files(server: &Server, most: &str) -> bool {
    let pid = server.pid().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={most}:")]).status();
    set.is_ok_and(|status| status.success())
}

fn soft_limit(server: &Server) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("the limit");
    line.split_whitespace().nth(3).expect("a number").to_owned()
}

/// A job of many steps, each with a checkpoint, with a single attempt.
fn steps(queue: &str) -> Value {
    let payload = json!({"generate_mb": 4, "step_kb": 32, "pause_ms": 20});
    json!({"queue": queue, "payload": payload, "max_attempts": 1})
}

fn steps_done(server: &Server, id: &str) -> u64 {
    server.job(id)["checkpoint"]["steps_done"].as_u64().unwrap_or_default()
}

#[track_caller]
fn completed_uncharged(server: &Server, id: &str) -> Value {
    // The store may still be recovering.
    let path = format!("/api/v1/jobs/{id}");
    let job = eventually("it has ended", || {
        let answer = server.get(&path);
        let ended = answer.status == 200 && ["completed", "dead"].iter().any(|state| answer.body["state"] == *state);
        ended.then_some(answer.body)
    });
    assert_eq!(job["state"], "completed", "{:#}", job["errors"]);
    assert_eq!((&job["failures"], &job["crashes"]), (&json!(0), &json!(0)), "{:#}", job["timeline"]);
    assert_eq!(job["errors"], json!([]), "{:#}", job["errors"]);
    job
}

#[test]
fn a_full_disk_fails_no_job_of_a_plugin() {
    let data = Data::new();
    let Some(disk) = SmallDisk::mount(&data, 128) else { return };
    let server = Server::start_on(&data, &[]);
    server.upload("digest", "digest");
    server.upload("hostile", "hostile");
    let running = server.enqueue(&steps("digest"));
    // It ends while the disk is full: its result must wait.
    let sleeper = json!({"queue": "hostile", "payload": {"try": "sleep", "ms": 1_500}, "max_attempts": 1});
    let sleeper = server.enqueue(&sleeper);
    eventually("both run", || {
        (steps_done(&server, &running) > 2 && server.job(&sleeper)["state"] == "active").then_some(())
    });

    let full = disk.fill();
    eventually("the checkpoint waits", || server.said().contains("an attempt waits for the store").then_some(()));
    eventually("the result waits", || server.said().contains("repeated until it can").then_some(()));
    drop(full);

    let job = completed_uncharged(&server, &running);
    assert_eq!(job["attempt"], 1, "it went on where it was: {:#}", job["timeline"]);
    completed_uncharged(&server, &sleeper);
}

#[test]
fn running_out_of_file_descriptors_fails_no_job_of_a_plugin() {
    let server = Server::start();
    server.upload("digest", "digest");
    server.upload("hostile", "hostile");
    // One reads its payload from a file; the other is the first of its plugin, for which memory must be mapped.
    let text = "word ".repeat(40_000);
    let large = json!({"queue": "digest", "payload": {"text": text}, "max_attempts": 1, "delay": "2s"});
    let first = json!({"queue": "hostile", "payload": {"try": "clock"}, "max_attempts": 1, "delay": "2s"});
    let jobs = [server.enqueue(&large), server.enqueue(&first)];
    let before = soft_limit(&server);
    if !limit_files(&server, "3") {
        println!("skipped: there is no prlimit, or it may not");
        return;
    }
    eventually("the payload is waited for", || server.said().contains("an attempt waits for the store").then_some(()));
    eventually("the first one cannot start", || server.said().contains("could not be started").then_some(()));
    assert!(limit_files(&server, &before), "the old limit");
    for id in &jobs {
        completed_uncharged(&server, id);
    }
}

#[test]
fn an_upload_on_a_full_disk_is_refused_and_accepted_once_there_is_space() {
    let data = Data::new();
    let Some(disk) = SmallDisk::mount(&data, 128) else { return };
    let server = Server::start_on(&data, &[]);
    let full = disk.fill();
    let path = "/api/v1/plugins/digest";
    let refused = eventually("it is refused", || {
        let answer = server.put(path, &plugin("digest"));
        (answer.status != 201).then_some(answer)
    });
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("STORE_UNAVAILABLE")), "{refused:?}");
    let words = refused.body["error"].as_str().expect("words");
    assert!(words.contains("No space left on device") && words.contains("othing was done"), "{words}");
    drop(full);
    eventually("it is taken", || (server.put(path, &plugin("digest")).status == 201).then_some(()));
    let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": "hello"}}));
    completed_uncharged(&server, &id);
}
