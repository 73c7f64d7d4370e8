// SPDX-License-Identifier: Apache-2.0
// Declarations of public verbs that verbs.h of rdma-core 44 lacks. A newer libibverbs exports them
// (IBVERBS_1.15 to 1.18), or every libibverbs exports them without a declaration in an installed
// header (those from ibv_query_gid_type to ibv_copy_path_rec_to_kern).
//
// Structs are declared and not defined; we rely only on an object's first member being its context.
// With newer headers, these lines repeat the declarations found there.
#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

extern "C" {

struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

// The type is rdma-core's internal enum: 0 for InfiniBand or RoCE v1, 1 for RoCE v2.
int ibv_query_gid_type(struct ibv_context* context, uint8_t port_num, unsigned int index, unsigned int* type);

// Returns the length of the file's text without the final newline, or -1 if the file cannot be read
// or does not fit.
int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size);

// The folder where sysfs is mounted, without a final slash.
const char* ibv_get_sysfs_path(void);

// Convert between the kernel's structs and ours, for librdmacm.
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr* dst, struct ib_uverbs_ah_attr* src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr* dst, struct ib_uverbs_qp_attr* src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec* dst, struct ib_user_path_rec* src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec* dst, struct ibv_sa_path_rec* src);

// IBVERBS_1.15
struct ibv_dmah* ibv_alloc_dmah(struct ibv_context* context, struct ibv_dmah_init_attr* attr);
int ibv_dealloc_dmah(struct ibv_dmah* dmah);
struct ibv_mr* ibv_reg_mr_ex(struct ibv_pd* pd, struct ibv_mr_init_attr* mr_init_attr);

// IBVERBS_1.16
int ibv_dm_export_dmabuf_fd(struct ibv_dm* dm);
int ibv_query_port_speed(struct ibv_context* context, uint32_t port_num, uint64_t* port_speed);

// IBVERBS_1.17
void* ibv_alloc_buf(struct ibv_pd* pd, size_t size, struct ibv_buf** buf);
void ibv_free_buf(struct ibv_buf* buf);
struct ibv_mr* ibv_reg_buf_mr(struct ibv_pd* pd, struct ibv_buf* buf, void* addr, size_t length, int access);

// IBVERBS_1.18
int _ibv_query_comp_cntr_caps(struct ibv_context* context, struct ibv_comp_cntr_caps* caps, size_t caps_size);
struct ibv_comp_cntr* ibv_create_comp_cntr(struct ibv_context* context, struct ibv_comp_cntr_init_attr* cc_attr);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr* comp_cntr);
int ibv_set_comp_cntr(struct ibv_comp_cntr* comp_cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr* comp_cntr, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr* comp_cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr* comp_cntr, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr* comp_cntr, uint64_t* value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr* comp_cntr, uint64_t* value);
int ibv_qp_attach_comp_cntr(
	struct ibv_qp* qp, struct ibv_comp_cntr* comp_cntr, struct ibv_qp_attach_comp_cntr_attr* attr);
int ibv_export_buf_dmabuf_fd(struct ibv_buf* buf);

}  // extern "C"
