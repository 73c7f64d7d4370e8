// SPDX-License-Identifier: Apache-2.0
/* Queue pairs join multicast groups and leave them (ibv_attach_mcast(3)). Prints a line for what is
 * not as it must be, and at last "done".
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../must.h"

enum { GROUPS = 50, BYTES = 8, GRH = 40, Q_KEY = 0x11111111, PATIENCE_S = 20 };

static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static unsigned char memory[4096];

static union ibv_gid group(int number)
{
	return (union ibv_gid){.raw = {[10] = 0xff, 0xff, 239, 77, 0, (uint8_t)number}};
}

/* The groups 239.77.0.0/16 of which the host is a member. The kernel prints the bytes of an address
 * in the order of the memory.
 */
static int memberships(void)
{
	FILE *file = fopen("/proc/self/net/igmp", "r");
	char line[256];
	int count = 0;

	MUST(file);
	while (fgets(line, sizeof line, file))
		if (strncmp(line + strspn(line, "\t ") + 4, "4DEF", 4) == 0) ++count;
	fclose(file);
	return count;
}

static int index_of_ipv4_gid(void)
{
	struct ibv_gid_entry entry;

	for (int index = 0; index < 256; ++index)
		if (!ibv_query_gid_ex(device, 1, (uint32_t)index, &entry, 0) && entry.gid.raw[10] == 0xff &&
		    entry.gid.raw[0] == 0)
			return index;
	MUST(!"the device has no IPv4 address");
	return -1;
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	device = list && list[0] ? ibv_open_device(list[0]) : NULL;
	MUST(device && (pd = ibv_alloc_pd(device)) && (cq = ibv_create_cq(device, 16, NULL, NULL, 0)));
	MUST((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)));
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp *qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = cq,
						     .recv_cq = cq,
						     .cap = {4, 4, 1, 1, 0},
						     .qp_type = IBV_QPT_UD});
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = Q_KEY};

	MUST(qp);
	MUST(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attributes.qp_state = IBV_QPS_RTR;
	MUST(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE));
	attributes.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

static struct ibv_wc next_completion(enum ibv_wc_opcode wanted)
{
	const time_t deadline = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;

	for (;;) {
		const int got = ibv_poll_cq(cq, 1, &wc);

		MUST(got >= 0 && time(NULL) < deadline);
		if (got == 0 || wc.opcode != wanted) continue;
		MUST(wc.status == IBV_WC_SUCCESS);
		return wc;
	}
}

static void send_number(struct ibv_qp *from, uint32_t number)
{
	struct ibv_sge piece = {(uintptr_t)memory, BYTES, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = number,
		.wr.ud = {.ah = ah, .remote_qpn = 0xffffff, .remote_qkey = Q_KEY}}, *bad;

	MUST(!ibv_post_send(from, &wr, &bad));
}

static void a_member_attached_twice_gets_one_copy(void)
{
	struct ibv_qp *from = make_qp(), *to = make_qp();
	union ibv_gid joined = group(1);
	struct ibv_ah_attr path = {.is_global = 1, .port_num = 1, .grh = {.dgid = joined, .hop_limit = 1}};
	struct ibv_sge piece = {(uintptr_t)memory + 1024, GRH + BYTES, mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &piece, .num_sge = 1}, *bad;

	path.grh.sgid_index = (uint8_t)index_of_ipv4_gid();
	MUST((ah = ibv_create_ah(pd, &path)));
	MUST(!ibv_attach_mcast(to, &joined, 0) && !ibv_attach_mcast(to, &joined, 0) && memberships() == 1);
	for (int i = 0; i < 4; ++i) MUST(!ibv_post_recv(to, &receive, &bad));
	for (uint32_t number = 1; number <= 3; ++number) send_number(from, number);
	for (uint32_t number = 1; number <= 3; ++number) MUST(next_completion(IBV_WC_RECV).imm_data == number);
	/* One call detaches it, as the two calls have attached it once. */
	MUST(!ibv_detach_mcast(to, &joined, 0) && memberships() == 0);
	MUST(ibv_detach_mcast(to, &joined, 0) == EINVAL);
	MUST(!ibv_destroy_ah(ah) && !ibv_destroy_qp(from) && !ibv_destroy_qp(to));
}

static void an_attached_queue_pair_is_not_destroyed(void)
{
	struct ibv_qp *qp = make_qp(), *other = make_qp();
	union ibv_gid joined = group(1);

	MUST(!ibv_attach_mcast(qp, &joined, 0) && !ibv_attach_mcast(other, &joined, 0));
	MUST(ibv_destroy_qp(qp) == EBUSY && ibv_destroy_qp(qp) == EBUSY && memberships() == 1);
	MUST(!ibv_detach_mcast(qp, &joined, 0) && !ibv_destroy_qp(qp) && memberships() == 1);
	MUST(!ibv_detach_mcast(other, &joined, 0) && !ibv_destroy_qp(other) && memberships() == 0);
}

static void a_queue_pair_can_be_in_many_groups(void)
{
	struct ibv_qp *qp = make_qp();

	for (int i = 0; i < GROUPS; ++i) {
		union ibv_gid joined = group(i);
		MUST(!ibv_attach_mcast(qp, &joined, 0) && memberships() == i + 1);
	}
	for (int i = 0; i < GROUPS; ++i) {
		union ibv_gid left = group(i);
		MUST(!ibv_detach_mcast(qp, &left, 0) && memberships() == GROUPS - i - 1);
	}
	MUST(!ibv_destroy_qp(qp));
}

static void the_groups_end_with_the_device(void)
{
	union ibv_gid joined = group(1);

	MUST(!ibv_attach_mcast(make_qp(), &joined, 0) && memberships() == 1);
	MUST(!ibv_close_device(device) && memberships() == 0);
}

int main(void)
{
	open_device();
	a_member_attached_twice_gets_one_copy();
	an_attached_queue_pair_is_not_destroyed();
	a_queue_pair_can_be_in_many_groups();
	the_groups_end_with_the_device();
	fprintf(stderr, "done\n");
	return 0;
}
