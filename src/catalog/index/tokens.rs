//! Tokenizer for documents: `ticket*5` is the word five times.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// Name of the tokenizer in the schema.
pub(super) const NAME: &str = "counted";

#[derive(Clone, Default)]
pub(super) struct Counted {
    token: Token,
}

pub(super) struct CountedStream<'a> {
    words: std::str::SplitAsciiWhitespace<'a>,
    left: u32,
    token: &'a mut Token,
}

impl Tokenizer for Counted {
    type TokenStream<'a> = CountedStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> CountedStream<'a> {
        self.token.reset();
        CountedStream { words: text.split_ascii_whitespace(), left: 0, token: &mut self.token }
    }
}

impl TokenStream for CountedStream<'_> {
    fn advance(&mut self) -> bool {
        while self.left == 0 {
            let Some((word, count)) = self.words.next().and_then(|word| word.split_once('*')) else { return false };
            self.left = count.parse().unwrap_or(1);
            self.token.text.clear();
            self.token.text.push_str(word);
        }
        self.left -= 1;
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
