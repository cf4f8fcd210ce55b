//! A cron expression in words: `every day at 02:30`. Only for people to read; what an expression means is croner's
//! matter. Where no plain sentence fits, the values of a field are named as they are written.

/// When an expression runs, to be read after "runs": `at 02:30, Monday to Friday`.
pub(super) fn describe(text: &str) -> String {
    let text = text.trim();
    if let Some((_, words)) = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        return (*words).to_owned();
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    let (second, rest, year) = match parts.as_slice() {
        rest if rest.len() == 5 => ("0", rest, "*"),
        [second, rest @ ..] if rest.len() == 5 => (*second, rest, "*"),
        [second, rest @ .., year] if rest.len() == 5 => (*second, rest, *year),
        _ => return format!("at the times of {text:?}"),
    };
    let [minute, hour, day, month, weekday] = rest else { return format!("at the times of {text:?}") };
    let (time, is_clock) = time_of_day(second, minute, hour);
    let mut words = match days(day, weekday) {
        Some(days) => format!("{time}, {days}"),
        None if is_clock => format!("every day {time}"),
        None => time,
    };
    if !is_any(month) {
        words += &format!(", in {}", values(month, &MONTHS, 1));
    }
    if !is_any(year) {
        words += &format!(", in {}", values(year, &[], 0));
    }
    words
}

const NICKNAMES: [(&str, &str); 6] = [
    ("@yearly", "at 00:00, on day 1 of the month, in January"),
    ("@annually", "at 00:00, on day 1 of the month, in January"),
    ("@monthly", "at 00:00, on day 1 of the month"),
    ("@weekly", "at 00:00, on Sunday"),
    ("@daily", "every day at 00:00"),
    ("@hourly", "every hour, on the hour"),
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 8] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
/// More times of a day than these are named by their hours and minutes.
const CLOCKS: usize = 6;

fn is_any(field: &str) -> bool {
    matches!(field, "*" | "?")
}

/// The step of `*/N`.
fn step(field: &str) -> Option<u16> {
    field.strip_prefix("*/").and_then(|step| step.parse().ok())
}

/// The numbers of a list without ranges and steps.
fn numbers(field: &str) -> Option<Vec<u16>> {
    field.split(',').map(|one| one.parse().ok()).collect()
}

fn range(field: &str) -> Option<(u16, u16)> {
    let (from, to) = field.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// When in the day, and whether that is a moment on the clock.
fn time_of_day(second: &str, minute: &str, hour: &str) -> (String, bool) {
    if let (Some(seconds), Some(minutes), Some(hours)) = (numbers(second), numbers(minute), numbers(hour))
        && seconds.len() * minutes.len() * hours.len() <= CLOCKS
    {
        let mut clocks = Vec::new();
        for hour in &hours {
            for minute in &minutes {
                clocks.extend(seconds.iter().map(|second| clock(*hour, *minute, *second)));
            }
        }
        return (format!("at {}", listed(&clocks)), true);
    }
    let within_minute = match (second, step(second)) {
        ("0", _) => None,
        ("*", _) => Some("every second".to_owned()),
        (_, Some(step)) => Some(every(step, "second")),
        _ => Some(format!("at second {}", values(second, &[], 0))),
    };
    let words = match (within_minute, minute) {
        (Some(seconds), "*") => format!("{seconds}{}", of_hours(hour)),
        (Some(seconds), _) => format!("{seconds} of {}", minutes(minute, hour)),
        (None, _) => minutes(minute, hour),
    };
    (words, false)
}

fn clock(hour: u16, minute: u16, second: u16) -> String {
    if second == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") }
}

fn minutes(minute: &str, hour: &str) -> String {
    let often = match (minute, step(minute)) {
        ("*", _) => Some("every minute".to_owned()),
        (_, Some(step)) => Some(every(step, "minute")),
        _ => None,
    };
    if let Some(often) = often {
        return format!("{often}{}", of_hours(hour));
    }
    let past = match minute {
        "0" => "on the hour".to_owned(),
        _ => format!("at minute {}", values(minute, &[], 0)),
    };
    match (step(hour), is_any(hour)) {
        (Some(hours), _) => format!("{}, {past}", every(hours, "hour")),
        (None, true) => format!("every hour, {past}"),
        (None, false) => format!("{past}{}", of_hours(hour)),
    }
}

/// In which hours; nothing when it is all of them.
fn of_hours(hour: &str) -> String {
    if is_any(hour) {
        return String::new();
    }
    match range(hour) {
        Some((from, to)) => format!(", from {} to {}", clock(from, 0, 0), clock(to, 59, 0)),
        None => match step(hour) {
            Some(step) => format!(", in {}", every(step, "hour")),
            None => format!(", in hour {}", values(hour, &[], 0)),
        },
    }
}

fn every(step: u16, unit: &str) -> String {
    if step == 1 { format!("every {unit}") } else { format!("every {step} {unit}s") }
}

/// On which days; none when on all of them.
fn days(day: &str, weekday: &str) -> Option<String> {
    let (both, weekday) = match weekday.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, weekday),
    };
    match (is_any(day), is_any(weekday)) {
        (true, true) => None,
        (false, true) => Some(of_month(day)),
        (true, false) => Some(of_week(weekday)),
        (false, false) if both => Some(format!("{} if it is {}", of_month(day), of_week(weekday))),
        (false, false) => Some(format!("{} and {}", of_month(day), of_week(weekday))),
    }
}

fn of_month(day: &str) -> String {
    if let Some(step) = step(day) {
        return format!("every {step} days of the month");
    }
    match day {
        "L" => "on the last day of the month".to_owned(),
        "LW" => "on the last weekday of the month".to_owned(),
        _ => match day.strip_suffix('W').map(str::parse::<u16>) {
            Some(Ok(day)) => format!("on the weekday nearest to day {day} of the month"),
            _ => format!("on day {} of the month", values(day, &[], 0)),
        },
    }
}

fn of_week(weekday: &str) -> String {
    let name = |text: &str| named(text, &WEEKDAYS, 0);
    let nth = |text: &str| {
        let (day, nth) = text.split_once('#').or_else(|| text.strip_suffix('L').map(|day| (day, "L")))?;
        let nth = match nth {
            "L" | "l" => "last",
            _ => ORDINALS.get(nth.parse::<usize>().ok()?.checked_sub(1)?)?,
        };
        (!day.is_empty()).then(|| format!("the {nth} {} of the month", name(day)))
    };
    if !weekday.contains(',')
        && let Some((from, to)) = weekday.split_once('-')
    {
        return format!("{} to {}", name(from), name(to));
    }
    let days: Vec<String> =
        weekday.split(',').map(|one| nth(one).unwrap_or_else(|| values(one, &WEEKDAYS, 0))).collect();
    format!("on {}", listed(&days))
}

/// The values of a list, by their names where they have some: `1, 15 and 20 to 25`.
fn values(field: &str, names: &[&str], first: usize) -> String {
    let one = |part: &str| match (part.split_once('-'), step(part)) {
        (_, Some(step)) => format!("every {step}"),
        (Some((from, to)), None) => match to.split_once('/') {
            Some((to, step)) => format!("{} to {} by {step}", named(from, names, first), named(to, names, first)),
            None => format!("{} to {}", named(from, names, first), named(to, names, first)),
        },
        (None, None) => named(part, names, first),
    };
    listed(&field.split(',').map(one).collect::<Vec<_>>())
}

/// A value as its name: a number counts from `first`, and a name may be written by its first three letters.
fn named(text: &str, names: &[&str], first: usize) -> String {
    let by_number = text.parse::<usize>().ok().and_then(|number| names.get(number.checked_sub(first)?));
    let by_letters = || {
        let begins =
            |name: &&&str| text.len() == 3 && name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(text));
        names.iter().find(begins)
    };
    by_number.or_else(by_letters).map_or_else(|| text.to_owned(), |name| (*name).to_owned())
}

/// `a`, `a and b`, `a, b and c`.
fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_told_in_plain_words() {
        for (cron, words) in [
            ("* * * * *", "every minute"),
            ("*/1 * * * *", "every minute"),
            ("*/5 * * * *", "every 5 minutes"),
            ("0 * * * *", "every hour, on the hour"),
            ("15,45 * * * *", "every hour, at minute 15 and 45"),
            ("5 */2 * * *", "every 2 hours, at minute 5"),
            ("*/10 9-17 * * *", "every 10 minutes, from 09:00 to 17:59"),
            ("0 9-17 * * *", "on the hour, from 09:00 to 17:59"),
            ("0 9-17/2 * * *", "on the hour, in hour 9 to 17 by 2"),
            ("30 2 * * *", "every day at 02:30"),
            ("0 6,18 * * *", "every day at 06:00 and 18:00"),
            ("30 2 * * 1-5", "at 02:30, Monday to Friday"),
            ("30 2 * * mon,FRI", "at 02:30, on Monday and Friday"),
            ("0 0 * * 0", "at 00:00, on Sunday"),
            ("0 0 * * 7", "at 00:00, on Sunday"),
            ("0 0 * * FRI#2", "at 00:00, on the second Friday of the month"),
            ("0 0 * * 5L", "at 00:00, on the last Friday of the month"),
            ("0 0 1,15 * *", "at 00:00, on day 1 and 15 of the month"),
            ("0 0 L * *", "at 00:00, on the last day of the month"),
            ("0 0 15W * *", "at 00:00, on the weekday nearest to day 15 of the month"),
            ("0 0 13 * +5", "at 00:00, on day 13 of the month if it is on Friday"),
            ("0 0 1 1,JUL *", "at 00:00, on day 1 of the month, in January and July"),
            ("0 12 * JAN-MAR *", "every day at 12:00, in January to March"),
            ("30 0 0 * * *", "every day at 00:00:30"),
            ("*/10 * * * * *", "every 10 seconds"),
            ("0 0 0 1 1 * 2030", "at 00:00, on day 1 of the month, in January, in 2030"),
            ("@daily", "every day at 00:00"),
            ("@Hourly", "every hour, on the hour"),
        ] {
            assert_eq!(describe(cron), words, "{cron}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_repeated() {
        assert_eq!(describe("tomorrow"), "at the times of \"tomorrow\"");
        assert_eq!(describe(""), "at the times of \"\"");
    }
}
