// SPDX-License-Identifier: Apache-2.0
/* A test of a program's verbs code, as a CI job runs it: a server in a thread and its client.
 *
 *   cc -g -O1 -Wall verbs_test.c -o verbs_test -lrdmacm -libverbs
 *   verbena run -- ./verbs_test
 *
 * Prints "ok NAME" for each test; exits with 1 and names the call that failed.
 */
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { bytes = 4096 };
static const char text[] = "the same bytes come back";

static void demand(int good, const char* what) {
	if (good) return;
	perror(what);
	exit(1);
}

/* Accepts one client, and sends its message back. */
static void* serve(void* listener) {
	static char message[bytes];
	struct rdma_cm_id* id;
	struct rdma_cm_event* event;
	struct ibv_wc wc;

	demand(!rdma_get_request(listener, &id), "rdma_get_request");
	struct ibv_mr* mr = rdma_reg_msgs(id, message, bytes);
	demand(mr && !rdma_post_recv(id, NULL, message, bytes, mr), "rdma_post_recv");
	demand(!rdma_accept(id, NULL), "rdma_accept");
	demand(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "the server's receive");
	demand(!rdma_post_send(id, NULL, message, wc.byte_len, mr, IBV_SEND_SIGNALED), "rdma_post_send");
	demand(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "the server's send");

	demand(!rdma_get_cm_event(id->channel, &event), "rdma_get_cm_event");
	demand(event->event == RDMA_CM_EVENT_DISCONNECTED, "the end of the connection");
	rdma_ack_cm_event(event);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static void a_message_comes_back(struct rdma_cm_id* id, char* message, struct ibv_mr* mr) {
	struct ibv_wc wc;

	demand(!rdma_post_recv(id, NULL, message, bytes, mr), "rdma_post_recv");
	demand(!rdma_post_send(id, NULL, (void*)text, sizeof text, NULL, IBV_SEND_INLINE | IBV_SEND_SIGNALED),
		"rdma_post_send");
	demand(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "the client's send");
	demand(rdma_get_recv_comp(id, &wc) == 1 && wc.byte_len == sizeof text, "the client's receive");
	demand(!memcmp(message, text, sizeof text), "the bytes of the message");
	printf("ok a message comes back\n");
}

/* An error that is hard to cause on hardware without harm. The connection ends by it. */
static void a_write_with_a_wrong_key_is_refused(struct rdma_cm_id* id, char* message, struct ibv_mr* mr) {
	struct ibv_wc wc;

	demand(!rdma_post_write(id, NULL, message, 1, mr, IBV_SEND_SIGNALED, 0x1000, 0x1234), "rdma_post_write");
	demand(rdma_get_send_comp(id, &wc) == 1, "rdma_get_send_comp");
	demand(wc.status == IBV_WC_REM_ACCESS_ERR, ibv_wc_status_str(wc.status));
	printf("ok a WRITE with a wrong key is refused\n");
}

int main(void) {
	static char message[bytes];
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *there;
	struct ibv_qp_init_attr queues = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64}};
	struct ibv_qp_init_attr queues_of_client = queues;
	struct rdma_cm_id *listener, *id;
	pthread_t server;

	demand(!rdma_getaddrinfo("127.0.0.1", "7471", &hints, &there), "rdma_getaddrinfo");
	demand(!rdma_create_ep(&listener, there, NULL, &queues), "rdma_create_ep of the server");
	demand(!rdma_listen(listener, 1), "rdma_listen");
	rdma_freeaddrinfo(there);
	demand(!pthread_create(&server, NULL, serve, listener), "pthread_create");

	hints.ai_flags = 0;
	demand(!rdma_getaddrinfo("127.0.0.1", "7471", &hints, &there), "rdma_getaddrinfo");
	demand(!rdma_create_ep(&id, there, NULL, &queues_of_client), "rdma_create_ep of the client");
	rdma_freeaddrinfo(there);
	struct ibv_mr* mr = rdma_reg_msgs(id, message, bytes);
	demand(mr && !rdma_connect(id, NULL), "rdma_connect");
	a_message_comes_back(id, message, mr);
	a_write_with_a_wrong_key_is_refused(id, message, mr);

	rdma_disconnect(id);
	demand(!pthread_join(server, NULL), "pthread_join");
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	return 0;
}
