// SPDX-License-Identifier: Apache-2.0
// The public verbs that this NIC implements: one function for each exported verb, with the verb's
// signature and its name without `ibv_`. The contract of each is its manual page.
//
// exports.cc and exports_devices.cc call these for devices, contexts and objects that are ours, and
// the real libibverbs for all others, so an argument here always belongs to us. `ibv_device` is the
// first member of our SoftDevice, and its obsolete `_ops._dummy1`, which the real library leaves
// NULL and no program calls, points to `our_mark`. A context is ours if and only if its device is;
// an object is ours if and only if its context is.
//
// Threads: any thread may call any function.
// Owns: the caller owns the objects that create functions return, until it destroys them.
// Errors: a function that returns a pointer returns NULL and sets errno. A function that returns
//   int returns 0 or a positive errno value, except that
//     query_gid, query_gid_type, query_pkey, get_pkey_index, get_cq_event, get_async_event,
//     init_ah_from_wc, read_sysfs_file and read_file return -1 and set errno,
//     query_gid_table returns a negative errno value,
//     rereg_mr returns an ibv_rereg_mr_err_code and sets errno,
//     get_device_index returns -1, and query_qp_data_in_order 1 or 0.
//   A failure never leaves errno 0. An exception may leave these functions; boundary.h turns it
//   into
//   an errno value. Functions with a BlockingCall may sleep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/types.h>
#include <vector>

#include <infiniband/verbs.h>

// Macros of verbs.h that would rename the functions of the same name.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::engine {
struct BlockingCall;
}

namespace verbena::verbs {

extern const char our_mark;

inline bool is_ours(const ibv_device* device) {
	return reinterpret_cast<const char*>(device->_ops._dummy1) == &our_mark;
}

inline bool is_ours(const ibv_context* context) { return is_ours(context->device); }

// Reads the interfaces again and returns our devices. The pointers stay valid for the life of the
// process, so a device outlives its list.
std::vector<ibv_device*> our_devices();

// Devices
const char* get_device_name(ibv_device* device);
int get_device_index(ibv_device* device);
__be64 get_device_guid(ibv_device* device);
ibv_context* open_device(ibv_device* device);
int close_device(ibv_context* context);
// Reads a file below `folder`, our device's in sysfs. Returns its length without the final newline.
int read_sysfs_file(const char* folder, const char* file, char* buffer, std::size_t size);
// Reads a file of the file system, with the same result.
int read_file(const char* folder, const char* name, char* buffer, std::size_t size);

// Queries. query_port is the exported function of old programs, whose struct has 48 bytes; today's
// verbs.h calls verbs_context::query_port instead.
int query_device(ibv_context* context, ibv_device_attr* attributes);
int query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes);
int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid);
int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
	std::uint32_t flags, std::size_t entry_size);
ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t entry_count_max, std::uint32_t flags,
	std::size_t entry_size);
// The type is 0 for InfiniBand or RoCE v1, and 1 for RoCE v2: not the values of
// ibv_gid_entry::gid_type.
int query_gid_type(ibv_context* context, std::uint8_t port, unsigned int index, unsigned int* type);
int query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey);
int get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey);

// Protection domains and memory
ibv_pd* alloc_pd(ibv_context* context);
int dealloc_pd(ibv_pd* pd);
ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int access);
ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access);
ibv_mr* reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned int access);
int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access);
int dereg_mr(ibv_mr* mr);

// Completions
ibv_comp_channel* create_comp_channel(ibv_context* context);
int destroy_comp_channel(ibv_comp_channel* channel);
ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector);
int resize_cq(ibv_cq* cq, int cqe);
int destroy_cq(engine::BlockingCall&, ibv_cq* cq);
int get_cq_event(engine::BlockingCall&, ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
void ack_cq_events(ibv_cq* cq, unsigned int count);

// Queue pairs and shared receive queues
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init_attributes);
int destroy_qp(engine::BlockingCall&, ibv_qp* qp);
ibv_qp_ex* qp_to_qp_ex(ibv_qp* qp);
int query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode operation, std::uint32_t flags);
int query_ece(ibv_qp* qp, ibv_ece* ece);
int set_ece(ibv_qp* qp, ibv_ece* ece);
int attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
int detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
// Detaches the queue pair, which may be of a real device, from all groups. For librdmacm, which
// ignores an EBUSY of ibv_destroy_qp and forgets the queue pair.
void leave_groups(ibv_qp* qp);
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attributes);
int destroy_srq(engine::BlockingCall&, ibv_srq* srq);

// Address handles. create_ah_for_librdmacm replaces create_ah for calls from librdmacm
// (address.cc).
ibv_ah* create_ah_for_librdmacm(ibv_pd* pd, ibv_ah_attr* attributes);
ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes);
int init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* attributes);
ibv_ah* create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port);
int destroy_ah(ibv_ah* ah);

// Asynchronous events. An event names its object and not its device; exports.cc calls
// ack_async_event for events whose object is ours.
int get_async_event(engine::BlockingCall&, ibv_context* context, ibv_async_event* event);
void ack_async_event(ibv_async_event* event);

}  // namespace verbena::verbs
