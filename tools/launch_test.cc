// SPDX-License-Identifier: Apache-2.0
#include "tools/launch.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/debian_packages.h"

namespace verbena::tools {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A dynamic program with the loader of this machine's glibc.
Program ordinary() {
	Program program;
	program.state = Program::State::readable;
	program.name = "mine";
	program.path = "/usr/bin/mine";
	program.elf = {.type = ET_DYN,
		.machine = EM_X86_64,
		.is_64_bit = true,
		.is_little_endian = true,
		.interpreter = "/lib64/ld-linux-x86-64.so.2",
		.dynamic = true,
		.soname = "",
		.needed = {"libibverbs.so.1", "libc.so.6"}};
	return program;
}

void expect_refused(const Program& program, int exit_code, const testing::Matcher<const std::string&>& reason,
	const testing::Matcher<const std::string&>& advice) {
	const auto refusal = refusal_of(program);
	ASSERT_TRUE(refusal);
	EXPECT_EQ(refusal->exit_code, exit_code);
	EXPECT_THAT(refusal->reason, reason);
	EXPECT_THAT(refusal->advice, advice);
}

TEST(RefusalOf, AnOrdinaryProgramIsNotRefused) { EXPECT_FALSE(refusal_of(ordinary())); }

TEST(RefusalOf, AStaticProgramHasNoLoader) {
	Program program = ordinary();
	program.elf.interpreter.clear();
	expect_refused(
		program, 126, HasSubstr("/usr/bin/mine because the program is statically linked"), HasSubstr("-static-pie"));
	program.elf.dynamic = false;
	expect_refused(program, 126, HasSubstr("statically"), HasSubstr("-static"));
}

TEST(RefusalOf, TheLoaderItselfIsNotStatic) {
	Program program = ordinary();
	program.elf.interpreter.clear();
	program.elf.soname = "ld-linux-x86-64.so.2";
	EXPECT_FALSE(refusal_of(program));
}

TEST(RefusalOf, AMuslProgramHasAnotherCLibrary) {
	Program program = ordinary();
	program.elf.interpreter = "/lib/ld-musl-x86_64.so.1";
	expect_refused(program, 126, HasSubstr("musl (/lib/ld-musl-x86_64.so.1)"), HasSubstr("glibc"));
}

TEST(RefusalOf, AForeignProgramNamesItsMachine) {
	Program program = ordinary();
	program.elf.machine = EM_AARCH64;
	expect_refused(program, 126, HasSubstr("64-bit Arm"), HasSubstr("x86-64"));
}

TEST(RefusalOf, APrivilegedProgramIgnoresLdPreload) {
	Program program = ordinary();
	program.privileges = "set-user-ID";
	expect_refused(program, 126, AllOf(HasSubstr("set-user-ID"), HasSubstr("LD_PRELOAD")), HasSubstr("copy"));
	program.privileges = "file capabilities";
	expect_refused(program, 126, HasSubstr("file capabilities"), HasSubstr("as root"));
}

TEST(RefusalOf, AScriptIsNamedBesideItsInterpreter) {
	Program program = ordinary();
	program.path = "/bin/busybox";
	program.scripts = {"./start.sh"};
	program.elf.interpreter.clear();
	expect_refused(program, 126, HasSubstr("/bin/busybox, which runs ./start.sh,"), HasSubstr("dynamically"));
}

TEST(RefusalOf, AMissingLoaderIsNamed) {
	Program program = ordinary();
	program.elf.interpreter = "/no/such/ld-linux-x86-64.so.2";
	expect_refused(program, 127, HasSubstr("/no/such/ld-linux-x86-64.so.2"), HasSubstr("distribution"));
}

TEST(RefusalOf, AMissingProgramOfADebianPackageNamesThePackage) {
	Program program;
	program.name = "ib_send_bw";
	expect_refused(program, 127, HasSubstr("ib_send_bw"), HasSubstr("apt install perftest"));
	program.name = "no-such-program";
	expect_refused(program, 127, HasSubstr("no-such-program"), HasSubstr("PATH"));
	program.name = "/opt/ib_send_bw";
	expect_refused(program, 127, HasSubstr("/opt/ib_send_bw"), HasSubstr("path"));
}

TEST(RefusalOf, AnUnreadableProgramIsStarted) {
	Program program = ordinary();
	program.state = Program::State::unreadable;
	program.elf = {};
	EXPECT_FALSE(refusal_of(program));
}

TEST(DebianPackageOf, KnowsTheProgramsOfTheIssue) {
	EXPECT_EQ(debian_package_of("ibv_devinfo"), "ibverbs-utils");
	EXPECT_EQ(debian_package_of("rping"), "rdmacm-utils");
	EXPECT_EQ(debian_package_of("rdma"), "iproute2");
	EXPECT_EQ(debian_package_of("ls"), "");
}

TEST(SanitizersOf, AreTheRuntimesThatMustComeFirst) {
	Program program = ordinary();
	EXPECT_THAT(sanitizers_of(program), IsEmpty());
	program.elf.needed = {"libasan.so.8", "libubsan.so.1", "libibverbs.so.1", "libclang_rt.tsan-x86_64.so"};
	EXPECT_THAT(sanitizers_of(program), ElementsAre("libasan.so.8", "libclang_rt.tsan-x86_64.so"));
}

TEST(PreloadList, HasTheNicBeforeTheUsersLibraries) {
	EXPECT_EQ(preload_list({}, "/nic.so", ""), "/nic.so");
	EXPECT_EQ(preload_list({}, "/nic.so", "libjemalloc.so.2:/mine.so"), "/nic.so:libjemalloc.so.2:/mine.so");
	EXPECT_EQ(preload_list({}, "/nic.so", " a.so  b.so:"), "/nic.so:a.so:b.so");
}

TEST(PreloadList, HasSanitizersBeforeTheNic) {
	EXPECT_EQ(preload_list({"libasan.so.8"}, "/nic.so", "a.so"), "libasan.so.8:/nic.so:a.so");
	// The user's choice of the runtime's file counts.
	EXPECT_EQ(preload_list({"libasan.so.8"}, "/nic.so", "a.so:/gcc/libasan.so.8"), "/gcc/libasan.so.8:/nic.so:a.so");
	EXPECT_EQ(preload_list({}, "/nic.so", "/gcc/libtsan.so.2"), "/gcc/libtsan.so.2:/nic.so");
}

TEST(PreloadList, NamesNoLibraryTwice) { EXPECT_EQ(preload_list({}, "/nic.so", "/nic.so:a.so:a.so"), "/nic.so:a.so"); }

TEST(SanitizerOptions, NameTheFileUnlessTheUserHasOne) {
	EXPECT_EQ(sanitizer_options("/s", ""), "suppressions=/s");
	EXPECT_EQ(sanitizer_options("/s", "halt_on_error=1"), "suppressions=/s:halt_on_error=1");
	EXPECT_EQ(sanitizer_options("/s", "suppressions=mine halt_on_error=1"), "suppressions=mine halt_on_error=1");
}

TEST(LibraryPath, HasTheFolderInFront) {
	EXPECT_EQ(library_path("/nic", ""), "/nic");
	EXPECT_EQ(library_path("/nic", "/mine"), "/nic:/mine");
	EXPECT_EQ(library_path("/nic", "/nic:/mine"), "/nic:/mine");
	EXPECT_EQ(library_path("/nic", "/nic"), "/nic");
}

}  // namespace
}  // namespace verbena::tools
