//! Where the text comes from: the payload, or a generator that gives the same text for the same seed.

/// A body of text that can be read from any place.
pub(crate) enum Source<'a> {
    Given(&'a [u8]),
    Generated { bytes: u64, seed: u64 },
}

/// The generator makes blocks, each from the seed and its own number. So any part can be made without what comes before
/// it, and the text does not depend on the size of the steps.
const BLOCK: u64 = 4096;

impl Source<'_> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Source::Given(text) => text.len() as u64,
            Source::Generated { bytes, .. } => *bytes,
        }
    }

    /// Fills the buffer with at most `wanted` bytes from `start` on.
    pub(crate) fn read(&self, start: u64, wanted: u64, buffer: &mut Vec<u8>) {
        buffer.clear();
        let end = self.len().min(start.saturating_add(wanted));
        match self {
            Source::Given(text) => buffer.extend_from_slice(&text[start as usize..end as usize]),
            Source::Generated { seed, .. } => {
                let mut block = Vec::with_capacity(BLOCK as usize);
                let mut at = start;
                while at < end {
                    generate(*seed, at / BLOCK, &mut block);
                    let from = at % BLOCK;
                    let until = BLOCK.min(from + (end - at));
                    buffer.extend_from_slice(&block[from as usize..until as usize]);
                    at += until - from;
                }
            }
        }
    }
}

/// Words of one to nine letters; about every twelfth ends a line.
fn generate(seed: u64, number: u64, block: &mut Vec<u8>) {
    let mut random = mix(seed ^ mix(number));
    block.clear();
    while block.len() < BLOCK as usize {
        random = mix(random);
        let letters = random.to_le_bytes();
        block.extend(letters[..1 + (random >> 61) as usize].iter().map(|byte| b'a' + byte % 26));
        block.push(if random.is_multiple_of(12) { b'\n' } else { b' ' });
    }
    block.truncate(BLOCK as usize);
}

/// One step of the splitmix64 generator: a good mixer in five operations.
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_the_generated_text_is_the_same_as_in_the_whole() {
        let source = Source::Generated { bytes: 20_000, seed: 7 };
        let mut whole = Vec::new();
        source.read(0, 20_000, &mut whole);
        assert_eq!(whole.len(), 20_000);
        let mut part = Vec::new();
        for (start, wanted) in [(0, 1), (4_095, 2), (5_000, 9_000), (19_999, 100)] {
            source.read(start, wanted, &mut part);
            let end = whole.len().min((start + wanted) as usize);
            assert_eq!(part, whole[start as usize..end]);
        }
    }

    #[test]
    fn another_seed_is_another_text() {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        generate(1, 0, &mut one);
        generate(2, 0, &mut two);
        assert_ne!(one, two);
    }
}
