// SPDX-License-Identifier: Apache-2.0
// Sends to very many addresses of another network, where no host receives.
//
//     spray DEVICE NETWORK       NETWORK: the first two bytes of the IPv4 addresses, as "10.88"
//
// Prints "ready", and then answers each line of its input by one line "ok ...":
//
//     datagrams FIRST COUNT      one datagram to each of COUNT addresses; the number of completions
//     connect COUNT              a connected queue pair to each; the number that succeeded, and the
//                                errno of the first failure
//     release                    destroys these queue pairs
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void must(bool good, const char* what) {
	if (good) return;
	std::fprintf(stderr, "spray: %s: %s\n", what, std::strerror(errno));
	std::exit(1);
}

ibv_context* open_device(const char* name) {
	int count = 0;
	ibv_device** list = ibv_get_device_list(&count);
	ibv_context* context = nullptr;
	for (int i = 0; i < count; ++i)
		if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	must(context != nullptr, "no such device");
	return context;
}

struct Sprayer {
	Sprayer(const char* device, const char* first_two) : context(open_device(device)) {
		unsigned a = 0, b = 0;
		must(std::sscanf(first_two, "%u.%u", &a, &b) == 2, "no network");
		network = a << 24 | b << 16;
		must((pd = ibv_alloc_pd(context)) != nullptr, "ibv_alloc_pd");
		must((cq = ibv_create_cq(context, 64, nullptr, nullptr, 0)) != nullptr, "ibv_create_cq");
		must((region = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE)) != nullptr, "ibv_reg_mr");
		datagrams = create(IBV_QPT_UD);
		ibv_qp_attr a1{};
		a1.qp_state = IBV_QPS_INIT;
		a1.port_num = 1;
		a1.qkey = 5;
		must(!ibv_modify_qp(datagrams, &a1, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
		a1.qp_state = IBV_QPS_RTR;
		must(!ibv_modify_qp(datagrams, &a1, IBV_QP_STATE), "RTR");
		a1.qp_state = IBV_QPS_RTS;
		must(!ibv_modify_qp(datagrams, &a1, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
	}

	ibv_qp* create(ibv_qp_type type) {
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = cq;
		init.qp_type = type;
		init.cap = {4, 4, 1, 1, 0};
		ibv_qp* const qp = ibv_create_qp(pd, &init);
		must(qp != nullptr, "ibv_create_qp");
		return qp;
	}
	ibv_ah_attr to(std::uint32_t number) {
		ibv_ah_attr attributes{};
		attributes.is_global = 1;
		attributes.port_num = 1;
		attributes.grh.hop_limit = 64;
		// The first GID of IPv4.
		for (std::uint8_t i = 0; i < 16; ++i) {
			ibv_gid gid;
			if (ibv_query_gid(context, 1, i, &gid) != 0) break;
			if (gid.raw[10] != 0xff || gid.raw[11] != 0xff) continue;
			attributes.grh.sgid_index = i;
			break;
		}
		const std::uint32_t address = network + 256 + number;
		attributes.grh.dgid.raw[10] = attributes.grh.dgid.raw[11] = 0xff;
		for (int i = 0; i < 4; ++i)
			attributes.grh.dgid.raw[12 + i] = static_cast<std::uint8_t>(address >> (24 - 8 * i));
		return attributes;
	}
	using ibv_gid = union ::ibv_gid;

	int send(std::uint32_t first, std::uint32_t count) {
		int completed = 0;
		for (std::uint32_t i = first; i < first + count; ++i) {
			ibv_ah_attr attributes = to(i);
			ibv_ah* const ah = ibv_create_ah(pd, &attributes);
			must(ah != nullptr, "ibv_create_ah");
			ibv_sge part{reinterpret_cast<std::uint64_t>(buffer), 1024, region->lkey};
			ibv_send_wr work{}, *bad;
			work.sg_list = &part;
			work.num_sge = 1;
			work.opcode = IBV_WR_SEND;
			work.send_flags = IBV_SEND_SIGNALED;
			work.wr.ud.ah = ah;
			work.wr.ud.remote_qpn = 0x123;
			work.wr.ud.remote_qkey = 5;
			must(ibv_post_send(datagrams, &work, &bad) == 0, "ibv_post_send");
			ibv_wc wc;
			while (ibv_poll_cq(cq, 1, &wc) == 0) {}
			completed += wc.status == IBV_WC_SUCCESS;
			ibv_destroy_ah(ah);
		}
		return completed;
	}

	int connect(ibv_qp* qp, std::uint32_t number) {
		ibv_qp_attr a{};
		a.qp_state = IBV_QPS_INIT;
		a.port_num = 1;
		must(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
		a.qp_state = IBV_QPS_RTR;
		a.path_mtu = IBV_MTU_1024;
		a.dest_qp_num = 0x123;
		a.ah_attr = to(number);
		return ibv_modify_qp(qp, &a,
			IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER);
	}
	std::string connect(std::uint32_t count) {
		for (std::uint32_t i = 0; i < count; ++i) {
			ibv_qp* const qp = create(IBV_QPT_RC);
			connected.push_back(qp);
			if (const int error = connect(qp, i)) return std::to_string(i) + ' ' + std::to_string(error);
		}
		return std::to_string(count) + " 0";
	}
	void release() {
		for (ibv_qp* qp : connected) ibv_destroy_qp(qp);
		connected.clear();
	}

	ibv_context* context;
	std::uint32_t network = 0;
	ibv_pd* pd = nullptr;
	ibv_cq* cq = nullptr;
	ibv_mr* region = nullptr;
	ibv_qp* datagrams = nullptr;
	std::vector<ibv_qp*> connected;
	char buffer[1024] = {};
};

}  // namespace

int main(int argc, char** argv) {
	if (argc != 3) return std::fprintf(stderr, "usage: spray DEVICE NETWORK\n"), 2;
	Sprayer sprayer(argv[1], argv[2]);
	std::puts("ready");
	std::fflush(stdout);
	for (char line[128]; std::fgets(line, sizeof line, stdin);) {
		std::uint32_t first = 0, count = 0;
		if (std::sscanf(line, "datagrams %u %u", &first, &count) == 2) {
			std::printf("ok %d\n", sprayer.send(first, count));
		} else if (std::sscanf(line, "connect %u", &count) == 1) {
			std::printf("ok %s\n", sprayer.connect(count).c_str());
		} else {
			sprayer.release();
			std::puts("ok");
		}
		std::fflush(stdout);
	}
	std::exit(0);  // without the objects' destructors, but with the handlers at exit
}
