//! Weights of the ranking, all in one place, so that an evaluation can switch parts off.

/// Weights of the ranking. The default is in production; `cargo xtask eval` measures the value of each part.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Ranking {
    /// Weight of a word in each field: a tool is one bag of words that has each word of its name this many times (BM25F
    /// with one length for all fields; Robertson, Zaragoza and Taylor, CIKM 2004).
    pub fields: Fields,
    /// Saturation of term frequency (BM25's k1).
    pub k1: f32,
    /// Length normalisation (BM25's b).
    pub b: f32,
    /// Exponent of a word's rarity; under 1 it limits the weight of one rare word.
    pub rarity: f32,
    /// Exponent of a word's frequency in the query.
    pub repeats: f32,
    /// True if `issues` and `issue` are the same word.
    pub stems: bool,
    /// True if queries drop words such as `the`.
    pub stop_words: bool,
    /// Weight of a synonym relative to the word; 0 for none.
    pub synonyms: f32,
    /// Weight of a typo's likely meaning; 0 for none.
    pub typos: f32,
    /// Weight of the share of a tool's name in the query.
    pub coverage: f32,
    /// Boost for tools of a server that the query names, as a share of their score; half for half of the words of its
    /// name.
    pub server_named: f32,
    /// Exponent of a sentence's score when several are summed; over 1 favours a tool that matches one sentence well
    /// over one that matches each a little. 0 takes the whole text as one sentence.
    pub fusion: i32,
    /// Weight of the clauses of a long sentence, each searched on its own beside the sentence; 0 for none.
    pub clauses: f32,
    /// Exponent of a part's best score by which its scores are divided, so that a long part outweighs no short one.
    pub even: f32,
    /// Boost for tools of the server that matches most of the words, as a share of their score.
    pub server_matched: f32,
    /// Weight of the meaning of a part of the query, as a share of a perfect score; 0 for none.
    pub meaning: f32,
    /// Share of the nearest tool's cosine from which a tool's meaning counts.
    pub near: f32,
    /// Weight of the calls after a word, as a share of its perfect score; 0 for none.
    pub learned: f32,
    /// Share of the best score under which a hit is a filler.
    pub fillers: f32,
    /// Share of a perfect score under which nothing matches well.
    pub weak: f32,
    /// True if a query that is a tool's name, or its prefix, puts that tool first.
    pub names_first: bool,
}

/// A weight for each part of a tool.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
#[expect(missing_docs, reason = "each is the part that it is named after")]
pub struct Fields {
    pub name: u32,
    pub server: u32,
    pub category: u32,
    /// Description of the server.
    pub about: u32,
    pub description: u32,
    pub param_names: u32,
    pub param_descriptions: u32,
    pub enum_values: u32,
    pub output_fields: u32,
}

impl Default for Ranking {
    fn default() -> Self {
        Self {
            fields: Fields { name: 3, description: 2, ..Fields::EQUAL },
            k1: 2.0,
            b: 0.5,
            rarity: 0.9,
            repeats: 0.25,
            stems: true,
            stop_words: true,
            synonyms: 0.6,
            typos: 0.6,
            coverage: 0.375,
            server_named: 0.2,
            fusion: 2,
            clauses: 0.3,
            even: 0.6,
            server_matched: 1.2,
            meaning: 0.04,
            near: 0.6,
            learned: 0.5,
            fillers: 0.25,
            weak: 0.08,
            names_first: true,
        }
    }
}

impl Fields {
    const EQUAL: Self = Self {
        name: 1,
        server: 1,
        category: 1,
        about: 1,
        description: 1,
        param_names: 1,
        param_descriptions: 1,
        enum_values: 1,
        output_fields: 1,
    };
}
