"""The kernel that calls the roles, and the function that launches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from schedgen.codegen.architecture import Architecture
from schedgen.codegen.dtypes import scalar_type
from schedgen.codegen.events import Silent
from schedgen.codegen.facts import COUNTER
from schedgen.codegen.following import Following
from schedgen.codegen.frame import Frame
from schedgen.codegen.ir import Function, code
from schedgen.codegen.lists import Lists
from schedgen.codegen.merging import Call, merged
from schedgen.codegen.plan import View
from schedgen.codegen.roles import RING_POINTER, Role
from schedgen.codegen.sharing import Shared, as_variable, shared, view_at, write
from schedgen.codegen.source import Source
from schedgen.codegen.steps import Barriers
from schedgen.codegen.style import PLAIN, Style
from schedgen.codegen.taking_turns import Turns
from schedgen.codegen.tiles import TEAM, Tiles
from schedgen.codegen.transfers import Transfers
from schedgen.elements import whole_scalars
from schedgen.extents import covered
from schedgen.program.claims import RING
from schedgen.roles import RoleKind
from schedgen.walking import counted


class Harness:
    """All functions of a generated file beside those of its library."""

    def __init__(self, architecture: Architecture, events: Silent, style: Style = PLAIN) -> None:
        self.architecture, self.plan, self.style = architecture, architecture.plan, style
        self.transfers = Transfers(self.plan)
        self.tiles, self.lists = Tiles(self.plan), Lists(self.plan)
        self.turns, self.following = Turns(self.plan, self.tiles), Following(self.plan)
        self.barriers, self.events = Barriers(self.plan, prompt=style.prompt), events
        self.frame = Frame(architecture, self.barriers)
        self.roles = [
            Role(self.frame, self.transfers, self.tiles, events, role, style)
            for role in self.plan.program.roles
        ]

    def emit(self, source: Source) -> None:
        """Operations, roles, the kernel, ``launch``."""
        self.plan.check_words(self.architecture.words())
        parameters = self._parameters()
        kernel = Source()
        scope = parameters | self._variables(kernel)
        roles, calls = merged([role.body(scope) for role in self.roles], self._function)
        branches = self._branches(calls, {role.name: role for role in roles}, {*scope})
        called_so = {branch.call.function for branch in branches if branch.call}
        roles = [as_variable(role) if role.name in called_so else role for role in roles]
        self._dispatch(kernel, calls, branches)
        self.frame.teardown(kernel)
        self.architecture.threads.functions(source)
        for role in roles:
            source.put(role)
            source.add("", "")
        source.put(Function("@cute.kernel", "kernel", tuple(parameters.items()), kernel.nodes))
        source.add("", "")
        self._launch(source, list(parameters))

    def _function(self, name: str, roles: Sequence[str]) -> str:
        """The function of several roles."""
        return self.plan.names.of("roles", " ".join(roles), base=name)

    # -- device --------------------------------------------------------------------------------

    def _parameters(self) -> dict[str, str]:
        """Parameters of the kernel and their types."""
        found: dict[str, str] = {}
        for map_ in self.transfers.distinct:
            found[f"tma_{map_.name}"] = "cute.CopyAtom"
            found[f"g_{map_.name}"] = "cute.Tensor"
            if map_.folded:
                found[map_.pitch.text] = "Int32"
        found |= dict.fromkeys(self.events.arguments, "cute.Tensor")
        found |= {COUNTER.name: "cute.Tensor"} if self.plan.claims else {}
        found |= {f"of_{a.name}": "cute.Tensor" for a in self.plan.elements.values()}
        found |= dict.fromkeys(self.tiles.ragged.tensors(), "cute.Tensor")
        found |= dict.fromkeys(self.tiles.walks.tensors(), "cute.Tensor")
        words = self.turns.tensors() | self.following.tensors()
        found |= dict.fromkeys(self.lists.tensors() | words, "cute.Tensor")
        found |= {name: self.plan.type_of(name) for name in self.plan.scalars}
        found |= {e: "Int32" for e in self.plan.extents if e not in self.plan.ragged}
        found |= dict.fromkeys(self.tiles.ragged.most(), "Int32")
        return found | self.tiles.parameters()

    def _variables(self, source: Source) -> dict[str, str]:
        """Writes the beginning of the kernel; returns variables that roles use, and their types."""
        source.add(
            "warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())",
            "shared = cute.arch.get_dyn_smem(cutlass.Uint8, alignment=1024)",
        )
        self.architecture.shared_memory(source)
        source.add("barriers = cute.recast_ptr(shared, dtype=cutlass.Int64)")
        found = self.barriers.declare(source)
        found |= self.architecture.declare_words(source)

        def beside() -> None:
            self._prefetch(source)
            found.update(self.tiles.first(source))

        self.frame.setup(source, beside)
        self.tiles.counted(source)
        for view in {view.name: view for view in self.plan.views.values()}.values():
            source.add(code(f"{view.name} = {{}}", view_at(view, f"shared + {view.address}")))
            found[view.name] = "cute.Tensor"
        if self.plan.claims:
            at = self.plan.program.allocation[RING].address
            numbers = f"cute.recast_ptr(shared + {at}, dtype=Int32)"
            source.add(f"{RING_POINTER} = {numbers}")
            found[RING_POINTER] = "cute.Pointer"
        return found

    def _prefetch(self, source: Source) -> None:
        """Warps fetch the descriptors of their copies while another one makes the barriers."""
        fetched: set[str] = set()
        for role in self.roles:
            maps = self.transfers.of_role(role.role.name)
            names = [map_.name for map_ in maps if map_.name not in fetched]
            if names:
                with source.block(f"if warp == {self.plan.first_warp[role.role.name]}:"):
                    source.add(*(f"cpasync.prefetch_descriptor(tma_{name})" for name in names))
            fetched.update(names)

    def _branches(
        self, calls: dict[str, Call], functions: dict[str, Function], taken: set[str]
    ) -> list[Branch]:
        """One for each warpgroup, whose warps change their registers together; one for several, if
        their roles are equal and the style says so.
        """
        first = self.plan.first_warp
        groups = [
            [role for role in self.roles if first[role.role.name] // 4 == group]
            for group in range(self.plan.warps // 4)
        ]
        found: list[Branch] = []
        while groups:
            team = list(takewhile(partial(_like, groups[0]), groups)) if self.style.shared else []
            roles = [role for group in team for role in group]
            given = [calls[role.name] for role in roles]
            call = shared(given, functions, self._made, {*taken, "warp", "shared", "barriers"})
            found.append(Branch(groups[0]) if call is None else Branch(roles, call))
            del groups[: found[-1].warps // 4]
        return found

    @property
    def _made(self) -> dict[str, View | int]:
        """Variables of the kernel by what they are made of."""
        words = {self.barriers.name(n): word for n, word in self.plan.mbarriers.items()}
        return {**words, **{view.name: view for view in self.plan.views.values()}}

    def _dispatch(self, source: Source, calls: dict[str, Call], branches: Sequence[Branch]) -> None:
        begin = 0
        for number, branch in enumerate(branches):
            end = begin + branch.warps
            head = f"{'elif' if number else 'if'} warp < {end}:"
            last = number and number == len(branches) - 1
            with source.block("else:" if last else head):
                self.frame.enter(source, branch.roles[0].role)
                if branch.call is None:
                    self._calls(source, branch.roles, calls)
                else:
                    write(source, branch.call, begin, [role.name for role in branch.roles])
            begin = end

    def _calls(self, source: Source, roles: Sequence[Role], calls: dict[str, Call]) -> None:
        """Each role of a warpgroup by itself."""
        for role in roles:
            call = calls[role.name]
            if role.role.kind is RoleKind.WARPGROUP:
                self.frame.grant(source, role.role)
                source.call(call.function, [self._given(role, name) for name in call.arguments])
                continue
            with source.block(f"if warp == {self.plan.first_warp[role.role.name]}:"):
                self.frame.grant(source, role.role)
                source.call(call.function, call.arguments)

    def _given(self, role: Role, argument: str) -> str:
        """What a role is called with: which of its teams a warp is in, for that variable."""
        first = self.plan.first_warp[role.role.name] // 4
        return argument if argument != TEAM else f"warp // 4 - {first}" if first else "warp // 4"

    # -- host ----------------------------------------------------------------------------------

    def _launch(self, source: Source, parameters: list[str]) -> None:
        tensors = [argument for argument in self.plan.kernel.arguments if argument.shape]
        given = [(tensor.name, "cute.Tensor") for tensor in tensors]
        given += [(COUNTER.name, "cute.Tensor")] if self.plan.claims else []
        scalars = [argument for argument in self.plan.kernel.arguments if not argument.shape]
        given += [(scalar.name, scalar_type(scalar.dtype)) for scalar in scalars]
        given += [("sms", "cutlass.Constexpr"), ("stream", "cuda.CUstream")]
        here = {extent: f"n_{extent}" for extent in self.plan.extents}  # tensors may have the name
        body = Source()
        for map_ in self.transfers.distinct:
            self.transfers.make(body, map_)
        for extent in self.plan.passed:
            where = next(tensor for tensor in tensors if extent in tensor.passed)
            shape = f"{where.name}.shape[{where.passed.index(extent)}]"
            body.add(f"n_{extent} = Int32({shape})")
        self.tiles.ragged.host(body, {tensor.name: tensor.passed for tensor in tensors})
        self.tiles.host(body, here)
        self._refuse(body, here)
        here |= {f"of_{a.name}": a.name for a in self.plan.elements.values()}
        here |= self.tiles.ragged.tensors() | self.tiles.walks.tensors()
        here |= self.lists.tensors() | self.turns.tensors() | self.following.tensors()
        here |= {name: f"n_{extent}" for name, extent in self.tiles.ragged.most().items()}
        here |= {name: f"Int32({name})" for name in whole_scalars(self.plan.kernel)}
        body.call("kernel", [here.get(name, name) for name in parameters], end=".launch(")
        body.add(
            f"    grid=[{self.tiles.blocks}, 1, 1],",
            f"    block=[{32 * self.plan.warps}, 1, 1],",
            f"    smem={self.plan.shared_bytes},",
            "    min_blocks_per_mp=1,",
            "    use_pdl=True,",
            "    stream=stream,",
            ")",
        )
        source.put(Function("@cute.jit", "launch", tuple(given), body.nodes))

    def _refuse(self, source: Source, host: dict[str, str]) -> None:
        """Tensors that are larger than what the kernel covers: no tiles, with which no launch
        succeeds, and the reason. A host function of the DSL cannot raise an error itself.
        """
        kernel = self.plan.kernel
        self.tiles.ragged.refuse(source, kernel.name)
        self.lists.refuse(source, kernel.name)
        for map_ in {m.argument.name: m for m in self.transfers.distinct if m.folded}.values():
            name = map_.argument.name
            self.tiles.ragged.refuse_pitch(source, kernel.name, name, map_.folds)
        self.tiles.walks.refuse(source, host)
        self.turns.refuse(source, host)
        cut = {axis.extent: axis.block for axis in kernel.grid}
        for extent, (along, size, unit) in counted(kernel).items():
            count = f"cute.ceil_div({host[along]}, {size})"
            count = f"{unit} * {count}" if unit > 1 else count
            with source.block(f"if {host[extent]} != {count}:"):
                what = "output tiles" if cut.get(along) == size else f"blocks of {size}"
                what = f"{unit} for each of the {what}" if unit > 1 else what
                text = f"{kernel.name}: {extent} is {{}}, but there are {{}} {what} along "
                text += f"{along}; not launched"
                source.call("cute.printf", [f'"{text}"', host[extent], count])
                source.add("tiles = Int32(0)")
        for extent, most in covered(kernel).items():
            with source.block(f"if {host[extent]} > {most}:"):
                text = f"{kernel.name}: {extent} is {{}}, at most {most} is covered; not launched"
                source.call("cute.printf", [f'"{text}"', host[extent]])
                source.add("tiles = Int32(0)")


@dataclass(frozen=True, slots=True)
class Branch:
    """Roles of one warpgroup, or equal ones of several, which have one call."""

    roles: list[Role]
    call: Shared | None = None

    @property
    def warps(self) -> int:
        teams = self.roles[0].role.teams if self.roles else 1
        return 4 * teams if self.call is None else 4 * len(self.roles)


def _like(one: Sequence[Role], other: Sequence[Role]) -> bool:
    """Whether warpgroups may have one branch: a role each, which takes the same registers and
    grants nothing.
    """
    if len(one) > 1 or len(other) > 1:
        return False
    mine, its = one[0].role, other[0].role
    alike = mine.kind is its.kind is RoleKind.WARPGROUP and mine.budgets == its.budgets
    return alike and mine.teams == its.teams == 1 and not (mine.grants or its.grants)
