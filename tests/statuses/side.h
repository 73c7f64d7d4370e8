// One of two processes that make a mistake together: `source` posts, `target` is posted to. A pair is made by fork
// before any verb, so that neither has anything of the other's but a socket; each row of the table then gets fresh
// objects on both sides, connected as its Setup says.
//
// What a side saw of a row (completions in order, the state of its QP, asynchronous events) is a line of words,
// compared with the table's.
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
	int target_access = everything;  // of the QP
	std::uint8_t source_reads = 4, target_reads = 4;
	std::uint8_t rnr_retry = 1;
	bool shared_receive_queue = false;  // the target's
	int cq_entries = 64;  // the source's
	bool armed_for_solicited =
		false;  // the target's completion queue, once; what its channel says is seen as COMPLETION
};

// Where the peer's QP and default region are.
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

	// One row: begin, the row's own calls, observe, end. After a Failure the pair is of no more use.
	void begin(const Setup&);
	// Waits for as many completions and events as `expected` has, then for the peer, then looks for what is too much.
	Seen observe(const Seen& expected);
	void end();

	// Between the sides.
	void tell(const void* data, std::size_t size);
	void hear(void* data, std::size_t size);
	void meet();
	void lose_peer();  // waits for the other process to end, and does without it from now on
	void stop_peer() const;  // until continue_peer(); the source only, whose child it is
	void continue_peer() const;

	// Requests. Lengths within the default region unless an sge says otherwise; `remote_*` default to the peer's
	// default region.
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
		unsigned access);  // 64 bytes
	void invalidate(std::uint64_t wr_id, std::uint32_t rkey);
	void post(ibv_send_wr* chain);  // what is refused at once shows among the completions, as `not-taken`
	ibv_send_wr request(std::uint64_t wr_id, ibv_wr_opcode, ibv_sge*) const;

	// More objects, which go with the row.
	ibv_mr* region(std::size_t size, int access, ibv_pd* domain = nullptr);
	ibv_mr* unmapped_region(int access);  // registered, and then its memory goes
	ibv_mw* window();
	ibv_pd* domain();
	ibv_qp* another_qp();  // of the same domain, in RTS
	void destroy_qp();

	void modify(ibv_qp_state, bool notify_drained = false);  // what is refused shows, too
	void await(std::size_t completions);  // until so many have come in all
	void demand(bool fact, const char* what) const;

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
	std::vector<std::pair<void*, std::size_t>> memory_;
	std::vector<ibv_mr*> regions_;
	std::vector<ibv_mw*> windows_;
	std::vector<ibv_pd*> domains_;
	std::vector<ibv_qp*> others_;
};
