//! Keys with a vendor's prefix and a body of known length and alphabet.
//!
//! The formats are the vendors' own, as in secret scanners. Identifiers that are not secret by themselves (Stripe's
//! `pk_`, Twilio's `AC…`, AWS's `AROA…`) are left out.

use super::placeholder;
use super::scan::{Found, ends, rank, run, run_before};

/// A family of keys.
pub(super) struct Token {
    label: &'static str,
    pub(super) prefixes: &'static [&'static str],
    body: fn(u8) -> bool,
    /// Shortest and longest body.
    least: usize,
    most: usize,
}

const fn token(
    label: &'static str,
    prefixes: &'static [&'static str],
    body: fn(u8) -> bool,
    least: usize,
    most: usize,
) -> Token {
    Token { label, prefixes, body, least, most }
}

/// Longest body of a family whose keys have no fixed length.
const LONG: usize = 2000;

pub(super) const TOKENS: &[Token] = &[
    token("age-key", &["AGE-SECRET-KEY-1"], alnum, 58, 58),
    token("airtable-token", &["pat"], dotted, 79, 79),
    token("alibaba-key", &["LTAI"], alnum, 16, 26),
    token("anthropic-key", &["sk-ant-"], word, 24, 200),
    token("artifactory-token", &["AKCp"], alnum, 60, 80),
    token("atlassian-token", &["ATATT3", "ATCTT3"], base64_word, 60, 250),
    token("atlassian-token", &["ATBB"], alnum, 32, 36),
    token("aws-access-key", &["AKIA", "ASIA", "ABIA", "ACCA"], upper, 16, 16),
    token("buildkite-token", &["bkua_"], hex, 40, 40),
    token("circleci-token", &["CCIPAT_", "CCIPRJ_"], word, 40, 80),
    token("clojars-token", &["CLOJARS_"], alnum, 60, 60),
    token("contentful-token", &["CFPAT-"], word, 43, 43),
    token("crates-token", &["cio"], alnum, 32, 32),
    token("databricks-token", &["dapi"], hex, 32, 32),
    token("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], hex, 64, 64),
    token("docker-token", &["dckr_pat_", "dckr_oat_"], word, 27, 32),
    token("doppler-token", &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."], dotted, 40, 80),
    token("dynatrace-token", &["dt0c01.", "dt0s01."], dotted, 89, 89),
    token("elevenlabs-key", &["sk_"], hex, 48, 48),
    token("figma-token", &["figd_", "figo_"], word, 40, 60),
    token("fly-token", &["fo1_"], word, 43, 43),
    token("fly-token", &["fm1r_", "fm2_", "fm1a_"], base64, 60, LONG),
    token("gcp-api-key", &["AIza"], word, 35, 35),
    token("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], alnum, 36, 255),
    token("github-token", &["github_pat_"], word, 60, 100),
    token("gitlab-token", &["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glft-", "glsoat-"], dotted, 20, 64),
    token("gitlab-token", &["glimt-", "glagent-", "gloas-", "glffct-", "glrtr-", "glwt-"], dotted, 20, 80),
    token("google-oauth", &["GOCSPX-"], word, 28, 28),
    token("google-oauth", &["ya29."], dotted, 30, LONG),
    token("google-oauth", &["1//0"], word, 40, 200),
    token("grafana-token", &["glc_"], base64, 32, 400),
    token("grafana-token", &["glsa_"], word, 41, 41),
    token("groq-key", &["gsk_"], alnum, 48, 56),
    token("heroku-key", &["HRKU-"], word, 30, 64),
    token("hubspot-token", &["pat-na1-", "pat-na2-", "pat-eu1-"], word, 36, 36),
    token("huggingface-token", &["hf_", "api_org_"], alnum, 34, 40),
    token("infracost-key", &["ico-"], alnum, 32, 32),
    token("langsmith-key", &["lsv2_pt_", "lsv2_sk_"], word, 40, 60),
    token("launchdarkly-key", &["sdk-", "api-"], uuid, 36, 36),
    token("linear-key", &["lin_api_", "lin_oauth_"], alnum, 40, 64),
    token("mailgun-key", &["key-"], hex, 32, 32),
    token("netlify-token", &["nfp_", "nfc_", "nfo_"], alnum, 36, 40),
    token("newrelic-key", &["NRAK-", "NRJS-", "NRII-", "NRAA-"], word, 19, 40),
    token("notion-token", &["secret_"], alnum, 43, 43),
    token("notion-token", &["ntn_"], alnum, 40, 50),
    token("npm-token", &["npm_"], alnum, 36, 36),
    token("nuget-key", &["oy2"], alnum, 43, 43),
    token("nvidia-key", &["nvapi-"], word, 60, 70),
    token("octopus-key", &["API-"], upper, 25, 32),
    token("onepassword-token", &["ops_eyJ"], base64, 200, LONG),
    token("openai-key", &["sk-proj-", "sk-svcacct-", "sk-admin-"], word, 20, 250),
    token("openai-key", &["sk-"], alnum, 32, 64),
    token("openrouter-key", &["sk-or-v1-"], hex, 64, 64),
    token("openshift-token", &["sha256~"], word, 43, 43),
    token("perplexity-key", &["pplx-"], alnum, 48, 56),
    token("pinecone-key", &["pcsk_"], word, 50, 90),
    token("plaid-token", &["access-sandbox-", "access-development-", "access-production-"], uuid, 36, 36),
    token("planetscale-token", &["pscale_tkn_", "pscale_pw_", "pscale_oauth_"], dotted, 32, 64),
    token("postman-key", &["PMAK-"], word, 59, 59),
    token("prefect-key", &["pnu_", "pnb_"], alnum, 36, 36),
    token("pulumi-token", &["pul-"], hex, 40, 40),
    token("pypi-token", &["pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"], word, 50, 1000),
    token("readme-key", &["rdme_"], alnum, 70, 70),
    token("replicate-token", &["r8_"], alnum, 37, 40),
    token("resend-key", &["re_"], word, 28, 36),
    token("rubygems-key", &["rubygems_"], hex, 48, 48),
    token("sendgrid-key", &["SG."], dotted, 66, 66),
    token("sentry-token", &["sntryu_"], hex, 64, 64),
    token("sentry-token", &["sntrys_"], base64_word, 60, 400),
    token("shippo-token", &["shippo_live_", "shippo_test_"], hex, 40, 40),
    token("shopify-token", &["shpat_", "shpca_", "shppa_", "shpss_"], hex, 32, 32),
    token(
        "slack-token",
        &["xoxb-", "xoxp-", "xoxa-", "xoxo-", "xoxr-", "xoxs-", "xoxc-", "xoxd-"],
        word_or_percent,
        20,
        400,
    ),
    token("slack-token", &["xapp-", "xoxe-", "xoxe."], dotted, 20, 400),
    token("sourcegraph-token", &["sgp_"], word, 40, 64),
    token("square-token", &["sq0atp-", "sq0csp-", "sq0idp-"], word, 22, 43),
    token("square-token", &["EAAA"], word, 60, 60),
    token("stripe-key", &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"], alnum, 16, 250),
    token("stripe-key", &["whsec_"], base64, 24, 64),
    token("supabase-key", &["sbp_"], hex, 40, 40),
    token("supabase-key", &["sb_secret_"], word, 30, 40),
    token("tailscale-key", &["tskey-auth-", "tskey-api-", "tskey-client-", "tskey-scim-"], word, 20, 80),
    token("tavily-key", &["tvly-"], word, 30, 60),
    token("twilio-key", &["SK"], hex, 32, 32),
    token("typeform-token", &["tfp_"], dotted, 40, 70),
    token("vault-token", &["hvs.", "hvb.", "hvr."], word, 24, 300),
    token("vercel-token", &["vcp_", "vci_", "vca_", "vcr_", "vck_"], word, 24, 80),
    token("brevo-key", &["xkeysib-"], word, 81, 81),
    token("xai-key", &["xai-"], alnum, 70, 90),
    token("easypost-key", &["EZAK", "EZTK"], alnum, 54, 54),
    token("firecrawl-key", &["fc-"], hex, 32, 32),
];

impl Token {
    /// Finds the key whose prefix is at `start..end`; returns the position up to which it looked.
    pub(super) fn at(&self, text: &str, start: usize, end: usize) -> (Option<Found>, usize) {
        let length = run(text, end, self.most + 1, self.body);
        let reach = end + length;
        // Inside a word it is chance. An underscore or a dash may stand before a prefix.
        if run_before(text, start, 1, alnum) > 0 {
            return (None, end);
        }
        let mut to = reach;
        while to > end + self.least && matches!(text.as_bytes()[to - 1], b'.' | b'-') {
            to -= 1;
        }
        let body = &text[end..to];
        // One in thirty of these has no digit; their length and capitals rule out words.
        let is_key = |body| is_random(body) || (self.label == "aws-access-key" && has_no_order(body));
        let fits = (self.least..=self.most).contains(&body.len()) && is_key(body);
        (fits.then_some(Found { from: start, to, label: self.label, rank: rank::TOKEN }), reach)
    }
}

/// True for letters and digits without order: no word, no dummy, no run of one character.
pub(super) fn is_random(body: &str) -> bool {
    body.bytes().any(|byte| byte.is_ascii_digit()) && has_no_order(body)
}

fn has_no_order(body: &str) -> bool {
    let mut seen = [false; 256];
    let mut kinds = 0;
    for byte in body.bytes() {
        if !std::mem::replace(&mut seen[usize::from(byte)], true) {
            kinds += 1;
        }
    }
    kinds >= 8 && !placeholder::is_in(body)
}

/// First three characters of a Discord bot token: base64 of the first two and a half digits of a number.
pub(super) fn discord_anchors() -> impl Iterator<Item = String> {
    let pairs = ["MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"];
    pairs.into_iter().flat_map(|pair| "AEIMQUYcgk".chars().map(move |third| format!("{pair}{third}")))
}

/// Finds a Discord bot token: three parts, the first of them the bot's number.
pub(super) fn discord(text: &str, start: usize) -> (Option<Found>, usize) {
    if run_before(text, start, 1, dotted) > 0 {
        return (None, start + 1);
    }
    let length = run(text, start, 120, dotted);
    let token = text[start..start + length].trim_end_matches(['.', '-']);
    let lengths: Vec<usize> = token.split('.').map(str::len).collect();
    let fits = matches!(lengths[..], [23..=28, 6..=7, 27..=45]) && is_random(token);
    let found = Found { from: start, to: start + token.len(), label: "discord-token", rank: rank::TOKEN };
    (fits.then_some(found), start + length.max(1))
}

pub(super) fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

pub(super) fn hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

pub(super) fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn word_or_percent(byte: u8) -> bool {
    word(byte) || byte == b'%'
}

pub(super) fn dotted(byte: u8) -> bool {
    word(byte) || byte == b'.'
}

pub(super) fn base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn base64_word(byte: u8) -> bool {
    word(byte) || base64(byte)
}

fn uuid(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || byte == b'-'
}

/// True if a whole number stands at `start..end`.
pub(super) fn is_delimited(text: &str, start: usize, end: usize) -> bool {
    run_before(text, start, 1, alnum) == 0 && ends(text, end, alnum)
}
