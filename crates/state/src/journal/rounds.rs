//! Rounds of questions to the client of a run. They are in its journal before they go out, so that the answers count when
//! the process that asked is gone: the run is resumed with them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::time::now_ms;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use wire::Outcome;

use super::line::{Asks, Line, OpenQuestion};
use super::writer::keyed;
use super::{Journals, Reader, Writer};
use base::error::{Error, ErrorCode, Result};
use base::{random, task};

/// A question that goes to the client.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// Its key in the client's answers.
    pub key: &'a str,
    /// Digest of the question and of what it is about.
    pub question: &'a str,
    /// The call that a server has put off with it, before doing anything.
    pub put_off: Option<u64>,
}

/// The parts of a state that a client gets with questions.
struct RoundState<'a> {
    run: &'a str,
    round: &'a str,
    /// Binds the others to the client and its request.
    seal: &'a str,
}

impl<'a> RoundState<'a> {
    /// Splits a state; `None` for one of a request without a journal.
    fn parse(state: &'a str) -> Option<Self> {
        let mut parts = state.split('-');
        let (run, round, seal) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then_some(Self { run, round, seal })
    }
}

/// The run that a state names; the whole of one that names none.
pub fn run_of(state: &str) -> &str {
    RoundState::parse(state).map_or(state, |parts| parts.run)
}

fn seal(key: &str, client: &str, request: &str, run: &str, round: &str) -> String {
    keyed(key, &stubgen::digest(stubgen::canonical_json(&json!([client, request, run, round]))))
}

impl Writer {
    /// Writes what the client is asked, and returns the state that names the round. It is of use to this client alone,
    /// with the `request` of this digest.
    ///
    /// # Errors
    /// When it cannot be written: then there is nothing that the answers could be given to later.
    pub fn asks<'a>(&self, request: &str, questions: impl Iterator<Item = Asking<'a>>) -> std::io::Result<String> {
        let round = random::token();
        let open = questions.map(|Asking { key, question, put_off }| OpenQuestion {
            key: keyed(&self.key, &stubgen::digest(key)),
            question: keyed(&self.key, question),
            put_off,
        });
        let asks = Asks { round: round.clone(), at_ms: now_ms(), questions: open.collect() };
        self.write(&Line::<Outcome>::Asks(asks))?;
        let run = &self.run;
        let seal = seal(&self.key, &self.client, request, run, &round);
        Ok(format!("{run}-{round}-{seal}"))
    }

    /// Writes that the answers to the round of `state` have come. A state without a round needs no line.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be written: nothing may hear the answers, since they could come again.
    pub fn heard(&self, state: &str) -> Result<()> {
        let Some(state) = RoundState::parse(state) else { return Ok(()) };
        self.write(&Line::<Outcome>::Heard { round: state.round.to_owned() }).map_err(|error| {
            let what = format!("the answer is not taken: it cannot be put into the journal of the run ({error})");
            Error::new(ErrorCode::Internal, what).hint("the operator has to see to the disk; then answer again")
        })
    }

    /// True for the run that directly continues `run`.
    pub fn continues(&self, run: &str) -> bool {
        self.parent.as_deref() == Some(run)
    }
}

/// A round of questions whose run stands still, and can be resumed with the answers.
#[derive(Debug)]
pub struct Round {
    /// The run that asked.
    pub run: String,
    questions: Vec<OpenQuestion>,
    key: Arc<str>,
}

/// Answers of a client to the questions of a run, for the run that continues it. Each is given once.
#[derive(Debug)]
pub struct Answers {
    /// The run that asked.
    pub run: String,
    key: Arc<str>,
    answers: HashMap<String, VecDeque<Value>>,
}

impl Round {
    /// Takes the client's answers; what was not asked is left out.
    pub fn answered(self, responses: impl IntoIterator<Item = (String, Value)>) -> Answers {
        let Self { run, mut questions, key } = self;
        let mut answers: HashMap<String, VecDeque<Value>> = HashMap::new();
        for (name, answer) in responses {
            let name = keyed(&key, &stubgen::digest(&name));
            if let Some(position) = questions.iter().position(|open| open.key == name) {
                answers.entry(questions.swap_remove(position).question).or_default().push_back(answer);
            }
        }
        Answers { run, key, answers }
    }
}

impl Answers {
    /// Takes the answer to a question of this digest.
    pub fn take(&mut self, question: &str) -> Option<Value> {
        self.answers.get_mut(&keyed(&self.key, question))?.pop_front()
    }
}

impl Journals {
    /// The round that `state` names, for its client and the `request` of this digest; `None` where no journal has it.
    ///
    /// # Errors
    /// `INVALID_ARGS` for a state of another client or request, a changed one, and one that was answered; `BUSY` while
    /// its run is running; `INTERNAL` when the journal cannot be read.
    pub async fn round(&self, client: &str, request: &str, state: &str) -> Result<Option<Round>> {
        let Some(RoundState { run, round, seal: given }) = RoundState::parse(state) else { return Ok(None) };
        let wrong = |what: String, hint: &str| Err(Error::new(ErrorCode::InvalidArgs, what).hint(hint));
        let key = self.key().await?;
        let expected = seal(&key, client, request, run, round);
        if !bool::from(expected.as_bytes().ct_eq(given.as_bytes())) {
            let what = "it was given with the answer to another request, or to another client, or it was changed";
            return wrong(what.to_owned(), "repeat the request as it was, with its own state");
        }
        let Some(file) = self.state.journal(&self.of(client), run).await? else {
            let what = format!("the journal of run {run} is gone");
            return wrong(what, "look at what is done, then make the request anew without the state");
        };
        let reader = self.reader(client, &file).await?;
        let found = task::work_on(reader.bytes(), || open_round(reader, round))?;
        let resume = format!("`execute(resume=\"{run}\")` goes on with what it did");
        match (found, &file.next) {
            (None, _) => wrong("it was answered before".to_owned(), &resume),
            (Some(_), Some(next)) => wrong(format!("run {next} has continued its run {run} already"), &resume),
            (Some(_), None) if file.is_running => {
                if self.state.want(run).await? {
                    return Err(Error::new(ErrorCode::Busy, format!("its run {run} is given up by another replica"))
                        .hint("answer again in a moment"));
                }
                let what = format!("its run {run} is running: it was answered before, or waits at another gateway");
                Err(Error::new(ErrorCode::Busy, what).hint("answer where it was asked, or wait for the run's end"))
            }
            (Some(questions), None) => Ok(Some(Round { run: run.to_owned(), questions, key })),
        }
    }
}

/// Questions of a round that was not answered.
fn open_round(mut reader: Reader, round: &str) -> Result<Option<Vec<OpenQuestion>>> {
    let mut open = None;
    while let Some(line) = reader.next_line()? {
        match line {
            Line::Asks(asks) if asks.round == round => open = Some(asks.questions),
            Line::Heard { round: heard } if heard == round => open = None,
            _ => {}
        }
    }
    Ok(open)
}
