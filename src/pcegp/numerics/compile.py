"""Compilation of loops, and what they need beyond Numba: calls by address, atomics.

Addresses are passed as numbers and not bound into the code, so that the code can be cached
on disk.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

# Sums may be reordered so that they vectorise; NaN and inf keep their meaning.
_FLAGS = {"contract", "reassoc", "nsz"}
_OPTIONS: dict[str, Any] = {"fastmath": _FLAGS, "error_model": "numpy", "boundscheck": False}


def cached(compile_: Callable[..., Any], function: Callable[..., Any]) -> Any:
    """Compile, with the machine code cached on disk: beside the source, or else for the user.

    Where there is no file to put it beside, or no place to write, it is compiled anew in
    every process.
    """
    try:
        return compile_(cache=True)(function)
    except RuntimeError:
        return compile_(cache=False)(function)


def loop(function: Callable[..., Any]) -> Any:
    """Compile a function that runs without the interpreter's lock."""
    return cached(partial(njit, nogil=True, **_OPTIONS), function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a part of a loop.

    It is inlined by Numba, not left to the linker: code from the disk then has the bits
    of code compiled just now.
    """
    return njit(inline="always", **_OPTIONS)(function)


@intrinsic
def multiply_add(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c in one instruction, also where the product stands in two sums."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        real = ir.DoubleType()
        function = builder.module.declare_intrinsic(
            "llvm.fmuladd", [real], ir.FunctionType(real, [real] * 3)
        )
        return builder.call(function, args, fastmath=tuple(sorted(_FLAGS)))

    return types.float64(types.float64, types.float64, types.float64), codegen


@intrinsic
def call_kernel(typingctx: Any, address: Any, D: Any, n: Any, shape: Any, value: Any,
                slope: Any, shape_slope: Any) -> Any:
    """Call the compiled covariance function at `address` on contiguous rows."""
    row = types.Array(types.float64, 1, "C")
    signature = types.void(types.uint64, row, types.intp, types.float64, row, row, row)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def data(k: int) -> Any:
            return context.make_array(signature.args[k])(context, builder, args[k]).data

        pointer, size, real = ir.DoubleType().as_pointer(), ir.IntType(64), ir.DoubleType()
        function = ir.FunctionType(ir.VoidType(), [pointer, size, real] + [pointer] * 3)
        target = builder.inttoptr(args[0], function.as_pointer())
        builder.call(target, [data(1), args[2], args[3], data(4), data(5), data(6)])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def call_fortran(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Call the Fortran subroutine at `address` with a tuple of arguments.

    A uint64 is passed as the address it is, everything else by reference. Integers take
    64 bits in memory; a library with 32-bit integers reads their lower half.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        pointers = []
        for k, kind in enumerate(signature.args[1].types):
            value = builder.extract_value(args[1], k)
            if kind == types.uint64:
                pointers.append(builder.inttoptr(value, byte))
            else:
                slot = cgutils.alloca_once_value(builder, value)
                pointers.append(builder.bitcast(slot, byte))
        function = ir.FunctionType(ir.VoidType(), [byte] * len(pointers))
        builder.call(builder.inttoptr(args[0], function.as_pointer()), pointers)
        return context.get_dummy_value()

    return types.void(types.uint64, arguments), codegen


def _item(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Pointer to args[0][args[1]]."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@intrinsic
def claim(typingctx: Any, counters: Any, index: Any) -> Any:
    """counters[index], which is then one more; no two threads get the same number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _item(context, builder, signature, args)
        return builder.atomic_rmw("add", pointer, ir.IntType(64)(1), "seq_cst")

    return types.int64(types.Array(types.int64, 1, "C"), types.intp), codegen


@intrinsic
def read(typingctx: Any, counters: Any, index: Any) -> Any:
    """counters[index], with all that was written before it was published."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _item(context, builder, signature, args)
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(types.Array(types.int64, 1, "C"), types.intp), codegen


@intrinsic
def publish(typingctx: Any, counters: Any, index: Any, value: Any) -> Any:
    """Set counters[index] once all that was written before can be read."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _item(context, builder, signature, args)
        builder.store_atomic(args[2], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(types.Array(types.int64, 1, "C"), types.intp, types.int64), codegen
