//! Response bodies that hold a guard until they end, and refusals.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use picktools_gateway::api_keys::HttpRefusal;

/// A response body that holds a guard: a permit of its key, or its place among the requests under
/// way.
struct GuardedBody<G> {
    body: Body,
    _guard: G,
}

/// Makes a response drop a guard when its body has ended.
pub(crate) fn hold<G: Send + Unpin + 'static>(response: Response, guard: G) -> Response {
    response.map(|body| {
        Body::new(GuardedBody {
            body,
            _guard: guard,
        })
    })
}

impl<G: Unpin> http_body::Body for GuardedBody<G> {
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
