#include "bench/rcud/session.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace verbena::rcud {
namespace {

using namespace std::chrono_literals;
using bench::Message;
using bench::RoundTrip;

constexpr auto answer_patience = 30s;  // set-up, results
// For rdma_cm's part of a set-up: less than answer_patience, so that its error is the one reported.
constexpr auto connect_patience = 20s;
// Between cells a server waits until its client sends something or dies.
constexpr auto idle_patience = 24h;
// Bytes that a client may make the server allocate for each of its buffers.
constexpr std::uint64_t memory_max = std::uint64_t{4} << 30;

PeerInfo describe(const lib::OpenDevice& device) {
	return {.device = device.choice.device,
		.software = device.choice.software,
		.gid = lib::format_gid(device.choice.gid),
		.mtu = device.mtu_bytes(),
		.queue_depth = queue_depth_of(device)};
}

// A field of a message; the peer is untrusted, so the field may be missing or of another type.
template <class T> T field(const Message& message, const char* name) {
	try {
		return message.at(name).get<T>();
	} catch (const nlohmann::json::exception&) {
		throw PeerLost(bench::bad_field(message, name));
	}
}

lib::SocketAddress address_for_connection(const ibv_gid& gid, std::uint16_t port) {
	const auto address = lib::address_of(gid, port);
	if (!address)
		throw Failure(fmt::format(
			"rdma_cm needs an IP address, but the link-local GID {} has none without its interface: choose another "
			"--gid-index",
			lib::format_gid(gid)));
	return *address;
}

// Refuses a cell of an untrusted client whose numbers contradict each other or need too much
// memory.
void check_request(const Cell& cell, const Shape& shape) {
	const std::uint64_t receives = std::uint64_t{shape.receive_depth} * (cell.msg + 64);
	const std::uint64_t ring = std::uint64_t{shape.ring_slots} * shape.stride;
	const bool good = cell.mode <= Mode::ud_segmented && cell.op <= Op::read &&
		cell.window_mode <= WindowMode::credit && cell.window >= 1 && cell.msg >= 1 && shape.fragments >= 1 &&
		shape.fragments <= 64 && shape.receive_depth >= 1 && shape.stride >= cell.msg && shape.stride % 64 == 0 &&
		shape.credit_every >= 1 && shape.signal_every >= 1 && shape.post_list >= 1 &&
		(cell.op == Op::send || shape.ring_slots >= 1) &&
		std::uint64_t{shape.fragment_bytes} * shape.fragments >= cell.msg && receives <= memory_max &&
		ring <= memory_max && std::uint64_t{cell.window} * cell.msg <= memory_max;
	if (!good) throw Failure("the client asked for a cell whose numbers are out of range");
}

}  // namespace

std::uint32_t queue_depth_of(const lib::OpenDevice& device) {
	const int depth = std::min(device.attributes.max_qp_wr, device.attributes.max_cqe / 2);
	return static_cast<std::uint32_t>(std::clamp(depth, 1, 16'384));
}

// ---- client

Client::Client(lib::OpenDevice& device, bench::Control& control, RoundTrip* page)
	: device_(device), control_(control), page_(page) {
	control_.send({{"type", "hello"}, {"protocol", "verbena-rcud"}, {"version", protocol_version}});
	const Message hello = expect("hello", answer_patience);
	if (const int version = field<int>(hello, "version"); version != protocol_version)
		throw PeerLost(bench::version_mismatch(version, protocol_version));
	peer_ = field<PeerInfo>(hello, "device");
}

Limits Client::limits() const {
	return {.mtu = std::min(device_.mtu_bytes(), peer_.mtu),
		.queue_depth_max = std::min(queue_depth_of(device_), peer_.queue_depth)};
}

Message Client::expect(std::string_view type, std::chrono::milliseconds patience) {
	Message message = pending_ ? std::move(*pending_) : control_.receive(patience);
	pending_.reset();
	// Skip a late answer to are_you_idle, which no call waits for any more.
	while (message["type"] == "idle") message = control_.receive(patience);
	if (message["type"] == "failed") throw Failure("the other process: " + field<std::string>(message, "text"));
	if (message["type"] != type) throw PeerLost(bench::wrong_answer(message, type));
	return message;
}

Watch Client::look(bool silent) {
	if (silent && !std::exchange(asked_, true)) control_.send({{"type", "are_you_idle"}});
	if (!pending_) pending_ = control_.try_receive();
	if (!pending_) return Watch::go_on;
	if ((*pending_)["type"] == "idle") {
		pending_.reset();
		asked_ = false;
		return Watch::receiver_idle;
	}
	return (*pending_)["type"] == "result" ? Watch::finished : Watch::abandon;
}

Sent Client::run_once(Sender& sender, std::uint64_t total, Repetition& result) {
	const Run run{.number = ++run_number_, .total = total};
	if (page_ != nullptr) page_->delivered().store(0);
	asked_ = false;
	control_.send({{"type", "run"}, {"number", run.number}, {"total", run.total}});
	expect("ready", answer_patience);

	Sent sent;
	const auto note = [&] {
		result.posted = sent.posted;
		result.completed = sent.completed;
		const std::uint64_t counted = page_ != nullptr ? page_->delivered().load() : 0;
		result.delivery = {.delivered = std::max({sent.consumed, sent.read.delivered, std::min(counted, sent.posted)})};
	};
	try {
		sender.run(run, [&](bool silent) { return look(silent); }, sent);
		note();
		control_.send({{"type", "sent"}});
		const Message answer = expect("result", answer_patience);
		result.delivery = field<Delivery>(answer, "delivery");
	} catch (const Failure&) {
		note();
		// The receiver's own message says more than the failure that it caused here.
		if (pending_ && (*pending_)["type"] == "failed")
			throw Failure("the other process: " + field<std::string>(*pending_, "text"));
		throw;
	}
	return sent;
}

void Client::connect(std::optional<Call>& call, std::optional<Endpoint>& end, const Cell& cell, const Shape& shape,
	const Settings& settings) {
	Message request{{"type", "cell"}, {"cell", cell}, {"shape", shape}, {"inline_bytes", settings.inline_bytes},
		{"delay_ns", settings.receiver_delay_ns}, {"passive", settings.passive_target}};
	if (settings.connect == Connect::exchange || cell.mode != Mode::rc) {
		end.emplace(device_, cell, shape, Role::sender, settings.inline_bytes);
		request["address"] = end->address();
		control_.send(request);
		end->connect(field<Address>(expect("endpoint", answer_patience), "address"));
		return;
	}
	request["ticket"] = ++ticket_;
	control_.send(request);
	const Message listening = expect("listening", answer_patience);
	const auto there = address_for_connection(
		take(lib::parse_gid(field<std::string>(listening, "gid"))), field<std::uint16_t>(listening, "port"));
	const auto here = address_for_connection(device_.choice.gid, 0);
	call.emplace(take(lib::make_event_channel()));
	call->connection.emplace(take(lib::resolve(call->channel.get(), there, connect_patience, &here)));
	end.emplace(call->connection->device, cell, shape, Role::sender, settings.inline_bytes, Endpoint::default_qkey,
		call->connection->id.get());
	rcud::call(call->channel.get(), *call->connection, *end, {.number = ticket_}, connect_patience);
	expect("endpoint", answer_patience);
}

void Client::measure(const Cell& cell, const Shape& shape, const Settings& settings, Repetition& result) {
	result = {.iters = settings.iters};
	pending_.reset();
	try {
		result.rtt_before_ns = round_trip();
		std::optional<Call> call;
		std::optional<Endpoint> end;
		connect(call, end, cell, shape, settings);
		Sender sender(*end);
		sender.post_receives();

		const std::uint64_t warmup = settings.warmup > 0 ? settings.warmup
			: settings.min_time_s > 0                    ? settings.iters / 10 + 1
														 : 0;
		if (warmup > 0) {
			const Sent warm = run_once(sender, warmup, result);
			const double mops = cell.op == Op::read ? warm.read.mops() : result.delivery.mops();
			result.iters = std::max(settings.iters, static_cast<std::uint64_t>(settings.min_time_s * mops * 1e6));
		}
		const Sent sent = run_once(sender, result.iters, result);
		if (cell.op == Op::read) result.delivery = sent.read;
		result.latency_ns = sent.latency_ns;
		result.sender_ns = sent.took_ns;
		control_.send({{"type", "close"}});
		expect("closed", answer_patience);
		if (call) rdma_disconnect(call->connection->id.get());
		result.rtt_after_ns = round_trip();
	} catch (const PeerLost& lost) {
		result.failure = lost.what();
		throw;
	} catch (const Failure& failure) {
		result.failure = failure.what();
		// Bring the server back to the state between cells.
		control_.send({{"type", "close"}});
		while (control_.receive(answer_patience)["type"] != "closed") {}
	}
}

std::optional<double> Client::round_trip() {
	if (page_ == nullptr) return std::nullopt;
	page_->reset();
	control_.send({{"type", "round_trip"}});
	const auto took = page_->ask();
	expect("answered", answer_patience);
	return took;
}

// ---- server

namespace {

class Server {
public:
	Server(lib::OpenDevice& device, bench::Control& control, RoundTrip* page)
		: device_(device), control_(control), page_(page) {}

	void hello() {
		const Message message = control_.receive(answer_patience);
		if (!bench::is_hello(message, "verbena-rcud")) throw PeerLost(bench::other_protocol);
		control_.send({{"type", "hello"}, {"version", protocol_version}, {"device", describe(device_)}});
	}

	// Handles one message between cells. A `cell` is served to its end.
	void next() {
		const Message message = control_.receive(idle_patience);
		if (message["type"] == "round_trip") {
			if (page_ != nullptr) page_->answer();
			control_.send({{"type", "answered"}});
		} else if (message["type"] == "cell") {
			try {
				serve_cell(message);
			} catch (const PeerLost&) {
				throw;
			} catch (const Failure& failure) {
				control_.send({{"type", "failed"}, {"text", failure.what()}});
				await_close();
			}
			control_.send({{"type", "closed"}});
		} else if (message["type"] == "close") {
			control_.send({{"type", "closed"}});
		} else {
			throw PeerLost(bench::other_protocol);
		}
	}

private:
	void await_close() {
		while (!closing_) closing_ = control_.receive(idle_patience)["type"] == "close";
	}

	void serve_cell(const Message& message) {
		closing_ = false;
		const auto cell = field<Cell>(message, "cell");
		const auto shape = field<Shape>(message, "shape");
		check_request(cell, shape);
		const auto inline_bytes = field<std::uint32_t>(message, "inline_bytes");
		const auto make_receiver = [&](Endpoint& end) {
			Receiver receiver(end, field<std::uint32_t>(message, "delay_ns"), field<bool>(message, "passive"),
				page_ != nullptr ? &page_->delivered() : nullptr);
			receiver.post_receives();
			return receiver;
		};

		if (!message.contains("ticket")) {
			Endpoint end(device_, cell, shape, Role::receiver, inline_bytes);
			end.connect(field<Address>(message, "address"));
			Receiver receiver = make_receiver(end);
			control_.send({{"type", "endpoint"}, {"address", end.address()}});
			return serve_runs(receiver);
		}
		if (cell.mode != Mode::rc) throw Failure("rdma_cm connects only RC queue pairs");
		auto asked = await_request(cell, field<std::uint16_t>(message, "ticket"));
		if (!asked) return;
		auto& [connection, offer] = *asked;
		std::optional<Endpoint> end;
		std::optional<Receiver> receiver;
		try {
			end.emplace(connection.device, cell, shape, Role::receiver, inline_bytes, Endpoint::default_qkey,
				connection.id.get());
			receiver.emplace(make_receiver(*end));
			answer(connection, *end, offer);
		} catch (const Failure& failure) {
			lib::reject(connection.id.get(), failure.what());
			throw;
		}
		control_.send({{"type", "endpoint"}});
		serve_runs(*receiver);
	}

	// Waits for the client's connection by rdma_cm. Empty if the client closes the cell instead,
	// for example because it cannot reach this end.
	std::optional<std::pair<Connection, Offer>> await_request(const Cell& cell, std::uint16_t ticket) {
		if (!listener_) {
			events_ = take(lib::make_event_channel());
			listener_ = take(lib::listen(events_.get(), address_for_connection(device_.choice.gid, 0), 8));
		}
		control_.send({{"type", "listening"}, {"gid", lib::format_gid(device_.choice.gid)},
			{"port", ntohs(rdma_get_src_port(listener_.get()))}});
		while (true) {
			const auto event = take(lib::next_event(events_.get(), 20ms));
			if (event && event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
				lib::ConnectionId id(event->id);
				const auto offer = decode_offer(event->private_data);
				if (offer && offer->cell == cell && offer->run.number == ticket)
					return std::pair(Connection(std::move(id)), *offer);
				lib::reject(id.get(), offer ? "the server waits for another connection" : offer.error());
			}
			const auto message = control_.try_receive();
			if (message && (*message)["type"] == "close") return std::nullopt;
		}
	}

	void serve_runs(Receiver& receiver) {
		while (true) {
			const Message next = control_.receive(idle_patience);
			if (next["type"] == "close") return;
			if (next["type"] == "sent" || next["type"] == "are_you_idle")
				continue;  // belongs to a run whose result was sent before this arrived
			if (next["type"] != "run") throw PeerLost(bench::other_protocol);
			const Run run{.number = field<std::uint16_t>(next, "number"), .total = field<std::uint64_t>(next, "total")};
			control_.send({{"type", "ready"}});
			const Delivery delivery = receiver.run(run, [this](bool) { return look(); });
			control_.send({{"type", "result"}, {"delivery", delivery}});
		}
	}

	// The receiver's watcher: reads the client's messages during a run.
	Watch look() {
		const auto message = control_.try_receive();
		if (!message) return Watch::go_on;
		if ((*message)["type"] == "sent") return Watch::finished;
		if ((*message)["type"] == "are_you_idle") {
			control_.send({{"type", "idle"}});
			return Watch::go_on;
		}
		closing_ = (*message)["type"] == "close";
		return Watch::abandon;
	}

	lib::OpenDevice& device_;
	bench::Control& control_;
	RoundTrip* page_;
	lib::EventChannel events_;  // the listener's; made for the first cell that uses rdma_cm
	lib::ConnectionId listener_;
	bool closing_ = false;
};

}  // namespace

void serve(lib::OpenDevice& device, bench::Control& control, RoundTrip* page) {
	Server server(device, control, page);
	server.hello();
	while (true) {
		try {
			server.next();
		} catch (const PeerLost&) {
			return;
		}
	}
}

}  // namespace verbena::rcud
