# SPDX-License-Identifier: Apache-2.0
"""coroutines.py: it finds the shapes that GCC 12 was seen to break, and nothing else in good code.

Each bad snippet was run with g++ 12.2 against types that count their destructions.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import coroutines
import pytest

SCRIPT = Path(coroutines.__file__)
AGGREGATE = "struct Options { std::string name; int size = 0; };\n"


def objections(source: str) -> list[coroutines.Objection]:
    path = Path("source.cc")
    return coroutines.check_sources({path: source})[path]


def in_a_coroutine(statements: str) -> list[coroutines.Objection]:
    return objections(AGGREGATE + "Task<void> body(Client& client) {\n" + statements + "\n}\n")


BAD = {
    "an aggregate as an argument": "co_await client.call(Options{name, 1});",
    "designated initializers": "co_await client.call({.name = name});",
    "empty braces": "auto opened = co_await Client::open(std::move(channel), {});",
    "an aggregate in parentheses": "co_await client.call(Options(name, 1));",
    "an aggregate by reference, nested deeply": "check(first(second((co_await client.call(third(Options{}))))));",
    "an aggregate beside the awaited operand": "use(Options{name, 1}, co_await client.number());",
    "an aggregate after the awaited operand": "use(co_await client.number(), {.name = name});",
    "an awaiter that is an aggregate": "co_await Rest{std::move(sending)};",
    "a member function of an aggregate": "co_await Client{name}.call();",
    "an aggregate initialized from an awaited value": "Options options{co_await client.name(), 1};",
    "the same with an equals sign": "const Options options = {.name = co_await client.name()};",
    "an aggregate assigned from an awaited value": "options = {co_await client.name(), 1};",
    "an array initialized from an awaited value": "std::string both[] = {co_await client.name(), name};",
    "new with braces": "auto* options = new Options{co_await client.name(), 1};",
    "co_return of an aggregate": "co_return Options{co_await client.name(), 1};",
    "an initializer list": "co_await client.call(std::vector<std::string>{name, name});",
    "a lambda that captures a copy": "co_await client.run([name] { use(name); });",
    "a lambda that captures all by value": "co_await client.run([=] { use(name); });",
    "a lambda that captures *this": "co_await client.run([*this] { use(name_); });",
    "a lambda that moves": "co_await client.run([&other, name = std::move(name)] { use(name); });",
    "a called lambda that captures a copy": "co_await [name]() -> Task<void> { co_return; }();",
    "a lambda that returns a pair": "co_await client.run([name]() -> std::pair<int, int> { return {}; });",
    "one of two tasks": "co_await (fast ? client.call(name) : client.wait());",
    "one of two arguments": 'co_await client.call(known ? name : "none");',
    "a value awaited or not": "const std::string text = known ? co_await client.name() : std::string();",
    "a value chosen by an awaited one": "const std::string text = co_await client.number() == 1 ? a() : b();",
    "an aggregate in the condition of an if": "if (co_await client.call({.name = name})) use(name);",
    "an aggregate in the declaration of an if": "if (Options options{co_await client.name()}; options.size > 0) {}",
    "an aggregate in the condition of a while": "while (n < 3 && !co_await client.call({.name = name})) ++n;",
    "an aggregate in the step of a for": "for (int n = 0; n < 3; n += co_await client.call({.name = name})) {}",
    "an aggregate in a switch": "switch (co_await client.call(Options{})) { default: break; }",
    "an aggregate after a case": "switch (n) { case 1: co_await client.call({.name = name}); }",
    "an aggregate after else": "if (known) use(name); else co_await client.call({.name = name});",
    "an aggregate in a macro's argument": "EXPECT_TRUE(co_await client.call({.name = name}));",
    "an operand over several lines": (
        "co_await client\n  .call(\n    // a comment; with a semicolon\n    {\n.name = name});"
    ),
    "co_await in the body of a lambda": (
        "spawn([](Client& client) -> Task<void> { co_await client.call({.size = 1}); }(c));"
    ),
    "co_await in a lambda in a lambda": "run([&] { spawn([&](int) -> Task<void> { co_await f(Options{}); }); });",
    "a comment between": "co_await /* ; */ client.call(/* { */ Options /* ( */ {name, 1});",
    "a string with braces before": 'log("} ; {"); co_await client.call(R"(})", {.name = name});',
}

GOOD = {
    "a named aggregate": "const Options options{.name = name}; co_await client.call(options);",
    "a named aggregate that is moved": "Options options{name, 1}; co_await client.call(std::move(options));",
    "a named task": "auto calling = client.call({.name = name}); co_await std::move(calling);",
    "a named task of two": "auto calling = fast ? client.call(name) : client.wait(); co_await std::move(calling);",
    "a constructor": 'co_await client.call(std::string("name"), Options(), make_options(name, 1));',
    "a copy in parentheses": "co_await client.call(Options(options));",
    "a lambda without captures": "co_await client.run([](int n) { return Options{name(), n}; });",
    "a lambda that captures references": (
        "co_await run_on(loop, other, [&, this, &name, &n = m] { f({.name = name}); });"
    ),
    "a named lambda": "const auto use_name = [name] { use(name); }; co_await client.run(use_name);",
    "one of two literals": 'co_await client.call(known ? "known" : "unknown", fast ? 1 : 10);',
    "braces in the body of an if": "if (co_await client.ready()) { use(Options{name, 1}); }",
    "braces in the body of a loop": "while (auto next = co_await client.next()) { options = {.name = *next}; }",
    "braces in a range": "for (const auto& each : std::array<int, 2>{1, 2}) { co_await client.wait(each); }",
    "braces in the statement before": "f({.name = name}); co_await client.wait();",
    "braces in the statement after": "co_await client.wait(); f({.name = name});",
    "?: in an if without co_await": "if (known ? a : b) co_await client.wait();",
    "a structured binding": "const auto& [first, second] = co_await client.pair(); f({.name = first});",
    "a subscript": "co_await clients[index](name); co_await clients[map[name]]->wait();",
    "an attribute": "if (known) [[likely]] co_await client.wait();",
    "a comment": "co_await client.wait();  // not client.wait({.name = name}), nor a ? b : c",
    "a comment of several lines": "/* co_await client.call({}) */ f({.name = name});",
    "co_await in a string": 'log("co_await {}", Options{name, 1}); log(R"x(co_await {")x", {.name = name});',
    "co_await in a directive": "#define CALL(x) co_await client.call({.name = x})\nuse({.name = name});",
    "co_await only in a lambda": "spawn([](Client& c) -> Task<void> { co_await c.wait(); }(client), {.name = name});",
    "a lambda with a template head": "run([]<class T>(T x) -> Task<void> { co_await x(); }, known ? a() : b());",
    "a local class": "struct Local { int n{1}; Task<void> f() const { co_await g(); } }; const Local local{2};",
    "a character that is a brace": "co_await client.put('{', '}', '\\'', 1'000'000);",
}


@pytest.mark.parametrize("statements", BAD.values(), ids=BAD.keys())
def test_it_objects_to(statements):
    assert in_a_coroutine(statements)


@pytest.mark.parametrize("statements", GOOD.values(), ids=GOOD.keys())
def test_it_passes(statements):
    assert in_a_coroutine(statements) == []


def test_an_objection_names_the_line_of_the_shape_and_not_that_of_co_await():
    found = in_a_coroutine("co_await client\n\t.call(first,\n\t\t{.name = name});")
    assert [objection.number for objection in found] == [5]
    assert found[0].text.startswith("braces in a statement with co_await: GCC 12 may destroy it twice")


@pytest.mark.parametrize(
    "declaration",
    [
        "Task<void> call(const Options& options = {});",
        "Task<Result<std::vector<int>>> Client::call(int n, Options options = Options{}) { co_return n; }",
        "class Client { async::Lazy<int> call(Options options = {.size = 1}); };",
    ],
)
def test_braces_in_a_default_argument_of_a_coroutine_are_found_where_it_is_declared(declaration):
    assert objections(declaration)


@pytest.mark.parametrize(
    "declaration",
    [
        "Task<void> call(Options options = Options());",
        "Task<void> call(std::optional<int> patience = {}, const std::string& name = {});",
        "void call(const Options& options = {});",
    ],
)
def test_other_default_arguments_pass(declaration):
    assert objections(declaration) == []


def test_a_struct_with_a_constructor_may_be_made_in_parentheses():
    assert objections("struct Key { Key(int a, int b); int a; };\nTask<void> f() { co_await g(Key(1, 2)); }") == []
    assert objections("struct Key { int a, b; };\nTask<void> f() { co_await g(Key(1, 2)); }")


def test_functions_constructors_and_namespaces_do_not_look_like_braces_of_a_statement():
    assert (
        objections(
            """
            namespace a::b {
            struct Thing : Base<int> { int n{0}; Thing(int a) : n{a}, m_(a) {} int m_; };
            auto later(Client& client) -> Task<void> { co_await client.wait(); }
            template <class T> struct Waits { auto operator co_await() && { return Awaiter{handle_}; } };
            Task<int> Client::call(int n) const noexcept { try { co_return co_await f(n); } catch (...) { g({n}); } }
            }
            """
        )
        == []
    )


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True)


def test_it_prints_file_line_and_text_and_exits_with_1(tmp_path):
    path = tmp_path / "bad.cc"
    path.write_text("Task<void> f() {\n\tco_await g({});\n}\n")
    result = run(path)
    assert result.returncode == 1
    assert result.stdout.startswith(f"{path}:2: braces in a statement with co_await")
    assert "1 objections" in result.stderr


def test_it_prints_nothing_about_good_code_and_exits_with_0(tmp_path):
    path = tmp_path / "good.cc"
    path.write_text("Task<void> f() {\n\tco_await g();\n}\n")
    result = run(path)
    assert (result.returncode, result.stdout) == (0, "")


def test_a_file_that_does_not_exist_is_a_usage_error(tmp_path):
    result = run(tmp_path / "absent.cc")
    assert result.returncode == 2
    assert "there is no file" in result.stderr


def test_the_tree_obeys_the_rule():
    result = run()
    assert result.returncode == 0, result.stdout
