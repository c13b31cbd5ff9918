"""The arithmetic that decides trees, defined so that every backend rounds alike.

Decisions use +, −, ×, ÷ and √ (which IEEE 754 rounds correctly everywhere), integer work, and one polynomial logarithm. The
constants that every backend reads are here.
"""

# log(1 + m) − m + m²/2 over m³ on [√½ − 1, √2 − 1]: the single-precision polynomial of the Cephes library, highest power first.
LOG_POLYNOMIAL = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
LOG_2_HIGH, LOG_2_LOW = 0.693359375, -2.12194440e-4  # their sum is log 2; the first has few bits, so that its multiples are exact
SQRT_HALF_BITS = 0x3F3504F3  # float32 bits of √½
MANTISSA_MASK = 0x007FFFFF

# log(1 + f) of float64 with f in [√½ − 1, √2 − 1], s = f / (2 + f): (log(1 + f) − 2s) / s as a polynomial of s², from the FreeBSD
# library: lowest power first.
DOUBLE_LOG_POLYNOMIAL = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
DOUBLE_LOG_2_HIGH, DOUBLE_LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
DOUBLE_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
DOUBLE_MANTISSA_MASK = 0x000FFFFFFFFFFFFF

# Channels whose variances share one logarithm; a product of three stays far from the largest float32.
CHANNELS_PER_LOG = 3

HASH_FIRST, HASH_SECOND, HASH_MIX = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35
WORD = 0xFFFFFFFF

CUBE_ROOT_BITS = 0x54A21D2A  # this minus bits(t) / 3 are the bits of 1/∛t within 4 %
FOUR_THIRDS, ONE_THIRD = 1.3333333730697632, 0.3333333432674408  # as float32, so that no backend widens them

# exp(r) = 1 + r + r² (…) on [−½ log 2, ½ log 2]: the single-precision polynomial of the Cephes library, highest power first.
EXP_POLYNOMIAL = (1.98756915e-4, 1.39819995e-3, 8.33345191e-3, 4.16657959e-2, 1.66666655e-1, 0.5)
LOG2_E = 1.44269504
STEEPEST = 87.0  # beyond, exp leaves the range of float32
