// SPDX-License-Identifier: Apache-2.0
#include "tools/elf_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

namespace verbena::tools {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t own_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t own_machine = EM_AARCH64;
#endif

// More than any real program has; a file that claims more is not read further.
constexpr std::size_t program_headers_max = 4096;
constexpr std::size_t dynamic_entries_max = 65536;
constexpr std::size_t needed_max = 4096;
constexpr std::size_t text_max = 4096;

// Reads exactly these bytes of the file; false if the file does not have them.
bool read_at(int fd, std::uint64_t offset, void* to, std::size_t size) {
	auto* bytes = static_cast<char*>(to);
	while (size > 0) {
		if (offset > INT64_MAX) return false;
		const ssize_t got = pread(fd, bytes, size, static_cast<off_t>(offset));
		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return false;
		bytes += got;
		size -= static_cast<std::size_t>(got);
		offset += static_cast<std::uint64_t>(got);
	}
	return true;
}

// A text that ends with a zero byte; nothing if it does not end within the file and `text_max`.
std::optional<std::string> text_at(int fd, std::uint64_t offset) {
	std::string text;
	for (char piece[64]; text.size() < text_max; offset += sizeof piece) {
		if (offset > INT64_MAX) return std::nullopt;
		const ssize_t got = pread(fd, piece, sizeof piece, static_cast<off_t>(offset));
		if (got <= 0) return std::nullopt;
		const std::span read(piece, static_cast<std::size_t>(got));
		const auto end = std::ranges::find(read, '\0');
		text.append(read.begin(), end);
		if (end != read.end()) return text;
	}
	return std::nullopt;
}

// The place in the file of the byte that is at this address of the running program.
std::optional<std::uint64_t> file_offset(std::span<const Elf64_Phdr> headers, std::uint64_t address) {
	for (const Elf64_Phdr& header : headers)
		if (header.p_type == PT_LOAD && address >= header.p_vaddr && address - header.p_vaddr < header.p_filesz &&
			header.p_offset <= INT64_MAX)
			return header.p_offset + (address - header.p_vaddr);
	return std::nullopt;
}

bool read_dynamic(int fd, std::span<const Elf64_Phdr> headers, const Elf64_Phdr& dynamic, ElfFile& file) {
	const std::size_t count = std::min(dynamic.p_filesz / sizeof(Elf64_Dyn), dynamic_entries_max);
	std::vector<std::uint64_t> needed;
	std::optional<std::uint64_t> soname, strings;
	for (std::size_t i = 0; i < count; ++i) {
		Elf64_Dyn entry;
		if (dynamic.p_offset > INT64_MAX || !read_at(fd, dynamic.p_offset + i * sizeof entry, &entry, sizeof entry))
			return false;
		if (entry.d_tag == DT_NULL) break;
		if (entry.d_tag == DT_NEEDED && needed.size() < needed_max) needed.push_back(entry.d_un.d_val);
		if (entry.d_tag == DT_SONAME) soname = entry.d_un.d_val;
		if (entry.d_tag == DT_STRTAB) strings = file_offset(headers, entry.d_un.d_ptr);
	}
	if (needed.empty() && !soname) return true;
	if (!strings) return false;
	const auto text = [&](std::uint64_t offset) -> std::optional<std::string> {
		if (offset > INT64_MAX) return std::nullopt;
		return text_at(fd, *strings + offset);
	};
	for (const std::uint64_t offset : needed) {
		auto name = text(offset);
		if (!name) return false;
		file.needed.push_back(std::move(*name));
	}
	if (soname) file.soname = text(*soname).value_or("");
	return true;
}

}  // namespace

bool is_for_this_machine(const ElfFile& file) {
	return file.machine == own_machine && file.is_64_bit && file.is_little_endian;
}

std::string machine_name(const ElfFile& file) {
	switch (file.machine) {
		case EM_X86_64: return file.is_64_bit ? "x86-64" : "x32";
		case EM_386: return "32-bit x86";
		case EM_AARCH64: return "64-bit Arm";
		case EM_ARM: return "32-bit Arm";
		case EM_RISCV: return file.is_64_bit ? "64-bit RISC-V" : "32-bit RISC-V";
		case EM_PPC64: return file.is_little_endian ? "little-endian 64-bit POWER" : "64-bit POWER";
		case EM_S390: return "IBM Z";
		case EM_LOONGARCH: return "LoongArch";
		case EM_MIPS: return "MIPS";
		default: return fmt::format("machine number {}", file.machine);
	}
}

std::expected<ElfFile, std::string> read_elf(int fd) {
	unsigned char ident[EI_NIDENT];
	if (!read_at(fd, 0, ident, sizeof ident) || std::memcmp(ident, ELFMAG, SELFMAG) != 0)
		return std::unexpected("is not an ELF file");
	Elf64_Ehdr header;
	// The type and the machine are at the same place in 32-bit files.
	if (!read_at(fd, 0, &header, offsetof(Elf64_Ehdr, e_version))) return std::unexpected("is truncated");
	ElfFile file;
	file.is_64_bit = ident[EI_CLASS] == ELFCLASS64;
	file.is_little_endian = ident[EI_DATA] == ELFDATA2LSB;
	const auto in_order = [&](std::uint16_t value) {
		return file.is_little_endian ? value : static_cast<std::uint16_t>(value << 8 | value >> 8);
	};
	file.type = in_order(header.e_type);
	file.machine = in_order(header.e_machine);
	if (!is_for_this_machine(file)) return file;

	if (!read_at(fd, 0, &header, sizeof header)) return std::unexpected("is truncated");
	if (header.e_phnum == 0) return file;
	if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > program_headers_max)
		return std::unexpected("has a damaged ELF header");
	std::vector<Elf64_Phdr> headers(header.e_phnum);
	if (!read_at(fd, header.e_phoff, headers.data(), headers.size() * sizeof headers[0]))
		return std::unexpected("is truncated");
	for (const Elf64_Phdr& each : headers) {
		if (each.p_type == PT_INTERP) {
			auto path = each.p_filesz <= text_max ? text_at(fd, each.p_offset) : std::nullopt;
			if (!path) return std::unexpected("has a damaged ELF header");
			file.interpreter = std::move(*path);
		}
		if (each.p_type == PT_DYNAMIC) {
			file.dynamic = true;
			if (!read_dynamic(fd, headers, each, file)) return std::unexpected("has a damaged dynamic section");
		}
	}
	return file;
}

}  // namespace verbena::tools
