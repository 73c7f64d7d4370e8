// Connections by rdma_cm, each with a queue pair of its own: one thread an end, which waits in rdma_get_cm_event as
// most programs do.
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

// A device and what all connections on it share.
struct Shared {
	lib::OpenDevice device;
	lib::CompletionQueue completions;
	static std::unique_ptr<Shared> on(rdma_cm_id* id);
};

// A connection that exists at this end; nothing is sent on it.
struct End {
	lib::ConnectionId id;
	lib::QueuePair qp;
	void make_queue_pair(Shared& shared);
};

class RdmacmConnector : public Connector {
public:
	// Looks once, which is not measured, by what device the server is reached. `from`: the address to come from.
	RdmacmConnector(const lib::SocketAddress& server, std::optional<lib::SocketAddress> from);

	std::span<const std::string_view> parts() const override;
	void begin(std::uint32_t number) override;
	void end(std::uint32_t number) override;
	Report next() override;

	const lib::OpenDevice& device() const { return shared_->device; }

private:
	struct Attempt : End {
		std::uint32_t number = 0;
		Report report;
		std::size_t part = 0;
		Nanoseconds last = 0;
		bool up = false;
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
	// Port 0: any free one.
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
	Account account_;  // under the mutex, like what follows
	bool stopping_ = false, stopped_ = false;
	std::thread server_;
};

}  // namespace verbena::connect
