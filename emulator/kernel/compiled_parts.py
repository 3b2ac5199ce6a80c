"""Compiled functions that others call: translated once, and made machine code only as a part of their callers.

Numba optimises every function with all that it calls, makes machine code of it, and does both again for each caller:
in a chain of calls the innermost is compiled as often as the chain is long. A part is left as LLVM's intermediate code
until the function that Python calls links it; then all of it is optimised, once. Nobody else calls its parts there: so
the compiler may leave out arguments that are not used, and put a part that is called once into its caller. A call
passes a hundred words and more otherwise, for each array is seven. Numba knows pipelines of one's own
(`pipeline_class`); what a library does when it is linked is its internals.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import gc
from typing import Any

import llvmlite.binding as llvm
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import FindLiterallyCalls, InlineInlinables, LiteralUnroll, WithLifting


class Library(JITCodeLibrary):
    """Code on its way to its callers."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Simplify each function; what is only declared is nothing to simplify."""
        ll_module.data_layout = self._codegen._data_layout  # noqa: SLF001
        manager, builder = self._codegen._function_pass_manager()  # noqa: SLF001
        for function in ll_module.functions:
            if not function.is_declaration:
                manager.run(function, builder)


class _Unlinked(Library):
    """The code of a part, and what it calls."""

    @property
    def codegen(self) -> Any:
        """Numba sets an environment, which only a function that Python calls has."""
        return self

    def set_env(self, _name: str, _env: Any) -> None:
        """A part has none: it neither prints nor calls Python."""

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def get_pointer_to_function(self, _name: str) -> int:
        """It is nowhere."""
        return 0

    def _ensure_finalized(self) -> None:
        """It never is."""

    def _get_module_for_linking(self) -> Any:
        """Its code with all that it calls; a caller takes of it what it does not have yet."""
        if self._shared_module is None:
            module = self._final_module
            for library in dict.fromkeys(self._linking_libraries):
                module.link_in(library._get_module_for_linking(), preserve=True)  # noqa: SLF001
            for function in module.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.linkage = "linkonce_odr"
            self._shared_module = module
        return self._shared_module


class _Linked(Library):
    """The code of a function that Python calls, with all that it calls."""

    def _optimize_final_module(self) -> None:
        """What was linked in is for this function only."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "linkonce_odr":
                function.linkage = "internal"
        super()._optimize_final_module()

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """For the cache: machine code and, in place of the intermediate code, the names in it by which it is called.

        Nobody links a whole function, and reading its intermediate code takes longer than loading its machine code.
        """
        names = [
            function.name
            for function in self._final_module.functions
            if not function.is_declaration and function.linkage.name == "external"
        ]
        stubs = llvm.parse_assembly("".join(f'define void @"{name}"() {{ unreachable }}\n' for name in names))
        return self.name, "object", (self._get_compiled_object(), stubs.as_bitcode())


@register_pass(mutates_CFG=False, analysis_only=False)
class _AsPart(LoweringPass):
    """Before the lowering: where it puts its code."""

    _name = "as_part"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _Unlinked(state.targetctx.codegen(), state.func_id.func_qualname)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _AsWhole(LoweringPass):
    """As `_AsPart`, for a function that Python calls."""

    _name = "as_whole"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _Linked(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return True


_NOTHING_TO_DO = {
    WithLifting,
    InlineInlinables,
    FindLiterallyCalls,
    LiteralUnroll,
    InlineOverloads,
    NopythonRewrites,
}
"""Steps of Numba's for what kernels do not do, such as arithmetic with whole arrays."""


def _passes(compiler: CompilerBase, before_lowering: type[LoweringPass]) -> list[Any]:
    """Numba's usual ones, but for those, and with one before intermediate code is made."""
    manager = DefaultPassBuilder.define_nopython_pipeline(compiler.state)
    passes = PassManager("kernels")
    for step, text in manager.passes:
        if step is NativeLowering:
            passes.add_pass(before_lowering, before_lowering.name())
        if step not in _NOTHING_TO_DO:
            passes.add_pass(step, text)
    passes.finalize()
    return [passes]


class Part(CompilerBase):
    """Numba's usual way, but for the last step."""

    def define_pipelines(self) -> list[Any]:
        return _passes(self, _AsPart)


class Whole(CompilerBase):
    """Numba's usual way for a function that Python calls, with parts."""

    def define_pipelines(self) -> list[Any]:
        return _passes(self, _AsWhole)


def _plain(kind: Any) -> Any:
    """A whole number is one, whether it is known, is a code, comes of a narrow array, or none of these."""
    if isinstance(kind, types.IntegerLiteral | types.IntEnumMember) or kind in types.signed_domain:
        return types.int64
    return kind


class PartDispatcher(CPUDispatcher):
    """A part, compiled once for whole numbers of all widths."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What Numba asks at each call."""
        _, args = self.fold_argument_types(args, kws)
        return super().get_call_template(tuple(map(_plain, args)), {})


class WholeDispatcher(CPUDispatcher):
    """A function that Python calls."""

    def compile(self, sig: Any) -> Any:
        """Without a look for garbage meanwhile, which finds none and takes up to a sixth of the time."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if was_on:
                gc.enable()
