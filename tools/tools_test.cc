// SPDX-License-Identifier: Apache-2.0
// Exit codes and output of the programs, with and without an RDMA device; no test needs one.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

struct Outcome {
	int code;
	std::string text;
};

// Runs a shell command in the folder of the programs; `text` is standard output and error together.
Outcome sh(const std::string& command) {
	std::FILE* pipe = popen(("cd " PROGRAMS " && { " + command + "; } 2>&1 </dev/null").c_str(), "r");
	std::string text;
	std::array<char, 4096> bytes;
	for (std::size_t n; (n = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) text.append(bytes.data(), n);
	const int status = pclose(pipe);
	return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

testing::AssertionResult exits(const std::string& command, int code, const std::string& says) {
	const Outcome outcome = sh(command);
	if (outcome.code != code)
		return testing::AssertionFailure() << command << " exits " << outcome.code << ":\n" << outcome.text;
	if (outcome.text.find(says) == outcome.text.npos)
		return testing::AssertionFailure() << command << " does not say '" << says << "':\n" << outcome.text;
	return testing::AssertionSuccess();
}

std::string file(const std::string& name, const std::string& text) {
	const std::string path = testing::TempDir() + name;
	std::ofstream(path) << text;
	return path;
}

TEST(Usage, EverySubcommandHasHelpWithExamples) {
	for (const char* command : {"./verbena --help", "./verbena run --help", "./verbena devices --help",
			 "./verbena doctor --help", "./verbena bench rcud --help", "./verbena check --help", "./ud_server --help",
			 "./ud_client --help", "./rc_server --help", "./rc_client --help"})
		EXPECT_TRUE(exits(command, 0, "Example")) << command;
}

TEST(Usage, AMistakeExitsWithTwoAndNamesIt) {
	EXPECT_TRUE(exits("./verbena", 2, ""));
	EXPECT_TRUE(exits("./verbena dance", 2, "subcommand"));
	EXPECT_TRUE(exits("./verbena run", 2, "command"));
	EXPECT_TRUE(exits("./verbena run --", 2, "command"));
	EXPECT_TRUE(exits("./verbena run --fast ls", 2, "--fast"));
	EXPECT_TRUE(exits("./verbena check", 2, "file"));
	EXPECT_TRUE(exits("./verbena bench rcud --sizes 12x", 2, "12x"));
	EXPECT_TRUE(exits("./verbena bench rcud --sizes 64:32", 2, "backwards"));
	EXPECT_TRUE(exits("./verbena bench rcud --sizes 1G", 2, "not in range 1 to 64M"));
	EXPECT_TRUE(exits("./verbena bench rcud --windows 0", 2, "'0'"));
	EXPECT_TRUE(exits("./verbena bench rcud --windows 8192", 2, "not in range 1 to 4096"));
	EXPECT_TRUE(exits("./verbena bench rcud --modes rc,tcp", 2, "tcp"));
	EXPECT_TRUE(exits("./verbena bench rcud --ops poke", 2, "poke not in {send,write,read}"));
	EXPECT_TRUE(exits("./verbena bench rcud --window-mode both", 2, "both"));
	EXPECT_TRUE(exits("./verbena bench rcud --ud-oversize maybe", 2, "maybe"));
	EXPECT_TRUE(exits("./verbena bench rcud --reps 0", 2, "reps"));
	EXPECT_TRUE(exits("./verbena bench rcud --connect magic", 2, "magic"));
	EXPECT_TRUE(exits("./verbena bench rcud --server --peer host", 2, "peer"));
	EXPECT_TRUE(exits("./ud_server --msg lots", 2, "lots"));
}

TEST(UdClient, RefusesWrongArgumentsBeforeLookingForADevice) {
	EXPECT_TRUE(exits("./ud_client", 2, "server_gid"));
	EXPECT_TRUE(exits("./ud_client zz93:16d3:: 13110 0x11111111", 2, "'zz93:16d3::' is not a GID"));
	EXPECT_TRUE(exits("./ud_client fe80::1 16777216 0x11111111", 2, "QPN"));
	EXPECT_TRUE(exits("./ud_client fe80::1 13110 key", 2, "Q_Key"));
	EXPECT_TRUE(exits("./ud_client fe80::1 13110 0x11111111 --iters many", 2, "many"));
}

TEST(Run, BecomesTheProgramWithTheNicPreloaded) {
	if (!std::filesystem::exists(PROGRAMS "/libverbena-nic.so")) {
		EXPECT_TRUE(exits("./verbena run -- true", 127, "libverbena-nic.so"));
		return;
	}
	EXPECT_TRUE(exits("./verbena run -- sh -c 'echo $LD_PRELOAD; exit 7'", 7, "libverbena-nic.so"));
	EXPECT_TRUE(exits("./verbena run -- echo --help -x -- y", 0, "--help -x -- y\n"));
	EXPECT_TRUE(exits("./verbena run echo -n a", 0, "a"));
	EXPECT_TRUE(exits("./verbena run -- /no/such/program", 127, "/no/such/program"));
}

TEST(Check, ThePublishedTableFailsOnlyWhenStrict) {
	EXPECT_TRUE(exits("./verbena check " PUBLISHED "/rc_vs_ud.csv", 0, "36 rows: 2 invalid, 1 suspect"));
	EXPECT_TRUE(exits("./verbena check --strict " PUBLISHED "/rc_vs_ud.csv", 3, "UD 8192 B window 64"));
	EXPECT_TRUE(exits("./verbena check --json " PUBLISHED "/rc_vs_ud.csv", 0, "\"suspect\": 1"));
}

TEST(Check, AFileThatIsNoTableIsAFailure) {
	EXPECT_TRUE(exits("./verbena check /no/such/file", 1, "/no/such/file"));
	EXPECT_TRUE(exits("./verbena check /", 1, "cannot read /"));
	EXPECT_TRUE(exits("./verbena check /dev/zero", 1, "it is neither a file nor a pipe"));
	EXPECT_TRUE(exits("./verbena check " + file("deep.json", R"({"rows":)" + std::string(300'000, '[')), 1,
		"more than 64 lists within each other"));
	EXPECT_TRUE(exits("./verbena check " + file("empty.csv", ""), 1, "empty.csv"));
	EXPECT_TRUE(
		exits("./verbena check " + file("half.csv", "experiment,mode,msg,window,iters,mops,gib\nmsg_sweep,RC,32\n"), 1,
			"line 2"));
	EXPECT_TRUE(exits("./verbena check " PUBLISHED "/claims.csv", 1, "no column"));
}

TEST(Check, PrintsNothingThatCommandsATerminal) {
	const std::string head = "experiment,mode,msg,window,iters,mops,gib\n";
	EXPECT_TRUE(exits("./verbena check " + file("escape.csv", head + "msg_sweep,\x1b[2JRC,64,4,1,1,0.0596\n"), 0,
		"\\x1b[2JRC 64 B window 4"));
	EXPECT_TRUE(
		exits("./verbena check " + file("bytes.csv", head + "msg_sweep,R\xff,64,4,1,1,0.0596\n"), 1, "not UTF-8 text"));
}

TEST(Report, WithoutThePackageSaysWhereItLooked) {
	EXPECT_TRUE(exits("VERBENA_REPORT=/nowhere ./verbena report x.csv", 2, "/nowhere"));
}

TEST(Version, IsPrinted) { EXPECT_TRUE(exits("./verbena version", 0, "verbena 0.")); }

TEST(Doctor, ExaminesWhatTheNicNeeds) {
	const Outcome outcome = sh("./verbena doctor --json");
	EXPECT_TRUE(outcome.code == 0 || outcome.code == 1) << outcome.text;
	for (const char* subject : {"memfd_create", "eventfd", "4791", "GSO", "ulimit -n", "RDMA devices"})
		EXPECT_NE(outcome.text.find(subject), std::string::npos) << subject;
}

TEST(WithoutADevice, EveryProgramSaysSoAndFails) {
	// The real libibverbs is loaded before ours, so that only the kernel's devices are left.
	const std::string bare = "LD_PRELOAD=libibverbs.so.1 ";
	if (sh(bare + "./verbena devices").code == 0) GTEST_SKIP() << "this machine has an RDMA device of its own";
	for (const char* command :
		{"./verbena devices", "./ud_server", "./ud_client fe80::1 13110 0x11111111", "./verbena bench rcud --iters 10"})
		EXPECT_TRUE(exits(bare + command, 1, "no RDMA device")) << command;
}

TEST(Bench, AnUnreachablePeerIsAFailure) {
	EXPECT_TRUE(exits("./verbena bench rcud --peer no-such-host.invalid", 1, "no-such-host.invalid"));
}

}  // namespace
