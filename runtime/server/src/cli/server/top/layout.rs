//! How the columns of a table share the width of the terminal: all of it is used, nothing is cut while there is room,
//! and where there is too little the least important columns are left out first.

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    /// The highest is left out first; 0 always stays. From [`EXTRA`] on, it is only shown if nothing has to be cut for
    /// it.
    pub rank: u8,
    /// A longer text may be cut to this width before a column is left out.
    pub least: u16,
}

pub const EXTRA: u8 = 7;
/// Between two columns.
pub const GAP: u16 = 2;

/// The columns that are shown, by index, and how wide each is. `contents` are the lengths of their longest texts.
pub fn fit(columns: &[Column], contents: &[u16], width: u16) -> Vec<(usize, u16)> {
    let natural = |index: usize| contents[index].max(length(columns[index].title));
    let least = |index: usize| natural(index).min(columns[index].least.max(length(columns[index].title)));
    let gaps = |count: usize| GAP.saturating_mul(u16::try_from(count.saturating_sub(1)).unwrap_or(u16::MAX));
    // A column without a title has nothing to show when all its cells are empty.
    let mut shown: Vec<usize> = (0..columns.len()).filter(|index| natural(*index) > 0).collect();
    let sum = |shown: &[usize], of: &dyn Fn(usize) -> u16| {
        shown.iter().fold(gaps(shown.len()), |sum: u16, index| sum.saturating_add(of(*index)))
    };
    let least_important = |shown: &[usize], from: u8| {
        let places = (0..shown.len()).filter(|place| columns[shown[*place]].rank >= from);
        places.max_by_key(|place| columns[shown[*place]].rank)
    };
    while sum(&shown, &natural) > width
        && let Some(place) = least_important(&shown, EXTRA)
    {
        shown.remove(place);
    }
    while sum(&shown, &least) > width
        && let Some(place) = least_important(&shown, 1)
    {
        shown.remove(place);
    }
    let mut left = width.saturating_sub(sum(&shown, &least));
    let mut fitted: Vec<(usize, u16)> = shown.iter().map(|index| (*index, least(*index))).collect();
    // Columns that would be cut grow first, the most important before the others.
    let mut order: Vec<usize> = (0..fitted.len()).collect();
    order.sort_by_key(|place| columns[fitted[*place].0].rank);
    for place in order {
        let (index, width) = fitted[place];
        let more = natural(index).saturating_sub(width).min(left);
        fitted[place].1 += more;
        left -= more;
    }
    spread(&mut fitted, left);
    fitted
}

/// Distributes spare width equally.
fn spread(fitted: &mut [(usize, u16)], left: u16) {
    let Some(count) = u16::try_from(fitted.len()).ok().filter(|count| *count > 0) else { return };
    let (each, rest) = (left / count, usize::from(left % count));
    for (place, (_, width)) in fitted.iter_mut().enumerate() {
        *width += each + u16::from(place < rest);
    }
}

/// How wide the left one of two lists is, for lines of these lengths: both are whole if they can be, else neither gets
/// less than a third.
pub fn halves(left: u16, right: u16, width: u16) -> u16 {
    let (third, gap) = (width / 3, GAP);
    if left.saturating_add(right).saturating_add(gap) <= width {
        return (width / 2).clamp(left + gap, width - right);
    }
    left.saturating_add(gap).clamp(third, (width - third).max(third))
}

/// A text in a cell of this width; one that is cut ends with an ellipsis.
pub fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}

pub fn length(text: &str) -> u16 {
    u16::try_from(text.chars().count()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { title: "QUEUE", rank: 0, least: 12 },
        Column { title: "PENDING", rank: 1, least: 7 },
        Column { title: "SERVED BY", rank: 3, least: 9 },
        Column { title: "", rank: 2, least: 8 },
    ];

    #[track_caller]
    fn check(contents: [u16; 4], width: u16, expected: &[(&str, u16)]) {
        let fitted = fit(&COLUMNS, &contents, width);
        let named: Vec<_> = fitted.iter().map(|(index, width)| (COLUMNS[*index].title, *width)).collect();
        assert_eq!(named, expected, "{contents:?} in {width}");
    }

    #[test]
    fn the_whole_width_is_used_and_nothing_is_cut_while_there_is_room() {
        check([30, 3, 9, 6], 58, &[("QUEUE", 30), ("PENDING", 7), ("SERVED BY", 9), ("", 6)]);
        check([30, 3, 9, 6], 68, &[("QUEUE", 33), ("PENDING", 10), ("SERVED BY", 11), ("", 8)]);
        // A column with neither title nor text has no width.
        check([30, 3, 9, 0], 60, &[("QUEUE", 34), ("PENDING", 10), ("SERVED BY", 12)]);
        for width in 0..300 {
            let fitted = fit(&COLUMNS, &[40, 3, 20, 6], width);
            let used = fitted.iter().map(|(_, width)| width).sum::<u16>() + GAP * (fitted.len() as u16 - 1);
            assert!(used == width || (fitted.len() == 1 && used > width), "{used} of {width}: {fitted:?}");
        }
    }

    #[test]
    fn a_narrow_terminal_cuts_long_names_and_then_loses_the_least_important_columns() {
        check([30, 3, 9, 6], 48, &[("QUEUE", 20), ("PENDING", 7), ("SERVED BY", 9), ("", 6)]);
        check([30, 3, 9, 6], 39, &[("QUEUE", 22), ("PENDING", 7), ("", 6)]);
        check([30, 3, 9, 6], 28, &[("QUEUE", 19), ("PENDING", 7)]);
        check([30, 3, 9, 6], 20, &[("QUEUE", 20)]);
        check([30, 3, 9, 6], 3, &[("QUEUE", 12)]);
    }

    #[test]
    fn an_extra_column_is_left_out_before_anything_is_cut() {
        let extra = Column { title: "COMPLETED", rank: EXTRA, least: 9 };
        let columns = [COLUMNS[0], extra];
        assert_eq!(fit(&columns, &[30, 2], 41), [(0, 30), (1, 9)]);
        assert_eq!(fit(&columns, &[30, 2], 40), [(0, 40)]);
    }

    #[test]
    fn two_lists_side_by_side_are_whole_if_they_can_be() {
        assert_eq!(halves(10, 10, 100), 50);
        assert_eq!(halves(70, 20, 100), 72);
        assert_eq!(halves(10, 80, 100), 20);
        assert_eq!(halves(90, 90, 90), 60);
        assert_eq!(halves(5, 90, 90), 30);
        assert_eq!(halves(5, 5, 0), 0);
    }

    #[test]
    fn a_text_that_is_cut_ends_with_an_ellipsis() {
        assert_eq!(
            (cut("reports", 7), cut("reports", 4), cut("reports", 0)),
            ("reports".into(), "rep…".into(), String::new())
        );
    }
}
