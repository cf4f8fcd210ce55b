//! Where the nodes of a flow are drawn: in layers from left to right, each node after all nodes with an edge to it.
//! Pictures and the console use the same.

use std::collections::BTreeMap;

use crate::http::flows::graph::Flow;

pub const NODE_WIDTH: f64 = 180.0;
pub const NODE_HEIGHT: f64 = 44.0;
/// Between layers, which the edges cross, and between the nodes of one.
pub const GAP_X: f64 = 60.0;
pub const GAP_Y: f64 = 16.0;
const MARGIN: f64 = 20.0;
/// How often each layer is sorted by its neighbours; further rounds move little.
const ROUNDS: usize = 4;

/// Places all nodes, and sets the size of the whole.
pub fn place(flow: &mut Flow) {
    let edges = edges(flow);
    let layers = layers(flow.nodes.len(), &edges);
    let rows = rows(&layers, &edges);
    for ((node, layer), row) in flow.nodes.iter_mut().zip(&layers).zip(&rows) {
        node.x = MARGIN + *layer as f64 * (NODE_WIDTH + GAP_X);
        node.y = MARGIN + row * (NODE_HEIGHT + GAP_Y);
    }
    let right = flow.nodes.iter().map(|node| node.x).fold(0.0, f64::max);
    let low = flow.nodes.iter().map(|node| node.y).fold(0.0, f64::max);
    (flow.node_width, flow.node_height) = (NODE_WIDTH, NODE_HEIGHT);
    (flow.width, flow.height) = (right + NODE_WIDTH + MARGIN, low + NODE_HEIGHT + MARGIN);
}

/// The edges between nodes that are shown, by their places in the list.
fn edges(flow: &Flow) -> Vec<(usize, usize)> {
    let index: BTreeMap<&str, usize> = flow.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
    let known = |id: &String| index.get(id.as_str()).copied();
    flow.edges.iter().filter_map(|edge| Some((known(&edge.from)?, known(&edge.to)?))).collect()
}

/// The layer of each node. Edges never form a cycle; if one is read anyway, its nodes keep their layers.
fn layers(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layer = vec![0usize; nodes];
    for _ in 0..nodes {
        let mut moved = false;
        for (from, to) in edges {
            if layer[*to] <= layer[*from] && layer[*from] + 1 < nodes {
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

/// How far down each node is, in rows. The nodes of a layer are sorted by where their neighbours are, alternately from
/// the left and from the right, so that few edges cross; then each layer is centred on the highest.
fn rows(layers: &[usize], edges: &[(usize, usize)]) -> Vec<f64> {
    let (mut before, mut after) = (vec![Vec::new(); layers.len()], vec![Vec::new(); layers.len()]);
    for (from, to) in edges {
        before[*to].push(*from);
        after[*from].push(*to);
    }
    let last = layers.iter().copied().max().unwrap_or(0);
    let mut columns: Vec<Vec<usize>> =
        (0..=last).map(|layer| (0..layers.len()).filter(|at| layers[*at] == layer).collect()).collect();
    let mut row: Vec<f64> = vec![0.0; layers.len()];
    let number = |column: &[usize], row: &mut Vec<f64>| {
        column.iter().enumerate().for_each(|(number, at)| row[*at] = number as f64);
    };
    columns.iter().for_each(|column| number(column, &mut row));
    for round in 0..ROUNDS {
        let near = if round % 2 == 0 { &before } else { &after };
        for step in 0..columns.len() {
            let column = &mut columns[if round % 2 == 0 { step } else { last - step }];
            // A node without neighbours on that side stays where it is.
            let middle = |at: &usize| match near[*at].len() {
                0 => row[*at],
                count => near[*at].iter().map(|other| row[*other]).sum::<f64>() / count as f64,
            };
            column.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
            number(column, &mut row);
        }
    }
    let highest = columns.iter().map(Vec::len).max().unwrap_or(0);
    for column in &columns {
        let above = (highest - column.len()) as f64 / 2.0;
        column.iter().for_each(|at| row[*at] += above);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(nodes: usize, edges: &[(usize, usize)]) -> (Vec<usize>, Vec<f64>) {
        let layers = layers(nodes, edges);
        let rows = rows(&layers, edges);
        (layers, rows)
    }

    #[test]
    fn each_node_is_placed_after_all_nodes_with_an_edge_to_it() {
        let (layers, rows) = rows_of(4, &[(3, 1), (3, 2), (1, 0), (2, 0), (3, 0)]);
        assert_eq!(layers, [2, 1, 1, 0]);
        assert_ne!(rows[1], rows[2], "no two nodes overlap");
        assert_eq!((rows[0], rows[3]), (0.5, 0.5), "one node is in the middle beside two");
        rows_of(2, &[(0, 1), (1, 0)]);
        assert_eq!(rows_of(0, &[]), (vec![], vec![]));
    }

    #[test]
    fn nodes_are_beside_their_neighbours_so_that_edges_do_not_cross() {
        // Three jobs and what follows each, listed the other way round.
        let (_, rows) = rows_of(6, &[(0, 5), (1, 4), (2, 3)]);
        assert_eq!((rows[0], rows[1], rows[2]), (rows[5], rows[4], rows[3]));
        // What leads to the same node is together, wherever it was in the list.
        let (_, rows) = rows_of(6, &[(0, 4), (1, 5), (2, 4), (3, 5)]);
        assert!((rows[0] - rows[2]).abs() <= 1.0 && (rows[1] - rows[3]).abs() <= 1.0, "{rows:?}");
    }
}
