// SPDX-License-Identifier: Apache-2.0
// The real libibverbs, for devices that are not ours. Our own library may be installed as
// libibverbs.so.1 before it, in a folder on the library path; then the real one is the next of that
// name.
//
// The real library calls its own exported functions through its PLT, so under LD_PRELOAD these
// inner calls arrive at our exports. Where they must not see our devices, the outer call is made
// while an `InsideReal` exists.
//
// Threads: any; no call waits for another thread.
// Lifetime: the first call loads the library, which stays for the life of the process.
// Errors: every pointer of the table can be called. A function that the installed library lacks,
//   because it is older or there is no library at all, fails with EOPNOTSUPP in its own form.
#pragma once

#include <infiniband/verbs.h>

#include "nic/presence/presence.h"
#include "nic/verbs/newer_verbs.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

// X(function, return value of the replacement if the library lacks it)
#define VERBENA_REAL_FUNCTIONS(X)                 \
	X(ibv_get_device_list, nullptr)               \
	X(ibv_free_device_list, 0)                    \
	X(ibv_get_device_name, nullptr)               \
	X(ibv_get_device_index, -1)                   \
	X(ibv_get_device_guid, 0)                     \
	X(ibv_open_device, nullptr)                   \
	X(ibv_close_device, EOPNOTSUPP)               \
	X(ibv_fork_init, EOPNOTSUPP)                  \
	X(ibv_is_fork_initialized, IBV_FORK_UNNEEDED) \
	X(ibv_query_device, EOPNOTSUPP)               \
	X(ibv_query_port, EOPNOTSUPP)                 \
	X(ibv_query_port_speed, EOPNOTSUPP)           \
	X(ibv_query_gid, -1)                          \
	X(_ibv_query_gid_ex, EOPNOTSUPP)              \
	X(_ibv_query_gid_table, -EOPNOTSUPP)          \
	X(ibv_query_gid_type, -1)                     \
	X(ibv_query_pkey, -1)                         \
	X(ibv_get_pkey_index, -1)                     \
	X(ibv_alloc_pd, nullptr)                      \
	X(ibv_dealloc_pd, EOPNOTSUPP)                 \
	X(ibv_reg_mr, nullptr)                        \
	X(ibv_reg_mr_iova, nullptr)                   \
	X(ibv_reg_mr_iova2, nullptr)                  \
	X(ibv_reg_mr_ex, nullptr)                     \
	X(ibv_reg_dmabuf_mr, nullptr)                 \
	X(ibv_rereg_mr, IBV_REREG_MR_ERR_INPUT)       \
	X(ibv_dereg_mr, EOPNOTSUPP)                   \
	X(ibv_create_comp_channel, nullptr)           \
	X(ibv_destroy_comp_channel, EOPNOTSUPP)       \
	X(ibv_create_cq, nullptr)                     \
	X(ibv_resize_cq, EOPNOTSUPP)                  \
	X(ibv_destroy_cq, EOPNOTSUPP)                 \
	X(ibv_get_cq_event, -1)                       \
	X(ibv_ack_cq_events, 0)                       \
	X(ibv_create_qp, nullptr)                     \
	X(ibv_modify_qp, EOPNOTSUPP)                  \
	X(ibv_query_qp, EOPNOTSUPP)                   \
	X(ibv_destroy_qp, EOPNOTSUPP)                 \
	X(ibv_qp_to_qp_ex, nullptr)                   \
	X(ibv_query_qp_data_in_order, 0)              \
	X(ibv_query_ece, EOPNOTSUPP)                  \
	X(ibv_set_ece, EOPNOTSUPP)                    \
	X(ibv_attach_mcast, EOPNOTSUPP)               \
	X(ibv_detach_mcast, EOPNOTSUPP)               \
	X(ibv_create_srq, nullptr)                    \
	X(ibv_modify_srq, EOPNOTSUPP)                 \
	X(ibv_query_srq, EOPNOTSUPP)                  \
	X(ibv_destroy_srq, EOPNOTSUPP)                \
	X(ibv_create_ah, nullptr)                     \
	X(ibv_init_ah_from_wc, -1)                    \
	X(ibv_create_ah_from_wc, nullptr)             \
	X(ibv_destroy_ah, EOPNOTSUPP)                 \
	X(ibv_resolve_eth_l2_from_gid, -EOPNOTSUPP)   \
	X(ibv_get_async_event, -1)                    \
	X(ibv_ack_async_event, 0)                     \
	X(ibv_import_device, nullptr)                 \
	X(ibv_import_pd, nullptr)                     \
	X(ibv_unimport_pd, 0)                         \
	X(ibv_import_mr, nullptr)                     \
	X(ibv_unimport_mr, 0)                         \
	X(ibv_import_dm, nullptr)                     \
	X(ibv_unimport_dm, 0)                         \
	X(ibv_dm_export_dmabuf_fd, -1)                \
	X(ibv_alloc_dmah, nullptr)                    \
	X(ibv_dealloc_dmah, EOPNOTSUPP)               \
	X(ibv_alloc_buf, nullptr)                     \
	X(ibv_free_buf, 0)                            \
	X(ibv_reg_buf_mr, nullptr)                    \
	X(ibv_export_buf_dmabuf_fd, -1)               \
	X(_ibv_query_comp_cntr_caps, EOPNOTSUPP)      \
	X(ibv_create_comp_cntr, nullptr)              \
	X(ibv_destroy_comp_cntr, EOPNOTSUPP)          \
	X(ibv_set_comp_cntr, EOPNOTSUPP)              \
	X(ibv_set_err_comp_cntr, EOPNOTSUPP)          \
	X(ibv_inc_comp_cntr, EOPNOTSUPP)              \
	X(ibv_inc_err_comp_cntr, EOPNOTSUPP)          \
	X(ibv_read_comp_cntr, EOPNOTSUPP)             \
	X(ibv_read_err_comp_cntr, EOPNOTSUPP)         \
	X(ibv_qp_attach_comp_cntr, EOPNOTSUPP)

namespace verbena::verbs {

struct RealLibrary {
#define VERBENA_MEMBER(function, absent) \
	decltype(&::function) function;  // NOLINT(bugprone-macro-parentheses): it is a name
	VERBENA_REAL_FUNCTIONS(VERBENA_MEMBER)
#undef VERBENA_MEMBER
};

const RealLibrary& real();

// A function of the real library by its name, or null.
void* find_in_real_library(const char* name);

// While one exists, this thread is in a call of the real library whose inner calls must see real
// devices only.
class InsideReal {
public:
	InsideReal() { ++depth_; }
	~InsideReal() { --depth_; }
	InsideReal(const InsideReal&) = delete;
	InsideReal& operator=(const InsideReal&) = delete;

	static bool here() { return depth_ > 0; }

private:
	static inline constinit thread_local int depth_ = 0;
	presence::Unseen unseen_;  // nor may the real library find our devices in the file system
};

}  // namespace verbena::verbs
