//! The table of invisible characters: a model reads them, and a person does not see them.

/// True for characters that are no part of visible text, or that change other characters: controls, direction marks and
/// other format characters, line separators, fillers, variation selectors, tags.
pub fn is_format(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// True for the characters of [`is_format`], and for those of private use, whose form depends on the font.
pub fn is_hidden(c: char) -> bool {
    is_format(c) || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fffe}' | '\u{ffff}' | '\u{e1000}'..='\u{10ffff}')
}

/// True for a letter that is read from right to left.
pub fn is_rtl(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}')
}

/// True for an invisible character where writing or emoji have one.
pub fn is_usual(c: char, before: Option<char>, after: Option<char>) -> bool {
    let is_pictograph = |c: char| {
        matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}') || c == '\u{fe0f}'
    };
    match c {
        '\u{fe00}'..='\u{fe0f}' => {
            before.is_some_and(|c| is_pictograph(c) || matches!(c, '0'..='9' | '#' | '*') || is_ideograph(c))
        }
        '\u{e0100}'..='\u{e01ef}' => before.is_some_and(is_ideograph),
        // Joiners: between emoji, and in scripts that need them.
        '\u{200c}' | '\u{200d}' => {
            let joins = |c: char| {
                is_pictograph(c) || matches!(c, '\u{600}'..='\u{6ff}' | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}')
            };
            before.is_some_and(joins) && after.is_none_or(|c| joins(c) || !c.is_alphanumeric())
        }
        // One at the start of a text is a byte order mark.
        '\u{feff}' => before.is_none(),
        '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{180b}'..='\u{180f}' => before.is_some_and(|c| !c.is_ascii()),
        _ => false,
    }
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}
