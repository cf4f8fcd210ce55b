//! Numbers as people read them: short, with their unit.

/// `512 B`, `3.4 KiB`, `12 MiB`.
pub fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if size < 1_024.0 {
            break;
        }
        (size, unit) = (size / 1_024.0, next);
    }
    format!("{} {unit}", short(size))
}

/// `7 ms`, `1.2 s`, `3.5 min`, `2 h`.
pub fn millis(millis: u64) -> String {
    let span = millis as f64;
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..120_000 => format!("{} s", short(span / 1e3)),
        120_000..7_200_000 => format!("{} min", short(span / 6e4)),
        _ => format!("{} h", short(span / 3.6e6)),
    }
}

/// A number a second, in as few characters as tell it: `0`, `0.02`, `3.4`, `120`, `12k`.
pub fn rate(rate: f64) -> String {
    match rate {
        _ if rate <= 0.0 => "0".to_owned(),
        ..0.01 => "<0.01".to_owned(),
        ..0.995 => format!("{rate:.2}"),
        ..9_999.5 => short(rate),
        ..999_500.0 => format!("{}k", short(rate / 1e3)),
        _ => format!("{}M", short(rate / 1e6)),
    }
}

/// One digit after the point where there are few before it, and none where it would be a zero.
fn short(number: f64) -> String {
    let text = if number < 99.95 { format!("{number:.1}") } else { format!("{number:.0}") };
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_their_unit() {
        for (size, text) in [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (3 << 20, "3 MiB"), (5 << 40, "5 TiB")]
        {
            assert_eq!(bytes(size), text);
        }
        for (span, text) in [(0, "0 ms"), (999, "999 ms"), (1_250, "1.2 s"), (180_000, "3 min"), (9_000_000, "2.5 h")] {
            assert_eq!(millis(span), text);
        }
        for (speed, text) in [
            (0.0, "0"),
            (0.001, "<0.01"),
            (0.016, "0.02"),
            (0.999, "1"),
            (3.44, "3.4"),
            (99.96, "100"),
            (1_234.0, "1234"),
            (12_340.0, "12.3k"),
            (2_500_000.0, "2.5M"),
        ] {
            assert_eq!(rate(speed), text, "{speed}");
        }
    }
}
