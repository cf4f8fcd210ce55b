//! Components that are hard on the compiler, and what goes on beside them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use windlass_executor::{Config, Executor};

use crate::support::{EXECUTOR, hostile, neighbour_is_well};

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

/// A component whose only module has many functions with much to compile in each.
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
async fn a_component_that_takes_too_long_to_compile_is_given_up_and_holds_up_nobody() {
    let limit = Duration::from_secs(2);
    let executor = Executor::new(Config { places: 4, compile_time: limit, ..Config::default() }).expect("an executor");
    let began = Instant::now();
    let slow = tokio::spawn({
        let executor = executor.clone();
        async move { executor.compile(slow_to_compile(600)).await }
    });
    neighbour_is_well().await;
    let rejected = slow.await.expect("no panic").expect_err("it takes minutes");
    assert_eq!(rejected.code(), "COMPILE_TOO_SLOW", "{rejected}");
    assert!(began.elapsed() < 10 * limit, "given up only after {:?}", began.elapsed());
    // It still burns a thread of the lowest priority. The next one does not wait for it.
    executor.compile(hostile("noop")).await.expect("a good component, compiled beside it");
}

#[tokio::test]
async fn a_component_of_200_megabytes_is_refused_by_its_size() {
    let mut bytes = vec![0; 200 << 20];
    bytes[..8].copy_from_slice(b"\0asm\x0d\0\x01\0");
    let began = Instant::now();
    let rejected = EXECUTOR.compile(bytes.into()).await.expect_err("too large");
    assert_eq!(rejected.code(), "COMPONENT_TOO_LARGE");
    assert!(began.elapsed() < Duration::from_secs(1), "nobody has looked into it");
    neighbour_is_well().await;
}
