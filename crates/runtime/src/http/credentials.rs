//! Credentials of HTTP requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::HttpTool;
use super::credential::{Credential, CredentialPart, variable_name};
use super::error::HttpCallError;
use super::request::{RequestTarget, is_forbidden};
use crate::ErrorType;
use picktools::catalog::http::SecurityScheme;
use picktools::excerpt::{MAX_NAME_CHARS, list, marked};

/// A security scheme with the value of its variable.
struct SchemeValue<'a> {
    name: &'a str,
    scheme: &'a SecurityScheme,
    variable: String,
    value: Option<String>,
}

impl HttpTool {
    /// Returns the credentials of the first set of schemes whose variables are all set. The result
    /// is empty if the operation requires no credentials.
    pub(super) fn credentials(
        &self,
        target: &RequestTarget,
    ) -> Result<Vec<Credential>, HttpCallError> {
        let sets = &self.operation.security;
        let mut missing: Vec<String> = Vec::new();
        for schemes in sets {
            if schemes.is_empty() {
                continue;
            }
            let mut values = Vec::new();
            for (name, scheme) in schemes {
                let variable = self.credential_variable(name);
                let value = self.client.options.value(&variable);
                values.push(SchemeValue {
                    name,
                    scheme,
                    variable,
                    value,
                });
            }
            let mut unset = Vec::new();
            for value in &values {
                if value.value.is_none() {
                    unset.push(value.variable.as_str());
                }
            }
            if !unset.is_empty() {
                missing.push(list(&unset, " and "));
                continue;
            }
            let mut credentials = Vec::new();
            for value in &values {
                self.check_destination(&value.variable, target)?;
                credentials.push(make_credential(value)?);
            }
            return Ok(credentials);
        }
        if missing.is_empty() || sets.iter().any(std::collections::BTreeMap::is_empty) {
            return Ok(Vec::new());
        }
        let message = format!(
            "{} requires credentials",
            marked(target.authority(), MAX_NAME_CHARS)
        );
        let remedy = format!(
            "Ask the operator to set {} in the environment.",
            missing.join(", or ")
        );
        Err(HttpCallError::new(ErrorType::Permission, message).suggest(remedy))
    }

    /// Checks that the value of a variable may be sent to this host.
    fn check_destination(
        &self,
        variable: &str,
        target: &RequestTarget,
    ) -> Result<(), HttpCallError> {
        let refuse = |message: String| Err(HttpCallError::new(ErrorType::Security, message));
        let authority = marked(target.authority(), MAX_NAME_CHARS);
        if self.definition.untrusted {
            let message = "the tool is from an untrusted source, which gets no credentials";
            return refuse(message.to_owned());
        }
        if !target.is_confidential() {
            return refuse(format!(
                "credentials would be sent to {authority} without encryption"
            ));
        }
        let hosts_variable = variable_name(&["PICKTOOLS_HOSTS", self.source()]);
        if let Some(hosts) = self.client.options.value(&hosts_variable) {
            let host = target.url.host_str().unwrap_or_default();
            let is_target = |entry: &str| {
                entry.eq_ignore_ascii_case(target.authority()) || entry.eq_ignore_ascii_case(host)
            };
            return match hosts.split(',').any(|entry| is_target(entry.trim())) {
                true => Ok(()),
                false => refuse(format!(
                    "credentials are not sent to {authority}: {hosts_variable} does not list it"
                )),
            };
        }
        let hosts = crate::lock(&self.client.hosts);
        match hosts.get(variable) {
            Some(hosts) if hosts.len() > 1 => {
                let hosts: Vec<_> = hosts
                    .iter()
                    .map(|host| marked(host, MAX_NAME_CHARS))
                    .collect();
                let message = format!(
                    "{variable} would be sent to several hosts: {}",
                    list(&hosts, ", ")
                );
                let remedy =
                    format!("Ask the operator to list the allowed hosts in {hosts_variable}.");
                Err(HttpCallError::new(ErrorType::Security, message).suggest(remedy))
            }
            _ => Ok(()),
        }
    }
}

/// Makes the credential for a security scheme from the value of its variable.
fn make_credential(scheme_value: &SchemeValue<'_>) -> Result<Credential, HttpCallError> {
    let SchemeValue {
        name,
        scheme,
        variable,
        value,
    } = scheme_value;
    let value = value.as_deref().unwrap_or_default();
    let unsupported = || {
        let name = marked(name, MAX_NAME_CHARS);
        HttpCallError::definition(format!(
            "unsupported security scheme {name:?}: bearer, basic and apiKey are supported"
        ))
    };
    let mut secrets = vec![value.to_owned()];
    let http_scheme = scheme
        .scheme
        .as_deref()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let part = match (scheme.kind.as_str(), http_scheme.as_str()) {
        ("http", "bearer") | ("oauth2" | "openIdConnect", _) => {
            let header_value = secret_header_value(&format!("Bearer {value}"), variable)?;
            CredentialPart::Header(AUTHORIZATION, header_value)
        }
        ("http", "basic") => {
            let encoded = STANDARD.encode(value);
            let header_value = secret_header_value(&format!("Basic {encoded}"), variable)?;
            if let Some((_, password)) = value.split_once(':') {
                secrets.push(password.to_owned());
            }
            secrets.push(encoded);
            CredentialPart::Header(AUTHORIZATION, header_value)
        }
        ("apiKey", _) => {
            let parameter = scheme.name.clone().unwrap_or_default();
            if parameter.is_empty() {
                return Err(unsupported());
            }
            match scheme.place.as_deref() {
                Some("header") => {
                    let name =
                        HeaderName::from_bytes(parameter.as_bytes()).map_err(|_| unsupported())?;
                    if is_forbidden(&name) && name != AUTHORIZATION {
                        return Err(unsupported());
                    }
                    CredentialPart::Header(name, secret_header_value(value, variable)?)
                }
                Some("query") => CredentialPart::Query(parameter, value.to_owned()),
                Some("cookie") => CredentialPart::Cookie(parameter, value.to_owned()),
                _ => return Err(unsupported()),
            }
        }
        _ => return Err(unsupported()),
    };
    // The form of the value in a URL.
    secrets.push(super::styles::percent_encode(value));
    secrets.retain(|secret| !secret.is_empty());
    // The longest first: replacing a shorter secret inside a longer one would leave the rest of it.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    Ok(Credential { part, secrets })
}

/// Makes a header value that libraries do not log.
fn secret_header_value(value: &str, variable: &str) -> Result<HeaderValue, HttpCallError> {
    let mut header = HeaderValue::from_str(value).map_err(|_| {
        let message = format!("the value of {variable} cannot be sent in a header");
        HttpCallError::new(ErrorType::System, message)
    })?;
    header.set_sensitive(true);
    Ok(header)
}
