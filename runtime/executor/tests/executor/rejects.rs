//! What is rejected at upload, and with which message.

use bytes::Bytes;
use windlass_executor::{Config, Executor};

use crate::support::{EXECUTOR, assembled, assert_contains, hostile};

#[track_caller]
fn check(rejected: Result<windlass_executor::Plugin, windlass_executor::Rejected>, code: &str, expected: &[&str]) {
    let rejected = rejected.expect_err("it must be rejected");
    assert_eq!(rejected.code(), code, "{rejected}");
    for expected in expected {
        assert_contains(&rejected.to_string(), expected);
    }
}

#[tokio::test]
async fn bytes_that_are_not_wasm() {
    check(EXECUTOR.compile(Bytes::from_static(b"hello")).await, "NOT_WASM", &["not WebAssembly", "Upload a component"]);
    check(EXECUTOR.compile(Bytes::new()).await, "NOT_WASM", &["empty"]);
}

#[tokio::test]
async fn a_core_module() {
    check(
        EXECUTOR.compile(assembled("core-module")).await,
        "CORE_MODULE",
        &["wasm32-wasip2", "wasm-tools component new"],
    );
}

#[tokio::test]
async fn a_component_that_is_truncated() {
    let whole = hostile("noop");
    for length in [9, whole.len() / 2, whole.len() - 1] {
        check(EXECUTOR.compile(whole.slice(..length)).await, "INVALID_COMPONENT", &["not valid"]);
    }
}

#[tokio::test]
async fn a_component_that_is_too_large() {
    let small =
        Executor::new(Config { max_component_bytes: 100, instances: 4, ..Config::default() }).expect("an executor");
    check(small.compile(hostile("noop")).await, "COMPONENT_TOO_LARGE", &["the limit is 100"]);
}

#[tokio::test]
async fn a_component_without_run() {
    check(
        EXECUTOR.compile(assembled("no-run")).await,
        "MISSING_EXPORT",
        &["does not export `windlass:job/run@0.1.0`", "it exports `go`", "world `handler`"],
    );
}

#[tokio::test]
async fn a_component_for_another_version() {
    check(
        EXECUTOR.compile(assembled("other-version")).await,
        "WRONG_INTERFACE_VERSION",
        &["built for windlass:job@0.9.0", "supports windlass:job@0.1.0"],
    );
}

#[tokio::test]
async fn a_component_whose_run_has_another_type() {
    check(EXECUTOR.compile(assembled("wrong-type")).await, "WRONG_EXPORT_TYPE", &["`windlass:job/run@0.1.0`"]);
}

#[tokio::test]
async fn a_component_that_imports_an_unknown_package() {
    check(
        EXECUTOR.compile(hostile("foreign-import")).await,
        "FOREIGN_IMPORT",
        &["imports `acme:warehouse/stock@1.0.0`", "may import windlass:job and WASI 0.2"],
    );
}
