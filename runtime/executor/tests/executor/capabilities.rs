//! Files, environment, network and secrets: nothing without a grant, and with a grant no more than it allows.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_executor::{AttemptEnd, Folder, FolderScope, GrantRoots, Outcome, Permissions, Secret};

use crate::support::{assert_contains, error, neighbour_still_runs, start, trespasser, wording};

async fn tried(order: Value, permissions: &Permissions) -> AttemptEnd {
    let guest = trespasser().await;
    let running = start(&guest, &order.to_string(), |attempt| attempt.permissions = permissions.clone());
    neighbour_still_runs().await;
    running.ended().await
}

async fn gets(order: Value, permissions: &Permissions) -> String {
    match tried(order.clone(), permissions).await.outcome {
        Outcome::Completed { result } => serde_json::from_slice(&result).expect("a text"),
        other => panic!("{order} was not given: {other:?}"),
    }
}

async fn is_refused(order: Value, permissions: &Permissions) {
    let ended = tried(order.clone(), permissions).await;
    assert!(matches!(ended.outcome, Outcome::Failed { .. }), "{order} was given: {:?}", ended.outcome);
}

fn folder(host: &Path, write: bool) -> Permissions {
    let root = host.parent().expect("it is in a folder").canonicalize().expect("it exists");
    let host = root.join(host.file_name().expect("a name"));
    let folder = Folder { host, guest: "/data".to_owned(), write };
    let scope = FolderScope::Roots(Arc::new(GrantRoots::new(&[root], &[]).expect("a good root")));
    Permissions { folders: vec![folder], scope, ..Permissions::default() }
}

/// A granted folder with a file in it, and a file outside it.
fn fixture() -> tempfile::TempDir {
    let fixture = tempfile::tempdir().expect("a folder");
    fs::create_dir(fixture.path().join("granted")).expect("a folder");
    fs::write(fixture.path().join("granted/inside.txt"), "inside").expect("a file");
    fs::write(fixture.path().join("outside.txt"), "outside").expect("a file");
    fixture
}

#[tokio::test]
async fn without_a_grant_there_are_no_files_no_environment_and_no_network() {
    let nothing = Permissions::default();
    for order in [
        json!({"try": "read", "path": "/etc/hostname"}),
        json!({"try": "list", "path": "/"}),
        json!({"try": "list", "path": "."}),
        json!({"try": "environment", "name": "PATH"}),
        json!({"try": "connect", "to": "127.0.0.1:7070"}),
        json!({"try": "connect", "to": "[::1]:7070"}),
        json!({"try": "connect", "to": "localhost:7070"}),
        json!({"try": "send", "to": "127.0.0.1:53"}),
        json!({"try": "resolve", "name": "localhost"}),
    ] {
        is_refused(order, &nothing).await;
    }
    assert_eq!(gets(json!({"try": "whole_environment"}), &nothing).await, "");
}

#[tokio::test]
async fn a_granted_folder_is_read_and_written_as_granted() {
    let fixture = fixture();
    let granted = fixture.path().join("granted");
    let read = folder(&granted, false);
    assert_eq!(gets(json!({"try": "list", "path": "/data"}), &read).await, "inside.txt");
    assert_eq!(gets(json!({"try": "read", "path": "/data/inside.txt"}), &read).await, "inside");
    for order in [
        json!({"try": "write", "path": "/data/new.txt", "text": "x"}),
        json!({"try": "write", "path": "/data/inside.txt", "text": "x"}),
        json!({"try": "remove", "path": "/data/inside.txt"}),
        json!({"try": "rename", "from": "/data/inside.txt", "to": "/data/moved.txt"}),
    ] {
        is_refused(order, &read).await;
    }
    assert_eq!(fs::read_to_string(granted.join("inside.txt")).expect("still there"), "inside");

    let write = folder(&granted, true);
    gets(json!({"try": "write", "path": "/data/new.txt", "text": "new"}), &write).await;
    assert_eq!(fs::read_to_string(granted.join("new.txt")).expect("written"), "new");
}

#[tokio::test]
async fn no_path_and_no_link_leads_out_of_a_granted_folder() {
    let fixture = fixture();
    let granted = fixture.path().join("granted");
    symlink(fixture.path().join("outside.txt"), granted.join("absolute-link")).expect("a link");
    symlink("../outside.txt", granted.join("relative-link")).expect("a link");
    symlink("..", granted.join("up")).expect("a link");
    symlink("inside.txt", granted.join("good-link")).expect("a link");
    let permissions = folder(&granted, true);
    for path in [
        "/data/../outside.txt",
        "/data/./../outside.txt",
        "/data/absolute-link",
        "/data/relative-link",
        "/data/up/outside.txt",
        "/data/up/granted/../outside.txt",
        "/outside.txt",
        "/etc/hostname",
    ] {
        is_refused(json!({"try": "read", "path": path}), &permissions).await;
        is_refused(json!({"try": "write", "path": path, "text": "x"}), &permissions).await;
    }
    is_refused(json!({"try": "rename", "from": "/data/inside.txt", "to": "/data/../stolen.txt"}), &permissions).await;
    assert_eq!(gets(json!({"try": "read", "path": "/data/good-link"}), &permissions).await, "inside");
    assert_eq!(fs::read_to_string(fixture.path().join("outside.txt")).expect("still there"), "outside");
}

#[tokio::test]
async fn a_granted_folder_that_does_not_exist_is_named() {
    let fixture = fixture();
    let ended = tried(json!({"try": "nothing"}), &folder(&fixture.path().join("gone"), false)).await;
    assert_contains(error(&ended), "granted to this plugin as `/data` cannot be opened");
    assert_contains(error(&ended), "Create it, or change the grant");
}

#[tokio::test]
async fn a_granted_folder_that_became_a_link_or_is_outside_the_roots_is_not_opened() {
    let fixture = fixture();
    let granted = fixture.path().join("granted");
    let read = folder(&granted, false);
    let order = json!({"try": "read", "path": "/data/inside.txt"});
    assert_eq!(gets(order.clone(), &read).await, "inside");

    let elsewhere = self::fixture();
    fs::rename(&granted, fixture.path().join("away")).expect("moved");
    symlink(elsewhere.path().join("granted"), &granted).expect("a link");
    let ended = tried(order.clone(), &read).await;
    assert_contains(error(&ended), "granted to this plugin as `/data` cannot be opened");
    assert_contains(error(&ended), "granted is a symbolic link");

    let outside = Permissions { scope: folder(&elsewhere.path().join("granted"), false).scope, ..read.clone() };
    assert_contains(
        error(&tried(order.clone(), &outside).await),
        "it is in none of the folders that this server may grant",
    );
    let nowhere = Permissions { scope: FolderScope::default(), ..read };
    assert_contains(error(&tried(order, &nowhere).await), "the server was started without --grant-root");
}

#[tokio::test]
async fn the_environment_is_what_was_granted_and_not_the_servers() {
    let permissions =
        Permissions { environment: [("TZ".to_owned(), "UTC".to_owned())].into(), ..Permissions::default() };
    assert_eq!(gets(json!({"try": "environment", "name": "TZ"}), &permissions).await, "UTC");
    assert_eq!(gets(json!({"try": "whole_environment"}), &permissions).await, "TZ");
}

#[tokio::test]
async fn a_plugin_reads_only_the_secrets_that_it_is_granted() {
    let secrets = [("mine".to_owned(), Some(Secret::new("s3cret"))), ("unset".to_owned(), None)];
    let permissions = Permissions { secrets: secrets.into(), wording: wording(), ..Permissions::default() };
    assert_eq!(gets(json!({"try": "secret", "name": "mine"}), &permissions).await, "s3cret");
    let ended = tried(json!({"try": "secret", "name": "of-another-plugin"}), &permissions).await;
    assert_contains(error(&ended), "to allow it: Secret(\"of-another-plugin\")");
    let ended = tried(json!({"try": "secret", "name": "unset"}), &permissions).await;
    assert_contains(error(&ended), "it is not set");
}

#[tokio::test]
async fn a_failure_lists_what_was_asked_for_and_not_granted() {
    let how = "reading the folder `/data` is not granted; to allow it, put `folders…` into the plugin's grant";
    let permissions = Permissions { denied: vec![how.to_owned()], ..Permissions::default() };
    let ended = tried(json!({"try": "read", "path": "/data/inside.txt"}), &permissions).await;
    assert_contains(error(&ended), "refused: ");
    assert_contains(error(&ended), how);
    let ended = tried(json!({"try": "nothing"}), &permissions).await;
    assert!(
        matches!(ended.outcome, Outcome::Completed { .. }),
        "a denial does not matter to an attempt that does not need the capability"
    );
}

#[tokio::test]
async fn jobs_are_spawned_into_the_plugins_own_queues_only_unless_more_is_granted() {
    let order = json!({"try": "wait", "children": 2, "then": "wait"});
    let nothing = Permissions { queues: vec!["tests".to_owned()], wording: wording(), ..Permissions::default() };
    let ended = tried(order.clone(), &nothing).await;
    assert_contains(error(&ended), "to allow it: Spawn(\"more\")");
    assert!(ended.uncommitted.children.is_empty());
    let own = Permissions { queues: vec!["tests".to_owned(), "more".to_owned()], ..nothing.clone() };
    let granted = Permissions { spawn: vec!["mo*".parse().expect("a pattern")], ..nothing };
    for allowed in [own, granted] {
        let ended = tried(order.clone(), &allowed).await;
        assert!(matches!(ended.outcome, Outcome::Waiting(_)), "{:?}", ended.outcome);
        assert_eq!(ended.uncommitted.children.len(), 2);
    }
}
