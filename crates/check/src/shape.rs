//! The shape of a text: how long it is, and whether its words are there to be found rather than
//! read.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use super::Found;
use super::fold::{fold, words};
use super::rules::{KEYWORD_STUFFING, LONG_TEXT, PROMOTES_ITSELF};
use super::texts::{Kind, Text};
use picktools::catalog::Tool;

/// A longer text of a tool is too long, in characters: some 1,200 tokens of every request.
const MOST_CHARS: usize = 5_000;
/// A longer label or value is prose.
const MOST_LABEL_CHARS: usize = 300;
/// More aliases or tags are there to be found.
const MOST_ALIASES: usize = 16;
const MOST_TAGS: usize = 24;
/// A title of more parts is a list.
const MOST_TITLE_PARTS: usize = 5;
/// A tool that names more subjects of everyday services does not do them all.
const MOST_SUBJECTS: usize = 6;
/// A word that stands so often, and makes up such a part of a short text, is repeated for its own
/// sake.
const LEAST_REPEATS: usize = 9;
const REPEATED_SHARE: f64 = 0.2;
/// The longest text whose words are counted, in words.
const MOST_COUNTED: usize = 400;
/// Fewer words without a sentence are a short description.
const LEAST_BARE: usize = 14;
/// Fewer search terms are a hint.
const LEAST_TERMS: usize = 8;
/// As many tags of praise praise the tool.
const LEAST_PRAISING: usize = 2;

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

/// Labels that praise rather than tell a subject, in folded text.
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

/// Looks at the shape of a tool's texts.
pub(super) fn check(tool: &Tool, texts: &[Text<'_>], found: &mut Vec<Found>) {
    for (pointer, count, most) in [
        ("/aliases", tool.aliases.len(), MOST_ALIASES),
        ("/tags", tool.tags.len(), MOST_TAGS),
    ] {
        if count > most {
            let message = format!("{count} are more than a tool has names and subjects for");
            found.push(Found {
                message,
                ..Found::new(&KEYWORD_STUFFING, pointer, "")
            });
        }
    }
    let labels = texts.iter().filter(|text| text.kind == Kind::Label);
    let praising: Vec<&str> = labels
        .filter(|label| PRAISING.contains(&fold(label.text).replace(['-', '_'], " ").trim()))
        .map(|label| label.text)
        .collect();
    if praising.len() >= LEAST_PRAISING {
        found.push(Found::new(&PROMOTES_ITSELF, "/tags", &praising.join(", ")));
    }
    for text in texts {
        long(text, found);
        stuffed(text, found);
    }
    let subjects: BTreeSet<usize> = texts
        .iter()
        .filter(|text| matches!(text.kind, Kind::Title | Kind::Label))
        .flat_map(|text| {
            SUBJECTS
                .matches(&fold(bounded(text.text)))
                .into_iter()
                .collect::<Vec<_>>()
        })
        .collect();
    if subjects.len() > MOST_SUBJECTS {
        let message = format!(
            "the title, aliases and tags name {} unlike subjects",
            subjects.len()
        );
        found.push(Found {
            message,
            ..Found::new(&KEYWORD_STUFFING, "/tags", &tool.tags.join(", "))
        });
    }
}

fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(1 << 16)]
}

fn long(text: &Text<'_>, found: &mut Vec<Found>) {
    let most = match text.kind {
        Kind::Description | Kind::Parameter | Kind::Value => MOST_CHARS,
        _ => MOST_LABEL_CHARS,
    };
    // A character has a byte at least.
    let chars = if text.text.len() > most {
        text.text.chars().count()
    } else {
        0
    };
    if chars > most {
        let message = format!("the text has {chars} characters, more than {most}");
        found.push(Found {
            message,
            ..Found::new(&LONG_TEXT, &text.pointer, text.text)
        });
    }
}

fn stuffed(text: &Text<'_>, found: &mut Vec<Found>) {
    let (what, least) = match text.kind {
        Kind::Title => ("title", MOST_TITLE_PARTS),
        Kind::Description | Kind::Parameter => ("text", usize::MAX),
        _ => return,
    };
    let folded = fold(bounded(text.text));
    let parts = folded
        .split(['|', '•', '/', ',', '·', ';'])
        .filter(|part| !part.trim().is_empty())
        .count();
    // A parameter may list what it takes.
    let is_parameter = text.kind == Kind::Parameter;
    let has_subjects = !is_parameter && folded.len() < 2_000;
    let subjects = if has_subjects {
        SUBJECTS.matches(&folded).iter().count()
    } else {
        0
    };
    let repeated = || {
        if is_parameter {
            None
        } else {
            repeated(&folded)
        }
    };
    let message = if parts > least {
        format!("the {what} is a list of {parts} parts")
    } else if let Some(count) = bare_words(text, &folded) {
        format!("the {what} is a row of {count} words and no sentence")
    } else if let Some(parts) = search_terms(&folded) {
        format!("the {what} lists {parts} search terms")
    } else if subjects > MOST_SUBJECTS {
        format!("the {what} names {subjects} unlike subjects")
    } else if let Some((word, count)) = repeated() {
        format!(
            "the {what} has the word {:?} {count} times",
            super::shown(&word)
        )
    } else {
        return;
    };
    if found
        .iter()
        .all(|other| other.rule != &KEYWORD_STUFFING || other.pointer != text.pointer)
    {
        found.push(Found {
            message,
            ..Found::new(&KEYWORD_STUFFING, &text.pointer, text.text)
        });
    }
}

/// How many words stand in a row without one that binds them and without a mark.
fn bare_words(text: &Text<'_>, folded: &str) -> Option<usize> {
    if text.kind != Kind::Description
        || !folded
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b' ')
    {
        return None;
    }
    let count = words(folded).count();
    let binds = |word: &str| {
        is_function_word(word)
            || matches!(
                word,
                "a" | "an" | "of" | "in" | "to" | "by" | "on" | "or" | "as" | "is" | "its" | "at"
            )
    };
    (count >= LEAST_BARE && !words(folded).any(binds)).then_some(count)
}

/// How many terms stand behind `keywords:` and the like, where they are many.
fn search_terms(folded: &str) -> Option<usize> {
    static TERMS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:keywords?|seo|search terms|related (?:searches|terms|queries)|related|see also|hashtags|synonyms|also (?:found|known|searched) (?:as|for|by|under)|schlagworter|mots[- ]cles|palabras clave|关键词)(?: [a-z]+)? ?[:：]")
            .expect("a test compiles it")
    });
    let end = TERMS.find(folded)?.end();
    let parts = folded[end..]
        .split([',', '|', ';', '、', '，', '/'])
        .filter(|part| !part.trim().is_empty())
        .count();
    (parts >= LEAST_TERMS).then_some(parts)
}

/// A word that a short text repeats for its own sake. In scripts without blanks pairs of characters
/// stand for words.
fn repeated(folded: &str) -> Option<(String, usize)> {
    let mut counts: HashMap<Cow<'_, str>, usize> = HashMap::new();
    let mut total = 0;
    for word in words(folded).take(MOST_COUNTED + 1) {
        if word.is_ascii() {
            total += 1;
            if word.len() > 2
                && word.bytes().all(|byte| byte.is_ascii_alphabetic())
                && !is_function_word(word)
            {
                *counts.entry(word.into()).or_default() += 1;
            }
        } else if word.chars().next().is_some_and(|c| c >= '\u{2e80}') {
            let chars: Vec<char> = word.chars().take(MOST_COUNTED).collect();
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
    if total > MOST_COUNTED {
        return None;
    }
    counts
        .into_iter()
        .filter(|(_, count)| {
            *count >= LEAST_REPEATS
                && *count as f64
                    >= REPEATED_SHARE * f64::from(u32::try_from(total).unwrap_or(u32::MAX))
        })
        .max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))
        .map(|(word, count)| (word.into_owned(), count))
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
