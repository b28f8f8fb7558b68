//! The encoding of numbers in bytes: little-endian, with a checksum, behind a bounded reader.
//!
//! Sections of a saved index and rows of a store are encoded with it. The bytes may be damaged or
//! hostile, so a reader takes nothing that is not there.

use twox_hash::XxHash3_64;

/// Bytes that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DamagedBytes(String);

impl DamagedBytes {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    fn truncated() -> Self {
        Self::new("the bytes are truncated")
    }
}

/// An element type of encoded arrays.
pub(crate) trait Number: bytemuck::Pod {
    /// Converts between native and little-endian byte order.
    fn little_endian(self) -> Self;
}

impl Number for u8 {
    fn little_endian(self) -> Self {
        self
    }
}

impl Number for i8 {
    fn little_endian(self) -> Self {
        self
    }
}

impl<const N: usize> Number for [u8; N]
where
    Self: bytemuck::Pod,
{
    fn little_endian(self) -> Self {
        self
    }
}

impl Number for u16 {
    fn little_endian(self) -> Self {
        self.to_le()
    }
}

impl Number for u32 {
    fn little_endian(self) -> Self {
        self.to_le()
    }
}

impl Number for u64 {
    fn little_endian(self) -> Self {
        self.to_le()
    }
}

impl Number for f32 {
    fn little_endian(self) -> Self {
        Self::from_bits(self.to_bits().to_le())
    }
}

/// Computes the checksum of bytes. It detects damage, not intent.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Appends the checksum of the bytes.
pub(crate) fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Appends a number.
pub(crate) fn put_number<T: Number>(out: &mut Vec<u8>, number: T) {
    out.extend_from_slice(bytemuck::bytes_of(&number.little_endian()));
}

/// Appends numbers.
pub(crate) fn put_numbers<T: Number>(out: &mut Vec<u8>, numbers: &[T]) {
    if cfg!(target_endian = "little") {
        out.extend_from_slice(bytemuck::cast_slice(numbers));
    } else {
        for &number in numbers {
            put_number(out, number);
        }
    }
}

/// Appends a number of items.
pub(crate) fn put_length(out: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("a row holds fewer than 2^32 of anything");
    put_number(out, length);
}

/// A reader that takes bytes from the front.
pub(crate) struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// Starts to read bytes without a checksum.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Verifies the checksum of [`seal`], and starts to read the bytes before it.
    pub(crate) fn verify(bytes: &'a [u8]) -> Result<Self, DamagedBytes> {
        let (bytes, sum) = bytes
            .split_last_chunk::<8>()
            .ok_or_else(DamagedBytes::truncated)?;
        if checksum(bytes) != u64::from_le_bytes(*sum) {
            return Err(DamagedBytes::new("wrong checksum"));
        }
        Ok(Self(bytes))
    }

    /// Takes a number of bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], DamagedBytes> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(DamagedBytes::truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads one number.
    pub(crate) fn number<T: Number>(&mut self) -> Result<T, DamagedBytes> {
        let bytes = self.take(size_of::<T>())?;
        Ok(bytemuck::pod_read_unaligned::<T>(bytes).little_endian())
    }

    /// Reads `count` numbers.
    pub(crate) fn numbers<T: Number>(&mut self, count: usize) -> Result<Vec<T>, DamagedBytes> {
        let length = count.checked_mul(size_of::<T>());
        let bytes = self.take(length.ok_or_else(DamagedBytes::truncated)?)?;
        let mut numbers = vec![T::zeroed(); count];
        bytemuck::cast_slice_mut::<T, u8>(&mut numbers).copy_from_slice(bytes);
        if cfg!(target_endian = "big") {
            for number in &mut numbers {
                *number = number.little_endian();
            }
        }
        Ok(numbers)
    }

    /// Reads a number of items that take at least `bytes_each` bytes each.
    pub(crate) fn length(&mut self, bytes_each: usize) -> Result<usize, DamagedBytes> {
        let length = self.number::<u32>()? as usize;
        let fits = length
            .checked_mul(bytes_each)
            .is_some_and(|bytes| bytes <= self.0.len());
        fits.then_some(length).ok_or_else(DamagedBytes::truncated)
    }

    /// Ends the reading; an error if bytes are left.
    pub(crate) fn end(self) -> Result<(), DamagedBytes> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(DamagedBytes::new("trailing bytes"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        put_length(&mut bytes, 2);
        put_numbers(&mut bytes, &[-1.5_f32, 0.25]);
        put_number(&mut bytes, [7_u8; 16]);
        put_number(&mut bytes, 0x0102_0304_0506_0708_u64);
        let sealed = seal(bytes);
        assert_eq!(sealed[..4], [2, 0, 0, 0]);
        let mut reader = ByteReader::verify(&sealed).expect("intact");
        let count = reader.length(size_of::<f32>()).expect("it fits");
        assert_eq!(reader.numbers::<f32>(count), Ok(vec![-1.5, 0.25]));
        assert_eq!(reader.number::<[u8; 16]>(), Ok([7; 16]));
        assert_eq!(reader.number::<u64>(), Ok(0x0102_0304_0506_0708));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn damaged_bytes_are_refused_and_not_read_past_their_end() {
        let sealed = seal(vec![0xff; 12]);
        for length in 0..sealed.len() {
            assert!(ByteReader::verify(&sealed[..length]).is_err(), "{length}");
        }
        let reader = || ByteReader::verify(&sealed).expect("intact");
        assert!(reader().length(1).is_err(), "more items than bytes");
        assert!(reader().numbers::<u64>(2).is_err());
        assert!(reader().numbers::<u64>(usize::MAX).is_err());
        assert!(reader().take(13).is_err());
        assert!(reader().end().is_err(), "bytes are left");
    }
}
