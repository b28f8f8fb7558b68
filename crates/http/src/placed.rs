//! Answers that keep their place among the requests under way until they have ended, and those that
//! turn a request away.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use picktools_gateway::guests::{Place, Refused};

/// An answer that has a place.
pub(crate) struct Placed {
    body: Body,
    _place: Option<Place>,
}

impl Placed {
    /// An answer that keeps the place until it has ended.
    pub(crate) fn answer(response: Response, place: Option<Place>) -> Response {
        response.map(|body| {
            Body::new(Self {
                body,
                _place: place,
            })
        })
    }
}

impl http_body::Body for Placed {
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

/// Answers a request that is not let in, in a line of text.
pub(crate) fn refuse(refused: &Refused) -> Response {
    let mut response = (refused.status, format!("{}\n", refused.message)).into_response();
    refused.advise(response.headers_mut());
    response
}
