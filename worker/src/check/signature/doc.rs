//! Documentation comments of a script.

use oxc_ast::ast::Program;
use oxc_span::Span;

use super::Fit;
use super::jsdoc::{self, Doc};

/// The JSDoc comments of a script.
pub(super) struct Docs<'c> {
    code: &'c str,
    /// Owner of each, by its start, and its text.
    comments: Vec<(u32, Span)>,
}

impl<'c> Docs<'c> {
    pub(super) fn new(code: &'c str, program: &Program<'_>) -> Self {
        let comments = program.comments.iter().filter(|it| it.is_jsdoc());
        Self { code, comments: comments.map(|it| (it.attached_to, it.content_span())).collect() }
    }

    /// The comment before what begins here; the last of several.
    pub(super) fn before(&self, at: u32) -> Fit<Option<Doc<'c>>> {
        let comment = self.comments.iter().rev().find(|(of, _)| *of == at);
        comment.map(|(_, span)| jsdoc::parse(self.code, *span)).transpose()
    }

    /// The description of what begins here, in one line.
    pub(super) fn text_before(&self, at: u32) -> String {
        let doc = self.before(at).ok().flatten().unwrap_or_default();
        doc.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// All comments.
    pub(super) fn all(&self) -> impl Iterator<Item = Fit<Doc<'c>>> {
        self.comments.iter().map(|(_, span)| jsdoc::parse(self.code, *span))
    }
}
