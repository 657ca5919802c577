//! The function that a script consists of, if it does.

use oxc_ast::ast::{
    ArrowFunctionExpression, BindingPattern, ExportDefaultDeclarationKind, Expression, FormalParameters, Function,
    Statement, TSType,
};
use oxc_span::{GetSpan, Span};
use wire::ValueOf;

use super::uncalled::exported_name;

/// A script that consists of a function.
pub(super) struct FunctionScript<'p, 'a> {
    pub(super) function: FunctionOf<'p, 'a>,
    /// Start of the statement that it stands in, where its documentation is attached.
    pub(super) statement: u32,
    /// The function's text.
    span: Span,
}

/// Either kind of function.
#[derive(Clone, Copy)]
pub(super) enum FunctionOf<'p, 'a> {
    Function(&'p Function<'a>),
    Arrow(&'p ArrowFunctionExpression<'a>),
}

impl<'p, 'a> FunctionScript<'p, 'a> {
    /// A script that is a function expression and nothing else, or ends with a function as its default export: the form
    /// that type checkers of people's editors take for a file of its own.
    pub(super) fn of(body: &'p [Statement<'a>]) -> Option<Self> {
        let mut code = body.iter().filter(|it| !is_type(it));
        let (last, is_alone) = (code.next_back()?, code.next_back().is_none());
        if let (Statement::ExpressionStatement(only), true) = (last, is_alone) {
            let (start, end) = (only.span.start, only.expression.span().end);
            let function = FunctionOf::of(&only.expression)?;
            return Some(Self { function, statement: start, span: Span::new(start, end) });
        }
        let Statement::ExportDefaultDeclaration(last) = last else { return None };
        let (function, span) = match &last.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(it) => (FunctionOf::Function(it), it.span),
            kind => {
                let expression = kind.as_expression()?;
                (FunctionOf::of(expression)?, expression.span())
            }
        };
        Some(Self { function, statement: last.span.start, span })
    }

    /// True for a script that ends with a function as its default export.
    pub(super) fn is_exported(body: &'p [Statement<'a>]) -> bool {
        let is_function = || Self::of(body).is_some() || exported_name(body).is_some();
        matches!(body.last(), Some(Statement::ExportDefaultDeclaration(_))) && is_function()
    }

    /// Where the script's value comes from.
    pub(super) fn value(&self) -> ValueOf {
        let first = self.function.params().items.first();
        let takes_apart = |pattern: &BindingPattern<'_>| matches!(pattern, BindingPattern::ObjectPattern(_));
        let Span { start, end, .. } = self.span;
        match first {
            Some(first) if takes_apart(&first.pattern) && first.initializer.is_none() => {
                ValueOf::Destructured(start, end)
            }
            _ => ValueOf::Function(start, end),
        }
    }
}

impl<'p, 'a> FunctionOf<'p, 'a> {
    pub(super) fn of(expression: &'p Expression<'a>) -> Option<Self> {
        match expression.get_inner_expression() {
            Expression::ArrowFunctionExpression(it) => Some(Self::Arrow(it)),
            Expression::FunctionExpression(it) => Some(Self::Function(it)),
            _ => None,
        }
    }

    pub(super) fn params(self) -> &'p FormalParameters<'a> {
        match self {
            Self::Function(it) => &it.params,
            Self::Arrow(it) => &it.params,
        }
    }

    /// The type of its value.
    pub(super) fn returns(self) -> Option<&'p TSType<'a>> {
        let annotation = match self {
            Self::Function(it) => &it.return_type,
            Self::Arrow(it) => &it.return_type,
        };
        annotation.as_ref().map(|it| &it.type_annotation)
    }

    /// Its place.
    pub(super) fn start(self) -> u32 {
        match self {
            Self::Function(it) => it.span.start,
            Self::Arrow(it) => it.span.start,
        }
    }

    /// The place of what keeps it from being a tool, and what that is.
    pub(super) fn unfit(self) -> Option<(u32, &'static str)> {
        let generics = match self {
            Self::Function(it) => &it.type_parameters,
            Self::Arrow(it) => &it.type_parameters,
        };
        if let Some(generics) = generics {
            return Some((generics.span.start, "a function with type parameters"));
        }
        match self {
            Self::Function(it) if it.generator => Some((it.span.start, "a generator")),
            Self::Function(Function { this_param: Some(this), .. }) => {
                Some((this.span.start, "a function with `this`"))
            }
            _ => None,
        }
    }
}

/// True for a declaration that is gone when types are stripped.
pub(super) fn is_type(statement: &Statement<'_>) -> bool {
    matches!(statement, Statement::TSTypeAliasDeclaration(_) | Statement::TSInterfaceDeclaration(_))
}
