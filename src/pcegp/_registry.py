"""Parts by name, such as covariance functions: what a string in a parameter stands for."""

from typing import Protocol, TypeVar

from pcegp.errors import SettingError


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Part = TypeVar("Part", bound=_Named)


class Registry(dict[str, Part]):
    """The known parts of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def register(self, part: Part) -> Part:
        """Make a part known by its name; a known name is refused."""
        if part.name in self:
            raise SettingError(
                f"a {self._kind} named {part.name!r} exists already: choose another name"
            )
        self[part.name] = part
        return part
