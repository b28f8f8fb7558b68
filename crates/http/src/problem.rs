//! Errors of the HTTP interface, as RFC 9457 has them.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use picktools_gateway::guests::Refused;
use picktools_gateway::refusal::{Code, Refusal};
use serde::Serialize;
use utoipa::ToSchema;

/// What a problem is sent as.
const JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Why a request was not answered (RFC 9457).
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Always `about:blank`: the status says what kind it is, and `code` more closely.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status.
    status: u16,
    /// What went wrong; stable.
    code: &'static str,
    /// What went wrong, and what to do about it.
    detail: String,
    /// Where in the body, as a path of its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// In how many seconds another try is worth it.
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

    /// A request that can be read, and asks for what makes no sense.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail)
    }

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

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let code = match refused.status {
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::FORBIDDEN => "forbidden",
            StatusCode::TOO_MANY_REQUESTS => "too_many_requests",
            StatusCode::SERVICE_UNAVAILABLE => "busy",
            _ => "refused",
        };
        Self {
            retry_after: refused.retry_after,
            ..Self::new(refused.status, code, refused.message)
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
