//! Calls in the text of a model: one form per model family, hostile texts, quoted examples.

use std::time::{Duration, Instant};

use picktools_provider::{Arguments, MAX_CALLS, Provider, TextCalls, calls_in_text, possible_call};
use proptest::prelude::*;
use serde_json::{Value, json};

fn is_shown(name: &str) -> bool {
    matches!(name, "get_weather" | "search" | "ns.tool" | "list")
}

/// Returns the names and arguments of the calls in a text, and the rest of the text.
fn parts(text: &str) -> (Vec<(String, Value)>, String) {
    let TextCalls { text, calls } = calls_in_text(text, &is_shown);
    let arguments = |arguments: Arguments| match arguments {
        Arguments::Json(value) => value,
        Arguments::Text(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
    };
    let calls = calls
        .into_iter()
        .map(|call| (call.name, arguments(call.arguments)));
    (calls.collect(), text)
}

fn weather(city: &str) -> (String, Value) {
    ("get_weather".to_owned(), json!({"city": city}))
}

/// Writes one call of `get_weather` in each form.
fn forms(city: &str) -> Vec<String> {
    let json = |key: &str| format!(r#"{{"name": "get_weather", "{key}": {{"city": "{city}"}}}}"#);
    let object = format!(r#"{{"city": "{city}"}}"#);
    let (arguments, parameters) = (json("arguments"), json("parameters"));
    let python = format!("get_weather(city=\"{city}\")");
    let coder =
        format!("<function=get_weather>\n<parameter=city>\n{city}\n</parameter>\n</function>");
    let invoke = |prefix: &str| {
        format!(
            "<{prefix}function_calls>\n<{prefix}invoke name=\"get_weather\">\n\
             <{prefix}parameter name=\"city\">{city}</{prefix}parameter>\n</{prefix}invoke>\n\
             </{prefix}function_calls>"
        )
    };
    let deepseek = |call: &str| {
        format!(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{call}<｜tool▁call▁end｜>\
             <｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
        )
    };
    let kimi = |object: &str| {
        format!(
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0\
             <|tool_call_argument_begin|>{object}<|tool_call_end|><|tool_calls_section_end|>"
        )
    };
    vec![
        format!("<tool_call>\n{arguments}\n</tool_call>"),
        format!("<tool_call>{arguments}"),
        format!("<tool_call>\n{}\n</tool_call>", arguments.replace('"', "'")),
        format!("<tool_call>\n[{arguments},]\n</tool_call>"),
        format!("<tool_call>\n{coder}\n</tool_call>"),
        coder.clone(),
        coder.replace("</parameter>\n", ""),
        format!("<function=get_weather>{object}</function>"),
        format!("<|python_tag|>{parameters}<|eom_id|>"),
        format!("<|python_tag|>{python}"),
        format!("<|python_tag|>{}<|eom_id|>", python.replace('(', ".call(")),
        format!("<|python_start|>[{python}]<|python_end|><|eot|>"),
        parameters.clone(),
        format!("{parameters}<|eot_id|>"),
        format!(r#"{{"type": "function", "function": {arguments}}}"#),
        format!(r#"{{"type": "function", "name": "get_weather", "parameters": {object}}}"#),
        format!("[{arguments}]"),
        format!("[TOOL_CALLS] [{arguments}]</s>"),
        format!("[TOOL_CALLS]get_weather{object}"),
        format!("[TOOL_CALLS]get_weather[ARGS]{object}"),
        format!("[TOOL_CALLS]get_weather[CALL_ID]abc123DEF[ARGS]{object}"),
        format!(">>>get_weather\n{object}"),
        format!("<|from|>assistant\n<|recipient|>get_weather\n<|content|>{object}"),
        format!("[{python}]"),
        format!(
            "[ {},\n]",
            python.replace('"', "'").replace("city=", "city = ")
        ),
        format!(
            "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{object}<|call|>"
        ),
        format!(
            "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{object}"
        ),
        format!(
            "<|start|>assistant<|channel|>commentary to=functions.get_weather<|message|>{object}<|call|>"
        ),
        format!("<|tool_call|>[{arguments}]"),
        format!("<|tool_call|> [{arguments}]<|end_of_text|>"),
        format!("<|tool_call|>[{arguments}]<|/tool_call|>"),
        format!("<tool_call>[{arguments}]"),
        deepseek(&format!(
            "function<｜tool▁sep｜>get_weather\n```json\n{object}\n```"
        )),
        deepseek(&format!("get_weather<｜tool▁sep｜>{object}")),
        format!("<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{object}<｜tool▁call▁end｜>"),
        format!("<tool_call>\n```json\n{arguments}\n```\n</tool_call>"),
        format!("<function_call> {arguments} </function_call>"),
        format!(
            "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>{city}</arg_value>\n\
             </tool_call>"
        ),
        kimi(&object),
        kimi(&object)
            .replace("<|tool_calls_section_begin|>", "")
            .replace("<|tool_calls_section_end|>", ""),
        invoke(""),
        invoke("ns:"),
        format!(
            "<invoke name=\"get_weather\"><parameter name=\"city\">{city}</parameter></invoke>"
        ),
    ]
}

#[test]
fn every_form_is_read_and_leaves_the_text_around() {
    for (one, two) in forms("Paris").iter().zip(&forms("Oslo")) {
        assert_eq!(parts(one), (vec![weather("Paris")], String::new()), "{one}");
        let text = format!("Let me look.\n{one}\nThat is all.");
        let (calls, rest) = parts(&text);
        assert_eq!(calls, [weather("Paris")], "{text}");
        assert_eq!(rest, "Let me look.\n\nThat is all.", "{text}");
        let text = format!("{one}\n{two}\n");
        let (calls, rest) = parts(&text);
        assert_eq!(calls, [weather("Paris"), weather("Oslo")], "{text}");
        assert_eq!(rest, "", "{text}");
    }
    let leading = "get_weather\n{\"city\": \"Paris\"}>>>search\n{\"q\": 1}";
    let expected = vec![weather("Paris"), ("search".to_owned(), json!({"q": 1}))];
    assert_eq!(parts(leading).0, expected, "functionary");
    let list = "[get_weather(city='Paris'), search(q=1)]";
    assert_eq!(parts(list).0, expected, "Python");
    let semicolon = r#"{"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "search", "parameters": {"q": 1}}"#;
    assert_eq!(parts(semicolon).0, expected, "Llama");
    let empty = "<tool_call>search\n</tool_call>";
    assert_eq!(parts(empty).0, [("search".to_owned(), json!({}))], "GLM");
    let array = r#"<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "search", "arguments": {"q": 1}}]"#;
    assert_eq!(parts(array).0, expected, "Granite");
    for deepseek in [
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Paris\"}\n```\
         <｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{\"q\": 1}\n```\
         <｜tool▁call▁end｜>",
        "<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Paris\"}<｜tool▁call▁end｜>\
         <｜tool▁call▁begin｜>search<｜tool▁sep｜>{\"q\": 1}<｜tool▁call▁end｜>",
    ] {
        let text = format!("<｜tool▁calls▁begin｜>{deepseek}<｜tool▁calls▁end｜>");
        assert_eq!(parts(&text), (expected.clone(), String::new()), "DeepSeek");
    }
}

#[test]
fn calls_never_start_before_they_are_possible() {
    for form in forms("Paris") {
        for before in [
            "",
            "Let me look.\n",
            "Look at <b>this</b> [1]:\n",
            "<think>x</think>",
        ] {
            let text = format!("{before}{form}\nDone.");
            let mut held = None;
            let mut released = 0;
            for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
                held = possible_call(&text[..end], held.unwrap_or(released));
                released = held.unwrap_or(end);
                assert!(released <= before.len(), "{text} at {end}");
            }
            assert_eq!(
                held.map(|at| text[at..].contains("Paris")),
                Some(true),
                "{text}"
            );
        }
    }
    for text in [
        "I see: a < b, x[0] and {}.",
        "[1] is a note",
        "<b>bold</b>.",
        "Hello\nworld {x}",
    ] {
        assert_eq!(possible_call(text, 0), None, "{text}");
    }
}

#[test]
fn only_shown_names_are_calls() {
    for text in forms("Paris") {
        let unknown = text.replace("get_weather", "delete_all");
        assert_eq!(parts(&unknown), (vec![], unknown.clone()));
    }
    let mixed = r#"[TOOL_CALLS] [{"name": "rm", "arguments": {}}, {"name": "search", "arguments": {"q": 1}}]"#;
    let (calls, rest) = parts(mixed);
    assert_eq!(calls, [("search".to_owned(), json!({"q": 1}))]);
    assert_eq!(rest, r#"{"name": "rm", "arguments": {}}"#);
    let unknown = "<｜tool▁call▁begin｜>rm<｜tool▁sep｜>{}<｜tool▁call▁end｜>";
    let known = "<｜tool▁call▁begin｜>search<｜tool▁sep｜>{\"q\": 1}<｜tool▁call▁end｜>";
    let mixed = format!("<｜tool▁calls▁begin｜>{unknown}{known}<｜tool▁calls▁end｜>");
    let search = ("search".to_owned(), json!({"q": 1}));
    assert_eq!(parts(&mixed), (vec![search], unknown.to_owned()));
}

#[test]
fn quoted_examples_and_other_texts_are_not_calls() {
    for text in forms("Paris") {
        for quoted in [
            format!("For example:\n```\n{text}\n```\nDone."),
            format!("For example:\n```json\n{text}"),
            format!("~~~~\n```\n{text}\n```\n~~~~"),
            format!("<think>I could write\n{text}\n</think>\nNo."),
        ] {
            assert_eq!(parts(&quoted), (vec![], quoted.clone()), "{quoted}");
        }
        if !text.contains('\n') {
            let quoted = format!("Write `{text}` for it.");
            assert_eq!(parts(&quoted), (vec![], quoted.clone()), "{quoted}");
        }
        let fenced = format!("```\nx\n```\n{text}");
        assert_eq!(
            parts(&fenced),
            (vec![weather("Paris")], "```\nx\n```".to_owned())
        );
        let reasoned = format!("<think>Hm.</think>{text}");
        assert_eq!(parts(&reasoned).0, [weather("Paris")], "{reasoned}");
    }
    for text in [
        "The list [search](https://example.org) is long.",
        "[search](https://example.org)",
        r#"Send {"name": "search", "arguments": {}} to it."#,
        r#"{"name": "search", "arguments": {}, "result": 1}"#,
        r#"{"name": "search"}"#,
        "[search(__import__('os').system('x'))]",
        "[search(q=open('x'))]",
        "[search(q=1+1)]",
        "[search(1)]",
        "[search(q=1, q=2)]",
        "x[search(q=1)]",
        "search\nfor it",
        "<tool_call>search</tool_call>",
        "<|tool_call|>search",
        "<｜tool▁call▁begin｜>search<｜tool▁call▁end｜>",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```python\nq = 1\n```<｜tool▁call▁end｜>",
        "<|channel|>final<|message|>{\"q\": 1}",
        "<|channel|>final to=functions.search<|message|>{\"q\": 1}",
        "1 < 2 && a[0] > b{",
    ] {
        assert_eq!(parts(text), (vec![], text.to_owned()));
    }
}

#[test]
fn arguments_with_markup_of_their_own_are_read() {
    let code = "if a < b:\n    x[0] = {\"k\": 'v'}\n```\n</tool_call> <tool_call>";
    let written = json!({"name": "search", "arguments": {"q": code}});
    let text = format!("<tool_call>{written}</tool_call> and\n[list(a=1)]");
    let expected = [
        ("search".to_owned(), json!({"q": code})),
        ("list".to_owned(), json!({"a": 1})),
    ];
    assert_eq!(parts(&text).0[..1], expected[..1]);
    let text = format!("<function=search><parameter=q>{code}</parameter></function>\n[list(a=1)]");
    assert_eq!(parts(&text).0, expected);
}

#[test]
fn hostile_texts_take_linear_time() {
    let openings = [
        "<tool_call>",
        "<tool_call>{\"a\":",
        "<function=search><parameter=q>",
        "<invoke name=\"search\"><parameter name=\"q\">",
        "[TOOL_CALLS][",
        "[TOOL_CALLS]search{\"",
        "\n[search(q=",
        "\n[search(q=[",
        "\n{\"name\": [",
        "\n{\"",
        "<|channel|>",
        "<|channel|>commentary to=functions.search<|message|>{\"",
        ">>>search\n{'",
        "`",
        "<think>",
        "\n```",
        "<|python_tag|>[",
        "<|tool_call|>[",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{\"",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{'",
        "\n{\"a\": '",
        "<",
        "[",
        "{",
        "\n   [",
    ];
    for opening in openings {
        let text = opening.repeat(400_000 / opening.len());
        let started = Instant::now();
        let calls = calls_in_text(&text, &is_shown).calls;
        assert!(calls.is_empty(), "{opening:?}");
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{opening:?}: {:?}",
            started.elapsed()
        );
    }
    let runs: String = (1..2_000)
        .rev()
        .map(|length| "`".repeat(length) + "x")
        .collect();
    let started = Instant::now();
    assert!(calls_in_text(&runs, &is_shown).calls.is_empty());
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    let many = "<tool_call>{\"name\": \"list\"}</tool_call>\n".repeat(MAX_CALLS + 10);
    let TextCalls { text, calls } = calls_in_text(&many, &is_shown);
    assert_eq!(calls.len(), MAX_CALLS);
    assert_eq!(
        text.matches("<tool_call>").count(),
        10,
        "the other calls stay text"
    );
}

#[test]
fn answer_moves_calls_from_its_text() {
    let content = "Hm.\n<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>";
    let body = json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]});
    let answer = Provider::OpenAiChat.answer(&body).expect("an answer");
    let answer = answer.with_text_calls(&is_shown);
    assert_eq!(answer.text.as_deref(), Some("Hm."));
    assert_eq!(answer.calls.len(), 1);
    assert_eq!(answer.calls[0].id.as_deref(), Some("text_call_1"));
}

proptest! {
    #[test]
    fn any_text_is_kept_without_shown_names(text in "[<>|\\[\\]{}()\"'`/=:, \na-z_]{0,200}") {
        let kept = calls_in_text(&text, &|_| false);
        prop_assert_eq!(kept.text, text);
        prop_assert!(kept.calls.is_empty());
    }

    #[test]
    fn cut_calls_never_panic(form in 0..38_usize, cut in any::<prop::sample::Index>(), more in ".{0,20}") {
        let text = forms("Zürich").swap_remove(form);
        let ends: Vec<usize> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
        let text = format!("{}{more}", &text[..ends[cut.index(ends.len())]]);
        let _calls = calls_in_text(&text, &|_| true);
    }
}
