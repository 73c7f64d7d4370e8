// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kept_errno.h"
#include "base/repeat_filter.h"
#include "base/spin_lock.h"
#include "base/without_sigpipe.h"

namespace verbena::log {
namespace {

constexpr std::array<const char*, 4> names = {"error", "warn", "info", "debug"};

// One write(2), so that lines of several threads and processes do not mix. A reader that does not
// read must not stop the NIC: such a line is lost.
void write_line(std::string_view line) {
	pollfd standard_error{.fd = STDERR_FILENO, .events = POLLOUT};
	if (poll(&standard_error, 1, 0) != 1 || !(standard_error.revents & POLLOUT)) return;
	WithoutSigpipe guard;
	if (write(STDERR_FILENO, line.data(), line.size()) < 0 && errno == EPIPE) guard.take_pending();
}

// The text of a line. It is cut off so that its end always fits.
class Line {
public:
	[[gnu::format(printf, 2, 0)]] void append(const char* format, va_list arguments) {
		append_within(bytes_.size() - end_max, format, arguments);
	}
	[[gnu::format(printf, 2, 3)]] void append(const char* format, ...) {
		va_list arguments;
		va_start(arguments, format);
		append_within(bytes_.size() - end_max, format, arguments);
		va_end(arguments);
	}
	[[gnu::format(printf, 2, 3)]] void append_end(const char* format, ...) {
		va_list arguments;
		va_start(arguments, format);
		append_within(bytes_.size(), format, arguments);
		va_end(arguments);
	}
	std::string_view text() const { return {bytes_.data(), size_}; }

private:
	static constexpr std::size_t end_max = 40;  // the count of repetitions and the newline

	[[gnu::format(printf, 3, 0)]] void append_within(std::size_t limit, const char* format, va_list arguments) {
		const std::size_t room = limit - size_;
		const int wanted = vsnprintf(bytes_.data() + size_, room, format, arguments);
		if (wanted > 0) size_ += std::min(static_cast<std::size_t>(wanted), room - 1);
	}

	std::array<char, 512> bytes_;
	std::size_t size_ = 0;
};

constinit SpinLock filter_lock;
constinit RepeatFilter filter;

// If another thread has the lock, or had it at a fork, the line is printed without a look at the
// filter.
std::optional<std::uint32_t> admit(std::string_view text) {
	if (!filter_lock.try_lock()) return 0;
	const auto admitted = filter.admit(text, monotonic_now());
	filter_lock.unlock();
	return admitted;
}

[[gnu::format(printf, 2, 0)]] void print(Level level, const char* format, va_list arguments, const char* way_out = "") {
	const KeptErrno kept;
	Line line;
	line.append("verbena: %s: ", names[static_cast<std::size_t>(level)]);
	if (level == Level::debug) {
		const Nanoseconds now = monotonic_now();
		line.append("%llu.%06llu [%ld] ", static_cast<unsigned long long>(now / 1'000'000'000),
			static_cast<unsigned long long>(now / 1000 % 1'000'000), syscall(SYS_gettid));
	}
	line.append(format, arguments);
	line.append("%s", way_out);
	if (level != Level::debug) {  // each line of debug has its own time
		const auto left_out = admit(line.text());
		if (!left_out) return;
		if (*left_out != 0) line.append_end(" (and %u times before)", *left_out);
	}
	line.append_end("\n");
	write_line(line.text());
}

}  // namespace

std::optional<Level> level_named(std::string_view name) {
	const auto* const found = std::ranges::find(names, name);
	if (found == names.end()) return std::nullopt;
	return static_cast<Level>(found - names.begin());
}

std::uint8_t detail::read_level() {
	const char* const wanted = std::getenv("VERBENA_LOG");
	const bool given = wanted != nullptr && *wanted != '\0';
	const auto named = given ? level_named(wanted) : std::nullopt;
	const auto value = static_cast<std::uint8_t>(named.value_or(Level::error));
	std::uint8_t expected = unread;
	const bool first = lowest.compare_exchange_strong(expected, value, std::memory_order_relaxed);
	if (first && given && !named)
		error("VERBENA_LOG=%s is none of %s, so only errors are printed", wanted, level_names);
	return value;
}

#define VERBENA_LOG_FUNCTION(name)             \
	void name(const char* format, ...) {       \
		if (!enabled(Level::name)) return;     \
		va_list arguments;                     \
		va_start(arguments, format);           \
		print(Level::name, format, arguments); \
		va_end(arguments);                     \
	}
VERBENA_LOG_FUNCTION(error)
VERBENA_LOG_FUNCTION(warn)
VERBENA_LOG_FUNCTION(info)
VERBENA_LOG_FUNCTION(debug)
#undef VERBENA_LOG_FUNCTION

void answer(const char* format, ...) {
	const KeptErrno kept;
	Line line;
	line.append("verbena: ");
	va_list arguments;
	va_start(arguments, format);
	line.append(format, arguments);
	va_end(arguments);
	line.append_end("\n");
	write_line(line.text());
}

int refuse(int error, const char* format, ...) {
	const bool full = error == EMFILE || error == ENFILE;
	const Level level = full ? Level::error : Level::info;
	if (const auto keep = keep_reason.load(std::memory_order_relaxed)) {
		Line line;
		va_list arguments;
		va_start(arguments, format);
		line.append(format, arguments);
		va_end(arguments);
		keep(error, line.text());
	}
	if (enabled(level)) {
		va_list arguments;
		va_start(arguments, format);
		print(level, format, arguments, full ? "; raise the limit of descriptors (ulimit -n)" : "");
		va_end(arguments);
	}
	return errno = error;
}

}  // namespace verbena::log
