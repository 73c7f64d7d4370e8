#include "nic/ucma/interpose.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>

namespace verbena::ucma {

namespace {

std::atomic<Kernel*> the_kernel{nullptr};

int redirected_open(const char* path, int flags, ...) {
	mode_t mode = 0;
	if (flags & (O_CREAT | O_TMPFILE)) {
		va_list arguments;
		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		va_end(arguments);
	}
	// "/dev/infiniband/rdma_cm", or the other path by which librdmacm looks for the same character
	// device.
	if (!path) return errno = EFAULT, -1;
	if (!std::string_view(path).ends_with("/rdma_cm")) return ::open(path, flags, mode);
	const auto fd = the_kernel.load(std::memory_order_acquire)->open_channel();
	if (fd) return *fd;
	errno = fd.error();
	return -1;
}

// The number of the kernel's rdma_cm device, or 0. If the kernel's module is loaded, though without
// an RDMA device, librdmacm insists on this number.
dev_t device_number_of_the_kernels() {
	unsigned major_number = 0, minor_number = 0;
	if (std::FILE* file = std::fopen("/sys/class/misc/rdma_cm/dev", "re")) {
		if (std::fscanf(file, "%u:%u", &major_number, &minor_number) != 2) major_number = minor_number = 0;
		std::fclose(file);
	}
	return makedev(major_number, minor_number);
}

int redirected_fstat(int fd, struct stat* status) {
	const int result = ::fstat(fd, status);
	if (result == 0 && the_kernel.load(std::memory_order_acquire)->is_channel(fd)) {
		status->st_mode = S_IFCHR | 0600;
		status->st_rdev = device_number_of_the_kernels();
	}
	return result;
}

ssize_t redirected_write(int fd, const void* bytes, std::size_t count) {
	Kernel& kernel = *the_kernel.load(std::memory_order_acquire);
	const auto done = kernel.command(fd, bytes, count);
	return done ? *done : ::write(fd, bytes, count);
}

int redirected_close(int fd) { return the_kernel.load(std::memory_order_acquire)->close_channel(fd) ? 0 : ::close(fd); }

ibv_ah* redirected_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
	return the_kernel.load(std::memory_order_acquire)->host().create_ah(pd, attributes);
}

struct Redirection {
	std::string_view name;
	void* function;
};

const Redirection redirections[] = {
	{"open", reinterpret_cast<void*>(redirected_open)},
	{"open64", reinterpret_cast<void*>(redirected_open)},
	{"fstat", reinterpret_cast<void*>(redirected_fstat)},
	{"fstat64", reinterpret_cast<void*>(redirected_fstat)},
	{"write", reinterpret_cast<void*>(redirected_write)},
	{"close", reinterpret_cast<void*>(redirected_close)},
	{"ibv_create_ah", reinterpret_cast<void*>(redirected_create_ah)},
};

#if defined(__x86_64__)
constexpr bool is_function_slot(unsigned long type) { return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT; }
#elif defined(__aarch64__)
constexpr bool is_function_slot(unsigned long type) {
	return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
}
#endif

// The imports of a loaded object, read from its dynamic section.
struct Imports {
	std::span<const ElfW(Rela)> tables[2];
	const ElfW(Sym) * symbols = nullptr;
	const char* strings = nullptr;
	bool read_only = false;  // the loader has made the slots read-only (full RELRO)

	explicit Imports(const link_map& module) {
		const ElfW(Rela) * first[2] = {};
		std::size_t bytes[2] = {};
		for (const ElfW(Dyn)* entry = module.l_ld; entry->d_tag != DT_NULL; ++entry) switch (entry->d_tag) {
				case DT_JMPREL: first[0] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
				case DT_PLTRELSZ: bytes[0] = entry->d_un.d_val; break;
				case DT_RELA: first[1] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
				case DT_RELASZ: bytes[1] = entry->d_un.d_val; break;
				case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr); break;
				case DT_STRTAB: strings = reinterpret_cast<const char*>(entry->d_un.d_ptr); break;
				case DT_FLAGS: read_only |= (entry->d_un.d_val & DF_BIND_NOW) != 0; break;
				case DT_FLAGS_1: read_only |= (entry->d_un.d_val & DF_1_NOW) != 0; break;
				default: break;
			}
		for (int i : {0, 1}) tables[i] = {first[i], first[i] ? bytes[i] / sizeof(ElfW(Rela)) : 0};
	}
};

// With full RELRO or LD_BIND_NOW, the slot's page is read-only, so it is made writable in any case.
// It becomes read-only again only if the object says that it was.
void write_slot(void** slot, void* function, bool read_only) {
	const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
	auto* const page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(slot) & ~(page_bytes - 1));
	if (mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
	*slot = function;
	if (read_only) mprotect(page, page_bytes, PROT_READ);
}

void redirect(const link_map& module) {
	const Imports imports(module);
	if (!imports.symbols || !imports.strings) return;
	for (const auto table : imports.tables)
		for (const ElfW(Rela) & entry : table) {
			if (!is_function_slot(ELF64_R_TYPE(entry.r_info))) continue;
			const std::string_view name = imports.strings + imports.symbols[ELF64_R_SYM(entry.r_info)].st_name;
			for (const Redirection& redirection : redirections)
				if (redirection.name == name)
					write_slot(reinterpret_cast<void**>(module.l_addr + entry.r_offset), redirection.function,
						imports.read_only);
		}
}

}  // namespace

void redirect_if_librdmacm(void* caller, Kernel& kernel) {
	static std::mutex mutex;
	Dl_info info;
	link_map* module = nullptr;
	if (!dladdr1(caller, &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) || !module || !info.dli_fname)
		return;
	if (std::string_view(info.dli_fname).find("librdmacm") == std::string_view::npos) return;
	const std::lock_guard lock(mutex);
	// Redirect at each call: a librdmacm that was unloaded and loaded again has fresh slots,
	// perhaps at the same address. Repeating it has no effect.
	the_kernel.store(&kernel, std::memory_order_release);
	redirect(*module);
}

}  // namespace verbena::ucma
