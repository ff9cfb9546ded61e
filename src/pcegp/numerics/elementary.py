"""Exponential and logarithm that the compiler can vectorise.

A call into the C library stops LLVM from vectorising a loop; these two are plain
arithmetic, so eight points are computed at once. Both are for the arguments that
covariance functions produce: ``exp`` for x <= 0, ``log`` for x >= 1.
"""

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_LOG2_E = 1.4426950408889634
# ln 2 in two parts; the first has trailing zero bits, so k * _LN2_HIGH is exact.
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10
# Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits.
_ROUNDING = 6755399441055744.0
_SMALLEST = -708.0  # below it the result would be subnormal: it is 0 to any use here
_MANTISSA_MASK = 0x000FFFFFFFFFFFFF
_ONE_BITS = 0x3FF0000000000000
_SQRT2 = 1.4142135623730951


@intrinsic
def _bits(typingctx: Any, x: Any) -> Any:
    """Reinterpret a float64 as an int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _float(typingctx: Any, bits: Any) -> Any:
    """Reinterpret an int64 as a float64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


# "contract" allows fused multiply-add. Nothing wider: reassociation would cancel the
# rounding constant against itself.
@njit(fastmath={"contract"}, error_model="numpy", inline="never")
def exp(x: float) -> float:
    """e^x for x <= 0, to 1e-15 relative; exactly 1 at 0 and 0 below -708."""
    bounded = max(x, _SMALLEST)
    shifted = bounded * _LOG2_E + _ROUNDING
    k = shifted - _ROUNDING
    r = (bounded - k * _LN2_HIGH) - k * _LN2_LOW
    # 1 + r + r^2 q(r), where q interpolates at Chebyshev points of |r| <= ln(2)/2: 2e-17 off.
    q = 2.510038549551032e-08
    q = q * r + 2.7620088445409746e-07
    q = q * r + 2.7557268459997064e-06
    q = q * r + 2.4801521295954376e-05
    q = q * r + 0.00019841269863053618
    q = q * r + 0.0013888888917213717
    q = q * r + 0.008333333333330062
    q = q * r + 0.04166666666662413
    q = q * r + 0.16666666666666669
    q = q * r + 0.5000000000000001
    p = (q * r) * r + r + 1.0
    power_of_two = _float((_bits(shifted) << 52) + _ONE_BITS)
    return p * power_of_two if x >= _SMALLEST else 0.0


@njit(fastmath={"contract"}, error_model="numpy", inline="never")
def log(x: float) -> float:
    """ln x for finite x >= 1, to 1e-15 relative; exactly 0 at 1."""
    bits = _bits(x)
    exponent = (bits >> 52) - 1023
    mantissa = _float((bits & _MANTISSA_MASK) | _ONE_BITS)
    high = mantissa > _SQRT2
    m = 0.5 * mantissa if high else mantissa
    k = float(exponent + 1) if high else float(exponent)
    # ln m = 2 artanh(s) = 2 s (1 + t p(t)), t = s^2 <= 0.0295; p as in exp: 5e-18 off.
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    p = 0.07308292712444311
    p = p * t + 0.07665855309105386
    p = p * t + 0.09091444727837474
    p = p * t + 0.11111105565129939
    p = p * t + 0.14285714313001635
    p = p * t + 0.19999999999949722
    p = p * t + 0.3333333333333335
    return (k * _LN2_LOW + 2.0 * s * t * p) + (2.0 * s + k * _LN2_HIGH)
