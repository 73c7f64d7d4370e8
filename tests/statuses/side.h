// SPDX-License-Identifier: Apache-2.0
// One of the two processes that play a row of the table: the source posts requests, and the target
// receives them. The program forks before its first verb, so the two share nothing but a socket.
// Each row gets fresh objects on both sides, which are connected as its Setup says.
//
// The result of a row on one side is three lines of words: its completions in order, the state of
// its QP and its asynchronous events.
//
// Threads: one thread for each process.
// Owns: all verbs objects of the row; end() destroys them.
// Errors: Failure if a step that the row is not about fails. The pair cannot be used afterwards.
#pragma once

#include <infiniband/verbs.h>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

struct Failure : std::runtime_error {
	using std::runtime_error::runtime_error;
};

constexpr int everything =
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint32_t q_key = 0x11111111, wrong_key = 0x00badbad;
constexpr std::size_t region_bytes = 4 << 20;

struct Setup {
	ibv_qp_type type = IBV_QPT_RC;
	ibv_qp_state target_state = IBV_QPS_RTS;
	int target_access = everything;  // access flags of the target's QP
	std::uint8_t source_reads = 4, target_reads = 4;
	std::uint8_t rnr_retry = 1;
	bool shared_receive_queue = false;  // whether the target has one
	int cq_entries = 64;  // entries of the source's completion queue
	// The target's completion queue is armed once for solicited events; its event is seen as
	// COMPLETION.
	bool armed_for_solicited = false;
};

// The numbers that a side needs of its peer's QP and default region.
struct Remote {
	std::uint32_t qpn = 0, psn = 0, rkey = 0;
	std::uint64_t address = 0;
	ibv_gid gid{};
	std::uint32_t mtu = 0;
};

struct Seen {
	std::string completions, state, events;
	bool operator==(const Seen&) const = default;
};

class Side {
public:
	enum Role { source, target };
	Side(Role role, int socket, const char* device);
	~Side();

	// For each row: begin(), the row's own calls, observe(), end().
	void begin(const Setup&);
	// Waits for as many completions and events as `expected` has, then for the peer; then collects
	// what has come beyond that, which makes the row wrong.
	Seen observe(const Seen& expected);
	void end();

	// Synchronisation between the sides, over the socket.
	void send_bytes(const void* data, std::size_t size);
	void receive_bytes(void* data, std::size_t size);
	void meet();
	// Waits until the other process has ended; meet() does nothing from then on.
	void await_peer_exit();
	void stop_peer() const;  // SIGSTOP; only the source may, because the target is its child
	void continue_peer() const;

	// Requests. local() names bytes of this side's default region, part_of() those of another one.
	ibv_sge local(std::uint32_t length, std::size_t offset = 0) const;
	static ibv_sge part_of(const ibv_mr&, std::uint32_t length, std::size_t offset = 0);
	void receive(std::uint64_t wr_id, ibv_sge);
	void send(std::uint64_t wr_id, ibv_sge, unsigned flags = 0);
	void send_invalidating(std::uint64_t wr_id, std::uint32_t rkey);
	void datagram(std::uint64_t wr_id, ibv_sge, std::uint32_t remote_q_key = q_key);
	void write(std::uint64_t wr_id, ibv_sge, std::uint64_t address, std::uint32_t rkey);
	void write_immediate(std::uint64_t wr_id, ibv_sge, std::uint64_t address, std::uint32_t rkey);
	void read(std::uint64_t wr_id, ibv_sge, std::uint64_t address, std::uint32_t rkey);
	void fetch_add(std::uint64_t wr_id, ibv_sge, std::uint64_t address, std::uint32_t rkey);
	void bind(std::uint64_t wr_id, ibv_qp* through, ibv_mw*, std::uint32_t rkey, const ibv_mr&, std::uint64_t offset,
		unsigned access);  // the window has 64 bytes
	void invalidate(std::uint64_t wr_id, std::uint32_t rkey);
	void post(ibv_send_wr* chain);  // a request refused at once appears as completion `not-taken`
	ibv_send_wr request(std::uint64_t wr_id, ibv_wr_opcode, ibv_sge*) const;

	// More objects, which end() destroys.
	ibv_mr* region(std::size_t size, int access, ibv_pd* domain = nullptr);
	ibv_mr* unmapped_region(int access);  // its memory is unmapped after the registration
	ibv_mw* window();
	ibv_pd* domain();
	ibv_qp* another_qp();  // in the same protection domain, in RTS
	void destroy_qp();

	void modify(ibv_qp_state, bool notify_drained = false);  // a refusal appears as `not-taken`
	void await(std::size_t completions);  // waits until the row has this number of completions
	void demand(bool fact, const char* what) const;  // throws Failure unless `fact` is true

	ibv_context* context = nullptr;
	ibv_pd* pd = nullptr;
	ibv_cq* cq = nullptr;
	ibv_comp_channel* channel = nullptr;
	ibv_srq* srq = nullptr;
	ibv_qp* qp = nullptr;
	ibv_mr* mr = nullptr;  // the default region
	Remote remote;
	Setup setup;
	pid_t peer = 0;

private:
	ibv_mr* register_memory(void* memory, std::size_t size, int access, ibv_pd* domain);
	void make_ready(ibv_qp*, ibv_qp_state, std::uint32_t peer_qpn);
	void poll();
	void collect_events();

	Role role_;
	int socket_;
	bool alone_ = false;
	std::uint8_t gid_index_ = 0;
	ibv_gid gid_{};
	ibv_mtu mtu_{};
	ibv_ah* ah_ = nullptr;
	std::vector<std::string> completions_, events_;
	std::vector<void*> memory_;
	std::vector<ibv_mr*> regions_;
	std::vector<ibv_mw*> windows_;
	std::vector<ibv_pd*> domains_;
	std::vector<ibv_qp*> others_;
};
