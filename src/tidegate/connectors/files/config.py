"""Options of the file sources, with Spark's names, defaults and meaning. What would change results and is not built is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.connectors.legacy import Scan
from tidegate.connectors.options import Options
from tidegate.eventtime.batches import NO_LIMITS, Limits
from tidegate.model.errors import InvalidQuery

_TEXT_ONLY_DEFAULT = "only Spark's default is built: leave it out, or convert the column in the query"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSourceConfig:
    """What a file source was asked to read, and how to understand it."""

    format: str
    path: str
    """A local path, or the URL of a store; may contain ``* ? [] {}``."""
    recursive: bool = False
    name_filter: str | None = None
    """``pathGlobFilter``: matched against the file's name alone."""
    limits: Limits = NO_LIMITS
    latest_first: bool = False
    statistics: bool = True
    """What Parquet files say of their event times is asked for and relied upon."""
    event_time: str | None = None
    """Stored column of the event time; empty: there is none; None: the query asks for no event time."""
    fail_fast: bool = False
    """A malformed record ends the query (FAILFAST); otherwise what cannot be understood is null (PERMISSIVE)."""
    zone: str = "UTC"
    """Zone of timestamps written without one."""
    header: bool = False
    separator: str = ","
    quote: str = '"'
    """Empty: quotes mean nothing."""
    escape: str = "\\"
    null_value: str = ""

    @property
    def timed_by(self) -> str:
        """The column whose smallest value in a file is worth knowing; empty: none."""
        return (self.event_time or "") if self.statistics and self.format == "parquet" else ""


_JSON_DEFAULTS = {
    "primitivesAsString": "false",
    "allowComments": "false",
    "allowUnquotedFieldNames": "false",
    "allowSingleQuotes": "true",
    "allowNumericLeadingZeros": "false",
    "allowBackslashEscapingAnyCharacter": "false",
    "allowUnquotedControlChars": "false",
    "allowNonNumericNumbers": "true",
    "dropFieldIfAllNull": "false",
}
_CSV_DEFAULTS = {
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "nanValue": "NaN",
    "positiveInf": "Inf",
    "negativeInf": "-Inf",
    "emptyValue": "",
    "unescapedQuoteHandling": "STOP_AT_DELIMITER",
    "maxCharsPerColumn": "-1",
}
"""As Spark has them."""


def parse_source(scan: Scan, *, warn: bool = False) -> FileSourceConfig:
    """Validates the options of ``scan``. ``warn``: also report options that nobody knows (once, on the driver)."""
    options = Options(scan.options, f"{scan.format} source")
    path = input_location(options.required("path", "load(path) names the directory to watch"))
    options.ignore("maxFileAge", "inferSchema", "mergeSchema", "maxColumns")
    options.ignore("maxCachedFiles", "discardCachedInputRatio", "enforceSchema", "samplingRatio", "prefersDecimal")
    limits = _parse_limits(options)
    latest_first = options.flag("latestFirst")
    if latest_first and limits:
        raise InvalidQuery(
            f"the {options.what} has latestFirst together with a limit per trigger",
            hint="older files would be late before they are read: leave one of the two out",
        )
    untouched = "source files are never touched; remove them outside of the query"
    options.refuse_others({"cleanSource": "off"}, hint=untouched)
    options.refuse("sourceArchiveDir", hint=untouched)
    options.refuse("fileNameOnly", "basePath", "modifiedBefore", "modifiedAfter", hint="narrow the path instead")
    options.refuse_others(
        {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"},
        hint="a file that cannot be read ends the query; repair it",
    )
    config = FileSourceConfig(
        format=scan.format,
        path=path,
        recursive=options.flag("recursiveFileLookup"),
        name_filter=options.text("pathGlobFilter"),
        limits=limits,
        latest_first=latest_first,
        statistics=options.choice("fileStatistics", "on", ("on", "off")) == "on",
        event_time=scan.event_time,
        zone=parse_zone(options),
    )
    match scan.format:
        case "json":
            config = _parse_json(options, config)
        case "csv":
            config = _parse_csv(options, config)
        case "text":
            _refuse_other_lines(options)
            options.refuse_others({"wholetext": "false"}, hint="only one row per line is built")
        case _:
            options.refuse_others(
                {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"},
                hint="dates before 1582 are read as written",
            )
    if warn:
        options.warn_unknown()
    return config


def input_location(path: str) -> str:
    """A plain path for a ``file:`` URI as Spark writes them (``file:/x`` and ``file:///x``); anything else as it was given."""
    return unquote(urlsplit(path).path) if _scheme(path) == "file" else path


def output_location(path: str) -> str:
    """An absolute path for a local one; the URL of a store as it was given."""
    return path if is_remote(path) else str(Path(input_location(path)).absolute())


def is_remote(path: str) -> bool:
    return _scheme(path) not in ("", "file")


def _scheme(path: str) -> str:
    """In lower case; empty: a plain path. One letter before the colon would be a drive, a slash before it a path with a colon."""
    scheme, mark, _ = path.partition(":")
    return "" if not mark or "/" in scheme or len(scheme) < 2 else scheme.lower()


def _parse_limits(options: Options) -> Limits:
    """Spark wants whole numbers, and one of the two at most."""
    limits = Limits(
        options.integer("maxFilesPerTrigger", 0, minimum=1), options.integer("maxBytesPerTrigger", 0, minimum=1)
    )
    if limits.files and limits.bytes:
        raise InvalidQuery(
            f"the {options.what} has both maxFilesPerTrigger and maxBytesPerTrigger",
            hint="keep one of the two, as in Spark",
        )
    return limits


def _mode(options: Options) -> bool:
    mode = (options.text("mode", "PERMISSIVE") or "PERMISSIVE").upper()
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise options.invalid(
            "mode", mode, "PERMISSIVE or FAILFAST (filter malformed rows in the query instead of dropping them)"
        )
    options.refuse(
        "columnNameOfCorruptRecord", hint="malformed records become nulls; keep the raw line with format text"
    )
    return mode == "FAILFAST"


def _refuse_other_lines(options: Options) -> None:
    lines = "one record per line, ended by a newline, is what is read"
    options.refuse("lineSep", hint=lines)
    options.refuse_others({"multiLine": "false"}, hint=lines)
    encoding = options.text("encoding") or options.text("charset") or "UTF-8"
    if encoding.upper().replace("-", "") != "UTF8":
        raise options.invalid("encoding", encoding, "UTF-8")


def _refuse_formats(options: Options) -> None:
    options.refuse("dateFormat", "timestampFormat", "timestampNTZFormat", hint=_TEXT_ONLY_DEFAULT)
    options.refuse_others({"locale": "en-US"}, hint=_TEXT_ONLY_DEFAULT)


def _parse_json(options: Options, config: FileSourceConfig) -> FileSourceConfig:
    _refuse_other_lines(options)
    _refuse_formats(options)
    options.refuse_others(_JSON_DEFAULTS, hint="the files must hold plain JSON, one object per line")
    return replace(config, fail_fast=_mode(options))


def _parse_csv(options: Options, config: FileSourceConfig) -> FileSourceConfig:
    _refuse_other_lines(options)
    _refuse_formats(options)
    default = "only Spark's default is built: leave it out, or clean the column in the query"
    options.refuse("comment", "charToEscapeQuoteEscaping", hint=default)
    options.refuse_others(_CSV_DEFAULTS, hint=default)
    separator = options.character("sep", options.character("delimiter", ","))
    if not separator:
        raise options.invalid("sep", separator, "one ASCII character")
    return replace(
        config,
        fail_fast=_mode(options),
        header=options.flag("header"),
        separator=separator,
        quote=options.character("quote", '"').replace("\0", ""),
        escape=options.character("escape", "\\"),
        null_value=options.text("nullValue", "") or "",
    )


def parse_zone(options: Options) -> str:
    zone = options.text("timeZone", "UTC") or "UTC"
    zone = "UTC" if zone == "Z" else zone
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise options.invalid("timeZone", zone, "a region such as Europe/Berlin, or UTC") from None
    return zone
