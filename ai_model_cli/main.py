"""The ``ai-model`` command: finds a verb, runs it, turns errors into exit codes."""

import importlib
import sys
from collections.abc import Sequence
from typing import cast

import click

from ai_model_cli.errors import report
from ai_model_cli.invocation import Invocation
from ai_model_cli.options import common_options

SECTIONS = {
    "Move weights": ("push", "get", "verify", "cache"),
    "Look": ("ls", "show", "layers", "diff", "find", "lineage"),
    "Name": ("alias", "yank"),
    "Move traffic": ("route", "rollout", "nodes", "gateway", "watch"),
    "Access": ("login", "whoami", "token"),
    "Run": ("serve", "completion"),
}
COMMANDS = tuple(name for names in SECTIONS.values() for name in names)


class Verbs(click.Group):
    """Finds a command in the module of its name, imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name."""
        if cmd_name not in COMMANDS:
            if ctx.resilient_parsing:  # completing: nothing to complain about
                return None
            import difflib  # lazy: only for mistakes

            near = difflib.get_close_matches(cmd_name, COMMANDS, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"No such command {cmd_name!r}.{hint}", ctx)
        module = importlib.import_module(f"ai_model_cli.commands.{cmd_name}")
        return cast("click.Command", module.command)

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb. Ctrl-C leaves as click's own error: it would print an empty line first."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.Abort from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section."""
        for section, names in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(72))
                        for name, command in commands
                        if command
                    ]
                )


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        import importlib.metadata  # lazy: costs 50 ms and only this needs it

        click.echo(f"ai-model {importlib.metadata.version('ai-model')}")
        ctx.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
@common_options
def cli() -> None:
    """A model registry that ships the layers you need.

    \b
    Try it on this machine:
      ai-model serve --data-dir ./registry
      export AI_MODEL_CONFIG=./registry/client.toml
      ai-model push model.safetensors --model-id minilm --version v1
      ai-model get --model-id minilm --version v1 --layers encoder

    Settings: option, else environment (AI_MODEL_ENDPOINT, AI_MODEL_TOKEN,
    AI_MODEL_CACHE, AI_MODEL_CONFIG), else the config file.

    Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 not allowed, 5 conflict,
    6 bytes do not match, 7 network (worth a retry), 8 disk full,
    130 interrupted.
    """


def run(arguments: Sequence[str], invocation: Invocation) -> int:
    """Run one command line and return its exit code."""
    try:
        code = cli.main(
            list(arguments), prog_name="ai-model", standalone_mode=False, obj=invocation
        )
    except BaseException as error:  # noqa: BLE001 - the edge: every error becomes an exit code
        return report(error, as_json=invocation.as_json or "--json" in arguments)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Be the ``ai-model`` command."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:], Invocation()))


if __name__ == "__main__":
    main()
