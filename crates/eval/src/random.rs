//! Seeded random numbers that are equal on every platform.

/// The SplitMix64 generator of Steele, Lea and Flood, *Fast splittable pseudorandom number
/// generators*, OOPSLA 2014, with the constants of Vigna's public-domain `splitmix64.c`. It is good
/// enough for coin tosses and samples. It is our own code so that an update of a dependency changes
/// no figure.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts from a seed; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns one of `0..bound`; all are equally likely up to a part in 2^64.
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let scaled = (u128::from(self.next_u64()) * bound as u128) >> 64;
        match usize::try_from(scaled) {
            Ok(number) if number < bound => number,
            _ => panic!("there is a number below the bound"),
        }
    }

    /// Returns `count` of `0..all` in order, or all of them if there are fewer. Every choice is
    /// equally likely.
    pub fn sample(&mut self, all: usize, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..all).collect();
        let count = count.min(all);
        for index in 0..count {
            let other = index + self.below(all - index);
            numbers.swap(index, other);
        }
        numbers.truncate(count);
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_is_splitmix64() {
        let mut random = SplitMix64::new(1_234_567);
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(
            [random.next_u64(), random.next_u64(), random.next_u64()],
            published
        );
    }

    #[test]
    fn sample_is_fair_and_in_order() {
        let mut random = SplitMix64::new(7);
        let mut drawn = [0; 5];
        for _ in 0..10_000 {
            let sample = random.sample(5, 2);
            assert!(sample.len() == 2 && sample[0] < sample[1], "{sample:?}");
            sample.into_iter().for_each(|number| drawn[number] += 1);
        }
        assert!(
            drawn.iter().all(|times| (3_800..4_200).contains(times)),
            "{drawn:?}"
        );
        assert_eq!(
            (random.sample(3, 9), random.sample(0, 2)),
            (vec![0, 1, 2], vec![])
        );
    }
}
