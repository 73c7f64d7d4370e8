// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/unreachable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <functional>

// The lines are what a user has when a peer is not reached, so each test looks for the way out. The
// child of a death test prints them, because it reads VERBENA_LOG afresh.
namespace verbena::engine {
namespace {

using testing::AllOf;
using testing::ExitedWithCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

constexpr wire::Gid ipv4_peer = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7};
constexpr wire::Gid ipv6_peer = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
constexpr wire::Qpn destination{0xabc};

class Unreachable : public testing::Test {
protected:
	// The child starts anew: other tests of this process may have read VERBENA_LOG before.
	Unreachable() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

	static void expect_lines(const std::function<void()>& explain, const testing::Matcher<const std::string&>& lines) {
		EXPECT_EXIT(
			{
				setenv("VERBENA_LOG", "info", 1);
				explain();
				std::exit(0);
			},
			ExitedWithCode(0), lines);
	}
};

TEST_F(Unreachable, AMissingDescriptorIsNamedWithTheLimitToRaise) {
	const auto names_the_limit = AllOf(StartsWith("verbena: error: "), HasSubstr("ulimit -n"));
	expect_lines([] { explain_no_start(EMFILE); }, names_the_limit);
	expect_lines([] { explain_no_interfaces(ENFILE); }, names_the_limit);
	expect_lines([] { explain_no_wire(EMFILE); }, names_the_limit);
	expect_lines([] { explain_no_neighbour(EMFILE, "port 7"); }, AllOf(names_the_limit, HasSubstr("port 7: ")));
	expect_lines([] { explain_no_accept(ENFILE); }, names_the_limit);
}

TEST_F(Unreachable, AnAcceptThatFailedAtTheOtherProcessHasNoLineHere) {
	expect_lines([] { explain_no_accept(ECONNRESET); }, IsEmpty());
}

TEST_F(Unreachable, AStartWithoutThreadsOrMemoryNamesWhatToRaise) {
	expect_lines([] { explain_no_start(EAGAIN); }, HasSubstr("ulimit -u"));
	expect_lines([] { explain_no_start(ENOMEM); }, HasSubstr("raise the limit of the process or the container"));
	expect_lines([] { explain_no_start(EPERM); }, HasSubstr("Operation not permitted; 'verbena doctor'"));
	expect_lines([] { explain_no_interfaces(EPERM); }, HasSubstr("lists no interfaces: Operation not permitted"));
}

TEST_F(Unreachable, AProcessThatIsNotThereIsNoErrorOfTheNic) {
	expect_lines([] { explain_no_neighbour(ECONNREFUSED, "port 7"); }, StartsWith("verbena: info: port 7: no process"));
	expect_lines([] { explain_no_neighbour(ECONNRESET, "port 7"); }, StartsWith("verbena: info: port 7: its process"));
}

TEST_F(Unreachable, AStoppedProcessIsSuspectedWhenItDoesNotAnswer) {
	expect_lines([] { explain_no_neighbour(ETIMEDOUT, "port 7"); }, HasSubstr("(SIGSTOP)"));
	expect_lines(
		[] { explain_no_neighbour(EIO, "port 7"); }, HasSubstr("port 7: no link to its process: Input/output"));
}

TEST_F(Unreachable, AProcessOfAnotherUserIsNamedWithTheVariableThatAllowsLinks) {
	const auto names_the_variable = AllOf(StartsWith("verbena: error: "), HasSubstr("VERBENA_PEERS=host"));
	expect_lines([] { explain_no_neighbour(EPERM, "port 7"); }, names_the_variable);
	expect_lines([] { explain_no_neighbour(EACCES, "port 7"); }, names_the_variable);
	expect_lines([] { explain_other_user(1001, 1002, "port 7"); },
		AllOf(names_the_variable, HasSubstr("user id 1001"), HasSubstr("user id 1002")));
}

TEST_F(Unreachable, AUserWhoseShareOfLinksIsUsedUpIsNamed) {
	expect_lines([] { explain_no_neighbour(EUSERS, "port 7"); }, HasSubstr("as many links with that user"));
	expect_lines([] { explain_no_share(1001); }, StartsWith("verbena: warn: user id 1001 cannot connect"));
	expect_lines([] { explain_private(1001, "port 7"); }, HasSubstr("user id 1001 holds its public name"));
	expect_lines([] { explain_private(std::nullopt, "port 7"); }, HasSubstr("another user holds its public name"));
}

TEST_F(Unreachable, AUdpPortThatIsTakenIsNamedWithAWayOut) {
	// The line depends on the user who has the port on this machine; each has this way out.
	expect_lines([] { explain_no_wire(EADDRINUSE); },
		AllOf(HasSubstr("other hosts cannot be reached"), HasSubstr("UDP port 4791"),
			HasSubstr("run in another network namespace")));
	expect_lines([] { explain_no_wire(EPERM); }, HasSubstr("cannot be opened: Operation not permitted"));
}

TEST_F(Unreachable, PathsThatCannotExistOrAreTooManyAreNotBlamedOnThePort) {
	expect_lines([] { explain_no_wire(EINVAL); }, StartsWith("verbena: info: no path: one of the two addresses"));
	expect_lines([] { explain_no_wire(ENOSPC); },
		AllOf(HasSubstr("1,024 paths"), HasSubstr("destroy queue pairs"), Not(HasSubstr("UDP port"))));
}

TEST_F(Unreachable, ASilentPeerIsNamedByItsAddressAndItsQueuePair) {
	expect_lines([] { explain_silence(ipv4_peer, destination, 0); },
		MatchesRegex("verbena: error: 192\\.0\\.2\\.7 does not answer requests to queue pair 0xabc: .*\n"));
	expect_lines([] { explain_silence(ipv6_peer, destination, 0); }, HasSubstr("error: 2001:db8::7 does not answer"));
	expect_lines([] { explain_no_answer(ipv4_peer, 0); }, HasSubstr("192.0.2.7 does not answer requests for a conn"));
	expect_lines([] { explain_no_host(ipv6_peer); }, HasSubstr("host 2001:db8::7 cannot be reached: no host of the"));
	expect_lines([] { explain_forgery(ipv4_peer, destination); },
		MatchesRegex("verbena: warn: .* name of 192\\.0\\.2\\.7, queue pair 0xabc, was forged.*\n"));
}

TEST_F(Unreachable, WhatIcmpReportedReplacesTheGuessAboutASilentPeer) {
	const auto only_the_port = AllOf(HasSubstr("has no NIC on UDP port 4791"), Not(HasSubstr("does not answer")));
	expect_lines([] { explain_silence(ipv4_peer, destination, ECONNREFUSED); }, only_the_port);
	expect_lines([] { explain_no_answer(ipv4_peer, ECONNREFUSED); }, only_the_port);
	expect_lines([] { explain_silence(ipv4_peer, destination, EHOSTUNREACH); },
		AllOf(HasSubstr("host 192.0.2.7 cannot be reached: No route to host"), Not(HasSubstr("does not answer"))));
	expect_lines([] { std::exit(explain_icmp(ipv4_peer, 0) ? 1 : 0); }, IsEmpty());
}

TEST_F(Unreachable, EachMismatchOfAConnectionsMessageHasItsWord) {
	using enum cm::Mismatch;
	for (const auto& [what, word] :
		{std::pair{carrier, "wrong way ("}, {address, "wrong address "}, {number, "wrong sender's number "},
			{transaction, "wrong transaction id "}, {queue_pair, "wrong queue pair number "}})
		expect_lines([what = what] { explain_mismatch(what); },
			AllOf(HasSubstr(word), HasSubstr("was dropped"), HasSubstr("counter cm_mismatched")));
}

}  // namespace
}  // namespace verbena::engine
