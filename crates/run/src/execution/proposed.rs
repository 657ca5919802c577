//! `execute` with `save_as`: a run that succeeded is proposed as a script, and a dry run too, without a test.

use std::sync::Arc;

use super::{Called, Request};
use crate::broker::{Broker, Evidence, ExecutionContext};
use crate::proposals::Proposal;
use crate::replay::Cassette;
use crate::scripts::{Saved, Wanted};
use base::error::{Error, ErrorCode, Result};
use base::task;
use base::time::now_ms;
use redact::{Mentions, Surface};

impl ExecutionContext {
    /// Checks a proposal before its run.
    ///
    /// # Errors
    /// `INVALID_ARGS` where nothing can be proposed, and for a name that is none or taken; `BUDGET_EXCEEDED` when there are
    /// too many.
    pub(super) async fn may_propose(&self, name: &str, dry_run: bool) -> Result<()> {
        let wrong = |what: &str, hint: &str| Err(Error::new(ErrorCode::InvalidArgs, what).hint(hint));
        let Some(proposals) = &self.scripts.proposals else {
            let hint = "run it without; a person turns them on: `path` and `proposals = true` in [scripts] of the \
                        configuration";
            return wrong("`save_as`: proposals are off", hint);
        };
        if self.runs.journals.is_none() && !dry_run {
            return wrong("`save_as` without journals", "`on = true` in [journal] of the configuration");
        }
        let (name, client) = (name.to_owned(), Arc::clone(&self.session.principal().client));
        let proposals = proposals.clone();
        task::apart(move || proposals.check(&name, &client)).await
    }

    /// Proposes a run that has ended; says in one line what came of it.
    pub(super) async fn propose(&self, name: &str, is_ok: bool, request: &Request, broker: &Broker) -> String {
        let has_record = broker.evidence().is_some_and(Evidence::is_written);
        let proposed = match (is_ok, has_record) {
            (false, _) => Err(Error::new(ErrorCode::InvalidArgs, "the run failed").hint("propose one that succeeds")),
            (true, _) if request.dry_run => self.planned(name, broker.id(), request).await,
            (true, false) => Err(Error::new(ErrorCode::Internal, "the run has no journal").hint("the log says why")),
            (true, true) => self.proposed(name, broker.id()).await,
        };
        let plan = match request.dry_run {
            true => " from its plan: no write was made, so it has no test and no type of its result",
            false => "",
        };
        let line = match proposed {
            Ok((file, params)) => format!(
                "proposed as {name}({params}) ({file}){plan}; it cannot be called. A person looks at it with `forgefs \
                 scripts proposals {name}`, and takes it with `forgefs scripts accept {name}`"
            ),
            Err(error) => format!("not proposed: {}; {}", error.message, error.suggested_fix()),
        };
        // A script that parts from its record is told with what it asked.
        redact::text(Surface::ToolError, &line).replace('\n', " ")
    }

    /// File and parameters of the proposal of a dry run. Writes answered samples, which are no test, and of no type.
    async fn planned(&self, name: &str, run: &str, request: &Request) -> Result<(String, String)> {
        if self.runs.answers.placeholders && !Mentions::of(&request.code).is_empty() {
            return Err(super::saved::named_placeholders(run));
        }
        let wanted = Wanted { doc: format!("Proposed from the dry run {run}."), ..Wanted::default() };
        let saved = self.as_function(request.language, &request.code, &wanted).await?;
        self.kept(name, run, saved, &[]).await
    }

    /// File and parameters of the proposal of a run.
    async fn proposed(&self, name: &str, run: &str) -> Result<(String, String)> {
        let Some(journals) = &self.runs.journals else { return Err(off()) };
        let client = Arc::clone(&self.session.principal().client);
        let found = journals.find(Some(&client), run).await?;
        let recorded = journals.recorded(&found).await?;
        let tools = Called::of(journals, &recorded).await?.tools;
        let wanted = Wanted { doc: format!("Proposed from run {run}."), ..Wanted::default() };
        let (saved, cassette) = self.saved(recorded, tools, wanted).await.map_err(|mut error| {
            let by_person = || format!("a person can try `forgefs scripts save {run} --as {name} --keep`");
            error.hint.get_or_insert_with(by_person);
            error
        })?;
        self.kept(name, run, saved, std::slice::from_ref(&cassette)).await
    }

    /// Keeps a proposal; its file and parameters.
    async fn kept(&self, name: &str, run: &str, saved: Saved, tests: &[Cassette]) -> Result<(String, String)> {
        let proposals = self.scripts.proposals.clone().ok_or_else(off)?;
        let client = &self.session.principal().client;
        let script = (saved.extension, saved.code, tests);
        let proposal = Proposal::new(name, client, self.session.client(), run, now_ms(), script);
        let file = task::apart(move || proposals.keep(&proposal).map(|file| proposals.shown(&file))).await?;
        Ok((file, saved.signature))
    }
}

fn off() -> Error {
    Error::new(ErrorCode::InvalidArgs, "proposals are off")
}
