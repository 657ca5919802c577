//! `forgefs serve` in front of a daemon: passes lines between a client and the daemon, and goes on with the next daemon
//! when one is gone. It makes no call twice: a request that the one that is gone may have begun is answered with an error.

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::handshake::{Hello, Purpose, Speaker, VERSION};
use super::launch::Launch;
use super::link::{Link, LinkError, open};
use super::place::Place;
use super::traffic::{Fate, Traffic, unreachable};
use base::error::ErrorCode;
use base::limits;
use base::lines::{self, Line};

/// Read buffer in bytes.
const BUFFER: usize = 64 << 10;
/// Time to find or start a daemon.
const REACH: Duration = Duration::from_secs(25);
/// Pauses between attempts: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Life of a daemon after which the next pause is the first one again.
const SOUND: Duration = Duration::from_secs(10);
/// Time for the last answers after the client's end, or of a daemon that reads no more.
const LAST: Duration = Duration::from_secs(2);

/// A client's way to the daemon.
pub struct Proxy {
    place: Place,
    speaker: Speaker,
    /// `forgefs daemon start`.
    starter: Launch,
    link: Link,
}

/// Reason why lines are no longer passed.
enum End {
    /// The client has ended.
    Client,
    /// The daemon ended by itself, after its last answer.
    Goodbye,
    /// The daemon is gone.
    Lost,
}

impl Proxy {
    /// Attaches to the daemon, and has `starter` start it if needed.
    ///
    /// # Errors
    /// The reason why there is none.
    pub async fn open(place: Place, speaker: Speaker, starter: Launch) -> Result<Self, String> {
        let link = reach(&place, &speaker, &starter).await?;
        Ok(Self { place, speaker, starter, link })
    }

    /// Passes the lines of a client until it ends.
    ///
    /// # Errors
    /// When the client's output cannot be written, or no thread can be started.
    pub async fn serve(self, input: impl io::Read + Send + 'static, output: impl AsyncWrite + Unpin) -> io::Result<()> {
        let Self { place, speaker, starter, link } = self;
        let (lines, ended) = read_client(input)?;
        let mut client = Client { lines, ended, unsent: None, output: tokio::sync::Mutex::new(output) };
        let (mut traffic, mut link) = (Mutex::new(Traffic::default()), Some(link));
        let mut pause = PAUSE;
        loop {
            let Some(current) = link.take() else {
                match client.unless_ended(reach(&place, &speaker, &starter)).await {
                    None => return Ok(()),
                    Some(Ok(next)) => link = Some(next),
                    Some(Err(why)) => {
                        tracing::warn!("no daemon: {why}");
                        if !client.refuse(&why).await? {
                            return Ok(());
                        }
                    }
                }
                continue;
            };
            let since = Instant::now();
            let end = client.pass(current, &traffic).await?;
            let told = traffic.get_mut().lost(matches!(end, End::Goodbye));
            match end {
                End::Client => return Ok(()),
                End::Goodbye => {
                    tracing::warn!("the daemon has ended; the next request starts it again");
                    client.tell(told).await?;
                    if traffic.get_mut().is_idle() && !client.next().await {
                        return Ok(());
                    }
                }
                End::Lost => {
                    tracing::warn!("the daemon is gone; {} requests in flight are unanswered", told.len());
                    client.tell(told).await?;
                    pause = if since.elapsed() > SOUND { PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
                    if client.unless_ended(sleep(pause)).await.is_none() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// The client's end.
struct Client<W> {
    lines: mpsc::Receiver<Line>,
    /// True once its input has ended.
    ended: watch::Receiver<bool>,
    /// The line that no daemon has got as a whole.
    unsent: Option<Vec<u8>>,
    output: tokio::sync::Mutex<W>,
}

/// Reads a client's lines in a thread, one ahead: a read of stdin cannot be interrupted.
fn read_client(input: impl io::Read + Send + 'static) -> io::Result<(mpsc::Receiver<Line>, watch::Receiver<bool>)> {
    let (deliver, lines) = mpsc::channel(1);
    let (end, ended) = watch::channel(false);
    std::thread::Builder::new().name("client".to_owned()).spawn(move || {
        let input = BufReader::with_capacity(BUFFER, input);
        if let Err(error) = lines::read(input, limits::CLIENT_MESSAGE.max, |line| deliver.blocking_send(line).ok()) {
            tracing::error!(%error, "the client's messages cannot be read");
        }
        end.send_replace(true);
    })?;
    Ok((lines, ended))
}

impl<W: AsyncWrite + Unpin> Client<W> {
    /// Passes lines in both directions.
    async fn pass(&mut self, link: Link, traffic: &Mutex<Traffic>) -> io::Result<End> {
        let Link { mut reader, mut writer, .. } = link;
        let Self { lines, unsent, output, .. } = self;
        let again = traffic.lock().repeat();
        let up = async {
            for mut line in again {
                if !line.ends_with(b"\n") {
                    line.push(b'\n');
                }
                writer.write_all(&line).await?;
            }
            pass_up(lines, unsent, output, &mut writer, traffic).await
        };
        let mut down = std::pin::pin!(pass_down(&mut reader, output, traffic));
        let ended = tokio::select! {
            ended = &mut down => return ended,
            ended = up => ended,
        };
        // The daemon answers what it has got, and ends the connection then.
        let is_client = ended.is_ok();
        let _ = writer.shutdown().await;
        match tokio::time::timeout(LAST, down).await {
            _ if is_client => Ok(End::Client),
            Ok(ended) => ended,
            Err(_) => Ok(End::Lost),
        }
    }

    /// Result of some work; `None` when the client ends before.
    async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            _ = self.ended.wait_for(|ended| *ended) => None,
        }
    }

    /// Takes the next line of the client; false when it has ended.
    async fn next(&mut self) -> bool {
        next(&mut self.lines, &mut self.unsent, &self.output).await.is_some()
    }

    /// Answers the unsent request with an error, and takes the next line; false when the client has ended.
    async fn refuse(&mut self, why: &str) -> io::Result<bool> {
        if let Some(error) = self.unsent.take().and_then(|line| unreachable(&line, why)) {
            self.tell(vec![error]).await?;
        }
        Ok(self.next().await)
    }

    /// Writes lines to the client.
    async fn tell(&self, lines: Vec<Vec<u8>>) -> io::Result<()> {
        for line in lines {
            write(&self.output, line).await?;
        }
        Ok(())
    }
}

/// Passes lines to the daemon, until the client ends; an error is one of the socket.
async fn pass_up<W: AsyncWrite + Unpin>(
    lines: &mut mpsc::Receiver<Line>,
    unsent: &mut Option<Vec<u8>>,
    output: &tokio::sync::Mutex<W>,
    writer: &mut OwnedWriteHalf,
    traffic: &Mutex<Traffic>,
) -> io::Result<()> {
    while let Some(line) = next(lines, unsent, output).await {
        if traffic.lock().is_for_daemon(line) {
            // Noted with the last byte: an incomplete line is no request, and is sent again.
            writer.write_all(line).await?;
            traffic.lock().sent(line);
        }
        *unsent = None;
    }
    Ok(())
}

/// The line of the client that is unsent, else its next one; `None` when it has ended.
async fn next<'u, W: AsyncWrite + Unpin>(
    lines: &mut mpsc::Receiver<Line>,
    unsent: &'u mut Option<Vec<u8>>,
    output: &tokio::sync::Mutex<W>,
) -> Option<&'u [u8]> {
    while unsent.is_none() {
        *unsent = whole(lines.recv().await?, output).await;
    }
    unsent.as_deref()
}

/// Passes lines to the client, until the daemon ends; an error is one of the client's output.
async fn pass_down<W: AsyncWrite + Unpin>(
    reader: &mut tokio::io::BufReader<OwnedReadHalf>,
    output: &tokio::sync::Mutex<W>,
    traffic: &Mutex<Traffic>,
) -> io::Result<End> {
    loop {
        let line = match lines::next(reader, limits::DAEMON_ANSWER.max).await {
            Some(Line::Whole(line)) => line,
            Some(Line::Skipped { head, bytes, .. }) => {
                tracing::error!("{}", limits::DAEMON_ANSWER.exceeded(ErrorCode::LimitExceeded, bytes).message);
                match lines::number_at_head(&head) {
                    Some(id) => too_large(id, bytes),
                    None => continue,
                }
            }
            None => return Ok(End::Lost),
        };
        match traffic.lock().received(&line) {
            Fate::Goodbye => return Ok(End::Goodbye),
            Fate::Swallow => continue,
            Fate::Pass => {}
        }
        write(output, line).await?;
    }
}

/// A line of the client with its end; one over the limit is answered with an error.
async fn whole<W: AsyncWrite + Unpin>(line: Line, output: &tokio::sync::Mutex<W>) -> Option<Vec<u8>> {
    match line {
        Line::Whole(mut line) => {
            line.push(b'\n');
            Some(line)
        }
        Line::Skipped { head, tail, bytes } => {
            if let Some(error) = crate::mcp::too_long(&head, &tail, bytes) {
                // An output that is gone is found with the next message.
                let _ = write(output, error).await;
            }
            None
        }
    }
}

fn too_large(id: &[u8], bytes: usize) -> Vec<u8> {
    let what = limits::DAEMON_ANSWER.exceeded(ErrorCode::LimitExceeded, bytes).message;
    let error = serde_json::json!({ "code": -32603, "message": what });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", String::from_utf8_lossy(id)).into_bytes()
}

async fn write<W: AsyncWrite + Unpin>(output: &tokio::sync::Mutex<W>, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut output = output.lock().await;
    output.write_all(&line).await?;
    output.flush().await
}

/// Attaches to the daemon that runs, or to one that `starter` starts.
async fn reach(place: &Place, speaker: &Speaker, starter: &Launch) -> Result<Link, String> {
    let (deadline, mut pause) = (Instant::now() + REACH, PAUSE);
    loop {
        let why = match open(place, &Hello::new(Purpose::Attach, speaker.clone())).await {
            Ok(Some(link)) => {
                let theirs = &link.welcome.version;
                if theirs != VERSION {
                    tracing::warn!(
                        "the daemon is forgefs {theirs}, and this is {VERSION}: `forgefs daemon stop` ends it, and the \
                         next client starts one of its own version"
                    );
                }
                return Ok(link);
            }
            Ok(None) => match begin(starter).await {
                Ok(()) => "the daemon ends as soon as it was started".to_owned(),
                Err(why) => return Err(why),
            },
            Err(error @ LinkError::Refused(_)) => return Err(error.to_string()),
            Err(error) => error.to_string(),
        };
        if Instant::now() >= deadline {
            return Err(why);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Starts the daemon by a process of its own: it must not be a child of a process that clients end with its children.
async fn begin(starter: &Launch) -> Result<(), String> {
    let Launch { exe, args } = starter;
    let mut command = Command::new::<&PathBuf>(exe);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| format!("`forgefs daemon start` cannot be run: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ").to_owned()),
    }
}
