//! What counts how much when tools are ranked: one place for every figure, so that an evaluation can take parts away.

/// The figures of the ranking. The default is what ForgeFS ranks with; `cargo xtask eval` says what each part is worth.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Ranking {
    /// What one word of each field counts: a tool's words are one bag in which the words of its name are there this
    /// many times (BM25F with one length for all fields; Robertson, Zaragoza and Taylor, CIKM 2004).
    pub fields: Fields,
    /// How soon more of the same word adds nothing (BM25's k1).
    pub k1: f32,
    /// How much a long description is held against a tool (BM25's b).
    pub b: f32,
    /// Exponent of a word's rarity; under 1 it limits what one rare word can outweigh.
    pub rarity: f32,
    /// Exponent of how often a word is in the query.
    pub repeats: f32,
    /// Whether `issues` and `issue` are the same word.
    pub stems: bool,
    /// Whether words such as `the` are left out of queries.
    pub stop_words: bool,
    /// What a synonym counts beside the word itself; 0 for none.
    pub synonyms: f32,
    /// What the word counts that an unknown one was probably meant to be; 0 for none.
    pub typos: f32,
    /// What it counts that much of a tool's name is in the query.
    pub coverage: f32,
    /// How much the tools of a server gain that the query names, as a share of their score; half of it for half of the
    /// words of its name.
    pub server_named: f32,
    /// Exponent of a sentence's score where several are added up; over 1 favours the tool that fits one sentence
    /// well over the one that fits each a little. 0 takes the whole text as one sentence.
    pub fusion: i32,
    /// Whether a query that is a tool's name, or starts one, has that tool first.
    pub names_first: bool,
}

/// A weight for each part of a tool.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
#[expect(missing_docs, reason = "each is the part that it is named after")]
pub struct Fields {
    pub name: u32,
    pub server: u32,
    pub category: u32,
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
            b: 0.65,
            rarity: 0.9,
            repeats: 0.25,
            stems: true,
            stop_words: true,
            synonyms: 0.5,
            typos: 0.6,
            coverage: 0.3,
            server_named: 0.2,
            fusion: 2,
            names_first: true,
        }
    }
}

impl Ranking {
    /// BM25 as in the textbook over all of a tool's text, to compare with.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            fields: Fields { category: 0, ..Fields::EQUAL },
            k1: 1.2,
            b: 0.75,
            rarity: 1.0,
            repeats: 1.0,
            stems: false,
            stop_words: false,
            synonyms: 0.0,
            typos: 0.0,
            coverage: 0.0,
            server_named: 0.0,
            fusion: 0,
            names_first: false,
        }
    }
}

impl Fields {
    const EQUAL: Self = Self {
        name: 1,
        server: 1,
        category: 1,
        description: 1,
        param_names: 1,
        param_descriptions: 1,
        enum_values: 1,
        output_fields: 1,
    };
}
