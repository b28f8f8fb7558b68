//! Negation: a tool that the request rules out ranks below the one that it asks for.

use picktools::{Access, PickOptions};

use crate::support::{WORKPLACE, ids, pick};

/// Requests, each with a requested tool and an excluded one. They were written before the rules.
const REQUESTS: [(&str, &str, &str); 24] = [
    (
        "don't send an email, just post in the chat",
        "chat/post_message",
        "mail/send_email",
    ),
    (
        "do not book a flight, search for trains to Bern",
        "travel/search-trains",
        "travel/book-flight",
    ),
    (
        "search for hotels in Basel instead of trains",
        "travel/search-hotels",
        "travel/search-trains",
    ),
    (
        "translate this text without checking the grammar",
        "lingua/translate_text",
        "lingua/check_grammar",
    ),
    (
        "Don't create a new event, update the one on Friday",
        "calendar/update_event",
        "calendar/create_event",
    ),
    (
        "read the message, but don't move it",
        "mail/read_message",
        "mail/move_message",
    ),
    (
        "Instead of writing an email, send Ana a direct message",
        "chat/send_direct_message",
        "mail/send_email",
    ),
    (
        "resize the image rather than generate a new image",
        "media/resize-image",
        "media/generate-image",
    ),
    (
        "please do not upload the file, share it with Bob",
        "files/share_file",
        "files/upload_file",
    ),
    (
        "list the pull requests without merging any",
        "forge/list_pull_requests",
        "forge/create_pull_request",
    ),
    (
        "get the forecast, not the air quality",
        "weather/get_forecast",
        "weather/get_air_quality",
    ),
    (
        "never charge the card: create an invoice",
        "payments/create_invoice",
        "payments/charge_card",
    ),
    (
        "add a comment to the issue and don't assign it",
        "tracker/add_comment",
        "tracker/assign_issue",
    ),
    (
        "don't list the tables. Run the query",
        "warehouse/run_query",
        "warehouse/list_tables",
    ),
    (
        "extract the text of the PDF without compressing the folder",
        "files/extract_pdf_text",
        "files/compress_folder",
    ),
    (
        "create a payment link instead of refunding the payment",
        "payments/create_payment_link",
        "payments/refund_payment",
    ),
    (
        "please don't schedule an interview, post a job opening",
        "hr/post_job_opening",
        "hr/schedule_interview",
    ),
    (
        "play music but do not set the light",
        "home/playMusic",
        "home/setLight",
    ),
    (
        "search the wiki pages, don't create a page",
        "wiki/search_pages",
        "wiki/create_page",
    ),
    (
        "transcribe the audio; do not trim the video",
        "media/transcribe-audio",
        "media/trim-video",
    ),
    (
        "dont escalate the ticket, reply to it",
        "helpdesk/reply_to_ticket",
        "helpdesk/escalate_ticket",
    ),
    (
        "rent a car rather than taking a flight",
        "travel/rent-car",
        "travel/book-flight",
    ),
    (
        "get the payslip without requesting leave",
        "hr/get_payslip",
        "hr/request_leave",
    ),
    (
        "find parking instead of directions",
        "maps/find_parking",
        "maps/get_directions",
    ),
];

#[test]
fn negated_tool_ranks_below_requested_tool() {
    let roles = WORKPLACE
        .catalog()
        .tools()
        .expect("readable")
        .iter()
        .flat_map(|tool| tool.allowed_roles.clone())
        .collect();
    let access = Access {
        allow_unsafe: true,
        roles,
        ..Access::default()
    };
    let options = PickOptions {
        max_candidates: 220,
        min_score: 0.0,
        access,
        ..PickOptions::default()
    };
    let fails = REQUESTS.iter().filter(|(request, requested, ruled_out)| {
        let selection = pick(&WORKPLACE, request, &options);
        let rank = |tool: &str| ids(&selection).iter().position(|id| *id == tool);
        let requested = rank(requested).expect("all eligible tools are ranked");
        rank(ruled_out).is_some_and(|ruled_out| ruled_out < requested)
    });
    let fails: Vec<_> = fails.collect();
    assert!(
        fails.is_empty(),
        "{} of {}: {fails:#?}",
        fails.len(),
        REQUESTS.len()
    );
}

#[test]
fn negated_name_is_no_mention() {
    let selection = pick(
        &WORKPLACE,
        "don't use terminalRun, read the file notes.txt",
        &PickOptions::default(),
    );
    assert_eq!(ids(&selection)[0], "terminal/terminalReadFile");
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| pick.provenance.named.is_none())
    );
    let alone = pick(&WORKPLACE, "don't send an email", &PickOptions::default());
    assert_eq!(
        ids(&alone)[0],
        "mail/send_email",
        "where nothing else is asked for, all words count"
    );
}
