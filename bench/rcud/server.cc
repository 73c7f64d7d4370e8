// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/server.h"

#include <arpa/inet.h>

#include <new>
#include <optional>
#include <utility>

#include "bench/rcud/fan_in_receiver.h"
#include "bench/rcud/managed.h"
#include "bench/rcud/receiver.h"
#include "bench/rcud/requests.h"

namespace verbena::rcud {
namespace {

using namespace std::chrono_literals;
using bench::Message;
using bench::RoundTrip;

// Between cells a server waits until its client sends something or dies.
constexpr auto idle_patience = 24h;

PeerInfo describe(const lib::OpenDevice& device) {
	return {.device = device.choice.device,
		.software = device.choice.software,
		.gid = lib::format_gid(device.choice.gid),
		.mtu = device.mtu_bytes(),
		.queue_depth = queue_depth_of(device),
		.qps = qps_of(device)};
}

class Server {
public:
	Server(lib::OpenDevice& device, bench::Control& control, RoundTrip* page)
		: device_(device), control_(control), page_(page) {}

	void hello() {
		const Message message = control_.receive(answer_patience);
		if (!bench::is_hello(message, protocol_name)) throw PeerLost(bench::other_protocol);
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
				fail(failure.what());
			} catch (const std::bad_alloc&) {
				fail(no_memory);
			}
			control_.send({{"type", "closed"}});
		} else if (message["type"] == "close") {
			control_.send({{"type", "closed"}});
		} else {
			throw PeerLost(bench::other_protocol);
		}
	}

private:
	// Reports the failure of a cell, and waits until the client has closed it.
	void fail(const std::string& why) {
		control_.send({{"type", "failed"}, {"text", why}});
		while (!closing_) closing_ = control_.receive(idle_patience)["type"] == "close";
	}

	void serve_cell(const Message& message) {
		closing_ = false;
		const auto cell = field<Cell>(message, "cell");
		const auto shape = field<Shape>(message, "shape");
		check_request(cell, shape);
		const auto inline_bytes = field<std::uint32_t>(message, "inline_bytes");
		if (cell.qps > 0) {
			FanInReceiverEndpoint end(device_, cell, shape, inline_bytes);
			end.connect(field<FanInAddress>(message, "address"),
				receive_qpns(cell.qps, [&] { return control_.receive(answer_patience); }));
			FanInReceiver receiver(
				end, field<std::uint32_t>(message, "delay_ns"), page_ != nullptr ? &page_->delivered() : nullptr);
			receiver.post_receives();
			control_.send({{"type", "endpoint"}, {"address", end.address()}});
			send_qpns(control_, end.qpns());
			return serve_runs(receiver);
		}
		const auto make_receiver = [&](Endpoint& end) {
			Receiver receiver(end, field<std::uint32_t>(message, "delay_ns"), field<bool>(message, "passive"),
				page_ != nullptr ? &page_->delivered() : nullptr);
			receiver.post_receives();
			return receiver;
		};

		if (!message.contains("ticket")) {
			Endpoint end(device_, cell, shape, Side::receiver, inline_bytes);
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
			end.emplace(connection.device, cell, shape, Side::receiver, inline_bytes, Endpoint::default_qkey,
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

	template <class AnyReceiver> void serve_runs(AnyReceiver& receiver) {
		while (true) {
			const Message next = control_.receive(idle_patience);
			if (next["type"] == "close") return;
			if (next["type"] == "sent" || next["type"] == "are_you_idle")
				continue;  // belongs to a run whose result was sent before this arrived
			if (next["type"] != "run") throw PeerLost(bench::other_protocol);
			const Run run{.number = field<std::uint16_t>(next, "number"),
				.total = field<std::uint64_t>(next, "total"),
				.seed = field<std::uint64_t>(next, "seed")};
			if constexpr (requires { receiver.prepare(run); }) receiver.prepare(run);
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
