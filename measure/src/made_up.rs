//! Synthetic tools, always the same, for measurements at sizes beyond real lists.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Tools per server.
const TOOLS_A_SERVER: usize = 50;

/// Lists of `tools` tools by server, with words as frequent as in prose, about 900 bytes per definition.
#[must_use]
pub fn tools(tools: usize) -> BTreeMap<String, Vec<Value>> {
    let mut words = Words::new();
    let server = |n: usize| format!("server_{n:04}");
    let mut lists: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for n in 0..tools {
        let name = format!("{}_{}_{n}", words.verb(), words.one());
        let mut properties = serde_json::Map::new();
        for _ in 0..4 {
            let property = json!({"type": "string", "description": words.some(12)});
            properties.insert(format!("{}_{}", words.one(), words.one()), property);
        }
        let required: Vec<String> = properties.keys().take(2).cloned().collect();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let tool = json!({"name": name, "description": words.some(30), "inputSchema": schema});
        lists.entry(server(n / TOOLS_A_SERVER)).or_default().push(tool);
    }
    lists
}

/// Queries like an agent's: a verb and a few nouns, sometimes a whole sentence.
#[must_use]
pub fn queries() -> Vec<String> {
    let mut words = Words::new();
    (0..100)
        .map(|n| match n % 4 {
            0 => format!("{} {}", words.verb(), words.one()),
            1 => format!("{} the {} of a {}", words.verb(), words.one(), words.one()),
            2 => format!("{} {} {} {}", words.verb(), words.one(), words.one(), words.one()),
            _ => format!(
                "I need to {} the {}. Then {} its {}.",
                words.verb(),
                words.some(4),
                words.verb(),
                words.some(3)
            ),
        })
        .collect()
}

/// Word frequencies of prose (Zipf): the n-th most frequent word occurs about 1 / n as often.
struct Words {
    random: fastrand::Rng,
}

impl Words {
    const VOCABULARY: usize = 6_000;
    const VERBS: [&str; 12] =
        ["create", "list", "get", "update", "delete", "search", "send", "add", "remove", "run", "export", "assign"];

    fn new() -> Self {
        Self { random: fastrand::Rng::with_seed(7) }
    }

    fn verb(&mut self) -> &'static str {
        Self::VERBS[self.random.usize(0..Self::VERBS.len())]
    }

    fn one(&mut self) -> String {
        const PARTS: [&str; 20] = [
            "ba", "ko", "ri", "ten", "mul", "sa", "vor", "qui", "lan", "de", "pro", "fix", "gar", "non", "sti", "um",
            "ple", "cha", "wo", "zed",
        ];
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank"
        )]
        let rank = ((Self::VOCABULARY as f64).powf(self.random.f64()) as usize).min(Self::VOCABULARY) + 20;
        let mut word = String::new();
        let mut rest = rank;
        while rest > 0 {
            word.push_str(PARTS[rest % PARTS.len()]);
            rest /= PARTS.len();
        }
        word
    }

    fn some(&mut self, count: usize) -> String {
        (0..count).map(|_| self.one()).collect::<Vec<_>>().join(" ")
    }
}
