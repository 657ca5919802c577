//! Raw types of the file: every key, all optional, checked only by type.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::credential::RawCredential;
use super::schema;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct Raw {
    pub(super) env_files: Option<Vec<String>>,
    #[schemars(schema_with = "schema::names::<RawServer>")]
    pub(super) servers: BTreeMap<String, RawServer>,
    pub(super) sandbox: RawSandbox,
    pub(super) memory: RawMemory,
    pub(super) manifest: RawManifest,
    pub(super) skills: RawSkills,
    pub(super) audit: RawAudit,
    pub(super) journal: RawJournal,
    pub(super) approvals: RawApprovals,
    pub(super) state: RawState,
    pub(super) redaction: RawRedaction,
    pub(super) budgets: RawBudgets,
    pub(super) metrics: RawMetrics,
    pub(super) telemetry: RawTelemetry,
    pub(super) daemon: RawDaemon,
    pub(super) groups: BTreeMap<String, RawGroup>,
    pub(super) flows: Vec<RawFlow>,
    pub(super) scripts: RawScripts,
    pub(super) http: RawHttp,
    #[schemars(schema_with = "schema::names::<RawProfile>")]
    pub(super) profiles: BTreeMap<String, RawProfile>,
    #[schemars(schema_with = "schema::names::<RawClient>")]
    pub(super) clients: BTreeMap<String, RawClient>,
    #[schemars(schema_with = "schema::names::<RawConsole>")]
    pub(super) console: BTreeMap<String, RawConsole>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of server settings")]
pub(super) struct RawServer {
    #[schemars(schema_with = "schema::kind")]
    pub(super) transport: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<BTreeMap<String, RawCredential>>,
    pub(super) cwd: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: Option<BTreeMap<String, RawCredential>>,
    pub(super) openapi: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) query: Option<BTreeMap<String, RawCredential>>,
    pub(super) description: Option<String>,
    pub(super) enabled: Option<bool>,
    pub(super) timeout: Option<DurationText>,
    pub(super) max_timeout: Option<DurationText>,
    pub(super) connect_timeout: Option<DurationText>,
    pub(super) reconnect: Option<bool>,
    pub(super) max_reconnect_backoff: Option<DurationText>,
    pub(super) breaker: RawBreaker,
    #[schemars(schema_with = "schema::names::<Vec<String>>")]
    pub(super) categories: BTreeMap<String, Vec<String>>,
    #[schemars(schema_with = "schema::binding")]
    pub(super) binding: Option<String>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) deny: Option<Vec<String>>,
    pub(super) allow_unmatched: Option<bool>,
    #[schemars(schema_with = "schema::start")]
    pub(super) start: Option<String>,
    pub(super) idle_stop: Option<DurationText>,
    #[schemars(schema_with = "schema::share")]
    pub(super) share: Option<String>,
    pub(super) auth: Option<RawAuth>,
    pub(super) rate: Option<RawRate>,
    pub(super) cost: Option<Number>,
    #[schemars(schema_with = "schema::approval")]
    pub(super) approval: Option<String>,
    #[schemars(schema_with = "schema::relay")]
    pub(super) elicitation: Option<String>,
    #[schemars(schema_with = "schema::relay")]
    pub(super) sampling: Option<String>,
    pub(super) tools: BTreeMap<String, RawTool>,
    pub(super) sandbox: Option<RawConfinement>,
}

/// A preset by name, or a table.
#[derive(Debug)]
pub(super) enum RawConfinement {
    Preset(String),
    Table(Box<RawConfinementTable>),
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawConfinementTable {
    #[schemars(schema_with = "schema::preset")]
    pub(super) preset: Option<String>,
    pub(super) read: Option<Vec<String>>,
    pub(super) write: Option<Vec<String>>,
    #[schemars(schema_with = "schema::network")]
    pub(super) network: Option<String>,
    pub(super) memory: Option<SizeText>,
    pub(super) processes: Option<i64>,
    #[schemars(schema_with = "schema::server_layers")]
    pub(super) require: Option<Vec<String>>,
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

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { calls = 60, per = \"1m\" }")]
pub(super) struct RawRate {
    pub(super) calls: Option<i64>,
    pub(super) per: Option<DurationText>,
    pub(super) burst: Option<i64>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of settings for a tool")]
pub(super) struct RawTool {
    pub(super) rate: Option<RawRate>,
    pub(super) cost: Option<Number>,
    #[schemars(schema_with = "schema::approval")]
    pub(super) approval: Option<String>,
    pub(super) only_from: Option<Vec<String>>,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) annotations: Option<RawAnnotations>,
    pub(super) hide: Option<Vec<String>>,
    pub(super) fixed: Option<BTreeMap<String, serde_json::Value>>,
    pub(super) default: Option<BTreeMap<String, serde_json::Value>>,
    pub(super) result: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { read_only = true }")]
pub(super) struct RawAnnotations {
    pub(super) title: Option<String>,
    pub(super) read_only: Option<bool>,
    pub(super) destructive: Option<bool>,
    pub(super) idempotent: Option<bool>,
    pub(super) open_world: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawScripts {
    pub(super) path: Option<String>,
    pub(super) unlocked: Option<bool>,
    pub(super) proposals: Option<bool>,
    pub(super) tools: BTreeMap<String, RawScript>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of settings for a script")]
pub(super) struct RawScript {
    pub(super) as_tool: Option<bool>,
    #[schemars(schema_with = "schema::script_approval")]
    pub(super) approval: Option<String>,
    #[schemars(schema_with = "schema::script_returns")]
    pub(super) returns: Option<String>,
    pub(super) calls: Option<i64>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table with `servers`")]
pub(super) struct RawGroup {
    pub(super) servers: Option<Vec<String>>,
    #[schemars(schema_with = "schema::isolation")]
    pub(super) isolation: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table with `from`, `to` and `action`")]
pub(super) struct RawFlow {
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    #[schemars(schema_with = "schema::action")]
    pub(super) action: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawBreaker {
    pub(super) faults: Option<i64>,
    pub(super) pause: Option<DurationText>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawAuth {
    #[serde(rename = "type")]
    #[schemars(schema_with = "schema::login")]
    pub(super) kind: Option<String>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) client_id: Option<String>,
    pub(super) client_secret: Option<RawCredential>,
    pub(super) redirect_port: Option<i64>,
    pub(super) private_network: Option<bool>,
    pub(super) issuer: Option<String>,
    pub(super) token_url: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawSandbox {
    pub(super) workers: Option<i64>,
    pub(super) worker_scripts: Option<i64>,
    pub(super) worker_age: Option<DurationText>,
    pub(super) worker_growth: Option<SizeText>,
    #[schemars(schema_with = "schema::layers")]
    pub(super) require: Option<Vec<String>>,
    pub(super) limits: RawLimits,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawLimits {
    pub(super) cpu: Option<DurationText>,
    pub(super) wall: Option<DurationText>,
    pub(super) background_wall: Option<DurationText>,
    pub(super) heap: Option<SizeText>,
    pub(super) code: Option<SizeText>,
    pub(super) output: Option<SizeText>,
    pub(super) calls: Option<i64>,
    pub(super) concurrency: Option<i64>,
    pub(super) args: Option<SizeText>,
    pub(super) answer: Option<SizeText>,
    pub(super) binary: Option<SizeText>,
    pub(super) runs: Option<i64>,
    pub(super) queue: Option<i64>,
    pub(super) result_tokens: Option<i64>,
    pub(super) stash_entries: Option<i64>,
    pub(super) stash: Option<SizeText>,
    pub(super) stash_value: Option<SizeText>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawMemory {
    pub(super) answers: Option<SizeText>,
    pub(super) results: Option<SizeText>,
    pub(super) lists: Option<SizeText>,
    pub(super) list: Option<SizeText>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawManifest {
    pub(super) refresh: Option<DurationText>,
    pub(super) pin: Option<String>,
    #[schemars(schema_with = "schema::pin_accept")]
    pub(super) pin_accept: Option<Vec<String>>,
    pub(super) pin_first_use: Option<bool>,
    pub(super) cache: Option<String>,
    pub(super) startup_concurrency: Option<i64>,
    pub(super) observe: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawSkills {
    pub(super) path: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawAudit {
    #[schemars(schema_with = "schema::audit_to")]
    pub(super) to: Option<String>,
    pub(super) path: Option<String>,
    pub(super) max_size: Option<SizeText>,
    pub(super) keep: Option<i64>,
    pub(super) fsync: Option<bool>,
    pub(super) required: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawJournal {
    pub(super) on: Option<bool>,
    pub(super) required: Option<bool>,
    pub(super) keep: Option<DurationText>,
    pub(super) max_size: Option<SizeText>,
    pub(super) fsync: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawState {
    pub(super) url: Option<String>,
    pub(super) ca: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) timeout: Option<DurationText>,
    pub(super) replicas: Option<i64>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawApprovals {
    pub(super) wait: Option<DurationText>,
    pub(super) notify: Option<Vec<String>>,
    pub(super) webhook: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawRedaction {
    #[schemars(schema_with = "schema::results")]
    pub(super) results: Option<String>,
    pub(super) placeholders: Option<bool>,
    pub(super) findings: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawBudgets {
    pub(super) run: Option<Number>,
    pub(super) session: Option<Number>,
    pub(super) day: Option<Number>,
    pub(super) rate: Option<RawRate>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of settings of a profile")]
pub(super) struct RawProfile {
    pub(super) servers: Option<Vec<String>>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) deny: Option<Vec<String>>,
    pub(super) allow_unmatched: Option<bool>,
    pub(super) scripts: Option<Vec<String>>,
    #[schemars(schema_with = "schema::approval")]
    pub(super) approval: Option<String>,
    pub(super) flows: Option<Vec<RawFlow>>,
    pub(super) budgets: RawBudgets,
    #[schemars(schema_with = "schema::expose")]
    pub(super) expose: Option<String>,
    pub(super) direct: Option<Vec<String>>,
    pub(super) auto_tokens: Option<i64>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawMetrics {
    pub(super) listen: Option<String>,
    pub(super) allow_remote: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawTelemetry {
    pub(super) endpoint: Option<String>,
    pub(super) headers: Option<BTreeMap<String, RawCredential>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawHttp {
    pub(super) listen: Option<String>,
    pub(super) allowed_hosts: Option<Vec<String>>,
    pub(super) allowed_origins: Option<Vec<String>>,
    pub(super) tls_cert: Option<String>,
    pub(super) tls_key: Option<String>,
    pub(super) trusted_proxies: Option<Vec<String>>,
    pub(super) metrics: Option<bool>,
    pub(super) max_sessions: Option<i64>,
    pub(super) max_client_sessions: Option<i64>,
    pub(super) max_connections: Option<i64>,
    pub(super) idle: Option<DurationText>,
    pub(super) drain: Option<DurationText>,
    pub(super) oauth: Option<RawResourceServer>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table with `issuer` and `audience`")]
pub(super) struct RawResourceServer {
    pub(super) issuer: Option<String>,
    pub(super) audience: Option<String>,
    pub(super) resource: Option<String>,
    pub(super) jwks_url: Option<String>,
    #[schemars(schema_with = "schema::algorithms")]
    pub(super) algorithms: Option<Vec<String>>,
    pub(super) skew: Option<DurationText>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) private_network: Option<bool>,
    pub(super) map: Option<Vec<RawClaimRow>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table with `claim`, `value` and `profile`")]
pub(super) struct RawClaimRow {
    pub(super) claim: Option<String>,
    pub(super) value: Option<String>,
    pub(super) profile: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table with `token`, `token_sha256` or `oauth`")]
pub(super) struct RawClient {
    pub(super) token: Option<String>,
    pub(super) token_sha256: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) budgets: RawBudgets,
    #[schemars(schema_with = "schema::expose")]
    pub(super) expose: Option<String>,
    pub(super) oauth: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of a person's settings")]
pub(super) struct RawConsole {
    pub(super) token_sha256: Option<String>,
    pub(super) read_only: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RawDaemon {
    #[schemars(schema_with = "schema::daemon_start")]
    pub(super) start: Option<String>,
    pub(super) idle_exit: Option<DurationText>,
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
