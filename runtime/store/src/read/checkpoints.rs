//! All stored checkpoints, for whoever must know what they need.

use windlass_core::{BodyKind, BodyRef, Job, JobId};

use crate::Error;
use crate::disk::blobs::Blobs;
use crate::disk::fjall::View;
use crate::disk::{DiskError, Space};
use crate::disk::{codec, keys};
use crate::read::row;
use crate::store::{Store, on_a_thread_of_its_own};

/// How many rows are read from one view: what a view sees cannot be reclaimed.
const PAGE: usize = 4_096;

/// What one page of rows leads to: where the next begins, none after the last.
type Next = Option<Vec<u8>>;

impl Store {
    /// Shows the first bytes of every checkpoint that is stored. One that is saved meanwhile may be shown or not.
    pub async fn each_checkpoint(
        &self,
        most: usize,
        visit: impl FnMut(&[u8]) + Clone + Send + 'static,
    ) -> Result<(), Error> {
        for space in [Space::Bodies, Space::Blobs] {
            let mut from = Some(Vec::new());
            while let Some(start) = from {
                let (disk, blobs) = (self.inner.shared.open().await?, self.inner.blobs.clone());
                let mut visit = visit.clone();
                from = on_a_thread_of_its_own(move || {
                    let view = disk.view();
                    drop(disk);
                    Ok(page(&view, &blobs, space, &start, &mut |body| visit(&body[..body.len().min(most)]), most)?)
                })
                .await?;
            }
        }
        Ok(())
    }
}

fn page(
    view: &View,
    blobs: &Blobs,
    space: Space,
    from: &[u8],
    visit: &mut dyn FnMut(&[u8]),
    most: usize,
) -> Result<Next, DiskError> {
    let mut last = None;
    let mut seen = 0;
    for pair in view.range(space, from, &[u8::MAX; 64]).take(PAGE) {
        let (key, value) = pair?;
        seen += 1;
        if key.last() == Some(&(BodyKind::Checkpoint as u8)) {
            match space {
                Space::Blobs => visit_file(view, blobs, &key, visit, most)?,
                _ => visit(codec::unwrap(space, &value)?),
            }
        }
        last = Some(key);
    }
    Ok(last.filter(|_| seen == PAGE).map(|key| [&key[..], &[0]].concat()))
}

/// The checkpoint that is a file, if the job still has it. The key is the file's name, the job and the kind.
fn visit_file(
    view: &View,
    blobs: &Blobs,
    key: &[u8],
    visit: &mut dyn FnMut(&[u8]),
    most: usize,
) -> Result<(), DiskError> {
    let id = key.get(32..48).and_then(|id| id.try_into().ok()).map(|id| JobId(u128::from_be_bytes(id)));
    let Some(id) = id else { return Ok(()) };
    let Some(job) = row::<Job>(view, Space::Jobs, &keys::job(id))? else { return Ok(()) };
    match job.body(BodyKind::Checkpoint) {
        BodyRef::Blob(blob) => visit(&blobs.head(&blob, most).map_err(|error| blobs.unread(&blob, &error))?),
        BodyRef::Inline { .. } | BodyRef::None => {}
    }
    Ok(())
}
