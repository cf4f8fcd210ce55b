//! Components that are hard on the compiler, and other work at the same time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use windlass_executor::{CacheConfig, Config, Executor, Outcome};

use crate::support::{EXECUTOR, assert_contains, built, hostile, neighbour_still_runs, start_on};

fn leb128(mut value: usize, out: &mut Vec<u8>) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(byte);
        }
        out.push(byte | 0x80);
    }
}

fn section(id: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(id);
    leb128(content.len(), out);
    out.extend_from_slice(content);
}

/// A component whose only module has many functions, each with much to compile.
fn slow_to_compile(functions: usize) -> Bytes {
    // x = (x * 77) ^ load(x), over and over.
    let step = [0x20, 0, 0x41, 0xcd, 0, 0x6c, 0x20, 0, 0x28, 2, 0, 0x73, 0x21, 0];
    let mut body = vec![0];
    body.extend(step.repeat(2_000));
    body.push(0x0b);
    let mut declared = Vec::new();
    leb128(functions, &mut declared);
    let mut code = declared.clone();
    declared.extend(vec![0; functions]);
    for _ in 0..functions {
        leb128(body.len(), &mut code);
        code.extend_from_slice(&body);
    }
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    section(1, &[1, 0x60, 1, 0x7f, 0], &mut module);
    section(3, &declared, &mut module);
    section(5, &[1, 0, 1], &mut module);
    section(10, &code, &mut module);
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    section(1, &module, &mut component);
    component.into()
}

#[tokio::test]
async fn a_component_that_takes_too_long_to_compile_is_abandoned_and_delays_no_other() {
    let limit = Duration::from_secs(2);
    let executor =
        Executor::new(Config { instances: 4, compile_time: limit, ..Config::default() }).expect("an executor");
    let slow = tokio::spawn({
        let executor = executor.clone();
        async move { executor.compile(slow_to_compile(600)).await }
    });
    neighbour_still_runs().await;
    let rejected = slow.await.expect("no panic").expect_err("it takes minutes");
    assert_eq!(rejected.code(), "COMPILE_TOO_SLOW", "{rejected}");
    // It still occupies a thread of the lowest priority. The next one does not wait for it.
    executor.compile(hostile("noop")).await.expect("a good component, compiled at the same time");
}

/// Not a test: what the tests below start as their compiler.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    if std::env::var_os("WINDLASS_COMPILE_OUTPUT").is_some() {
        windlass_executor::compile_in_child().expect("the child did its work");
    }
}

/// An executor that compiles in child processes.
pub fn compiling_in_processes(change: impl FnOnce(&mut Config)) -> Executor {
    let program = std::env::current_exe().expect("this program");
    let arguments = ["compiling::child", "--exact", "--ignored"].map(Into::into);
    let compiler = std::iter::once(program.into_os_string()).chain(arguments).collect();
    let mut config = Config { instances: 4, compiler: Some(compiler), ..Config::default() };
    change(&mut config);
    Executor::new(config).expect("an executor")
}

/// The number of child processes that still run.
fn children() -> usize {
    let own = std::process::id().to_string();
    let parent = |status: String| status.lines().find_map(|line| line.strip_prefix("PPid:\t").map(str::to_owned));
    let processes = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    let parents = processes.filter_map(|process| std::fs::read_to_string(process.path().join("status")).ok());
    parents.filter_map(parent).filter(|parent| *parent == own).count()
}

#[tokio::test]
async fn a_compiler_in_a_child_process_returns_the_same_code_and_the_same_errors() {
    let executor = compiling_in_processes(|_| {});
    let noop = executor.compile(hostile("noop")).await.expect("a good component");
    let ended = start_on(&executor, &noop, "{}", Default::default(), |_| {}).ended().await;
    assert_eq!(ended.outcome, Outcome::Completed { result: Bytes::from_static(b"null") });
    let whole = hostile("noop");
    let (here, there) = (EXECUTOR.compile(whole.slice(..99)).await, executor.compile(whole.slice(..99)).await);
    assert_eq!(here.expect_err("cut off"), there.expect_err("cut off"));
}

#[tokio::test]
async fn a_compiler_in_a_child_process_is_killed_at_its_time_and_memory_limits() {
    let slow = compiling_in_processes(|config| config.compile_time = Duration::from_millis(1_500));
    let compiling = tokio::spawn(async move { slow.compile(slow_to_compile(600)).await });
    neighbour_still_runs().await;
    assert_eq!(compiling.await.expect("no panic").expect_err("it takes minutes").code(), "COMPILE_TOO_SLOW");
    let small = compiling_in_processes(|config| config.compile_memory = 48 << 20);
    let rejected = small.compile(slow_to_compile(600)).await.expect_err("it takes hundreds of megabytes");
    assert_eq!(rejected.code(), "COMPILE_TOO_LARGE", "{rejected}");
    let until = Instant::now() + Duration::from_secs(60);
    while children() > 0 {
        assert!(Instant::now() < until, "a compiler still runs after its caller has gone");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_compiler_that_crashes_or_does_not_exist_is_reported() {
    for (program, expected) in [("/bin/false", "the compiler ended with"), ("/nowhere/windlass", "does not start")] {
        let executor = compiling_in_processes(|config| config.compiler = Some(vec![program.into()]));
        let rejected = executor.compile(hostile("noop")).await.expect_err("there is no compiler");
        assert_contains(&rejected.to_string(), expected);
        neighbour_still_runs().await;
    }
}

#[tokio::test]
async fn a_component_of_200_megabytes_is_refused_by_its_size() {
    // What follows the header is not a component: parsing it would fail with another error.
    let mut bytes = vec![0xff; 200 << 20];
    bytes[..8].copy_from_slice(b"\0asm\x0d\0\x01\0");
    let invalid = EXECUTOR.compile(bytes[..99].to_vec().into()).await.expect_err("no component");
    assert_eq!(invalid.code(), "INVALID_COMPONENT");
    let rejected = EXECUTOR.compile(bytes.into()).await.expect_err("too large");
    assert_eq!(rejected.code(), "COMPONENT_TOO_LARGE");
    neighbour_still_runs().await;
}

/// A file system of one megabyte, unmounted after the test; `None` where this user may not mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_not_the_components_fault() {
    let Some(disk) = SmallDisk::mount() else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let keys = tempfile::tempdir().expect("a folder");
    let cache = CacheConfig { folder: disk.0.path().to_owned(), key_file: keys.path().join("key") };
    let executor = compiling_in_processes(|config| config.cache = Some(cache));
    // First the component fits and its code does not; then not even the component fits.
    let large = built("digest");
    for ballast in [(1 << 20) - large.len() - (64 << 10), 2 << 20] {
        // If it does not fit, the write fails and the disk is full.
        let _ = std::fs::write(disk.0.path().join("ballast"), vec![1; ballast]);
        let rejected = executor.compile(large.clone()).await.expect_err("the disk is full");
        assert_eq!(rejected.code(), "STORE_UNAVAILABLE", "{rejected}");
        assert!(rejected.is_temporary());
        assert_contains(&rejected.to_string(), "Nothing was done");
        assert_contains(&rejected.to_string(), "No space left on device");
    }
    std::fs::remove_file(disk.0.path().join("ballast")).expect("it exists");
    executor.compile(hostile("noop")).await.expect("a good component, and there is space");
}
