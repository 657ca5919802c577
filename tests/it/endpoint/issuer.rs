//! An authorization server as far as a resource server sees it: keys made for the test, tokens, metadata, and faults.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair,
};
use ring::{hmac, signature};
use serde_json::{Value, json};

/// What the tokens are for.
pub(super) const AUDIENCE: &str = "https://forge.example.com/mcp";

/// A private key.
pub(super) enum Key {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Key {
    /// `None`, visibly, without the program `openssl`: ring makes no keys of RSA.
    pub(super) fn rsa() -> Option<Self> {
        let args = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-outform", "DER"];
        match Command::new("openssl").args(args).stderr(Stdio::null()).output() {
            Ok(made) if made.status.success() => {
                // Versions of openssl differ in the form.
                let pair = RsaKeyPair::from_pkcs8(&made.stdout).or_else(|_| RsaKeyPair::from_der(&made.stdout));
                Some(Self::Rsa(pair.expect("a key of RSA")))
            }
            missing => {
                crate::real::skipped(&format!("openssl makes no key: {missing:?}"));
                None
            }
        }
    }

    pub(super) fn ec() -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let made = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        Self::Ec(EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random).expect("a key"))
    }

    pub(super) fn ed() -> Self {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self::Ed(Ed25519KeyPair::from_pkcs8(made.as_ref()).expect("a key"))
    }

    /// The public key as a JWK.
    pub(super) fn jwk(&self, kid: &str) -> Value {
        let mut jwk = match self {
            Self::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "n": encoded(&public.n), "e": encoded(&public.e)})
            }
            Self::Ec(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
            }
            Self::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": encoded(pair.public_key().as_ref())}),
        };
        jwk["kid"] = json!(kid);
        jwk["use"] = json!("sig");
        jwk
    }

    /// A token with this head and these claims, signed by the algorithm of the head; by another one it is signed in vain.
    pub(super) fn signed(&self, head: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(head.to_string().as_bytes()), encoded(claims.to_string().as_bytes()));
        let random = SystemRandom::new();
        let signature = match self {
            Self::Rsa(pair) => {
                let kind: &dyn signature::RsaEncoding =
                    if head["alg"] == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut made = vec![0; pair.public().modulus_len()];
                pair.sign(kind, &random, text.as_bytes(), &mut made).expect("a signature");
                made
            }
            Self::Ec(pair) => pair.sign(&random, text.as_bytes()).expect("a signature").as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
        };
        format!("{text}.{}", encoded(&signature))
    }
}

/// A token whose signature is the HMAC with a public key as secret.
pub(super) fn confused(head: &Value, claims: &Value, secret: &[u8]) -> String {
    let text = format!("{}.{}", encoded(head.to_string().as_bytes()), encoded(claims.to_string().as_bytes()));
    let made = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
    format!("{text}.{}", encoded(made.as_ref()))
}

pub(super) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Unix time in seconds.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Answer to a request for the keys.
#[derive(Clone)]
pub(super) enum Answer {
    Keys(Value),
    /// Status line, content type and body.
    Text(&'static str, &'static str, String),
    /// A redirect to this path of the issuer.
    Redirect(&'static str),
    /// None, for a minute.
    Hang,
    /// The connection is closed.
    Gone,
}

#[derive(Clone)]
struct State {
    keys: Answer,
    /// What the metadata says of itself.
    issuer: String,
    /// Times that the keys were asked for.
    asked: usize,
}

/// The authorization server.
pub(super) struct Issuer {
    pub(super) port: u16,
    state: Arc<Mutex<State>>,
}

impl Issuer {
    /// Starts it with these keys.
    pub(super) fn start(keys: Value) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("an address").port();
        let issuer = format!("http://127.0.0.1:{port}");
        let state = Arc::new(Mutex::new(State { keys: Answer::Keys(keys), issuer, asked: 0 }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state, port));
            }
        });
        Self { port, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn answers(&self, answer: Answer) {
        self.state.lock().expect("no panic").keys = answer;
    }

    /// Has its metadata name another issuer.
    pub(super) fn claims_to_be(&self, issuer: &str) {
        self.state.lock().expect("no panic").issuer = issuer.to_owned();
    }

    pub(super) fn asked(&self) -> usize {
        self.state.lock().expect("no panic").asked
    }

    /// `[http.oauth]` with these keys beside.
    pub(super) fn config(&self, more: &str) -> String {
        format!("[http.oauth]\nissuer = \"{}\"\naudience = \"{AUDIENCE}\"\n{more}\n", self.url())
    }

    /// Claims of a good token, with these in place of its own; `null` takes one away.
    pub(super) fn claims(&self, changes: Value) -> Value {
        let mut claims = json!({"iss": self.url(), "aud": AUDIENCE, "sub": "ann", "exp": now() + 600, "iat": now(),
            "groups": ["platform"]});
        for (claim, value) in changes.as_object().expect("an object") {
            claims[claim] = value.clone();
        }
        claims.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        claims
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>, port: u16) {
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    let (mut request, mut line) = (String::new(), String::new());
    if reader.read_line(&mut request).is_err() {
        return;
    }
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let known = state.lock().expect("no panic").clone();
    let mut text = |mut stream: TcpStream, status: &str, more: &str, body: &str| {
        let head = format!("HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = reader.get_mut().read(&mut [0]);
    };
    const JSON: &str = "Content-Type: application/json\r\n";
    match path.as_str() {
        "/.well-known/openid-configuration" => {
            let jwks = format!("http://127.0.0.1:{port}/keys");
            text(stream, "200 OK", JSON, &json!({"issuer": known.issuer, "jwks_uri": jwks}).to_string());
        }
        "/keys" | "/moved" => {
            state.lock().expect("no panic").asked += 1;
            match known.keys {
                Answer::Keys(keys) => text(stream, "200 OK", JSON, &keys.to_string()),
                Answer::Redirect(_) if path == "/moved" => text(stream, "200 OK", JSON, "{\"keys\": []}"),
                Answer::Text(status, kind, body) => {
                    text(stream, status, &format!("Content-Type: {kind}\r\n"), &body);
                }
                Answer::Redirect(to) => {
                    let to = format!("Location: http://127.0.0.1:{port}{to}\r\n");
                    text(stream, "302 Found", &to, "");
                }
                Answer::Hang => std::thread::sleep(Duration::from_secs(60)),
                Answer::Gone => drop(stream),
            }
        }
        _ => text(stream, "404 Not Found", "", "nothing here"),
    }
}
