//! Answers of the console: rendered templates and errors.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use picktools::saved::SavedError;
use picktools_gateway::refusal::Refusal;

/// An error of a console request.
pub(super) struct ConsoleError {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl ConsoleError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(super) fn from_refusal(refusal: Refusal) -> Self {
        Self::new(StatusCode::BAD_REQUEST, refusal.message)
    }
}

impl From<SavedError> for ConsoleError {
    fn from(error: SavedError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for ConsoleError {
    fn into_response(self) -> Response {
        (self.status, self.message).into_response()
    }
}

/// Renders a template.
pub(super) fn render(template: &impl Template) -> Result<Html<String>, ConsoleError> {
    let failed = |error: askama::Error| {
        ConsoleError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    };
    template.render().map(Html).map_err(failed)
}

/// Runs work that reads files on a blocking thread.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ConsoleError> + Send + 'static,
) -> Result<T, ConsoleError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|error| {
        Err(ConsoleError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error.to_string(),
        ))
    })
}
