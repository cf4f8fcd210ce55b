//! How the dashboard looks. A small terminal gets the queues, a larger one the rest besides.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState};
use serde_json::Value;

use super::view::{SORTS, View};
use crate::http::PAUSED;

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const SOFT: Style = Style::new().fg(Color::DarkGray);
/// Below these many lines there is only room for queues; below the second, also for jobs.
const SMALL: u16 = 16;
const MEDIUM: u16 = 26;

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
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(*area);
        workers(frame, left, view);
        plugins(frame, right, view);
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
            "  pending {}  running {}  dead {}  {rate:.1}/s  completed in total {}{success}",
            text(&stats["pending"]),
            text(&stats["processing"]),
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

fn queues(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let rows = view.now.queues.iter().map(|queue| {
        let mark = match (queue["draining"].as_bool(), queue["paused"].as_bool()) {
            (Some(true), _) => "draining",
            (_, Some(true)) => "paused",
            _ => "",
        };
        let dead = Cell::new(text(&queue["dead"]));
        let dead = if queue["dead"].as_u64() > Some(0) { dead.style(Style::new().fg(Color::Red)) } else { dead };
        let row = Row::new([
            Cell::new(text(&queue["name"])),
            Cell::new(text(&queue["pending"])),
            Cell::new(text(&queue["active"])),
            Cell::new(rate(&queue["enqueued_per_second"])),
            Cell::new(rate(&queue["completed_per_second"])),
            dead,
            Cell::new(mark),
        ]);
        if mark.is_empty() { row } else { row.style(Style::new().fg(Color::Yellow)) }
    });
    let widths = [
        Constraint::Min(12),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(8),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(["QUEUE", "PENDING", "ACTIVE", "IN/S", "DONE/S", "DEAD", ""]).style(HEAD))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(titled("queues", view.now.queues.len()));
    let mut state = TableState::new().with_selected(view.place());
    frame.render_stateful_widget(table, area, &mut state);
}

fn jobs(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let rows = view.now.jobs.iter().map(|job| {
        let progress = &job["progress"];
        let who = if job["plugin"].is_string() { &job["plugin"] } else { &job["worker_id"] };
        let words = [&progress["phase"], &progress["message"]].map(text).join(" ");
        Row::new([text(&job["id"]), text(&job["queue"]), text(who), bar(progress), words.trim().to_owned()])
    });
    let widths = [
        Constraint::Length(30),
        Constraint::Length(14),
        Constraint::Length(12),
        Constraint::Length(17),
        Constraint::Min(10),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(["JOB", "QUEUE", "RUNS ON", "PROGRESS", ""]).style(HEAD))
        .block(titled("running jobs", view.now.jobs.len()));
    frame.render_widget(table, area);
}

fn workers(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let lines = view.now.workers.iter().map(|worker| {
        let held = worker["jobs"].as_array().map_or(0, Vec::len);
        let drains = if worker["draining"] == true { "  draining" } else { "" };
        let host = Some(text(&worker["hostname"])).filter(|host| !host.is_empty());
        let host = host.map_or_else(String::new, |host| format!("@{host}"));
        Line::raw(format!("{}{host}  {held} jobs{drains}", text(&worker["id"])))
    });
    let list = Paragraph::new(lines.collect::<Vec<_>>()).block(titled("workers", view.now.workers.len()));
    frame.render_widget(list, area);
}

fn plugins(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let lines = view.now.plugins.iter().map(|plugin| {
        let version: String = text(&plugin["active"]).chars().take(12).collect();
        let queues = plugin["queues"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", ");
        Line::raw(format!("{} {version}  {queues}", text(&plugin["name"])))
    });
    let list = Paragraph::new(lines.collect::<Vec<_>>()).block(titled("plugins", view.now.plugins.len()));
    frame.render_widget(list, area);
}

fn titled(name: &str, count: usize) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(format!(" {name} ({count}) "))
}

/// `████░░░░  50 %`, or nothing when nothing is known.
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

    use super::super::view::Snapshot;
    use super::*;

    fn screen(width: u16, height: u16) -> String {
        let mut view = View::new(Snapshot::read(&json!({
            "server_version": "0.1.0",
            "paused": true,
            "stats": {"pending": 3, "processing": 1, "dead": 1, "totals": {"completed": 10}, "success_rate": 0.9},
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
    fn a_large_terminal_shows_all_of_it() {
        let screen = screen(160, 40);
        for word in [
            "mail",
            "nothing starts until `windlass resume`",
            "paused",
            "job_1",
            "█████░░░░░  50 %",
            "ann@host",
            "draining",
            "digest",
            "running 1  dead 1 ",
            "completed in total 10",
            "success 90.0 %",
            "q quit",
        ] {
            assert!(screen.contains(word), "{word} is missing:\n{screen}");
        }
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
