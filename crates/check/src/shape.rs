//! Checks of a text's shape: its length, and words that are there only to be found.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use super::finding::{ToolFinding, shorten};
use super::fold::{fold, words};
use super::rules::{KEYWORD_STUFFING, LONG_TEXT, PROMOTES_ITSELF};
use super::texts::{TextKind, ToolText};
use picktools::catalog::Tool;

/// The longest text of a tool, in characters: about 1,200 tokens of every request.
const MAX_CHARS: usize = 5_000;
/// The longest label or value, in characters.
const MAX_LABEL_CHARS: usize = 300;
/// The largest number of aliases; more are there only to be found.
const MAX_ALIASES: usize = 16;
/// The largest number of tags.
const MAX_TAGS: usize = 24;
/// The largest number of parts of a title; a title with more is a list.
const MAX_TITLE_PARTS: usize = 5;
/// The largest number of everyday subjects that one tool can cover.
const MAX_SUBJECTS: usize = 6;
/// The number of repetitions from which a word may be stuffed.
const MIN_REPEATS: usize = 9;
/// The share of a text's words from which a repeated word is stuffed.
const REPEATED_SHARE: f64 = 0.2;
/// The longest text whose words are counted, in words.
const MAX_COUNTED: usize = 400;
/// The smallest number of words without a sentence that are reported; fewer are a short
/// description.
const MIN_BARE: usize = 14;
/// The smallest number of search terms that are reported; fewer are a hint.
const MIN_TERMS: usize = 8;
/// The smallest number of tags with praise that are reported.
const MIN_PRAISING: usize = 2;

/// Subjects of everyday services.
static SUBJECTS: LazyLock<RegexSet> = LazyLock::new(|| {
    let subjects = [
        r"\b(?:weather|forecasts?)\b|天气|\bwetter\b|\bmeteo\b|погод",
        r"\b(?:flights?|airlines?|plane tickets?)\b|航班|机票|\bfluge?\b",
        r"\b(?:hotels?|accommodation)\b|酒店|旅馆",
        r"\b(?:stocks?|shares|trading|etf)\b|股票|基金|\baktien\b",
        r"\b(?:crypto\w*|bitcoin|btc)\b|比特币|加密",
        r"\b(?:news|headlines)\b|新闻|\bnachrichten\b|новост",
        r"\b(?:translat\w+)\b|翻译|\bubersetz\w+\b",
        r"\b(?:e-?mails?|mail|gmail)\b|邮件|почт",
        r"\b(?:calendars?|appointments?|schedul\w+|meetings?)\b|日历|提醒|\bkalender\b|календар",
        r"\b(?:maps?|navigation|directions|traffic)\b|地图|导航|карт",
        r"\b(?:music|songs?|playlists?|spotify)\b|音乐|музык|\bmusik\b",
        r"\b(?:videos?|movies?|films?|youtube|netflix)\b|视频|电影",
        r"\b(?:recipes?|cooking|restaurants?|pizza|takeaway)\b|外卖|菜谱|餐厅|\brezepte?\b",
        r"\b(?:sports?|football|soccer|scores)\b|体育|足球",
        r"\b(?:taxis?|uber|rides?)\b|打车|出租车",
        r"\b(?:trains?|railway)\b|火车|\bzug\b",
        r"\b(?:banks?|banking|loans?|mortgages?)\b|银行|贷款",
        r"\b(?:games?|gaming|lottery|casino)\b|游戏|彩票",
        r"\b(?:horoscopes?|zodiac|astrology)\b|星座",
        r"\b(?:shopping|shop|coupons?|discounts?|deals)\b|购物|优惠",
        r"\b(?:jobs?|careers?|salary|cv|resume)\b|招聘|工作",
        r"\b(?:health|doctors?|medical|fitness|diet)\b|健康|医生",
        r"\b(?:images?|photos?|pictures?)\b|图片|照片",
        r"\b(?:sql|databases?|excel|spreadsheets?)\b|数据库|表格",
        r"\b(?:pdf|documents?|files?)\b|文件|文档",
        r"\b(?:code|coding|github|git|python|debug)\b|代码|编程",
        r"\b(?:search|google|web)\b|搜索|поиск",
        r"\b(?:insurance|tax(?:es)?|invoices?|accounting)\b|保险|发票|税",
        r"\b(?:dating|love|wedding)\b|约会|婚",
        r"\b(?:real estate|apartments?|houses?|rent)\b|房产|租房",
        r"\b(?:math|calculator|calculat\w+)\b|计算",
        r"\b(?:slack|telegram|whatsapp|discord|sms|chat)\b|微信|聊天|短信",
    ];
    RegexSet::new(subjects.map(|subject| subject.replace(r"\b", r"(?-u:\b)")))
        .expect("a test compiles them")
});

/// Labels that praise a tool instead of naming a subject, in folded text.
const PRAISING: [&str; 24] = [
    "best",
    "number one",
    "number 1",
    "#1",
    "no 1",
    "top",
    "always",
    "always pick",
    "always use",
    "trusted",
    "official",
    "recommended",
    "preferred",
    "must use",
    "must have",
    "premium",
    "favourite",
    "favorite",
    "top rated",
    "winner",
    "use first",
    "use me",
    "most popular",
    "superior",
];

/// Checks the shape of a tool's texts.
pub(super) fn check(tool: &Tool, texts: &[ToolText<'_>], findings: &mut Vec<ToolFinding>) {
    for (pointer, count, limit) in [
        ("/aliases", tool.aliases.len(), MAX_ALIASES),
        ("/tags", tool.tags.len(), MAX_TAGS),
    ] {
        if count > limit {
            let message = format!("{count} entries, more than {limit}");
            findings.push(ToolFinding {
                message,
                ..ToolFinding::new(&KEYWORD_STUFFING, pointer, "")
            });
        }
    }
    let praise = praising_labels(texts);
    if praise.len() >= MIN_PRAISING {
        findings.push(ToolFinding::new(
            &PROMOTES_ITSELF,
            "/tags",
            &praise.join(", "),
        ));
    }
    for text in texts {
        check_length(text, findings);
        check_stuffing(text, findings);
    }
    let mut subjects = BTreeSet::new();
    for text in texts {
        if matches!(text.kind, TextKind::Title | TextKind::Label) {
            subjects.extend(SUBJECTS.matches(&fold(bounded(text.text))));
        }
    }
    if subjects.len() > MAX_SUBJECTS {
        let message = format!(
            "the title, aliases and tags name {} unrelated subjects",
            subjects.len()
        );
        findings.push(ToolFinding {
            message,
            ..ToolFinding::new(&KEYWORD_STUFFING, "/tags", &tool.tags.join(", "))
        });
    }
}

fn praising_labels<'a>(texts: &[ToolText<'a>]) -> Vec<&'a str> {
    let mut labels = Vec::new();
    for text in texts {
        if text.kind == TextKind::Label {
            let folded = fold(text.text).replace(['-', '_'], " ");
            if PRAISING.contains(&folded.trim()) {
                labels.push(text.text);
            }
        }
    }
    labels
}

fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(1 << 16)]
}

fn check_length(text: &ToolText<'_>, findings: &mut Vec<ToolFinding>) {
    let limit = match text.kind {
        TextKind::Description | TextKind::Parameter | TextKind::Value => MAX_CHARS,
        _ => MAX_LABEL_CHARS,
    };
    // Every character has at least one byte, so short texts need no count.
    let chars = if text.text.len() > limit {
        text.text.chars().count()
    } else {
        0
    };
    if chars > limit {
        let message = format!("the text has {chars} characters, more than {limit}");
        findings.push(ToolFinding {
            message,
            ..ToolFinding::new(&LONG_TEXT, &text.pointer, text.text)
        });
    }
}

fn check_stuffing(text: &ToolText<'_>, findings: &mut Vec<ToolFinding>) {
    let Some(message) = find_stuffing(text) else {
        return;
    };
    let is_reported = |finding: &ToolFinding| {
        finding.rule == &KEYWORD_STUFFING && finding.pointer == text.pointer
    };
    if !findings.iter().any(is_reported) {
        findings.push(ToolFinding {
            message,
            ..ToolFinding::new(&KEYWORD_STUFFING, &text.pointer, text.text)
        });
    }
}

/// Describes why a title, description or parameter is stuffed with keywords.
fn find_stuffing(text: &ToolText<'_>) -> Option<String> {
    let (name, max_parts) = match text.kind {
        TextKind::Title => ("title", MAX_TITLE_PARTS),
        TextKind::Description | TextKind::Parameter => ("text", usize::MAX),
        _ => return None,
    };
    let folded = fold(bounded(text.text));
    let parts = count_parts(&folded, &['|', '•', '/', ',', '·', ';']);
    if parts > max_parts {
        return Some(format!("the {name} is a list of {parts} parts"));
    }
    if let Some(count) = count_bare_words(text, &folded) {
        return Some(format!(
            "the {name} is a list of {count} words without a sentence"
        ));
    }
    if let Some(count) = count_search_terms(&folded) {
        return Some(format!("the {name} lists {count} search terms"));
    }
    // A parameter may list its possible values.
    if text.kind == TextKind::Parameter {
        return None;
    }
    if folded.len() < 2_000 {
        let subjects = SUBJECTS.matches(&folded).iter().count();
        if subjects > MAX_SUBJECTS {
            return Some(format!("the {name} names {subjects} unrelated subjects"));
        }
    }
    let (word, count) = find_repeated_word(&folded)?;
    let word = shorten(&word);
    Some(format!(
        "the {name} repeats the word {word:?} {count} times"
    ))
}

/// Counts the parts between separators that are not blank.
fn count_parts(text: &str, separators: &[char]) -> usize {
    let mut count = 0;
    for part in text.split(separators) {
        count += usize::from(!part.trim().is_empty());
    }
    count
}

/// Counts the words of a description that has neither function words nor punctuation; `None` if
/// they are few.
fn count_bare_words(text: &ToolText<'_>, folded: &str) -> Option<usize> {
    if text.kind != TextKind::Description
        || !folded
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b' ')
    {
        return None;
    }
    let count = words(folded).count();
    let is_connecting = |word: &str| {
        is_function_word(word)
            || matches!(
                word,
                "a" | "an" | "of" | "in" | "to" | "by" | "on" | "or" | "as" | "is" | "its" | "at"
            )
    };
    (count >= MIN_BARE && !words(folded).any(is_connecting)).then_some(count)
}

/// Counts the terms after `keywords:` and similar words; `None` if they are few.
fn count_search_terms(folded: &str) -> Option<usize> {
    static TERMS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:keywords?|seo|search terms|related (?:searches|terms|queries)|related|see also|hashtags|synonyms|also (?:found|known|searched) (?:as|for|by|under)|schlagworter|mots[- ]cles|palabras clave|关键词)(?: [a-z]+)? ?[:：]")
            .expect("a test compiles it")
    });
    let end = TERMS.find(folded)?.end();
    let count = count_parts(&folded[end..], &[',', '|', ';', '、', '，', '/']);
    (count >= MIN_TERMS).then_some(count)
}

/// Finds the word that a short text repeats too often. In scripts without spaces, pairs of
/// characters count as words.
fn find_repeated_word(folded: &str) -> Option<(String, usize)> {
    let mut counts: HashMap<Cow<'_, str>, usize> = HashMap::new();
    let mut total = 0;
    for word in words(folded).take(MAX_COUNTED + 1) {
        if word.is_ascii() {
            total += 1;
            if word.len() > 2
                && word.bytes().all(|byte| byte.is_ascii_alphabetic())
                && !is_function_word(word)
            {
                *counts.entry(word.into()).or_default() += 1;
            }
        } else if word.chars().next().is_some_and(|c| c >= '\u{2e80}') {
            let chars: Vec<char> = word.chars().take(MAX_COUNTED).collect();
            total += chars.len() / 2;
            for pair in chars.windows(2) {
                *counts
                    .entry(pair.iter().collect::<String>().into())
                    .or_default() += 1;
            }
        } else {
            total += 1;
            if word.chars().count() > 3 {
                *counts.entry(word.into()).or_default() += 1;
            }
        }
    }
    if total > MAX_COUNTED {
        return None;
    }
    let min_share = REPEATED_SHARE * f64::from(u32::try_from(total).unwrap_or(u32::MAX));
    counts.retain(|_, count| *count >= MIN_REPEATS && *count as f64 >= min_share);
    let (word, count) = counts
        .into_iter()
        .max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)))?;
    Some((word.into_owned(), count))
}

fn is_function_word(word: &str) -> bool {
    matches!(
        word,
        "the"
            | "and"
            | "for"
            | "with"
            | "not"
            | "are"
            | "this"
            | "that"
            | "you"
            | "from"
            | "can"
            | "der"
            | "die"
            | "das"
            | "und"
            | "les"
            | "des"
            | "que"
            | "los"
            | "las"
            | "xsiblingx"
            | "xotherx"
            | "null"
            | "true"
            | "false"
            | "int"
            | "string"
    )
}
