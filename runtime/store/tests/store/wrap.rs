//! The server's part in encryption, as far as the store needs one: something that wraps data keys.

use std::sync::Arc;

use windlass_store::{DATA_KEY_BYTES, Encryption, KeyWrap};

/// Stands for a key file. What it does with a data key hides nothing from anybody.
#[derive(Debug)]
struct Mask(u8);

impl KeyWrap for Mask {
    fn prepare(&self, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn wrap(&self, id: u32, key: &[u8; DATA_KEY_BYTES]) -> Option<Vec<u8>> {
        Some([self.0].into_iter().chain(id.to_be_bytes()).chain(key.iter().map(|byte| byte ^ self.0)).collect())
    }

    fn unwrap(&self, id: u32, wrapped: &[u8]) -> Result<[u8; DATA_KEY_BYTES], String> {
        let mine = [&[self.0][..], &id.to_be_bytes()].concat();
        let key = wrapped.strip_prefix(&mine[..]).ok_or("this is another key; restore the first one")?;
        let key: Vec<u8> = key.iter().map(|byte| byte ^ self.0).collect();
        key.try_into().map_err(|_| "this is no data key".to_owned())
    }
}

/// How a store is opened whose key file holds this.
pub fn with_key(key: u8, is_on: bool) -> Option<Encryption> {
    Some(Encryption { wrap: Arc::new(Mask(key)), is_on })
}
