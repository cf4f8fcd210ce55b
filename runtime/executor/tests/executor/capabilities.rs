//! Files, environment, network and secrets: nothing without a grant, and with one no more than it says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_executor::{Ended, Folder, FolderScope, GrantRoots, Outcome, Permissions, Secret};

use crate::support::{assert_says, error, neighbour_is_well, start, trespasser};

async fn tried(order: Value, permissions: &Permissions) -> Ended {
    let guest = trespasser().await;
    let running = start(&guest, &order.to_string(), |attempt| attempt.permissions = permissions.clone());
    neighbour_is_well().await;
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
    let root = host.parent().expect("it lies in a folder").canonicalize().expect("it is there");
    let host = root.join(host.file_name().expect("a name"));
    let folder = Folder { host, guest: "/data".to_owned(), write };
    let scope = FolderScope::UniqueScope(Arc::new(GrantRoots::new(&[root], &[]).expect("a good root")));
    Permissions { folders: vec![folder], scope, ..Permissions::default() }
}

/// A granted folder with a file in it, and a secret beside it.
fn house() -> tempfile::TempDir {
    let house = tempfile::tempdir().expect("a folder");
    fs::create_dir(house.path().join("granted")).expect("a folder");
    fs::write(house.path().join("granted/inside.txt"), "inside").expect("a file");
    fs::write(house.path().join("outside.txt"), "outside").expect("a file");
    house
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
    let house = house();
    let granted = house.path().join("granted");
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
    let house = house();
    let granted = house.path().join("granted");
    symlink(house.path().join("outside.txt"), granted.join("absolute-link")).expect("a link");
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
    assert_eq!(fs::read_to_string(house.path().join("outside.txt")).expect("still there"), "outside");
}

#[tokio::test]
async fn a_granted_folder_that_is_not_there_is_named() {
    let house = house();
    let ended = tried(json!({"try": "nothing"}), &folder(&house.path().join("gone"), false)).await;
    assert_says(error(&ended), "granted to this plugin as `/data` cannot be opened");
    assert_says(error(&ended), "Create it, or change the grant");
}

#[tokio::test]
async fn a_granted_folder_that_became_a_link_or_lies_outside_of_the_roots_is_not_opened() {
    let house = house();
    let granted = house.path().join("granted");
    let read = folder(&granted, false);
    let order = json!({"try": "read", "path": "/data/inside.txt"});
    assert_eq!(gets(order.clone(), &read).await, "inside");

    let elsewhere = self::house();
    fs::rename(&granted, house.path().join("away")).expect("moved");
    symlink(elsewhere.path().join("granted"), &granted).expect("a link");
    let ended = tried(order.clone(), &read).await;
    assert_says(error(&ended), "granted to this plugin as `/data` cannot be opened");
    assert_says(error(&ended), "granted is a symbolic link");

    let outside = Permissions { scope: folder(&elsewhere.path().join("granted"), false).scope, ..read.clone() };
    assert_says(
        error(&tried(order.clone(), &outside).await),
        "it is in none of the folders that this server may grant",
    );
    let nowhere = Permissions { scope: FolderScope::default(), ..read };
    assert_says(error(&tried(order, &nowhere).await), "the server was started without --grant-root");
}

#[tokio::test]
async fn the_environment_is_what_was_granted_and_not_the_servers() {
    let permissions =
        Permissions { environment: [("TZ".to_owned(), "UTC".to_owned())].into(), ..Permissions::default() };
    assert_eq!(gets(json!({"try": "environment", "name": "TZ"}), &permissions).await, "UTC");
    assert_eq!(gets(json!({"try": "whole_environment"}), &permissions).await, "TZ");
}

#[tokio::test]
async fn a_plugin_reads_its_own_secrets_and_nobody_elses() {
    let secrets = [("mine".to_owned(), Some(Secret::new("s3cret"))), ("unset".to_owned(), None)];
    let grant_command = "windlass plugin grant mailer".to_owned();
    let permissions = Permissions { secrets: secrets.into(), grant_command, ..Permissions::default() };
    assert_eq!(gets(json!({"try": "secret", "name": "mine"}), &permissions).await, "s3cret");
    let ended = tried(json!({"try": "secret", "name": "of-another-plugin"}), &permissions).await;
    assert_says(error(&ended), "windlass plugin grant mailer --secret of-another-plugin");
    let ended = tried(json!({"try": "secret", "name": "unset"}), &permissions).await;
    assert_says(error(&ended), "it is not set");
}

#[tokio::test]
async fn a_failure_says_what_was_asked_for_and_not_granted() {
    let how = "reading the folder `/data` is not granted; to allow it, put `folders…` into the plugin's grant";
    let permissions = Permissions { denied: vec![how.to_owned()], ..Permissions::default() };
    let ended = tried(json!({"try": "read", "path": "/data/inside.txt"}), &permissions).await;
    assert_says(error(&ended), "refused: ");
    assert_says(error(&ended), how);
    let ended = tried(json!({"try": "nothing"}), &permissions).await;
    assert!(matches!(ended.outcome, Outcome::Completed { .. }), "what it does not use it does not miss");
}

#[tokio::test]
async fn jobs_are_spawned_into_the_plugins_own_queues_only_unless_more_is_granted() {
    let order = json!({"try": "wait", "children": 2, "then": "wait"});
    let grant_command = "windlass plugin grant mailer".to_owned();
    let nothing = Permissions { queues: vec!["tests".to_owned()], grant_command, ..Permissions::default() };
    let ended = tried(order.clone(), &nothing).await;
    assert_says(error(&ended), "windlass plugin grant mailer --spawn more");
    assert!(ended.uncommitted.children.is_empty());
    let own = Permissions { queues: vec!["tests".to_owned(), "more".to_owned()], ..nothing.clone() };
    let granted = Permissions { spawn: vec!["mo*".parse().expect("a pattern")], ..nothing };
    for allowed in [own, granted] {
        let ended = tried(order.clone(), &allowed).await;
        assert!(matches!(ended.outcome, Outcome::Waiting(_)), "{:?}", ended.outcome);
        assert_eq!(ended.uncommitted.children.len(), 2);
    }
}
