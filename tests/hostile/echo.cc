// SPDX-License-Identifier: Apache-2.0
// A server that echoes messages over rdma_cm, and its client, which verifies them.
//
//     echo server ADDRESS PORT
//     echo client ADDRESS PORT CONNECTIONS
//
// Prints "ready" when it listens, or when all connections are made. Then it executes one command
// for each line of its input and answers by one line, which begins with "ok" or "failed":
//
//     ping          the client: one verified round trip on each connection
//     connect       the client: a new connection, a verified round trip, and its end; microseconds
//     counter NAME  the value of this port counter
//     lost          the number of connections that have ended without a command of this process
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// libibverbs exports it for its providers, without a header.
extern "C" int ibv_read_sysfs_file(const char* folder, const char* file, char* text, std::size_t size);

namespace {

using Clock = std::chrono::steady_clock;

constexpr int message_bytes = 64;
constexpr auto patience = std::chrono::seconds(20);

void must(bool good, const char* what) {
	if (!good) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

// The protection domain and completion queue of this process, made with the first id.
struct Device {
	ibv_pd* pd = nullptr;
	ibv_cq* cq = nullptr;
	ibv_comp_channel* channel = nullptr;

	void use(ibv_context* context) {
		if (pd) return;
		must((pd = ibv_alloc_pd(context)) != nullptr, "ibv_alloc_pd");
		must((channel = ibv_create_comp_channel(context)) != nullptr, "ibv_create_comp_channel");
		must((cq = ibv_create_cq(context, 8192, nullptr, channel, 0)) != nullptr, "ibv_create_cq");
		must(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
	}
};

struct Connection {
	Connection(Device& device, rdma_cm_id* made) : id(made) {
		device.use(id->verbs);
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = device.cq;
		init.qp_type = IBV_QPT_RC;
		init.cap = {4, 4, 1, 1, message_bytes};
		init.sq_sig_all = 1;
		must(rdma_create_qp(id, device.pd, &init) == 0, "rdma_create_qp");
		must((region = ibv_reg_mr(device.pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE)) != nullptr, "ibv_reg_mr");
		receive();
	}
	~Connection() {
		if (id->qp) rdma_destroy_qp(id);
		ibv_dereg_mr(region);
		rdma_destroy_id(id);
	}

	void receive() {
		ibv_sge part{reinterpret_cast<std::uint64_t>(buffer), message_bytes, region->lkey};
		ibv_recv_wr work{
			.wr_id = reinterpret_cast<std::uint64_t>(this), .next = nullptr, .sg_list = &part, .num_sge = 1};
		ibv_recv_wr* bad;
		must(ibv_post_recv(id->qp, &work, &bad) == 0, "ibv_post_recv");
	}
	void send(const char* bytes) {
		ibv_sge part{reinterpret_cast<std::uint64_t>(bytes), message_bytes, 0};
		ibv_send_wr work{}, *bad;
		work.sg_list = &part;
		work.num_sge = 1;
		work.opcode = IBV_WR_SEND;
		work.send_flags = IBV_SEND_INLINE;
		must(ibv_post_send(id->qp, &work, &bad) == 0, "ibv_post_send");
	}

	rdma_cm_id* id;
	ibv_mr* region = nullptr;
	char buffer[message_bytes] = {};
	bool received = false;
};

class Process {
public:
	Process() { must((events_ = rdma_create_event_channel()) != nullptr, "rdma_create_event_channel"); }
	virtual ~Process() = default;

	// Executes commands until the input ends.
	void run() {
		std::puts("ready");
		std::fflush(stdout);
		for (;;) {
			wait(true, Clock::time_point::max());
			if (!pending_input_) continue;
			char line[256];
			if (!std::fgets(line, sizeof line, stdin)) return;
			line[std::strcspn(line, "\n")] = 0;
			std::string answer;
			try {
				answer = "ok " + execute(line);
			} catch (const std::exception& error) {
				answer = std::string("failed ") + error.what();
			}
			std::puts(answer.c_str());
			std::fflush(stdout);
		}
	}

protected:
	virtual std::string execute(const std::string& command) {
		if (command == "lost") return std::to_string(lost_);
		if (command.starts_with("counter ")) return counter(command.substr(8));
		throw std::runtime_error("no such command");
	}
	virtual void handle(const rdma_cm_event&) = 0;
	virtual void handle_message(Connection&) = 0;

	// Handles what has arrived, or waits for it.
	void wait(bool for_input, Clock::time_point deadline) {
		pollfd fds[3] = {{events_->fd, POLLIN, 0}, {for_input ? 0 : -1, POLLIN, 0},
			{device_.channel ? device_.channel->fd : -1, POLLIN, 0}};
		const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
		const int timeout = deadline == Clock::time_point::max() ? -1 : static_cast<int>(std::max<long>(left, 0));
		const int ready = poll(fds, 3, timeout);
		if (ready == 0) throw std::runtime_error("nothing happened in time");
		pending_input_ = fds[1].revents != 0;
		if (fds[0].revents) {
			rdma_cm_event* event;
			must(rdma_get_cm_event(events_, &event) == 0, "rdma_get_cm_event");
			const rdma_cm_event copy = *event;
			if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST) handle(copy);
			rdma_ack_cm_event(event);
			if (copy.event != RDMA_CM_EVENT_CONNECT_REQUEST) handle(copy);
		}
		if (fds[2].revents) {
			ibv_cq* cq;
			void* context;
			must(ibv_get_cq_event(device_.channel, &cq, &context) == 0, "ibv_get_cq_event");
			ibv_ack_cq_events(cq, 1);
			must(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
		}
		if (device_.cq) drain();
	}
	void drain() {
		ibv_wc wc;
		while (ibv_poll_cq(device_.cq, 1, &wc) > 0) {
			if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV)
				handle_message(*reinterpret_cast<Connection*>(wc.wr_id));
			else if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR) ++errors_;
		}
	}
	std::string counter(const std::string& name) {
		char value[64];
		const std::string folder =
			std::string("/sys/class/infiniband/") + ibv_get_device_name(context_->device) + "/ports/1";
		must(ibv_read_sysfs_file(folder.c_str(), name.c_str(), value, sizeof value) > 0, "ibv_read_sysfs_file");
		return value;
	}

	rdma_event_channel* events_ = nullptr;
	Device device_;
	ibv_context* context_ = nullptr;
	int lost_ = 0, errors_ = 0;
	bool pending_input_ = false;
};

sockaddr_storage address_of(const char* host, const char* port) {
	addrinfo hints{};
	hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	hints.ai_socktype = SOCK_STREAM;
	addrinfo* found = nullptr;
	if (getaddrinfo(host, port, &hints, &found) != 0) throw std::runtime_error("no such address");
	sockaddr_storage address{};
	std::memcpy(&address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return address;
}

class Server : public Process {
public:
	Server(const char* host, const char* port) {
		sockaddr_storage address = address_of(host, port);
		must(rdma_create_id(events_, &listener_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
		must(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address)) == 0, "rdma_bind_addr");
		must(rdma_listen(listener_, 0) == 0, "rdma_listen");
		context_ = listener_->verbs;
	}

private:
	void handle(const rdma_cm_event& event) override {
		if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			context_ = event.id->verbs;
			auto made = std::make_unique<Connection>(device_, event.id);
			rdma_conn_param parameters{};
			parameters.rnr_retry_count = 7;
			must(rdma_accept(event.id, &parameters) == 0, "rdma_accept");
			connections_[event.id] = std::move(made);
		} else if (event.event == RDMA_CM_EVENT_DISCONNECTED || event.event == RDMA_CM_EVENT_UNREACHABLE ||
			event.event == RDMA_CM_EVENT_REJECTED || event.event == RDMA_CM_EVENT_CONNECT_ERROR) {
			++lost_;
			drain();
			connections_.erase(event.id);
		}
	}
	void handle_message(Connection& c) override {
		char copy[message_bytes];
		std::memcpy(copy, c.buffer, sizeof copy);
		c.receive();
		c.send(copy);
	}

	rdma_cm_id* listener_ = nullptr;
	std::map<rdma_cm_id*, std::unique_ptr<Connection>> connections_;
};

class Client : public Process {
public:
	Client(const char* host, const char* port, int count) : address_(address_of(host, port)) {
		for (int i = 0; i < count; ++i) connections_.push_back(connect());
	}

private:
	std::unique_ptr<Connection> connect() {
		rdma_cm_id* id;
		must(rdma_create_id(events_, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
		must(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address_), 2000) == 0, "rdma_resolve_addr");
		wait_for(RDMA_CM_EVENT_ADDR_RESOLVED);
		must(rdma_resolve_route(id, 2000) == 0, "rdma_resolve_route");
		wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED);
		context_ = id->verbs;
		auto made = std::make_unique<Connection>(device_, id);
		rdma_conn_param parameters{};
		parameters.retry_count = parameters.rnr_retry_count = 7;
		must(rdma_connect(id, &parameters) == 0, "rdma_connect");
		wait_for(RDMA_CM_EVENT_ESTABLISHED);
		return made;
	}
	void wait_for(rdma_cm_event_type wanted) {
		expected_ = wanted;
		happened_ = false;
		while (!happened_) wait(false, Clock::now() + patience);
	}
	void handle(const rdma_cm_event& event) override {
		if (event.event == RDMA_CM_EVENT_TIMEWAIT_EXIT) return;
		if (event.event == expected_) happened_ = true;
		else if (event.event == RDMA_CM_EVENT_DISCONNECTED) ++lost_;
		else throw std::runtime_error(std::string("the event ") + rdma_event_str(event.event));
	}
	void handle_message(Connection& c) override { c.received = true; }

	std::string execute(const std::string& command) override {
		if (command == "ping") {
			for (const auto& each : connections_) round_trip(*each);
			return std::to_string(connections_.size());
		}
		if (command != "connect") return Process::execute(command);
		const auto start = Clock::now();
		auto made = connect();
		round_trip(*made);
		const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
		must(rdma_disconnect(made->id) == 0, "rdma_disconnect");
		wait_for(RDMA_CM_EVENT_DISCONNECTED);
		expected_ = RDMA_CM_EVENT_ESTABLISHED;
		drain();
		return std::to_string(took);
	}
	void round_trip(Connection& c) {
		char bytes[message_bytes];
		for (int i = 0; i < message_bytes; ++i) bytes[i] = static_cast<char>(sequence_ * 31 + i);
		++sequence_;
		c.received = false;
		c.send(bytes);
		while (!c.received) wait(false, Clock::now() + patience);
		if (std::memcmp(bytes, c.buffer, sizeof bytes) != 0) throw std::runtime_error("the echo has other bytes");
		c.receive();
	}

	sockaddr_storage address_;
	std::vector<std::unique_ptr<Connection>> connections_;
	int expected_ = -1;
	bool happened_ = false;
	unsigned sequence_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
	try {
		rlimit descriptors{};
		getrlimit(RLIMIT_NOFILE, &descriptors);
		descriptors.rlim_cur = descriptors.rlim_max;
		setrlimit(RLIMIT_NOFILE, &descriptors);
		std::unique_ptr<Process> process;
		if (argc == 4 && std::strcmp(argv[1], "server") == 0) process = std::make_unique<Server>(argv[2], argv[3]);
		if (argc == 5 && std::strcmp(argv[1], "client") == 0)
			process = std::make_unique<Client>(argv[2], argv[3], std::atoi(argv[4]));
		if (!process) return std::fprintf(stderr, "usage: echo server|client ADDRESS PORT [CONNECTIONS]\n"), 2;
		process->run();
		std::fflush(stdout);
		std::_Exit(0);
	} catch (const std::exception& error) {
		return std::fprintf(stderr, "echo: %s\n", error.what()), 1;
	}
}
