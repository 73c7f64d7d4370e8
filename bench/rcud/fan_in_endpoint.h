// SPDX-License-Identifier: Apache-2.0
// The ends of many queue pairs (fan_in.h) on a device: a sender's, and the receiver's.
//
// Threads: one thread makes and connects all senders of a process; then each is used by its own.
// Lifetime: the device must outlive them.
// Errors: Failure; one about a queue pair says which of how many it is.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/rcud/endpoint.h"
#include "bench/rcud/fan_in_end.h"

namespace verbena::rcud {

// The common part: a completion queue, a memory region, and the way to the other end.
class FanInVerbs {
public:
	int poll(ibv_wc* completions) { return rcud::poll(cq_.get(), completions); }
	static std::uint64_t now() { return now_ns(); }
	void post_send(std::uint32_t queue_pair, ibv_send_wr& request) {
		ibv_send_wr* bad = nullptr;
		check_posted(ibv_post_send(qps_[queue_pair].get(), &request, &bad), "ibv_post_send");
	}
	std::uint32_t lkey() const { return region_->lkey; }
	std::uint32_t qp_num(std::uint32_t queue_pair) const { return qps_[queue_pair]->qp_num; }
	std::uint32_t remote_qpn(std::uint32_t queue_pair) const { return remote_qpns_[queue_pair]; }
	const FanInAddress& remote() const { return remote_; }
	ibv_ah* address_handle() const { return ah_.get(); }

protected:
	FanInVerbs(const lib::OpenDevice& device, const Buffer& memory, std::size_t completions);

	// Makes the cell's queue pair `number`.
	void make(const Cell& cell, const lib::QueuePairOptions& options, std::uint32_t psn, std::uint32_t number);
	// Connects queue pair i (RC), which is the cell's queue pair `number`.
	void connect_one(std::uint32_t i, const Cell& cell, std::uint32_t psn, std::uint32_t number);
	void make_address_handle();

	const lib::OpenDevice& device_;
	lib::CompletionQueue cq_;
	lib::MemoryRegion region_;
	FanInAddress remote_;
	std::vector<std::uint32_t> remote_qpns_;

private:
	lib::AddressHandle ah_;

protected:
	std::unique_ptr<ibv_srq, lib::Destroyer<ibv_destroy_srq>> shared_;  // the receiver's, with RC
	std::vector<lib::QueuePair> qps_;
};

// One sender's. Its queue pair i is the cell's queue pair i * senders + number.
class FanInSenderEndpoint : public FanInSenderMemory, public FanInVerbs {
public:
	FanInSenderEndpoint(const lib::OpenDevice& device, const Cell& cell, const Shape& shape,
		std::uint32_t inline_wanted, std::uint32_t number, std::uint64_t* words, std::uint32_t psn);

	// `remote_qpns`: the receiver's, of the whole cell.
	void connect(const FanInAddress& remote, std::span<const std::uint32_t> remote_qpns);

	// For UD credits, which arrive at the first queue pair.
	void post_receives(ibv_recv_wr* list);

private:
	const std::uint32_t psn_;
};

static_assert(FanInEnd<FanInSenderEndpoint>);

class FanInReceiverEndpoint : public FanInReceiverMemory, public FanInVerbs {
public:
	FanInReceiverEndpoint(
		const lib::OpenDevice& device, const Cell& cell, const Shape& shape, std::uint32_t inline_wanted);

	FanInAddress address() const;
	// One for each queue pair of RC, a single one for UD.
	std::vector<std::uint32_t> qpns() const;
	// Connects to all senders' queue pairs.
	void connect(const FanInAddress& remote, std::vector<std::uint32_t> remote_qpns);

	void post_receives(ibv_recv_wr* list);

private:
	const std::uint32_t psn_ = lib::random_psn();
};

static_assert(FanInEnd<FanInReceiverEndpoint>);

}  // namespace verbena::rcud
