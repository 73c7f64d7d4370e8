# SPDX-License-Identifier: Apache-2.0
"""Writes the completion of bash, zsh and fish from help texts."""

from __future__ import annotations

import re

from help_text import Command, Entry

# Subcommands that another program and its arguments follow.
BEFORE_A_PROGRAM = {("verbena", "run"), ("verbena", "doctor"), ("verbena", "explore")}

# The words of an optional value, whose help text has no list of them.
OPTIONAL_WORDS = {("verbena run", "--check"): ["error", "portability", "advice"]}


def choices_of(command: Command, entry: Entry) -> list[str]:
    """Return the words that an option's value may be; empty if it may be any text."""
    words = " ".join(command.words)
    return entry.choices or next((OPTIONAL_WORDS[words, n] for n in entry.names if (words, n) in OPTIONAL_WORDS), [])


def quoted(text: str) -> str:
    """Return a text as one word of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def bash(command: Command) -> str:
    """Return the file that bash-completion loads for this program."""
    function = "_" + re.sub(r"\W", "_", command.name)
    paths, words, choices = [], [], []
    for each in command.family():
        path = " ".join(each.words)
        names = [name for entry in each.options for name in entry.names]
        subcommands = [entry.head.split()[0] for entry in each.subcommands]
        paths += [quoted(f"{path} {name}") for name in subcommands]
        words.append(f"\t\t{quoted(path)}) options={quoted(' '.join(names))} below={quoted(' '.join(subcommands))} ;;")
        for entry in each.options:
            found = choices_of(each, entry)
            if entry.value:
                # An optional value follows a "="; after a blank comes the next word of the line.
                effect = f"values={quoted(' '.join(found))}" if found else "takes_value=1"
                text = f'[ -n "$joined" ] && {effect}' if entry.is_optional else effect
                choices += [f"\t\t{quoted(f'{path} {name}')}) {text} ;;" for name in entry.names]
    programs = "|".join(quoted(" ".join(path)) for path in sorted(BEFORE_A_PROGRAM) if path[0] == command.words[0])
    run = f'\tcase "$path" in {programs}) COMPREPLY=($(compgen -c -- "$word")); return ;; esac\n' if programs else ""
    # The words after "--" are another program's, for which bash completes the names of files.
    after_dashes = (
        "\t\tif [[ ${COMP_WORDS[i]} == -- ]] && ((i < COMP_CWORD - 1)); then return; fi\n" if programs else ""
    )
    known = "|".join(paths) or "''"
    return f"""# bash completion of {command.name}, made from its help text
{function}() {{
\tlocal word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} path={quoted(command.words[0])}
\tlocal options= below= values= takes_value= joined= start= i
\tCOMPREPLY=()
\t# bash makes three words of --option=value, unless the user has changed COMP_WORDBREAKS.
\tif [[ $word == = ]]; then joined=1 word=
\telif [[ $before == = ]] && ((COMP_CWORD > 2)); then joined=1 before=${{COMP_WORDS[COMP_CWORD - 2]}}
\telif [[ $word == --*=* ]]; then joined=1 before=${{word%%=*}} start=${{word%%=*}}= word=${{word#*=}}; fi
\tfor ((i = 1; i < COMP_CWORD; ++i)); do
{after_dashes}\t\tcase "$path ${{COMP_WORDS[i]}}" in {known}) path="$path ${{COMP_WORDS[i]}}" ;; esac
\tdone
\tcase "$path" in
{chr(10).join(words)}
\tesac
\tcase "$path $before" in
{chr(10).join(choices) or "		*) ;;"}
\tesac
\tif [ -n "$values" ]; then COMPREPLY=($(compgen -P "$start" -W "$values" -- "$word")); return; fi
\tif [ -n "$takes_value$joined" ]; then return; fi
\tif [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word")); return; fi
\tif [ -n "$below" ]; then COMPREPLY=($(compgen -W "$below" -- "$word")); return; fi
{run}}}
complete -o default -F {function} {command.name}
"""


def zsh_option(command: Command, entry: Entry) -> list[str]:
    """Return the specifications of _arguments for one option."""
    text = re.sub(r"[\[\]:]", " ", entry.text)
    choices = choices_of(command, entry)
    value = f":value:({' '.join(choices)})" if choices else ":value:_files" if entry.value else ""
    # "=": --log=info beside --log info; "=-", a second colon: --check beside --check=error.
    joined = "=-" if entry.is_optional else "=" if entry.value else ""
    value = ":" * entry.is_optional + value
    return [f"{name}{joined if name.startswith('--') else ''}[{text}]{value}" for name in entry.names]


def zsh(command: Command) -> str:
    """Return the completion function that zsh loads for this program."""
    function = "_" + command.name
    lines = [f"#compdef {command.name}", f"# zsh completion of {command.name}, made from its help text", ""]
    for each in command.family():
        lines.append(f"_{each.name}() {{")
        if each.subcommands:
            described = [quoted(f"{e.head.split()[0]}:{e.text.replace(':', ' ')}") for e in each.subcommands]
            lines += [
                "\tlocal -a commands",
                f"\tcommands=({' '.join(described)})",
                "\tif ((CURRENT == 2)) && [[ $words[2] != -* ]]; then _describe command commands; return; fi",
                "\tcase $words[2] in",
            ]
            lines += [
                f"\t\t{child.words[-1]}) shift words; ((CURRENT--)); _{child.name}; return ;;"
                for child in each.children
            ]
            lines.append("\tesac")
        arguments = [quoted(each_option) for entry in each.options for each_option in zsh_option(each, entry)]
        rest = "'*::program:_normal'" if each.words in BEFORE_A_PROGRAM else "'*:file:_files'"
        lines += [f"\t_arguments -S {' '.join([*arguments, rest])}", "}", ""]
    return "\n".join([*lines, f'{function} "$@"', ""])


def fish_condition(command: Command) -> str:
    """Return the condition under which the words of a line have led to this command."""
    tests = [f"__fish_seen_subcommand_from {word}" for word in command.words[1:]]
    below = [entry.head.split()[0] for entry in command.subcommands]
    if below:
        tests.append(f"not __fish_seen_subcommand_from {' '.join(below)}")
    return "; and ".join(tests)


def fish(command: Command) -> str:
    """Return the completion file of fish for this program."""
    lines = [f"# fish completion of {command.name}, made from its help text"]
    for each in command.family():
        condition = fish_condition(each)
        start = f"complete -c {command.name}" + (f" -n {quoted(condition)}" if condition else "")
        for entry in each.subcommands:
            lines.append(f"{start} -f -a {entry.head.split()[0]} -d {fish_quoted(entry.text)}")
        if each.words in BEFORE_A_PROGRAM:
            lines.append(f"{start} -x -a '(__fish_complete_subcommand)'")
        for entry in each.options:
            words = [f"-{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in entry.names]
            if choices := choices_of(each, entry):
                words.append(f"{'' if entry.is_optional else '-x '}-a {fish_quoted(' '.join(choices))}")
            elif entry.value and not entry.is_optional:
                words.append("-r")
            lines.append(f"{start} {' '.join(words)} -d {fish_quoted(entry.text)}")
    return "\n".join([*lines, ""])


def fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
