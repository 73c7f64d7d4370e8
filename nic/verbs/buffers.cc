// SPDX-License-Identifier: Apache-2.0
// Buffers of ibv_alloc_buf(3), and ibv_reg_mr_ex(3), which registers them and other memory. Both
// are newer than the installed verbs.h, so these exported functions are here and not in exports.cc.
//
// A buffer is ordinary memory, aligned to a page: our NIC needs no other. A program's handle says
// nothing about the device that it belongs to, so the process remembers the handles that are ours.
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unistd.h>
#include <unordered_map>

#include "base/log.h"
#include "nic/verbs/boundary.h"
#include "nic/verbs/newer_verbs.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/real_library.h"

namespace {

namespace ours = verbena::verbs;
using verbena::verbs::is_ours;
using verbena::verbs::real;

struct Buffer {
	ibv_pd* pd;
	std::byte* address;
	std::size_t size;

	bool contains(const void* begin, std::size_t length) const {
		const auto offset = reinterpret_cast<std::uintptr_t>(begin) - reinterpret_cast<std::uintptr_t>(address);
		return offset <= size && length <= size - offset;
	}
};

// The buffers of this process by their handles, which are their addresses.
class Buffers {
public:
	void add(const Buffer& buffer) {
		const std::lock_guard lock(mutex_);
		known_.emplace(handle(buffer), buffer);
	}
	// An empty buffer if the handle is not ours.
	Buffer find(const ibv_buf* handle) {
		const std::lock_guard lock(mutex_);
		const auto at = known_.find(handle);
		return at == known_.end() ? Buffer{} : at->second;
	}
	Buffer take(const ibv_buf* handle) {
		const std::lock_guard lock(mutex_);
		const auto node = known_.extract(handle);
		return node ? node.mapped() : Buffer{};
	}
	static ibv_buf* handle(const Buffer& buffer) { return reinterpret_cast<ibv_buf*>(buffer.address); }

private:
	std::mutex mutex_;
	std::unordered_map<const ibv_buf*, Buffer> known_;
};

Buffers& buffers() {
	// Never destroyed: programs free buffers in destructors that run at exit.
	static Buffers& all = *new Buffers;
	return all;
}

// struct ibv_mr_init_attr of rdma-core 65. Earlier releases end before `buffer`.
struct MrAttributes {
	std::size_t length;
	int access;
	std::uint64_t comp_mask;
	std::uint64_t iova;
	void* address;
	int fd;
	std::uint64_t fd_offset;
	ibv_dmah* dma_handle;
	ibv_buf* buffer;
};
enum MrMask : std::uint64_t { mask_iova = 1, mask_address = 2, mask_buffer = 32 };

std::nullptr_t refuse(int error, const char* reason) {
	verbena::log::refuse(error, "%s", reason);
	return nullptr;
}

ibv_mr* reg_mr_ex(ibv_pd* pd, const MrAttributes& a) {
	// A descriptor of a dmabuf, and hints for the processor's cache, need hardware.
	if (a.comp_mask & ~std::uint64_t{mask_iova | mask_address | mask_buffer})
		return refuse(EOPNOTSUPP, "ibv_reg_mr_ex: this NIC has no dmabuf and no dmah; comp_mask asks for one");
	if (!(a.comp_mask & mask_address)) return refuse(EINVAL, "ibv_reg_mr_ex: comp_mask has no address");
	if (a.comp_mask & mask_buffer) {
		const Buffer buffer = buffers().find(a.buffer);
		if (buffer.pd != pd || !buffer.contains(a.address, a.length))
			return refuse(
				EINVAL, "ibv_reg_mr_ex, ibv_reg_buf_mr: the memory is not inside the protection domain's buffer");
	}
	const std::uint64_t iova = a.comp_mask & mask_iova ? a.iova : reinterpret_cast<std::uint64_t>(a.address);
	return ours::guarded<ours::reg_mr_iova2>(pd, a.address, a.length, iova, static_cast<unsigned>(a.access));
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

void* ibv_alloc_buf(ibv_pd* pd, size_t size, ibv_buf** handle) {
	if (!is_ours(pd->context)) return real().ibv_alloc_buf(pd, size, handle);
	void* address = nullptr;
	if (const int error = posix_memalign(&address, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), size))
		return refuse(error, "ibv_alloc_buf: no memory for the buffer");
	const Buffer buffer{pd, static_cast<std::byte*>(address), size};
	try {
		buffers().add(buffer);
	} catch (const std::bad_alloc&) {
		free(address);
		return refuse(ENOMEM, "ibv_alloc_buf: no memory");
	}
	*handle = Buffers::handle(buffer);
	return address;
}

void ibv_free_buf(ibv_buf* handle) {
	if (const Buffer buffer = buffers().take(handle); buffer.pd) free(buffer.address);
	else real().ibv_free_buf(handle);
}

ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* handle, void* address, size_t length, int access) {
	if (!is_ours(pd->context)) return real().ibv_reg_buf_mr(pd, handle, address, length, access);
	return reg_mr_ex(pd,
		{.length = length,
			.access = access,
			.comp_mask = mask_address | mask_buffer,
			.address = address,
			.buffer = handle});
}

// The manual page's errno for a buffer that is not backed by a dmabuf.
int ibv_export_buf_dmabuf_fd(ibv_buf* handle) {
	if (!buffers().find(handle).pd) return real().ibv_export_buf_dmabuf_fd(handle);
	return verbena::log::refuse(ENODATA, "ibv_export_buf_dmabuf_fd: no buffer of this NIC is a dmabuf"), -1;
}

ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attributes) {
	if (!is_ours(pd->context)) return real().ibv_reg_mr_ex(pd, attributes);
	MrAttributes a{};
	std::memcpy(&a, attributes, offsetof(MrAttributes, buffer));
	if (a.comp_mask & mask_buffer) std::memcpy(&a, attributes, sizeof a);
	return reg_mr_ex(pd, a);
}

#pragma GCC visibility pop
}  // extern "C"
