// SPDX-License-Identifier: Apache-2.0
// Owning handles of verbs objects, and functions that make them.
//
// Owns: each handle destroys its object.
// Lifetime: declare the handles in the order in which they depend on each other, so that they are
//   destroyed in reverse: context, protection domain, completion queue, memory region, address
//   handle, queue pair.
// Errors: one sentence that says which call failed and why.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <expected>
#include <memory>
#include <string>

namespace verbena::lib {

template <auto destroy> struct Destroyer {
	template <class Object> void operator()(Object* object) const { destroy(object); }
};

// Closes the context, unless librdmacm opened it and will close it.
struct CloseDevice {
	bool borrowed = false;
	void operator()(ibv_context* context) const {
		if (!borrowed) ibv_close_device(context);
	}
};

// A queue pair that rdma_create_qp made is destroyed by rdma_destroy_qp.
struct DestroyQueuePair {
	rdma_cm_id* connection = nullptr;
	void operator()(ibv_qp* qp) const {
		if (connection != nullptr) rdma_destroy_qp(connection);
		else ibv_destroy_qp(qp);
	}
};

using Context = std::unique_ptr<ibv_context, CloseDevice>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using AddressHandle = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;
using QueuePair = std::unique_ptr<ibv_qp, DestroyQueuePair>;

template <class Owner> using Made = std::expected<Owner, std::string>;

// "ibv_open_device: No such device"
inline std::string failure(const char* call, int error) { return std::string(call) + ": " + std::strerror(error); }

// Wraps what a verbs call returned; a null pointer is a failure with errno.
template <class Owner> Made<Owner> owned_or_failure(typename Owner::pointer object, const char* call) {
	if (object == nullptr) return std::unexpected(failure(call, errno));
	return Owner(object);
}

inline Made<ProtectionDomain> make_protection_domain(ibv_context* context) {
	return owned_or_failure<ProtectionDomain>(ibv_alloc_pd(context), "ibv_alloc_pd");
}

// `entries`: the least number of completions that it holds. It has no completion channel.
inline Made<CompletionQueue> make_completion_queue(ibv_context* context, int entries) {
	return owned_or_failure<CompletionQueue>(ibv_create_cq(context, entries, nullptr, nullptr, 0), "ibv_create_cq");
}

// `access`: IBV_ACCESS_* flags. The memory must outlive the region.
inline Made<MemoryRegion> make_memory_region(ibv_pd* domain, void* at, std::size_t bytes, int access) {
	return owned_or_failure<MemoryRegion>(ibv_reg_mr(domain, at, bytes, access), "ibv_reg_mr");
}

inline Made<AddressHandle> make_address_handle(ibv_pd* domain, ibv_ah_attr attributes) {
	return owned_or_failure<AddressHandle>(ibv_create_ah(domain, &attributes), "ibv_create_ah");
}

}  // namespace verbena::lib
