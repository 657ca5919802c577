//! Multi-string search: an Aho–Corasick automaton that reports, at each byte where values end, the longest of them. For
//! any values, building takes at most 256 steps per byte of them, and a search at most 512 steps per byte of text. A
//! library's automaton reports every value that ends at a byte, and its lists grow with the square of values that end
//! alike.

/// Compiled values.
pub(super) struct Finder {
    nodes: Vec<Node>,
    /// Node of each first byte; 0 for none.
    first: Box<[u32; 256]>,
}

/// A common prefix of values.
#[derive(Clone, Default)]
struct Node {
    byte: u8,
    child: u32,
    sibling: u32,
    /// Node of the longest proper suffix that is also a prefix of a value.
    fallback: u32,
    /// Bytes of the longest value that ends here; 0 for none.
    length: u32,
    /// Index of that value.
    value: u32,
}

const ROOT: u32 = 0;

impl Finder {
    /// Compiles `values`; an empty one is never found. Their total is under 4 GiB.
    pub(super) fn new<'v>(values: impl IntoIterator<Item = &'v str>) -> Self {
        let mut finder = Self { nodes: vec![Node::default()], first: Box::new([ROOT; 256]) };
        for (value, text) in values.into_iter().enumerate() {
            let last = text.bytes().fold(ROOT, |node, byte| finder.grown(node, byte));
            if last != ROOT {
                let node = &mut finder.nodes[last as usize];
                (node.length, node.value) = (text.len() as u32, value as u32);
            }
        }
        finder.link();
        finder
    }

    /// Calls `found` with start, end and index of the longest value that ends at each byte, in order of the end;
    /// returns the number of steps.
    pub(super) fn each(&self, text: &str, mut found: impl FnMut(usize, usize, usize)) -> u64 {
        let (mut node, mut steps) = (ROOT, 0);
        for (at, byte) in text.bytes().enumerate() {
            node = self.next(node, byte, &mut steps);
            if node != ROOT {
                let Node { length, value, .. } = self.nodes[node as usize];
                if length > 0 {
                    found(at + 1 - length as usize, at + 1, value as usize);
                }
            }
        }
        steps
    }

    /// True if any value occurs in `text`.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let mut any = false;
        self.each(text, |_, _, _| any = true);
        any
    }

    fn next(&self, mut node: u32, byte: u8, steps: &mut u64) -> u32 {
        loop {
            *steps += 1;
            if node == ROOT {
                return self.first[usize::from(byte)];
            }
            match self.child(node, byte, steps) {
                ROOT => node = self.nodes[node as usize].fallback,
                child => return child,
            }
        }
    }

    fn child(&self, node: u32, byte: u8, steps: &mut u64) -> u32 {
        let mut child = self.nodes[node as usize].child;
        while child != ROOT && self.nodes[child as usize].byte != byte {
            child = self.nodes[child as usize].sibling;
            *steps += 1;
        }
        child
    }

    fn grown(&mut self, node: u32, byte: u8) -> u32 {
        let known = if node == ROOT { self.first[usize::from(byte)] } else { self.child(node, byte, &mut 0) };
        if known != ROOT {
            return known;
        }
        let new = self.nodes.len() as u32;
        let sibling = if node == ROOT { ROOT } else { std::mem::replace(&mut self.nodes[node as usize].child, new) };
        if node == ROOT {
            self.first[usize::from(byte)] = new;
        }
        self.nodes.push(Node { byte, sibling, ..Node::default() });
        new
    }

    /// Sets the fallbacks level by level, and the values that end inside longer ones.
    fn link(&mut self) {
        let mut queue: Vec<u32> = self.first.iter().copied().filter(|node| *node != ROOT).collect();
        let mut at = 0;
        while let Some(&parent) = queue.get(at) {
            at += 1;
            let mut child = self.nodes[parent as usize].child;
            while child != ROOT {
                let byte = self.nodes[child as usize].byte;
                let fallback = self.next(self.nodes[parent as usize].fallback, byte, &mut 0);
                let Node { length, value, .. } = self.nodes[fallback as usize];
                let node = &mut self.nodes[child as usize];
                node.fallback = fallback;
                if node.length == 0 {
                    (node.length, node.value) = (length, value);
                }
                queue.push(child);
                child = node.sibling;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[&str], text: &str) -> Vec<String> {
        let mut all = Vec::new();
        Finder::new(values.iter().copied()).each(text, |from, to, value| {
            assert_eq!(&text[from..to], values[value]);
            all.push(format!("{from}:{}", values[value]));
        });
        all
    }

    #[test]
    fn the_longest_value_that_ends_at_a_byte_is_found() {
        assert_eq!(found(&["he", "she", "hers", ""], "ushers"), ["1:she", "2:hers"]);
        assert_eq!(found(&["abcd", "cdef", "bc"], "abcdef"), ["1:bc", "0:abcd", "2:cdef"]);
        assert_eq!(found(&["aa", "aaa"], "aaaa"), ["0:aa", "0:aaa", "1:aaa"]);
        assert_eq!(found(&["ünï"], "x ünï ü"), ["2:ünï"]);
        assert!(found(&[], "anything").is_empty());
    }

    /// Values that begin, end and overlap alike are the worst case of an automaton.
    #[test]
    fn the_steps_grow_with_the_text_and_not_with_the_values() {
        let nested: Vec<String> = (1..2000).map(|length| "a".repeat(length)).collect();
        let mut fans = vec!["ab".repeat(300)];
        fans.extend((32..127u8).map(|byte| format!("{}{}", "ab".repeat(200), char::from(byte))));
        for values in [nested, fans] {
            let finder = Finder::new(values.iter().map(String::as_str));
            let steps = |size: usize| {
                let texts =
                    ["a".repeat(size), "ab".repeat(size / 2), format!("{}c", "ab".repeat(150)).repeat(size / 301)];
                texts.map(|text| finder.each(&text, |_, _, _| {}))
            };
            for (once, twice) in steps(100_000).into_iter().zip(steps(200_000)) {
                assert!(twice < once * 3 && once < 100_000 * 200, "{once} {twice}");
            }
        }
    }
}
