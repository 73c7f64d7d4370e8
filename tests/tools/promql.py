# SPDX-License-Identifier: Apache-2.0
"""Evaluates the queries of a dashboard against two scrapes of one program.

It knows the part of PromQL that the dashboards use: selectors, rate() and increase(), sum by (),
histogram_quantile(), and arithmetic of two vectors or of a vector and a number. Anything else is an
error.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]

TOKEN = re.compile(
    r"""\s*(?:(?P<name>[a-zA-Z_$][\w$]*)|(?P<number>\d+(?:\.\d+)?)|(?P<text>"(?:\\.|[^"\\])*")"""
    r"""|(?P<sign>=~|!~|!=|[-+*/(){}\[\],=]))"""
)


@dataclass
class Scrape:
    """All samples at one time, by their names and labels."""

    seconds: float
    samples: dict[tuple[str, Labels], float]


def scrape_of(families: Iterable[Metric], seconds: float, instance: str = "server") -> Scrape:
    """Add the label that Prometheus gives to each sample."""
    return Scrape(
        seconds,
        {
            (sample.name, frozenset({**sample.labels, "instance": instance}.items())): sample.value
            for family in families
            for sample in family.samples
        },
    )


def without(labels: Labels, *names: str) -> Labels:
    return frozenset((name, value) for name, value in labels if name not in names)


def quantile(fraction: float, buckets: list[tuple[float, float]]) -> float:
    """Return the value below which this share lies, as Prometheus interpolates it."""
    buckets.sort()
    whole = buckets[-1][1]
    if whole == 0:
        return math.nan
    rank = fraction * whole
    below, before = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            return below if math.isinf(bound) else below + (bound - below) * (rank - before) / (count - before)
        below, before = bound, count
    return below


class Query:
    """One query, which is parsed and evaluated in one pass."""

    def __init__(self, text: str, earlier: Scrape, later: Scrape) -> None:
        self.earlier, self.later = earlier, later
        self.tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            found = TOKEN.match(text, at)
            assert found, f"not understood: {text[at:]}"
            self.tokens.append(found[0].strip())
            at = found.end()

    def evaluate(self) -> Vector:
        result = self.sum_of_terms()
        assert not self.tokens, f"left over: {self.tokens}"
        assert isinstance(result, dict)
        return result

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, *wanted: str) -> str:
        token = self.tokens.pop(0)
        assert not wanted or token in wanted, (token, wanted)
        return token

    def sum_of_terms(self) -> Vector | float:
        value = self.product()
        while self.peek() in {"+", "-"}:
            value = self.apply(self.take(), value, self.product)
        return value

    def product(self) -> Vector | float:
        value = self.factor()
        while self.peek() in {"*", "/"}:
            value = self.apply(self.take(), value, self.factor)
        return value

    def apply(self, sign: str, left: Vector | float, right_of: object) -> Vector | float:
        ignored: list[str] = []
        if self.peek() == "ignoring":
            self.take()
            ignored = self.names()
        right = right_of()  # type: ignore[operator]
        functions = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "/": lambda a, b: a / b if b else math.nan,
        }
        function = functions[sign]
        if not isinstance(left, dict):
            assert not isinstance(right, dict)
            return float(function(left, right))
        if not isinstance(right, dict):
            return {labels: function(value, right) for labels, value in left.items()}
        others = {without(labels, *ignored): value for labels, value in right.items()}
        found: Vector = {}
        for labels, value in left.items():
            match = without(labels, *ignored)
            if match in others:
                assert match not in found, "several series match one"
                found[match] = function(value, others[match])
        return found

    def factor(self) -> Vector | float:
        token = self.take()
        if token == "(":
            value = self.sum_of_terms()
            self.take(")")
            return value
        if token[0].isdigit():
            return float(token)
        if token in {"rate", "increase"}:
            return self.rate(token)
        if token == "sum":
            return self.sum_by()
        if token == "histogram_quantile":
            return self.histogram_quantile()
        return {without(labels, "__name__"): value for labels, value in self.select(token, self.later).items()}

    def names(self) -> list[str]:
        self.take("(")
        found = []
        while self.peek() != ")":
            found.append(self.take())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return found

    def matchers(self) -> list[tuple[str, str, str]]:
        found = []
        if self.peek() == "{":
            self.take()
            while self.peek() != "}":
                found.append((self.take(), self.take("=", "!=", "=~", "!~"), self.take()[1:-1]))
                if self.peek() == ",":
                    self.take()
            self.take("}")
        return found

    def select(self, name: str, scrape: Scrape, matchers: list[tuple[str, str, str]] | None = None) -> Vector:
        matchers = self.matchers() if matchers is None else matchers

        def fits(labels: Labels) -> bool:
            values = dict(labels)
            for label, sign, text in matchers:
                value = values.get(label, "")
                equal = bool(re.fullmatch(text, value)) if "~" in sign else value == text
                if equal == sign.startswith("!"):
                    return False
            return True

        return {labels: value for (each, labels), value in scrape.samples.items() if each == name and fits(labels)}

    def rate(self, function: str) -> Vector:
        self.take("(")
        name = self.take()
        matchers = self.matchers()
        self.take("[")
        while self.take() != "]":
            pass
        self.take(")")
        before = self.select(name, self.earlier, matchers)
        span = self.later.seconds - self.earlier.seconds if function == "rate" else 1.0
        return {
            labels: (value - before[labels]) / span
            for labels, value in self.select(name, self.later, matchers).items()
            if labels in before
        }

    def sum_by(self) -> Vector:
        self.take("by")
        kept = self.names()
        self.take("(")
        inner = self.sum_of_terms()
        self.take(")")
        assert isinstance(inner, dict)
        sums: Vector = {}
        for labels, value in inner.items():
            group = frozenset((name, each) for name, each in labels if name in kept)
            sums[group] = sums.get(group, 0.0) + value
        return sums

    def histogram_quantile(self) -> Vector:
        self.take("(")
        fraction = float(self.take())
        self.take(",")
        inner = self.sum_of_terms()
        self.take(")")
        assert isinstance(inner, dict)
        groups: dict[Labels, list[tuple[float, float]]] = {}
        for labels, value in inner.items():
            groups.setdefault(without(labels, "le"), []).append((float(dict(labels)["le"]), value))
        return {labels: quantile(fraction, buckets) for labels, buckets in groups.items()}


def evaluate(query: str, earlier: Scrape, later: Scrape) -> Vector:
    """Return the series of a query, without those that are no number."""
    plain = query.replace("$instance", ".*")
    return {labels: value for labels, value in Query(plain, earlier, later).evaluate().items() if not math.isnan(value)}
