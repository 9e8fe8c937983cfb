//! An object of two axes that is divided into blocks, one for each fragment.

use drepl::{Bindings, IndexBox, Progression};
use stillframe_roster::writer::{Node, Writer};
use stillframe_wire::data::FragmentText;

/// Elements of a block along each axis.
const BLOCK: u64 = 16;

/// How the blocks lie.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Nodes.
    pub nodes: u32,
    /// Fragments, which is blocks.
    pub fragments: u32,
    columns: u32,
}

impl Grid {
    /// As many columns as rows, or a few more.
    pub fn new(nodes: u32, fragments: u32) -> Self {
        let is_rows = |rows: &u32| fragments.is_multiple_of(*rows) && rows * rows <= fragments;
        let rows = (1..=fragments).take_while(|rows| rows * rows <= fragments).filter(is_rows).last().unwrap_or(1);
        Self { nodes, fragments, columns: fragments / rows }
    }

    /// All elements of the object.
    pub fn shape(&self) -> IndexBox {
        let rows = self.fragments / self.columns;
        elements([(0, u64::from(rows) * BLOCK), (0, u64::from(self.columns) * BLOCK)])
    }

    /// The elements of a fragment.
    pub fn block(&self, fragment: u32) -> IndexBox {
        elements(self.corner(fragment).map(|start| (start, start + BLOCK)))
    }

    /// A fragment's elements with those of its neighbours below and to the right, as one that is read.
    pub fn neighbourhood(&self, fragment: u32) -> IndexBox {
        let ends = [self.fragments / self.columns, self.columns].map(|blocks| u64::from(blocks) * BLOCK);
        let [y, x] = self.corner(fragment);
        elements([(y, ends[0].min(y + 2 * BLOCK)), (x, ends[1].min(x + 2 * BLOCK))])
    }

    /// How a fragment lies, as its program says it.
    pub fn text(&self, fragment: u32) -> FragmentText {
        let [y, x] = self.corner(fragment).map(|start| start as i64);
        FragmentText {
            text: "{ var v [y:16,x:16] = u[y+b,x+c] }".into(),
            bindings: Bindings::from([("b", y), ("c", x)]),
        }
    }

    /// The node that writes a fragment.
    pub fn node(&self, fragment: u32) -> Node {
        Node((u64::from(fragment) * u64::from(self.nodes) / u64::from(self.fragments)) as u32)
    }

    /// Who writes a fragment.
    pub fn writer(&self, fragment: u32) -> Writer {
        Writer { node: self.node(fragment), process: fragment, serial: fragment }
    }

    fn corner(&self, fragment: u32) -> [u64; 2] {
        [fragment / self.columns, fragment % self.columns].map(|position| u64::from(position) * BLOCK)
    }
}

/// A box of the only leaf.
fn elements(axes: [(u64, u64); 2]) -> IndexBox {
    let axes = [(0, 1)].into_iter().chain(axes).filter_map(|(start, end)| Progression::range(start, end));
    IndexBox::new(axes).expect("a grid has fewer elements than 64 bits count")
}
