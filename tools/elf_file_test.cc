// SPDX-License-Identifier: Apache-2.0
#include "tools/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace verbena::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Bytes = std::vector<char>;

std::expected<ElfFile, std::string> read_bytes(const Bytes& bytes) {
	const int fd = memfd_create("elf_file_test", MFD_CLOEXEC);
	EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
	auto file = read_elf(fd);
	close(fd);
	return file;
}

// A small x86-64 program: a header, three program headers, a dynamic section, and texts.
struct Image {
	static constexpr std::uint64_t address = 0x400000;
	static constexpr char texts[] = "\0libasan.so.8\0libc.so.6\0/lib64/ld-linux-x86-64.so.2";
	Elf64_Ehdr header{};
	Elf64_Phdr load{}, interpreter{}, dynamic{};
	Elf64_Dyn needs_asan{}, needs_libc{}, strings{}, end{};
	char text[sizeof texts];

	Image() {
		std::memcpy(header.e_ident, ELFMAG, SELFMAG);
		header.e_ident[EI_CLASS] = ELFCLASS64;
		header.e_ident[EI_DATA] = ELFDATA2LSB;
		header.e_type = ET_DYN;
		header.e_machine = EM_X86_64;
		header.e_phoff = offsetof(Image, load);
		header.e_phentsize = sizeof(Elf64_Phdr);
		header.e_phnum = 3;
		load = {.p_type = PT_LOAD, .p_vaddr = address, .p_filesz = sizeof(Image)};
		interpreter = {.p_type = PT_INTERP, .p_offset = offsetof(Image, text) + 24, .p_filesz = 28};
		dynamic = {.p_type = PT_DYNAMIC, .p_offset = offsetof(Image, needs_asan), .p_filesz = 4 * sizeof(Elf64_Dyn)};
		needs_asan = {DT_NEEDED, {1}};
		needs_libc = {DT_NEEDED, {14}};
		strings = {DT_STRTAB, {address + offsetof(Image, text)}};
		std::memcpy(text, texts, sizeof texts);
	}
	Bytes bytes() const {
		const auto* const begin = reinterpret_cast<const char*>(this);
		return {begin, begin + offsetof(Image, text) + sizeof text};
	}
};

std::expected<ElfFile, std::string> read_changed(const std::function<void(Image&)>& change) {
	Image image;
	change(image);
	return read_bytes(image.bytes());
}

TEST(ElfFile, GivesTheLoaderAndTheNeededLibraries) {
	const auto file = read_bytes(Image().bytes());
	ASSERT_TRUE(file) << file.error();
	EXPECT_TRUE(is_for_this_machine(*file));
	EXPECT_EQ(file->type, ET_DYN);
	EXPECT_EQ(file->interpreter, "/lib64/ld-linux-x86-64.so.2");
	EXPECT_TRUE(file->dynamic);
	EXPECT_THAT(file->needed, ElementsAre("libasan.so.8", "libc.so.6"));
}

TEST(ElfFile, ReadsThisProgramItself) {
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const auto file = read_elf(fd);
	close(fd);
	ASSERT_TRUE(file) << file.error();
	EXPECT_THAT(file->interpreter, HasSubstr("ld-linux"));
	EXPECT_THAT(file->needed, testing::Contains(StartsWith("libc.so.")));
}

TEST(ElfFile, AStaticProgramHasNoLoader) {
	const auto file = read_changed([](Image& image) { image.interpreter.p_type = image.dynamic.p_type = PT_NULL; });
	ASSERT_TRUE(file) << file.error();
	EXPECT_THAT(file->interpreter, IsEmpty());
	EXPECT_FALSE(file->dynamic);
}

TEST(ElfFile, NamesTheMachineOfAForeignProgram) {
	const auto arm = read_changed([](Image& image) { image.header.e_machine = EM_AARCH64; });
	ASSERT_TRUE(arm) << arm.error();
	EXPECT_FALSE(is_for_this_machine(*arm));
	EXPECT_EQ(machine_name(*arm), "64-bit Arm");

	const auto small = read_changed([](Image& image) {
		image.header.e_ident[EI_CLASS] = ELFCLASS32;
		image.header.e_machine = EM_386;
	});
	ASSERT_TRUE(small) << small.error();
	EXPECT_EQ(machine_name(*small), "32-bit x86");

	const auto big_endian = read_changed([](Image& image) {
		image.header.e_ident[EI_DATA] = ELFDATA2MSB;
		image.header.e_machine = __builtin_bswap16(EM_S390);
	});
	ASSERT_TRUE(big_endian) << big_endian.error();
	EXPECT_EQ(machine_name(*big_endian), "IBM Z");

	const auto unknown = read_changed([](Image& image) { image.header.e_machine = 4711; });
	ASSERT_TRUE(unknown) << unknown.error();
	EXPECT_EQ(machine_name(*unknown), "machine number 4711");
}

TEST(ElfFile, OtherFilesAreNoElfFiles) {
	for (const std::string text : {"", "\x7f", "#!/bin/sh\n", "a longer text that is no program at all"})
		EXPECT_EQ(read_bytes({text.begin(), text.end()}).error(), "is not an ELF file") << text;
}

TEST(ElfFile, RefusesOffsetsBeyondTheFile) {
	EXPECT_FALSE(read_changed([](Image& image) { image.header.e_phoff = 1 << 20; }));
	EXPECT_FALSE(read_changed([](Image& image) { image.header.e_phoff = ~std::uint64_t{0}; }));
	EXPECT_FALSE(read_changed([](Image& image) { image.header.e_phnum = 0xffff; }));
	EXPECT_FALSE(read_changed([](Image& image) { image.header.e_phentsize = 0; }));
	EXPECT_FALSE(read_changed([](Image& image) { image.interpreter.p_offset = ~std::uint64_t{0}; }));
	EXPECT_FALSE(read_changed([](Image& image) { image.interpreter.p_filesz = 1 << 20; }));
	EXPECT_FALSE(read_changed([](Image& image) { image.dynamic.p_offset = ~std::uint64_t{0} - 7; }));
	EXPECT_FALSE(read_changed([](Image& image) { image.strings.d_un.d_ptr = 0; }));
	EXPECT_FALSE(read_changed([](Image& image) { image.load.p_offset = ~std::uint64_t{0}; }));
	EXPECT_FALSE(read_changed([](Image& image) { image.needs_asan.d_un.d_val = ~std::uint64_t{0}; }));
}

TEST(ElfFile, RefusesATextThatDoesNotEnd) {
	EXPECT_FALSE(read_changed([](Image& image) { image.text[sizeof image.text - 1] = 'x'; }));
}

TEST(ElfFile, ADynamicSectionOfAnySizeIsReadToItsLimit) {
	const auto file = read_changed([](Image& image) {
		image.dynamic.p_filesz = ~std::uint64_t{0};
		image.end = {DT_NULL, {0}};
	});
	ASSERT_TRUE(file) << file.error();
	EXPECT_THAT(file->needed, ElementsAre("libasan.so.8", "libc.so.6"));
}

TEST(ElfFile, SurvivesEachTruncation) {
	const Bytes whole = Image().bytes();
	for (std::size_t size = 0; size < whole.size(); ++size)
		EXPECT_FALSE(read_bytes({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)})) << size;
}

TEST(ElfFile, SurvivesGarbage) {
	std::mt19937_64 random(26);
	const Bytes whole = Image().bytes();
	int readable = 0;
	for (int round = 0; round < 5'000; ++round) {
		Bytes bytes = whole;
		for (std::uint64_t i = 1 + random() % 16; i > 0; --i)
			bytes[SELFMAG + random() % (bytes.size() - SELFMAG)] = static_cast<char>(random());
		readable += read_bytes(bytes).has_value();
	}
	// Most changes hit fields that matter little, so both outcomes occur.
	EXPECT_GT(readable, 100);
	EXPECT_LT(readable, 4'900);
}

}  // namespace
}  // namespace verbena::tools
