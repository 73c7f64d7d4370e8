// SPDX-License-Identifier: Apache-2.0
// The functions of libibverbs that only the real library can serve: those for the provider of a
// real device (rdma-core's IBVERBS_PRIVATE_* nodes, the union of releases 22 to 65), and those by
// which a provider shields its own memory from a fork. As libibverbs.so.1, our library must export
// them, and forwards them (forwarded.cc). An installed provider calls those of its own release.
//
// Missing here are ibv_query_gid_type, which our NIC implements, and the variable
// verbs_allow_disassociate_destroy (forwarded.cc).
#pragma once

#include <cerrno>

// X(function, return value if there is no real library, or it lacks the function)
#define VERBENA_FORWARDED_FUNCTIONS(X)            \
	X(__ioctl_final_num_attrs, 0)                 \
	X(__verbs_log, 0)                             \
	X(_verbs_init_and_alloc_context, 0)           \
	X(execute_ioctl, EOPNOTSUPP)                  \
	X(ibv_cmd_advise_mr, EOPNOTSUPP)              \
	X(ibv_cmd_alloc_dm, EOPNOTSUPP)               \
	X(ibv_cmd_alloc_dmah, EOPNOTSUPP)             \
	X(ibv_cmd_alloc_mw, EOPNOTSUPP)               \
	X(ibv_cmd_alloc_pd, EOPNOTSUPP)               \
	X(ibv_cmd_attach_mcast, EOPNOTSUPP)           \
	X(ibv_cmd_close_xrcd, EOPNOTSUPP)             \
	X(ibv_cmd_create_ah, EOPNOTSUPP)              \
	X(ibv_cmd_create_comp_cntr, EOPNOTSUPP)       \
	X(ibv_cmd_create_counters, EOPNOTSUPP)        \
	X(ibv_cmd_create_cq, EOPNOTSUPP)              \
	X(ibv_cmd_create_cq_ex, EOPNOTSUPP)           \
	X(ibv_cmd_create_cq_ex2, EOPNOTSUPP)          \
	X(ibv_cmd_create_flow, EOPNOTSUPP)            \
	X(ibv_cmd_create_flow_action_esp, EOPNOTSUPP) \
	X(ibv_cmd_create_qp, EOPNOTSUPP)              \
	X(ibv_cmd_create_qp_ex, EOPNOTSUPP)           \
	X(ibv_cmd_create_qp_ex2, EOPNOTSUPP)          \
	X(ibv_cmd_create_rwq_ind_table, EOPNOTSUPP)   \
	X(ibv_cmd_create_srq, EOPNOTSUPP)             \
	X(ibv_cmd_create_srq_ex, EOPNOTSUPP)          \
	X(ibv_cmd_create_wq, EOPNOTSUPP)              \
	X(ibv_cmd_dealloc_mw, EOPNOTSUPP)             \
	X(ibv_cmd_dealloc_pd, EOPNOTSUPP)             \
	X(ibv_cmd_dereg_mr, EOPNOTSUPP)               \
	X(ibv_cmd_destroy_ah, EOPNOTSUPP)             \
	X(ibv_cmd_destroy_comp_cntr, EOPNOTSUPP)      \
	X(ibv_cmd_destroy_counters, EOPNOTSUPP)       \
	X(ibv_cmd_destroy_cq, EOPNOTSUPP)             \
	X(ibv_cmd_destroy_flow, EOPNOTSUPP)           \
	X(ibv_cmd_destroy_flow_action, EOPNOTSUPP)    \
	X(ibv_cmd_destroy_qp, EOPNOTSUPP)             \
	X(ibv_cmd_destroy_rwq_ind_table, EOPNOTSUPP)  \
	X(ibv_cmd_destroy_srq, EOPNOTSUPP)            \
	X(ibv_cmd_destroy_wq, EOPNOTSUPP)             \
	X(ibv_cmd_detach_mcast, EOPNOTSUPP)           \
	X(ibv_cmd_export_dmabuf_fd, -1)               \
	X(ibv_cmd_free_dm, EOPNOTSUPP)                \
	X(ibv_cmd_free_dmah, EOPNOTSUPP)              \
	X(ibv_cmd_get_context, EOPNOTSUPP)            \
	X(ibv_cmd_inc_comp_cntr, EOPNOTSUPP)          \
	X(ibv_cmd_inc_err_comp_cntr, EOPNOTSUPP)      \
	X(ibv_cmd_modify_cq, EOPNOTSUPP)              \
	X(ibv_cmd_modify_flow_action_esp, EOPNOTSUPP) \
	X(ibv_cmd_modify_qp, EOPNOTSUPP)              \
	X(ibv_cmd_modify_qp_ex, EOPNOTSUPP)           \
	X(ibv_cmd_modify_srq, EOPNOTSUPP)             \
	X(ibv_cmd_modify_wq, EOPNOTSUPP)              \
	X(ibv_cmd_open_qp, EOPNOTSUPP)                \
	X(ibv_cmd_open_xrcd, EOPNOTSUPP)              \
	X(ibv_cmd_poll_cq, EOPNOTSUPP)                \
	X(ibv_cmd_post_recv, EOPNOTSUPP)              \
	X(ibv_cmd_post_send, EOPNOTSUPP)              \
	X(ibv_cmd_post_srq_recv, EOPNOTSUPP)          \
	X(ibv_cmd_qp_attach_comp_cntr, EOPNOTSUPP)    \
	X(ibv_cmd_query_comp_cntr_caps, EOPNOTSUPP)   \
	X(ibv_cmd_query_context, EOPNOTSUPP)          \
	X(ibv_cmd_query_device, EOPNOTSUPP)           \
	X(ibv_cmd_query_device_any, EOPNOTSUPP)       \
	X(ibv_cmd_query_device_ex, EOPNOTSUPP)        \
	X(ibv_cmd_query_mr, EOPNOTSUPP)               \
	X(ibv_cmd_query_port, EOPNOTSUPP)             \
	X(ibv_cmd_query_port_speed, EOPNOTSUPP)       \
	X(ibv_cmd_query_qp, EOPNOTSUPP)               \
	X(ibv_cmd_query_srq, EOPNOTSUPP)              \
	X(ibv_cmd_read_comp_cntr, EOPNOTSUPP)         \
	X(ibv_cmd_read_counters, EOPNOTSUPP)          \
	X(ibv_cmd_read_err_comp_cntr, EOPNOTSUPP)     \
	X(ibv_cmd_reg_dm_mr, EOPNOTSUPP)              \
	X(ibv_cmd_reg_dmabuf_mr, EOPNOTSUPP)          \
	X(ibv_cmd_reg_mr, EOPNOTSUPP)                 \
	X(ibv_cmd_reg_mr_ex, EOPNOTSUPP)              \
	X(ibv_cmd_req_notify_cq, EOPNOTSUPP)          \
	X(ibv_cmd_rereg_mr, EOPNOTSUPP)               \
	X(ibv_cmd_resize_cq, EOPNOTSUPP)              \
	X(ibv_cmd_set_comp_cntr, EOPNOTSUPP)          \
	X(ibv_cmd_set_err_comp_cntr, EOPNOTSUPP)      \
	X(ibv_dmabuf_heap_alloc, 0)                   \
	X(ibv_dmabuf_heap_cc_shared_init, 0)          \
	X(ibv_dmabuf_heap_destroy, 0)                 \
	X(ibv_dmabuf_heap_free, 0)                    \
	X(ibv_dofork_range, 0)                        \
	X(ibv_dontfork_range, 0)                      \
	X(ibv_get_fw_ver, -1)                         \
	X(ibv_read_ibdev_sysfs_file, -1)              \
	X(ibv_wr_opcode_str, 0)                       \
	X(verbs_init_cq, 0)                           \
	X(verbs_open_device, 0)                       \
	X(verbs_register_driver_22, 0)                \
	X(verbs_register_driver_25, 0)                \
	X(verbs_register_driver_33, 0)                \
	X(verbs_register_driver_34, 0)                \
	X(verbs_register_driver_57, 0)                \
	X(verbs_register_driver_59, 0)                \
	X(verbs_register_driver_64, 0)                \
	X(verbs_register_driver_65, 0)                \
	X(verbs_set_ops, 0)                           \
	X(verbs_uninit_context, 0)
