// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/read/trace_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "nic/trace/read/text.h"
#include "nic/trace/trace.h"

namespace verbena::trace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The process's trace, which all tests of this file share: a process has one.
const std::string& folder() {
	static const std::string path = [] {
		std::string name = std::filesystem::temp_directory_path() / "verbena-trace-test-XXXXXX";
		if (mkdtemp(name.data()) == nullptr) std::abort();
		setenv("VERBENA_TRACE", name.c_str(), 1);
		setenv("VERBENA_TRACE_BYTES", "1048576", 1);
		std::atexit([] { std::filesystem::remove_all(std::getenv("VERBENA_TRACE")); });
		if (!begin()) std::abort();
		return name;
	}();
	return path;
}

Trace read() {
	auto trace = read_trace(folder());
	EXPECT_TRUE(trace) << trace.error();
	return trace ? *std::move(trace) : Trace{};
}

void write_verb(const char* name, const char* arguments, const char* result, int error, std::uint64_t time) {
	const std::string bytes = std::string(name) + '\0' + arguments + '\0' + result;
	write_text({.time = time, .kind = Kind::verb, .address = 1000, .number = static_cast<std::uint32_t>(error)}, bytes);
}

TEST(TraceFiles, AnEventIsReadAsItWasWritten) {
	folder();
	write({.kind = Kind::posted_send, .code = 2, .qpn = 0x1007, .id = 42, .length = 64});
	const Trace trace = read();
	ASSERT_EQ(trace.processes.size(), 1u);
	EXPECT_EQ(trace.processes[0].pid, static_cast<std::uint32_t>(getpid()));
	ASSERT_FALSE(trace.events.empty());
	EXPECT_EQ(trace.events.back().record.id, 42u);
	EXPECT_THAT(render(trace, Format::text), HasSubstr("qp 0x1007 posts SEND wr_id 42, 64 bytes"));
}

TEST(TraceFiles, ARefusedCallHasTheReasonThatItsThreadWroteDuringTheCall) {
	folder();
	const std::uint64_t time = std::uint64_t{1} << 62;  // later than all others
	write_verb("ibv_modify_qp", "qp 0x1", "22", 22, time);
	write_text({.time = time + 500, .kind = Kind::refusal, .number = 22}, "INIT to RTR needs IBV_QP_AV");
	const Trace trace = read();
	EXPECT_THAT(
		render(trace, Format::text), HasSubstr("ibv_modify_qp(qp 0x1) = 22 EINVAL: INIT to RTR needs IBV_QP_AV\n"));
	EXPECT_THAT(render(trace, Format::json, {.errors = true}), HasSubstr(R"("reason":"INIT to RTR needs IBV_QP_AV")"));
}

TEST(TraceFiles, ARequestHasTheTimesSinceItsPostAndItsCompletion) {
	folder();
	const std::uint64_t time = std::uint64_t{1} << 61;
	write({.time = time, .kind = Kind::posted_send, .code = 2, .qpn = 0x2007, .id = 7});
	write({.time = time + 2000, .kind = Kind::finished, .code = 2, .flags = flag_signaled, .qpn = 0x2007, .id = 7});
	write({.time = time + 2500, .kind = Kind::polled, .qpn = 0x2007, .id = 7});
	const std::string text = render(read(), Format::text, {.queue_pairs = {0x2007}});
	EXPECT_THAT(text, AllOf(HasSubstr("2.0 us after its post"), HasSubstr("500 ns after its completion")));
}

TEST(TraceFiles, AFilterNamesTheWordThatItDoesNotKnow) {
	EXPECT_THAT(parse_filter("errors,qb=3").error(), HasSubstr("'qb=3'"));
	EXPECT_THAT(parse_filter("qp=0x").error(), HasSubstr("'qp=0x'"));
	EXPECT_EQ(parse_filter("qp=0x10,qp=3,verb=reg_mr").value().queue_pairs, (std::vector<std::uint32_t>{16, 3}));
}

TEST(TraceFiles, AFullRingDropsItsOldestEventsAndCountsThem) {
	folder();
	const std::string text(300, 'x');
	for (int i = 0; i < 100'000; ++i) write_text({.kind = Kind::why, .id = static_cast<std::uint64_t>(i)}, text);
	const Trace trace = read();
	EXPECT_GE(trace.written(), 100'000u);
	EXPECT_EQ(trace.written() - trace.dropped(), trace.events.size());
	EXPECT_GT(trace.dropped(), 90'000u);
	EXPECT_EQ(trace.events.back().record.id, 99'999u);
	for (const Event& event : trace.events) EXPECT_EQ(event.bytes, text);
	EXPECT_THAT(render(trace, Format::text), HasSubstr("the oldest "));
	EXPECT_EQ(explanations(trace).size(), 1u);  // each once
}

TEST(TraceFiles, AFileThatAProgramHasOverwrittenIsReadWithoutHarm) {
	std::string copy = folder() + "/9-9.trace";
	std::filesystem::copy_file(folder() + "/" + std::to_string(getpid()) + "-0.trace", copy);
	for (const std::size_t at : {8u, 16u, 24u, 4096u, 4112u, 4142u}) {
		std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
		file.seekp(static_cast<std::streamoff>(at));
		for (int i = 0; i < 4096; ++i) file.put(static_cast<char>(i * 37 + 11));
		file.close();
		const auto trace = read_trace(copy);
		ASSERT_TRUE(trace);
		render(*trace, Format::text);
		render(*trace, Format::json);
	}
	std::filesystem::remove(copy);
}

TEST(TraceFiles, ExplanationsAreFoundAgainInBothFormats) {
	Trace trace{.processes = {{.pid = 1, .program = "p", .began = 0}}, .events = {}};
	trace.events.push_back({.record = {.time = 5, .kind = Kind::why}, .process = 0, .bytes = "it is so", .reason = {}});
	const std::vector<std::string> expected{"it is so"};
	EXPECT_EQ(explanations_in(render(trace, Format::text)), expected);
	EXPECT_EQ(explanations_in(render(trace, Format::json)), expected);
	for (const char* const no_trace : {"\n", "a log\n", "{\"event\": 5}\n", "{\"events\": []}\n", "[1]\n", "{\n"})
		EXPECT_FALSE(explanations_in(no_trace)) << no_trace;
	EXPECT_TRUE(explanations_in("{\"event\": \"why\", \"text\": 7}\n"));
}

}  // namespace
}  // namespace verbena::trace
