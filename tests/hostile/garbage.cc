// SPDX-License-Identifier: Apache-2.0
// garbage DEVICE ADDRESS QPN MILLISECONDS SEED|records|forwarded: links with the process of this
// host that owns the queue pair QPN, as any peer does, and then writes into the memory that the two
// share at full speed: random bytes, of which some are plausible in every other round; or valid
// acknowledgement records; or packets that it says it received from another host. Prints the number
// of bytes that it wrote.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "nic/wire/ack_ring.h"
#include "nic/wire/slot_ring.h"

namespace {

using Clock = std::chrono::steady_clock;
using Memory = std::vector<std::span<std::uint64_t>>;

template <class Value> Value demand(Value value, const char* what) {
	if (value) return value;
	std::fprintf(stderr, "%s: %m\n", what);
	std::exit(1);
}

void link_with(const char* device, const char* address, std::uint32_t qpn) {
	ibv_context* context = nullptr;
	ibv_device** list = demand(ibv_get_device_list(nullptr), "ibv_get_device_list");
	for (int i = 0; list[i]; ++i)
		if (std::strcmp(ibv_get_device_name(list[i]), device) == 0) context = ibv_open_device(list[i]);
	demand(context, device);
	ibv_pd* pd = demand(ibv_alloc_pd(context), "ibv_alloc_pd");
	ibv_cq* cq = demand(ibv_create_cq(context, 16, nullptr, nullptr, 0), "ibv_create_cq");
	ibv_qp_init_attr init{.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
	init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	ibv_qp* qp = demand(ibv_create_qp(pd, &init), "ibv_create_qp");
	ibv_qp_attr a{.qp_state = IBV_QPS_INIT, .port_num = 1};
	demand(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "init");
	a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qpn};
	a.ah_attr = {.is_global = 1, .port_num = 1};
	a.ah_attr.grh.dgid.raw[10] = a.ah_attr.grh.dgid.raw[11] = 0xff;
	demand(inet_pton(AF_INET, address, a.ah_attr.grh.dgid.raw + 12) == 1, "address");
	demand(ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
		"rtr");
}

// The rings of the link: all memory that this process shares and may write, except its own
// progress page.
Memory shared_memory() {
	Memory found;
	std::ifstream maps("/proc/self/maps");
	for (std::string line; std::getline(maps, line);) {
		std::uint64_t from, to;
		char permissions[8] = "";
		if (std::sscanf(line.c_str(), "%lx-%lx %7s", &from, &to, permissions) != 3) continue;
		if (std::strcmp(permissions, "rw-s") == 0 && line.find("memfd:verbena") != std::string::npos &&
			to - from > 65536) {
			// A mapping of its own, which stays when the victim ends the link.
			void* const again = mremap(reinterpret_cast<void*>(from), 0, to - from, MREMAP_MAYMOVE);
			demand(again != MAP_FAILED, "mremap");
			found.emplace_back(static_cast<std::uint64_t*>(again), (to - from) / 8);
		}
	}
	return found;
}

std::uint64_t write_garbage(const Memory& memory, Clock::time_point end, std::uint64_t seed) {
	std::mt19937_64 random(seed);
	std::uint64_t written = 0;
	for (std::uint64_t round = seed; Clock::now() < end; ++round) {
		for (const auto& part : memory)
			for (std::uint64_t& word : part) {
				const std::uint64_t bits = random();
				// Small numbers, and the laps of the first rounds.
				const std::uint64_t plausible = (bits & 0x03ff'ffff) | (bits >> 40 & 0xff) << 56;
				__atomic_store_n(&word, round % 2 ? plausible : bits, __ATOMIC_RELAXED);
				written += sizeof word;
			}
	}
	return written;
}

// Valid acknowledgement records, as fast as the victim reads them.
std::uint64_t write_records(const Memory& memory, Clock::time_point end) {
	std::vector<verbena::wire::AckWriter> writers(memory.size());
	for (std::size_t i = 0; i < memory.size(); ++i)
		writers[i].attach(reinterpret_cast<verbena::wire::Direction*>(memory[i].data()));
	while (Clock::now() < end)
		for (auto& writer : writers)
			for (int i = 0; i < 100'000; ++i) writer.write(0x1f, {0}, {0x12345});
	std::uint64_t written = 0;
	for (auto& writer : writers) written += writer.written() * 8;
	return written;
}

// Packets to the queue pair in the name of 10.77.0.2, with all sequence numbers in turn.
std::uint64_t write_forwarded(const Memory& memory, Clock::time_point end, std::uint32_t qpn) {
	using namespace verbena;
	struct {
		wire::ForwardedPacket head;
		std::uint8_t packet[12 + 4];  // BTH of an RC SEND ONLY, ICRC
	} forged{};
	static_assert(sizeof forged == sizeof(wire::ForwardedPacket) + 16);
	const std::uint8_t from[4] = {10, 77, 0, 2}, to[4] = {10, 77, 0, 1};
	auto& addresses = forged.head.addresses;
	addresses.source[10] = addresses.source[11] = addresses.destination[10] = addresses.destination[11] = 0xff;
	std::memcpy(addresses.source + 12, from, sizeof from);
	std::memcpy(addresses.destination + 12, to, sizeof to);
	std::uint8_t(&bth)[16] = forged.packet;
	bth[0] = 0x04;
	bth[2] = bth[3] = 0xff;
	for (int i = 0; i < 3; ++i) bth[5 + i] = static_cast<std::uint8_t>(qpn >> (16 - 8 * i));
	std::vector<wire::SlotWriter> writers(memory.size());
	for (std::size_t i = 0; i < memory.size(); ++i)
		writers[i].attach(reinterpret_cast<wire::Direction*>(memory[i].data()));
	std::uint64_t written = 0;
	for (std::uint32_t psn = 0; Clock::now() < end; ++psn)
		for (auto& writer : writers) {
			for (int i = 0; i < 3; ++i) bth[9 + i] = static_cast<std::uint8_t>(psn >> (16 - 8 * i));
			const auto reserved = writer.reserve(sizeof forged, 0);
			if (!reserved.slot) continue;
			std::memcpy(reserved.payload, &forged, sizeof forged);
			reserved.slot->set_bth(wire::forwarded_packet, {}, {}, 0);
			reserved.slot->payload_line = reserved.payload_line;
			writer.publish(reserved.slot, sizeof forged);
			written += sizeof forged;
		}
	return written;
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 6) {
		std::fputs("usage: garbage DEVICE ADDRESS QPN MILLISECONDS SEED|records|forwarded\n", stderr);
		return 2;
	}
	link_with(argv[1], argv[2], static_cast<std::uint32_t>(std::atoi(argv[3])));
	const auto end = Clock::now() + std::chrono::milliseconds(std::atoi(argv[4]));
	const auto memory = shared_memory();
	demand(!memory.empty(), "no shared memory");
	const std::string what = argv[5];
	const std::uint64_t written = what == "records" ? write_records(memory, end)
		: what == "forwarded" ? write_forwarded(memory, end, static_cast<std::uint32_t>(std::atoi(argv[3])))
							  : write_garbage(memory, end, std::strtoull(argv[5], nullptr, 10));
	std::printf("%llu\n", static_cast<unsigned long long>(written));
	std::fflush(stdout);
	_exit(0);
}
