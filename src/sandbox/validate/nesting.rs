//! Bounds the nesting of JavaScript and TypeScript before a parser sees them: the parser, the transformer and the
//! engines' compilers all recurse, and the parser tries every `<` as the start of type arguments.
//!
//! Not a parser: an upper bound on the depth of the tree, from tokens. Brackets nest; so do operators and words in
//! sequence without a comma or the end of a statement.

use crate::limits;

/// Deepest tree that is parsed. Code of people and models stays under a tenth of it.
const MAX_DEPTH: usize = limits::SCRIPT_NESTING.max;
/// Most open type arguments. The parser takes quadratic time and memory for them: 3000 were 20 seconds.
const MAX_ANGLES: usize = limits::SCRIPT_ANGLES.max;
/// Most groups and classes of one regular expression.
const MAX_GROUPS: usize = limits::SCRIPT_GROUPS.max;

/// Keywords before a regular expression.
const OPERATORS: [&str; 14] = [
    "return",
    "typeof",
    "instanceof",
    "in",
    "of",
    "new",
    "delete",
    "void",
    "throw",
    "case",
    "do",
    "else",
    "await",
    "yield",
];
/// Keywords that continue the statement before them.
const GOES_ON: [&str; 10] =
    ["else", "catch", "finally", "while", "in", "instanceof", "of", "as", "satisfies", "extends"];

/// Line, from 1, in which the code nests too deeply.
pub(super) fn too_deep(code: &str) -> Option<u32> {
    Scanner::new(code).find(|scanner| scanner.depth() > MAX_DEPTH || scanner.angles() > MAX_ANGLES)
}

/// Greatest depth.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn depth(code: &str) -> usize {
    let mut deepest = 0;
    Scanner::new(code).find(|scanner| {
        deepest = deepest.max(scanner.depth());
        false
    });
    deepest
}

/// Last token, which decides the meaning of `/`, `!`, `{` and a new line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// End of a value.
    Operand,
    /// A word that has a value; two in a row nest.
    Word,
    /// The end of a block, or of the brackets that follow `if`, `for`, `while` and `with`.
    Head,
    /// Anything before an operand.
    Operator,
    /// A keyword of such brackets.
    HeadWord,
}

/// Nesting within one pair of brackets, or at the top.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Operators and words since the last comma or statement.
    chain: usize,
    /// `else` since the last statement that began without one.
    elses: usize,
    /// Open `<`.
    angles: usize,
    /// Its closing bracket ends no value.
    is_head: bool,
    /// Its `}` continues a template.
    is_template: bool,
}

struct Scanner<'a> {
    text: &'a str,
    code: &'a [u8],
    at: usize,
    levels: Vec<Level>,
    /// Depth and angles of all but the innermost level.
    outer: (usize, usize),
    last: Last,
    after_dot: bool,
    new_line: bool,
    /// A statement may have ended; the next token decides.
    ended: bool,
    groups: usize,
}

impl<'a> Scanner<'a> {
    fn new(code: &'a str) -> Self {
        Self {
            text: code,
            code: code.as_bytes(),
            at: 0,
            levels: vec![Level::default()],
            outer: (0, 0),
            last: Last::Operator,
            after_dot: false,
            new_line: false,
            ended: false,
            groups: 0,
        }
    }

    /// Line of the first token after which `wanted` holds.
    fn find(mut self, mut wanted: impl FnMut(&Self) -> bool) -> Option<u32> {
        while let Some(byte) = self.code.get(self.at).copied() {
            self.token(byte);
            if self.groups > MAX_GROUPS || wanted(&self) {
                let before = &self.code[..self.at.min(self.code.len())];
                let lines = before.iter().filter(|byte| **byte == b'\n').count();
                return u32::try_from(lines + 1).ok();
            }
        }
        None
    }

    fn depth(&self) -> usize {
        let level = self.level();
        self.outer.0 + level.chain + level.elses
    }

    fn angles(&self) -> usize {
        self.outer.1 + self.level().angles
    }

    fn level(&self) -> Level {
        self.levels.last().copied().unwrap_or_default()
    }

    fn change(&mut self, change: impl FnOnce(&mut Level)) {
        if let Some(level) = self.levels.last_mut() {
            change(level);
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.code.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn token(&mut self, byte: u8) {
        match byte {
            b'\n' | b'\r' => self.new_line = true,
            b' ' | b'\t' => {}
            b'/' if self.peek(1) == b'/' => return self.skip_line(),
            b'/' if self.peek(1) == b'*' => return self.skip_comment(),
            b'/' if matches!(self.last, Last::Operator | Last::Head | Last::HeadWord) => return self.regex(),
            b'"' | b'\'' => {
                self.begins_statement("");
                return self.string(byte);
            }
            b'`' => return self.template(),
            b'(' | b'[' | b'{' => self.open(byte),
            b')' | b']' | b'}' => return self.close(byte),
            b',' => self.operator(|level| *level = Level { chain: 0, angles: level.angles, ..*level }),
            b';' => {
                self.operator(|level| *level = Level { chain: 0, angles: 0, ..*level });
                self.ended = true;
            }
            0x80.. if let Some(space) = self.wide_space() => {
                self.new_line |= matches!(space, '\u{2028}' | '\u{2029}');
                self.at += space.len_utf8() - 1;
            }
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'#' | b'\\' | 0x80.. => return self.word(),
            _ => self.punctuation(byte),
        }
        self.at += 1;
    }

    fn wide_space(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next().filter(|c| is_wide_space(*c))
    }

    fn operator(&mut self, change: impl FnOnce(&mut Level)) {
        self.change(change);
        self.last = Last::Operator;
        self.after_dot = false;
        self.new_line = false;
    }

    fn punctuation(&mut self, byte: u8) {
        let next = self.peek(1);
        match byte {
            // `a++ / 2` divides, `a! / 2` too.
            b'+' | b'-' if next == byte => {
                self.at += 1;
                return self.change(|level| level.chain += 1);
            }
            b'!' if next != b'=' && !self.new_line && matches!(self.last, Last::Operand | Last::Word) => {
                return self.change(|level| level.chain += 1);
            }
            _ => {}
        }
        let arrow = self.at > 0 && self.code[self.at - 1] == b'=';
        self.operator(|level| {
            level.chain += 1;
            match byte {
                b'<' => level.angles += 1,
                b'>' if !arrow => level.angles = level.angles.saturating_sub(1),
                _ => {}
            }
        });
        self.after_dot = byte == b'.';
    }

    /// Handles a word or literal: on a new line after a value, or after a block, it begins a statement.
    fn begins_statement(&mut self, word: &str) {
        let has_value = matches!(self.last, Last::Operand | Last::Word);
        let begins = self.ended || has_value && self.new_line;
        if begins && !GOES_ON.contains(&word) {
            self.change(|level| *level = Level { chain: 0, elses: 0, angles: 0, ..*level });
        } else if has_value {
            self.change(|level| level.chain += 1);
        }
        self.ended = false;
        self.new_line = false;
    }

    fn word(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_$#\\".contains(c) || !c.is_ascii() && !is_wide_space(c);
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len()).max(1);
        let word = rest.get(..len).unwrap_or_default();
        self.at += len;
        let is_name = std::mem::take(&mut self.after_dot);
        self.begins_statement(word);
        self.last = match word {
            _ if is_name => Last::Operand,
            "else" => {
                self.change(|level| level.elses += 1);
                Last::Operator
            }
            "case" | "default" => {
                self.change(|level| level.chain = 0);
                Last::Operator
            }
            "if" | "for" | "while" | "with" => {
                self.change(|level| level.chain += 1);
                Last::HeadWord
            }
            _ if OPERATORS.contains(&word) => {
                self.change(|level| level.chain += 1);
                Last::Operator
            }
            _ => Last::Word,
        };
    }

    fn open(&mut self, byte: u8) {
        if byte == b'{' && self.ended {
            self.begins_statement("");
            self.ended = true;
        }
        let inner = self.level();
        self.outer.0 += inner.chain + inner.elses + 1;
        self.outer.1 += inner.angles;
        let is_head = match byte {
            b'(' => self.last == Last::HeadWord,
            // An object where an operand is expected, else a block.
            b'{' => self.last != Last::Operator || self.ended || self.code[..self.at].ends_with(b"=>"),
            _ => false,
        };
        self.levels.push(Level { is_head, ..Level::default() });
        self.last = Last::Operator;
        self.after_dot = false;
        self.ended = byte == b'{';
        self.new_line = false;
    }

    fn close(&mut self, byte: u8) {
        self.at += 1;
        let closed = self.level();
        if self.levels.len() > 1 {
            self.levels.pop();
            let around = self.level();
            self.outer.0 = self.outer.0.saturating_sub(around.chain + around.elses + 1);
            self.outer.1 = self.outer.1.saturating_sub(around.angles);
            // A call or an index nests its operand.
            self.change(|level| level.chain += 1);
        }
        self.last = if closed.is_head { Last::Head } else { Last::Operand };
        self.ended = byte == b'}' && closed.is_head;
        self.after_dot = false;
        self.new_line = false;
        if closed.is_template && byte == b'}' {
            self.ended = false;
            self.template_text();
        }
    }

    fn string(&mut self, quote: u8) {
        self.at += 1;
        while let Some(byte) = self.code.get(self.at).copied() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => break,
                _ if byte == quote => break,
                _ => {}
            }
        }
        self.last = Last::Operand;
        self.after_dot = false;
    }

    fn template(&mut self) {
        // A tag nests its template.
        self.change(|level| level.chain += 1);
        self.at += 1;
        self.template_text();
    }

    fn template_text(&mut self) {
        self.last = Last::Operand;
        self.after_dot = false;
        self.new_line = false;
        while let Some(byte) = self.code.get(self.at).copied() {
            match byte {
                b'\\' => self.at += 1,
                b'`' => {
                    self.at += 1;
                    return;
                }
                b'$' if self.peek(1) == b'{' => {
                    self.at += 1;
                    self.open(b'{');
                    self.ended = false;
                    self.change(|level| *level = Level { is_template: true, is_head: false, ..*level });
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn regex(&mut self) {
        self.at += 1;
        let mut in_class = false;
        self.groups = 0;
        while let Some(byte) = self.code.get(self.at).copied() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => break,
                b'/' if !in_class => break,
                b'[' | b'(' => {
                    in_class |= byte == b'[';
                    self.groups += 1;
                }
                b']' => in_class = false,
                _ => {}
            }
            if self.groups > MAX_GROUPS {
                return;
            }
        }
        self.last = Last::Operand;
        self.ended = false;
        self.new_line = false;
    }

    fn skip_line(&mut self) {
        while let Some(byte) = self.code.get(self.at).copied() {
            // Line and paragraph separators end comments too.
            let separator = [b"\xe2\x80\xa8", b"\xe2\x80\xa9"].iter().any(|end| self.code[self.at..].starts_with(*end));
            if byte == b'\n' || byte == b'\r' || separator {
                return;
            }
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) {
        let rest = &self.code[self.at + 2..];
        let len = rest.windows(2).position(|pair| pair == b"*/").map_or(rest.len(), |at| at + 2);
        self.new_line |= rest[..len].contains(&b'\n');
        self.at += 2 + len;
    }
}

fn is_wide_space(c: char) -> bool {
    !c.is_ascii() && (c.is_whitespace() || c == '\u{feff}') && c != '\u{85}'
}
