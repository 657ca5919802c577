//! Sparse scores of documents.

/// Score of each document; 0 for none.
pub(super) struct Scores {
    by_document: Vec<f32>,
    used: Vec<u32>,
    pub(super) highest: f32,
}

impl Scores {
    pub(super) fn new(documents: usize) -> Self {
        Self { by_document: vec![0.0; documents], used: Vec::new(), highest: 0.0 }
    }

    pub(super) fn add(&mut self, document: u32, score: f32) {
        self.raise(document, |own| own + score);
    }

    pub(super) fn at_least(&mut self, document: u32, score: f32) {
        self.raise(document, |_| score);
    }

    fn raise(&mut self, document: u32, to: impl FnOnce(f32) -> f32) {
        let Some(slot) = self.by_document.get_mut(document as usize) else { return };
        let score = to(*slot);
        if score > *slot {
            if *slot == 0.0 {
                self.used.push(document);
            }
            *slot = score;
            self.highest = self.highest.max(score);
        }
    }

    pub(super) fn get(&self, document: u32) -> f32 {
        self.by_document.get(document as usize).copied().unwrap_or_default()
    }

    pub(super) fn scale(&mut self, factor: impl Fn(u32) -> f32) {
        self.highest = 0.0;
        for document in &self.used {
            if let Some(slot) = self.by_document.get_mut(*document as usize) {
                *slot *= factor(*document);
                self.highest = self.highest.max(*slot);
            }
        }
    }

    /// Number of documents with a score.
    pub(super) fn count(&self) -> usize {
        self.used.len()
    }

    /// Removes all scores and passes them to `each`.
    pub(super) fn drain(&mut self, mut each: impl FnMut(u32, f32)) {
        self.highest = 0.0;
        for document in self.used.drain(..) {
            if let Some(slot) = self.by_document.get_mut(document as usize) {
                each(document, std::mem::take(slot));
            }
        }
    }

    /// The best `limit` documents that match `keep`, ties in order of document.
    pub(super) fn best(&self, limit: usize, keep: impl Fn(u32) -> bool) -> Vec<(u32, f32)> {
        best(self.used.iter().map(|document| (*document, self.get(*document))), limit, keep)
    }
}

/// The best `limit` of documents with their scores that match `keep`, ties in order of document.
pub(super) fn best(
    scored: impl Iterator<Item = (u32, f32)>,
    limit: usize,
    keep: impl Fn(u32) -> bool,
) -> Vec<(u32, f32)> {
    let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let mut found: Vec<(u32, f32)> = Vec::new();
    // The score that `limit` documents have at least.
    let mut bar = 0.0;
    for (document, score) in scored {
        if score >= bar && keep(document) {
            found.push((document, score));
            if limit > 0 && found.len() == 2 * limit {
                let (_, last, _) = found.select_nth_unstable_by(limit - 1, order);
                bar = last.1;
                found.truncate(limit);
            }
        }
    }
    found.sort_unstable_by(order);
    found.truncate(limit);
    found
}
