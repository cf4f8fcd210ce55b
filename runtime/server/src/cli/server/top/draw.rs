//! Draws the dashboard. A small terminal shows only the queues, a larger one also the rest.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState};
use serde_json::Value;

use crate::cli::server::top::layout;
use crate::cli::server::top::layout::Column;
use crate::cli::server::top::view::{SORTS, View};
use crate::http::PAUSED;

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const SOFT: Style = Style::new().fg(Color::DarkGray);
/// With fewer lines than the first, there is only room for queues; with fewer than the second, also for jobs.
const SMALL: u16 = 16;
const MEDIUM: u16 = 26;
/// The width of ` plugins (100) `.
const TITLE: u16 = 15;

pub fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(summary(view), top);
    frame.render_widget(footer(view), bottom);
    let height = frame.area().height;
    let parts = match height {
        0..SMALL => vec![Constraint::Min(1)],
        SMALL..MEDIUM => vec![Constraint::Fill(1), Constraint::Fill(1)],
        _ => vec![Constraint::Fill(2), Constraint::Fill(2), Constraint::Fill(1)],
    };
    let areas = Layout::vertical(parts).split(middle);
    queues(frame, areas[0], view);
    if let Some(area) = areas.get(1) {
        jobs(frame, *area, view);
    }
    if let Some(area) = areas.get(2) {
        workers_and_plugins(frame, *area, view);
    }
}

fn summary(view: &View) -> Line<'static> {
    let stats = &view.now.stats;
    let rate: f64 = view.now.queues.iter().filter_map(|queue| queue["completed_per_second"].as_f64()).sum();
    let paused = if view.now.paused { format!("  {PAUSED}") } else { String::new() };
    let success = match stats["success_rate"].as_f64() {
        Some(share) => format!("  success {:.1} %", share * 100.0),
        None => String::new(),
    };
    Line::from(vec![
        Span::styled(format!("windlass {}", view.now.version), HEAD),
        Span::styled(paused, Style::new().fg(Color::Yellow)),
        Span::raw(format!(
            "  pending {}  active {}  dead {}  {rate:.1}/s  completed in total {}{success}",
            text(&stats["pending"]),
            text(&stats["active"]),
            text(&stats["dead"]),
            text(&stats["totals"]["completed"]),
        )),
    ])
}

fn footer(view: &View) -> Line<'static> {
    if let Some(trouble) = &view.trouble {
        return Line::styled(trouble.clone(), Style::new().fg(Color::Red));
    }
    let (sort, _) = SORTS[view.sort];
    Line::styled(format!("q quit  ↑↓ select  p pause/resume  s sort ({sort})"), SOFT)
}

/// In the order in which they are shown; the ranks decide which are left out first.
const QUEUES: [Column; 13] = [
    Column { title: "QUEUE", rank: 0, least: 16 },
    Column { title: "PENDING", rank: 1, least: 7 },
    Column { title: "ACTIVE", rank: 2, least: 6 },
    Column { title: "RETRYING", rank: 7, least: 8 },
    Column { title: "SCHEDULED", rank: 8, least: 9 },
    Column { title: "HELD", rank: 9, least: 4 },
    Column { title: "DEAD", rank: 3, least: 4 },
    Column { title: "IN/S", rank: 6, least: 4 },
    Column { title: "DONE/S", rank: 5, least: 6 },
    Column { title: "FAILED/S", rank: 10, least: 8 },
    Column { title: "COMPLETED", rank: 12, least: 9 },
    Column { title: "SERVED BY", rank: 11, least: 10 },
    // Whether it is paused or draining.
    Column { title: "", rank: 4, least: 8 },
];

fn queues(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let rows: Vec<Vec<String>> = view.now.queues.iter().map(queue).collect();
    let (head, rows, widths) = arrange(&QUEUES, rows, area.width);
    let rows = rows.into_iter().zip(&view.now.queues).map(|(cells, queue)| {
        let cells = cells.into_iter().map(|(title, text)| {
            let is_bad = title == "DEAD" && queue["dead"].as_u64() > Some(0);
            Cell::new(text).style(if is_bad { Style::new().fg(Color::Red) } else { Style::new() })
        });
        let row = Row::new(cells);
        if mark(queue).is_empty() { row } else { row.style(Style::new().fg(Color::Yellow)) }
    });
    let table = Table::new(rows, widths)
        .column_spacing(layout::GAP)
        .header(Row::new(head).style(HEAD))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(titled("queues", view.now.queues.len()));
    let mut state = TableState::new().with_selected(view.place());
    frame.render_stateful_widget(table, area, &mut state);
}

/// The cells of a queue, as in [`QUEUES`].
fn queue(queue: &Value) -> Vec<String> {
    vec![
        text(&queue["name"]),
        text(&queue["pending"]),
        text(&queue["active"]),
        text(&queue["retrying"]),
        text(&queue["scheduled"]),
        text(&queue["held"]),
        text(&queue["dead"]),
        rate(&queue["enqueued_per_second"]),
        rate(&queue["completed_per_second"]),
        rate(&queue["failed_attempts_per_second"]),
        text(&queue["completed"]),
        text(&queue["served_by"]),
        mark(queue).to_owned(),
    ]
}

fn mark(queue: &Value) -> &'static str {
    match (queue["draining"].as_bool(), queue["paused"].as_bool()) {
        (Some(true), _) => "draining",
        (_, Some(true)) => "paused",
        _ => "",
    }
}

const JOBS: [Column; 6] = [
    Column { title: "JOB", rank: 0, least: 30 },
    Column { title: "QUEUE", rank: 1, least: 14 },
    Column { title: "RUNS ON", rank: 4, least: 12 },
    Column { title: "ATTEMPT", rank: 7, least: 7 },
    Column { title: "PROGRESS", rank: 2, least: 16 },
    // The message of its progress.
    Column { title: "", rank: 3, least: 10 },
];

fn jobs(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let rows = view.now.jobs.iter().map(|job| {
        let progress = &job["progress"];
        let who = if job["plugin"].is_string() { &job["plugin"] } else { &job["worker_id"] };
        let message = [&progress["phase"], &progress["message"]].map(text).join(" ");
        let (id, queue, attempt) = (text(&job["id"]), text(&job["queue"]), text(&job["attempt"]));
        vec![id, queue, text(who), attempt, bar(progress), message.trim().to_owned()]
    });
    let (head, rows, widths) = arrange(&JOBS, rows.collect(), area.width);
    let rows = rows.into_iter().map(|cells| Row::new(cells.into_iter().map(|(_, text)| text)));
    let table = Table::new(rows, widths)
        .column_spacing(layout::GAP)
        .header(Row::new(head).style(HEAD))
        .block(titled("running jobs", view.now.jobs.len()));
    frame.render_widget(table, area);
}

/// The cells of one row that are shown, each with the title of its column.
type Cells = Vec<(&'static str, String)>;

/// Titles, rows and widths of the columns that fit.
fn arrange(columns: &[Column], rows: Vec<Vec<String>>, width: u16) -> (Vec<&'static str>, Vec<Cells>, Vec<Constraint>) {
    let longest = |index: usize| rows.iter().map(|row| layout::length(&row[index])).max().unwrap_or(0);
    let contents: Vec<u16> = (0..columns.len()).map(longest).collect();
    let fitted = layout::fit(columns, &contents, width);
    let head = fitted.iter().map(|(index, _)| columns[*index].title).collect();
    let shown = |row: &Vec<String>| -> Cells {
        fitted.iter().map(|(index, width)| (columns[*index].title, layout::cut(&row[*index], *width))).collect()
    };
    let widths = fitted.iter().map(|(_, width)| Constraint::Length(*width)).collect();
    (head, rows.iter().map(shown).collect(), widths)
}

fn workers(view: &View) -> Vec<String> {
    let lines = view.now.workers.iter().map(|worker| {
        let held = worker["jobs"].as_array().map_or(0, Vec::len);
        let drains = if worker["draining"] == true { "  draining" } else { "" };
        let host = Some(text(&worker["hostname"])).filter(|host| !host.is_empty());
        let host = host.map_or_else(String::new, |host| format!("@{host}"));
        format!("{}{host}  {held} jobs{drains}", text(&worker["id"]))
    });
    lines.collect()
}

fn plugins(view: &View) -> Vec<String> {
    let lines = view.now.plugins.iter().map(|plugin| {
        let version: String = text(&plugin["active"]).chars().take(12).collect();
        let queues = plugin["queues"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", ");
        format!("{} {version}  {queues}", text(&plugin["name"]))
    });
    lines.collect()
}

/// Workers and plugins side by side, each as wide as it needs.
fn workers_and_plugins(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let (workers, plugins) = (workers(view), plugins(view));
    // The titles must be legible too.
    let longest = |lines: &[String]| lines.iter().map(|line| layout::length(line)).max().unwrap_or(0).max(TITLE);
    let left = layout::halves(longest(&workers), longest(&plugins), area.width);
    let areas: [Rect; 2] = Layout::horizontal([Constraint::Length(left), Constraint::Fill(1)]).areas(area);
    for (name, lines, area) in [("workers", workers, areas[0]), ("plugins", plugins, areas[1])] {
        let shown: Vec<Line<'_>> = lines.iter().map(|line| Line::raw(layout::cut(line, area.width))).collect();
        frame.render_widget(Paragraph::new(shown).block(titled(name, lines.len())), area);
    }
}

fn titled(name: &str, count: usize) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(format!(" {name} ({count}) "))
}

/// `████░░░░  50 %`, or empty if there is no progress.
fn bar(progress: &Value) -> String {
    let counted = progress["current"].as_f64().zip(progress["total"].as_f64().filter(|total| *total > 0.0));
    let percent = progress["percent"].as_f64().or(counted.map(|(current, total)| current / total * 100.0));
    let Some(percent) = percent.filter(|percent| percent.is_finite()) else { return String::new() };
    let percent = percent.clamp(0.0, 100.0);
    let full = (percent / 10.0).round() as usize;
    format!("{}{} {percent:>3.0} %", "█".repeat(full), "░".repeat(10 - full))
}

fn rate(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::*;
    use crate::cli::server::top::view::Snapshot;

    fn screen(width: u16, height: u16) -> String {
        let mut view = View::new(Snapshot::read(&json!({
            "server_version": "0.1.0",
            "paused": true,
            "stats": {"pending": 3, "active": 1, "dead": 1, "totals": {"completed": 10}, "success_rate": 0.9},
            "queues": [{"name": "mail", "pending": 3, "active": 1, "dead": 1, "paused": true, "completed_per_second": 2.0}],
            "jobs": [{"id": "job_1", "queue": "mail", "worker_id": "ann", "progress": {"current": 1, "total": 2, "phase": "send"}}],
            "workers": [{"id": "ann", "hostname": "host", "jobs": ["job_1"], "draining": true}],
            "plugins": [{"name": "digest", "active": "0123456789abcdef", "queues": ["digest"]}],
        })));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        terminal.draw(|frame| draw(frame, &mut view)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn a_large_terminal_shows_everything() {
        let screen = screen(160, 40);
        for text in [
            "mail",
            "nothing starts until `windlass resume`",
            "paused",
            "job_1",
            "█████░░░░░  50 %",
            "ann@host",
            "draining",
            "digest",
            "active 1  dead 1 ",
            "completed in total 10",
            "success 90.0 %",
            "q quit",
        ] {
            assert!(screen.contains(text), "{text} is missing:\n{screen}");
        }
    }

    #[test]
    fn long_names_are_whole_while_there_is_room_and_a_wide_terminal_shows_more() {
        let name = "customers.reports.monthly.very-long-name";
        let shown = |width: u16| {
            let queue = json!({"name": name, "pending": 3, "active": 1, "dead": 1, "retrying": 2, "completed": 7, "served_by": "digest"});
            let job = json!({"id": "job_1", "queue": name, "worker_id": "ann", "attempt": 1});
            let mut view = View::new(Snapshot::read(&json!({"queues": [queue], "jobs": [job]})));
            let mut terminal = Terminal::new(TestBackend::new(width, 20)).expect("a screen");
            terminal.draw(|frame| draw(frame, &mut view)).expect("drawn");
            terminal.backend().to_string()
        };
        let wide = shown(200);
        assert_eq!(wide.matches(name).count(), 2, "{wide}");
        assert!(wide.contains("SERVED BY") && wide.contains("COMPLETED") && wide.contains("RETRYING"), "{wide}");
        let medium = shown(120);
        assert_eq!(medium.matches(name).count(), 2, "{medium}");
        let narrow = shown(60);
        assert!(narrow.contains("PENDING") && narrow.contains("DEAD") && !narrow.contains("COMPLETED"), "{narrow}");
        assert!(narrow.contains('…'), "{narrow}");
    }

    #[test]
    fn a_small_terminal_shows_the_queues_and_no_size_breaks_it() {
        let small = screen(50, 10);
        assert!(small.contains("mail") && !small.contains("job_1"), "{small}");
        for (width, height) in [(1, 1), (3, 2), (10, 5), (20, 17), (200, 3)] {
            screen(width, height);
        }
    }
}
