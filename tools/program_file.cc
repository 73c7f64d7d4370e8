// SPDX-License-Identifier: Apache-2.0
#include "tools/program_file.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <sstream>

namespace verbena::tools {
namespace {

// The kernel refuses longer chains of scripts (ELOOP).
constexpr std::size_t scripts_max = 5;
// The kernel looks at this much of a script's first line.
constexpr std::size_t first_line_max = 255;

class OpenFile {
public:
	explicit OpenFile(const std::string& path)
		: fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {}
	~OpenFile() {
		if (fd_ >= 0) close(fd_);
	}
	OpenFile(const OpenFile&) = delete;
	OpenFile& operator=(const OpenFile&) = delete;
	int get() const { return fd_; }

private:
	int fd_;
};

bool is_regular(const std::string& path) {
	struct stat status;
	return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool may_execute(const std::string& path) {
	return is_regular(path) && faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

// Sets the path and the state as execvp(3) would find them: a name with a slash is a path, any
// other is looked up in each folder of PATH; a file without permission does not end the search.
void find(Program& program) {
	const auto take = [&](const std::string& path) {
		if (may_execute(path)) {
			program.path = path;
			program.state = Program::State::readable;
			return true;
		}
		struct stat status;
		if (program.path.empty() && stat(path.c_str(), &status) == 0) {
			program.path = path;
			program.state = Program::State::not_executable;
			program.problem = S_ISDIR(status.st_mode) ? "is a folder"
				: !S_ISREG(status.st_mode)            ? "is not a regular file"
													  : "is not executable (chmod +x makes it so)";
		}
		return false;
	};
	if (program.name.empty()) return;
	if (program.name.contains('/')) {
		take(program.name);
		return;
	}
	const char* const path = std::getenv("PATH");
	// An empty element, also one after a last colon, names the current folder.
	const std::string text = path != nullptr ? path : "/bin:/usr/bin";
	for (std::size_t begin = 0; begin <= text.size();) {
		const std::size_t end = std::min(text.find(':', begin), text.size());
		const std::string folder = text.substr(begin, end - begin);
		if (take(folder.empty() ? program.name : folder + '/' + program.name)) break;
		begin = end + 1;
	}
	// A folder of that name is no answer: the shell says "not found" too.
	if (program.state == Program::State::not_executable && std::filesystem::is_directory(program.path)) {
		program.path.clear();
		program.state = Program::State::not_found;
	}
	if (program.state == Program::State::readable) program.problem.clear();
}

std::vector<std::string> words_of(const std::string& text) {
	std::istringstream stream(text);
	return {std::istream_iterator<std::string>(stream), {}};
}

// The words that the first line of a script runs: the interpreter and at most one argument.
// Nothing if the file is no script.
std::optional<std::vector<std::string>> interpreter_of(int fd) {
	std::array<char, first_line_max> bytes;
	const ssize_t got = pread(fd, bytes.data(), bytes.size(), 0);
	if (got < 2 || bytes[0] != '#' || bytes[1] != '!') return std::nullopt;
	std::string line(bytes.data() + 2, static_cast<std::size_t>(got) - 2);
	line.resize(std::min({line.find('\n'), line.find('\0'), line.size()}));
	const std::string blanks = " \t";
	const auto begin = line.find_first_not_of(blanks);
	if (begin == line.npos) return std::nullopt;
	const auto end = std::min(line.find_first_of(blanks, begin), line.size());
	std::vector<std::string> words{line.substr(begin, end - begin)};
	const auto argument = line.find_first_not_of(blanks, end);
	if (argument != line.npos) words.push_back(line.substr(argument, line.find_last_not_of(blanks) - argument + 1));
	return words;
}

// The words that env(1) runs; empty if it runs no program.
std::vector<std::string> command_of_env(std::vector<std::string> words) {
	words.erase(words.begin());
	while (!words.empty()) {
		const std::string word = words.front();
		words.erase(words.begin());
		if (word == "--") continue;
		if (word.starts_with("-S") || word.starts_with("--split-string=")) {
			auto split = words_of(word.substr(word.starts_with("-S") ? 2 : std::strlen("--split-string=")));
			words.insert(words.begin(), split.begin(), split.end());
			continue;
		}
		if (word == "-u" || word == "-C") {
			if (!words.empty()) words.erase(words.begin());
			continue;
		}
		if (word.starts_with('-') || word.contains('=')) continue;
		words.insert(words.begin(), word);
		break;
	}
	return words;
}

std::string privileges_of(const Program& program, int fd) {
	struct stat status;
	struct statvfs volume;
	if (fstat(fd, &status) != 0) return "";
	if (fstatvfs(fd, &volume) == 0 && (volume.f_flag & ST_NOSUID)) return "";
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return "";
	// The loader drops LD_PRELOAD if the kernel sets AT_SECURE: the effective user or group is not
	// the real one, or a user other than root gets capabilities.
	if ((status.st_mode & S_ISUID) && status.st_uid != getuid()) return "set-user-ID";
	constexpr mode_t set_group = S_ISGID | S_IXGRP;
	if ((status.st_mode & set_group) == set_group && status.st_gid != getgid()) return "set-group-ID";
	std::array<std::byte, 64> attribute;
	const ssize_t size = getxattr(program.path.c_str(), "security.capability", attribute.data(), attribute.size());
	if (getuid() != 0 && size > 0 && grants_capabilities(std::span(attribute).first(static_cast<std::size_t>(size))))
		return "file capabilities";
	return "";
}

Program look_through(std::span<const std::string> command, std::vector<std::string> scripts);

// The program that runs `path` in place of the kernel: `words` and then the file.
Program look_at_interpreter(std::vector<std::string> words, const std::string& path, std::vector<std::string> scripts) {
	scripts.push_back(path);
	if (scripts.size() > scripts_max) {
		Program program;
		program.name = program.path = path;
		program.state = Program::State::not_executable;
		program.problem = "is a script whose interpreter is a script, and so on: the kernel allows five";
		program.scripts = std::move(scripts);
		return program;
	}
	words.push_back(path);
	return look_through(words, std::move(scripts));
}

Program look_through(std::span<const std::string> command, std::vector<std::string> scripts) {
	Program program;
	program.name = command.front();
	find(program);
	program.scripts = std::move(scripts);
	if (program.state != Program::State::readable) return program;

	if (std::filesystem::path(program.path).filename() == "env") {
		const auto words = command_of_env({command.begin(), command.end()});
		if (!words.empty()) return look_through(words, std::move(program.scripts));
	}
	const OpenFile file(program.path);
	if (file.get() < 0) {
		program.state = Program::State::unreadable;
		program.problem = std::strerror(errno);
		return program;
	}
	if (auto words = interpreter_of(file.get()))
		return look_at_interpreter(std::move(*words), program.path, std::move(program.scripts));
	auto elf = read_elf(file.get());
	if (!elf) {
		// execvp(3) gives a file that the kernel does not know to the shell.
		std::array<char, SELFMAG> magic{};
		const bool is_elf = pread(file.get(), magic.data(), magic.size(), 0) == SELFMAG &&
			std::memcmp(magic.data(), ELFMAG, SELFMAG) == 0;
		if (!is_elf) return look_at_interpreter({"/bin/sh"}, program.path, std::move(program.scripts));
		program.state = Program::State::not_executable;
		program.problem = elf.error();
		return program;
	}
	program.elf = std::move(*elf);
	if (program.elf.type != ET_EXEC && program.elf.type != ET_DYN) {
		program.state = Program::State::not_executable;
		program.problem = "is an ELF file, but not a program";
		return program;
	}
	program.privileges = privileges_of(program, file.get());
	return program;
}

}  // namespace

Program look(std::span<const std::string> command) { return look_through(command, {}); }

bool grants_capabilities(std::span<const std::byte> attribute) {
	const auto word = [&](std::size_t index) -> std::uint32_t {
		if (attribute.size() < (index + 1) * 4) return 0;
		std::uint32_t value = 0;
		for (std::size_t i = 4; i-- > 0;) value = value << 8 | std::to_integer<std::uint32_t>(attribute[index * 4 + i]);
		return value;
	};
	const std::uint32_t magic = word(0);
	// Pairs of permitted and inheritable; revision 1 has one, later revisions have two.
	const bool both = (magic & VFS_CAP_REVISION_MASK) != VFS_CAP_REVISION_1;
	return word(1) != 0 || (both && word(3) != 0);
}

}  // namespace verbena::tools
