//! Bodies of requests that were answered before they were read, for example because of a wrong key.
//!
//! The HTTP library closes a connection if the body of a request is still on its way when the
//! response is sent. The client would notice this only at its next request, which would be lost.
//! Therefore a short rest is read first, and otherwise the response announces that the connection
//! ends.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use picktools_state::lock;
use tokio::time::timeout;

/// The largest rest of a body that is read, in bytes.
const MAX_REST_BYTES: usize = 256 << 10;
/// The time in which the rest of a body must arrive.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// The rest of a body after its handler has dropped it.
type Rest = Arc<Mutex<Option<Body>>>;

/// A body that leaves its rest when it is dropped.
struct TrackedBody {
    body: Body,
    rest: Rest,
    has_ended: bool,
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.has_ended |= matches!(frame, Poll::Ready(None | Some(Err(_))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if !self.has_ended && !self.body.is_end_stream() {
            *lock(&self.rest) = Some(std::mem::take(&mut self.body));
        }
    }
}

/// Reads the rest of the body of a request before its response is sent. If the rest is too long or
/// too late, the response announces that the connection ends.
pub(crate) async fn read_rest(
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    if request.body().is_end_stream() {
        return next(request).await;
    }
    let awaits_permission = request.headers().contains_key(header::EXPECT);
    let rest = Rest::default();
    let request = request.map(|body| {
        Body::new(TrackedBody {
            body,
            rest: Arc::clone(&rest),
            has_ended: false,
        })
    });
    let mut response = next(request).await;
    let unread = lock(&rest).take();
    if let Some(unread) = unread
        && (awaits_permission || !skip(unread).await)
    {
        let close = HeaderValue::from_static("close");
        drop(response.headers_mut().insert(header::CONNECTION, close));
    }
    response
}

/// Reads a body to its end. Returns `false` if it is too long, too late or incomplete.
async fn skip(mut body: Body) -> bool {
    let read = async {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > MAX_REST_BYTES {
                return false;
            }
        }
        true
    };
    timeout(REST_TIMEOUT, read).await.unwrap_or(false)
}
