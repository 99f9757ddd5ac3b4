"""How a store is reached: options ``storage.*`` of a query, and what the environment says where they are silent.

Values travel with the query to its slots, which open the store themselves. Secrets among them are never printed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from tidegate.model.errors import InvalidQuery

PREFIX = "storage."
HADOOP_PREFIX = "hadoop."
"""``storage.hadoop.<key>``: any setting of Hadoop's configuration files, for HDFS."""

S3_ENDPOINT = "s3.endpoint"
"""Where the environment says S3 is: no option of its own, because the environment says nothing about the other stores."""

HIDDEN = "***"
_HIDDEN_LENGTH_MIN = 4
"""Shorter values are not looked for in texts: they would be found in the middle of words."""


def _text(value: str) -> str:
    return value


def _flag(value: str) -> str:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower()


def _url(value: str) -> str:
    if not value.lower().startswith(("http://", "https://")):
        raise ValueError("a URL that begins with http:// or https://")
    return value.rstrip("/")


def _count(least: int, most: int) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
            raise ValueError(f"a whole number between {least} and {most}")
        return value

    return check


@dataclass(frozen=True, slots=True)
class StorageOption:
    name: str
    stores: str
    """Which stores look at it, for people."""
    meaning: str
    environment: tuple[str, ...] = ()
    """Variables of the driver that stand in for it, first one first."""
    secret: bool = False
    check: Callable[[str], str] = _text
    default: str = ""


STORAGE_OPTIONS: tuple[StorageOption, ...] = (
    StorageOption(
        "endpoint",
        "S3, GCS, Azure",
        "where the store answers, if not at the vendor's own address",
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        check=_url,
        default="the vendor's",
    ),
    StorageOption("region", "S3", "region of the bucket", ("AWS_REGION", "AWS_DEFAULT_REGION"), default="us-east-1"),
    StorageOption("accessKeyId", "S3", "access key", ("AWS_ACCESS_KEY_ID",)),
    StorageOption("secretAccessKey", "S3", "its secret", ("AWS_SECRET_ACCESS_KEY",), secret=True),
    StorageOption("sessionToken", "S3", "its token, if it is a temporary one", ("AWS_SESSION_TOKEN",), secret=True),
    StorageOption(
        "profile",
        "S3",
        "section of `~/.aws/credentials` and `~/.aws/config`, read again every few minutes",
        ("AWS_PROFILE",),
        default="default, if there is one",
    ),
    StorageOption(
        "pathStyle",
        "S3",
        "true: the bucket stands in the path of a request, not in its host name",
        check=_flag,
        default="true with an endpoint, else false",
    ),
    StorageOption(
        "serverSideEncryption", "S3", "`AES256`, `aws:kms` or `aws:kms:dsse`", ("AWS_SERVER_SIDE_ENCRYPTION",)
    ),
    StorageOption("kmsKeyId", "S3", "key of that encryption", ("AWS_SSE_KMS_KEY_ID",)),
    StorageOption(
        "serviceAccountFile",
        "GCS",
        "key file of a service account, on every host",
        ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_APPLICATION_CREDENTIALS"),
    ),
    StorageOption(
        "serviceAccountKey", "GCS", "the content of such a file", ("GOOGLE_SERVICE_ACCOUNT_KEY",), secret=True
    ),
    StorageOption("accountName", "Azure", "storage account", ("AZURE_STORAGE_ACCOUNT_NAME",)),
    StorageOption("accountKey", "Azure", "its key", ("AZURE_STORAGE_ACCOUNT_KEY",), secret=True),
    StorageOption(
        "sasToken", "Azure", "shared access signature instead of the key", ("AZURE_STORAGE_SAS_TOKEN",), secret=True
    ),
    StorageOption("tenantId", "Azure", "tenant of a service principal", ("AZURE_TENANT_ID",)),
    StorageOption("clientId", "Azure", "id of the service principal", ("AZURE_CLIENT_ID",)),
    StorageOption("clientSecret", "Azure", "its secret", ("AZURE_CLIENT_SECRET",), secret=True),
    StorageOption(
        "caCertificate",
        "S3, GCS, Azure",
        "file with certificates (PEM) to trust beside the system's",
        ("AWS_CA_BUNDLE",),
    ),
    StorageOption(
        "configDir",
        "HDFS",
        "directory with `core-site.xml` and `hdfs-site.xml`, on every host",
        default="`HADOOP_CONF_DIR`, else that of `HADOOP_HOME`",
    ),
    StorageOption("kerberosPrincipal", "HDFS", "who to be"),
    StorageOption("kerberosKeytab", "HDFS", "its keytab file, on every host"),
    StorageOption(
        "timeoutSeconds",
        "all but local",
        "a request without an answer for so long has failed; large ones get more",
        check=_count(1, 3_600),
        default="30",
    ),
    StorageOption(
        "retries",
        "S3, GCS, Azure",
        "how often a request is repeated, with growing pauses, before the store counts as unavailable",
        check=_count(0, 100),
        default="3",
    ),
    StorageOption("uploads", "all", "objects that a slot uploads at the same time", check=_count(1, 64), default="8"),
)

_BY_NAME = {option.name.lower(): option for option in STORAGE_OPTIONS}


@dataclass(frozen=True, slots=True, repr=False)
class StorageOptions:
    """Checked values by name, as ``STORAGE_OPTIONS`` spells it, ``hadoop.<key>`` among them. Pickled with all values, printed without secrets."""

    values: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = (f"{name}={HIDDEN if is_secret(name) else value}" for name, value in sorted(self.values.items()))
        return f"StorageOptions({', '.join(shown)})"

    def __bool__(self) -> bool:
        return bool(self.values)

    def get(self, name: str) -> str | None:
        return self.values.get(name)

    def number(self, name: str) -> int:
        return int(self.values.get(name) or _BY_NAME[name.lower()].default)

    def hadoop(self) -> dict[str, str]:
        """Settings of Hadoop."""
        return {
            name.removeprefix(HADOOP_PREFIX): value
            for name, value in self.values.items()
            if name.startswith(HADOOP_PREFIX)
        }

    def over(self, others: StorageOptions) -> StorageOptions:
        """These, and ``others`` where these are silent. A key and what belongs to it are taken from one side alone."""
        silent = dict(others.values)
        for together in _TOGETHER:
            if together & self.values.keys():
                silent = {name: value for name, value in silent.items() if name not in together}
        return StorageOptions({**silent, **self.values})

    def redact(self, text: str) -> str:
        """The text without any of the secrets."""
        for name, value in self.values.items():
            if is_secret(name) and len(value) >= _HIDDEN_LENGTH_MIN:
                text = text.replace(value, HIDDEN)
        return text


NO_OPTIONS = StorageOptions()

_TOGETHER = (
    frozenset({"accessKeyId", "secretAccessKey", "sessionToken", "profile"}),
    frozenset({"serviceAccountFile", "serviceAccountKey"}),
    frozenset({"accountName", "accountKey", "sasToken", "tenantId", "clientId", "clientSecret"}),
)


def is_secret(name: str) -> bool:
    option = _BY_NAME.get(name.lower())
    # Hadoop's settings have no schema here: those that sound like a secret are taken for one.
    return (
        option.secret if option is not None else any(word in name.lower() for word in ("secret", "password", "token"))
    )


def storage_options(given: Mapping[str, object]) -> StorageOptions:
    """``given``: names without the prefix ``storage.``, in any case. Raises InvalidQuery; never shows a secret."""
    values: dict[str, str] = {}
    for name, value in given.items():
        text = str(value).strip()
        if name.lower().startswith(HADOOP_PREFIX) and len(name) > len(HADOOP_PREFIX):
            values[HADOOP_PREFIX + name[len(HADOOP_PREFIX) :]] = text
            continue
        option = _BY_NAME.get(name.lower())
        if option is None:
            close = get_close_matches(name.lower(), _BY_NAME, n=1)
            known = ", ".join(PREFIX + one.name for one in STORAGE_OPTIONS)
            raise InvalidQuery(
                f"there is no option {PREFIX}{name}",
                hint=f"did you mean {PREFIX}{_BY_NAME[close[0]].name}?" if close else f"the options are {known}",
            )
        if not text:
            raise InvalidQuery(f"option {PREFIX}{option.name} is empty")
        try:
            values[option.name] = option.check(text)
        except ValueError as wanted:
            shown = HIDDEN if option.secret else repr(text)
            raise InvalidQuery(f"option {PREFIX}{option.name} is {shown}", hint=f"it must be {wanted}") from None
    _refuse_halves(values)
    return StorageOptions(values)


def from_environment(environment: Mapping[str, str]) -> StorageOptions:
    """What the variables of this process say. They are sent to slots, as Spark does with those of AWS: executors may lack them."""
    values: dict[str, str] = {}
    for option in STORAGE_OPTIONS:
        for variable in option.environment:
            if environment.get(variable):
                values[S3_ENDPOINT if option.name == "endpoint" else option.name] = environment[variable]
                break
    return StorageOptions(values)


def _refuse_halves(values: Mapping[str, str]) -> None:
    for one, other in (
        ("accessKeyId", "secretAccessKey"),
        ("secretAccessKey", "accessKeyId"),
        ("sessionToken", "accessKeyId"),
        ("kerberosKeytab", "kerberosPrincipal"),
        ("clientSecret", "clientId"),
    ):
        if one in values and other not in values:
            raise InvalidQuery(
                f"option {PREFIX}{one} is set without {PREFIX}{other}",
                hint="set both, or neither and use the environment",
            )


def describe_storage_options() -> str:
    """The table of the documentation."""
    lines = ["| option | for | meaning | default | environment |", "| --- | --- | --- | --- | --- |"]
    for option in STORAGE_OPTIONS:
        variables = ", ".join(f"`{one}`" for one in option.environment)
        secret = " (secret)" if option.secret else ""
        lines.append(
            f"| `{PREFIX}{option.name}` | {option.stores} | {option.meaning}{secret} | {option.default} | {variables} |"
        )
    lines.append(
        f"| `{PREFIX}{HADOOP_PREFIX}<key>` | HDFS | any setting of Hadoop, over the files in `configDir` | | |"
    )
    return "\n".join(lines)
