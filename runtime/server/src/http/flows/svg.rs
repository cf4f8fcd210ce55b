//! A flow as a picture: Graphviz dot, or an SVG with our own layout.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::http::flows::graph::{Flow, FlowNode};
use crate::http::flows::layout::{GAP_X, NODE_HEIGHT, NODE_WIDTH};

pub fn dot(flow: &Flow) -> String {
    let mut out = String::from(
        "digraph flow {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n",
    );
    for node in &flow.nodes {
        let label = format!("{}\\n{}", escape(&node.label), escape(&node.state));
        let _ = writeln!(out, "  \"{}\" [label=\"{label}\", fillcolor=\"{}\"];", escape(&node.id), colour(&node.state));
    }
    for edge in &flow.edges {
        let style = if edge.kind == "member" { "dashed" } else { "solid" };
        let _ = writeln!(
            out,
            "  \"{}\" -> \"{}\" [label=\"{}\", style={style}];",
            escape(&edge.from),
            escape(&edge.to),
            edge.kind
        );
    }
    out.push_str("}\n");
    out
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

pub fn svg(flow: &Flow) -> String {
    let Flow { width, height, .. } = flow;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#667\"/></marker></defs>\n"
    );
    let index: BTreeMap<&str, &FlowNode> = flow.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    for edge in &flow.edges {
        let (Some(from), Some(to)) = (index.get(edge.from.as_str()), index.get(edge.to.as_str())) else { continue };
        let (x1, y1) = (from.x + NODE_WIDTH, from.y + NODE_HEIGHT / 2.0);
        let (x2, y2) = (to.x, to.y + NODE_HEIGHT / 2.0);
        let dash = if edge.kind == "member" { " stroke-dasharray=\"4 3\"" } else { "" };
        let bend = GAP_X / 2.0;
        let _ = writeln!(
            out,
            "<path d=\"M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}\" fill=\"none\" stroke=\"#667\"{dash} marker-end=\"url(#a)\"><title>{}</title></path>",
            x1 + bend,
            x2 - bend,
            edge.kind
        );
    }
    for node in &flow.nodes {
        node_svg(&mut out, node);
    }
    out.push_str("</svg>\n");
    out
}

fn node_svg(out: &mut String, node: &FlowNode) {
    let FlowNode { x, y, .. } = node;
    let label: String = node.label.chars().take(26).collect();
    let _ = writeln!(
        out,
        "<g transform=\"translate({x} {y})\"><title>{}: {}</title><rect width=\"{NODE_WIDTH}\" height=\"{NODE_HEIGHT}\" rx=\"6\" fill=\"{}\" stroke=\"#445\"/>\
         <text x=\"10\" y=\"18\">{}</text><text x=\"10\" y=\"34\" fill=\"#334\">{} {:.0} %</text></g>",
        markup(&node.id),
        markup(&node.label),
        colour(&node.state),
        markup(&label),
        markup(&node.state),
        node.percent
    );
}

fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn colour(state: &str) -> &'static str {
    match state {
        "completed" | "finished" => "#cdebd0",
        "active" | "running" => "#cfe2ff",
        "dead" => "#f6c9c9",
        "cancelled" => "#e3e3e3",
        "blocked" | "held" => "#fdf0c4",
        _ => "#ffffff",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_both_forms() {
        let (label, state) = ("queue <a\"b>".to_owned(), "active".to_owned());
        let node = FlowNode { id: "a\"b".to_owned(), kind: "job", label, state, ..FlowNode::default() };
        let one = Flow { nodes: vec![node], ..Flow::default() };
        assert!(dot(&one).contains("\"a\\\"b\" [label=\"queue <a\\\"b>\\nactive\""), "{}", dot(&one));
        let picture = svg(&one);
        assert!(picture.contains("queue &lt;a&quot;b&gt;") && picture.ends_with("</svg>\n"), "{picture}");
    }
}
