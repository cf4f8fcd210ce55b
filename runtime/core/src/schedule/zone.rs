//! Time zones by name: finding one, naming the likely one when there is none, and showing a moment in one.

use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};

use crate::{Refusal, Time};

pub(super) fn find(name: &str) -> Result<Tz, Refusal> {
    name.parse().map_err(|_| {
        let hint = match (fixed_offset(name), likely(name)) {
            (Some(fixed), _) => {
                format!("name a place such as Europe/Berlin, which knows its summer time, or write {fixed}")
            }
            (None, Some(zone)) => format!("did you mean {zone}?"),
            (None, None) => "use a name such as Europe/Berlin or UTC".to_owned(),
        };
        Refusal::invalid("timezone", format!("{name:?} is not a time zone; {hint}"))
    })
}

/// A moment as clocks in a zone show it, with the zone's short name: `2026-03-29 03:00:00 CEST`. None when there is no
/// such zone.
pub fn local_time(at: Time, zone: &str) -> Option<String> {
    let zone: Tz = zone.parse().ok()?;
    Some(in_zone(at, zone)?.format("%Y-%m-%d %H:%M:%S %Z").to_string())
}

pub(super) fn in_zone(at: Time, zone: Tz) -> Option<DateTime<Tz>> {
    let millis = i64::try_from(at.millis()).ok()?;
    Some(Utc.timestamp_millis_opt(millis).single()?.with_timezone(&zone))
}

/// The zone that somebody most likely meant: its letters in another case, its city alone, or a slip of the keys.
fn likely(name: &str) -> Option<&'static str> {
    let names = || TZ_VARIANTS.iter().map(|zone| zone.name());
    let wanted = plain(name);
    let exact = names().find(|zone| plain(zone) == wanted);
    let city = |zone: &&str| zone.rsplit_once('/').is_some_and(|(_, city)| plain(city) == wanted);
    exact.or_else(|| names().find(city)).or_else(|| nearest(name, names(), 2))
}

/// `UTC+2` and the like, as the zone that means it. The names of those zones count the other way around.
fn fixed_offset(name: &str) -> Option<String> {
    let upper = name.to_uppercase();
    let rest = upper.strip_prefix("UTC").or_else(|| upper.strip_prefix("GMT")).unwrap_or(&upper);
    let (sign, hours) = match (rest.strip_prefix('+'), rest.strip_prefix('-')) {
        (Some(hours), _) => ('-', hours),
        (_, Some(hours)) => ('+', hours),
        _ => return None,
    };
    let hours: u8 = hours.trim_end_matches(":00").parse().ok()?;
    let zone = format!("Etc/GMT{sign}{hours}");
    zone.parse::<Tz>().ok().map(|_| zone)
}

/// The name that differs least, if by no more than `most` letters, and by fewer where it is short: PST is not EST.
pub(super) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>, most: usize) -> Option<&'a str> {
    let wanted = plain(name);
    let near = names.map(|other| (strsim::osa_distance(&wanted, &plain(other)), other)).min_by_key(|(far, _)| *far);
    let most = most.min(wanted.len() / 4);
    near.filter(|(far, _)| *far <= most).map(|(_, other)| other)
}

/// Letters and digits only, in lower case.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_is_not_there_is_answered_with_the_likely_one() {
        for (name, hint) in [
            ("europe/berlin", "did you mean Europe/Berlin?"),
            ("Europe/Berlni", "did you mean Europe/Berlin?"),
            ("Berlin", "did you mean Europe/Berlin?"),
            ("new york", "did you mean America/New_York?"),
            ("utc", "did you mean UTC?"),
            ("Mars/Olympus", "use a name such as Europe/Berlin or UTC"),
            ("UTC+2", "name a place such as Europe/Berlin, which knows its summer time, or write Etc/GMT-2"),
            ("+02:00", "name a place such as Europe/Berlin, which knows its summer time, or write Etc/GMT-2"),
            ("PST", "use a name such as Europe/Berlin or UTC"),
            ("", "use a name such as Europe/Berlin or UTC"),
        ] {
            let Err(Refusal::Invalid { field, why }) = find(name) else { panic!("{name:?} was found") };
            assert_eq!((field, why), ("timezone", format!("{name:?} is not a time zone; {hint}")));
        }
        assert!(find("Europe/Berlin").is_ok());
    }

    #[test]
    fn a_moment_is_shown_as_clocks_there_show_it() {
        let at = Time(1_774_746_000_000);
        assert_eq!(local_time(at, "UTC").as_deref(), Some("2026-03-29 01:00:00 UTC"));
        assert_eq!(local_time(at, "Europe/Berlin").as_deref(), Some("2026-03-29 03:00:00 CEST"));
        assert_eq!(local_time(at, "Mars/Olympus"), None);
    }
}
