"""Problems: what to compute, as a line of words or built from arrays."""
from __future__ import annotations

from ._errors import check
from ._library import (
    AVGPOOL,
    BACKWARD_AVGPOOL,
    BACKWARD_DATA,
    BACKWARD_FILTER,
    BACKWARD_MAXPOOL,
    FORWARD,
    MAXPOOL,
    OPERATIONS,
    TYPES,
    BudgetStruct,
    ProblemStruct,
    Tensor,
    lib,
    text_of,
)

# operation: (arrays that a call reads, in order; the array that it writes; the tensor of the problem that describes it)
ROLES = {
    FORWARD: (("input", "filter"), "output", "output"),
    BACKWARD_DATA: (("output", "filter"), "input", "input"),
    BACKWARD_FILTER: (("input", "output"), "filter", "filter"),
    MAXPOOL: (("input",), "output", "output"),
    AVGPOOL: (("input",), "output", "output"),
    BACKWARD_MAXPOOL: (("input", "output"), "residual", "input"),
    BACKWARD_AVGPOOL: (("output",), "input", "input"),
}


def _no_limits() -> BudgetStruct:
    budget = BudgetStruct()
    lib.falt_budget_default(budget)
    return budget


class Problem:
    """What to compute, from a problem line; `str` gives the canonical line.

    >>> import faltung
    >>> faltung.Problem("correlate h=9 w=9 r=3 s=3 pad=2")
    Problem('correlate h=9 w=9 r=3 s=3 mode=full')

    Raises InvalidText, InvalidType, InvalidSize or InvalidShape.
    """

    __slots__ = ("struct", "budget")

    def __init__(self, line: str | ProblemStruct, budget: BudgetStruct | None = None):
        if isinstance(line, ProblemStruct):
            self.struct, self.budget = line, budget or _no_limits()
            return
        self.struct, self.budget = ProblemStruct(), budget or _no_limits()
        check(lib.falt_problem_parse(self.struct, self.budget, line.encode()))

    def __str__(self) -> str:
        return text_of(lib.falt_problem_print, self.struct, self.budget)

    def __repr__(self) -> str:
        return f"Problem({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and str(self) == str(other)

    def __hash__(self) -> int:
        return int(lib.falt_problem_hash(self.struct))

    @property
    def operation(self) -> str:
        """"forward" (filters, too), "backward-data", "maxpool", ..."""
        return OPERATIONS[self.struct.operation]

    @property
    def work(self) -> int:
        """Multiply-adds."""
        output, taps = self.struct.output, self.struct.filter
        count: int = taps.size[2] * taps.size[3] * taps.size[4] * taps.size[5]
        for size in output.size:
            count *= size
        return count

    def shape(self, operand: str) -> tuple[int, ...]:
        """The shape of the array that a plan takes for an operand: "input", "filter", "output" or "residual"."""
        return tuple(size for size, _ in self.dims(operand))

    def type(self, operand: str) -> str:
        """The element type of an operand, such as "f32"."""
        return TYPES[getattr(self.struct, operand).type]

    def dims(self, operand: str) -> list[tuple[int, int]]:
        """(size, stride in elements) of each dimension of an operand's array: in the order of memory for layers and
        pools (so NHWC for layout=nhwc); in filters dimensions of one element before the spatial ones are left out."""
        tensor: Tensor = getattr(self.struct, operand)
        size, stride = list(tensor.size), list(tensor.stride)
        dims = [(size[i], abs(stride[i])) for i in range(6 - self.struct.space, 6)]
        layer = not self.struct.is_filter
        if operand == "filter":
            if not layer or self.struct.operation >= MAXPOOL:
                return dims
            out = (size[0] * size[1], _step(size, stride, 0, 1))
            return sorted([out, (size[2], abs(stride[2])), *dims], key=lambda dim: -dim[1])
        batch, channels = (size[0], abs(stride[0])), (size[1] * size[2], _step(size, stride, 2, 1))
        last = channels[0] > 1 and channels[1] < min([s for n, s in dims if n > 1], default=0)
        head = [batch] if layer or batch[0] > 1 else []
        kept = [channels] if layer or channels[0] > 1 else []
        return head + dims + kept if last else head + kept + dims


def _step(size: list[int], stride: list[int], inner: int, outer: int) -> int:
    """The step of two dimensions that are one of an array: the inner one's, unless it has one element."""
    return abs(stride[inner] if size[inner] > 1 else stride[outer])
