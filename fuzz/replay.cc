// SPDX-License-Identifier: Apache-2.0
// Runs a fuzzer's function on the inputs of a corpus file: replay_NAME CORPUS.txt
//
// It takes the place of libFuzzer in builds without it, so that `make test` repeats what earlier
// fuzzing has found. A corpus file has one input in each line, as hexadecimal digits; lines that
// begin with # are comments. An input that fails ends the program, as under libFuzzer; the number
// of its line is printed.
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "nic/wire/hex.h"

extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// A fuzzer may have it.
[[gnu::weak]] int LLVMFuzzerInitialize(int* count, char*** arguments);
}

namespace {

volatile std::sig_atomic_t line_number = 0;

void name_the_line(int signal) {
	std::fprintf(stderr, "the input in line %d failed\n", static_cast<int>(line_number));
	std::signal(signal, SIG_DFL);
	std::raise(signal);
}

}  // namespace

int main(int count, char** arguments) {
	if (count != 2) {
		std::fprintf(stderr, "usage: %s CORPUS.txt\n", arguments[0]);
		return 2;
	}
	std::ifstream corpus(arguments[1]);
	if (!corpus) {
		std::fprintf(stderr, "%s: cannot be read\n", arguments[1]);
		return 2;
	}
	if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&count, &arguments);
	for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, name_the_line);
	int inputs = 0;
	for (std::string line; std::getline(corpus, line);) {
		line_number = line_number + 1;
		if (line.starts_with('#')) continue;
		// A buffer of exactly this size, so that a sanitizer notices a read past the end.
		const std::vector<std::byte> bytes = verbena::wire::hex(line);
		const auto input = std::make_unique<std::uint8_t[]>(bytes.size());
		for (std::size_t i = 0; i < bytes.size(); ++i) input[i] = std::to_integer<std::uint8_t>(bytes[i]);
		LLVMFuzzerTestOneInput(input.get(), bytes.size());
		++inputs;
	}
	std::printf("%d inputs of %s passed\n", inputs, arguments[1]);
	return inputs > 0 ? 0 : 1;  // an empty corpus checks nothing
}
