//! A flow as a picture: Graphviz dot, or an SVG with our own layout. Layers run from left to right: each node is placed after all
//! nodes with an edge to it.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::http::flows::graph::{Flow, FlowNode};

/// The layer of each node. Edges never form a cycle; if one is read anyway, its nodes keep their layers.
pub fn layers(flow: &Flow) -> Vec<usize> {
    let index: BTreeMap<&str, usize> = flow.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
    let edges: Vec<(usize, usize)> = flow
        .edges
        .iter()
        .filter_map(|edge| Some((*index.get(edge.from.as_str())?, *index.get(edge.to.as_str())?)))
        .collect();
    let mut layer = vec![0usize; flow.nodes.len()];
    for _ in 0..flow.nodes.len() {
        let mut moved = false;
        for (from, to) in &edges {
            if layer[*to] <= layer[*from] && layer[*from] + 1 < flow.nodes.len() {
                layer[*to] = layer[*from] + 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    layer
}

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

const WIDTH: f64 = 180.0;
const HEIGHT: f64 = 44.0;
const GAP_X: f64 = 60.0;
const GAP_Y: f64 = 16.0;

pub fn svg(flow: &Flow) -> String {
    let positions = positions(flow);
    let extent = |from: usize| {
        positions.iter().map(|position| if from == 0 { position.0 } else { position.1 }).fold(0.0, f64::max)
    };
    let (width, height) = (extent(0) + WIDTH + 40.0, extent(1) + HEIGHT + 40.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#667\"/></marker></defs>\n"
    );
    let index: BTreeMap<&str, usize> = flow.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
    for edge in &flow.edges {
        let (Some(from), Some(to)) = (index.get(edge.from.as_str()), index.get(edge.to.as_str())) else { continue };
        let (x1, y1) = (positions[*from].0 + WIDTH, positions[*from].1 + HEIGHT / 2.0);
        let (x2, y2) = (positions[*to].0, positions[*to].1 + HEIGHT / 2.0);
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
    for (node, (x, y)) in flow.nodes.iter().zip(&positions) {
        node_svg(&mut out, node, *x, *y);
    }
    out.push_str("</svg>\n");
    out
}

fn node_svg(out: &mut String, node: &FlowNode, x: f64, y: f64) {
    let label: String = node.label.chars().take(26).collect();
    let _ = writeln!(
        out,
        "<g transform=\"translate({x} {y})\"><title>{}: {}</title><rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" fill=\"{}\" stroke=\"#445\"/>\
         <text x=\"10\" y=\"18\">{}</text><text x=\"10\" y=\"34\" fill=\"#334\">{} {:.0} %</text></g>",
        markup(&node.id),
        markup(&node.label),
        colour(&node.state),
        markup(&label),
        markup(&node.state),
        node.percent
    );
}

/// The position of each node: its layer horizontally, its rank in the layer vertically. Nodes with the same neighbours are near each other.
fn positions(flow: &Flow) -> Vec<(f64, f64)> {
    let layer = layers(flow);
    let index: BTreeMap<&str, usize> = flow.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); flow.nodes.len()];
    for edge in &flow.edges {
        if let (Some(from), Some(to)) = (index.get(edge.from.as_str()), index.get(edge.to.as_str())) {
            before[*to].push(*from);
        }
    }
    let mut down = vec![0.0f64; flow.nodes.len()];
    for column in 0..=layer.iter().copied().max().unwrap_or(0) {
        let mut nodes: Vec<usize> = (0..layer.len()).filter(|at| layer[*at] == column).collect();
        let wanted = |at: &usize| match before[*at].len() {
            0 => *at as f64,
            count => before[*at].iter().map(|from| down[*from]).sum::<f64>() / count as f64,
        };
        nodes.sort_by(|a, b| wanted(a).total_cmp(&wanted(b)));
        for (row, at) in nodes.into_iter().enumerate() {
            down[at] = row as f64;
        }
    }
    let place = |at: usize| (20.0 + layer[at] as f64 * (WIDTH + GAP_X), 20.0 + down[at] * (HEIGHT + GAP_Y));
    (0..layer.len()).map(place).collect()
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
    use crate::http::flows::graph::FlowEdge;

    fn flow(nodes: &[&str], edges: &[(&str, &str)]) -> Flow {
        let node = |id: &&str| FlowNode {
            id: (*id).to_owned(),
            kind: "job",
            label: format!("queue <{id}>"),
            state: "active".to_owned(),
            percent: 50.0,
        };
        let edge = |(from, to): &(&str, &str)| FlowEdge { from: (*from).into(), to: (*to).into(), kind: "needs" };
        Flow {
            id: "x".into(),
            nodes: nodes.iter().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
            truncated: false,
        }
    }

    #[test]
    fn each_node_is_placed_after_all_nodes_with_an_edge_to_it() {
        let diamond = flow(&["d", "b", "c", "a"], &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")]);
        assert_eq!(layers(&diamond), [2, 1, 1, 0]);
        let positions = positions(&diamond);
        assert_ne!(positions[1], positions[2], "no two nodes overlap");
        layers(&flow(&["a", "b"], &[("a", "b"), ("b", "a")]));
    }

    #[test]
    fn names_are_escaped_in_both_forms() {
        let one = flow(&["a\"b"], &[]);
        assert!(dot(&one).contains("\"a\\\"b\" [label=\"queue <a\\\"b>\\nactive\""), "{}", dot(&one));
        let picture = svg(&one);
        assert!(picture.contains("queue &lt;a&quot;b&gt;") && picture.ends_with("</svg>\n"), "{picture}");
    }
}
