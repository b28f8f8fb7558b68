//! Sending the head of a response together with the first message of its event stream.
//!
//! The stream of an answer begins at once, with an event that has only an id. Most tools answer
//! within a few milliseconds. So the head waits for them for a short time: the server writes once
//! in place of twice, and the client wakes up once.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::time::timeout;

/// The longest time that a head waits.
const HEAD_DELAY: Duration = Duration::from_millis(10);
/// The beginning of an event with a message.
const MESSAGE_EVENT: &[u8] = b"data: {";

type BodyFrame = Result<Frame<Bytes>, axum::Error>;

/// A response body after its first frames, which were read before.
struct ContinuedBody {
    first: VecDeque<BodyFrame>,
    /// `None` after its end.
    rest: Option<Body>,
}

/// Waits for the first message of an event stream, or for a short time.
pub(crate) async fn wait_for_first_message(response: Response) -> Response {
    let (parts, mut rest) = response.into_parts();
    let mut first = VecDeque::new();
    // The head is sent after the time, whatever has arrived.
    let read = timeout(HEAD_DELAY, read_first_message(&mut rest, &mut first)).await;
    let has_ended = read == Ok(true);
    let rest = (!has_ended).then_some(rest);
    Response::from_parts(parts, Body::new(ContinuedBody { first, rest }))
}

/// Reads frames up to the first message. Returns `true` at the end of the body.
async fn read_first_message(body: &mut Body, frames: &mut VecDeque<BodyFrame>) -> bool {
    while let Some(frame) = body.frame().await {
        let is_last = match &frame {
            Ok(frame) => frame
                .data_ref()
                .is_none_or(|data| data.starts_with(MESSAGE_EVENT)),
            Err(_) => true,
        };
        frames.push_back(frame);
        if is_last {
            return false;
        }
    }
    true
}

impl http_body::Body for ContinuedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(frame) = self.first.pop_front() {
            return Poll::Ready(Some(frame));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use futures_util::stream;

    use super::*;

    const PRIMING: &str = "data: \nid: 0/0\n\n";
    const MESSAGE: &str = "data: {}\nid: 1/0\n\n";

    fn chunks(texts: &[&'static str]) -> Vec<Result<&'static str, std::io::Error>> {
        texts.iter().copied().map(Ok).collect()
    }

    async fn text(response: Response) -> String {
        let body = response.into_body().collect().await.expect("a body");
        String::from_utf8(body.to_bytes().to_vec()).expect("a text")
    }

    #[tokio::test]
    async fn frames_up_to_the_first_message_are_read_and_none_is_lost() {
        let texts = [PRIMING, MESSAGE, MESSAGE];
        let mut body = Body::from_stream(stream::iter(chunks(&texts)));
        let mut frames = VecDeque::new();
        assert!(!read_first_message(&mut body, &mut frames).await);
        assert_eq!(frames.len(), 2);
        let response = Response::new(Body::from_stream(stream::iter(chunks(&texts))));
        let response = wait_for_first_message(response).await;
        assert_eq!(text(response).await, texts.concat());
    }

    #[tokio::test]
    async fn head_of_a_slow_answer_is_sent_before_it() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let answer = stream::once(async move { Ok(receiver.await.expect("a message")) });
        let body = Body::from_stream(stream::iter(chunks(&[PRIMING])).chain(answer));
        let response = wait_for_first_message(Response::new(body)).await;
        sender.send(MESSAGE).expect("the body is read");
        assert_eq!(text(response).await, [PRIMING, MESSAGE].concat());
    }

    #[tokio::test]
    async fn stream_without_a_message_ends() {
        let body = Body::from_stream(stream::iter(chunks(&[PRIMING])));
        let response = wait_for_first_message(Response::new(body)).await;
        assert_eq!(text(response).await, PRIMING);
    }
}
