//! Errors of the JSON API as problem details (RFC 9457).

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use picktools_gateway::api_keys::HttpRefusal;
use picktools_gateway::refusal::{Code, Refusal};
use serde::Serialize;
use utoipa::ToSchema;

/// The content type of a problem.
const JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error response (RFC 9457).
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Always `about:blank`: `status` and `code` identify the error.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The reason phrase of the status.
    title: &'static str,
    /// The HTTP status code.
    status: u16,
    /// A stable identifier of the error.
    code: &'static str,
    /// The cause, and the remedy.
    detail: String,
    /// The path of the invalid member of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// The time after which the client may try again.
    #[serde(skip)]
    retry_after: Option<Duration>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code,
            detail: detail.into(),
            place: None,
            retry_after: None,
        }
    }

    /// Returns the problem of a well-formed request with invalid values.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail)
    }

    /// Adds the time after which the request may be repeated.
    pub(crate) fn retry_after(self, time: Duration) -> Self {
        Self {
            retry_after: Some(time),
            ..self
        }
    }

    /// Adds the path of the invalid member.
    pub(crate) fn at(self, place: impl Into<String>) -> Self {
        Self {
            place: Some(place.into()),
            ..self
        }
    }

    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<HttpRefusal> for Problem {
    fn from(refusal: HttpRefusal) -> Self {
        let code = match refusal.status {
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::FORBIDDEN => "forbidden",
            StatusCode::TOO_MANY_REQUESTS => "too_many_requests",
            StatusCode::SERVICE_UNAVAILABLE => "busy",
            _ => "refused",
        };
        Self {
            retry_after: refusal.retry_after,
            ..Self::new(refusal.status, code, refusal.message)
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.code {
            Code::UnknownTool => StatusCode::NOT_FOUND,
            Code::AmbiguousTool | Code::NotConfirmed | Code::Cancelled => StatusCode::CONFLICT,
            Code::InvalidArguments => StatusCode::UNPROCESSABLE_ENTITY,
            Code::NotAllowed | Code::Quarantined => StatusCode::FORBIDDEN,
            Code::UpstreamDown | Code::Busy | Code::NotAudited => StatusCode::SERVICE_UNAVAILABLE,
            Code::UpstreamDied | Code::UpstreamError | Code::ResultBlocked => {
                StatusCode::BAD_GATEWAY
            }
            Code::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Code::NotCarried => StatusCode::NOT_IMPLEMENTED,
        };
        Self {
            retry_after: refusal.retry_after,
            ..Self::new(status, refusal.code.name(), refusal.message)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (self.status(), [(header::CONTENT_TYPE, JSON)], body).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED.as_u16() {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(time) = self.retry_after {
            headers.insert(
                header::RETRY_AFTER,
                HeaderValue::from(time.as_secs().max(1)),
            );
        }
        response
    }
}
