//! Why a cron expression cannot be read, with the name of the field. Croner decides what can be read; this only
//! explains a refusal of it, so that it never refuses by itself.

use croner::Cron;
use croner::parser::{CronParser, Seconds};

use crate::Refusal;

/// The expression, or why it cannot be read.
pub(super) fn parse(text: &str) -> Result<Cron, Refusal> {
    let parser = CronParser::builder().seconds(Seconds::Optional).build();
    parser.parse(text).map_err(|_| Refusal::invalid("cron", explain(text)))
}

/// One of the places of an expression.
struct Field {
    name: &'static str,
    least: u16,
    most: u16,
    /// Names for its values, the first for `first`.
    names: &'static [&'static str],
    first: u16,
}

const fn numbers(name: &'static str, least: u16, most: u16) -> Field {
    Field { name, least, most, names: &[], first: 0 }
}

const SECOND: Field = numbers("second", 0, 59);
const MINUTE: Field = numbers("minute", 0, 59);
const HOUR: Field = numbers("hour", 0, 23);
const DAY: Field = numbers("day", 1, 31);
const MONTH: Field = Field { name: "month", least: 1, most: 12, names: &MONTHS, first: 1 };
const WEEKDAY: Field = Field { name: "weekday", least: 0, most: 7, names: &WEEKDAYS, first: 0 };
const YEAR: Field = numbers("year", 1, 5000);

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const NICKNAMES: [&str; 6] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@hourly"];

const FIVE: [&Field; 5] = [&MINUTE, &HOUR, &DAY, &MONTH, &WEEKDAY];
const SIX: [&Field; 6] = [&SECOND, &MINUTE, &HOUR, &DAY, &MONTH, &WEEKDAY];
const SEVEN: [&Field; 7] = [&SECOND, &MINUTE, &HOUR, &DAY, &MONTH, &WEEKDAY, &YEAR];

const ORDER: &str = "minute hour day month weekday, such as `30 2 * * 1-5`";

/// What is wrong with an expression that cannot be read.
fn explain(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return format!("is empty; it takes five fields: {ORDER}");
    }
    if text.starts_with('@') {
        let near = crate::schedule::zone::nearest(text, NICKNAMES.iter().copied(), 2);
        let meant = near.map_or_else(String::new, |name| format!("; did you mean {name}?"));
        return format!("{text:?} is not one of {}{meant}", NICKNAMES.join(", "));
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    let fields: &[&Field] = match parts.len() {
        5 => &FIVE,
        6 => &SIX,
        7 => &SEVEN,
        1 => return format!("{text:?} has 1 field; it takes five fields: {ORDER}; six begin with seconds"),
        count => return format!("{text:?} has {count} fields; it takes five fields: {ORDER}; six begin with seconds"),
    };
    let wrong = fields.iter().zip(&parts).find_map(|(field, part)| {
        let problem = field.problem(part)?;
        Some(format!("{}: {problem}", field.name))
    });
    let order = fields.iter().map(|field| field.name).collect::<Vec<_>>().join(" ");
    match wrong {
        Some(wrong) => format!("{wrong} (the fields of {text:?} are {order})"),
        None => format!("{text:?} cannot be read; its fields are {order}"),
    }
}

impl Field {
    /// What is wrong with one field of an expression, if this is it.
    fn problem(&self, text: &str) -> Option<String> {
        let text = text.to_uppercase();
        let list = if self.name == "weekday" { text.strip_prefix('+').unwrap_or(&text) } else { &text };
        list.split(',').filter(|part| !part.is_empty()).find_map(|part| self.part_problem(part))
    }

    fn part_problem(&self, part: &str) -> Option<String> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        if let Some(step) = step {
            match step.parse::<u16>() {
                Ok(0) => return Some(format!("the step of {part:?} is 0, and would never go on; write 1 or more")),
                Ok(_) => {}
                Err(_) => return Some(format!("the step of {part:?} is not a whole number")),
            }
            if range.is_empty() {
                return Some(format!("{part:?} has nothing before the slash; write \"*/{step}\""));
            }
            if !range.contains('-') && !self.is_any(range) {
                let most = self.most;
                return Some(format!(
                    "{part:?} has a single value before the slash; write \"{range}-{most}/{step}\" to begin there, or \"*/{step}\""
                ));
            }
        }
        if self.is_any(range) {
            return None;
        }
        match range.split_once('-') {
            Some((from, to)) => self.range_problem(range, from, to),
            None => self.value_problem(range),
        }
    }

    /// `*`, and `?` where it means the same.
    fn is_any(&self, text: &str) -> bool {
        text == "*" || (text == "?" && matches!(self.name, "day" | "weekday"))
    }

    fn range_problem(&self, range: &str, from: &str, to: &str) -> Option<String> {
        let value_problem = |text: &str| self.value_problem(text);
        if let Some(problem) = value_problem(from).or_else(|| value_problem(to)) {
            return Some(problem);
        }
        let (first, last) = (self.value(from)?, self.value(to)?);
        // Sunday ends a week as well as it begins one.
        let last = if self.name == "weekday" && to == "SUN" { 7 } else { last };
        (first > last).then(|| {
            let (least, most) = (self.least, self.most);
            format!("the range {range:?} ends before it begins; write \"{from}-{most},{least}-{to}\"")
        })
    }

    fn value_problem(&self, text: &str) -> Option<String> {
        let plain = match self.name {
            "day" if text == "L" || text == "LW" => return None,
            "day" => text.strip_suffix('W').unwrap_or(text),
            "weekday" if text == "L" => return None,
            "weekday" => match text.split_once('#') {
                Some((_, nth)) if !matches!(nth, "1" | "2" | "3" | "4" | "5" | "L") => {
                    return Some(format!(
                        "{text:?} asks for number {nth:?} of a weekday in a month; write #1 to #5, or #L"
                    ));
                }
                Some((day, _)) => day,
                None => text.strip_suffix('L').unwrap_or(text),
            },
            _ => text,
        };
        let (least, most) = (self.least, self.most);
        match (self.value(plain), plain.parse::<u64>()) {
            (Some(value), _) if (least..=most).contains(&value) => None,
            (Some(_), _) | (None, Ok(_)) => Some(format!("{text:?} is not between {least} and {most}")),
            (None, Err(_)) if self.name == "weekday" => Some(format!(
                "{text:?} is not a weekday; write 0 to 7, where 0 and 7 are Sunday, or {}",
                WEEKDAYS.join(" ")
            )),
            (None, Err(_)) if self.name == "month" => {
                Some(format!("{text:?} is not a month; write 1 to 12, or {}", MONTHS.join(" ")))
            }
            (None, Err(_)) => Some(format!("{text:?} is not a number between {least} and {most}")),
        }
    }

    fn value(&self, text: &str) -> Option<u16> {
        let named = self.names.iter().zip(self.first..).find(|(name, _)| **name == text).map(|(_, value)| value);
        named.or_else(|| text.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cron: &str, expected: &str) {
        let Err(Refusal::Invalid { field, why }) = parse(cron) else { panic!("{cron:?} was read") };
        assert_eq!(field, "cron");
        let why = why.split(" (the fields of ").next().expect("the reason");
        assert_eq!(why, expected, "{cron:?}");
    }

    #[test]
    fn a_refusal_names_the_field_and_what_would_be_right() {
        check("75 * * * *", r#"minute: "75" is not between 0 and 59"#);
        check("0 24 * * *", r#"hour: "24" is not between 0 and 23"#);
        check("0 0 0 * *", r#"day: "0" is not between 1 and 31"#);
        check("0 0 * 13 *", r#"month: "13" is not between 1 and 12"#);
        check("0 0 * * 8", r#"weekday: "8" is not between 0 and 7"#);
        check("60 0 0 * * *", r#"second: "60" is not between 0 and 59"#);
        check("0 99999999 * * *", r#"hour: "99999999" is not between 0 and 23"#);
        check("a * * * *", r#"minute: "A" is not a number between 0 and 59"#);
        check(
            "0 0 * JANUARY *",
            &format!(r#"month: "JANUARY" is not a month; write 1 to 12, or {}"#, MONTHS.join(" ")),
        );
        let weekdays = "write 0 to 7, where 0 and 7 are Sunday, or SUN MON TUE WED THU FRI SAT";
        check("0 0 * * funday", &format!(r#"weekday: "FUNDAY" is not a weekday; {weekdays}"#));
    }

    #[test]
    fn ranges_steps_and_lists_are_explained() {
        check("0 22-6 * * *", r#"hour: the range "22-6" ends before it begins; write "22-23,0-6""#);
        check("0 0 * * FRI-MON", r#"weekday: the range "FRI-MON" ends before it begins; write "FRI-7,0-MON""#);
        check("0-70 * * * *", r#"minute: "70" is not between 0 and 59"#);
        check("*/0 * * * *", r#"minute: the step of "*/0" is 0, and would never go on; write 1 or more"#);
        check("*/x * * * *", r#"minute: the step of "*/X" is not a whole number"#);
        check("/10 * * * *", r#"minute: "/10" has nothing before the slash; write "*/10""#);
        check(
            "5/10 * * * *",
            r#"minute: "5/10" has a single value before the slash; write "5-59/10" to begin there, or "*/10""#,
        );
        check("1,2,77 * * * *", r#"minute: "77" is not between 0 and 59"#);
        check("0 0 * * 5#6", r##"weekday: "5#6" asks for number "6" of a weekday in a month; write #1 to #5, or #L"##);
        check("0 0 32W * *", r#"day: "32W" is not between 1 and 31"#);
    }

    #[test]
    fn the_wrong_number_of_fields_is_told_with_their_order() {
        check("", &format!("is empty; it takes five fields: {ORDER}"));
        check("* * * *", &format!(r#""* * * *" has 4 fields; it takes five fields: {ORDER}; six begin with seconds"#));
        check("daily", &format!(r#""daily" has 1 field; it takes five fields: {ORDER}; six begin with seconds"#));
        check("@dayly", &format!(r#""@dayly" is not one of {}; did you mean @daily?"#, NICKNAMES.join(", ")));
        check("@reboot", &format!(r#""@reboot" is not one of {}"#, NICKNAMES.join(", ")));
    }

    #[test]
    fn nothing_that_can_be_read_has_a_problem() {
        for cron in [
            "* * * * *",
            "*/5 * * * *",
            "0 0 1,15 * *",
            "0 0 L * *",
            "0 0 LW * *",
            "0 0 15W * *",
            "0 0 * * 5L",
            "0 0 * * FRI#2",
            "0 0 * * mon-fri",
            "0 0 ? * SUN",
            "0 9-17/2 * JAN-MAR *",
            "0 0 * * FRI-SUN",
            "0 0 13 * +5",
            "0 0 0 1 1 * 2030",
        ] {
            assert!(parse(cron).is_ok(), "{cron}");
            let parts: Vec<&str> = cron.split_whitespace().collect();
            let fields: &[&Field] = if parts.len() == 5 { &FIVE } else { &SEVEN };
            for (field, part) in fields.iter().zip(parts) {
                assert_eq!(field.problem(part), None, "{cron}");
            }
        }
    }
}
