//! The built files of the console; `build.rs` hashes and compresses them.

/// One file of `ui/dist`.
pub struct File {
    pub name: &'static str,
    /// Its ETag, with the quotes.
    pub tag: &'static str,
    pub plain: &'static [u8],
    pub gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/console.rs"));
