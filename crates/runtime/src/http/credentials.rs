//! What a caller proves who it is by.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::request::{Target, is_forbidden};
use super::{HttpTool, Stop};
use crate::ErrorType;
use picktools::catalog::http::SecurityScheme;
use picktools::excerpt::{MAX_NAME_CHARS, list, marked};

/// A proof of one scheme.
pub(super) struct Proof {
    pub(super) sent: Sent,
    /// What must stand in no message.
    pub(super) secrets: Vec<String>,
}

/// Where a proof goes.
pub(super) enum Sent {
    Header(HeaderName, HeaderValue),
    Query(String, String),
    Cookie(String, String),
}

/// A variable's name: the parts in capitals, `_` for all but letters and digits.
pub(super) fn variable(parts: &[&str]) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    parts
        .iter()
        .map(|part| part.chars().map(plain).collect::<String>())
        .collect::<Vec<_>>()
        .join("_")
}

impl HttpTool {
    /// The proofs of the first set of schemes for which there are all; none where none is demanded.
    pub(super) fn proofs(&self, target: &Target) -> Result<Vec<Proof>, Stop> {
        let sets = &self.operation.security;
        let mut missing: Vec<String> = Vec::new();
        for schemes in sets.iter().filter(|schemes| !schemes.is_empty()) {
            let values: Vec<_> = schemes
                .iter()
                .map(|(name, scheme)| {
                    let variable = self.credential(name);
                    (self.client.options.value(&variable), variable, name, scheme)
                })
                .collect();
            let absent: Vec<&str> = values
                .iter()
                .filter(|(value, ..)| value.is_none())
                .map(|(_, variable, ..)| variable.as_str())
                .collect();
            if !absent.is_empty() {
                missing.push(list(&absent, " and "));
                continue;
            }
            let proof = |(value, variable, name, scheme): (
                Option<String>,
                String,
                &String,
                &SecurityScheme,
            )| {
                self.permit(&variable, target)?;
                proof(&value.unwrap_or_default(), &variable, name, scheme)
            };
            return values.into_iter().map(proof).collect();
        }
        if missing.is_empty() || sets.iter().any(std::collections::BTreeMap::is_empty) {
            return Ok(Vec::new());
        }
        let message = format!(
            "{} wants to know who asks",
            marked(target.authority(), MAX_NAME_CHARS)
        );
        let remedy = format!(
            "Whoever runs this program sets {} in its environment.",
            missing.join(", or ")
        );
        Err(Stop::new(ErrorType::Permission, message).suggest(remedy))
    }

    /// Whether what a variable holds may be sent to this host.
    fn permit(&self, variable: &str, target: &Target) -> Result<(), Stop> {
        let refuse = |message: String| Err(Stop::new(ErrorType::Security, message));
        let authority = marked(target.authority(), MAX_NAME_CHARS);
        if self.definition.untrusted {
            return refuse(
                "the tool is of an untrusted source, which is sent no credentials".to_owned(),
            );
        }
        if !target.is_private_to_us() {
            return refuse(format!(
                "{authority} would be sent credentials without encryption"
            ));
        }
        let pin = self::variable(&["PICKTOOLS_HOSTS", self.source()]);
        if let Some(hosts) = self.client.options.value(&pin) {
            let host = target.url.host_str().unwrap_or_default();
            let listed = |named: &str| {
                named.eq_ignore_ascii_case(target.authority()) || named.eq_ignore_ascii_case(host)
            };
            return match hosts.split(',').any(|named| listed(named.trim())) {
                true => Ok(()),
                false => refuse(format!(
                    "{authority} is sent no credentials: {pin} does not list it"
                )),
            };
        }
        let hosts = crate::lock(&self.client.hosts);
        match hosts.get(variable).filter(|hosts| hosts.len() > 1) {
            None => Ok(()),
            Some(hosts) => {
                let hosts: Vec<_> = hosts
                    .iter()
                    .map(|host| marked(host, MAX_NAME_CHARS))
                    .collect();
                let message = format!(
                    "{variable} would be sent to several hosts: {}",
                    list(&hosts, ", ")
                );
                let remedy =
                    format!("Whoever runs this program lists in {pin} those that may have it.");
                Err(Stop::new(ErrorType::Security, message).suggest(remedy))
            }
        }
    }
}

fn proof(value: &str, variable: &str, name: &str, scheme: &SecurityScheme) -> Result<Proof, Stop> {
    let unsupported = || {
        let name = marked(name, MAX_NAME_CHARS);
        Stop::definition(format!(
            "the security scheme {name:?} is none that can be satisfied: bearer, basic, apiKey"
        ))
    };
    let mut secrets = vec![value.to_owned()];
    let http = scheme
        .scheme
        .as_deref()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let sent = match (scheme.kind.as_str(), http.as_str()) {
        ("http", "bearer") | ("oauth2" | "openIdConnect", _) => {
            Sent::Header(AUTHORIZATION, header(&format!("Bearer {value}"), variable)?)
        }
        ("http", "basic") => {
            let coded = STANDARD.encode(value);
            let sent = Sent::Header(AUTHORIZATION, header(&format!("Basic {coded}"), variable)?);
            secrets.extend(
                value
                    .split_once(':')
                    .map(|(_, password)| password.to_owned()),
            );
            secrets.push(coded);
            sent
        }
        ("apiKey", _) => {
            let parameter = scheme
                .name
                .clone()
                .filter(|name| !name.is_empty())
                .ok_or_else(unsupported)?;
            match scheme.place.as_deref() {
                Some("header") => {
                    let name =
                        HeaderName::from_bytes(parameter.as_bytes()).map_err(|_| unsupported())?;
                    if is_forbidden(&name) && name != AUTHORIZATION {
                        return Err(unsupported());
                    }
                    Sent::Header(name, header(value, variable)?)
                }
                Some("query") => Sent::Query(parameter, value.to_owned()),
                Some("cookie") => Sent::Cookie(parameter, value.to_owned()),
                _ => return Err(unsupported()),
            }
        }
        _ => return Err(unsupported()),
    };
    // As it stands in a URL.
    secrets.push(super::styles::encoded(value));
    secrets.retain(|secret| !secret.is_empty());
    // The longest first: a part of one that is taken out would leave the rest.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    Ok(Proof { sent, secrets })
}

fn header(value: &str, variable: &str) -> Result<HeaderValue, Stop> {
    let mut header = HeaderValue::from_str(value).map_err(|_| {
        Stop::new(
            ErrorType::System,
            format!("what {variable} holds cannot be sent in a header"),
        )
    })?;
    header.set_sensitive(true);
    Ok(header)
}
