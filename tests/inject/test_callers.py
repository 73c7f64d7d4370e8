# SPDX-License-Identifier: Apache-2.0
"""The caller of a system call, read from the stack that strace prints under it."""

from callers import calls_of

RUN = "7 write(24, ..., 16) = 16\n > /usr/lib/x86_64-linux-gnu/libc.so.6(__write+0x4f) [0xf838f]\n"
LIBRDMACM = RUN + " > /usr/lib/x86_64-linux-gnu/librdmacm.so.1.3.44.0(rlisten+0xd0) [0x11e10]\n"
NIC = (
    "7 write(19, ..., 1) = -1 EINTR (Interrupted system call) (INJECTED)\n"
    " > /usr/lib/x86_64-linux-gnu/libc.so.6(syscall+0x19) [0x101829]\n"
    " > /build/libverbena-nic.so(verbena::ucma::Channel::push(std::__cxx11::list<Event>&&)+0x6c) [0x705cc]\n"
    " > /usr/lib/x86_64-linux-gnu/librdmacm.so.1.3.44.0(rdma_accept+0x298) [0xae08]\n"
)


def test_a_call_belongs_to_the_library_that_calls_the_runtime_library() -> None:
    calls = calls_of((LIBRDMACM + NIC).splitlines(keepends=True))
    assert [call.caller for call in calls] == [None, "verbena::ucma::Channel::push"]
    assert [call.injected for call in calls] == [False, True]


def test_a_call_that_the_nic_passes_on_belongs_to_librdmacm() -> None:
    passed_on = (
        "7 write(24, ..., 16) = 16\n > /usr/lib/x86_64-linux-gnu/libc.so.6(__write+0x4f) [0xf838f]\n"
        " > /build/libverbena-nic.so(verbena::ucma::(anonymous namespace)::redirected_write(int, void const*, "
        "unsigned long)+0x8c) [0x605cc]\n > /usr/lib/x86_64-linux-gnu/librdmacm.so.1.3.44.0(rpoll+0xd0) [0x11e10]\n"
    )
    assert [call.caller for call in calls_of(passed_on.splitlines(keepends=True))] == [None]


def test_occurrences_are_counted_in_each_thread() -> None:
    other_thread = NIC.replace("7 write", "8 write")
    calls = calls_of((LIBRDMACM + other_thread + NIC).splitlines(keepends=True))
    assert [call.occurrence for call in calls] == [1, 1, 2]


def test_a_call_that_another_thread_interrupts_is_counted_when_it_ends() -> None:
    first, frames = NIC.split("\n", 1)
    trace = f"7 write(19,  <unfinished ...>\n8 getpid() = 1\n7 <... write resumed>..., 1) = 1\n{frames}"
    calls = calls_of(trace.splitlines(keepends=True))
    assert [(call.name, call.occurrence) for call in calls] == [("getpid", 1), ("write", 1)]
    assert calls[1].caller == "verbena::ucma::Channel::push"
    assert "write" in first


def test_a_call_without_a_stack_counts_as_the_nics() -> None:
    assert calls_of(["7 write(19, ..., 1) = 1\n"])[0].caller == "unknown"
