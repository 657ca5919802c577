//! Observed shapes of one server's results, live: the broker adds to them, stubs are rendered with them.
//!
//! They stand behind [`State`] with one operation, since what one gateway learns is of use to all; the embedded state
//! keeps them in a file beside the server's cached list. They are no part of the catalog's stubs: nothing is rebuilt,
//! and no digest changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use stubgen::ToolStub;
use tokio::sync::Notify;

use state::State;
use state::shapes::{Given, Learned, Shape, Shapes};

/// Delay before news is saved: answers come in bursts.
const SETTLE: Duration = Duration::from_secs(3);

/// Observed shapes of one server; by default none are learned.
#[derive(Debug, Clone, Default)]
pub struct Observed(Option<Arc<Server>>);

#[derive(Debug)]
struct Server {
    state: Arc<dyn State>,
    /// Where the state keeps them; `None` keeps them in memory only.
    file: Option<Arc<Path>>,
    tools: Mutex<Tools>,
    news: Notify,
    /// Held while news is saved, so that the last save before an end waits for one under way.
    saving: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Tools {
    all: Shapes,
    unsaved: Shapes,
}

impl Observed {
    /// Shapes that `state` keeps in `file`.
    pub fn new(state: Arc<dyn State>, file: Option<Arc<Path>>) -> Self {
        let (tools, news, saving) = Default::default();
        Self(Some(Arc::new(Server { state, file, tools, news, saving })))
    }

    /// Learns from an answer, as the script gets it, to a call with these arguments.
    pub fn learn(&self, tool: &ToolStub, arguments: &Map<String, Value>, answer: &Value) {
        let Some(server) = self.0.as_ref().filter(|_| tool.has_open_result()) else { return };
        let learned = Learned::once(Shape::of(answer, &Given::of(arguments, &tool.definition.tree())));
        let digest = tool.full_digest();
        let mut tools = server.tools.lock();
        if server.file.is_some() {
            tools.unsaved.add(&digest, learned.clone());
        }
        if tools.all.add(&digest, learned) {
            server.news.notify_one();
        }
    }

    /// Learned shape of a tool's result; `None` if shapes are not learned.
    pub fn of(&self, tool: &ToolStub) -> Option<stubgen::Observed> {
        let server = self.0.as_ref()?;
        let tools = server.tools.lock();
        let learned = tools.all.get(&tool.full_digest());
        Some(learned.map(|learned| learned.observed(&tool.definition.tree())).unwrap_or_default())
    }

    /// A copy of all shapes.
    pub fn shapes(&self) -> Shapes {
        self.0.as_ref().map(|server| server.tools.lock().all.clone()).unwrap_or_default()
    }

    /// Saves news until it is dropped.
    pub async fn keep(self) {
        let Some(server) = &self.0 else { return };
        loop {
            server.news.notified().await;
            tokio::time::sleep(SETTLE).await;
            self.save().await;
        }
    }

    /// Saves news, and loads the kept ones with those of other gateways. A failure is only logged.
    pub async fn save(&self) {
        let Some((server, file)) = self.0.as_ref().and_then(|server| Some((server, server.file.as_ref()?))) else {
            return;
        };
        let _alone = server.saving.lock().await;
        let news = std::mem::take(&mut server.tools.lock().unsaved);
        match server.state.observe(file, news.clone()).await {
            Ok(mut all) => {
                let mut tools = server.tools.lock();
                all.merge(tools.unsaved.clone());
                tools.all = all;
            }
            Err(error) => {
                tracing::warn!(%error, "observed shapes are not kept");
                server.tools.lock().unsaved.merge(news);
            }
        }
    }
}
