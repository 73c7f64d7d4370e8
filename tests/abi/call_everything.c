// SPDX-License-Identifier: Apache-2.0
// Calls every exported verb on one device of ours, and then every inline function of verbs.h that
// jumps through a table of the context. Run it with the library preloaded:
//
//     LD_PRELOAD=.../libverbena-nic.so call_everything libverbena-nic.so
//
// Each call must succeed or fail cleanly: NULL with errno, a positive errno value, or a negative
// value with errno. A function that our library does not export runs in the real library, which
// takes our context for its own and crashes. The name is printed before the call, so after a crash
// the last line names the function.
//
// Prints one line for each function, `NAME RESULT`. Exit code: 1 if a result is not clean.
#define _GNU_SOURCE  // dladdr
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// verbs.h defines macros of these names; here the exported functions are called.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static bool failed;

// Prints the name of the function that is called next.
static void begin(const char *name)
{
	printf("%s ", name);
	fflush(stdout);
	errno = 0;
}

// Prints the result of the call; `clean` says whether a failure was reported as it must be.
static void end(bool clean, bool success)
{
	const int error = errno;
	failed |= !clean;
	printf("%s\n", !clean ? "FAILED WITHOUT A CLEAN ERRNO" : success ? "ok" : strerror(error));
}

// Calls a function that returns a pointer, or NULL with errno.
#define POINTER(name, call)                                        \
	({                                                             \
		begin(name);                                               \
		__typeof__(call) pointer_ = (call);                        \
		end(pointer_ || errno > 0, pointer_);                      \
		pointer_;                                                  \
	})

// Calls a function that returns 0, a positive errno value, or a negative value with errno.
#define RESULT(name, call)                                         \
	({                                                             \
		begin(name);                                               \
		const long result_ = (call);                               \
		if (result_ > 0) errno = (int)result_;                     \
		end(result_ >= 0 ? result_ < 4096 : errno > 0, !result_);  \
		result_;                                                   \
	})

// Calls a function whose return value says nothing about success.
#define VALUE(name, call)                                          \
	({                                                             \
		begin(name);                                               \
		__typeof__(call) value_ = (call);                          \
		end(true, true);                                           \
		value_;                                                    \
	})

// Calls a function that returns nothing.
#define NOTHING(name, call)                                        \
	({                                                             \
		begin(name);                                               \
		call;                                                      \
		end(true, true);                                           \
	})

// An exported function that the installed headers may not declare, cast to `type`.
#define NEWER(type, name) ((type)newer(name))

static const char *library;

static void *newer(const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);
	Dl_info info;
	if (!function || !dladdr(function, &info) || !strstr(info.dli_fname, library)) {
		printf("%s NOT EXPORTED BY %s\n", name, library);
		exit(1);
	}
	return function;
}

// Stands for an object that our NIC cannot create. Like every verbs object it begins with its
// context.
struct fake {
	struct ibv_context *context;
	char rest[248];
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *rc, *ud;
static struct ibv_mr *mr;
static union ibv_gid gid;
static char buffer[4096];

static void require(const void *object, const char *what)
{
	if (object) return;
	printf("FAILED: the device gives us no %s, which the other calls need\n", what);
	exit(1);
}

static void queries(void)
{
	struct ibv_device_attr device_attr;
	RESULT("ibv_query_device", ibv_query_device(context, &device_attr));
	struct ibv_port_attr port_attr;
	RESULT("ibv_query_port", ibv_query_port(context, 1, (struct _compat_ibv_port_attr *)&port_attr));
	uint64_t speed;
	RESULT("ibv_query_port_speed",
	       NEWER(int (*)(struct ibv_context *, uint32_t, uint64_t *), "ibv_query_port_speed")(context, 1, &speed));
	RESULT("ibv_query_gid", ibv_query_gid(context, 1, 0, &gid));
	struct ibv_gid_entry entry;
	RESULT("_ibv_query_gid_ex", _ibv_query_gid_ex(context, 1, 0, &entry, 0, sizeof entry));
	struct ibv_gid_entry *entries = calloc(4096, sizeof *entries);
	const ssize_t entry_count =
	        VALUE("_ibv_query_gid_table", _ibv_query_gid_table(context, entries, 4096, 0, sizeof *entries));
	failed |= entry_count < -4095;
	free(entries);
	unsigned int gid_type;
	RESULT("ibv_query_gid_type", NEWER(int (*)(struct ibv_context *, uint8_t, unsigned int, unsigned int *),
	                                   "ibv_query_gid_type")(context, 1, 0, &gid_type));
	char count[32];
	const int digits = VALUE("ibv_read_sysfs_file",
	                         NEWER(int (*)(const char *, const char *, char *, size_t), "ibv_read_sysfs_file")(
	                             context->device->ibdev_path, "ports/1/hw_counters/rcvd_rnr_err", count, sizeof count));
	failed |= digits != 1 || count[0] != '0';
	__be16 pkey = 0xffff;
	RESULT("ibv_query_pkey", ibv_query_pkey(context, 1, 0, &pkey));
	RESULT("ibv_get_pkey_index", ibv_get_pkey_index(context, 1, pkey));
	struct fake caps;
	RESULT("_ibv_query_comp_cntr_caps",
	       NEWER(int (*)(struct ibv_context *, void *, size_t), "_ibv_query_comp_cntr_caps")(context, &caps, 16));
}

static void create_objects(void)
{
	require(pd = POINTER("ibv_alloc_pd", ibv_alloc_pd(context)), "protection domain");
	require(channel = POINTER("ibv_create_comp_channel", ibv_create_comp_channel(context)), "completion channel");
	require(cq = POINTER("ibv_create_cq", ibv_create_cq(context, 16, NULL, channel, 0)), "completion queue");
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 16, .max_sge = 1}};
	require(srq = POINTER("ibv_create_srq", ibv_create_srq(pd, &srq_attr)), "shared receive queue");
	struct ibv_qp_init_attr qp_attr = {.send_cq = cq,
	                                   .recv_cq = cq,
	                                   .srq = srq,
	                                   .qp_type = IBV_QPT_RC,
	                                   .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	require(rc = POINTER("ibv_create_qp", ibv_create_qp(pd, &qp_attr)), "RC queue pair");
	qp_attr = (struct ibv_qp_init_attr){
	        .send_cq = cq,
	        .recv_cq = cq,
	        .qp_type = IBV_QPT_UD,
	        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	require(ud = POINTER("ibv_create_qp", ibv_create_qp(pd, &qp_attr)), "UD queue pair");
	require(mr = POINTER("ibv_reg_mr", ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE)),
	        "memory region");
}

static void deregister(struct ibv_mr *region)
{
	if (region) RESULT("ibv_dereg_mr", ibv_dereg_mr(region));
}

static void memory(void)
{
	const uintptr_t iova = (uintptr_t)buffer;
	const int access = IBV_ACCESS_LOCAL_WRITE;
	deregister(POINTER("ibv_reg_mr_iova", ibv_reg_mr_iova(pd, buffer, sizeof buffer, iova, access)));
	deregister(POINTER("ibv_reg_mr_iova2",
	                   ibv_reg_mr_iova2(pd, buffer, sizeof buffer, iova, access | IBV_ACCESS_RELAXED_ORDERING)));
	const int pipe_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	deregister(POINTER("ibv_reg_dmabuf_mr", ibv_reg_dmabuf_mr(pd, 0, sizeof buffer, 0, pipe_fd, access)));
	close(pipe_fd);
	RESULT("ibv_rereg_mr",
	       ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
	                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));

	char nothing[256] = {0};  // attributes whose mask and length are 0
	deregister(POINTER("ibv_reg_mr_ex",
	                   NEWER(struct ibv_mr * (*)(struct ibv_pd *, void *), "ibv_reg_mr_ex")(pd, nothing)));
	void *handle = NULL;
	void *memory =
		POINTER("ibv_alloc_buf", NEWER(void *(*)(struct ibv_pd *, size_t, void **), "ibv_alloc_buf")(pd, 4096, &handle));
	deregister(POINTER("ibv_reg_buf_mr", NEWER(struct ibv_mr * (*)(struct ibv_pd *, void *, void *, size_t, int),
	                                           "ibv_reg_buf_mr")(pd, handle, memory, 4096, access)));
	RESULT("ibv_export_buf_dmabuf_fd", NEWER(int (*)(void *), "ibv_export_buf_dmabuf_fd")(handle));
	NOTHING("ibv_free_buf", NEWER(void (*)(void *), "ibv_free_buf")(handle));
	POINTER("ibv_alloc_dmah", NEWER(void *(*)(struct ibv_context *, void *), "ibv_alloc_dmah")(context, nothing));
	struct fake object = {.context = context};
	RESULT("ibv_dealloc_dmah", NEWER(int (*)(void *), "ibv_dealloc_dmah")(&object));
	RESULT("ibv_dm_export_dmabuf_fd", NEWER(int (*)(void *), "ibv_dm_export_dmabuf_fd")(&object));
}

static void imports(void)
{
	POINTER("ibv_import_device", ibv_import_device(context->cmd_fd));
	POINTER("ibv_import_pd", ibv_import_pd(context, 1));
	POINTER("ibv_import_mr", ibv_import_mr(pd, 1));
	POINTER("ibv_import_dm", ibv_import_dm(context, 1));
	struct fake object = {.context = context};
	NOTHING("ibv_unimport_pd", ibv_unimport_pd((struct ibv_pd *)&object));
	NOTHING("ibv_unimport_mr", ibv_unimport_mr((struct ibv_mr *)&object));
	NOTHING("ibv_unimport_dm", ibv_unimport_dm((struct ibv_dm *)&object));
}

static void counters(void)
{
	struct fake object = {.context = context};
	char nothing[256] = {0};
	uint64_t value;
	typedef int (*set)(void *, uint64_t);
	typedef int (*get)(void *, uint64_t *);
	POINTER("ibv_create_comp_cntr",
	        NEWER(void *(*)(struct ibv_context *, void *), "ibv_create_comp_cntr")(context, nothing));
	RESULT("ibv_set_comp_cntr", NEWER(set, "ibv_set_comp_cntr")(&object, 1));
	RESULT("ibv_set_err_comp_cntr", NEWER(set, "ibv_set_err_comp_cntr")(&object, 1));
	RESULT("ibv_inc_comp_cntr", NEWER(set, "ibv_inc_comp_cntr")(&object, 1));
	RESULT("ibv_inc_err_comp_cntr", NEWER(set, "ibv_inc_err_comp_cntr")(&object, 1));
	RESULT("ibv_read_comp_cntr", NEWER(get, "ibv_read_comp_cntr")(&object, &value));
	RESULT("ibv_read_err_comp_cntr", NEWER(get, "ibv_read_err_comp_cntr")(&object, &value));
	RESULT("ibv_qp_attach_comp_cntr",
	       NEWER(int (*)(struct ibv_qp *, void *, void *), "ibv_qp_attach_comp_cntr")(rc, &object, nothing));
	RESULT("ibv_destroy_comp_cntr", NEWER(int (*)(void *), "ibv_destroy_comp_cntr")(&object));
}

static void queues(void)
{
	RESULT("ibv_resize_cq", ibv_resize_cq(cq, 64));
	struct ibv_srq_attr srq_attr = {.srq_limit = 0};
	RESULT("ibv_modify_srq", ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT));
	RESULT("ibv_query_srq", ibv_query_srq(srq, &srq_attr));
	VALUE("ibv_qp_to_qp_ex", ibv_qp_to_qp_ex(rc));  // NULL, since the QP has no send operations
	VALUE("ibv_query_qp_data_in_order", ibv_query_qp_data_in_order(rc, IBV_WR_RDMA_WRITE, 0));
	struct ibv_ece ece = {0};
	RESULT("ibv_query_ece", ibv_query_ece(rc, &ece));
	RESULT("ibv_set_ece", ibv_set_ece(rc, &ece));
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111};
	RESULT("ibv_modify_qp", ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	RESULT("ibv_modify_qp",
	       ibv_modify_qp(rc, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	struct ibv_qp_init_attr init_attr;
	RESULT("ibv_query_qp", ibv_query_qp(rc, &attr, IBV_QP_STATE, &init_attr));
	const union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};
	RESULT("ibv_attach_mcast", ibv_attach_mcast(ud, &group, 0xc000));
	RESULT("ibv_detach_mcast", ibv_detach_mcast(ud, &group, 0xc000));
}

static void destroy_address(struct ibv_ah *ah)
{
	if (ah) RESULT("ibv_destroy_ah", ibv_destroy_ah(ah));
}

static void addresses(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}};
	struct ibv_ah *ah = POINTER("ibv_create_ah", ibv_create_ah(pd, &attr));
	require(ah, "address handle");
	destroy_address(ah);
	uint8_t mac[6];
	uint16_t vlan;
	RESULT("ibv_resolve_eth_l2_from_gid", ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vlan));

	struct ibv_wc wc = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV, .wc_flags = IBV_WC_GRH, .src_qp = ud->qp_num};
	struct ibv_grh grh = {.next_hdr = 0x1b, .hop_limit = 64, .sgid = gid, .dgid = gid};
	*(unsigned char *)&grh.version_tclass_flow = 6 << 4;
	RESULT("ibv_init_ah_from_wc", ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr));
	destroy_address(POINTER("ibv_create_ah_from_wc", ibv_create_ah_from_wc(pd, &wc, &grh, 1)));
}

static void events(void)
{
	fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
	struct ibv_cq *event_cq;
	void *cq_context;
	RESULT("ibv_get_cq_event", ibv_get_cq_event(channel, &event_cq, &cq_context));
	NOTHING("ibv_ack_cq_events", ibv_ack_cq_events(cq, 0));

	// A queue pair with a shared receive queue raises LAST_WQE_REACHED when it enters the error
	// state.
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	RESULT("ibv_modify_qp", ibv_modify_qp(rc, &attr, IBV_QP_STATE));
	struct ibv_async_event event;
	while (RESULT("ibv_get_async_event", ibv_get_async_event(context, &event)) == 0)
		NOTHING("ibv_ack_async_event", ibv_ack_async_event(&event));
	event = (struct ibv_async_event){.event_type = IBV_EVENT_PORT_ACTIVE, .element.port_num = 1};
	NOTHING("ibv_ack_async_event", ibv_ack_async_event(&event));
}

// The inline functions of verbs.h call entries of the context's tables; these must be callable too.
static void inline_queries(void)
{
	struct ibv_port_attr port_attr;
	RESULT("inline:ibv_query_port", ___ibv_query_port(context, 1, &port_attr));
	struct ibv_device_attr_ex device_attr;
	RESULT("inline:ibv_query_device_ex", ibv_query_device_ex(context, NULL, &device_attr));
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	RESULT("inline:ibv_query_rt_values_ex", ibv_query_rt_values_ex(context, &values));
}

static void inline_completions(void)
{
	struct ibv_wc wc;
	begin("inline:ibv_poll_cq");
	const int completion_count = ibv_poll_cq(cq, 1, &wc);
	end(completion_count >= 0 ? completion_count <= 1 : errno > 0, completion_count >= 0);
	RESULT("inline:ibv_req_notify_cq", ibv_req_notify_cq(cq, 0));
	struct ibv_modify_cq_attr cq_attr = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = 1}};
	RESULT("inline:ibv_modify_cq", ibv_modify_cq(cq, &cq_attr));
	struct ibv_cq_init_attr_ex cq_ex_attr = {.cqe = 4, .wc_flags = IBV_CREATE_CQ_SUP_WC_FLAGS};
	struct ibv_cq_ex *cq_ex = POINTER("inline:ibv_create_cq_ex", ibv_create_cq_ex(context, &cq_ex_attr));
	if (cq_ex) RESULT("ibv_destroy_cq", ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)));
}

static void inline_posts(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = 16, .lkey = mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
	RESULT("inline:ibv_post_recv", ibv_post_recv(ud, &receive, &bad_receive));
	RESULT("inline:ibv_post_srq_recv", ibv_post_srq_recv(srq, &receive, &bad_receive));
	struct ibv_send_wr send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
	RESULT("inline:ibv_post_send", ibv_post_send(rc, &send, &bad_send));
	struct ibv_ops_wr operation = {.opcode = IBV_WR_TAG_SYNC}, *bad_operation;
	RESULT("inline:ibv_post_srq_ops", ibv_post_srq_ops(srq, &operation, &bad_operation));
	uint32_t srq_number;
	RESULT("inline:ibv_get_srq_num", ibv_get_srq_num(srq, &srq_number));
}

static void inline_memory(void)
{
	struct ibv_mw *window = POINTER("inline:ibv_alloc_mw", ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	if (window) {
		struct ibv_mw_bind bind = {0};
		RESULT("inline:ibv_bind_mw", ibv_bind_mw(rc, window, &bind));
		RESULT("inline:ibv_dealloc_mw", ibv_dealloc_mw(window));
	}
	deregister(POINTER("inline:ibv_alloc_null_mr", ibv_alloc_null_mr(pd)));
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = 16, .lkey = mr->lkey};
	RESULT("inline:ibv_advise_mr",
	       ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
	struct ibv_alloc_dm_attr dm_attr = {.length = 64};
	struct ibv_dm *dm = POINTER("inline:ibv_alloc_dm", ibv_alloc_dm(context, &dm_attr));
	if (dm) {
		RESULT("inline:ibv_memcpy_to_dm", ibv_memcpy_to_dm(dm, 0, buffer, 64));
		RESULT("inline:ibv_memcpy_from_dm", ibv_memcpy_from_dm(buffer, dm, 0, 64));
		deregister(POINTER("inline:ibv_reg_dm_mr", ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED)));
		RESULT("inline:ibv_free_dm", ibv_free_dm(dm));
	}
}

static void inline_queue_pairs(void)
{
	struct ibv_xrcd_init_attr xrcd_attr = {
	        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = POINTER("inline:ibv_open_xrcd", ibv_open_xrcd(context, &xrcd_attr));
	struct fake no_xrcd = {.context = context};
	if (xrcd || verbs_get_ctx(context)->open_xrcd == NULL)
		RESULT("inline:ibv_close_xrcd", ibv_close_xrcd(xrcd ? xrcd : (struct ibv_xrcd *)&no_xrcd));
	struct ibv_qp_open_attr open_attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM, .qp_num = 1};
	POINTER("inline:ibv_open_qp", ibv_open_qp(context, &open_attr));
	struct ibv_srq_init_attr_ex srq_attr = {
	        .attr = {.max_wr = 4, .max_sge = 1},
	        .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_CQ,
	        .srq_type = IBV_SRQT_TM,
	        .pd = pd,
	        .cq = cq};
	struct ibv_srq *srq_ex = POINTER("inline:ibv_create_srq_ex", ibv_create_srq_ex(context, &srq_attr));
	if (srq_ex) RESULT("ibv_destroy_srq", ibv_destroy_srq(srq_ex));
	struct ibv_qp_init_attr_ex qp_attr = {
	        .send_cq = cq,
	        .recv_cq = cq,
	        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	        .qp_type = IBV_QPT_RC,
	        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	        .pd = pd,
	        .send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_qp *qp_ex = POINTER("inline:ibv_create_qp_ex", ibv_create_qp_ex(context, &qp_attr));
	if (qp_ex) RESULT("ibv_destroy_qp", ibv_destroy_qp(qp_ex));
	struct ibv_qp_rate_limit_attr rate_attr = {.rate_limit = 1};
	RESULT("inline:ibv_modify_qp_rate_limit", ibv_modify_qp_rate_limit(rc, &rate_attr));
}

static void inline_domains(void)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = POINTER("inline:ibv_alloc_td", ibv_alloc_td(context, &td_attr));
	struct ibv_parent_domain_init_attr domain_attr = {.pd = pd, .td = td};
	struct ibv_pd *domain = POINTER("inline:ibv_alloc_parent_domain", ibv_alloc_parent_domain(context, &domain_attr));
	if (domain) RESULT("ibv_dealloc_pd", ibv_dealloc_pd(domain));
	if (td) RESULT("inline:ibv_dealloc_td", ibv_dealloc_td(td));
}

static void inline_work_queues_flows_and_counters(void)
{
	struct ibv_wq_init_attr wq_attr = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_wq *wq = POINTER("inline:ibv_create_wq", ibv_create_wq(context, &wq_attr));
	if (wq) RESULT("inline:ibv_destroy_wq", ibv_destroy_wq(wq));
	struct ibv_rwq_ind_table_init_attr table_attr = {0};
	POINTER("inline:ibv_create_rwq_ind_table", ibv_create_rwq_ind_table(context, &table_attr));
	struct ibv_flow_attr flow_attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof flow_attr, .port = 1};
	POINTER("inline:ibv_create_flow", ibv_create_flow(ud, &flow_attr));
	struct ibv_flow_action_esp_attr esp_attr = {0};
	POINTER("inline:ibv_create_flow_action_esp", ibv_create_flow_action_esp(context, &esp_attr));
	struct ibv_counters_init_attr counters_attr = {0};
	POINTER("inline:ibv_create_counters", ibv_create_counters(context, &counters_attr));
}

static void destroy_objects(void)
{
	deregister(mr);
	RESULT("ibv_destroy_qp", ibv_destroy_qp(ud));
	RESULT("ibv_destroy_qp", ibv_destroy_qp(rc));
	RESULT("ibv_destroy_srq", ibv_destroy_srq(srq));
	RESULT("ibv_destroy_cq", ibv_destroy_cq(cq));
	RESULT("ibv_destroy_comp_channel", ibv_destroy_comp_channel(channel));
	RESULT("ibv_dealloc_pd", ibv_dealloc_pd(pd));
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: LD_PRELOAD=LIBRARY %s LIBRARY_NAME\n", argv[0]);
		return 2;
	}
	library = argv[1];
	alarm(30);

	RESULT("ibv_fork_init", ibv_fork_init());
	int count = 0;
	struct ibv_device **list = POINTER("ibv_get_device_list", ibv_get_device_list(&count));
	require(list && count ? list : NULL, "device");
	struct ibv_device *device = list[count - 1];  // real devices are listed first, ours last
	VALUE("ibv_get_device_name", ibv_get_device_name(device));
	VALUE("ibv_get_device_index", ibv_get_device_index(device));
	VALUE("ibv_get_device_guid", ibv_get_device_guid(device));
	require(context = POINTER("ibv_open_device", ibv_open_device(device)), "context");
	NOTHING("ibv_free_device_list", ibv_free_device_list(list));
	VALUE("ibv_is_fork_initialized", ibv_is_fork_initialized());

	queries();
	create_objects();
	memory();
	imports();
	counters();
	queues();
	addresses();
	events();
	inline_queries();
	inline_completions();
	inline_posts();
	inline_memory();
	inline_queue_pairs();
	inline_domains();
	inline_work_queues_flows_and_counters();
	destroy_objects();
	RESULT("ibv_close_device", ibv_close_device(context));
	return failed;
}
