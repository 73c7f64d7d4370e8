// SPDX-License-Identifier: Apache-2.0
// Fuzzes the Communication Manager with sequences of datagrams, commands of its program and pauses:
// nothing crashes, no event names a destroyed connection, and when all connections are destroyed
// and time has passed, no state is left.
#include <vector>

#include "base/check.h"
#include "fuzz/input.h"
#include "nic/cm/connection_manager.h"

namespace verbena::fuzz {
namespace {

using namespace cm;

constexpr std::uint16_t attributes[] = {Req::attribute, Mra::attribute, Rej::attribute, Rep::attribute, Rtu::attribute,
	Dreq::attribute, Drep::attribute, SidrReq::attribute, SidrRep::attribute};

struct Conversation {
	explicit Conversation(Input& bytes) : input(bytes) {
		manager.use_block(5);
		check(manager.listen(service_of(port_space::tcp, 1), {}, this) &&
				manager.listen(service_of(port_space::udp, 1), {}, this),
			"free services");
	}

	Route route() {
		Route route{};
		route.addresses.destination[15] = static_cast<std::uint8_t>(input.below(3));
		route.carrier = this;
		route.link = input.below(2);
		return route;
	}
	// A connection that the program knows, if there is one.
	CommId some() { return known.empty() ? CommId{} : known[input.below(static_cast<std::uint32_t>(known.size()))]; }

	void receive() {
		wire::Mad mad{};
		const auto body = input.bytes(input.below(wire::mad_size - wire::mad_header_size));
		std::ranges::copy(body, mad.begin() + wire::mad_header_size);
		// Use numbers that exist, since random ones would hardly ever match a connection.
		const Connection* const about = manager.find(some());
		wire::write_mad_header(mad,
			{.transaction_id = about && input.flag() ? about->transaction : input.byte(),
				.attribute_id = attributes[input.below(std::size(attributes))]});
		if (input.flag()) wire::store_be32(&mad[24], about && input.flag() ? about->remote.value : input.below(4));
		if (input.flag()) wire::store_be32(&mad[28], about ? about->local.value : 0);
		if (input.flag())
			wire::store_be64(&mad[32], service_of(input.flag() ? port_space::tcp : port_space::udp, 1).value);
		if (input.flag())
			mad[24 + 140] = mad[24 + 16] = std::byte{0}, mad[24 + 141] = mad[24 + 17] = std::byte{0x40},
					 mad[24 + 50] = std::byte{0x30};
		manager.handle_mad(now, route(), mad);
	}

	void command() {
		const CommId id = some();
		switch (input.below(9)) {
			case 0:
				known.push_back(manager.connect(now, route(), {.service = service_of(port_space::tcp, 2)}, this));
				break;
			case 1:
				known.push_back(manager.resolve(now, route(), {.service = service_of(port_space::udp, 2)}, this));
				break;
			case 2: manager.confirm(id); break;
			case 3: manager.reply(now, id, {}, 1, {}); break;
			case 4: manager.answer(now, id, sidr_status::success, {1}, 2, {}); break;
			case 5: manager.reject(now, id, reject_reason::consumer, {}); break;
			case 6: manager.disconnect(now, id); break;
			case 7: manager.establish(id); break;
			default: let_go(id);
		}
	}
	void let_go(CommId id) {
		manager.destroy(now, id);
		std::erase(known, id);
	}

	// Discards outgoing messages and checks the events.
	void settle() {
		while (manager.next_outgoing()) manager.pop_outgoing();
		while (const auto event = manager.poll_event()) {
			const bool asks = event->kind == Event::Kind::request || event->kind == Event::Kind::datagram_request;
			if (asks) known.push_back(event->connection);
			check(std::ranges::find(known, event->connection) != known.end(), "no event names a destroyed connection");
		}
	}

	void run() {
		for (int step = 0; step < 200 && !input.ended(); ++step) {
			switch (input.below(8)) {
				case 0:
					now += Nanoseconds{input.byte()} << input.below(32);
					manager.handle_timeouts(now);
					break;
				case 1:
				case 2: command(); break;
				case 3:
					if (input.below(16) == 0) manager.fail_carrier(now, this);
					break;
				default: receive();
			}
			settle();
		}
		while (!known.empty()) let_go(known.back());
		for (int i = 0; i < 64; ++i) {
			now += ConnectionManager::patience;
			manager.handle_timeouts(now);
			settle();
		}
		check(manager.connection_count() == 0, "no connection is left");
	}

	Input& input;
	ConnectionManager manager{7, 0};
	std::vector<CommId> known;
	Nanoseconds now = 0;
};

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
	verbena::fuzz::Input input(data, size);
	verbena::fuzz::Conversation(input).run();
	return 0;
}
