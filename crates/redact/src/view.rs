//! Undoes escapes of a text: those of JSON and most languages (`\"`, `\u0022`), of URLs (`%3D`), of HTML (`&quot;`),
//! and invisible characters. Secrets are found in the unescaped text and replaced in the original.

use super::scan::{Found, run, spent};

/// Levels of escapes within escapes. Each takes one pass, and the text gets no longer.
const LEVELS: usize = 4;
/// Longest escape.
const LONGEST: usize = 10;

/// A text without escapes, with a map to positions in the original.
struct View {
    text: String,
    /// Positions here and there, in order; after each, both advance together up to the next.
    places: Vec<(usize, usize)>,
}

/// Finds secrets in the unescaped forms of `text`.
pub(super) fn find(text: &str, look: impl Fn(&str, &mut Vec<Found>), found: &mut Vec<Found>) {
    let mut views: Vec<View> = Vec::new();
    while views.len() < LEVELS
        && let Some(view) = View::of(views.last().map_or(text, |view| &view.text))
    {
        let mut seen = Vec::new();
        look(&view.text, &mut seen);
        views.push(view);
        for mut place in seen {
            for view in views.iter().rev() {
                (place.from, place.to) = (view.from(place.from), view.to(place.to));
            }
            found.push(place);
        }
    }
}

impl View {
    /// `None` without escapes.
    fn of(text: &str) -> Option<Self> {
        let mut view = Self { text: String::new(), places: Vec::new() };
        spent(text.len());
        let (mut at, mut done) = (0, 0);
        let bytes = text.as_bytes();
        while let Some(&byte) = bytes.get(at) {
            let escape = match byte {
                b'\\' => backslash(text, at),
                b'%' => percent(text, at),
                b'&' => entity(text, at),
                ..b' ' | 0x7f | 0xc2.. => invisible(text, at),
                _ => None,
            };
            let Some((plain, length)) = escape else {
                at += 1;
                continue;
            };
            view.text.push_str(&text[done..at]);
            view.places.push((view.text.len(), at));
            view.text.extend(plain);
            at += length;
            done = at;
            view.places.push((view.text.len(), at));
        }
        if view.places.is_empty() {
            return None;
        }
        view.text.push_str(&text[done..]);
        Some(view)
    }

    /// Original start of a span that begins at `at`, behind invisible characters.
    fn from(&self, at: usize) -> usize {
        let next = self.places.partition_point(|(here, _)| *here <= at);
        next.checked_sub(1).and_then(|last| self.places.get(last)).map_or(at, |(here, there)| there + at - here)
    }

    /// Original end of a span that ends at `at`.
    fn to(&self, at: usize) -> usize {
        let next = self.places.partition_point(|(here, _)| *here < at);
        match self.places.get(next) {
            // The end of an escape, or the position before one.
            Some((here, there)) if *here == at => *there,
            _ => self.from(at),
        }
    }
}

/// Character of an escape, `None` if invisible, and the length of the escape.
type Escape = (Option<char>, usize);

fn backslash(text: &str, at: usize) -> Option<Escape> {
    let next = *text.as_bytes().get(at + 1)?;
    match next {
        b'"' | b'\'' | b'`' | b'\\' | b'/' => Some((Some(char::from(next)), 2)),
        b'n' | b'r' => Some((Some('\n'), 2)),
        b't' => Some((Some('\t'), 2)),
        b'b' | b'f' => Some((None, 2)),
        b'u' => {
            let (plain, length) = unicode(text.get(at + 2..)?)?;
            match is_invisible(plain) {
                true => Some((None, 2 + length)),
                false => (!plain.is_control()).then_some((Some(plain), 2 + length)),
            }
        }
        b'x' => code(text, at + 2).map(|plain| (Some(plain), 4)),
        _ => None,
    }
}

/// The character of `%3D`, or of the bytes of UTF-8 as in `%C3%A4`.
fn percent(text: &str, at: usize) -> Option<Escape> {
    let byte = |at: usize| u8::try_from(hex(text.get(at..)?.strip_prefix('%')?.get(..2)?)?).ok();
    let length = match byte(at)? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return code(text, at + 1).map(|plain| (Some(plain), 3)),
    };
    let bytes: Vec<u8> = (0..length).map(|number| byte(at + 3 * number)).collect::<Option<_>>()?;
    let plain = str::from_utf8(&bytes).ok()?.chars().next()?;
    Some(((!is_invisible(plain)).then_some(plain), 3 * length))
}

/// The character of `0041`, of `db40dc41` as JSON writes it (`\\udb40\\udc41`) or of `{41}`, and the length.
fn unicode(digits: &str) -> Option<(char, usize)> {
    let number = |from: usize, to: usize| hex(digits.get(from..to)?);
    if digits.starts_with('{') {
        let length = run(digits, 1, LONGEST, |byte| byte.is_ascii_hexdigit());
        let is_closed = digits.as_bytes().get(1 + length) == Some(&b'}');
        return is_closed.then_some((char::from_u32(number(1, 1 + length)?)?, length + 2));
    }
    match number(0, 4)? {
        high @ 0xd800..=0xdbff if digits.get(4..6) == Some("\\u") => {
            let low = number(6, 10).filter(|low| (0xdc00..=0xdfff).contains(low))?;
            Some((char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?, 10))
        }
        plain => Some((char::from_u32(plain)?, 4)),
    }
}

/// `&quot;`, `&#34;`, `&#x22;`.
fn entity(text: &str, at: usize) -> Option<Escape> {
    let length = run(text, at + 1, LONGEST, |byte| byte.is_ascii_alphanumeric() || byte == b'#');
    let (name, end) = (text.get(at + 1..at + 1 + length)?, at + 1 + length);
    if text.as_bytes().get(end) != Some(&b';') {
        return None;
    }
    let plain = match name {
        "quot" => '"',
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "apos" => '\'',
        "equals" => '=',
        "colon" => ':',
        "sol" => '/',
        "commat" => '@',
        _ => {
            let digits = name.strip_prefix('#')?;
            let number = match digits.strip_prefix(['x', 'X']) {
                Some(digits) => hex(digits)?,
                None => digits.parse().ok()?,
            };
            char::from_u32(number)?
        }
    };
    Some(((!is_invisible(plain)).then_some(plain), length + 2))
}

/// Decodes the two digits of an ASCII character.
fn code(text: &str, at: usize) -> Option<char> {
    let plain = char::from_u32(hex(text.get(at..at + 2)?)?)?;
    (plain.is_ascii() && (!plain.is_ascii_control() || plain == '\n')).then_some(plain)
}

/// The number of hexadecimal digits, and of nothing else: the parser of numbers takes a sign too.
fn hex(digits: &str) -> Option<u32> {
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_digits)
}

fn invisible(text: &str, at: usize) -> Option<Escape> {
    let plain = text.get(at..)?.chars().next().filter(|plain| is_invisible(*plain))?;
    Some((None, plain.len_utf8()))
}

/// True for all but the characters that end a line or a column.
fn is_invisible(plain: char) -> bool {
    stubgen::is_hidden(plain) && !matches!(plain, '\n' | '\r' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Surface;
    use crate::secret::Secret;

    /// Replaced parts where `needle` is found in a view.
    fn places(text: &str, needle: &str) -> Vec<String> {
        let look = |view: &str, seen: &mut Vec<Found>| {
            seen.extend(view.match_indices(needle).map(|(from, _)| Found {
                from,
                to: from + needle.len(),
                label: "x",
                rank: 1,
            }));
        };
        let mut found = Vec::new();
        find(text, look, &mut found);
        found.into_iter().map(|found| text[found.from..found.to].to_owned()).collect()
    }

    #[test]
    fn a_place_in_a_view_is_a_place_in_the_text() {
        for (text, expected) in [
            ("a k\u{200b}ey b", "k\u{200b}ey"),
            ("\u{feff}key\u{200b}!", "key"),
            (r"x\u006bey\n", r"\u006bey"),
            (r"x\\u006bey", r"\\u006bey"),
            ("%6Bey%20", "%6Bey"),
            ("%256bey", "%256bey"),
            ("&#107;ey&quot;", "&#107;ey"),
            ("&amp;#x6b;ey", "&amp;#x6b;ey"),
            ("é\u{ad}kéy k\u{ad}ey é", "k\u{ad}ey"),
        ] {
            assert_eq!(places(text, "key").first().map(String::as_str), Some(expected), "{text}");
        }
        assert_eq!(places("no escape", "escape"), [""; 0]);
        for odd in ["\\", "%", "%4", "&", "&;", "\\u12", "%é", "&#xé;", "\\u00é", "&#99999999999;"] {
            assert!(View::of(odd).is_none(), "{odd}");
        }
        for signed in ["%+a", "\\x+a", "\\u+022", "\\ud83d\\u+e00", "&#x+2;"] {
            assert!(View::of(signed).is_none(), "{signed}");
        }
    }

    #[test]
    fn a_value_is_found_among_escapes() {
        for (value, text) in [
            ("kT%+a9/Vx77q", r"kT%+a9\/Vx77q"),
            ("pässwort-99/x", r"p\u00e4sswort-99\/x"),
            ("pässwort-99/x", "p&#228;sswort-99&#x2f;x"),
            ("pässwort-99/x", "p%c3%a4sswort-99/x"),
            ("pass\u{20ac}wort-99/x", "pass%E2%82%ACwort-99/x"),
            ("zero-width-99", "zero%E2%80%8B-width-99"),
            ("schl\u{1f511}ssel-99", r"schl\ud83d\udd11ssel-99"),
        ] {
            let _secret = Secret::new(value);
            assert_eq!(crate::text(Surface::Script, &format!("value: {text}.")), "value: [redacted].", "{text}");
        }
    }
}
