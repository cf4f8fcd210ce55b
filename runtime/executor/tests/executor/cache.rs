//! Compiled code on disk: used when it verifies, compiled again when it does not.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use windlass_executor::{CacheConfig, Config, Executor, attach_sources};

use crate::support::{assert_contains, hostile};

fn executor(folder: &Path) -> Executor {
    executor_with_key(folder, "key")
}

fn executor_with_key(folder: &Path, key: &str) -> Executor {
    let cache = CacheConfig { folder: folder.join("cache"), key_file: folder.join(key) };
    Executor::new(Config { instances: 4, cache: Some(cache), ..Config::default() }).expect("an executor")
}

fn only_file(folder: &Path) -> PathBuf {
    let files: Vec<_> =
        fs::read_dir(folder.join("cache")).expect("a folder").map(|file| file.expect("a file").path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

async fn from_cache(executor: &Executor) -> bool {
    executor.compile(hostile("noop")).await.expect("a good component").from_cache()
}

#[tokio::test]
async fn a_restart_does_not_compile_again() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(!from_cache(&executor(folder.path())).await);
    assert!(from_cache(&executor(folder.path())).await);
}

#[tokio::test]
async fn the_same_code_with_other_sources_is_another_version_and_not_compiled_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let executor = executor(folder.path());
    let runtime = hostile("noop");
    let mut digests = HashSet::new();
    for (sources, cached) in [("one", false), ("two", true), ("one", true)] {
        let component = attach_sources(&runtime, sources).into();
        let plugin = executor.compile(component).await.expect("a good component");
        assert_eq!(plugin.from_cache(), cached, "{sources}");
        digests.insert(plugin.digest().to_owned());
    }
    assert_eq!(digests.len(), 2);
    assert!(from_cache(&executor).await, "without sources it is not compiled either");
    only_file(folder.path());
}

#[tokio::test]
async fn a_tampered_file_is_compiled_again_and_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    from_cache(&executor(folder.path())).await;
    let file = only_file(folder.path());
    let good = fs::read(&file).expect("a file");
    // The authentication code, the first byte of the payload, the last one, and truncated files.
    let mut bad: Vec<Vec<u8>> = [0, 32, good.len() - 1].map(|at| flipped(&good, at)).to_vec();
    bad.extend([good[..good.len() / 2].to_vec(), good[..10].to_vec(), Vec::new()]);
    for bytes in bad {
        fs::write(&file, bytes).expect("a file");
        assert!(!from_cache(&executor(folder.path())).await);
        assert!(from_cache(&executor(folder.path())).await, "it was replaced");
    }
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

#[tokio::test]
async fn code_that_was_stored_under_another_key_is_not_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    from_cache(&executor(folder.path())).await;
    assert!(!from_cache(&executor_with_key(folder.path(), "another")).await);
}

#[tokio::test]
async fn code_of_another_component_is_not_loaded_under_this_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let executor = executor(folder.path());
    executor.compile(hostile("trap")).await.expect("a good component");
    let other = only_file(folder.path());
    let code = fs::read(&other).expect("a file");
    fs::remove_file(&other).expect("a file");
    from_cache(&executor).await;
    fs::write(only_file(folder.path()), code).expect("a file");
    assert!(!from_cache(&executor).await);
}

#[tokio::test]
async fn a_key_inside_the_folder_it_protects_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = CacheConfig { folder: folder.path().to_owned(), key_file: folder.path().join("key") };
    let error = Executor::new(Config { instances: 4, cache: Some(cache), ..Config::default() }).err().expect("refused");
    assert_contains(&error.to_string(), "keep it outside");
}
