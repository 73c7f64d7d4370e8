// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/lanes.h"

#include <algorithm>

namespace verbena::kv {
namespace {

// The lanes to which this thread keeps, one of each handle that it uses.
class ThreadLanes {
public:
	~ThreadLanes() {
		for (const Place& each : places_)
			if (const auto seats = each.seats.lock()) {
				const std::lock_guard guard(seats->lock);
				--seats->threads[each.lane];
			}
	}
	std::size_t lane_of(const std::shared_ptr<Lanes::Seats>& seats) {
		for (const Place& each : places_)
			if (each.of == seats.get()) return each.lane;
		std::erase_if(places_, [](const Place& each) { return each.seats.expired(); });
		const std::lock_guard guard(seats->lock);
		const auto least = std::ranges::min_element(seats->threads);
		++*least;
		const auto lane = static_cast<std::size_t>(least - seats->threads.begin());
		places_.push_back({seats.get(), seats, lane});
		return lane;
	}

private:
	struct Place {
		// Another object has this address only after `seats` is gone: std::make_shared() frees the
		// memory with the last weak pointer.
		const Lanes::Seats* of;
		std::weak_ptr<Lanes::Seats> seats;
		std::size_t lane;
	};
	std::vector<Place> places_;
};

thread_local ThreadLanes of_this_thread;

}  // namespace

Lanes::Lanes(std::vector<std::unique_ptr<Handle>> handles)
	: handles_(std::move(handles)), seats_(std::make_shared<Seats>()) {
	seats_->threads.resize(handles_.size());
}

std::size_t Lanes::lane_of_this_thread() const { return of_this_thread.lane_of(seats_); }

std::expected<std::unique_ptr<Lanes>, Lanes::Failure> Lanes::open(const char* server, const kv_options& wanted) {
	const auto fail = [](int result, std::string sentence) {
		return std::unexpected(Failure{result, std::move(sentence)});
	};
	const auto text = [](const char* given, const char* otherwise = "") {
		return std::string(given == nullptr ? otherwise : given);
	};
	ClientOptions client{.eager_max = static_cast<std::uint32_t>(std::min<std::size_t>(wanted.eager_max, value_max)),
		.headroom = headroom,
		.one_sided = wanted.one_sided != 0};
	const std::string transport = text(wanted.transport, "rdma"), protocol = text(wanted.protocol, "auto"),
					  form = text(wanted.rendezvous, "read");
	if (transport != "rdma" && transport != "tcp")
		return fail(KV_INVALID, "the transport is rdma or tcp, not " + transport);
	if (protocol == "eager") client.protocol = Protocol::eager;
	else if (protocol == "rndv") client.protocol = Protocol::rendezvous;
	else if (protocol != "auto") return fail(KV_INVALID, "the protocol is auto, eager or rndv, not " + protocol);
	if (form == "write") client.form = Form::write;
	else if (form != "read") return fail(KV_INVALID, "the form of rendezvous is read or write, not " + form);

	if (transport == "tcp" && client.protocol == Protocol::rendezvous)
		return fail(KV_UNSUPPORTED, std::string(sentence_of(Error::unsupported)));
	if (wanted.lanes > lanes_max) return fail(KV_INVALID, "a handle has 1 to " + std::to_string(lanes_max) + " lanes");

	const auto trust = channel::choose_trust({.ca = text(wanted.ca),
												 .certificate = text(wanted.certificate),
												 .key = text(wanted.key),
												 .insecure = wanted.insecure != 0},
		channel::trust_environment());
	if (!trust) return fail(KV_INVALID, trust.error());
	auto protection = channel::make_client_protection(*trust);
	if (!protection) return fail(KV_INVALID, protection.error());
	const RouterOptions usual;
	const Nanoseconds timeout = wanted.timeout_ms == 0 ? usual.timeout
		: wanted.timeout_ms < 0                        ? never
													   : static_cast<Nanoseconds>(wanted.timeout_ms) * 1'000'000;
	std::vector<std::unique_ptr<Handle>> handles;
	const auto give_up = [&](std::string sentence) {
		for (const auto& each : handles) each->close();
		return fail(KV_UNREACHABLE, std::move(sentence));
	};
	while (handles.size() < std::max<std::size_t>(wanted.lanes, 1)) {
		auto core = std::make_shared<Core>();
		auto session = Session::open({.host = server,
			.etcd = {.ca = text(wanted.etcd_ca),
				.certificate = text(wanted.etcd_certificate),
				.key = text(wanted.etcd_key),
				.user = text(wanted.etcd_user),
				.password_file = text(wanted.etcd_password_file)},
			.port = port_default,
			.protection = *protection,
			.device = text(wanted.device),
			.tcp = transport == "tcp",
			.settings = {.rx_depth = 128,
				.tx_depth = 64,
				.eager_max = client.eager_max > 0 ? client.eager_max : eager_max_default}});
		if (!session) return give_up(session.error());
		core->session = std::move(*session);
		auto router = Router::open_now(*core->session, client, {.timeout = timeout, .retry = wanted.no_retry == 0});
		if (!router) return give_up(router.error());
		handles.push_back(std::make_unique<Handle>(std::move(core), std::move(*router)));
	}
	return std::make_unique<Lanes>(std::move(handles));
}

}  // namespace verbena::kv
