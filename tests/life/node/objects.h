// SPDX-License-Identifier: Apache-2.0
// The objects of the process, which all commands share.
//
// Threads: one.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t q_key = 0x11111111, message_bytes = 64, grh_bytes = 40;
constexpr std::size_t scratch_bytes = 17 << 20,
					  scratch_sent = 1 << 20;  // for requests other than receives

// Thrown by a command that failed; `error` is an errno.
struct Failure {
	int error;
};

// Throws Failure if the verb failed. Some verbs return an errno, others set errno.
inline void demand(int result) {
	if (result) throw Failure{result > 0 ? result : errno};
}
template <class T> T* demand(T* object) {
	if (!object) throw Failure{errno};
	return object;
}

struct Region {
	void* address;
	std::size_t bytes;
	ibv_mr* mr;
};

struct Context {
	ibv_context* context;
	ibv_pd* pd;
	ibv_comp_channel* channel;
	ibv_cq* cq;
	ibv_gid gid;
	ibv_mtu mtu;
	ibv_ah* ah;  // to this host itself
	Region scratch;  // the local memory of all work requests
};

struct Pair {
	Context* at;
	ibv_qp* qp;  // null after `destroy`
	std::uint64_t sent = 0, received = 0;  // the last stamps
	std::uint64_t receives_posted = 0;
};

// A command names a QP by its index in `pairs`, and a region by its index in `regions`.
inline std::vector<std::unique_ptr<Context>> contexts;
inline std::vector<Pair> pairs;
inline std::map<std::uint32_t, std::size_t> index_of;  // a QP's index in `pairs`, by its number
inline std::vector<Region> regions;
inline Context& current() { return *contexts.back(); }

// Maps memory, and registers it for everything.
Region map_region(ibv_pd* pd, std::size_t bytes);
