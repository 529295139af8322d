"""`pyhudi completion`."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import argument, command
from pyhudi.commands.output import Output
from pyhudi.commands.registry import COMMANDS

_EPILOG = (
    'bash: eval "$(pyhudi completion bash)" in ~/.bashrc; zsh: eval "$(pyhudi completion zsh)" in ~/.zshrc, after'
    " compinit; fish: pyhudi completion fish > ~/.config/fish/completions/pyhudi.fish"
)


@command(argument("shell", choices=("bash", "zsh", "fish")), epilog=_EPILOG)
def completion(chosen: argparse.Namespace, output: Output) -> int:
    """Print a script that completes the commands and arguments of `pyhudi` in a shell.

    For bash, in `~/.bashrc`: eval "$(pyhudi completion bash)"
    """
    from pyhudi.commands.command_line import parser_of  # noqa: PLC0415 - it imports this module by name

    flags = {name: _flags(parser_of(name)) for name in COMMANDS}
    output.text(_fish(flags) if chosen.shell == "fish" else _bash(flags, is_zsh=chosen.shell == "zsh"))
    return 0


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [text for action in parser._actions for text in action.option_strings if text.startswith("--")]


def _bash(flags: dict[str, list[str]], *, is_zsh: bool) -> str:
    """Words after the command: its flags, and files. zsh runs completions of bash by itself."""
    cases = "\n".join(f"    {name}) words='{' '.join(texts)}' ;;" for name, texts in flags.items())
    begin = "autoload -U +X bashcompinit && bashcompinit\n" if is_zsh else ""
    return f"""{begin}_pyhudi() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{" ".join(flags)}' -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _pyhudi pyhudi"""


def _fish(flags: dict[str, list[str]]) -> str:
    lines = [
        f"complete -c pyhudi -n __fish_use_subcommand -f -a {name} -d '{listed.help}'"
        for name, listed in COMMANDS.items()
    ]
    lines += [
        f"complete -c pyhudi -n '__fish_seen_subcommand_from {name}' -l {text.removeprefix('--')}"
        for name, texts in flags.items()
        for text in texts
    ]
    return "\n".join(lines)
