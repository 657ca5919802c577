//! Headers of requests on which security rests.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HeaderMap};

/// The name in a `Host` header, without its port.
pub fn host_name(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.trim_start_matches('[').trim_end_matches(']')
}

/// True if a name is `localhost` or an address: no web page can have it resolve to this machine (DNS rebinding).
pub fn is_own_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// The token of `Authorization: Bearer`, if there is one.
///
/// # Errors
/// Two such headers.
pub fn bearer(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next(), values.next()) else { return Err("two Authorization headers") };
    let pair = value.and_then(|value| value.to_str().ok()?.split_once(' '));
    Ok(pair.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim()))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_token_is_read_from_its_header() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("abc", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(bearer(&headers), Ok(token), "{value}");
            headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer abc"));
            assert!(bearer(&headers).is_err(), "two");
        }
    }
}
