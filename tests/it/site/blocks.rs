//! Fenced blocks of a page in Markdown.

/// A fenced block.
pub(super) struct Block {
    /// Line of its fence, from 1; its text begins behind it.
    pub(super) line: usize,
    pub(super) language: String,
    /// Words behind the language: `file=remind.js`, `fails`.
    words: Vec<(String, String)>,
    /// Reason for which it is not run.
    pub(super) reason: Option<String>,
    pub(super) text: String,
}

impl Block {
    pub(super) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|(name, _)| name == word)
    }

    pub(super) fn value(&self, word: &str) -> Option<&str> {
        self.words.iter().find(|(name, _)| name == word).map(|(_, value)| value.as_str())
    }
}

/// The blocks of a page: "```LANGUAGE,WORD,WORD=VALUE", or "```LANGUAGE,no-run: REASON".
pub(super) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (at, line) in page.lines().enumerate() {
        match (is_open, line.strip_prefix("```")) {
            (false, Some(info)) => {
                is_open = true;
                blocks.push(begin(at + 1, info));
            }
            (true, Some("")) => is_open = false,
            (true, _) => {
                if let Some(block) = blocks.last_mut() {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
            }
            // A page begins anew with the sample servers.
            (false, None) if line == "<!-- test: samples -->" => blocks.push(begin(at + 1, "toml,samples")),
            (false, None) => {}
        }
    }
    assert!(!is_open, "a block has no end: {:?}", blocks.last().map(|block| block.line));
    blocks
}

fn begin(line: usize, info: &str) -> Block {
    let (words, reason) = match info.split_once(",no-run: ") {
        Some((words, reason)) => (words, Some(reason.to_owned())),
        None => (info, None),
    };
    let words = words.split_once(' ').map_or(words, |(words, _)| words);
    let mut words = words.split(',');
    let language = words.next().unwrap_or_default().to_owned();
    let words = words.map(|word| word.split_once('=').unwrap_or((word, "")));
    let words = words.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Block { line, language, words, reason, text: String::new() }
}

#[test]
fn a_block_has_words_and_a_reason() {
    let page = "```sh,no-run: needs a release\nx\n```\ntext\n```js,file=a.js,fails\n1\n2\n```\n```json ls /\n{}\n```\n";
    let [first, second, third] = &blocks(page)[..] else { panic!("three blocks") };
    assert_eq!((first.language.as_str(), first.reason.as_deref()), ("sh", Some("needs a release")));
    assert_eq!((second.value("file"), second.has("fails"), second.line), (Some("a.js"), true, 5));
    assert_eq!((second.text.as_str(), third.language.as_str()), ("1\n2\n", "json"));
}
