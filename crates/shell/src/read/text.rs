//! Detection of text, its encoding, and binary files.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};
use encoding_rs_io::{DecodeReaderBytes, DecodeReaderBytesBuilder};

/// The number of bytes at the beginning of a file that are examined.
const SAMPLE_BYTES: u64 = 8 << 10;

/// The content of a file.
pub(super) enum Content {
    /// Binary data, with a description of its type.
    Binary(String),
    /// Text, converted to UTF-8.
    Text {
        reader: BufReader<DecodeReaderBytes<File, Vec<u8>>>,
        /// The encoding of the file, if it is not UTF-8.
        encoding: Option<&'static str>,
    },
}

impl Content {
    /// Detects the content from the beginning of a file.
    pub(super) fn detect(mut file: File) -> io::Result<Self> {
        let mut sample = Vec::new();
        file.by_ref().take(SAMPLE_BYTES).read_to_end(&mut sample)?;
        file.rewind()?;
        let encoding = match Encoding::for_bom(&sample) {
            Some((encoding, _)) => encoding,
            None => {
                if let Some(file_type) = infer::get(&sample)
                    && file_type.matcher_type() != infer::MatcherType::Text
                {
                    let media_type = file_type.mime_type();
                    return Ok(Self::Binary(format!("a file of the type {media_type}")));
                }
                if sample.contains(&0) {
                    return Ok(Self::Binary("a binary file".to_owned()));
                }
                guess_encoding(&sample)
            }
        };
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

/// Returns the encoding of a text without a byte order mark: UTF-8 if the sample is valid UTF-8,
/// else a guess.
fn guess_encoding(sample: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(sample) {
        Ok(_) => UTF_8,
        // The last character of the sample is cut.
        Err(error) if error.error_len().is_none() => UTF_8,
        Err(_) => {
            let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
            detector.feed(sample, true);
            detector.guess(None, Utf8Detection::Deny)
        }
    }
}
