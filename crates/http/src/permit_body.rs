//! Response bodies that hold a request permit until they end, and refusals.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use picktools_gateway::active_requests::ActiveRequest;
use picktools_gateway::api_keys::{HttpRefusal, RequestPermit};

/// A response body that holds a request permit.
pub(crate) struct PermitBody {
    body: Body,
    _permit: Option<RequestPermit>,
}

impl PermitBody {
    /// Makes a response release the permit when its body has ended.
    pub(crate) fn wrap(response: Response, permit: Option<RequestPermit>) -> Response {
        response.map(|body| {
            Body::new(Self {
                body,
                _permit: permit,
            })
        })
    }
}

impl http_body::Body for PermitBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response body that counts as a request under way until it ends.
pub(crate) struct ActiveBody {
    body: Body,
    _active: ActiveRequest,
}

impl ActiveBody {
    /// Makes a response count until its body has ended.
    pub(crate) fn wrap(response: Response, active: ActiveRequest) -> Response {
        response.map(|body| {
            Body::new(Self {
                body,
                _active: active,
            })
        })
    }
}

impl http_body::Body for ActiveBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the response to a refused request: one line of text.
pub(crate) fn refuse(refusal: &HttpRefusal) -> Response {
    let mut response = (refusal.status, format!("{}\n", refusal.message)).into_response();
    refusal.advise(response.headers_mut());
    response
}
