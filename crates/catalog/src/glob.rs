//! Globs over paths of the virtual filesystem, matched in one pass without recursion. Every active state takes one step
//! per character, so the time is at most pattern length times path length, and metered.

use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::meter::{Meter, Stopped};
use base::text::brief;

/// States, and ranges of their classes, per metered step.
const STATES_A_STEP: u64 = 4;

/// A pattern: `*` and `?` stay within a folder, `**` as a whole segment crosses folders, `[a-z]` and `[!a-z]` are
/// classes, `{a,b}` alternatives, and `\` escapes the next character. Case is ignored.
pub(super) struct Glob {
    tokens: Vec<Token>,
    /// Start of each alternative.
    starts: Vec<usize>,
}

/// A state, named after the input it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    /// One character within a folder.
    Any,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// Any characters within a folder.
    Star,
    /// Any characters.
    Deep,
    /// Any folders, or none; the token after it is [`Token::Within`].
    Folders,
    /// The inside of such folders, up to a slash.
    Within,
    /// End of the path.
    End,
}

/// True if a path is a glob.
pub(super) fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '[', '{'])
}

impl Glob {
    /// Parses a pattern of whole paths.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it is invalid, or over a limit of length, nesting or alternatives.
    pub(super) fn parse(pattern: &str) -> Result<Self> {
        limits::GLOB.check(pattern.len())?;
        let (mut tokens, mut starts) = (Vec::new(), Vec::new());
        for alternative in alternatives(pattern)? {
            starts.push(tokens.len());
            push_tokens(&alternative, &mut tokens).map_err(|why| not_a_glob(pattern, why))?;
            tokens.push(Token::End);
        }
        Ok(Self { tokens, starts })
    }

    /// Most states that one character is compared with.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn states(&self) -> u64 {
        let ranges =
            self.tokens.iter().map(|token| if let Token::Class { ranges, .. } = token { ranges.len() } else { 0 });
        (self.tokens.len() + ranges.sum::<usize>()) as u64
    }

    /// A matcher for many paths.
    pub(super) fn matcher(&self) -> Matcher<'_> {
        let states = || Vec::with_capacity(self.tokens.len());
        Matcher { glob: self, now: states(), next: states(), seen: vec![0; self.tokens.len()], round: 0, compared: 0 }
    }
}

/// Matches paths against a glob, one after the other.
pub(super) struct Matcher<'g> {
    glob: &'g Glob,
    now: Vec<usize>,
    next: Vec<usize>,
    /// Round in which each state was last added.
    seen: Vec<u64>,
    round: u64,
    /// States and ranges compared for this path.
    compared: u64,
}

impl Matcher<'_> {
    /// True if the whole path matches.
    ///
    /// # Errors
    /// When the meter stops the work.
    pub(super) fn is_match(&mut self, path: &str, meter: &Meter) -> Result<bool, Stopped> {
        self.run(path, meter)?;
        Ok(self.now.iter().any(|state| self.glob.tokens.get(*state) == Some(&Token::End)))
    }

    /// True if a path with this prefix may match.
    ///
    /// # Errors
    /// When the meter stops the work.
    pub(super) fn may_start(&mut self, path: &str, meter: &Meter) -> Result<bool, Stopped> {
        self.run(path, meter)?;
        Ok(self.now.iter().any(|state| self.glob.tokens.get(*state) != Some(&Token::End)))
    }

    fn run(&mut self, path: &str, meter: &Meter) -> Result<(), Stopped> {
        let glob = self.glob;
        self.round += 1;
        self.next.clear();
        for start in &glob.starts {
            self.add(*start);
        }
        std::mem::swap(&mut self.now, &mut self.next);
        self.compared = 0;
        for c in path.chars() {
            if self.now.is_empty() {
                break;
            }
            self.compared += self.now.len() as u64;
            self.step(c.to_lowercase().next().unwrap_or(c));
        }
        meter.spend(1 + self.compared / STATES_A_STEP)
    }

    fn step(&mut self, c: char) {
        let glob = self.glob;
        self.round += 1;
        self.next.clear();
        for at in 0..self.now.len() {
            let state = self.now[at];
            let advances = match &glob.tokens[state] {
                Token::Char(wanted) => *wanted == c,
                Token::Any => c != '/',
                Token::Class { negated, ranges } => {
                    self.compared += ranges.len() as u64;
                    c != '/' && is_in(c, ranges) != *negated
                }
                Token::Star => {
                    if c != '/' {
                        self.add(state);
                    }
                    false
                }
                Token::Deep => {
                    self.add(state);
                    false
                }
                Token::Within => {
                    self.add(state);
                    c == '/'
                }
                Token::Folders | Token::End => false,
            };
            if advances {
                self.add(state + 1);
            }
        }
        std::mem::swap(&mut self.now, &mut self.next);
    }

    /// Adds a state and its epsilon closure.
    fn add(&mut self, mut state: usize) {
        while let Some(token) = self.glob.tokens.get(state) {
            let after = match token {
                Token::Star | Token::Deep => state + 1,
                Token::Folders => {
                    self.add_one(state + 1);
                    state + 2
                }
                _ => usize::MAX,
            };
            if !self.add_one(state) {
                return;
            }
            state = after;
        }
    }

    fn add_one(&mut self, state: usize) -> bool {
        let is_new = self.seen[state] != self.round;
        if is_new {
            self.seen[state] = self.round;
            self.next.push(state);
        }
        is_new
    }
}

fn is_in(c: char, ranges: &[(char, char)]) -> bool {
    let upper = c.to_uppercase().next().unwrap_or(c);
    ranges.iter().any(|(from, to)| (*from..=*to).contains(&c) || (*from..=*to).contains(&upper))
}

fn not_a_glob(pattern: &str, why: &str) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("`{}` is not a glob: {why}", brief(pattern)))
        .hint("`*` and `?` stay in a folder, `**` crosses folders, `{a,b}` are alternatives")
}

/// Expands braces into patterns without them.
pub(super) fn alternatives(pattern: &str) -> Result<Vec<String>> {
    let mut all = vec![String::new()];
    let mut choices: Option<Vec<String>> = None;
    let mut is_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match (c, &mut choices) {
            ('\\', _) => {
                let escaped = chars.next().ok_or_else(|| not_a_glob(pattern, "nothing follows the last `\\`"))?;
                push(&mut all, &mut choices, &['\\', escaped]);
                continue;
            }
            ('[', _) if !is_class => is_class = true,
            (']', _) if is_class => is_class = false,
            ('{', Some(_)) if !is_class => return Err(limits::GLOB_NESTING.exceeded(ErrorCode::InvalidArgs, 2)),
            ('{', None) if !is_class => {
                choices = Some(vec![String::new()]);
                continue;
            }
            (',', Some(choices)) if !is_class => {
                choices.push(String::new());
                continue;
            }
            ('}', Some(_)) if !is_class => {
                let ended = choices.take().unwrap_or_default();
                limits::GLOB_ALTERNATIVES.check(all.len() * ended.len())?;
                all = all.iter().flat_map(|one| ended.iter().map(move |choice| format!("{one}{choice}"))).collect();
                continue;
            }
            ('}', None) if !is_class => return Err(not_a_glob(pattern, "a `}` without its `{`")),
            _ => {}
        }
        push(&mut all, &mut choices, &[c]);
    }
    match choices {
        Some(_) => Err(not_a_glob(pattern, "a `{` without its `}`")),
        None => Ok(all),
    }
}

fn push(all: &mut [String], choices: &mut Option<Vec<String>>, chars: &[char]) {
    match choices.as_mut().and_then(|choices| choices.last_mut()) {
        Some(choice) => choice.extend(chars),
        None => all.iter_mut().for_each(|one| one.extend(chars)),
    }
}

/// Appends the tokens of a pattern without braces.
fn push_tokens(pattern: &str, tokens: &mut Vec<Token>) -> Result<(), &'static str> {
    let lower = |c: char| Token::Char(c.to_lowercase().next().unwrap_or(c));
    let parts: Vec<&str> = pattern.split('/').collect();
    for (position, part) in parts.iter().enumerate() {
        let is_last = position + 1 == parts.len();
        if *part == "**" {
            match is_last {
                true => tokens.extend([Token::Any, Token::Deep]),
                false => tokens.extend([Token::Folders, Token::Within]),
            }
            continue;
        }
        let mut chars = part.chars().peekable();
        while let Some(c) = chars.next() {
            let token = match c {
                '*' => Token::Star,
                '?' => Token::Any,
                '\\' => lower(chars.next().ok_or("nothing follows the last `\\`")?),
                '[' => class(&mut chars)?,
                c => lower(c),
            };
            if token != Token::Star || tokens.last() != Some(&Token::Star) {
                tokens.push(token);
            }
        }
        if !is_last {
            tokens.push(Token::Char('/'));
        }
    }
    Ok(())
}

/// Parses a class after its `[`.
fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Token, &'static str> {
    const OPEN: &str = "a `[` without its `]`";
    let negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let from = chars.next().ok_or(OPEN)?;
        // A `]` in first place is a member of the class.
        if from == ']' && !ranges.is_empty() {
            return Ok(Token::Class { negated, ranges });
        }
        let mut to = from;
        if chars.peek() == Some(&'-') {
            let mut after = chars.clone();
            after.next();
            if let Some(end) = after.next().filter(|end| *end != ']') {
                (to, *chars) = (end, after);
            }
        }
        if to < from {
            return Err("a range that ends before it begins");
        }
        ranges.push((from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let glob = Glob::parse(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        glob.matcher().is_match(path, &Meter::new(1_000_000)).expect("cheap")
    }

    #[test]
    fn globs_match_as_people_expect() {
        for (pattern, yes, no) in [
            ("/a/*.pyi", "/a/b.pyi", "/a/b/c.pyi"),
            ("/a/*", "/a/b", "/a"),
            ("/A/*.PYI", "/a/B.pyi", "/a/b.ts"),
            ("/a/**", "/a/b/c", "/a/"),
            ("/**", "/a", "/"),
            ("/**/x.md", "/x.md", "/ax.md"),
            ("/**/x.md", "/a/b/x.md", "/a/b/x.md/"),
            ("/a/**/c", "/a/c", "/ac"),
            ("/a/**/c", "/a/b/b/c", "/a/b/b/cc"),
            ("/a/b**c", "/a/bxxc", "/a/b/c"),
            ("/?.pyi", "/a.pyi", "//.pyi"),
            ("/[a-c]x", "/bx", "/dx"),
            ("/[A-C]x", "/bx", "/dx"),
            ("/[!a-c]x", "/dx", "/bx"),
            ("/[]a]x", "/]x", "/bx"),
            ("/[a-]x", "/-x", "/bx"),
            ("/{a,b}/{c,d}", "/b/c", "/b/a"),
            ("/{a/b,c}.md", "/a/b.md", "/a.md"),
            ("/{a,**/b}", "/x/y/b", "/x/a"),
            ("/x{,.d}.ts", "/x.d.ts", "/x.d.d.ts"),
            (r"/\*x", "/*x", "/ax"),
            (r"/[{]x", "/{x", "/ax"),
            ("/ä*", "/Äb", "/ab"),
        ] {
            assert!(matches(pattern, yes), "{pattern} should match {yes}");
            assert!(!matches(pattern, no), "{pattern} should not match {no}");
        }
    }

    #[test]
    fn what_is_no_glob_is_refused_by_its_limit_or_its_fault() {
        let twice = "{a,b}".repeat(7);
        for (pattern, says) in [
            ("{".repeat(200).as_str(), "glob nesting: 2 levels, over the limit of 1 level"),
            ("{a,{b,c}}", "glob nesting"),
            ("/{a", "without its `}`"),
            ("/a}", "without its `{`"),
            ("/[a", "without its `]`"),
            ("/[b-a]", "ends before it begins"),
            ("/a\\", "nothing follows"),
            (twice.as_str(), "glob alternatives: 128 items, over the limit of 64 items"),
            (format!("/{{{}}}", ",".repeat(100)).as_str(), "glob alternatives"),
            ("*".repeat(600).as_str(), "glob: 600 bytes, over the limit of 512 bytes"),
        ] {
            let error = Glob::parse(pattern).err().unwrap_or_else(|| panic!("{pattern} is taken for a glob"));
            assert!(error.to_string().contains(says), "{pattern}: {error}");
            assert!(error.message.len() < 400, "{}", error.message.len());
        }
    }

    #[test]
    fn a_class_costs_what_it_is_compared_with() {
        let class: String = (0..100).filter_map(|at| char::from_u32(0x4e00 + at)).collect();
        let glob = Glob::parse(&format!("*[{class}]")).expect("a glob");
        let meter = Meter::new(1_000_000);
        assert_eq!(glob.matcher().is_match(&"x".repeat(1_000), &meter), Ok(false));
        assert!(1_000_000 - meter.left() >= 100 * 1_000 / STATES_A_STEP, "{}", 1_000_000 - meter.left());
    }

    #[test]
    fn the_time_is_at_most_the_pattern_times_the_path_whatever_it_is() {
        let path = format!("/{}", "a".repeat(300));
        for pattern in [
            "*a".repeat(250),
            format!("/{}b", "*a".repeat(250)),
            format!("/*a{}", "?".repeat(400)),
            format!("/{}", "[!b]*".repeat(90)),
            format!("/{}", "**/".repeat(160)),
            format!("/{}", "{*a,*b}".repeat(6)),
        ] {
            let glob = Glob::parse(&pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            let most = glob.states() * (path.len() + 1) as u64 / STATES_A_STEP + 1;
            assert!(glob.matcher().is_match(&path, &Meter::new(most)).is_ok(), "{pattern}");
        }
    }
}
