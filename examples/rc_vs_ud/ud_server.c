// SPDX-License-Identifier: Apache-2.0
/* An Unreliable Datagram (UD) receiver in plain C on libibverbs.
 *
 *   gcc ud_server.c -o ud_server -lrdmacm -libverbs
 *
 * It posts more receives than a sender may have in flight, prints its address (QPN, Q_Key, GID),
 * and prints each message that arrives, until SIGINT or SIGTERM. UD needs no connection: the queue
 * pair is moved to Ready To Receive without knowing any peer.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

enum {
	port_number = 1,
	receives = 64 + 10,  /* for 64 messages in flight, and 10 more while messages are consumed */
	grh_bytes = 40,      /* each UD receive starts with the sender's Global Route Header */
	buffer_bytes = grh_bytes + 64,
	q_key = 0x11111111,
};

static struct server {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	union ibv_gid gid;
	unsigned char buffers[receives][buffer_bytes];
	unsigned long messages, bytes;
} s;

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
	stopped = signal_number;
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "[UD Server] %s: %s\n", what, strerror(error));
	return -1;
}

static int check(const char *what, int error)
{
	return error ? fail(what, error) : 0;
}

/* Ranks a GID: RoCE v2 only; IPv4 before routable IPv6 before link-local. 0: it cannot be used. */
static int gid_rank(const struct ibv_gid_entry *entry)
{
	const struct in6_addr *address = (const void *)entry->gid.raw;

	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	return IN6_IS_ADDR_V4MAPPED(address) ? 3 : IN6_IS_ADDR_LINKLOCAL(address) ? 1 : 2;
}

/* Opens the first device that has an active port with a usable GID. */
static int open_device(void)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	int count = 0, best = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	for (int i = 0; i < count && best == 0; i++) {
		if (!(s.device = ibv_open_device(list[i])))
			continue;
		if (ibv_query_port(s.device, port_number, &port) != 0 || port.state != IBV_PORT_ACTIVE)
			port.gid_tbl_len = 0;
		for (int index = 0; index < port.gid_tbl_len; index++)
			if (ibv_query_gid_ex(s.device, port_number, index, &entry, 0) == 0 && gid_rank(&entry) > best) {
				best = gid_rank(&entry);
				s.gid = entry.gid;
			}
		if (best == 0)
			s.device = (ibv_close_device(s.device), NULL);
	}
	if (list)  /* NULL if the kernel does not support RDMA */
		ibv_free_device_list(list);
	if (best == 0)
		fputs(count == 0 ? "[UD Server] no RDMA device (with Verbena: verbena run -- ./ud_server)\n"
		                 : "[UD Server] no device has an active port with a RoCE v2 GID\n", stderr);
	return best == 0 ? -1 : 0;
}

static int post_receive(uint64_t slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s.buffers[slot], .length = buffer_bytes, .lkey = s.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	return check("ibv_post_recv", ibv_post_recv(s.qp, &wr, &bad));
}

static int set_up(void)
{
	if (!(s.pd = ibv_alloc_pd(s.device)))
		return fail("ibv_alloc_pd", errno);
	if (!(s.channel = ibv_create_comp_channel(s.device)))
		return fail("ibv_create_comp_channel", errno);
	if (!(s.cq = ibv_create_cq(s.device, receives, NULL, s.channel, 0)))
		return fail("ibv_create_cq", errno);
	if (!(s.mr = ibv_reg_mr(s.pd, s.buffers, sizeof s.buffers, IBV_ACCESS_LOCAL_WRITE)))
		return fail("ibv_reg_mr", errno);
	struct ibv_qp_init_attr init = {.send_cq = s.cq, .recv_cq = s.cq, .qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 1, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1}};
	if (!(s.qp = ibv_create_qp(s.pd, &init)))
		return fail("ibv_create_qp", errno);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = port_number, .qkey = q_key};
	if (check("queue pair to INIT", ibv_modify_qp(s.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)))
		return -1;
	/* Post receives before RTR: a datagram that finds none is dropped silently. */
	int error = 0;
	for (int slot = 0; slot < receives && !error; slot++)
		error = post_receive(slot);
	attr.qp_state = IBV_QPS_RTR;
	return error ? error : check("queue pair to RTR", ibv_modify_qp(s.qp, &attr, IBV_QP_STATE));
}

static int consume(const struct ibv_wc *wc)
{
	const unsigned char *text = s.buffers[wc->wr_id] + grh_bytes;
	unsigned length = wc->byte_len - grh_bytes;

	if (wc->status != IBV_WC_SUCCESS)  /* the queue pair is in the error state */
		return fprintf(stderr, "[UD Server] receive failed: %s\n", ibv_wc_status_str(wc->status)), -1;
	printf("[UD Server] Received %u bytes from QPN %u: ", length, wc->src_qp);
	for (unsigned i = 0; i < length && text[i] != '\0'; i++)
		putchar(text[i] >= ' ' && text[i] <= '~' ? text[i] : '.');
	putchar('\n');
	s.messages++;
	s.bytes += length;
	return post_receive(wc->wr_id);
}

static int serve(void)
{
	struct pollfd readable = {.fd = s.channel->fd, .events = POLLIN};
	struct ibv_wc wc;
	int count = 0;

	while (!stopped) {
		/* Request the next event before the queue is emptied, so that no completion is missed. */
		int error = check("ibv_req_notify_cq", ibv_req_notify_cq(s.cq, 0));
		while (!error && !stopped && (count = ibv_poll_cq(s.cq, 1, &wc)) > 0)
			error = consume(&wc);
		if (error || count < 0)
			return error ? error : fail("ibv_poll_cq", EIO);
		/* The timeout bounds the wait if a signal arrives just before poll(). */
		if (poll(&readable, 1, 200) > 0) {
			if (ibv_get_cq_event(s.channel, &(struct ibv_cq *){NULL}, &(void *){NULL}))
				return fail("ibv_get_cq_event", errno);
			ibv_ack_cq_events(s.cq, 1);
		}
	}
	return 0;
}

static int tear_down(void)
{
	int error = 0;

	if (s.qp && check("ibv_destroy_qp", ibv_destroy_qp(s.qp))) error = -1;
	if (s.mr && check("ibv_dereg_mr", ibv_dereg_mr(s.mr))) error = -1;
	if (s.cq && check("ibv_destroy_cq", ibv_destroy_cq(s.cq))) error = -1;
	if (s.channel && check("ibv_destroy_comp_channel", ibv_destroy_comp_channel(s.channel))) error = -1;
	if (s.pd && check("ibv_dealloc_pd", ibv_dealloc_pd(s.pd))) error = -1;
	if (s.device && check("ibv_close_device", ibv_close_device(s.device))) error = -1;
	return error;
}

int main(int argc, char **argv)
{
	if (argc != 1)
		return fprintf(stderr, "usage: %s\n", argv[0]), 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	int result = open_device() || set_up();
	if (result == 0) {
		printf("[UD Server] Ready to receive %d concurrent messages.\n", receives);
		printf("  QPN  = %u\n  QKey = 0x%08x\n  GID  = ", s.qp->qp_num, q_key);
		for (int i = 0; i < 16; i += 2)
			printf("%02x%02x%s", s.gid.raw[i], s.gid.raw[i + 1], i < 14 ? ":" : "\n");
		result = serve();
		printf("[UD Server] Received %lu messages, %lu bytes.\n", s.messages, s.bytes);
	}
	return tear_down() || result ? 1 : 0;
}
