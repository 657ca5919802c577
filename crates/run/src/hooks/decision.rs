//! The answer of a hook.

use serde::Deserialize;

use super::replacing::Replacements;
use base::limits;
use base::text::head;
use catalog::people;
use config::HookEvent;
use redact::Surface;

/// Decision of a hook. Its words are as [`words`] has them once the broker has heard it.
pub(crate) enum Decision {
    /// It goes on.
    Allow,
    /// It goes on, without some texts.
    Replace(Replacements),
    /// It is refused, for this reason.
    Deny(String),
    /// The user is asked this question.
    Ask(String),
}

/// As it is written. Unknown keys are the hook's own.
#[derive(Deserialize)]
struct Said {
    decision: Option<String>,
    reason: Option<String>,
    question: Option<String>,
    replace: Option<Vec<Pair>>,
    /// The decision itself, as Open Policy Agent wraps it.
    result: Option<Box<Said>>,
}

/// A text, and what stands in its place.
#[derive(Deserialize)]
pub(super) struct Pair {
    pub(super) text: String,
    pub(super) with: String,
}

impl Decision {
    /// Reads an answer to a question about `on`.
    ///
    /// # Errors
    /// Says what is wrong with it, without its words.
    pub(super) fn read(answer: &[u8], on: HookEvent) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| {
            format!("its answer is no decision: line {}, column {}", error.line(), error.column())
        };
        let said: Said = serde_json::from_slice(answer).map_err(wrong)?;
        let has_more =
            said.decision.is_some() || said.reason.is_some() || said.question.is_some() || said.replace.is_some();
        let said = match said.result {
            Some(inner) if has_more || inner.result.is_some() => {
                return Err("its answer has a decision within another".to_owned());
            }
            Some(inner) => *inner,
            None => said,
        };
        let decision = said.decision.ok_or("its answer has no `decision`")?;
        let texts = said.replace.unwrap_or_default();
        if !texts.is_empty() && (on != HookEvent::Answer || decision != "allow") {
            return Err(format!("it replaces texts, which only `allow` for an answer does: on {}", on.as_str()));
        }
        match decision.as_str() {
            "allow" if texts.is_empty() => Ok(Self::Allow),
            "allow" => Replacements::new(texts).map(Self::Replace),
            "deny" => Ok(Self::Deny(said.reason.unwrap_or_default())),
            "ask" if on == HookEvent::Call => Ok(Self::Ask(said.question.unwrap_or_default())),
            // No one is asked about these.
            "ask" => Ok(Self::Deny("it asks for approval, which only a call can get".to_owned())),
            // Not in its words, which may have what it was shown.
            _ => Err("its decision is none of allow, deny and ask".to_owned()),
        }
    }

    /// With other words.
    pub(crate) fn map_words(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Deny(said) => Self::Deny(words(said)),
            Self::Ask(said) => Self::Ask(words(said)),
            decision => decision,
        }
    }
}

/// Words of a hook, as others are shown them: on one line, cut, and in quotation marks.
pub(crate) fn words(said: &str) -> String {
    // Redacted before the cut: half a secret would not be recognised.
    people::quoted(head(&redact::text(Surface::ToolError, said), limits::HOOK_WORDS.max))
}
