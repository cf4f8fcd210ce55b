//! A list of any length, as records of at most 64 KiB each: written in parts that a commit can hold, read one after the
//! other.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass::{Context, Error, Result};

use crate::keys::key;

/// The most bytes of the items of a chunk: with what is around them it stays below 64 KiB.
const CHUNK: usize = 60 * 1024;
/// Chunks that one commit takes along: a MiB is the most.
const TOGETHER: usize = 12;

#[derive(Serialize, Deserialize)]
struct Chunk<H, I> {
    /// How many there are, and what else is to be said of the list; with the first.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    head: Option<(usize, H)>,
    items: Vec<I>,
}

/// Notes a list under a path of a run. `save` commits what was noted so far, so that any length fits. The first chunk
/// comes last: a list that was cut off is not there at all.
pub fn write<H: Serialize, I: Serialize>(
    ctx: &mut Context,
    (run, path): (&str, &str),
    head: &H,
    items: &[I],
    save: impl Fn(&mut Context) -> Result<()>,
) -> Result<()> {
    let parts = split(items)?;
    for number in (1..parts.len()).chain([0]) {
        let head = (number == 0).then_some((parts.len(), head));
        ctx.put_record(&key(run, path, number), &Chunk { head, items: parts[number].iter().collect() })?;
        if number > 0 && number % TOGETHER == 0 {
            save(ctx)?;
        }
    }
    Ok(())
}

/// The list in parts, each small enough for a record. There is always one.
fn split<I: Serialize>(items: &[I]) -> Result<Vec<&[I]>> {
    let mut parts = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (n, item) in items.iter().enumerate() {
        let size = serde_json::to_vec(item)?.len() + 1;
        if n > start && bytes + size > CHUNK {
            parts.push(&items[start..n]);
            (start, bytes) = (n, 0);
        }
        bytes += size;
    }
    parts.push(&items[start..]);
    Ok(parts)
}

/// What was noted under a path of a run, if anything was.
pub fn read<H: DeserializeOwned, I: DeserializeOwned>(
    ctx: &mut Context,
    queue: &str,
    (run, path): (&str, &str),
) -> Result<Option<(H, Vec<I>)>> {
    let Some(first) = ctx.get_record::<Chunk<H, I>>(queue, &key(run, path, 0))? else { return Ok(None) };
    let Chunk { head: Some((chunks, head)), mut items } = first.value else {
        return Err(Error::fatal(format_args!("the record of `{path}` has no head")));
    };
    for number in 1..chunks {
        let next = ctx.get_record::<Chunk<H, I>>(queue, &key(run, path, number))?;
        let next =
            next.ok_or_else(|| Error::new(format_args!("chunk {number} of the record of `{path}` is not there")))?;
        items.extend(next.value.items);
    }
    Ok(Some((head, items)))
}
