// SPDX-License-Identifier: Apache-2.0
// The lines of a file, a pipe or a terminal, for a program with an event loop: while there is no
// line yet, the loop goes on.
//
// Threads: those of the loop.
// Errors: one that read(2) reports ends the lines; error() has it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "lib/async/loop.h"
#include "lib/async/task.h"

namespace verbena::tools {

class LineReader {
public:
	// `file`: "-" is standard input, whose descriptor stays open.
	LineReader(async::Loop& loop, const std::string& file) {
		const int fd = file == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(file.c_str(), O_RDONLY | O_CLOEXEC);
		if (fd < 0) error_ = errno;
		else if (may_block(fd)) waiting_.emplace(loop, fd);
		else file_ = Descriptor(fd);
	}

	// 0, or why the file cannot be read, or be read further.
	int error() const { return error_; }

	// Takes a line that was read already, without its end.
	bool take(std::string& line) {
		const std::size_t end = text_.find('\n', searched_);
		searched_ = end == text_.npos ? text_.size() : end + 1;
		if (end == text_.npos) return false;
		line.assign(text_, begin_, end - begin_);
		begin_ = end + 1;
		return true;
	}

	// Reads until there is a line, and takes it. False: there is none any more.
	async::Task<bool> read(std::string& line) {
		while (error_ == 0 && !ended_) {
			if (take(line)) co_return true;
			while (waiting_ && !is_readable(waiting_->fd())) {
				waiting_->readable = false;
				// The loop has no event for bytes that came before the line above.
				if (!is_readable(waiting_->fd())) co_await async::Park(waiting_->readers);
			}
			read_some(waiting_ ? waiting_->fd() : file_.get());
		}
		if (begin_ == text_.size() || error_ != 0) co_return false;
		line.assign(text_, begin_);
		begin_ = text_.size();
		co_return true;
	}

private:
	// A pipe, a socket or a terminal; the loop cannot wait for others.
	static bool may_block(int fd) {
		struct stat facts{};
		if (fstat(fd, &facts) != 0) return false;
		return S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode) || isatty(fd) == 1;
	}
	static bool is_readable(int fd) {
		pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
		return ::poll(&one, 1, 0) == 1;
	}
	// Appends what one read returns.
	void read_some(int fd) {
		constexpr std::size_t at_once = 64 << 10;
		text_.erase(0, begin_);
		searched_ -= begin_;
		begin_ = 0;
		const std::size_t before = text_.size();
		text_.resize(before + at_once);
		const ssize_t count = ::read(fd, text_.data() + before, at_once);
		if (count < 0 && errno != EINTR && errno != EAGAIN) error_ = errno;
		ended_ = count == 0;
		text_.resize(before + (count > 0 ? static_cast<std::size_t>(count) : 0));
	}

	Descriptor file_;
	std::optional<async::Descriptor> waiting_;  // instead of `file_`
	std::string text_;  // from `begin_` on, the bytes that were read and not taken
	std::size_t begin_ = 0, searched_ = 0;  // before `searched_` there is no end of a line
	int error_ = 0;
	bool ended_ = false;
};

}  // namespace verbena::tools
