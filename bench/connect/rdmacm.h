// SPDX-License-Identifier: Apache-2.0
// Connections by rdma_cm, each with a queue pair of its own. At each end one thread waits in
// rdma_get_cm_event, as in most programs.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "bench/connect/connector.h"
#include "lib/verbs/connection_manager.h"
#include "lib/verbs/queue_pair.h"

namespace verbena::connect {

// The device that the wish names, or the best one that rdma_cm serves: where the kernel has an RDMA
// device of its own for the same address, rdma_cm takes that one and not the software NIC.
lib::Choice choose_device(const lib::DeviceRequest& wish);

// A device, and the completion queue that all connections on it share.
struct Shared {
	lib::OpenDevice device;
	lib::CompletionQueue completions;
	static std::unique_ptr<Shared> on(rdma_cm_id* id);
};

// One end of a connection; nothing is sent on it.
struct End {
	lib::ConnectionId id;
	lib::QueuePair qp;
	void make_queue_pair(Shared& shared);
};

class RdmacmConnector : public Connector {
public:
	// Resolves the server once, which is not measured, to find the device that reaches it. `from`
	// is the source address; empty lets rdma_cm choose.
	RdmacmConnector(const lib::SocketAddress& server, std::optional<lib::SocketAddress> from);

	void begin(std::uint32_t number) override;
	void end(std::uint32_t number) override;
	Report next() override;

	const lib::OpenDevice& device() const { return shared_->device; }

private:
	// A connection from begin() to the report of its end.
	struct Attempt : End {
		std::uint32_t number = 0;
		Report report;
		std::size_t part = 0;  // the part under way
		Nanoseconds last = 0;  // when it began
		// Records the time of the current part and begins the next one.
		void part_is_over();
	};

	lib::SocketAddress server_;
	std::optional<lib::SocketAddress> from_;
	lib::EventChannel channel_;
	std::unique_ptr<Shared> shared_;
	std::unordered_map<std::uint32_t, std::unique_ptr<Attempt>> attempts_;
};

class RdmacmAcceptor : public Acceptor {
public:
	// Listens at `where`; port 0 takes any free one.
	explicit RdmacmAcceptor(const lib::SocketAddress& where);
	~RdmacmAcceptor() override;

	std::uint16_t port() const override;
	Account account(std::uint64_t established, std::uint64_t disconnected, Nanoseconds patience) override;

private:
	void serve();
	void handle(const lib::ConnectionEvent& event);

	lib::EventChannel channel_;
	std::map<ibv_context*, std::unique_ptr<Shared>> shared_;
	lib::ConnectionId listener_;
	std::unordered_map<rdma_cm_id*, End> ends_;

	std::mutex mutex_;
	std::condition_variable changed_;
	Account account_;  // guarded by mutex_, as are the two flags
	bool stopping_ = false, stopped_ = false;
	std::thread server_;
};

}  // namespace verbena::connect
