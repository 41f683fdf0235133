"""Prints reports on standard output in the format of -o, and writes them to the files of --report.

A terminal gets colour, wrapped lines and a pager for long reports; anything else gets plain text.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from msgspec.structs import replace

from reconciler.cli.command_line import ReportFile, command_line, links_here, of_this_run, texts_here
from reconciler.cli.group import FormatName, defect_in
from reconciler.cli.signals import blocking
from reconciler.core.diagnostics import Diagnostic, has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.project.files import why_not_written, write_output
from reconciler.reports.diagnostics import pointer, render
from reconciler.reports.escape import columns_of
from reconciler.reports.formats import Format, find_format
from reconciler.reports.report import Failure, Page, Report, ValidationReport, advise
from reconciler.reports.style import PLAIN, Style

# As with git: less passes colours on, leaves the text on the screen, and ends by itself where all of it fits.
_PAGER_DEFAULTS = {"LESS": "FRX", "LV": "-c"}
_NOT_RUN = (126, 127)  # exit codes of a shell that found no such program, or could not run it


def _remember_files(context: click.Context, option: click.Parameter, value: Sequence[ReportFile]) -> None:
    """Keep the files of --report. Raises UsageError for a file that is named twice or is stdout."""
    paths = [os.path.realpath(file.path) for file in value]
    if len(set(paths)) < len(paths):
        raise click.UsageError("--report: two reports cannot be written to one file")
    for path in filter(_is_standard_output, paths):
        raise click.UsageError(f"--report: standard output is written to {path} already")
    command_line().files = value


def _is_standard_output(path: str) -> bool:
    """Whether stdout is redirected to the file `path`."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))  # noqa: PTH116 - compared with a descriptor
    except OSError:  # there is no such file yet
        return False


class _FileName(click.ParamType[ReportFile]):
    """FORMAT=FILE of --report. The file must be writable; the format must show this kind of report."""

    name = "format=file"
    _format = FormatName()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ReportFile:
        if isinstance(value, ReportFile):
            return value
        name, _, file = str(value).partition("=")
        if not file or file == "-":
            self.fail(f"`{value}` is not FORMAT=FILE; standard output has its format by -o")

        path = Path(file)
        if not path.parent.is_dir():
            self.fail(f"there is no directory `{path.parent}`")
        if not os.access(path.parent, os.W_OK):
            self.fail(f"nothing can be written to the directory `{path.parent}`")
        if why := why_not_written(path):
            self.fail(f"`{file}` {why}")
        return ReportFile(self._format.convert(name, param, ctx), path)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """The formats; shells leave the file behind the `=` to the person."""
        found = self._format.shell_complete(ctx, param, incomplete)
        return [CompletionItem(f"{item.value}=") for item in found]


REPORT = click.Option(
    ["--report"],
    type=_FileName(),
    multiple=True,
    expose_value=False,
    callback=_remember_files,
    metavar="FORMAT=FILE",
    help="Write the report to FILE as well, in this format; may be repeated.",
)


def refuse_output(path: Path) -> None:
    """Raises UsageError where --out names a file that must not be replaced, or one of --report."""
    if why := why_not_written(path):
        raise click.UsageError(f"--out: `{path}` {why}: name another file")
    if any(os.path.realpath(file.path) == os.path.realpath(path) for file in command_line().files):
        raise click.UsageError(f"--report: {path} is written by another option, too")


def chosen_format() -> Format:
    """The format of -o; text without it."""
    found = command_line().format or find_format("text")
    assert found is not None
    return found


def in_parts() -> bool:
    """Whether a person watches: the plan is shown before it is approved."""
    return chosen_format().in_parts


def emit(report: Report, *, unseen: Report | None = None, paged: bool = False) -> None:
    """Print `report`, and write it to the files of --report.

    `unseen`: the rest of it that a person who watches has not seen as a part. `paged`: through the pager, if
    it is longer than the screen.
    """
    run = of_this_run()
    line = command_line()
    whole = replace(
        report.advised(run), read_line=texts_here().line, links=links_here(), metrics=line.metrics
    )
    line.report = whole
    _print(unseen.advised(run) if unseen is not None and in_parts() else whole, paged=paged)
    for file in line.files:
        if not (text := _rendered(file.format, whole)):
            continue
        try:
            write_output(file.path, text.encode("utf-8", "backslashreplace"))
        except ReconcilerError as failure:  # it fails the run
            _lose(f"the report is missing: {failure.message}")


def emit_part(report: Report) -> None:
    """Print `report` for a person who watches. Other formats wait for the whole report."""
    if in_parts():
        _print(report.advised(of_this_run()))


def _print(report: Report, *, paged: bool = False) -> None:
    """Print `report` in the format of -o.

    For people, notices and diagnostics go to stderr, and only results to stdout.
    """
    format = chosen_format()
    if not format.in_parts:
        click.echo(format.printable(_rendered(format, report), output_encoding()), nl=False)
        if format.step_summary is not None:
            _add_to_summary(_rendered(format, report, format.step_summary))
        return
    if isinstance(report, Failure):  # it has no result: `report_failure` prints it on stderr
        echo_diagnostics(report.diagnostics)
        return
    if isinstance(report, ValidationReport) and has_errors(report.diagnostics):
        echo_diagnostics(report.diagnostics)
        return
    notices = report.notices if isinstance(report, Page) else ""
    rest = replace(report, notices="") if isinstance(report, Page) else report
    text = _rendered(format, replace(rest, diagnostics=(), style=style_here()))
    echo_report(format.printable(text, output_encoding()), paged=paged)
    click.echo(notices, nl=False, err=True)
    echo_diagnostics(report.diagnostics)


def _rendered(format: Format, report: Report, render: Callable[[Report], str] | None = None) -> str:
    """The report as text, or "" after a defect of the format: it must not hide what the run did."""
    try:
        return (render or format.render)(report)
    except Exception as defect:
        _lose(defect_in(format.name, defect))
        return ""


def _add_to_summary(text: str) -> None:
    """Append `text` to the file that a runner shows as the summary of the step, where it names one."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("ab", buffering=0) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as failure:
        _lose(f"cannot write the summary of the step to {path}: {failure.strerror}")


def _lose(message: str) -> None:
    """Print that a report is not written. The verb then exits with FAILED."""
    command_line().lost = True
    click.echo(f"error: {message}", err=True)


def echo_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Print diagnostics on stderr for people, with the run's options in the commands that they advise."""
    if diagnostics:
        click.echo(render(advise(diagnostics, of_this_run()), texts_here().line), err=True, nl=False)
        if sys.stderr.isatty():
            click.echo(f"\n{pointer(diagnostics)}", err=True, nl=False)


def style_here() -> Style:
    """Width and colour of reports on standard output; PLAIN where that is not a terminal."""
    if not sys.stdout.isatty():
        return PLAIN
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(shutil.get_terminal_size().columns, colour)


def output_encoding() -> str:
    """The encoding of stdout; UTF-8 where a program replaced it by a stream without one."""
    return sys.stdout.encoding or "utf-8"  # a stream that a program put in its place may name none


def echo_report(text: str, *, paged: bool = False) -> None:
    """Print `text`. `paged`: on a terminal, through the pager where it is longer than the screen."""
    fits = not paged or not sys.stdout.isatty()
    if not fits:
        size = shutil.get_terminal_size()
        lines = map(columns_of, click.unstyle(text).splitlines())
        fits = sum(max(1, -(-columns // size.columns)) for columns in lines) < size.lines
    if fits or not _page(_pager(), text.encode(output_encoding())):
        click.echo(text, nl=False)


def _pager() -> str:
    """The shell command of the pager; empty for none."""
    if command_line().no_pager or os.environ.get("TERM") == "dumb":
        return ""
    for name in ("RECONCILE_PAGER", "PAGER"):
        if name in os.environ:
            command = os.environ[name].strip()
            return "" if command == "cat" else command
    return "less" if shutil.which("less") else ""


def _page(command: str, data: bytes) -> bool:
    """Returns whether a pager ran. Ctrl-C is for the pager alone; a signal that ends us ends it too."""
    if not command:
        return False
    with blocking():
        previous = signal.signal(signal.SIGINT, lambda number, frame: None)  # not SIG_IGN: that is inherited
        try:
            with subprocess.Popen(  # noqa: S603 - the person's own pager, as they spell it
                ["/bin/sh", "-c", command], stdin=subprocess.PIPE, env={**_PAGER_DEFAULTS, **os.environ}
            ) as pager:
                try:
                    pager.communicate(data)
                except BaseException:
                    pager.terminate()
                    raise
        except OSError:
            return False
        finally:
            signal.signal(signal.SIGINT, previous)
    return pager.returncode not in _NOT_RUN
