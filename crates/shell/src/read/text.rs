//! What a file holds: text of some encoding, or something else.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};
use encoding_rs_io::{DecodeReaderBytes, DecodeReaderBytesBuilder};

/// How much of a file tells what it is.
const LOOKED_AT: u64 = 8 << 10;

/// What a file holds.
pub(super) enum Content {
    /// What it is, as far as is known.
    Binary(String),
    /// Text, as UTF-8.
    Text {
        reader: BufReader<DecodeReaderBytes<File, Vec<u8>>>,
        /// Its encoding, where that is not UTF-8.
        encoding: Option<&'static str>,
    },
}

impl Content {
    /// Looks at the beginning of a file.
    pub(super) fn of(mut file: File) -> io::Result<Self> {
        let mut begin = Vec::new();
        file.by_ref().take(LOOKED_AT).read_to_end(&mut begin)?;
        file.rewind()?;
        let marked = Encoding::for_bom(&begin).map(|(encoding, _)| encoding);
        if marked.is_none() {
            let known =
                infer::get(&begin).filter(|kind| kind.matcher_type() != infer::MatcherType::Text);
            if let Some(kind) = known {
                return Ok(Self::Binary(format!(
                    "a file of the type {}",
                    kind.mime_type()
                )));
            }
            if begin.contains(&0) {
                return Ok(Self::Binary("a binary file".to_owned()));
            }
        }
        let encoding = marked.unwrap_or_else(|| guessed(&begin));
        let reader = DecodeReaderBytesBuilder::new()
            .encoding(Some(encoding))
            .bom_override(true)
            .build(file);
        let encoding = (encoding != UTF_8).then(|| encoding.name());
        Ok(Self::Text {
            reader: BufReader::new(reader),
            encoding,
        })
    }
}

/// The encoding of a text without a mark: UTF-8 unless its beginning is none.
fn guessed(begin: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(begin) {
        Ok(_) => UTF_8,
        // A character is cut where the beginning ends.
        Err(error) if error.error_len().is_none() => UTF_8,
        Err(_) => {
            let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
            detector.feed(begin, true);
            detector.guess(None, Utf8Detection::Deny)
        }
    }
}
