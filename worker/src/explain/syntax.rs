//! Syntax errors of JavaScript that come from other languages, from pasting and from habits, and how it is done here.

/// Most bytes of a line that are looked at.
const MAX_LINE: usize = 400;

/// The correction, by the parser's message and the line with the error; `at` is its place in that line.
pub(super) fn javascript(code: &str, message: &str, line: &str, at: usize) -> Option<String> {
    let line = &line[..line.floor_char_boundary(MAX_LINE)];
    let at = line.floor_char_boundary(at.min(line.len()));
    let way = pasted(code, line, at)
        .or_else(|| python(line.trim(), &line[at..]))
        .or_else(|| of_message(&message.to_lowercase(), line, at))?;
    Some(way.to_owned())
}

/// Text around the code, or code that was escaped or typeset on its way.
fn pasted(code: &str, line: &str, at: usize) -> Option<&'static str> {
    let (before, here) = line.split_at(at);
    let is_escaped =
        |quoted: &str| here.starts_with(quoted) || before.ends_with('\\') && here.starts_with(&quoted[1..]);
    if code.trim_start().starts_with("```") || line.trim_start().starts_with("```") {
        Some("send the code alone, without the ``` lines around it")
    } else if is_escaped("\\n") || is_escaped("\\\"") {
        Some("the code was escaped twice: send real line breaks and quotes, without the backslashes")
    } else if here.starts_with(['“', '”', '‘', '’']) {
        Some("write straight quotes: \" or '")
    } else {
        None
    }
}

/// Python, which is Starlark in all but a few words.
fn python(line: &str, here: &str) -> Option<&'static str> {
    const BLOCKS: [&str; 10] =
        ["def ", "async def ", "class ", "if ", "else:", "for ", "while ", "try:", "except", "with "];
    let is_block = line.ends_with(':') && BLOCKS.iter().any(|word| line.starts_with(word));
    if line.starts_with("elif ") || line.starts_with("elif(") {
        Some("write `else if (…) { … }`")
    } else if is_block {
        Some("this is Python: pass `language: \"starlark\"`, or write blocks in braces: `if (x) { … }`")
    } else if line.starts_with("# ") || here.starts_with("# ") {
        Some("a comment begins with `//`")
    } else if here.starts_with("lambda ") || line.contains("lambda ") && line.contains(": ") {
        Some("write a function as `(x) => …`")
    } else if here.starts_with("for ") && line.contains(" in ") {
        Some("there are no comprehensions: write `items.map((x) => …)` and `items.filter((x) => …)`")
    } else if ["and ", "or ", "not "].iter().any(|word| here.starts_with(word)) {
        Some("write `&&`, `||` and `!` for `and`, `or` and `not`")
    } else if has_f_string(line) {
        Some("text with values stands in backticks: `` `${x} of ${y}` ``")
    } else if here.starts_with("**") || line.contains("(**") {
        Some("pass the values of an object by `{ ...object }`")
    } else {
        None
    }
}

/// True for `f"` or `f'` where a value can begin.
fn has_f_string(line: &str) -> bool {
    line.match_indices('f').any(|(at, _)| {
        let before = &line[..at];
        let is_value = before.is_empty() || before.ends_with([' ', '(', '[', '{', ',', '=', '+', ':']);
        is_value && line[at + 1..].starts_with(['"', '\''])
    })
}

fn of_message(message: &str, line: &str, at: usize) -> Option<&'static str> {
    let before = line[..at].trim_end();
    if message.contains("unterminated") && (message.contains("template") || line.contains('`')) {
        Some("close the text with a backtick and each `${` with `}`; a backtick in the text is written \\`")
    } else if message.contains("unterminated string") {
        Some("close the text on its line; text over several lines stands in backticks")
    } else if line.contains("</") || line[at..].starts_with('<') && line[at + 1..].starts_with(char::is_alphabetic) {
        Some("there is no JSX here: build text with backticks")
    } else if message.contains("await") {
        Some(
            "make the function around it async: `async (x) => …`; for each item: \
             `await Promise.all(items.map(async (x) => …))`",
        )
    } else if message.contains("unterminated regular expression") {
        Some("close it with `/`; a slash in it is written \\/")
    } else if message.contains("already been declared") {
        Some("give it another name, or assign to the first one without `const` or `let`")
    } else if line.contains("=> {") && (line[at..].starts_with(':') || line[at..].starts_with(',')) {
        Some("an object behind `=>` stands in parentheses: `=> ({ key: value })`")
    } else if (before.contains("?.") || line[at..].contains("?.")) && message.contains("assign") {
        Some("test it before: `if (a) a.b = …`")
    } else if message.contains("eof")
        || message.contains("end of file")
        || message.contains("unexpected token") && line[at..].trim().is_empty()
    {
        Some("a bracket is still open: count `{`, `(` and `[` against those that close them")
    } else if line[at..].starts_with([')', ']', '}']) {
        Some("no bracket is open that this one closes, or something is missing before it")
    } else if line.trim_start().starts_with("interface ") || line.trim_start().starts_with("declare ") {
        Some("leave the types out: the script runs as JavaScript")
    } else {
        None
    }
}
