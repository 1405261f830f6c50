"""Tensors on `cuda` whose elements lie in memory of this process.

`CudaTensor` is a tensor with the dispatch keys of CUDA that shares the memory of a plain tensor,
so that its address can be given to a kernel. Operations on it are those of the plain tensor
(docs/adr/0021).
"""

# torch's dispatcher has no types that would say something here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportIncompatibleMethodOverride=false
# pyright: reportIncompatibleVariableOverride=false, reportPrivateUsage=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any, cast

import torch
from torch._library.custom_ops import OPDEFS
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from schedgen.emulator.launch import exchange
from schedgen.emulator.standin import graphs
from schedgen.emulator.standin.memory import GlobalMemory
from schedgen.emulator.standin.scaled import block_scaled, scaled_mm

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")
MEMORY = GlobalMemory()
"""Of the only device; tensors outlive the stand-in that made them."""
_aten = torch.ops.aten


def on_cuda(device: Any) -> bool:
    """Whether `device`, as it is given to torch, is the GPU."""
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    return isinstance(device, (str, torch.device)) and torch.device(device).type == "cuda"


class CudaTensor(torch.Tensor):
    """A tensor on the GPU that is not there.

    Attributes:
        plain: the tensor on the CPU that has the same elements.
    """

    plain: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore

    @staticmethod
    def __new__(cls, plain: torch.Tensor) -> CudaTensor:
        placed = MEMORY.place(plain.detach())
        made = torch.Tensor._make_subclass(  # pyright: ignore
            cls, placed, False, device_for_backend_keys=DEVICE
        )
        made.plain = placed
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return dispatch(func, args, kwargs or {})

    @property
    def device(self) -> torch.device:
        return DEVICE

    @property
    def is_cuda(self) -> bool:
        return True

    @property
    def is_cpu(self) -> bool:
        return False

    def get_device(self) -> int:
        return 0

    def is_pinned(self, device: Any = None) -> bool:
        del device
        return False

    def cpu(self, memory_format: Any = torch.preserve_format) -> torch.Tensor:
        return self.to(CPU, memory_format=memory_format)

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        )

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        return self.plain.tolist()

    def pin_memory(self, device: Any = None) -> Any:
        raise RuntimeError("cannot pin 'torch.cuda' tensors: only dense CPU tensors can be pinned")

    def __dlpack__(self, **options: Any) -> Any:
        return exchange.capsule(self.plain.detach())

    def __dlpack_device__(self) -> tuple[int, int]:
        return exchange.CUDA, 0

    def __deepcopy__(self, memo: Any) -> Any:
        if id(self) not in memo:
            made = self.detach().clone().requires_grad_(self.requires_grad)
            if isinstance(self, torch.nn.Parameter):
                made = torch.nn.Parameter(made, self.requires_grad)
            memo[id(self)] = made
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return CudaTensor, (self.plain,)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        del tensor_contents
        text = repr(self.plain)
        more = f", device='{DEVICE}'" + (", requires_grad=True" if self.requires_grad else "")
        return f"{text[:-1]}{more})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)


def dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What torch calls for an operation that concerns the GPU."""
    own = _own_kernel(func)
    if own is not None:
        return own(*args, **kwargs)
    if func is _aten.record_stream.default:
        return None
    flat, tree = tree_flatten((args, kwargs))
    ours = [one for one in flat if isinstance(one, CudaTensor)]
    named = kwargs.get("device")
    to_cuda = on_cuda(named) if named is not None else bool(ours)
    to_cuda |= func is _aten.new_empty_strided.default and bool(ours)  # autograd, for gradients
    plain_args, plain_kwargs = tree_unflatten([_plain(one) for one in flat], tree)
    if named is not None:
        plain_kwargs["device"] = CPU
    if plain_kwargs.get("pin_memory"):
        plain_kwargs["pin_memory"] = False
    known = {id(one.plain): one for one in ours}
    if func is _aten._scaled_mm.default and block_scaled(plain_args[2]):
        result = scaled_mm(*plain_args, **plain_kwargs)
    else:
        result = graphs.operation(func, plain_args, plain_kwargs, MEMORY.place)
    if torch.Tag.inplace_view in func.tags:
        with no_dispatch():  # the same to the tensor that the program has
            func(*args, **kwargs)
        return args[0]
    if not to_cuda:
        return result
    if func._schema.is_mutable:
        for one in ours:
            _resized(one)
    return tree_map(lambda one: _wrapped(one, known), result)


def _plain(value: Any) -> Any:
    return value.plain if isinstance(value, CudaTensor) else value


def _wrapped(value: Any, known: dict[int, CudaTensor]) -> Any:
    if not isinstance(value, torch.Tensor) or isinstance(value, CudaTensor):
        return value
    found = known.get(id(value))
    return CudaTensor(value) if found is None else found


def _resized(tensor: CudaTensor) -> None:
    """What is given as ``out=`` may get another size, and memory of torch's own for it."""
    plain = tensor.plain
    storage = plain.untyped_storage()
    if not storage.nbytes() or storage.data_ptr() in MEMORY:
        return
    made = CudaTensor(plain)
    with torch.no_grad():
        tensor.data = made
    tensor.plain = made.plain


def _own_kernel(func: Any) -> Any:
    """What a program has registered as the operator's kernel on GPUs, if it has."""
    if func.namespace in ("aten", "prims", "prim"):
        return None
    defined = cast(Any, OPDEFS.get(func._schema.name))
    if defined is None or not defined._backend_fns:
        return None
    return defined._backend_fns.get("cuda") or defined._backend_fns.get(None)
