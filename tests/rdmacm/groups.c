// SPDX-License-Identifier: Apache-2.0
// rdma_cm ids join multicast groups and leave them (rdma_join_multicast(3)). Prints a line for each
// step that goes wrong, and at last "done".
//
//     groups ADDRESS, an IPv4 address of this host
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"

enum { IDS = 40 };

static struct rdma_event_channel* channel;
static const char* own_address;

static struct sockaddr* ipv4(const char* text, int last_byte) {
	static struct sockaddr_in made;
	made = (struct sockaddr_in){.sin_family = AF_INET};
	MUST(inet_pton(AF_INET, text, &made.sin_addr) == 1);
	made.sin_addr.s_addr += htonl((unsigned)last_byte);
	return (struct sockaddr*)&made;
}
static struct sockaddr* group(int number) { return ipv4("239.78.0.0", number); }

// The groups 239.78.0.0/16 of which the host is a member. The kernel prints the bytes of an address
// in the order of the memory.
static int memberships(void) {
	FILE* file = fopen("/proc/self/net/igmp", "r");
	char line[256];
	int count = 0;
	MUST(file);
	while (fgets(line, sizeof line, file))
		if (strncmp(line + strspn(line, "\t ") + 4, "4EEF", 4) == 0) ++count;
	fclose(file);
	return count;
}

static struct rdma_cm_id* new_id(bool with_qp) {
	struct rdma_cm_id* id;
	struct ibv_qp_init_attr wanted = {.cap = {2, 2, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
	MUST(rdma_bind_addr(id, ipv4(own_address, 0)) == 0);
	MUST(!with_qp || rdma_create_qp(id, NULL, &wanted) == 0);
	return id;
}

static void join(struct rdma_cm_id* id, int number) {
	struct rdma_cm_event* event;
	MUST(rdma_join_multicast(id, group(number), NULL) == 0);
	MUST(rdma_get_cm_event(channel, &event) == 0);
	MUST(event->event == RDMA_CM_EVENT_MULTICAST_JOIN && event->status == 0);
	MUST(rdma_ack_cm_event(event) == 0);
}

// rdma_destroy_qp returns nothing, so these programs cannot notice that it failed.
static void ids_that_never_leave_their_groups(void) {
	for (int i = 0; i < IDS; ++i) {
		struct rdma_cm_id* id = new_id(true);
		join(id, i);
		MUST(memberships() == 1);
		rdma_destroy_qp(id);
		MUST(rdma_destroy_id(id) == 0 && memberships() == 0);
	}
}

static void an_id_that_leaves_after_its_queue_pair(void) {
	struct rdma_cm_id* id = new_id(true);
	join(id, 1);
	rdma_destroy_qp(id);
	MUST(rdma_leave_multicast(id, group(1)) == 0 && memberships() == 0);
	MUST(rdma_destroy_id(id) == 0);
}

static void an_id_that_joins_twice(void) {
	struct rdma_cm_id* id = new_id(true);
	join(id, 1);
	join(id, 1);
	MUST(memberships() == 1);
	MUST(rdma_leave_multicast(id, group(1)) == 0 && rdma_leave_multicast(id, group(1)) == 0);
	MUST(memberships() == 0);
	rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id) == 0);
}

static void two_ids_that_share_a_queue_pair(void) {
	struct rdma_cm_id *first = new_id(true), *second = new_id(false);
	second->qp = first->qp;
	join(first, 1);
	join(second, 1);
	MUST(memberships() == 1);
	MUST(rdma_leave_multicast(first, group(1)) == 0 && rdma_leave_multicast(second, group(1)) == 0);
	MUST(memberships() == 0);
	second->qp = NULL;
	MUST(rdma_destroy_id(second) == 0);
	rdma_destroy_qp(first);
	MUST(rdma_destroy_id(first) == 0);
}

static void two_ids_with_a_queue_pair_each(void) {
	struct rdma_cm_id *first = new_id(true), *second = new_id(true);
	join(first, 1);
	join(second, 1);
	rdma_destroy_qp(first);
	MUST(rdma_destroy_id(first) == 0 && memberships() == 1);
	MUST(rdma_leave_multicast(second, group(1)) == 0 && memberships() == 0);
	rdma_destroy_qp(second);
	MUST(rdma_destroy_id(second) == 0);
}

int main(int argc, char** argv) {
	if (argc != 2) return fprintf(stderr, "usage: %s ADDRESS\n", argv[0]), 2;
	own_address = argv[1];
	MUST(channel = rdma_create_event_channel());
	ids_that_never_leave_their_groups();
	an_id_that_leaves_after_its_queue_pair();
	an_id_that_joins_twice();
	two_ids_that_share_a_queue_pair();
	two_ids_with_a_queue_pair_each();
	rdma_destroy_event_channel(channel);
	fprintf(stderr, "done\n");
	return 0;
}
