//! MCP in lines: on stdin and stdout, or on a socket. A dedicated thread reads lines. Large lines are parsed elsewhere,
//! one at a time, and requests that arrive meanwhile overtake them. Everything else keeps its order: a cancellation
//! stays behind its request.

use std::io::{self, BufRead, BufReader, Read as Input};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ContentBlock, JsonRpcMessage, ResourceContents, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify, mpsc, watch};

use super::admission::{Admission, Held};
use super::message::{self, Read, answered_id, refusal, request_id};
use base::json;
use base::limits;
use base::lines::{self, Line, trim};
use base::meter;
use base::task::{self, Task};

/// Queue of parsed messages.
const QUEUE: usize = 16;
/// Read buffer in bytes.
const BUFFER: usize = 64 << 10;
/// Polling interval of a connection that is to end, for its last answer.
const LOOK: Duration = Duration::from_millis(20);
/// Least bytes that an unsent message counts for: as many may wait as there may be requests.
const LEAST_UNSENT: usize = limits::UNREAD.max / limits::REQUESTS.max;

/// Last message on a connection that the gateway ends after its last answer, for a proxy in between.
pub const GOODBYE: &str = "notifications/forgefs/closing";

/// Tells connections to end once their requests are answered.
#[derive(Clone)]
pub struct Closing(watch::Receiver<bool>);

impl Closing {
    /// A switch, and its connections' end of it.
    pub fn switch() -> (watch::Sender<bool>, Self) {
        let (switch, closing) = watch::channel(false);
        (switch, Self(closing))
    }

    /// Waits until it is wanted; never, once the switch is gone.
    pub async fn wanted(&mut self) {
        if self.0.wait_for(|wanted| *wanted).await.is_err() {
            std::future::pending().await
        }
    }

    fn is_wanted(&self) -> bool {
        *self.0.borrow()
    }
}

/// The transport.
pub(super) struct LineTransport {
    received: mpsc::Receiver<ClientJsonRpcMessage>,
    outgoing: Outgoing,
    closing: Closing,
    _apart: Task,
}

impl LineTransport {
    /// Starts reading.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn open(
        input: impl Input + Send + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        closing: Closing,
        admission: Admission,
    ) -> io::Result<Self> {
        let outgoing = Outgoing::new(output, admission);
        let (deliver, received) = mpsc::channel(QUEUE);
        let inlet = Inlet { deliver, outgoing: outgoing.clone() };
        let (reader, waiting) = Reader::new(inlet.clone(), Handle::current());
        let apart = Task::spawn(one_by_one(waiting, inlet, Arc::clone(&reader.ahead)));
        // A read cannot be interrupted; a detached thread does not delay the end of the process.
        std::thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || reader.read(BufReader::with_capacity(BUFFER, input)))?;
        Ok(Self { received, outgoing, closing, _apart: apart })
    }
}

impl Transport<RoleServer> for LineTransport {
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.outgoing.clone().send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let answered = async {
            self.closing.wanted().await;
            while self.outgoing.admission.unanswered() > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            message = self.received.recv() => message,
            () = answered => None,
            // Without a reader of answers no request is carried out.
            () = self.outgoing.lost.notified() => None,
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        if !self.closing.is_wanted() {
            return Ok(());
        }
        self.outgoing.write(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{GOODBYE}\"}}\n").as_bytes()).await
    }
}

/// Reads lines.
struct Reader {
    inlet: Inlet,
    waiting: mpsc::Sender<Waiting>,
    /// Number of queued lines that are not delivered yet.
    ahead: Arc<AtomicUsize>,
    runtime: Handle,
}

/// An item in order behind a large line.
enum Waiting {
    Large(Vec<u8>, Held),
    Read(Read),
}

impl Reader {
    fn new(inlet: Inlet, runtime: Handle) -> (Self, mpsc::Receiver<Waiting>) {
        let (waiting, queue) = mpsc::channel(limits::REQUESTS.max);
        (Self { inlet, waiting, ahead: Arc::default(), runtime }, queue)
    }

    /// Reads until the end of the input, or until the receiver is gone.
    fn read(self, input: impl BufRead) {
        if let Err(error) = lines::read(input, limits::CLIENT_MESSAGE.max, |line| self.take(line)) {
            tracing::error!(%error, "the client's messages cannot be read");
        }
    }

    /// `None` when the receiver is gone.
    fn take(&self, line: Line) -> Option<()> {
        self.runtime.block_on(self.inlet.outgoing.admission.unread.room());
        let line = match line {
            Line::Whole(line) => line,
            Line::Skipped { head, tail, bytes } => return self.pass(message::skipped(&head, &tail, bytes)),
        };
        let text = trim(&line);
        if text.is_empty() {
            return Some(());
        }
        let held = match self.inlet.outgoing.admission.bytes.hold(text.len()) {
            Ok(held) => held,
            Err(error) => return self.pass(message::refused(text, &error)),
        };
        if text.len() > task::LONG {
            return self.wait(Waiting::Large(line, held));
        }
        match json::measure(text) {
            Ok(found) if found.tree_bytes > task::LONG => self.wait(Waiting::Large(line, held)),
            _ => self.pass(message::read(text, held)),
        }
    }

    fn pass(&self, read: Read) -> Option<()> {
        let overtakes = match &read {
            Read::Message(message, ..) => matches!(**message, JsonRpcMessage::Request(_)),
            Read::Refused(..) | Read::Nothing => true,
        };
        match overtakes || self.ahead.load(Ordering::Acquire) == 0 {
            true => self.runtime.block_on(self.inlet.pass(read)),
            false => self.wait(Waiting::Read(read)),
        }
    }

    fn wait(&self, waiting: Waiting) -> Option<()> {
        self.ahead.fetch_add(1, Ordering::AcqRel);
        self.waiting.blocking_send(waiting).ok()
    }
}

/// Delivers the queue in order.
async fn one_by_one(mut waiting: mpsc::Receiver<Waiting>, inlet: Inlet, ahead: Arc<AtomicUsize>) {
    while let Some(next) = waiting.recv().await {
        let read = match next {
            Waiting::Read(read) => read,
            Waiting::Large(line, held) => {
                let read = meter::apart(move || message::read(trim(&line), held)).await;
                read.unwrap_or_else(|stopped| message::unread(&stopped.error("read a message of the client")))
            }
        };
        if inlet.pass(read).await.is_none() {
            return;
        }
        ahead.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Destination of messages, and of refusals.
#[derive(Clone)]
struct Inlet {
    deliver: mpsc::Sender<ClientJsonRpcMessage>,
    outgoing: Outgoing,
}

impl Inlet {
    /// `None` when the receiver is gone. A refusal is written before this returns.
    async fn pass(&self, read: Read) -> Option<()> {
        let (id, error) = match read {
            Read::Message(message, held, _) => match self.outgoing.admission.admit(&message, held) {
                Ok(_) => return self.deliver.send(*message).await.ok(),
                Err(error) => (request_id(&message), refusal(&error)),
            },
            Read::Refused(id, error) => (id, error),
            Read::Nothing => return Some(()),
        };
        self.outgoing.write(&line(&JsonRpcMessage::error(error, id)).ok()?).await.ok()
    }
}

/// Output to the client. Over the limit of unread answers nothing is read; those of cancelled requests are among them.
#[derive(Clone)]
struct Outgoing {
    output: Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>,
    admission: Admission,
    /// Told when the output cannot be written.
    lost: Arc<Notify>,
}

impl Outgoing {
    fn new(output: impl AsyncWrite + Send + Unpin + 'static, admission: Admission) -> Self {
        let output: Box<dyn AsyncWrite + Send + Unpin> = Box::new(output);
        Self { output: Arc::new(Mutex::new(output)), admission, lost: Arc::default() }
    }

    /// A request is in flight until its answer has been written.
    async fn send(self, message: ServerJsonRpcMessage) -> io::Result<()> {
        let answered = answered_id(&message);
        let mut line = task::work_on(length(&message), move || line(&message))?;
        let kept = self.admission.unread.keep_late(line.len().max(LEAST_UNSENT));
        let _unread = match (kept, &answered) {
            (Err(error), Some(id)) => {
                line = self::line(&JsonRpcMessage::error(refusal(&error), Some(id.clone())))?;
                self.admission.unread.keep(LEAST_UNSENT)
            }
            (kept, _) => kept.map_err(|error| io::Error::other(error.message))?,
        };
        let written = self.write(&line).await;
        if let Some(id) = &answered {
            self.admission.end(id);
        }
        written
    }

    async fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut output = self.output.lock().await;
        let written = async {
            output.write_all(line).await?;
            output.flush().await
        };
        written.await.inspect_err(|_| self.lost.notify_one())
    }
}

fn line(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Estimated bytes of a message: of texts and data in large answers, a constant for rare ones.
pub(super) fn length(message: &ServerJsonRpcMessage) -> usize {
    let JsonRpcMessage::Response(response) = message else { return 0 };
    let contents = |contents: &ResourceContents| match contents {
        ResourceContents::TextResourceContents { text, .. } => text.len(),
        ResourceContents::BlobResourceContents { blob, .. } => blob.len(),
        _ => 0,
    };
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => text.text.len(),
        ContentBlock::Image(image) => image.data.len(),
        ContentBlock::Audio(audio) => audio.data.len(),
        ContentBlock::Resource(embedded) => contents(&embedded.resource),
        _ => 0,
    };
    match &response.result {
        ServerResult::CallToolResult(result) => result.content.iter().map(block).sum(),
        ServerResult::ReadResourceResult(result) => result.contents.iter().map(contents).sum(),
        ServerResult::GetPromptResult(result) => result.messages.iter().map(|message| block(&message.content)).sum(),
        ServerResult::EmptyResult(_) | ServerResult::CompleteResult(_) => 0,
        _ => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn requests_overtake_a_large_line_and_nothing_else_does() {
        let (deliver, mut received) = mpsc::channel(QUEUE);
        let inlet = Inlet { deliver, outgoing: Outgoing::new(tokio::io::sink(), Admission::default()) };
        let (reader, waiting) = Reader::new(inlet.clone(), Handle::current());
        let ahead = Arc::clone(&reader.ahead);
        let large = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{}\"}}}}",
            "x".repeat(2 << 20)
        );
        let cancel = |id: u8| {
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}")
        };
        let small = |id: u8| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
        let text = [small(0), large, cancel(1), small(2), cancel(2), small(3), "cut".to_owned()].join("\r\n");
        let reading = std::thread::spawn(move || reader.read(text.as_bytes()));
        let mut order = Vec::new();
        let mut next = async || {
            let message = received.recv().await?;
            let value = serde_json::to_value(&message).expect("it is JSON");
            let cancelled = value["params"]["requestId"].as_i64().map(|id| format!("cancels {id}"));
            Some(cancelled.unwrap_or_else(|| value["id"].to_string()))
        };
        for _ in 0..3 {
            order.extend(next().await);
        }
        assert_eq!(order, ["0", "2", "3"], "while the large line is not looked at");
        reading.join().expect("it ends");
        tokio::spawn(one_by_one(waiting, inlet, ahead));
        while let Some(more) = next().await {
            order.push(more);
        }
        assert_eq!(order[3..], ["1", "cancels 1", "cancels 2"], "in their order, and then the end");
    }
}
