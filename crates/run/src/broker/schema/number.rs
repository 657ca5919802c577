//! Compares JSON numbers of any length without computing them.

use std::cmp::Ordering;

use serde_json::Number;

/// `± 0.digits × 10^exponent`; zero has no digits, and the last digit is not `0`.
pub(super) struct Decimal {
    pub(super) is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    pub(super) fn new(number: &Number) -> Self {
        let text = number.as_str();
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = match text.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, parsed_power(power)),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit).collect();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        let exponent = power.saturating_add(length(whole.len()).saturating_sub(length(leading)));
        digits.drain(..leading);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        Self { is_negative: is_negative && !digits.is_empty(), digits, exponent }
    }

    /// True if only zeros stand behind the point.
    pub(super) fn is_whole(&self) -> bool {
        self.digits.is_empty() || self.exponent >= length(self.digits.len())
    }

    pub(super) fn is_positive(&self) -> bool {
        !self.is_negative && !self.digits.is_empty()
    }

    fn magnitude(&self) -> Option<(i64, &[u8])> {
        (!self.digits.is_empty()).then_some((self.exponent, self.digits.as_slice()))
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.magnitude().cmp(&other.magnitude()),
            (true, true) => other.magnitude().cmp(&self.magnitude()),
        }
    }

    /// True if this is a multiple of `step`. Steps of more than 18 digits are not checked and always match.
    pub(super) fn is_multiple_of(&self, step: &Self) -> bool {
        let number = |digits: &[u8]| digits.iter().fold(0_u128, |number, d| number * 10 + u128::from(d - b'0'));
        if self.digits.is_empty() || step.digits.is_empty() || step.digits.len() > 18 {
            return true;
        }
        let step_number = number(&step.digits);
        let last = |decimal: &Self| decimal.exponent.saturating_sub(length(decimal.digits.len()));
        let mut zeros = last(self).saturating_sub(last(step));
        // The last digit of the number is below that of the step; the number does not end in zero, the multiple would.
        if zeros < 0 {
            return false;
        }
        let mut rest = self.digits.iter().fold(0, |rest, digit| (rest * 10 + u128::from(digit - b'0')) % step_number);
        let mut power = 10 % step_number;
        while zeros > 0 {
            if zeros % 2 == 1 {
                rest = rest * power % step_number;
            }
            power = power * power % step_number;
            zeros /= 2;
        }
        rest == 0
    }
}

fn length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Saturates exponents beyond 64 bits.
fn parsed_power(power: &str) -> i64 {
    let far = if power.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
    power.trim_start_matches('+').parse().unwrap_or(far).clamp(i64::MIN / 2, i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        let number: Result<Number, _> = serde_json::from_str(text);
        Decimal::new(&number.expect(text))
    }

    #[test]
    fn numbers_of_any_length_are_ordered() {
        let rising = [
            "-1e999999999999999999999", "-1e400", "-10", "-9.99", "-1e-3", "0", "1e-400", "0.1", "0.11", "1", "1.5",
            "9", "10", "99999999999999999999", "100000000000000000000", "1e20000",
        ];
        for (at, low) in rising.iter().enumerate() {
            for high in &rising[at + 1..] {
                assert_eq!(decimal(low).compare(&decimal(high)), Ordering::Less, "{low} < {high}");
            }
        }
        for (a, b) in [("1", "1.0"), ("100", "1e2"), ("0", "-0.0"), ("0.1", "10e-2"), ("0e5", "0")] {
            assert_eq!(decimal(a).compare(&decimal(b)), Ordering::Equal, "{a} = {b}");
        }
    }

    #[test]
    fn multiples_are_exact() {
        for (number, step, is) in [
            ("0.3", "0.1", true),
            ("0.35", "0.1", false),
            ("7", "2", false),
            ("8", "2", true),
            ("-9", "3", true),
            ("1e300", "3", false),
            ("3e999999999", "7", false),
            ("0", "5", true),
            ("10", "4", false),
            ("20", "4", true),
            ("1", "10", false),
            ("100", "10", true),
            ("4.5", "1.5", true),
            ("1e-5", "1", false),
        ] {
            assert_eq!(decimal(number).is_multiple_of(&decimal(step)), is, "{number} of {step}");
        }
    }
}
