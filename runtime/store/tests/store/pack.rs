//! A folder as one small file. A database's journal is laid out ahead, tens of megabytes of zeros, so the zeros at the
//! end of a file are counted instead of stored.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Packed {
    path: String,
    bytes: Vec<u8>,
    /// How many zeros follow.
    zeros: u64,
}

pub fn pack(dir: &Path) -> Vec<u8> {
    let mut files = Vec::new();
    gather(dir, "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    postcard::to_stdvec(&files).expect("paths and bytes")
}

pub fn unpack(packed: &[u8], dir: &Path) {
    let files: Vec<Packed> = postcard::from_bytes(packed).expect("packed by this code");
    for file in files {
        let path = dir.join(&file.path);
        fs::create_dir_all(path.parent().expect("inside the folder")).expect("makes the folder");
        fs::write(&path, &file.bytes).expect("writes");
        let open = fs::OpenOptions::new().write(true).open(&path).expect("opens");
        open.set_len(file.bytes.len() as u64 + file.zeros).expect("grows");
    }
}

fn gather(dir: &Path, below: &str, files: &mut Vec<Packed>) {
    for entry in fs::read_dir(dir).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = format!("{below}{}", entry.file_name().to_str().expect("plain names"));
        if entry.file_type().expect("a type").is_dir() {
            gather(&entry.path(), &format!("{path}/"), files);
            continue;
        }
        let mut bytes = fs::read(entry.path()).expect("reads");
        let whole = bytes.len();
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        files.push(Packed { path, zeros: (whole - bytes.len()) as u64, bytes });
    }
}
