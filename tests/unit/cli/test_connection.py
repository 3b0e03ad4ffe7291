"""Connection settings: their order, files of other tools, profiles, prompts and secrets."""

import argparse
import os
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.cli.connection.admin import admin_arguments
from aiokafka_lite.cli.connection.client_arguments import consumer_arguments, producer_arguments
from aiokafka_lite.cli.connection.flags import add_connection_flags
from aiokafka_lite.cli.connection.profiles import Profiles, is_secret, load_profiles, save_profiles
from aiokafka_lite.cli.connection.property_files import read_option_file
from aiokafka_lite.cli.connection.settings import Settings, gather
from aiokafka_lite.cli.failures import UsageError


def never(_: str) -> str:
    raise AssertionError("nothing should be asked")


def settings(
    *flags: str, environ: dict[str, str] | None = None, prompt: Any = never, tmp: Path
) -> Settings:
    parser = argparse.ArgumentParser()
    add_connection_flags(parser)
    environment = {"AIOKAFKA_LITE_CONFIG": str(tmp / "config.toml"), **(environ or {})}
    return gather(parser.parse_args(flags), environment, prompt)


def test_flag_overrides_option_overrides_file_overrides_variable_overrides_profile(
    tmp_path: Path,
) -> None:
    environ = {"AIOKAFKA_LITE_CONFIG": str(tmp_path / "config.toml")}
    save_profiles(Profiles("p", {"p": {"bootstrap.servers": "profile:1"}}), environ)
    (tmp_path / "file").write_text("bootstrap.servers=file:1\n")
    variable = {"AIOKAFKA_LITE_BOOTSTRAP_SERVERS": "variable:1"}
    file, option = ("-F", str(tmp_path / "file")), ("-X", "metadata.broker.list=option:1")

    def address(*flags: str, environ: dict[str, str] | None = None) -> str:
        return settings(*flags, environ=environ, tmp=tmp_path).options["bootstrap.servers"]

    assert address() == "profile:1"
    assert address(environ=variable) == "variable:1"
    assert address(*file, environ=variable) == "file:1"
    assert address(*option, *file, environ=variable) == "option:1"
    assert address("-b", "flag:1", *option, *file, environ=variable) == "flag:1"


def test_default_address_is_localhost(tmp_path: Path) -> None:
    found = settings(tmp=tmp_path)
    assert found.options["bootstrap.servers"] == "localhost:9092"
    assert consumer_arguments(found)["security_protocol"] == "PLAINTEXT"


def test_password_is_prompted_for(tmp_path: Path) -> None:
    asked = []

    def prompt(text: str) -> str:
        asked.append(text)
        return "secret"

    found = settings("--user", "alice", prompt=prompt, tmp=tmp_path)
    assert asked == ["Password for alice: "]
    arguments = producer_arguments(found)
    assert arguments["security_protocol"] == "SASL_PLAINTEXT"
    assert arguments["sasl_mechanism"] == "SCRAM-SHA-512"
    assert arguments["sasl_plain_password"] == "secret"


def test_tls_with_a_user_uses_plain(tmp_path: Path) -> None:
    found = settings("--user", "alice", "--password", "x", "--tls", tmp=tmp_path)
    arguments = consumer_arguments(found)
    assert arguments["security_protocol"] == "SASL_SSL"
    assert arguments["sasl_mechanism"] == "PLAIN"
    assert "ssl_context" not in arguments


def test_librdkafka_s_tls_options(tmp_path: Path, tls_files: tuple[Path, Path]) -> None:
    cert, key = map(str, tls_files)
    options = (
        f"ssl.ca.location={cert}", f"ssl.certificate.location={cert}", f"ssl.key.location={key}",
        "ssl.key.password=p", "ssl.endpoint.identification.algorithm=none",
    )  # fmt: skip
    flags = [each for option in options for each in ("-X", option)]
    arguments = consumer_arguments(settings(*flags, tmp=tmp_path))
    assert arguments["security_protocol"] == "SSL"
    assert {name: value for name, value in arguments.items() if name.startswith("ssl_")} == {
        "ssl_cafile": cert,
        "ssl_certfile": cert,
        "ssl_check_hostname": False,
        "ssl_keyfile": key,
        "ssl_password": "p",
    }


def test_the_clients_own_tls_options(tmp_path: Path) -> None:
    found = settings("-X", "ssl_cafile=ca.pem", "-X", "ssl.password=p", tmp=tmp_path)
    arguments = producer_arguments(found)
    assert arguments["security_protocol"] == "SSL"
    assert (arguments["ssl_cafile"], arguments["ssl_password"]) == ("ca.pem", "p")


def test_verification_can_be_disabled(tmp_path: Path) -> None:
    flags = ("--tls", "-X", "enable.ssl.certificate.verification=false")
    context = consumer_arguments(settings(*flags, tmp=tmp_path))["ssl_context"]
    assert context.verify_mode is ssl.CERT_NONE


def test_another_user_does_not_get_the_password_of_the_profile(tmp_path: Path) -> None:
    environ = {"AIOKAFKA_LITE_CONFIG": str(tmp_path / "config.toml")}
    options = {"sasl.username": "bob", "sasl.password": "bobs"}
    save_profiles(Profiles("p", {"p": options}), environ)
    assert settings(tmp=tmp_path).options["sasl.password"] == "bobs"
    found = settings("--user", "alice", prompt=lambda _: "hers", tmp=tmp_path)
    assert found.options["sasl.password"] == "hers"


def test_java_file_is_read_with_its_escapes(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# a comment\n! another\n\n"
        "bootstrap.servers = a:1,\\\n    b:2\n"
        "security.protocol: SASL_PLAINTEXT\n"
        "sasl.mechanism PLAIN\n"
        "client.id=caf\\u00e9\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="alice" password="s=c;r\\\\"t";\n'
    )
    options = read_option_file(str(file))
    assert options["bootstrap.servers"] == "a:1,b:2"
    assert options["client.id"] == "café"
    arguments = consumer_arguments(settings("-F", str(file), tmp=tmp_path))
    assert arguments["sasl_plain_username"] == "alice"
    assert arguments["sasl_plain_password"] == 's=c;r"t'


KERBEROS = "security.protocol=sasl_plaintext\nsasl.mechanisms=GSSAPI\n"


def test_kcat_file_with_kerberos(tmp_path: Path) -> None:
    file = tmp_path / "kcat.conf"
    file.write_text(
        f"{KERBEROS}sasl.kerberos.service.name=broker\n"
        "sasl.kerberos.principal=alice@EXAMPLE.COM\nsasl.kerberos.keytab=/etc/alice.keytab\n"
        "sasl.kerberos.min.time.before.relogin=60000\n"
    )
    arguments = consumer_arguments(settings("-F", str(file), tmp=tmp_path))
    given = {name: value for name, value in arguments.items() if name.startswith("sasl_")}
    assert given == {
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "broker",
        "sasl_kerberos_principal": "alice@EXAMPLE.COM",
        "sasl_kerberos_keytab": "/etc/alice.keytab",
    }


def test_kerberos_options_alone_select_sasl(tmp_path: Path) -> None:
    pairs = ["sasl.kerberos.keytab=/k", "sasl_kerberos_domain_name=broker.example"]
    found = settings(*(f"-X{pair}" for pair in pairs), tmp=tmp_path)
    arguments = producer_arguments(found)
    assert arguments["security_protocol"] == "SASL_PLAINTEXT"
    assert arguments["sasl_mechanism"] == "GSSAPI"
    assert arguments["sasl_kerberos_service_name"] == "kafka"
    assert arguments["sasl_kerberos_domain_name"] == "broker.example"
    assert admin_arguments(arguments)["sasl_kerberos_domain_name"] == "broker.example"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("sasl.kerberos.kinit.cmd=/bin/true", "no kinit is run: set sasl.kerberos.keytab"),
        (
            "sasl.jaas.config=x.Krb5LoginModule required;",
            "sasl.kerberos.principal and sasl.jaas.config cannot be combined",
        ),
    ],
)
def test_kerberos_options_without_an_equivalent_are_refused(
    line: str, error: str, tmp_path: Path
) -> None:
    file = tmp_path / "kcat.conf"
    file.write_text(f"{KERBEROS}sasl.kerberos.principal=alice\n{line}\n")
    with pytest.raises(UsageError, match=error):
        consumer_arguments(settings("-F", str(file), tmp=tmp_path))


def test_kcat_file_is_read_without_escapes(tmp_path: Path) -> None:
    file = tmp_path / "kcat.conf"
    file.write_text(
        "# kcat\nmetadata.broker.list=a:1\nsecurity.protocol=sasl_plaintext\n"
        "sasl.mechanisms=PLAIN\nsasl.username=alice\nsasl.password=s\\t=x\n"
    )
    arguments = consumer_arguments(settings("-F", str(file), tmp=tmp_path))
    assert arguments["bootstrap_servers"] == "a:1"
    assert arguments["security_protocol"] == "SASL_PLAINTEXT"
    assert arguments["sasl_plain_password"] == "s\\t=x"


def test_line_that_is_no_option_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("a=b\n=secret\n")
    with pytest.raises(UsageError, match="line 2") as error:
        read_option_file(str(file))
    assert "secret" not in str(error.value)
    with pytest.raises(UsageError) as error:
        settings("-X", "secret", tmp=tmp_path)
    assert "secret" not in str(error.value)


def test_unknown_option_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean linger\.ms"):
        producer_arguments(settings("-X", "lingr.ms=5", tmp=tmp_path))


def test_option_without_effect_in_a_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("key.serializer=org.Example\n")
    producer_arguments(settings("-F", str(file), tmp=tmp_path))
    assert "option key.serializer has no effect here" in capsys.readouterr().err


def test_options_become_arguments(tmp_path: Path) -> None:
    found = settings(
        *("-X", "queue.buffering.max.ms=7", "-X", "compression.codec=zstd"),
        *("-X", "compression.zstd.level=3", "--timeout", "4s"),
        tmp=tmp_path,
    )
    arguments = producer_arguments(found)
    assert arguments["linger_ms"] == 7
    assert (arguments["compression_type"], arguments["compression_level"]) == ("zstd", 3)
    assert arguments["request_timeout_ms"] == 4000
    assert arguments["delivery_timeout_ms"] == 4007


def test_profiles_survive_being_written(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    profiles = Profiles("a b", {"a b": {"sasl.password": 'q"\\\t\x7fé'}, "c": {}})
    path = save_profiles(profiles, environ)
    assert load_profiles(environ) == profiles
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_missing_profile_is_refused_with_the_way_to_add_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="profile add nope"):
        settings("--profile", "nope", tmp=tmp_path)


@pytest.mark.parametrize("text", ["profile = 3", "[profiles]\na = 1", "[profiles.a]\nb = []", "x"])
def test_invalid_profile_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(UsageError, match=r"config\.toml"):
        settings(tmp=tmp_path)


def test_shown_profiles_hide_keys_and_proxy_credentials() -> None:
    pem = "-----BEGIN PRIVATE KEY-----"
    for name, value in (
        ("proxy.url", "http://ann:hush@proxy"), ("ssl.password", "hush"), ("ssl.keyfile", pem),
        ("ssl.certfile", pem), ("ssl.key.password", "hush"), ("sasl.jaas.config", f"{pem}\n"),
    ):  # fmt: skip
        assert is_secret(name, value), name
    for name, value in (("ssl.keyfile", "a.pem"), ("ssl.cafile", "ca.pem"), ("client.id", "x")):
        assert not is_secret(name, value), name


@pytest.mark.parametrize("protocol", ["TLS", "SASL-SSL", "SASL_SSLL", ""])
def test_misspelled_security_protocol_is_refused(tmp_path: Path, protocol: str) -> None:
    flags = (
        "-X",
        f"security.protocol={protocol}",
        "-X",
        "sasl.username=a",
        "-X",
        "sasl.password=b",
    )
    with pytest.raises(UsageError, match=r"security\.protocol is one of"):
        settings(*flags, tmp=tmp_path)
