// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/session.h"

#include <fmt/format.h>

#include <chrono>

namespace verbena::connect {

using bench::Control;
using bench::Failure;
using bench::PeerLost;
using namespace std::chrono_literals;

namespace {

constexpr auto answer_patience = 30s;
// Between repetitions a server waits until its client sends something or dies.
constexpr auto idle_patience = 24h;
constexpr Nanoseconds count_patience = 10'000'000'000;

// A field of a message; the peer is untrusted, so the field may be missing or of another type.
template <class T> T field(const bench::Message& message, const char* name) {
	try {
		return message.at(name).get<T>();
	} catch (const nlohmann::json::exception&) {
		throw PeerLost(bench::bad_field(message, name));
	}
}

}  // namespace

// ---- client

Client::Client(Control& control, bench::RoundTrip* page, std::string_view connect) : control_(control), page_(page) {
	control_.send(
		{{"type", "hello"}, {"protocol", "verbena-connect"}, {"version", protocol_version}, {"connect", connect}});
	const bench::Message hello = expect("hello");
	if (const int version = field<int>(hello, "version"); version != protocol_version)
		throw Failure(bench::version_mismatch(version, protocol_version));
	port_ = field<std::uint16_t>(hello, "port");
}

bench::Message Client::expect(std::string_view type) {
	bench::Message message = control_.receive(answer_patience);
	if (message["type"] == "failed") throw Failure("the other process: " + field<std::string>(message, "text"));
	if (message["type"] != type) throw PeerLost(bench::wrong_answer(message, type));
	return message;
}

Account Client::account(std::uint64_t established, std::uint64_t disconnected) {
	control_.send({{"type", "account"}, {"established", established}, {"disconnected", disconnected}});
	const bench::Message answer = expect("account");
	return {.established = field<std::uint64_t>(answer, "established"),
		.disconnected = field<std::uint64_t>(answer, "disconnected"),
		.failed = field<std::uint64_t>(answer, "failed"),
		.trouble = field<std::string>(answer, "trouble")};
}

std::optional<double> Client::round_trip() {
	if (page_ == nullptr) return std::nullopt;
	page_->reset();
	control_.send({{"type", "round_trip"}});
	const auto took = page_->ask();
	expect("answered");
	return took;
}

void Client::measure(Connector& connector, Repetition& r) {
	try {
		r.round_trip_ns = round_trip();
		const auto compare = [&](const Account& now) {
			r.account = {.established = now.established - seen_.established,
				.disconnected = now.disconnected - seen_.disconnected,
				.failed = now.failed - seen_.failed,
				.trouble = now.trouble};
			if (r.account.failed != 0) throw Failure("the other process: " + r.account.trouble);
		};
		connect_all(connector, r);
		compare(account(seen_.established + r.count, seen_.disconnected));
		disconnect_all(connector, r);
		const Account after = account(seen_.established + r.count, seen_.disconnected + r.count);
		compare(after);
		seen_ = after;
	} catch (const Failure& failure) {
		r.failure = failure.what();
		throw;
	}
}

// ---- server

void serve(
	Control& control, bench::RoundTrip* page, const std::function<std::unique_ptr<Acceptor>(std::string_view)>& make) {
	try {
		const bench::Message hello = control.receive(answer_patience);
		if (!bench::is_hello(hello, "verbena-connect")) throw Failure(bench::other_protocol);
		std::unique_ptr<Acceptor> acceptor;
		try {
			acceptor = make(field<std::string>(hello, "connect"));
		} catch (const Failure& failure) {
			control.send({{"type", "failed"}, {"text", failure.what()}});
			throw;
		}
		control.send({{"type", "hello"}, {"version", protocol_version}, {"port", acceptor->port()}});
		while (true) {
			const bench::Message message = control.receive(idle_patience);
			if (message["type"] == "round_trip") {
				if (page != nullptr) page->answer();
				control.send({{"type", "answered"}});
			} else if (message["type"] == "account") {
				const Account now = acceptor->account(field<std::uint64_t>(message, "established"),
					field<std::uint64_t>(message, "disconnected"), count_patience);
				control.send({{"type", "account"}, {"established", now.established}, {"disconnected", now.disconnected},
					{"failed", now.failed}, {"trouble", now.trouble}});
			} else {
				throw PeerLost(bench::other_protocol);
			}
		}
	} catch (const PeerLost&) {
		return;  // the normal end: the client has disconnected
	}
}

}  // namespace verbena::connect
