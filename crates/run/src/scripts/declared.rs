//! Calls that the head of a script declares, for those whose names it computes.

use wire::Language;

/// Word before the tools.
const WORD: &str = "calls:";

/// One declared tool, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// Line of the script, from 1.
    pub line: u32,
}

/// The tools that the comments before the first line of code declare: `// calls: shop.refund_order, crm.find`, in Starlark
/// with `#`. Several lines add up.
///
/// # Errors
/// The line and the mistake: an entry that is no `server.tool`, or has a pattern.
pub fn declared(language: Language, code: &str) -> Result<Vec<Declared>, (u32, String)> {
    let mark = match language {
        Language::Javascript => "//",
        Language::Starlark => "#",
    };
    let mut found = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        let text = text.trim();
        let Some(comment) = text.strip_prefix(mark) else {
            match text.is_empty() || text.starts_with("#!") {
                true => continue,
                false => break,
            }
        };
        let Some(list) = comment.trim().strip_prefix(WORD) else { continue };
        for entry in list.split(',').map(str::trim) {
            if entry.contains(['*', '?', '[', '{']) {
                return Err((line, format!("`{entry}`: name each tool, a lock has no patterns")));
            }
            match entry.split_once('.') {
                Some((server, tool)) if !server.is_empty() && !tool.is_empty() && !tool.contains(' ') => {
                    found.push(Declared { server: server.to_owned(), tool: tool.to_owned(), line });
                }
                _ => return Err((line, format!("`{entry}` is no `server.tool`"))),
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_script_declares_calls() {
        let named = |language, code| {
            declared(language, code)
                .map(|found| found.iter().map(|d| format!("{}:{}.{}", d.line, d.server, d.tool)).collect::<Vec<_>>())
        };
        let js = "// Refunds.\n\n// calls: shop.refund, crm.find\n//calls: a.b.c\nlet x;\n// calls: late.one\n";
        assert_eq!(
            named(Language::Javascript, js),
            Ok(vec!["3:shop.refund".into(), "3:crm.find".into(), "4:a.b.c".into()])
        );
        assert_eq!(named(Language::Starlark, "# calls: a.b\nx = 1"), Ok(vec!["1:a.b".into()]));
        assert_eq!(named(Language::Starlark, "// calls: a.b\n"), Ok(vec![]));
        for (code, told) in [
            ("// calls: crm.*", "`crm.*`: name each tool, a lock has no patterns"),
            ("\n// calls: crm", "`crm` is no `server.tool`"),
            ("// calls: a.b,", "`` is no `server.tool`"),
            ("// calls: a.b c.d", "`a.b c.d` is no `server.tool`"),
        ] {
            assert_eq!(named(Language::Javascript, code).map_err(|(_, what)| what), Err(told.to_owned()));
        }
    }
}
