// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "bench/rcud/fan_in_relay.h"
#include "bench/rcud/fan_in_sender.h"

namespace verbena::rcud {
namespace {

constexpr std::size_t line = 64;
constexpr auto supervision = std::chrono::milliseconds(1);

}  // namespace

FanInSenders::FanInSenders(
	const lib::OpenDevice& device, const Cell& cell, const Shape& shape, std::uint32_t inline_wanted)
	: device_(device), cell_(cell), words_(std::size_t{cell.senders} * line) {
	region_ = take(lib::make_memory_region(
		device.domain.get(), words_.data(), words_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	senders_.reserve(cell.senders);
	for (std::uint32_t i = 0; i < cell.senders; ++i)
		senders_.emplace_back(ends_.emplace_back(
			device, cell, shape, inline_wanted, i, reinterpret_cast<std::uint64_t*>(words_.data() + i * line), psn_));
}

FanInAddress FanInSenders::address() const {
	return {.psn = psn_,
		.qkey = Endpoint::default_qkey,
		.lid = device_.port.lid,
		.mtu = device_.mtu_bytes(),
		.gid = lib::format_gid(device_.choice.gid),
		.credit_words = reinterpret_cast<std::uint64_t>(words_.data()),
		.credit_rkey = region_->rkey};
}

std::vector<std::uint32_t> FanInSenders::qpns() const {
	std::vector<std::uint32_t> numbers;
	for (std::uint32_t i = 0; i < cell_.qps; ++i) numbers.push_back(ends_[i % cell_.senders].qp_num(i / cell_.senders));
	return numbers;
}

void FanInSenders::connect(const FanInAddress& remote, std::span<const std::uint32_t> remote_qpns) {
	for (auto& end : ends_) end.connect(remote, remote_qpns);
	for (auto& sender : senders_) sender.post_receives();
}

void FanInSenders::run(const Run& run, const Watcher& watcher, Sent& sent) {
	Relay relay(watcher);
	std::vector<Sent> parts(senders_.size());
	std::exception_ptr failure;  // the first one: the others follow from it
	std::once_flag failed;
	std::atomic<std::size_t> running = senders_.size() - 1;
	const auto guarded = [&](const auto& work) {
		try {
			work();
		} catch (...) {
			std::call_once(failed, [&] { failure = std::current_exception(); });
			relay.abandon();
		}
	};
	{
		std::vector<std::jthread> threads;
		for (std::size_t i = 1; i < senders_.size(); ++i)
			threads.emplace_back([&, i] {
				std::uint32_t answers_seen = 0;
				guarded([&] {
					senders_[i].run(
						run, [&](bool silent) { return relay.look_from_beside(silent, answers_seen); }, parts[i]);
				});
				running.fetch_sub(1);
			});
		guarded([&] {
			senders_[0].run(run, [&](bool silent) { return relay.look(silent); }, parts[0]);
			for (; running.load() > 0; std::this_thread::sleep_for(supervision)) relay.look(false);
		});
	}
	sent = {};
	for (const Sent& part : parts) {
		sent.posted += part.posted;
		sent.completed += part.completed;
		sent.consumed += part.consumed;
		sent.took_ns = std::max(sent.took_ns, part.took_ns);
		sent.latency_ns.merge(part.latency_ns);
	}
	if (failure) std::rethrow_exception(failure);
}

}  // namespace verbena::rcud
