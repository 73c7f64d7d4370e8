// SPDX-License-Identifier: Apache-2.0
// Reads the counters of vb_lo's port by each way that programs have, between messages that two
// queue pairs of this process exchange, and compares them with what was sent. Prints a line for
// each fault.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT "/sys/class/infiniband/vb_lo/ports/1/"
#define MUST(condition)                                                                 \
	do                                                                                  \
		if (!(condition)) printf("line %d: %s failed\n", __LINE__, #condition), exit(1); \
	while (0)

enum { DEPTH = 64, MTU = 1024, ROUNDS = 40, LONGEST = 5000 };

// Every libibverbs exports it, but no installed header declares it.
extern int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size);

typedef unsigned long long count_t;

static int faults;
static char buffer[2 * LONGEST];
static struct ibv_device* device;
static struct ibv_cq* cq;
static struct ibv_mr* mr;
static struct ibv_qp* ends[2];

static void make_ends(void) {
	struct ibv_device** list = ibv_get_device_list(NULL);
	for (struct ibv_device** each = list; list && *each; ++each)
		if (strcmp(ibv_get_device_name(*each), "vb_lo") == 0) device = *each;
	MUST(device);
	struct ibv_context* context = ibv_open_device(device);
	MUST(context);
	struct ibv_pd* pd = ibv_alloc_pd(context);
	MUST(pd);
	MUST(cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0));
	MUST(mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE));
	union ibv_gid gid;
	MUST(ibv_query_gid(context, 1, 0, &gid) == 0);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = {DEPTH, DEPTH, 1, 1, 0}};
	for (int i = 0; i < 2; ++i) MUST(ends[i] = ibv_create_qp(pd, &init));
	for (int i = 0; i < 2; ++i) {
		struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .port_num = 1};
		MUST(!ibv_modify_qp(ends[i], &attributes,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		attributes.qp_state = IBV_QPS_RTR;
		attributes.path_mtu = IBV_MTU_1024;
		attributes.dest_qp_num = ends[1 - i]->qp_num;
		attributes.min_rnr_timer = 12;
		attributes.max_dest_rd_atomic = 1;
		attributes.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}};
		MUST(!ibv_modify_qp(ends[i], &attributes,
			IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER));
		attributes.qp_state = IBV_QPS_RTS;
		attributes.timeout = 14;
		attributes.retry_cnt = attributes.rnr_retry = 7;
		attributes.max_rd_atomic = 1;
		MUST(!ibv_modify_qp(ends[i], &attributes,
			IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	}
}

static void poll_completions(int count) {
	struct ibv_wc done;
	while (count > 0) {
		const int polled = ibv_poll_cq(cq, 1, &done);
		MUST(polled >= 0);
		MUST(polled == 0 || done.status == IBV_WC_SUCCESS);
		count -= polled;
	}
}

static void send_messages(int count, uint32_t length) {
	struct ibv_sge from = {(uintptr_t)buffer, length, mr->lkey}, to = {(uintptr_t)buffer + LONGEST, length, mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
	for (int i = 0; i < count; ++i) MUST(!ibv_post_recv(ends[1], &receive, &bad_receive));
	for (int i = 0; i < count; ++i) MUST(!ibv_post_send(ends[0], &send, &bad_send));
	poll_completions(2 * count);
}

// A counter by three files: a descriptor and a stream that stay open, and one opened each time.
struct counter {
	const char* name;
	int fd;
	FILE* stream;
};

static void open_counter(struct counter* counter) {
	char path[256];
	snprintf(path, sizeof path, PORT "%s", counter->name);
	MUST((counter->fd = open(path, O_RDONLY)) >= 0);
	MUST(counter->stream = fopen(path, "r"));
	// With a buffer, rewind() would not read the file again.
	MUST(setvbuf(counter->stream, NULL, _IONBF, 0) == 0);
}

static count_t value(struct counter* counter) {
	char text[64] = "", path[256], name[128];
	count_t kept, streamed, fresh, from_verbs;
	// As perftest reads: from where it stands, then back to the start.
	MUST(read(counter->fd, text, sizeof text - 1) > 0 && lseek(counter->fd, 0, SEEK_SET) == 0);
	kept = strtoull(text, NULL, 10);
	rewind(counter->stream);
	MUST(fscanf(counter->stream, "%llu", &streamed) == 1);
	snprintf(path, sizeof path, PORT "%s", counter->name);
	FILE* file = fopen(path, "r");
	MUST(file && fscanf(file, "%llu", &fresh) == 1);
	fclose(file);
	snprintf(name, sizeof name, "ports/1/%s", counter->name);
	memset(text, 0, sizeof text);
	MUST(ibv_read_sysfs_file(device->ibdev_path, name, text, sizeof text) > 0);
	from_verbs = strtoull(text, NULL, 10);
	if (kept != fresh || streamed != fresh || from_verbs != fresh)
		faults += printf("%s: %llu in an open descriptor, %llu in an open stream, %llu in a new file, %llu by verbs\n",
			counter->name, kept, streamed, fresh, from_verbs) > 0;
	return fresh;
}

static void expect(const char* what, count_t is, count_t expected) {
	if (is != expected) faults += printf("%s: %llu, and not %llu\n", what, is, expected) > 0;
}

int main(void) {
	struct counter sent_data = {.name = "counters/port_xmit_data"}, sent = {.name = "counters/port_xmit_packets"},
				   received_data = {.name = "counters/port_rcv_data"}, received = {.name = "counters/port_rcv_packets"},
				   unicast = {.name = "counters/unicast_xmit_packets"}, errors = {.name = "counters/port_rcv_errors"};
	struct counter* const all[] = {&sent_data, &sent, &received_data, &received, &unicast, &errors};
	// Before the NIC has started.
	for (unsigned i = 0; i < sizeof all / sizeof *all; ++i) open_counter(all[i]);
	make_ends();
	for (unsigned i = 0; i < sizeof all / sizeof *all; ++i) expect(all[i]->name, value(all[i]), 0);

	count_t packets = 0, words = 0, packets_before = 0;
	for (int round = 1; round <= ROUNDS; ++round) {
		const count_t count = (count_t)(1 + round % DEPTH), length = (count_t)(round * 997 % LONGEST);
		send_messages((int)count, (uint32_t)length);
		const count_t packets_each = length <= MTU ? 1 : (length + MTU - 1) / MTU;
		packets += count * packets_each;
		// BTH and ICRC are 16 bytes, and the payload is padded to 4.
		words += count * ((length + 3) / 4 + 4 * packets_each);
		const count_t now = value(&sent), acknowledgements = now - packets;
		// Both ends are in this process. Each round has an ACK, at most one for each message.
		if (now <= packets_before + count * packets_each || acknowledgements > (count_t)round * DEPTH)
			faults += printf("round %d: %llu packets, %llu of them with data\n", round, now, packets) > 0;
		packets_before = now;
		expect("port_xmit_data", value(&sent_data), words + 5 * acknowledgements);
		expect("port_rcv_data", value(&received_data), words + 5 * acknowledgements);
		expect("port_rcv_packets", value(&received), now);
		expect("unicast_xmit_packets", value(&unicast), now);
		expect("port_rcv_errors", value(&errors), 0);
	}

	// A file that is closed and opened again, many times.
	for (int i = 0; i < 500; ++i) {
		close(sent.fd);
		fclose(sent.stream);
		open_counter(&sent);
	}
	send_messages(1, 0);
	if (value(&sent) <= packets_before) faults += printf("the number of packets stays %llu\n", packets_before) > 0;
	return faults != 0;
}
