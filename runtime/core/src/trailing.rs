//! Fields at the end of a stored row that rows from before do not have.

use serde::{Deserialize, Deserializer};

/// Reads a field that ends a row; of a row that ends before it, the default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(T::deserialize(deserializer).unwrap_or_default())
}
