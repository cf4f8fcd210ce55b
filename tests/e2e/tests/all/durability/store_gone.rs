//! A server whose store is removed, or whose disk is full: what it reports, what it refuses, and that it creates no new
//! store.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use windlass_e2e::{Data, Server, eventually};

#[track_caller]
fn assert_not_ready(server: &Server, why: &str) {
    let ready = server.get("/readyz");
    assert_eq!((ready.status, &ready.body["code"]), (503, &json!("STORE_UNAVAILABLE")), "{ready:?}");
    let words = ready.body["error"].as_str().unwrap_or_default();
    assert!(words.contains(why) && !words.contains("nothing was done"), "{words}");
}

#[track_caller]
fn assert_refused(server: &Server, why: &str) {
    let refused = server.post("/api/v1/enqueue", &json!({"queue": "q"}));
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("STORE_UNAVAILABLE")), "{refused:?}");
    let words = refused.body["error"].as_str().unwrap_or_default();
    assert!(words.contains(why) && words.contains("nothing was done"), "{words}");
}

#[test]
fn a_server_whose_store_was_removed_reports_it_accepts_nothing_and_does_not_restart() {
    let server = Server::start();
    let id = server.enqueue(&json!({"queue": "q"}));
    assert_eq!(server.get("/readyz").status, 200);
    fs::remove_dir_all(server.data().path().join("store")).expect("removes it");
    eventually("it notices without a write", || (server.get("/readyz").status == 503).then_some(()));
    // The server may have looked when only a part of it was gone.
    assert_not_ready(&server, "is not there any more");
    assert_refused(&server, "is not there any more");
    assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).status, 503);
    assert_eq!(server.get("/healthz").status, 200, "the process itself is well");
    let (status, said, data) = server.stop();
    assert!(status.success(), "{status}");
    assert!(said.contains("the store takes no writes") && said.contains("is not there any more"), "{said}");
    assert!(!data.path().join("store").exists(), "it began a new one");

    let refused = Server::try_start(&data, &[]).expect_err("the database is gone");
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.said.contains("the database is not there, though"), "{}", refused.said);
    assert!(refused.said.contains("restore the whole data folder from a backup"), "{}", refused.said);
    assert!(!data.path().join("store").exists(), "the refusal began a new one");
}

#[test]
fn a_server_whose_data_folder_was_removed_does_not_recreate_it() {
    let data = Data::new();
    let server = Server::start_on(&data, &[]);
    server.enqueue(&json!({"queue": "q"}));
    fs::remove_dir_all(data.path()).expect("removes it");
    eventually("it notices", || (server.get("/readyz").status == 503).then_some(()));
    assert_refused(&server, "is not there any more");
    let large = server.post("/api/v1/enqueue", &json!({"queue": "q", "payload": "x".repeat(100_000)}));
    assert_eq!(large.status, 503, "{large:?}");
    drop(server);
    assert!(!data.path().exists());
    // An empty folder is a new store, as `--data` with a new folder is.
    let server = Server::start_on(&data, &[]);
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn missing_commits_are_abandoned_only_by_their_exact_number() {
    let server = Server::start();
    for n in 0..20 {
        server.enqueue(&json!({"queue": "q", "payload": n}));
    }
    let data = server.kill_9();
    let journal = data.path().join("store/0.jnl");
    let file = File::options().write(true).open(&journal).expect("the journal");
    let used = fs::read(&journal).expect("reads").iter().rposition(|byte| *byte != 0).expect("it holds something");
    file.set_len(used as u64 / 2).expect("cuts it");

    let refused = Server::try_start(&data, &[]).expect_err("a part is missing");
    let missing = refused.said.split(" commits are missing").next().and_then(|text| text.rsplit(' ').next());
    let missing: u64 = missing.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{}", refused.said));
    assert!(!refused.said.contains("witness") && !refused.said.contains("accept"), "{}", refused.said);
    let wrong = (missing - 1).to_string();
    Server::try_start(&data, &["--accept-missing-commits", &wrong]).expect_err("another number is refused");
    let server = Server::start_on(&data, &["--accept-missing-commits", &missing.to_string()]);
    assert!(server.said().contains(&format!("{missing} commits are missing")), "{}", server.said());
    assert!(server.said().contains("they are lost"), "{}", server.said());
    let data = server.kill_9();
    Server::start_on(&data, &[]);
}

/// A small file system.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user may not mount one.
    fn mount(at: &Path) -> Option<SmallDisk> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn while_the_disk_is_full_reads_work_and_readiness_reports_that_writes_do_not() {
    let data = Data::new();
    let Some(_disk) = SmallDisk::mount(data.path()) else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let server = Server::start_on(&data, &[]);
    let id = server.enqueue(&json!({"queue": "q", "payload": {"n": 1}}));
    let ballast = data.path().join("ballast");
    let mut file = File::create(&ballast).expect("makes a file");
    // What the database frees in the background is filled as well.
    let mut fill = || while file.write_all(&[1; 4096]).is_ok() {};
    fill();
    let send = || server.post("/api/v1/enqueue", &json!({"queue": "q", "payload": "x".repeat(2_000)}));
    eventually("the journal's last page is full", || (send().status != 201).then_some(()));
    for _ in 0..300 {
        eventually("it is not ready", || {
            fill();
            send();
            (server.get("/readyz").status == 503).then_some(())
        });
        assert_not_ready(&server, "the disk is full");
        assert_refused(&server, "the disk is full");
        let job = server.get(&format!("/api/v1/jobs/{id}"));
        assert_eq!((job.status, &job.body["payload"]), (200, &json!({"n": 1})), "{job:?}");
        assert_eq!(server.get("/api/v1/queues").status, 200);
        let found = server.post("/api/v1/jobs/search", &json!({"queue": "q"}));
        assert_eq!(found.status, 200, "{found:?}");
    }
    drop(file);
    fs::remove_file(&ballast).expect("makes room");
    eventually("it takes jobs again", || (send().status == 201).then_some(()));
    assert_eq!(server.get("/readyz").status, 200);
}
