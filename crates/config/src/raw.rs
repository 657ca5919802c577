//! Raw types of the file: every key, all optional, checked only by type.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use jsonwebtoken::Algorithm;
use redact::Results;
use serde::{Deserialize, Deserializer, de};

use super::confinement::{self, Network, Preset};
use super::manifest::PinAccept;
use super::sandbox::{self, RawLimits, RawMemory};
#[cfg(test)]
use super::schema;
use super::server::RawBreaker;
use super::words::Word;
use super::{
    Approval, AuditTo, Binding, Expose, FlowAction, HookEvent, Isolation, Relay, Returns, ScriptApproval, Share, Start,
    Tasks, auth, daemon, hooks, transport,
};

/// Tables of the file, each with the words for a value that is none: no key has to be there, and an unknown one is a
/// mistake.
macro_rules! tables {
    ($($name:ident $expecting:literal { $($(#[$of_key:meta])* $key:ident: $kind:ty,)* })*) => {$(
        #[derive(Default, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, default, expecting = $expecting)]
        pub(super) struct $name {
            $($(#[$of_key])* pub(super) $key: $kind,)*
        }
    )*};
}

tables! {
    Raw "a table" {
        env_files: Option<Vec<String>>,
        #[cfg_attr(test, schemars(schema_with = "schema::names::<RawServer>"))]
        servers: BTreeMap<String, RawServer>,
        sandbox: RawSandbox,
        memory: RawMemory,
        manifest: RawManifest,
        skills: RawSkills,
        search: RawSearch,
        audit: RawAudit,
        journal: RawJournal,
        approvals: RawApprovals,
        identity: Option<RawIdentity>,
        state: RawState,
        #[cfg_attr(test, schemars(schema_with = "schema::names::<RawHook>"))]
        hooks: BTreeMap<String, RawHook>,
        redaction: RawRedaction,
        budgets: RawBudgets,
        metrics: RawMetrics,
        telemetry: RawTelemetry,
        daemon: RawDaemon,
        groups: BTreeMap<String, RawGroup>,
        flows: Vec<RawFlow>,
        scripts: RawScripts,
        http: RawHttp,
        #[cfg_attr(test, schemars(schema_with = "schema::names::<RawProfile>"))]
        profiles: BTreeMap<String, RawProfile>,
        #[cfg_attr(test, schemars(schema_with = "schema::names::<RawClient>"))]
        clients: BTreeMap<String, RawClient>,
        #[cfg_attr(test, schemars(schema_with = "schema::names::<RawConsole>"))]
        console: BTreeMap<String, RawConsole>,
    }

    RawServer "a table of server settings" {
        transport: Option<Word<transport::Kind>>,
        command: Option<String>,
        args: Option<Vec<String>>,
        env: Option<BTreeMap<String, RawCredential>>,
        cwd: Option<String>,
        url: Option<String>,
        headers: Option<BTreeMap<String, RawCredential>>,
        openapi: Option<String>,
        base_url: Option<String>,
        query: Option<BTreeMap<String, RawCredential>>,
        description: Option<String>,
        enabled: Option<bool>,
        timeout: Option<DurationText>,
        max_timeout: Option<DurationText>,
        connect_timeout: Option<DurationText>,
        reconnect: Option<bool>,
        max_reconnect_backoff: Option<DurationText>,
        breaker: RawBreaker,
        #[cfg_attr(test, schemars(schema_with = "schema::names::<Vec<String>>"))]
        categories: BTreeMap<String, Vec<String>>,
        binding: Option<Word<Binding>>,
        allow: Option<Vec<String>>,
        deny: Option<Vec<String>>,
        allow_unmatched: Option<bool>,
        start: Option<Word<Start>>,
        idle_stop: Option<DurationText>,
        share: Option<Word<Share>>,
        auth: Option<RawAuth>,
        rate: Option<RawRate>,
        cost: Option<f64>,
        approval: Option<Word<Approval>>,
        elicitation: Option<Word<Relay>>,
        sampling: Option<Word<Relay>>,
        tasks: Option<Word<Tasks>>,
        tools: BTreeMap<String, RawTool>,
        sandbox: Option<RawConfinement>,
    }

    RawConfinementTable "a table" {
        preset: Option<Word<Preset>>,
        read: Option<Vec<String>>,
        write: Option<Vec<String>>,
        network: Option<Word<Network>>,
        memory: Option<SizeText>,
        processes: Option<i64>,
        require: Option<Vec<Word<confinement::Layers>>>,
    }

    RawSource "a table with `file`, `command` or `keyring`" {
        file: Option<String>,
        command: Option<Vec<String>>,
        keyring: Option<String>,
        prefix: Option<String>,
    }

    RawRate "a table such as { calls = 60, per = \"1m\" }" {
        calls: Option<i64>,
        per: Option<DurationText>,
        burst: Option<i64>,
    }

    RawTool "a table of settings for a tool" {
        rate: Option<RawRate>,
        cost: Option<f64>,
        approval: Option<Word<Approval>>,
        only_from: Option<Vec<String>>,
        name: Option<String>,
        description: Option<String>,
        annotations: Option<RawAnnotations>,
        hide: Option<Vec<String>>,
        fixed: Option<BTreeMap<String, serde_json::Value>>,
        default: Option<BTreeMap<String, serde_json::Value>>,
        result: Option<String>,
    }

    RawAnnotations "a table such as { read_only = true }" {
        title: Option<String>,
        read_only: Option<bool>,
        destructive: Option<bool>,
        idempotent: Option<bool>,
        open_world: Option<bool>,
    }

    RawScripts "a table" {
        path: Option<String>,
        unlocked: Option<bool>,
        proposals: Option<bool>,
        tools: BTreeMap<String, RawScript>,
    }

    RawScript "a table of settings for a script" {
        as_tool: Option<bool>,
        approval: Option<Word<ScriptApproval>>,
        returns: Option<Word<Returns>>,
        calls: Option<i64>,
    }

    RawGroup "a table with `servers`" {
        servers: Option<Vec<String>>,
        isolation: Option<Word<Isolation>>,
    }

    RawFlow "a table with `from`, `to` and `action`" {
        from: Option<String>,
        to: Option<String>,
        action: Option<Word<FlowAction>>,
    }

    RawAuth "a table" {
        #[serde(rename = "type")]
        kind: Option<Word<Option<auth::Grant>>>,
        login: Option<Word<auth::Login>>,
        exchange: Option<RawExchange>,
        scopes: Option<Vec<String>>,
        client_id: Option<String>,
        client_secret: Option<RawCredential>,
        private_key: Option<RawCredential>,
        key_id: Option<String>,
        redirect_port: Option<i64>,
        private_network: Option<bool>,
        issuer: Option<String>,
        token_url: Option<String>,
    }

    RawExchange "a table with `token_endpoint`, `client_id` and `client_secret`" {
        token_endpoint: Option<String>,
        audience: Option<String>,
        resource: Option<String>,
        scopes: Option<Vec<String>>,
        client_id: Option<String>,
        client_secret: Option<RawCredential>,
        private_key: Option<RawCredential>,
        key_id: Option<String>,
    }

    RawIdentity "a table with `issuer` and `client_id`" {
        issuer: Option<String>,
        client_id: Option<String>,
        client_secret: Option<RawCredential>,
        private_key: Option<RawCredential>,
        key_id: Option<String>,
        scopes: Option<Vec<String>>,
        id_token: Option<RawCredential>,
        match_subject: Option<bool>,
        redirect_port: Option<i64>,
        private_network: Option<bool>,
    }

    RawSandbox "a table" {
        workers: Option<i64>,
        worker_scripts: Option<i64>,
        worker_age: Option<DurationText>,
        worker_growth: Option<SizeText>,
        require: Option<Vec<Word<sandbox::Layers>>>,
        limits: RawLimits,
    }

    RawManifest "a table" {
        refresh: Option<DurationText>,
        pin: Option<String>,
        pin_accept: Option<Vec<Word<PinAccept>>>,
        pin_first_use: Option<bool>,
        cache: Option<String>,
        startup_concurrency: Option<i64>,
        observe: Option<bool>,
        probe: Option<bool>,
    }

    RawSkills "a table" {
        path: Option<String>,
    }

    RawSearch "a table" {
        meaning: Option<bool>,
        learn: Option<bool>,
    }

    RawAudit "a table" {
        to: Option<Word<AuditTo>>,
        path: Option<String>,
        max_size: Option<SizeText>,
        keep: Option<i64>,
        fsync: Option<bool>,
        required: Option<bool>,
    }

    RawJournal "a table" {
        on: Option<bool>,
        required: Option<bool>,
        keep: Option<DurationText>,
        max_size: Option<SizeText>,
        fsync: Option<bool>,
    }

    RawState "a table" {
        url: Option<String>,
        ca: Option<String>,
        prefix: Option<String>,
        timeout: Option<DurationText>,
        replicas: Option<i64>,
        encrypt: Option<RawCredential>,
        decrypt: Option<Vec<RawCredential>>,
    }

    RawApprovals "a table" {
        wait: Option<DurationText>,
        notify: Option<Vec<String>>,
        webhook: Option<String>,
    }

    RawHook "a table with `command` or `url`, and `on`" {
        command: Option<Vec<String>>,
        env: Option<Credentials>,
        cwd: Option<String>,
        sandbox: Option<RawConfinement>,
        url: Option<String>,
        headers: Option<Credentials>,
        on: Option<Vec<Word<HookEvent>>>,
        servers: Option<Vec<String>>,
        timeout: Option<DurationText>,
        fail: Option<Word<hooks::Fail>>,
        mode: Option<Word<hooks::Mode>>,
    }

    RawRedaction "a table" {
        results: Option<Word<Results>>,
        placeholders: Option<bool>,
        findings: Option<bool>,
    }

    RawBudgets "a table" {
        run: Option<f64>,
        session: Option<f64>,
        day: Option<f64>,
        rate: Option<RawRate>,
    }

    RawProfile "a table of settings of a profile" {
        servers: Option<Vec<String>>,
        allow: Option<Vec<String>>,
        deny: Option<Vec<String>>,
        allow_unmatched: Option<bool>,
        scripts: Option<Vec<String>>,
        approval: Option<Word<Approval>>,
        flows: Option<Vec<RawFlow>>,
        budgets: RawBudgets,
        expose: Option<Word<Expose>>,
        direct: Option<Vec<String>>,
        auto_tokens: Option<i64>,
    }

    RawMetrics "a table" {
        listen: Option<String>,
        allow_remote: Option<bool>,
    }

    RawTelemetry "a table" {
        endpoint: Option<String>,
        headers: Option<BTreeMap<String, RawCredential>>,
    }

    RawHttp "a table" {
        listen: Option<String>,
        public_url: Option<String>,
        allowed_hosts: Option<Vec<String>>,
        allowed_origins: Option<Vec<String>>,
        tls_cert: Option<String>,
        tls_key: Option<String>,
        trusted_proxies: Option<Vec<String>>,
        metrics: Option<bool>,
        max_sessions: Option<i64>,
        max_client_sessions: Option<i64>,
        max_connections: Option<i64>,
        idle: Option<DurationText>,
        drain: Option<DurationText>,
        oauth: Option<RawResourceServer>,
    }

    RawResourceServer "a table with `issuer` and `audience`" {
        issuer: Option<String>,
        audience: Option<String>,
        resource: Option<String>,
        jwks_url: Option<String>,
        algorithms: Option<Vec<Word<Algorithm>>>,
        skew: Option<DurationText>,
        scopes: Option<Vec<String>>,
        private_network: Option<bool>,
        map: Option<Vec<RawClaimRow>>,
    }

    RawClaimRow "a table with `claim`, `value` and `profile`" {
        claim: Option<String>,
        value: Option<String>,
        profile: Option<String>,
    }

    RawClient "a table with `token`, `token_sha256` or `oauth`" {
        token: Option<String>,
        token_sha256: Option<String>,
        profile: Option<String>,
        budgets: RawBudgets,
        expose: Option<Word<Expose>>,
        oauth: Option<BTreeMap<String, String>>,
    }

    RawConsole "a table of a person's settings" {
        token_sha256: Option<String>,
        read_only: Option<bool>,
    }

    RawDaemon "a table" {
        start: Option<Word<daemon::Start>>,
        idle_exit: Option<DurationText>,
    }
}

/// A text, or a table in its place.
pub(super) enum TextOr<W, T> {
    Text(W),
    Table(Box<T>),
}

/// A table that a text may stand in place of.
pub(super) trait TableOrText {
    /// Both, for the error about a value that is neither.
    const EXPECTED: &'static str;
}

impl<'de, W: From<String>, T: Deserialize<'de> + TableOrText> Deserialize<'de> for TextOr<W, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<W, T>(PhantomData<(W, T)>);
        impl<'de, W: From<String>, T: Deserialize<'de> + TableOrText> de::Visitor<'de> for Visitor<W, T> {
            type Value = TextOr<W, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TextOr::Text(text.to_owned().into()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map)).map(|table| TextOr::Table(Box::new(table)))
            }
        }
        deserializer.deserialize_any(Visitor(PhantomData))
    }
}

/// The `sandbox` of a server: a preset by name, or a table.
pub(super) type RawConfinement = TextOr<Word<Preset>, RawConfinementTable>;

impl TableOrText for RawConfinementTable {
    const EXPECTED: &'static str = "a preset such as \"pure\", or a table";
}

/// Values that may be secrets, by name.
pub(super) type Credentials = BTreeMap<String, RawCredential>;

/// A text that may be a secret, or a table that names where it is kept.
pub(super) type RawCredential = TextOr<String, RawSource>;

impl TableOrText for RawSource {
    const EXPECTED: &'static str = "a string in quotes, or a table such as { file = \"token.txt\" }";
}

// A duration or a size as it is written. Untagged, since such an enum has an error text of its own, here in the form of
// serde's texts. A doc comment would stand in the schema.

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "invalid type, expected a duration in quotes, such as \"30s\"")]
pub(super) enum DurationText {
    Text(#[cfg_attr(test, schemars(schema_with = "schema::duration"))] String),
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "invalid type, expected a size in quotes, such as \"64MiB\"")]
pub(super) enum SizeText {
    Text(#[cfg_attr(test, schemars(schema_with = "schema::size"))] String),
}
