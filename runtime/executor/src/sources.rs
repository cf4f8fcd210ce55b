//! Sources attached to a component. `windlass dev` takes the prepared runtime of a language and appends the plugin's
//! files to it as a custom section at the very end. The code before that section is the same at every save, so it is
//! compiled once; the guest reads the section through `windlass:dev/sources`.
//!
//! Called by `windlass dev`, which attaches them, and by `compile`, which splits them off. Nothing here parses them.

use crate::compile::strip::{CUSTOM, HEADER_BYTES, section, text, write_number};

const NAME: &str = "windlass:sources";

/// The component with these sources at its end. They replace sources that it already has.
pub fn attach_sources(component: &[u8], sources: &str) -> Vec<u8> {
    let (code, _) = split(component);
    let mut content = Vec::with_capacity(NAME.len() + sources.len() + 1);
    write_number(NAME.len(), &mut content);
    content.extend(NAME.as_bytes());
    content.extend(sources.as_bytes());
    let mut out = code.to_vec();
    section(CUSTOM, &content, &mut out);
    out
}

/// The component without its sources, and the sources. Malformed bytes have none: the compiler reports what is wrong
/// with them.
pub(crate) fn split(bytes: &[u8]) -> (&[u8], Option<&str>) {
    find(bytes).map_or((bytes, None), |(code, sources)| (code, Some(sources)))
}

fn find(bytes: &[u8]) -> Option<(&[u8], &str)> {
    let mut rest = bytes.get(HEADER_BYTES..)?;
    loop {
        let start = bytes.len() - rest.len();
        let (kind, after) = rest.split_first()?;
        rest = after;
        let mut content = text(&mut rest).ok()?;
        if rest.is_empty() {
            let named = *kind == CUSTOM && text(&mut content).ok()? == NAME.as_bytes();
            return named.then_some((&bytes[..start], std::str::from_utf8(content).ok()?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component() -> Vec<u8> {
        wat::parse_str(r#"(component (core module) (@custom "other" "kept"))"#).expect("a component")
    }

    #[test]
    fn attached_sources_are_split_off_again_and_replaced_by_the_next_ones() {
        let plain = component();
        assert_eq!(split(&plain), (&plain[..], None));
        let first = attach_sources(&plain, "print('é')");
        assert_eq!(split(&first), (&plain[..], Some("print('é')")));
        let second = attach_sources(&first, "");
        assert_eq!(split(&second), (&plain[..], Some("")));
        wasmtime::Engine::default().precompile_component(&first).expect("still a component");
    }

    #[test]
    fn only_a_whole_section_at_the_end_counts_as_sources() {
        let whole = attach_sources(&component(), "text");
        for end in 0..whole.len() {
            assert_eq!(split(&whole[..end]), (&whole[..end], None), "{end}");
        }
        let mut followed = whole.clone();
        followed.extend([0, 2, 1, b'v']);
        assert_eq!(split(&followed).1, None);
        let mut binary = component();
        section(CUSTOM, b"\x10windlass:sources\xff", &mut binary);
        assert_eq!(split(&binary).1, None, "sources are text");
    }
}
