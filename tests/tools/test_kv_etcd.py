# SPDX-License-Identifier: Apache-2.0
"""Members of a cluster in an etcd with TLS and users, and in an etcd of several members."""

import datetime
import signal
import subprocess
import sys
import urllib.error

import pytest
from etcd_certificates import DAY, Authority, Pair
from kv_members import facts_of, join, until_all_slots_have_owners
from programs import Program, Programs, Ran, stop, wait_until
from real_etcd import HOST, Gateway, prefix_of, start_members, with_tls
from test_kv import client
from test_kv_python import ENVIRONMENT

LEASE_S = 12  # each member of etcd has 3 s for an answer, also on a busy machine


class Secured:
    """An etcd with TLS, and what its users need."""

    def __init__(self, programs: Programs, *words: object, expires: datetime.timedelta = DAY, host: str = HOST) -> None:
        self.authority = Authority(programs.folder, "authority")
        self.server = self.authority.issue("server", host, expires=expires)
        ((self.program, self.url),) = start_members(programs, 1, *with_tls(self.server), *words, scheme="https")
        self.prefix = prefix_of([self.url])
        self.password = programs.folder / "password"
        self.password.touch(mode=0o600)

    @property
    def ca(self) -> tuple[object, ...]:
        return ("--etcd-ca", self.authority.ca)

    @property
    def user(self) -> tuple[object, ...]:
        return (*self.ca, "--etcd-user", "kv", "--etcd-password-file", self.password)

    def protect(self) -> Gateway:
        """Switch authentication on; return calls as root."""
        gateway = Gateway(self.url, self.authority.ca)
        gateway.protect("kv", "secret")
        self.password.write_text("secret\n")
        return gateway


def try_to_join(programs: Programs, prefix: str, *options: object) -> Ran:
    return programs.run("kv_server", "--listen", HOST, "--port", 0, "--join", prefix, *options)


def refusals(programs: Programs, prefix: str, *options: object) -> list[Ran]:
    """Return what a server and a client say, which both fail at once."""
    both = [try_to_join(programs, prefix, *options), client(programs, prefix, "GET key", options=options)]
    assert all(ran.status in (1, 2) and ran.err.count("\n") == 1 for ran in both), both
    return both


def test_servers_and_clients_use_tls_and_show_a_certificate(programs: Programs) -> None:
    authority = Authority(programs.folder, "authority")
    server, mine = authority.issue("server", HOST), authority.issue("mine", HOST)
    asks = ["--client-cert-auth", "--trusted-ca-file", authority.ca]
    ((_, url),) = start_members(programs, 1, *with_tls(server), *asks, scheme="https")
    prefix = prefix_of([url])
    words = ("--etcd-ca", authority.ca, "--etcd-cert", mine.certificate, "--etcd-key", mine.key)
    until_all_slots_have_owners(programs, [join(programs, prefix, *words)])
    ran = client(programs, prefix, "SET key value", "GET key", options=(*words, "--wait", 10))
    assert ran.status == 0 and ran.out == "value\n", ran
    ran = programs.run("verbena", "kv", "info", prefix, *words)
    assert ran.status == 0 and "cluster_member: yes" in ran.out, ran
    check_the_c_library(programs, prefix, authority, mine)
    for ran in refusals(programs, prefix, "--etcd-ca", authority.ca):
        assert "give --etcd-cert and --etcd-key" in ran.err, ran


def check_the_c_library(programs: Programs, prefix: str, authority: Authority, mine: Pair) -> None:
    """Read the key by options of the library, and by the environment."""
    settings = f"etcd_ca={str(authority.ca)!r}, etcd_certificate={str(mine.certificate)!r}, etcd_key={str(mine.key)!r}"
    variables = {
        "VERBENA_ETCD_CA": str(authority.ca),
        "VERBENA_ETCD_CERT": str(mine.certificate),
        "VERBENA_ETCD_KEY": str(mine.key),
    }
    for given, environment in ((settings, ENVIRONMENT), ("", ENVIRONMENT | variables)):
        text = f"""
from verbena_kv import Settings, Store
with Store({prefix!r}, Settings({given})) as store:
    assert store.get("key") == b"value"
"""
        ran = programs.run(sys.executable, "-c", text, env=environment)
        assert ran.status == 0, ran


def test_a_certificate_of_another_authority_is_refused(programs: Programs) -> None:
    etcd, other = Secured(programs), Authority(programs.folder, "other")
    for options in (("--etcd-ca", other.ca), ()):
        for ran in refusals(programs, etcd.prefix, *options):
            assert "its certificate is refused" in ran.err and "check --etcd-ca" in ran.err, ran
    for ran in refusals(programs, etcd.prefix, "--etcd-ca", etcd.server.key):
        assert f"--etcd-ca {etcd.server.key} has no certificate" in ran.err, ran


def test_an_expired_certificate_is_refused(programs: Programs) -> None:
    etcd = Secured(programs, expires=-DAY)
    for ran in refusals(programs, etcd.prefix, *etcd.ca):
        assert "has expired" in ran.err and "the dates of the certificate" in ran.err, ran


def test_a_certificate_of_another_host_is_refused(programs: Programs) -> None:
    etcd = Secured(programs, host="10.0.0.7")
    for ran in refusals(programs, etcd.prefix, *etcd.ca):
        assert "the name of this host" in ran.err, ran


def test_a_client_certificate_that_etcd_does_not_accept_is_named(programs: Programs) -> None:
    authority, other = Authority(programs.folder, "authority"), Authority(programs.folder, "other")
    server, mine = authority.issue("server", HOST), other.issue("mine", HOST)
    asks = ["--client-cert-auth", "--trusted-ca-file", authority.ca]
    ((_, url),) = start_members(programs, 1, *with_tls(server), *asks, scheme="https")
    words = ("--etcd-ca", authority.ca, "--etcd-cert", mine.certificate, "--etcd-key")
    for ran in refusals(programs, prefix_of([url]), *words, mine.key):
        assert "accepts the certificate of --etcd-cert" in ran.err, ran
    for ran in refusals(programs, prefix_of([url]), *words, server.key):
        assert "--etcd-cert and --etcd-key cannot be used" in ran.err, ran


def test_the_wrong_scheme_is_named(programs: Programs, etcd: str) -> None:
    secured = Secured(programs)
    for ran in refusals(programs, secured.prefix.replace("etcds:", "etcd:")):
        assert "if this port has TLS, write etcds://" in ran.err, ran
    for ran in refusals(programs, etcd.replace("etcd:", "etcds:")):
        assert "write etcd://" in ran.err, ran


def test_options_that_cannot_work_are_usage(programs: Programs) -> None:
    pair = Authority(programs.folder, "authority").issue("mine", HOST)
    password = programs.folder / "password"
    password.write_text("secret")
    password.chmod(0o644)
    prefix = f"{HOST}:1/kv"
    cases = [
        ("etcd", ("--etcd-ca", pair.certificate), "--etcd-ca (or VERBENA_ETCD_CA) needs TLS"),
        ("etcds", ("--etcd-cert", pair.certificate), "--etcd-key (or VERBENA_ETCD_KEY) is needed too"),
        ("etcds", ("--etcd-user", "kv"), "--etcd-password-file (or VERBENA_ETCD_PASSWORD_FILE) is needed too"),
        ("etcds", ("--etcd-ca", "/nowhere/ca.pem"), "cannot read /nowhere/ca.pem"),
        ("etcds", ("--etcd-user", "kv", "--etcd-password-file", password), "has mode 0644"),
    ]
    for scheme, options, sentence in cases:
        ran = try_to_join(programs, f"{scheme}://{prefix}", *options)
        assert ran.status == 2 and sentence in ran.err, ran
    pair.key.chmod(0o644)
    ran = try_to_join(programs, f"etcds://{prefix}", "--etcd-cert", pair.certificate, "--etcd-key", pair.key)
    assert ran.status == 2 and f"the key {pair.key} has mode 0644" in ran.err and "chmod" in ran.err, ran
    for text in ("etcd://,/kv", "etcds://a:2379,/kv", "etcd:///kv", "etcds://a:2379"):
        ran = try_to_join(programs, text)
        assert ran.status == 2 and "is not an etcd prefix" in ran.err, ran


def test_a_wrong_user_is_refused_with_a_sentence(programs: Programs) -> None:
    etcd = Secured(programs)
    root = etcd.protect()
    for ran in refusals(programs, etcd.prefix, *etcd.ca):
        assert "give --etcd-user and --etcd-password-file" in ran.err, ran
    etcd.password.write_text("wrong")
    for ran in refusals(programs, etcd.prefix, *etcd.user):
        assert "refuses user kv: check --etcd-user, and the password in" in ran.err, ran
    etcd.password.write_text("secret")
    root.call("auth/role/delete", role="servers")
    for ran in refusals(programs, etcd.prefix, *etcd.user):
        assert "user kv may not read and write the keys below /kv/" in ran.err, ran


def looks_on(programs: Programs, member: Program) -> None:
    """Wait until a look that begins after now was answered."""
    before = int(facts_of(programs, member)["cluster_looks"])
    # One look may have begun before.
    wait_until(lambda: int(facts_of(programs, member)["cluster_looks"]) >= before + 2, "it looks at the members")


def test_a_member_goes_on_when_its_tokens_end_and_when_its_password_changes(programs: Programs) -> None:
    etcd = Secured(programs)
    root = etcd.protect()
    member = join(programs, etcd.prefix, *etcd.user, "--join-lease-s", LEASE_S)
    until_all_slots_have_owners(programs, [member])
    working = programs.start("kv_client", etcd.prefix, *etcd.user, stdin=subprocess.PIPE)
    say(working, "SET key value", "GET key")
    wait_until(lambda: working.out == "value\n", "the client works", alive=working)

    root.call("auth/user/changepw", name="kv", password="new")  # this drops the tokens of the user
    etcd.password.write_text("new")
    looks_on(programs, member)
    assert facts_of(programs, member)["cluster_lapses"] == "0"
    other = join(programs, etcd.prefix, *etcd.user, "--join-lease-s", LEASE_S)
    until_a_client_uses(programs, working, other)

    root.call("auth/user/changepw", name="kv", password="newer")
    wait_until(lambda: "refuses user kv" in member.err, "the member says what is wrong", alive=member)
    etcd.password.write_text("newer")
    wait_until(lambda: "etcd answers again" in member.err, "it finds the new password", alive=member)
    assert member.err.count("refuses user kv") == 1, member.err


def test_a_token_that_has_expired_is_replaced(programs: Programs) -> None:
    """Etcd prolongs a token that is used: here each look at the members comes too late for that."""
    etcd = Secured(programs, "--auth-token-ttl", 1)
    root = etcd.protect()
    member = join(programs, etcd.prefix, *etcd.user, "--join-lease-s", LEASE_S)
    looks_on(programs, member)
    assert facts_of(programs, member)["cluster_lapses"] == "0" and member.err == "", member.err
    with pytest.raises(urllib.error.HTTPError) as refused:
        root.call("auth/user/list")
    assert b"invalid auth token" in refused.value.read()


def test_a_user_for_an_etcd_without_users_is_no_mistake(programs: Programs) -> None:
    etcd = Secured(programs)
    etcd.password.write_text("secret")
    member = join(programs, etcd.prefix, *etcd.user, "--join-lease-s", LEASE_S)
    etcd.protect()
    looks_on(programs, member)
    assert facts_of(programs, member)["cluster_lapses"] == "0" and member.err == "", member.err


def say(working: Program, *words: str) -> None:
    assert working.process.stdin is not None
    working.process.stdin.write("".join(f"{line}\n" for line in words).encode())
    working.process.stdin.flush()


def until_a_client_uses(programs: Programs, working: Program, member: Program) -> None:
    """Wait until a member that has just joined gets keys of this client."""

    def has_keys() -> bool:
        say(working, *(f"SETEX key{i} 1h v" for i in range(20)))
        return int(facts_of(programs, member)["keys"]) > 0

    wait_until(has_keys, "the client knows the other member", alive=working)


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "hangs"])
def test_a_member_and_a_client_go_on_when_a_member_of_etcd_fails(programs: Programs, fault: signal.Signals) -> None:
    etcds = start_members(programs, 3)
    prefix = prefix_of([url for _, url in etcds])
    member = join(programs, prefix, "--join-lease-s", LEASE_S)
    until_all_slots_have_owners(programs, [member])
    working = programs.start("kv_client", prefix, stdin=subprocess.PIPE)
    say(working, "SET key value", "GET key")
    wait_until(lambda: working.out == "value\n", "the client works", alive=working)

    if fault == signal.SIGSTOP:
        stop(etcds[0][0].pid)
    else:
        etcds[0][0].kill()
    wait_until(lambda: f"{etcds[1][1]} answers" in member.err, "the next one has taken over", alive=member)
    looks_on(programs, member)
    assert facts_of(programs, member)["cluster_lapses"] == "0"
    other = join(programs, prefix, "--join-lease-s", LEASE_S)
    until_a_client_uses(programs, working, other)
    assert other.end().status == 0 and member.end().status == 0


def test_one_member_of_etcd_is_enough_to_open(programs: Programs) -> None:
    etcds = start_members(programs, 3)
    prefix = prefix_of([url for _, url in etcds])
    etcds[0][0].kill()
    until_all_slots_have_owners(programs, [join(programs, prefix)])
    ran = client(programs, prefix, "SET key value", "GET key")
    assert ran.status == 0 and ran.out == "value\n", ran
    for program, _ in etcds[1:]:
        program.kill()
    ran = client(programs, prefix, "GET key")
    assert ran.status == 1 and all(url in ran.err for _, url in etcds), ran


def test_a_client_without_etcd_says_so_when_an_operation_fails(programs: Programs) -> None:
    ((etcd, url),) = start_members(programs, 1)
    member = join(programs, prefix_of([url]))
    until_all_slots_have_owners(programs, [member])
    working = programs.start("kv_client", prefix_of([url]), "--timeout-ms", 3000, stdin=subprocess.PIPE)
    say(working, "SET key value", "GET key")
    wait_until(lambda: working.out == "value\n", "the client works", alive=working)
    etcd.kill()
    member.kill()
    say(working, "GET key")
    wait_until(lambda: f"etcd at {url}" in working.err, "the client names etcd", alive=working)
