//! The keys of records: a run and a path, and the number of a chunk when there are several.
//!
//! Two slashes cannot stand in a path, so what follows them is ours.

/// The most bytes of a key.
const MOST: usize = 1_024;
/// Of a path that is too long, so many bytes are kept for people to read.
const KEPT: usize = 800;

/// Where a chunk of what was found in a folder lies.
pub fn key(run: &str, path: &str, chunk: usize) -> String {
    let mut key = format!("{run}/{path}");
    if key.len() > MOST - 16 {
        let mut end = KEPT;
        while !path.is_char_boundary(end) {
            end -= 1;
        }
        key = format!("{run}/{}//{:032x}", &path[..end], digest(path));
    }
    if chunk > 0 {
        key.push_str(&format!("//{chunk}"));
    }
    key
}

/// FNV-1a of 128 bits: long paths of one run are told apart, and nobody gains by making two that are not.
fn digest(text: &str) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_run_are_all_different_and_short_enough() {
        let long = |last: char| format!("{}{last}", "ü/".repeat(900));
        let places =
            [("", 0), ("", 1), ("a", 0), ("a", 1), ("a//1", 1), (&long('x'), 0), (&long('y'), 0), (&long('y'), 7)];
        let keys: Vec<String> = places.iter().map(|(path, chunk)| key("job_1", path, *chunk)).collect();
        let mut different = keys.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), keys.len(), "{keys:?}");
        assert!(keys.iter().all(|key| (1..=MOST).contains(&key.len())), "{keys:?}");
        assert_eq!(keys[2], "job_1/a");
    }
}
