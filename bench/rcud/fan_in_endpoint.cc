// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/fan_in_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace verbena::rcud {
namespace {

Failure failure_of_one(const Cell& cell, std::uint32_t number, const std::string& why) {
	return Failure(fmt::format("queue pair {} of {}: {}", number + 1, cell.qps, why));
}

lib::RemoteEnd end_of(const FanInAddress& address) {
	return {.lid = static_cast<std::uint16_t>(address.lid), .gid = take(lib::parse_gid(address.gid))};
}

}  // namespace

FanInVerbs::FanInVerbs(const lib::OpenDevice& device, const Buffer& memory, std::size_t completions)
	: device_(device),
	  cq_(take(lib::make_completion_queue(device.context.get(), static_cast<int>(completions)))),
	  region_(
		  take(lib::make_memory_region(device.domain.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE))) {}

void FanInVerbs::make(const Cell& cell, const lib::QueuePairOptions& options, std::uint32_t psn, std::uint32_t number) {
	auto made = lib::make_queue_pair(device_, cq_.get(), options);
	lib::Done started;
	if (made)
		started = options.type == IBV_QPT_UD ? lib::ud_start(made->qp.get(), device_, Endpoint::default_qkey, psn)
											 : lib::rc_to_init(made->qp.get(), device_, IBV_ACCESS_REMOTE_WRITE);
	if (!made || !started) throw failure_of_one(cell, number, made ? started.error() : made.error());
	qps_.push_back(std::move(made->qp));
}

void FanInVerbs::connect_one(std::uint32_t i, const Cell& cell, std::uint32_t psn, std::uint32_t number) {
	lib::RemoteEnd there = end_of(remote_);
	there.qpn = remote_qpns_[i];
	there.psn = remote_.psn;
	const auto connected = lib::rc_connect(
		qps_[i].get(), device_, there, {.mtu_bytes = std::min(remote_.mtu, device_.mtu_bytes()), .local_psn = psn});
	if (!connected) throw failure_of_one(cell, number, connected.error());
}

void FanInVerbs::make_address_handle() {
	ah_ = take(lib::make_address_handle(device_.domain.get(), lib::address_of(device_, end_of(remote_))));
}

FanInSenderEndpoint::FanInSenderEndpoint(const lib::OpenDevice& device, const Cell& cell, const Shape& shape,
	std::uint32_t inline_wanted, std::uint32_t number, std::uint64_t* words, std::uint32_t psn)
	: FanInSenderMemory(cell, shape, number, words),
	  FanInVerbs(device, memory_, window_of_sender(cell) + 1 + credit_receives),
	  psn_(psn) {
	for (std::uint32_t i = 0; i < own; ++i)
		make(cell,
			{.type = is_ud() ? IBV_QPT_UD : IBV_QPT_RC,
				.send_depth = room + 1,
				.receive_depth = i == 0 ? std::max(1u, credit_receives) : 1,
				.inline_wanted = inline_wanted},
			psn, i * cell.senders + number);
	ibv_qp_attr attributes{};
	ibv_qp_init_attr made{};
	sends_inline =
		ibv_query_qp(qps_.back().get(), &attributes, IBV_QP_CAP, &made) == 0 && cell.msg <= made.cap.max_inline_data;
}

void FanInSenderEndpoint::connect(const FanInAddress& remote, std::span<const std::uint32_t> remote_qpns) {
	remote_ = remote;
	if (is_ud()) {
		make_address_handle();
		remote_qpns_.assign(own, remote_qpns.front());
		return;
	}
	for (std::uint32_t i = 0; i < own; ++i) {
		const std::uint32_t of_cell = i * cell.senders + number;
		remote_qpns_.push_back(remote_qpns[of_cell]);
		connect_one(i, cell, psn_, of_cell);
	}
}

void FanInSenderEndpoint::post_receives(ibv_recv_wr* list) {
	ibv_recv_wr* bad = nullptr;
	check_posted(ibv_post_recv(qps_.front().get(), list, &bad), "ibv_post_recv");
}

FanInReceiverEndpoint::FanInReceiverEndpoint(
	const lib::OpenDevice& device, const Cell& cell, const Shape& shape, std::uint32_t inline_wanted)
	: FanInReceiverMemory(cell, shape),
	  FanInVerbs(device, memory_, shape.receive_depth + std::size_t{credit_queues} * words_per_queue) {
	if (!is_ud()) {
		ibv_srq_init_attr attributes{.attr = {.max_wr = shape.receive_depth, .max_sge = 1}};
		shared_ = take(lib::owned_or_failure<decltype(shared_)>(
			ibv_create_srq(device.domain.get(), &attributes), "ibv_create_srq"));
	}
	for (std::uint32_t i = 0; i < (is_ud() ? 1 : cell.qps); ++i) {
		const bool sends_credits = i < cell.senders;
		make(cell,
			{.type = is_ud() ? IBV_QPT_UD : IBV_QPT_RC,
				.send_depth = sends_credits ? words_per_queue : 1,
				.receive_depth = shape.receive_depth,
				.inline_wanted = sends_credits ? inline_wanted : 0,
				.shared_receives = shared_.get()},
			psn_, i);
	}
}

FanInAddress FanInReceiverEndpoint::address() const {
	return {.psn = psn_,
		.qkey = Endpoint::default_qkey,
		.lid = device_.port.lid,
		.mtu = device_.mtu_bytes(),
		.gid = lib::format_gid(device_.choice.gid)};
}

std::vector<std::uint32_t> FanInReceiverEndpoint::qpns() const {
	std::vector<std::uint32_t> numbers;
	for (const auto& qp : qps_) numbers.push_back(qp->qp_num);
	return numbers;
}

void FanInReceiverEndpoint::connect(const FanInAddress& remote, std::vector<std::uint32_t> remote_qpns) {
	remote_ = remote;
	remote_qpns_ = std::move(remote_qpns);
	if (is_ud()) return make_address_handle();
	for (std::uint32_t i = 0; i < qps_.size(); ++i) connect_one(i, cell, psn_, i);
}

void FanInReceiverEndpoint::post_receives(ibv_recv_wr* list) {
	ibv_recv_wr* bad = nullptr;
	if (is_ud()) check_posted(ibv_post_recv(qps_.front().get(), list, &bad), "ibv_post_recv");
	else check_posted(ibv_post_srq_recv(shared_.get(), list, &bad), "ibv_post_srq_recv");
}

}  // namespace verbena::rcud
