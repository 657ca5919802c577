//! Form of placeholders: `<<EMAIL:k3v9xbw2m7q4t>>` has the kind of its value and a random token.

use super::scan::run;

/// The unguessable part of a placeholder: 65 bits.
pub(super) type Token = [u8; 13];

/// Letters and digits of tokens, without look-alikes.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Longest kind.
const KIND: usize = 64;

/// A placeholder, or text of the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place<'t> {
    pub(super) from: usize,
    pub(super) to: usize,
    /// As [`kind`] formats it.
    pub(super) kind: &'t str,
    pub(super) token: Token,
}

/// Places in `text`, in order. A byte is looked at once for each `<<` in the 65 bytes before it.
pub(super) fn places(text: &str) -> impl Iterator<Item = Place<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let from = at + text.get(at..)?.find("<<")?;
            let place = place(text, from);
            at = place.map_or(from + 1, |place| place.to);
            if place.is_some() {
                return place;
            }
        }
    })
}

/// Parses the placeholder whose `<<` is at `from`.
pub(super) fn place(text: &str, from: usize) -> Option<Place<'_>> {
    let kind_at = from + "<<".len();
    let length = run(text, kind_at, KIND, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let kind = text.get(kind_at..kind_at + length)?;
    let rest = text.as_bytes().get(kind_at + length..)?.strip_prefix(b":")?;
    let (token, rest) = rest.split_first_chunk::<13>()?;
    let fits = length > 0 && rest.starts_with(b">>") && token.iter().all(|byte| ALPHABET.contains(byte));
    fits.then_some(Place { from, to: kind_at + length + ":".len() + token.len() + ">>".len(), kind, token: *token })
}

/// A random token; `None` if the system has no randomness.
pub(super) fn random() -> Option<Token> {
    let mut token = [0; 13];
    getrandom::fill(&mut token).ok()?;
    Some(token.map(|byte| ALPHABET[usize::from(byte % 32)]))
}

/// Formats a placeholder.
pub(super) fn shown(label: &str, token: Token) -> String {
    format!("<<{}:{}>>", kind(label), token.map(char::from).iter().collect::<String>())
}

/// Formats a label such as `github-token` for a placeholder.
pub(super) fn kind(label: &str) -> String {
    label.to_ascii_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_found_wherever_it_stands() {
        let (one, two) = (random().expect("chance"), random().expect("chance"));
        assert_ne!(one, two);
        let text = format!("<<<{}<<X:y>>{}>>é<<EMAIL:1>>", shown("email", one), shown("github-token", two));
        let found: Vec<_> = places(&text).map(|place| (place.kind, place.token)).collect();
        assert_eq!(found, [("EMAIL", one), ("GITHUB_TOKEN", two)]);
        assert!(places(&text.replace(">>", "> >")).next().is_none());
        assert_eq!(places(&"<<".repeat(1000)).count() + places("<<A:abcdefghjkmn").count(), 0);
    }
}
