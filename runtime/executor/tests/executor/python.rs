//! The library that makes Python builds reproducible is checked in as compiled code, because the SDK has no tool to
//! compile its text.

use std::fs;
use std::path::Path;

#[test]
fn the_compiled_library_matches_its_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk/python/still");
    let wanted = wat::parse_file(folder.join("still.wat")).expect("good text");
    let path = folder.join("still.wasm");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        fs::write(&path, &wanted).expect("it can be written");
    }
    let found = fs::read(&path).expect("it is checked in");
    assert!(found == wanted, "still.wasm is out of date: run this test with WINDLASS_BLESS=1, and commit the file");
}
