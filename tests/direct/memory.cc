// SPDX-License-Identifier: Apache-2.0
// Scenarios about the bytes that arrive, and their order.
#include <atomic>
#include <thread>

#include "scenarios.h"

// Lengths and places that meet the edges of pages, packets and parts.
void all_lengths_target(Side& s) {
	s.put(s.aim(s.mr));
	const auto there = s.get<std::uint64_t>();
	std::printf("read %s\n", digest(s.memory + 1, 400'000) == there ? "equal" : "different");
	s.meet();
	std::printf("memory %016llx\n", static_cast<unsigned long long>(digest(s.memory, s.bytes)));
}
void all_lengths_initiator(Side& s) {
	const Aim to = s.get<Aim>();
	fill(s, 7);
	std::uint64_t at = 3;
	for (const std::uint32_t length :
		{0u, 1u, 7u, 8u, 64u, 1023u, 1024u, 1025u, 8192u, 8193u, 32'768u, 32'769u, 200'000u}) {
		s.post(IBV_WR_RDMA_WRITE, to, at, length, at / 2);
		at += length + 13;
	}
	s.succeed(13);
	// Back into the upper half of this region, from where the target's bytes are compared.
	s.post(IBV_WR_RDMA_READ, to, 1, 400'000, 600'001);
	s.succeed();
	s.put(digest(s.memory + 600'001, 400'000));
	s.meet();
}
void reads_target(Side& s) {
	fill(s, 3);
	s.put(s.aim(s.mr));
	const std::uint64_t here = digest(s.memory, 500'000), there = s.get<std::uint64_t>();
	std::printf("read %s\n", here == there ? "equal" : "different");
	s.meet();
}
void reads_initiator(Side& s) {
	const Aim to = s.get<Aim>();
	std::uint64_t at = 0;
	for (std::uint32_t length = 1; at < 500'000; length = length * 3 + 1) {
		const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, 500'000 - at));
		s.post(IBV_WR_RDMA_READ, to, at, n, at);
		at += n;
		s.succeed();
	}
	s.put(digest(s.memory, 500'000));
	s.meet();
}

// SEND, WRITE, SEND, atomic: the second SEND shows that the WRITE is there, and so on.
void order_target(Side& s, int rounds) {
	s.put(s.aim(s.mr));
	int wrong = 0;
	for (int i = 1; i <= rounds; ++i) {
		s.receive(4096, 64);
		s.receive(8192, 64);
		s.meet();
		s.succeed(2);
		std::uint64_t written;
		std::memcpy(&written, s.memory + 64, sizeof written);
		wrong += written != static_cast<std::uint64_t>(i) * 1000;
		s.meet();
		s.meet();
		// The atomic came after a WRITE of the same word.
		std::memcpy(&written, s.memory + 64, sizeof written);
		wrong += written != static_cast<std::uint64_t>(i) * 1000 + 6;
	}
	std::printf("order wrong %d\n", wrong);
}
void order_initiator(Side& s, int rounds) {
	const Aim to = s.get<Aim>();
	for (int i = 1; i <= rounds; ++i) {
		s.meet();
		const std::uint64_t value = static_cast<std::uint64_t>(i) * 1000;
		std::memcpy(s.memory, &value, sizeof value);
		s.post(IBV_WR_SEND, to, 0, 8);
		s.post(IBV_WR_RDMA_WRITE, to, 64, 8);
		s.post(IBV_WR_SEND, to, 0, 8);
		s.succeed(3);
		s.meet();
		s.post(IBV_WR_RDMA_WRITE, to, 64, 8);
		s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, to, 64, 8, 128, 6);
		s.succeed(2);
		std::uint64_t before;
		std::memcpy(&before, s.memory + 128, sizeof before);
		demand(before == value, "the atomic returned what the WRITE before it wrote");
		s.meet();
	}
}

// A reader that sees the last byte of a WRITE sees all of it. No verb is called meanwhile.
void last_byte_target(Side& s, int rounds) {
	s.put(s.aim(s.mr));
	int torn = 0;
	for (int i = 1; i <= rounds; ++i) {
		const auto value = static_cast<unsigned char>(i % 250 + 1);
		constexpr std::size_t length = 8000;
		volatile unsigned char* const last = s.memory + length - 1;
		while (*last != value) {}
		std::atomic_thread_fence(std::memory_order_acquire);
		torn += !all_are(s.memory, length, value);
		s.put('n');
	}
	std::printf("torn %d\n", torn);
}
void last_byte_initiator(Side& s, int rounds) {
	const Aim to = s.get<Aim>();
	for (int i = 1; i <= rounds; ++i) {
		std::memset(s.memory, i % 250 + 1, 8000);
		s.post(IBV_WR_RDMA_WRITE, to, 0, 8000);
		s.succeed();
		s.get<char>();
	}
}

// Remote atomics and the target's own are atomic with each other.
void atomics_target(Side& s, int rounds) {
	s.put(s.aim(s.mr));
	auto* const word = reinterpret_cast<std::uint64_t*>(s.memory);
	for (int i = 0; i < rounds; ++i) std::atomic_ref(*word).fetch_add(1);
	s.meet();
	std::printf("lost %lld\n", 4ll * rounds - static_cast<long long>(*word));
}
void atomics_initiator(Side& s, int rounds) {
	const Aim to = s.get<Aim>();
	for (int i = 0; i < rounds; ++i) {
		s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, to, 0, 8, 0, 3);
		s.succeed();
	}
	s.meet();
}

// Two queue pairs of one process, the target's.
void self_target(Side& s) {
	s.make_queue_pair();
	ibv_qp* const first = s.qp;
	s.make_queue_pair();
	s.make_ready(first, s.qp->qp_num);
	s.make_ready(s.qp, first->qp_num);
	fill(s, 5);
	Aim to = s.aim(s.mr);
	s.post(IBV_WR_RDMA_WRITE, to, 500'001, 200'000, 3);
	s.post(IBV_WR_RDMA_READ, to, 500'001, 100'000, 900'000);
	s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, to, 8, 8, 16);
	s.succeed(3);
	to.rkey ^= 0xff00;
	s.post(IBV_WR_RDMA_WRITE, to, 0, 8);
	std::printf(
		"status %d\nmemory %016llx\n", s.complete(), static_cast<unsigned long long>(digest(s.memory, s.bytes)));
}

// Two threads post to one queue pair, so that one often finds the NIC in use by the other.
void threads_target(Side& s, int rounds) {
	s.put(s.aim(s.mr));
	s.meet();
	std::uint64_t sum;
	std::memcpy(&sum, s.memory, sizeof sum);
	std::printf("lost %lld\n", 2ll * rounds - static_cast<long long>(sum));
}
void threads_initiator(Side& s, int rounds) {
	const Aim to = s.get<Aim>();
	std::atomic<int> posted{0}, completed{0};
	const auto work = [&](std::uint64_t result) {
		for (int i = 0; i < rounds; ++i) {
			s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, to, 0, 8, result);
			// At most 60 in the queue, and never more completions than are looked for.
			for (++posted; posted.load() - completed.load() > 50;) {
				ibv_wc wc;
				if (ibv_poll_cq(s.cq, 1, &wc) == 0) continue;
				demand(wc.status == IBV_WC_SUCCESS, "an atomic succeeds");
				++completed;
			}
		}
	};
	std::thread other(work, 64);
	work(128);
	other.join();
	s.succeed(posted.load() - completed.load());
	s.meet();
}

// A long WRITE whose poster sleeps until its event: the NIC finishes the rest by itself.
void asleep_target(Side& s) {
	s.put(s.aim(s.mr));
	s.meet();
	std::printf("bytes %s\n", all_are(s.memory, s.bytes, 5) ? "there" : "missing");
}
void asleep_initiator(Side& s) {
	const Aim to = s.get<Aim>();
	std::memset(s.memory, 5, s.bytes);
	demand(!ibv_req_notify_cq(s.cq, 0), "req_notify_cq");
	s.post(IBV_WR_RDMA_WRITE, to, 0, to.bytes);
	pollfd event{s.channel->fd, POLLIN, 0};
	demand(poll(&event, 1, 10'000) == 1, "the event of the completion");
	s.succeed();
	s.meet();
}

// As before, while another thread posts short requests to this process itself. The long WRITE gives
// them the engine between two of its parts, and its rest still has to be executed.
void asleep_beside_target(Side& s) {
	s.put(s.aim(s.mr));
	s.meet();
}
void asleep_beside_initiator(Side& s, int rounds) {
	const Aim to = s.get<Aim>();
	ibv_qp* const long_ones = s.qp;
	ibv_cq* const their_queue = s.cq;
	s.cq = ibv_create_cq(s.context, 8, nullptr, nullptr, 0);
	demand(s.cq, "create_cq");
	s.make_queue_pair();
	ibv_qp* const first = s.qp;
	s.make_queue_pair();
	s.make_ready(first, s.qp->qp_num);
	s.make_ready(s.qp, first->qp_num);
	Side short_ones = s;
	s.qp = long_ones;
	s.cq = their_queue;
	std::atomic<int> begun{0}, ended{0};
	std::thread other([&] {
		std::uint32_t random = 1;
		for (int i = 1; i <= rounds; ++i) {
			while (begun.load() < i) {}
			random = random * 1664525 + 1013904223;
			const std::chrono::nanoseconds some_us(random >> 17);  // 33 at most
			const auto moment = Clock::now() + some_us;
			while (Clock::now() < moment) {}
			short_ones.post(IBV_WR_RDMA_WRITE, s.aim(s.mr), 900'000, 8, 800'000);
			short_ones.succeed();
			ended = i;
		}
	});
	for (int i = 1; i <= rounds; ++i) {
		demand(!ibv_req_notify_cq(s.cq, 0), "req_notify_cq");
		begun = i;
		s.post(IBV_WR_RDMA_WRITE, to, 0, 200'000);
		while (ended.load() < i) {}
		pollfd event{s.channel->fd, POLLIN, 0};
		demand(poll(&event, 1, 10'000) == 1, "the event of the completion");
		ibv_cq* queue;
		void* context;
		demand(!ibv_get_cq_event(s.channel, &queue, &context), "get_cq_event");
		ibv_ack_cq_events(queue, 1);
		s.succeed();
	}
	other.join();
	s.meet();
}

// Two programs that answer each other by WRITEs, and wait for bytes in memory.
namespace {

// Each waits for the completion of every `signaled`th WRITE only.
void answer_in_turn(Side& s, int rounds, int signaled, bool begins) {
	constexpr std::uint64_t half = region_bytes / 2;
	s.put(s.aim(s.mr));
	const Aim to = s.get<Aim>();
	const std::uint32_t lengths[] = {8, 64, 4096, 8};
	int torn = 0;
	for (int i = 0; i < rounds; ++i) {
		const std::uint32_t length = i % 100 == 99 ? 100'000 : lengths[i % 4];
		const auto value = static_cast<unsigned char>(i % 251 + 1);
		const auto await = [&] {
			while (std::atomic_ref(s.memory[length - 1]).load(std::memory_order_acquire) != value) {}
			torn += !all_are(s.memory, length, value);
		};
		if (!begins) await();
		std::memset(s.memory + half, value, length);
		s.signaled = i % signaled == signaled - 1;
		s.post(IBV_WR_RDMA_WRITE, to, 0, length, half);
		if (s.signaled) s.succeed();
		if (begins) await();
	}
	if (begins) return s.put(torn);
	std::printf("torn %d\n", torn + s.get<int>());
}

}  // namespace
void answers_target(Side& s, int rounds, int signaled) { answer_in_turn(s, rounds, signaled, false); }
void answers_initiator(Side& s, int rounds, int signaled) { answer_in_turn(s, rounds, signaled, true); }
