// SPDX-License-Identifier: Apache-2.0
// The objects behind the pointers that programs hold. Each contains the public struct, whose layout
// is the ABI, and the NIC's own state beside it. `of()` converts a pointer to the public struct
// into a reference to the object.
//
// Threads: any. A queue's own lock protects its ring, the engine's lock the adapter's objects, and
//   the mutex in the public struct the event counts (`delivered`). Lock order: queue, engine, event
//   queue.
// Lifetime: an object lives from a create function of provider.h to the destroy function. `users`
//   counts the other objects that refer to this one; destroying an object with users fails with
//   EBUSY. Closing a context with users succeeds, and its objects stay (close_device).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>

#include "base/cache_aligned.h"
#include "nic/adversary/gate.h"
#include "nic/engine/engine.h"
#include "nic/engine/interfaces.h"
#include "nic/engine/shared_files.h"
#include "nic/verbs/acknowledgements.h"
#include "nic/verbs/event_queue.h"
#include "nic/verbs/pinned_memory.h"

// Macros of verbs.h that would rename functions of ours.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::verbs {

// Converts a pointer to a member into a reference to the object that contains the member at
// `offset`.
template <class Object, class Member> Object& around(Member* member, std::size_t offset) {
	return *reinterpret_cast<Object*>(
		reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<Member>*>(member)) - offset);
}

struct SoftDevice {
	ibv_device public_device{};  // must be first: see provider.h
	std::uint64_t guid = 0;
	unsigned interface_index = 0;
	std::uint64_t namespace_cookie = 0;
	int index = 0;  // the result of ibv_get_device_index(3), and N of uverbsN
	bool removed = false;  // the interface no longer exists; under the process's mutex
	// The number of times that the port was seen to leave the state ACTIVE. Written under the
	// process's mutex.
	std::atomic<std::uint64_t> link_downs{0};

	// The interface as the kernel last reported it. A GID keeps its index in the table.
	std::shared_ptr<const engine::Interface> interface() const {
		const std::lock_guard lock(interface_mutex);
		return last_reported;
	}
	void set_interface(engine::Interface now) {
		auto next = std::make_shared<const engine::Interface>(std::move(now));
		const std::lock_guard lock(interface_mutex);
		last_reported.swap(next);
	}
	mutable std::mutex interface_mutex;  // guards the pointer
	std::shared_ptr<const engine::Interface> last_reported;

	static SoftDevice& of(ibv_device* device) { return *reinterpret_cast<SoftDevice*>(device); }
};

struct SoftContext {
	// The public ibv_context is its last member; newer versions of the struct grow at the front.
	verbs_context verbs{};
	engine::Engine* engine = nullptr;
	std::uint32_t number = 0;  // which of the process's contexts the descriptor cmd_fd belongs to
	bool dead = false;  // this process is a fork's child, and its parent opened the context
	std::atomic<int> users{0};  // protection domains, completion queues and channels
	static constexpr std::size_t async_events_reserved = 16;
	EventQueue<ibv_async_event> async_events{async_events_reserved};

	static SoftContext& of(ibv_context* context) {
		return around<SoftContext>(context, offsetof(SoftContext, verbs.context));
	}
	SoftDevice& device() { return SoftDevice::of(verbs.context.device); }
};

// A thread domain (ibv_alloc_td(3)).
struct SoftTd {
	ibv_td public_td{};
	std::atomic<int> users{0};

	static SoftTd& of(ibv_td* td) { return *reinterpret_cast<SoftTd*>(td); }
};

struct SoftPd {
	ibv_pd public_pd{};
	// The domain in the adapter's key table. A parent domain has the number of its `parent`.
	std::uint32_t number = 0;
	std::atomic<int> users{0};
	// Null, unless this is a parent domain (ibv_alloc_parent_domain(3)): the domain that it was
	// made from, and its thread domain if it has one.
	SoftPd* parent = nullptr;
	SoftTd* thread = nullptr;

	static SoftPd& of(ibv_pd* pd) { return *reinterpret_cast<SoftPd*>(pd); }
	// True also for a parent domain and the domain that it was made from.
	static bool same(ibv_pd* a, ibv_pd* b) { return of(a).number == of(b).number; }
};

struct SoftMr {
	ibv_mr public_mr{};
	std::uint32_t access = 0;  // ibv_access_flags
	std::uint64_t iova = 0;  // the address of the first byte as users of the key name it
	std::optional<engine::Backing> backing;  // the file that holds the memory, if peers can map it
	PinnedMemory pinned;  // under a profile

	static SoftMr& of(ibv_mr* mr) { return *reinterpret_cast<SoftMr*>(mr); }
};

struct SoftMw {
	ibv_mw public_mw{};
	static SoftMw& of(ibv_mw* mw) { return *reinterpret_cast<SoftMw*>(mw); }
};

struct SoftChannel {
	ibv_comp_channel public_channel{};
	EventQueue<ibv_cq*> events;
	std::atomic<int> users{0};
	std::vector<ibv_cq*> queues;  // those that use the channel
	std::mutex queues_mutex;

	static SoftChannel& of(ibv_comp_channel* channel) { return *reinterpret_cast<SoftChannel*>(channel); }
};

// The number of events of an object that the program has fetched (ibv_get_cq_event(3),
// ibv_get_async_event(3)). Destroying the object waits until the program has acknowledged them all.
struct EventCount {
	std::uint32_t completions = 0, asynchronous = 0;
};

struct alignas(64) SoftCq : CacheAligned {
	engine::Engine* engine = nullptr;
	std::unique_ptr<queues::CompletionQueue> queue;
	ibv_cq_ex public_cq{};
	std::byte reserved[256] = {};  // a newer ibv_cq_ex may be longer
	EventCount delivered;
	Acknowledgements acknowledged;
	std::atomic<bool> event_queued{false};  // the channel's queue has an event of this queue
	std::atomic<int> users{0};
	queues::Completion current{};  // the completion that the extended poll reads
	std::unique_ptr<adversary::Gate> gate;  // null without an adversary

	static SoftCq& of(ibv_cq* cq) { return around<SoftCq>(cq, offsetof(SoftCq, public_cq)); }
	static SoftCq& of(ibv_cq_ex* cq) { return around<SoftCq>(cq, offsetof(SoftCq, public_cq)); }
	ibv_cq* cq() { return ibv_cq_ex_to_cq(&public_cq); }
};

struct SoftSrq {
	ibv_srq public_srq{};
	std::unique_ptr<queues::ReceiveQueue> queue;
	EventCount delivered;
	Acknowledgements acknowledged;
	std::atomic<int> users{0};

	static SoftSrq& of(ibv_srq* srq) { return *reinterpret_cast<SoftSrq*>(srq); }
};

struct SoftAh {
	ibv_ah public_ah{};
	ibv_ah_attr attributes{};
	wire::AddressPair addresses{};
	bool local = false;  // the destination is on this host
	std::mutex mutex;  // serializes the threads that write the cache
	// A cache of the path to the last destination, because most datagrams go to the same one as the
	// datagram before. `path` packs the engine's links_retired(), the block of the destination's
	// QPN (0 unless `local`), and the index of the addresses at `outlet`. The cache is valid while
	// links_retired() does not change. `path` is written last, and readers check it before and
	// after they read `outlet`.
	static constexpr std::uint64_t no_path = ~std::uint64_t{0};
	std::atomic<std::uint64_t> path{no_path};
	std::atomic<transport::Outlet*> outlet{nullptr};

	static SoftAh& of(ibv_ah* ah) { return *reinterpret_cast<SoftAh*>(ah); }
};

struct alignas(64) SoftQp : CacheAligned {
	// ibv_post_send() reads the members up to `reserved_front` and the public struct's `pd`. All
	// lie in the object's first cache line.
	transport::QueuePair* qp = nullptr;
	engine::Engine* engine = nullptr;
	std::uint16_t send_segments_max = 0, inline_max = 0;
	std::uint16_t opcodes = 0;  // one bit for each ibv_wr_opcode that the transport allows
	std::uint16_t read_segments_max = 0;
	std::uint64_t reserved_front = 0;
	ibv_qp_ex public_qp{};
	std::byte reserved[256] = {};  // a newer ibv_qp_ex may be longer

	ibv_qp_init_attr init{};  // the attributes that the create function returned to the program
	ibv_qp_attr attributes{};  // the attributes that modify_qp has set, for query_qp
	EventCount delivered;
	Acknowledgements acknowledged;
	// The state of an extended post, from ibv_wr_start to ibv_wr_complete, under the send queue's
	// lock.
	struct Build {
		bool allowed = false;  // the queue pair was made with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
		std::uint16_t opcodes = 0;  // one bit for each ibv_wr_opcode that it may build
		std::uint32_t head = 0;  // the send queue's head if the post succeeds
		queues::SendWqe* wqe = nullptr;  // the request that setters write to; null after an error
		int error = 0;  // the first error, an errno value
	} build;

	static SoftQp& of(const ibv_qp* qp) { return around<SoftQp>(qp, offsetof(SoftQp, public_qp)); }
	static SoftQp& of(const ibv_qp_ex* qp) { return around<SoftQp>(qp, offsetof(SoftQp, public_qp)); }
	ibv_qp* base() { return &public_qp.qp_base; }
};

// The data path: functions for the tables of function pointers in the public structs. They neither
// throw nor are they cancellation points: what they call allocates nothing, or takes a failure for
// a lost datagram. Definitions: data_path.cc, extended_post.cc, extended_poll.cc. The post
// functions return 0, or an errno value with *bad at the first request that was not posted.
int post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad) noexcept;
int post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;
int post_srq_recv(ibv_srq*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;
int poll_cq(ibv_cq*, int count, ibv_wc* wc) noexcept;
int req_notify_cq(ibv_cq*, int solicited_only) noexcept;
// Set the function pointers of ibv_wr_post(3) in the ibv_qp_ex, and of ibv_create_cq_ex(3) in the
// ibv_cq_ex.
void fill_extended_post(SoftQp&);
void fill_extended_poll(SoftCq&);
// Finds the outlet for a datagram to (ah, qpn), and the index of its addresses there. May block for
// a new destination. The caller holds the lock of the send queue, which keeps the outlet alive
// until the datagram is in the queue. Null if there is no outlet, for example because the owner of
// the QPN does not answer; UD drops such a datagram silently. A datagram to a QPN of this host that
// no process owns gets a UDP path, on which it is lost.
transport::Outlet* datagram_outlet(engine::Engine&, SoftAh&, std::uint32_t qpn, std::uint8_t& address_index) noexcept;

// The other functions for the tables of function pointers.
ibv_td* alloc_td(ibv_context*, ibv_td_init_attr*);
int dealloc_td(ibv_td*);
ibv_pd* alloc_parent_domain(ibv_context*, ibv_parent_domain_init_attr*);
int advise_mr(ibv_pd*, ibv_advise_mr_advice, std::uint32_t flags, ibv_sge*, std::uint32_t count);
ibv_mw* alloc_mw(ibv_pd*, ibv_mw_type);
int dealloc_mw(ibv_mw*);
int bind_mw(ibv_qp*, ibv_mw*, ibv_mw_bind*);
ibv_cq_ex* create_cq_ex(ibv_context*, ibv_cq_init_attr_ex*);
ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex*);
ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex*);
int query_device_ex(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, std::size_t size);
int query_port_now(ibv_context*, std::uint8_t port, ibv_port_attr*, std::size_t size);
int query_rt_values(ibv_context*, ibv_values_ex*);

// Removes the completions of a queue pair that was destroyed or reset (ibv_destroy_qp(3)).
void purge_completions(SoftQp&);
// Whether the queue pair, which exists, is attached to a multicast group.
bool is_multicast_member(const SoftQp&);

// The attributes of a device and its port, for the queries and for nic/presence.
void describe_device(const SoftDevice&, ibv_device_attr&);
void describe_port(const SoftDevice&, ibv_port_attr&);
// The object that an asynchronous event is about.
enum class Element : std::uint8_t { qp, cq, srq, port };
Element element_of(const ibv_async_event&);

// Each delivers an event to the program's queue of events (completion.cc, async.cc). The engine
// calls these functions under its lock.
void deliver_completion_event(queues::CompletionQueue&);
void deliver_async_event(const transport::RaisedEvent&);

// A context's completion vectors. They are only names: one engine delivers the events of all. There
// is one for each processor, at least two, so that programs that ask for vector 1 find it.
int completion_vectors();

// Limits that query_device reports and that no profile changes (limits.h has the others). No
// function enforces the numbers of objects.
namespace limits {
inline constexpr int qp = 1 << 20, cq = 1 << 20, srq = 1 << 16;
inline constexpr int mr = 1 << 24, pd = 1 << 20, ah = 1 << 20, mw = 1 << 24;
// The values of the kernel's Soft-RoCE, which query_device reports and no function enforces.
inline constexpr int completion_vectors = 16;
inline constexpr int multicast_groups = 8192, multicast_members = 56;
inline constexpr std::uint32_t message = 1u << 31;  // bytes
}  // namespace limits

}  // namespace verbena::verbs
