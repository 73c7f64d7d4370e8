// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/random.h"
#include "bench/rcud/requests.h"

namespace verbena::rcud {
namespace {

using namespace std::chrono_literals;
using bench::Message;
using bench::RoundTrip;

// More for each queue pair of a cell with many.
constexpr auto patience_of_queue_pair = 10ms;
// For rdma_cm's part of a set-up: less than answer_patience, so that its error is the one reported.
constexpr auto connect_patience = 20s;

}  // namespace

Client::Client(lib::OpenDevice& device, bench::Control& control, RoundTrip* page)
	: device_(device), control_(control), page_(page) {
	control_.send({{"type", "hello"}, {"protocol", protocol_name}, {"version", protocol_version}});
	const Message hello = expect("hello", answer_patience);
	if (const int version = field<int>(hello, "version"); version != protocol_version)
		throw PeerLost(bench::version_mismatch(version, protocol_version));
	peer_ = field<PeerInfo>(hello, "device");
}

Limits Client::limits() const {
	return {.mtu = std::min(device_.mtu_bytes(), peer_.mtu),
		.queue_depth_max = std::min(queue_depth_of(device_), peer_.queue_depth),
		.qps_max = std::min(qps_of(device_), peer_.qps)};
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

Sent Client::run_once(const Send& send, std::uint64_t total, std::uint64_t seed, Repetition& result) {
	// Memory that was never written looks like stamps of run 0.
	if (++run_number_ == 0) ++run_number_;
	const Run run{.number = run_number_, .total = total, .seed = seed};
	if (page_ != nullptr) page_->delivered().store(0);
	asked_ = false;
	control_.send({{"type", "run"}, {"number", run.number}, {"total", run.total}, {"seed", run.seed}});
	expect("ready", answer_patience);

	Sent sent;
	const auto note = [&] {
		result.posted = sent.posted;
		result.completed = sent.completed;
		const std::uint64_t counted = page_ != nullptr ? page_->delivered().load() : 0;
		result.delivery = {.delivered = std::max({sent.consumed, sent.read.delivered, std::min(counted, sent.posted)})};
	};
	try {
		send(run, [&](bool silent) { return look(silent); }, sent);
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
		end.emplace(device_, cell, shape, Side::sender, settings.inline_bytes);
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
	end.emplace(call->connection->device, cell, shape, Side::sender, settings.inline_bytes, Endpoint::default_qkey,
		call->connection->id.get());
	rcud::call(call->channel.get(), *call->connection, *end, {.number = ticket_}, connect_patience);
	expect("endpoint", answer_patience);
}

std::unique_ptr<FanInSenders> Client::connect_fan_in(const Cell& cell, const Shape& shape, const Settings& settings) {
	auto senders = std::make_unique<FanInSenders>(device_, cell, shape, settings.inline_bytes);
	control_.send({{"type", "cell"}, {"cell", cell}, {"shape", shape}, {"inline_bytes", settings.inline_bytes},
		{"delay_ns", settings.receiver_delay_ns}, {"address", senders->address()}});
	send_qpns(control_, senders->qpns());
	const auto patience = answer_patience + cell.qps * patience_of_queue_pair;
	const auto address = field<FanInAddress>(expect("endpoint", patience), "address");
	senders->connect(
		address, receive_qpns(cell.mode == Mode::rc ? cell.qps : 1, [&] { return expect("qpns", answer_patience); }));
	return senders;
}

void Client::run_all(const Send& send, const Cell& cell, const Settings& settings, Repetition& result) {
	const std::uint64_t seed = settings.verify ? secure_random<std::uint64_t>() | 1 : 0;
	const auto rate = [&](const Sent& sent) { return cell.op == Op::read ? sent.read.mops() : result.delivery.mops(); };
	// Each queue pair has carried a message before the measured run, and carries one in it.
	const std::uint64_t least = cell.qps;
	const std::uint64_t warmup = settings.warmup > 0 ? settings.warmup
		: settings.min_time_s > 0                    ? settings.iters / 10 + 1
													 : 0;
	result.iters = std::max(settings.iters, least);
	if (warmup > 0 || least > 0) {
		const double mops = rate(run_once(send, std::max(warmup, least), seed, result));
		result.iters = std::max(result.iters, static_cast<std::uint64_t>(settings.min_time_s * mops * 1e6));
	}
	if (settings.verify) result.mops_unverified = rate(run_once(send, result.iters, 0, result));
	const Sent sent = run_once(send, result.iters, seed, result);
	if (cell.op == Op::read) result.delivery = sent.read;
	result.latency_ns = sent.latency_ns;
	result.sender_ns = sent.took_ns;
}

void Client::measure(const Cell& cell, const Shape& shape, const Settings& settings, Repetition& result) {
	result = {.iters = settings.iters, .verified = settings.verify};
	pending_.reset();
	try {
		result.rtt_before_ns = round_trip();
		std::optional<Call> call;
		std::optional<Endpoint> end;
		std::unique_ptr<FanInSenders> senders;
		if (cell.qps > 0) {
			senders = connect_fan_in(cell, shape, settings);
			run_all([&](auto&&... run) { senders->run(run...); }, cell, settings, result);
		} else {
			connect(call, end, cell, shape, settings);
			Sender sender(*end);
			sender.post_receives();
			run_all([&](auto&&... run) { sender.run(run...); }, cell, settings, result);
		}
		control_.send({{"type", "close"}});
		expect("closed", answer_patience);
		if (call) rdma_disconnect(call->connection->id.get());
		result.rtt_after_ns = round_trip();
	} catch (const PeerLost& lost) {
		result.failure = lost.what();
		throw;
	} catch (const Failure& failure) {
		result.failure = failure.what();
	} catch (const std::bad_alloc&) {
		result.failure = no_memory;
	}
	if (result.failure.empty()) return;
	// Bring the server back to the state between cells.
	control_.send({{"type", "close"}});
	while (control_.receive(answer_patience)["type"] != "closed") {}
}

std::optional<double> Client::round_trip() {
	if (page_ == nullptr) return std::nullopt;
	page_->reset();
	control_.send({{"type", "round_trip"}});
	const auto took = page_->ask();
	expect("answered", answer_patience);
	return took;
}

}  // namespace verbena::rcud
