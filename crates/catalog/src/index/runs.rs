//! Divides a catalog's servers into runs, one segment each. A change of one server moves few boundaries, so that most
//! segments can be reused.

use std::collections::HashSet;
use std::ops::Range;

/// Bounds of the runs of an index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    /// Documents of a run, at least: a smaller one saves no time.
    pub(super) least: usize,
    /// Runs of equal size that a catalog is divided into, if it is large; with others, at most twice as many and one.
    /// A search looks each word up in each of them.
    pub(super) most: usize,
}

/// With 1,536 documents a run, one is rebuilt in some 40 ms; smaller runs are rebuilt sooner and make searches slower. See
/// docs/benchmarks.md.
pub(super) const RUNS: Runs = Runs { least: 1_536, most: 16 };

impl Runs {
    /// Runs of servers, which have a name and a number of documents. Those that start with a name in `starts` stay as
    /// they are where they are neither too large nor too small.
    pub(super) fn of(self, servers: &[(&str, usize)], starts: &HashSet<&str>) -> Vec<Range<usize>> {
        let total: usize = servers.iter().map(|(_, size)| size).sum();
        let target = self.least.max(total.div_ceil(self.most));
        let size = |run: &Range<usize>| servers[run.clone()].iter().map(|(_, size)| size).sum::<usize>();
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (position, (name, _)) in servers.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if !starts.contains(name) => run.end = position + 1,
                _ => runs.push(position..position + 1),
            }
        }
        let large = |run: &Range<usize>| 2 * size(run) > 3 * target;
        let split = |run: Range<usize>| if large(&run) { filled(servers, run, target) } else { vec![run] };
        let mut joined: Vec<(Range<usize>, usize)> = Vec::new();
        for run in runs.into_iter().flat_map(split) {
            let own = size(&run);
            match joined.last_mut() {
                Some((last, size)) if *size + own <= target => {
                    last.end = run.end;
                    *size += own;
                }
                _ => joined.push((run, own)),
            }
        }
        joined.into_iter().map(|(run, _)| run).collect()
    }
}

/// Parts of a run with at most `target` documents, or one server.
fn filled(servers: &[(&str, usize)], run: Range<usize>, target: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut size) = (run.start, 0);
    for position in run.clone() {
        let own = servers[position].1;
        if position > start && size + own > target {
            parts.push(start..position);
            (start, size) = (position, 0);
        }
        size += own;
    }
    parts.push(start..run.end);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Runs = Runs { least: 10, most: 4 };

    fn runs(servers: &[(&str, usize)], starts: &[&str]) -> String {
        let runs = FEW.of(servers, &starts.iter().copied().collect());
        let text = |run: Range<usize>| servers[run].iter().map(|(name, _)| *name).collect::<String>();
        runs.into_iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_change_of_one_server_moves_few_boundaries() {
        let all = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, 5));
        let without = |gone: &str| all.into_iter().filter(|(name, _)| *name != gone).collect::<Vec<_>>();
        let cases = [
            ("new", runs(&all, &[]), "ab cd ef gh"),
            ("the same", runs(&all, &["a", "b", "e", "g"]), "a bcd ef gh"),
            ("one less", runs(&without("d"), &["a", "c", "e", "g"]), "ab c ef gh"),
            ("first of a run gone", runs(&without("c"), &["a", "c", "e", "g"]), "abd ef gh"),
            ("too small to stay", runs(&without("c"), &["a", "b", "d", "e", "g"]), "ab d ef gh"),
            ("a giant", runs(&[("a", 1), ("b", 100), ("c", 1), ("d", 1)], &[]), "a b cd"),
            ("small", runs(&all[..2], &[]), "ab"),
            ("nothing", runs(&[], &["a"]), ""),
            ("empty servers", runs(&[("a", 0), ("b", 0)], &["b"]), "ab"),
        ];
        for (case, is, expected) in cases {
            assert_eq!(is, expected, "{case}");
        }
    }

    #[test]
    fn whatever_the_sizes_there_are_few_runs_and_no_server_is_lost() {
        let names: Vec<String> = (0..200).map(|number| format!("s{number:03}")).collect();
        let mut starts: HashSet<&str> = HashSet::new();
        let mut dice = 7_usize;
        for round in 0..200 {
            let mut servers = Vec::new();
            for name in &names {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let size = (dice >> 33) % [3, 50, 1_000][round % 3];
                if (dice >> 50).is_multiple_of(7) {
                    servers.push((name.as_str(), if size.is_multiple_of(40) { size * 20 } else { size }));
                }
            }
            let runs = FEW.of(&servers, &starts);
            assert!(runs.len() <= 2 * FEW.most + 1, "{runs:?}");
            assert_eq!(runs.iter().cloned().flatten().collect::<Vec<_>>(), (0..servers.len()).collect::<Vec<_>>());
            starts = runs.iter().map(|run| servers[run.start].0).collect();
        }
    }
}
