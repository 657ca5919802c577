//! Raw types of the file: every key, all optional, checked only by type.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::credential::RawCredential;
use super::schema;

/// Tables of the file, each with the words for a value that is none: no key has to be there, and an unknown one is a
/// mistake.
macro_rules! tables {
    ($($name:ident $expecting:literal { $($(#[$of_key:meta])* $key:ident: $kind:ty,)* })*) => {$(
        #[derive(Debug, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default, expecting = $expecting)]
        pub(super) struct $name {
            $($(#[$of_key])* pub(super) $key: $kind,)*
        }
    )*};
}

tables! {
    Raw "a table" {
        env_files: Option<Vec<String>>,
        #[schemars(schema_with = "schema::names::<RawServer>")]
        servers: BTreeMap<String, RawServer>,
        sandbox: RawSandbox,
        memory: RawMemory,
        manifest: RawManifest,
        skills: RawSkills,
        audit: RawAudit,
        journal: RawJournal,
        approvals: RawApprovals,
        state: RawState,
        redaction: RawRedaction,
        budgets: RawBudgets,
        metrics: RawMetrics,
        telemetry: RawTelemetry,
        daemon: RawDaemon,
        groups: BTreeMap<String, RawGroup>,
        flows: Vec<RawFlow>,
        scripts: RawScripts,
        http: RawHttp,
        #[schemars(schema_with = "schema::names::<RawProfile>")]
        profiles: BTreeMap<String, RawProfile>,
        #[schemars(schema_with = "schema::names::<RawClient>")]
        clients: BTreeMap<String, RawClient>,
        #[schemars(schema_with = "schema::names::<RawConsole>")]
        console: BTreeMap<String, RawConsole>,
    }

    RawServer "a table of server settings" {
        #[schemars(schema_with = "schema::kind")]
        transport: Option<String>,
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
        #[schemars(schema_with = "schema::names::<Vec<String>>")]
        categories: BTreeMap<String, Vec<String>>,
        #[schemars(schema_with = "schema::binding")]
        binding: Option<String>,
        allow: Option<Vec<String>>,
        deny: Option<Vec<String>>,
        allow_unmatched: Option<bool>,
        #[schemars(schema_with = "schema::start")]
        start: Option<String>,
        idle_stop: Option<DurationText>,
        #[schemars(schema_with = "schema::share")]
        share: Option<String>,
        auth: Option<RawAuth>,
        rate: Option<RawRate>,
        cost: Option<Number>,
        #[schemars(schema_with = "schema::approval")]
        approval: Option<String>,
        #[schemars(schema_with = "schema::relay")]
        elicitation: Option<String>,
        #[schemars(schema_with = "schema::relay")]
        sampling: Option<String>,
        tools: BTreeMap<String, RawTool>,
        sandbox: Option<RawConfinement>,
    }

    RawConfinementTable "a table" {
        #[schemars(schema_with = "schema::preset")]
        preset: Option<String>,
        read: Option<Vec<String>>,
        write: Option<Vec<String>>,
        #[schemars(schema_with = "schema::network")]
        network: Option<String>,
        memory: Option<SizeText>,
        processes: Option<i64>,
        #[schemars(schema_with = "schema::server_layers")]
        require: Option<Vec<String>>,
    }

    RawRate "a table such as { calls = 60, per = \"1m\" }" {
        calls: Option<i64>,
        per: Option<DurationText>,
        burst: Option<i64>,
    }

    RawTool "a table of settings for a tool" {
        rate: Option<RawRate>,
        cost: Option<Number>,
        #[schemars(schema_with = "schema::approval")]
        approval: Option<String>,
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
        #[schemars(schema_with = "schema::script_approval")]
        approval: Option<String>,
        #[schemars(schema_with = "schema::script_returns")]
        returns: Option<String>,
        calls: Option<i64>,
    }

    RawGroup "a table with `servers`" {
        servers: Option<Vec<String>>,
        #[schemars(schema_with = "schema::isolation")]
        isolation: Option<String>,
    }

    RawFlow "a table with `from`, `to` and `action`" {
        from: Option<String>,
        to: Option<String>,
        #[schemars(schema_with = "schema::action")]
        action: Option<String>,
    }

    RawBreaker "a table" {
        faults: Option<i64>,
        pause: Option<DurationText>,
    }

    RawAuth "a table" {
        #[serde(rename = "type")]
        #[schemars(schema_with = "schema::login")]
        kind: Option<String>,
        scopes: Option<Vec<String>>,
        client_id: Option<String>,
        client_secret: Option<RawCredential>,
        redirect_port: Option<i64>,
        private_network: Option<bool>,
        issuer: Option<String>,
        token_url: Option<String>,
    }

    RawSandbox "a table" {
        workers: Option<i64>,
        worker_scripts: Option<i64>,
        worker_age: Option<DurationText>,
        worker_growth: Option<SizeText>,
        #[schemars(schema_with = "schema::layers")]
        require: Option<Vec<String>>,
        limits: RawLimits,
    }

    RawLimits "a table" {
        cpu: Option<DurationText>,
        wall: Option<DurationText>,
        background_wall: Option<DurationText>,
        heap: Option<SizeText>,
        code: Option<SizeText>,
        output: Option<SizeText>,
        calls: Option<i64>,
        concurrency: Option<i64>,
        args: Option<SizeText>,
        answer: Option<SizeText>,
        binary: Option<SizeText>,
        runs: Option<i64>,
        queue: Option<i64>,
        result_tokens: Option<i64>,
        stash_entries: Option<i64>,
        stash: Option<SizeText>,
        stash_value: Option<SizeText>,
    }

    RawMemory "a table" {
        answers: Option<SizeText>,
        results: Option<SizeText>,
        lists: Option<SizeText>,
        list: Option<SizeText>,
    }

    RawManifest "a table" {
        refresh: Option<DurationText>,
        pin: Option<String>,
        #[schemars(schema_with = "schema::pin_accept")]
        pin_accept: Option<Vec<String>>,
        pin_first_use: Option<bool>,
        cache: Option<String>,
        startup_concurrency: Option<i64>,
        observe: Option<bool>,
    }

    RawSkills "a table" {
        path: Option<String>,
    }

    RawAudit "a table" {
        #[schemars(schema_with = "schema::audit_to")]
        to: Option<String>,
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
    }

    RawApprovals "a table" {
        wait: Option<DurationText>,
        notify: Option<Vec<String>>,
        webhook: Option<String>,
    }

    RawRedaction "a table" {
        #[schemars(schema_with = "schema::results")]
        results: Option<String>,
        placeholders: Option<bool>,
        findings: Option<bool>,
    }

    RawBudgets "a table" {
        run: Option<Number>,
        session: Option<Number>,
        day: Option<Number>,
        rate: Option<RawRate>,
    }

    RawProfile "a table of settings of a profile" {
        servers: Option<Vec<String>>,
        allow: Option<Vec<String>>,
        deny: Option<Vec<String>>,
        allow_unmatched: Option<bool>,
        scripts: Option<Vec<String>>,
        #[schemars(schema_with = "schema::approval")]
        approval: Option<String>,
        flows: Option<Vec<RawFlow>>,
        budgets: RawBudgets,
        #[schemars(schema_with = "schema::expose")]
        expose: Option<String>,
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
        #[schemars(schema_with = "schema::algorithms")]
        algorithms: Option<Vec<String>>,
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
        #[schemars(schema_with = "schema::expose")]
        expose: Option<String>,
        oauth: Option<BTreeMap<String, String>>,
    }

    RawConsole "a table of a person's settings" {
        token_sha256: Option<String>,
        read_only: Option<bool>,
    }

    RawDaemon "a table" {
        #[schemars(schema_with = "schema::daemon_start")]
        start: Option<String>,
        idle_exit: Option<DurationText>,
    }
}

/// A preset by name, or a table.
#[derive(Debug)]
pub(super) enum RawConfinement {
    Preset(String),
    Table(Box<RawConfinementTable>),
}

impl JsonSchema for RawConfinement {
    fn schema_name() -> Cow<'static, str> {
        "Confinement".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (word, table) = (schema::preset(generator), RawConfinementTable::json_schema(generator));
        json_schema!({ "anyOf": [word, table] })
    }
}

impl<'de> Deserialize<'de> for RawConfinement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RawConfinement;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a preset such as \"pure\", or a table")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<RawConfinement, E> {
                Ok(RawConfinement::Preset(word.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RawConfinement, A::Error> {
                let table = RawConfinementTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(RawConfinement::Table(Box::new(table)))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A number, integer or float.
#[derive(Debug)]
pub(super) struct Number(pub(super) f64);

impl JsonSchema for Number {
    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number" })
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number, E> {
                Ok(Number(number))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A string whose type error shows the expected form.
macro_rules! text {
    ($name:ident, $expecting:literal, $schema:path) => {
        #[derive(Debug)]
        pub(super) struct $name(pub(super) String);

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                $schema(generator)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        Ok($name(text.to_owned()))
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }
    };
}

text!(DurationText, "a duration in quotes, such as \"30s\"", schema::duration);
text!(SizeText, "a size in quotes, such as \"64MiB\"", schema::size);
